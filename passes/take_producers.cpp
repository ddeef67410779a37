#include "passes/take_producers.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "ir/expand.h"
#include "passes/fusible.h"
#include "passes/views.h"

namespace anydim::passes {

using namespace ir;

namespace {

// Producers that may join a group, in the order of their users; a producer that must wait for
// another user is met again when that one has joined.
class Frontier {
 public:
  void open(const FusionBlock& block, std::size_t member) {
    const Binding& binding = block.binding(member);
    for (std::size_t i = 0; i < binding.operands.size(); ++i)
      if (binding.operands[i] != no_value && block.graph().producer(binding.operands[i]) >= 0)
        open_.emplace(member, i);
  }
  std::optional<std::pair<std::size_t, std::size_t>> take() {
    if (open_.empty()) return std::nullopt;
    return open_.extract(open_.begin()).value();
  }

 private:
  std::set<std::pair<std::size_t, std::size_t>> open_;  // members and their operands
};

}  // namespace

struct ProducerTaker::Growth {
  Members members;
  Frontier frontier;
};

void ProducerTaker::take(Members& members, const std::vector<ValueId>& outputs) const {
  block_.add_literals(members);
  const std::set<ValueId> product_operands = products_.operands_of(block_.graph(), members);
  Growth grown{members, {}};
  for (std::size_t member : members) grown.frontier.open(block_, member);
  Members refused;
  for (std::size_t batch = most_members;;) {
    Growth more = grown;
    std::vector<std::size_t> taken;
    while (taken.size() < batch && more.members.size() < most_members) {
      const auto source = next_producer(more, refused, product_operands);
      if (!source) break;
      taken.push_back(*source);
      join(more, *source);
    }
    if (taken.empty()) break;
    if (block_.has_form(more.members, outputs)) {
      grown = std::move(more);
      batch = std::max<std::size_t>(2 * batch, 1);
    } else {
      batch = taken.size() / 2;
      if (taken.size() == 1) {
        refused.insert(taken[0]);
        batch = 1;
      }
    }
  }
  members = std::move(grown.members);
}

void ProducerTaker::join(Growth& grown, std::size_t source) const {
  Members joining{source};
  block_.add_literals(joining);
  for (std::size_t member : joining)
    if (grown.members.insert(member).second) grown.frontier.open(block_, member);
}

std::optional<std::size_t> ProducerTaker::next_producer(
    Growth& grown, const Members& refused, const std::set<ValueId>& product_operands) const {
  while (const auto place = grown.frontier.take()) {
    const ValueId input = block_.binding(place->first).operands[place->second];
    const auto source = static_cast<std::size_t>(block_.graph().producer(input));
    if (grown.members.contains(source) || refused.contains(source)) continue;
    if (may_take(grown.members, source, product_operands.contains(input))) return source;
  }
  return std::nullopt;
}

bool ProducerTaker::may_take(const Members& members, std::size_t source, bool feeds_product) const {
  const Binding& binding = block_.binding(source);
  if (groups_[source] >= 0 || stays_outside(binding)) return false;
  const auto is_read_often = [&] {
    return std::ranges::any_of(binding.results,
                               [&](ValueId result) { return block_.is_read_often(result); });
  };
  // Products pack what windows lie over, reductions read it again for each place of a window.
  if (!feeds_product && borders_with_elements(binding) && is_read_often()) return false;
  if (binding.op == Op::pad && slide_elsewhere(binding)) return false;
  if (is_free(block_.function(), binding)) return true;
  if (products_.makes_weight_real(block_.graph(), binding)) return true;
  if (feeds_product && is_rounded_when_read(members, binding)) return true;
  if (feeds_product || !is_pointwise(binding) || binding.op == Op::concat) return false;
  if (is_read_often()) return false;
  if (binding.op == Op::mul && !block_.made_real_by(binding.results[0]).empty()) return true;
  return is_read_only_in(members, binding) || is_mask_arithmetic(members, binding);
}

// Whether windows lie over the padded tensor that slide along other axes alone: each has the border
// inside, so that no place of it would be read without a question.
bool ProducerTaker::slide_elsewhere(const Binding& pad) const {
  const std::size_t rank = block_.function().tensor_type(pad.results[0]).rank();
  const std::vector<std::size_t> padded = normalised_axes(pad, rank);
  std::vector<std::size_t> open = block_.graph().users(pad.results[0]);
  while (!open.empty()) {
    const Binding& user = block_.binding(open.back());
    open.pop_back();
    if (user.op == Op::windows)
      return std::ranges::none_of(normalised_axes(user, rank), [&](std::size_t axis) {
        return std::ranges::find(padded, axis) != padded.end();
      });
    if (user.op == Op::pad || is_widening(block_.function(), user)) {
      const auto& users = block_.graph().users(user.results[0]);
      open.insert(open.end(), users.begin(), users.end());
    }
  }
  return false;
}

// A conversion of what lies in memory anyway (a decoder's keys of earlier tokens) costs attention
// less than another pass over memory.
bool ProducerTaker::is_rounded_when_read(const Members& members, const Binding& binding) const {
  return block_.facts().rounds_when_read && is_narrowing(block_.function(), binding) &&
         attends(members) && lies_in_memory(binding.operands[0]);
}

bool ProducerTaker::lies_in_memory(ValueId value) const {
  if (block_.graph().producer(value) < 0 || needed_.contains(value)) return true;
  const Binding& source = block_.binding(static_cast<std::size_t>(block_.graph().producer(value)));
  return stays_outside(source) || (is_view(source.op) && lies_in_memory(source.operands[0]));
}

bool ProducerTaker::attends(const Members& members) const {
  return std::ranges::any_of(
      members, [&](std::size_t member) { return block_.binding(member).op == Op::attention; });
}

// Views are taken in by all that read them, so a value that one group reads through a view may be
// read by others through the same view.
bool ProducerTaker::is_read_only_in(const Members& members, const Binding& binding) const {
  return std::ranges::all_of(binding.results, [&](ValueId result) {
    return !needed_.contains(result) &&
           std::ranges::all_of(block_.graph().users(result), [&](std::size_t user) {
             const Binding& reader = block_.binding(user);
             return members.contains(user) &&
                    (!is_free(block_.function(), reader) || is_read_only_in(members, reader));
           });
  });
}

// Comparisons, logic and selections in front of an attention are cheaper to repeat in every layer
// than to keep as [batch, 1, seq, seq].
bool ProducerTaker::is_mask_arithmetic(const Members& members, const Binding& binding) const {
  return attends(members) && is_cheap_arithmetic(binding);
}

}  // namespace anydim::passes
