#include "passes/grow_products.h"

#include <algorithm>
#include <optional>

#include "passes/fusible.h"
#include "passes/views.h"

namespace anydim::passes {

using namespace ir;

namespace {

// Of an activation that reads its operand several times; the longest, Mish, has eight.
constexpr std::size_t most_between = 24;

class Grower {
 public:
  explicit Grower(const FusionBlock& block)
      : block_(block), groups_(block.block().bindings.size(), -1) {}

  Groups run() {
    std::ptrdiff_t group = 0;
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      if (groups_[i] >= 0 || !is_anchor(block_.binding(i).op)) continue;
      for (std::size_t member : grown_from(i)) groups_[member] = group;
      ++group;
    }
    return std::move(groups_);
  }

 private:
  Members grown_from(std::size_t anchor) const {
    Members members{anchor};
    ValueId frontier = block_.binding(anchor).results[0];
    while (members.size() < most_members) {
      if (const auto next = next_users(members, frontier)) {
        members.insert(next->begin(), next->end());
        frontier = block_.binding(*next->rbegin()).results[0];
        continue;
      }
      const auto gated = gated_users(members, frontier);
      if (!gated) break;
      members.insert(gated->members.begin(), gated->members.end());
      if (gated->outputs.size() > 1) return members;
      frontier = gated->outputs.front();
    }
    frontier = leave_real(members, frontier);
    add_narrowings(members, frontier);
    add_extremes(members, frontier);
    return members;
  }

  // Integers of 8 bits are kept, and not what is made real of them, where readers may do that
  // themselves. The last of what the members give.
  ValueId leave_real(Members& members, ValueId frontier) const {
    const std::vector<std::size_t> chain = block_.made_real_by(frontier);
    if (chain.empty() || block_.is_read_often(frontier) || feeds_product(frontier)) return frontier;
    const ValueId integers = block_.binding(chain.back()).operands[0];
    const bool inside =
        block_.graph().producer(integers) >= 0 &&
        members.contains(static_cast<std::size_t>(block_.graph().producer(integers)));
    const auto leaves = [&](std::size_t step) {
      const ValueId made = block_.binding(step).results[0];
      return members.contains(step) && !block_.graph().escapes(made) &&
             (made == frontier || block_.graph().users(made).size() == 1);
    };
    if (!inside || !std::ranges::all_of(chain, leaves)) return frontier;
    for (const std::size_t step : chain) members.erase(step);
    return integers;
  }

  bool multiplies(const Members& members) const {
    return std::ranges::any_of(
        members, [&](std::size_t member) { return is_product(block_.binding(member).op); });
  }

  // Who reads the frontier, and where several do, what they make of it up to the one in which all
  // of that meets, as in x * sigmoid(x).
  std::optional<Members> next_users(const Members& members, ValueId frontier) const {
    const auto& users = block_.graph().users(frontier);
    Members extended = members, next, waiting(users.begin(), users.end());
    for (ValueId made = frontier; !waiting.empty();) {
      // What is kept anyway is read back by whoever needs it; going on would only write a second
      // result.
      if (block_.graph().escapes(made)) return std::nullopt;
      const std::size_t user = waiting.extract(waiting.begin()).value();
      if (!may_follow(extended, user)) return std::nullopt;
      const Binding& binding = block_.binding(user);
      if (users.size() > 1 && !info(binding.op).has(traits::elementwise)) return std::nullopt;
      extended.insert(user);
      next.insert(user);
      made = binding.results[0];
      if (waiting.empty()) break;
      if (next.size() == most_between) return std::nullopt;
      const auto& readers = block_.graph().users(made);
      waiting.insert(readers.begin(), readers.end());
    }
    if (next.empty()) return std::nullopt;
    block_.add_literals(extended);
    if (!block_.has_form(extended, {block_.binding(*next.rbegin()).results[0]}))
      return std::nullopt;
    return next;
  }

  struct Gated {
    Members members;
    std::vector<ValueId> outputs;
  };
  // The parts of columns that read a product's end, and what elementwise ops make of them, where
  // that is fewer values than there are parts.
  std::optional<Gated> gated_users(const Members& members, ValueId frontier) const {
    const auto& graph = block_.graph();
    if (graph.escapes(frontier) || !multiplies(members)) return std::nullopt;
    Members extended = members, waiting;
    Gated gated;
    auto& [next, outputs] = gated;
    std::size_t parts = 0;
    const auto add = [&](std::size_t user) {
      extended.insert(user);
      next.insert(user);
      for (const ValueId result : block_.binding(user).results)
        waiting.insert(graph.users(result).begin(), graph.users(result).end());
    };
    for (const std::size_t user : graph.users(frontier)) {
      const Binding& binding = block_.binding(user);
      if (groups_[user] >= 0 || (binding.op != Op::split && binding.op != Op::strided_slice))
        return std::nullopt;
      parts += binding.results.size();
      add(user);
    }
    while (!waiting.empty() && next.size() < most_between) {
      const std::size_t user = waiting.extract(waiting.begin()).value();
      if (next.contains(user) || !info(block_.binding(user).op).has(traits::elementwise) ||
          !may_follow(extended, user))
        continue;
      add(user);
    }
    for (const std::size_t member : next)
      for (const ValueId result : block_.binding(member).results) {
        const bool read_elsewhere = std::ranges::any_of(
            graph.users(result), [&](std::size_t user) { return !next.contains(user); });
        if (graph.escapes(result) || read_elsewhere) outputs.push_back(result);
      }
    if (outputs.empty() || outputs.size() >= parts) return std::nullopt;
    block_.add_literals(extended);
    if (!block_.has_gates(extended, outputs)) return std::nullopt;
    return gated;
  }

  bool may_follow(const Members& members, std::size_t position) const {
    const Binding& user = block_.binding(position);
    if (groups_[position] >= 0 || user.results.size() != 1 || is_product(user.op) ||
        stays_outside(user))
      return false;
    if (!is_pointwise(user) && !is_anchor(user.op)) return false;
    if (!block_.facts().joins_rows && is_anchor(user.op) && multiplies(members)) return false;
    // Products read the narrow value and widen it themselves.
    if (is_widening(block_.function(), user) && feeds_product(user.results[0])) return false;
    return !block_.graph().path_around(members, position);
  }

  // Directly or through views.
  bool feeds_product(ValueId value) const {
    const auto& users = block_.graph().users(value);
    return std::any_of(users.begin(), users.end(), [&](std::size_t user) {
      const Binding& binding = block_.binding(user);
      if (is_product(binding.op)) return true;
      return is_view(binding.op) &&
             std::any_of(binding.results.begin(), binding.results.end(),
                         [&](ValueId result) { return feeds_product(result); });
    });
  }

  // Where others read the wide value too, its conversion to 16 bits is a second, smaller result of
  // the same kernel instead of another pass over memory.
  void add_narrowings(Members& members, ValueId frontier) const {
    for (std::size_t user : block_.graph().users(frontier)) {
      const Binding& binding = block_.binding(user);
      if (groups_[user] >= 0 || !is_narrowing(block_.function(), binding) || members.contains(user))
        continue;
      Members extended = members;
      extended.insert(user);
      if (block_.has_form(extended, {frontier, binding.results[0]})) members = std::move(extended);
    }
  }

  static bool is_extreme(const Binding& binding) {
    return binding.op == Op::reduce_max || binding.op == Op::reduce_min;
  }

  // The largest and the smallest element of each row, by which rows are quantised, are results of
  // the kernel that computes the rows, and of one kernel where that is another's.
  void add_extremes(Members& members, ValueId frontier) const {
    // A product whose rows no one needs whole is computed in blocks of columns too, which share its
    // weights among few rows.
    const bool whole_rows = std::ranges::any_of(members, [&](std::size_t member) {
      return is_anchor(block_.binding(member).op) && !is_product(block_.binding(member).op);
    });
    if (multiplies(members) && !whole_rows) return;
    std::vector<ValueId> outputs{frontier};
    std::vector<std::size_t> users = block_.graph().users(frontier);
    if (const Binding& only = block_.binding(*members.begin());
        members.size() == 1 && is_extreme(only))
      users = block_.graph().users(only.operands[0]);
    for (std::size_t user : users) {
      const Binding& binding = block_.binding(user);
      if (groups_[user] >= 0 || members.contains(user) || !is_extreme(binding)) continue;
      Members extended = members;
      extended.insert(user);
      outputs.push_back(binding.results[0]);
      if (block_.has_form(extended, outputs)) members = std::move(extended);
      else outputs.pop_back();
    }
  }

  const FusionBlock& block_;
  Groups groups_;
};

}  // namespace

Groups grow_products(const FusionBlock& block) { return Grower(block).run(); }

}  // namespace anydim::passes
