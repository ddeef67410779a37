#include "passes/collect_kernels.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "passes/fusible.h"
#include "passes/outline.h"
#include "passes/take_producers.h"

namespace anydim::passes {

using namespace ir;

namespace {

class Collector {
 public:
  Collector(const FusionBlock& block, const Groups& groups, FusedRegions& regions)
      : block_(block), groups_(groups), regions_(regions), needed_(block.graph()),
        producers_(block, groups, needed_) {}

  std::vector<BlockPart> run() {
    for (std::size_t i = groups_.size(); i-- > 0;) {
      if (groups_[i] < 0) {
        add(i);
        continue;
      }
      Members members{i};
      while (i > 0 && groups_[i - 1] == groups_[i]) members.insert(--i);
      add_kernel(std::move(members));
    }
    return std::move(parts_);
  }

 private:
  // Adds a binding that no group has.
  void add(std::size_t position) {
    const Binding& binding = block_.binding(position);
    // Constants that are needed are read as they lie, like larger ones.
    const bool read_as_it_is = binding.op == Op::constant ? needed_.contains(binding.results[0])
                               : binding.op == Op::dim    ? counts_.contains(binding.results[0]) &&
                                                             !needed_.contains(binding.results[0])
                                                       : false;
    if (read_as_it_is) {
      parts_.emplace_back(position);
      return;
    }
    // Control flow whose results nobody reads stays for the sizes that it makes known: dead code
    // is gone.
    const bool wanted = binding.results.empty() || info(binding.op).has(traits::control) ||
                        std::ranges::any_of(binding.results, [&](ValueId id) {
                          return needed_.contains(id) && !made_.contains(id);
                        });
    if (!wanted) return;
    if (!stays_outside(binding)) {
      add_kernel({position});
      return;
    }
    for (std::size_t o = 0; o < binding.operands.size(); ++o) {
      const ValueId operand = binding.operands[o];
      if (operand == no_value) continue;
      const std::ptrdiff_t source = block_.graph().producer(operand);
      const bool literal =
          source >= 0 && block_.binding(static_cast<std::size_t>(source)).op == Op::dim;
      if (literal && info(binding.op).reads_on_host(o)) counts_.insert(operand);
      else needed_.add(operand);
    }
    parts_.emplace_back(position);
  }

  void add_kernel(Members members) {
    std::vector<ValueId> outputs;
    for (std::size_t member : members)
      for (ValueId result : block_.binding(member).results)
        if (needed_.contains(result)) outputs.push_back(result);
    if (outputs.empty()) return;
    producers_.take(members, outputs);
    add_maps(members, outputs);
    share_scalars(members, outputs);
    for (ValueId input : inputs_of(block_.bindings_of(members))) needed_.add(input);
    parts_.emplace_back(FusedKernel{std::move(members), std::move(outputs)});
  }

  // A map that others read too is a second result of the map over the same elements that reads it,
  // rather than a kernel before it whose result is read back.
  void add_maps(Members& members, std::vector<ValueId>& outputs) {
    const std::size_t last = *members.rbegin();
    Members refused;
    while (const auto source = map_before(members, outputs, last, refused)) {
      Members extended = members;
      extended.insert(*source);
      block_.add_literals(extended);
      outputs.push_back(block_.binding(*source).results[0]);
      if (block_.has_form(extended, outputs)) {
        made_.insert(outputs.back());
        members = std::move(extended);
        producers_.take(members, outputs);
      } else {
        outputs.pop_back();
        refused.insert(*source);
      }
    }
  }

  // `last`: where the kernel stands.
  std::optional<std::size_t> map_before(const Members& members, const std::vector<ValueId>& outputs,
                                        std::size_t last, const Members& refused) const {
    const auto is_map = [&](std::size_t at) {
      const Binding& binding = block_.binding(at);
      return is_pointwise(binding) && groups_[at] < 0 && !stays_outside(binding);
    };
    if (!std::ranges::all_of(members, is_map)) return std::nullopt;
    const std::vector<Dim>& space = block_.function().tensor_type(outputs[0]).dims;
    for (const std::size_t member : members) {
      for (const ValueId operand : block_.binding(member).operands) {
        if (operand == no_value || block_.graph().producer(operand) < 0) continue;
        const auto source = static_cast<std::size_t>(block_.graph().producer(operand));
        const Binding& binding = block_.binding(source);
        if (members.contains(source) || refused.contains(source) || !is_map(source) ||
            is_literal(binding) || is_free(block_.function(), binding) ||
            binding.results.size() != 1 || made_.contains(operand) || !needed_.contains(operand) ||
            block_.function().tensor_type(operand).dims != space)
          continue;
        if (is_read_only_later({members, outputs, last}, binding)) return source;
      }
    }
    return std::nullopt;
  }

  struct Kernel {
    const Members& members;
    const std::vector<ValueId>& outputs;
    std::size_t last;  // where it stands
  };

  // By others than the members. Views are taken in by all that read them, but for those that are
  // needed themselves.
  bool is_read_only_later(const Kernel& kernel, const Binding& binding) const {
    const auto is_needed = [&](ValueId id) { return needed_.contains(id); };
    // A member that others need as well is computed at its own place, too.
    const auto is_in_kernel = [&](std::size_t reader) {
      return kernel.members.contains(reader) &&
             std::ranges::none_of(block_.binding(reader).results, [&](ValueId id) {
               return is_needed(id) &&
                      std::ranges::find(kernel.outputs, id) == kernel.outputs.end();
             });
    };
    const auto is_later = [&](std::size_t reader) {
      return reader > kernel.last || is_in_kernel(reader);
    };
    return std::ranges::all_of(binding.results, [&](ValueId result) {
      const auto source = static_cast<std::size_t>(block_.graph().producer(result));
      return std::ranges::all_of(
                 block_.graph().users(result),
                 [&](std::size_t user) {
                   const Binding& reader = block_.binding(user);
                   const bool taken_in = is_free(block_.function(), reader) &&
                                         std::ranges::none_of(reader.results, is_needed);
                   return taken_in ? is_read_only_later(kernel, reader) : is_later(user);
                 }) &&
             std::ranges::all_of(block_.graph().openers(), [&](const auto& opener) {
               return opener.first != source || is_later(opener.second);
             });
    });
  }

  void share_scalars(Members& members, const std::vector<ValueId>& outputs) {
    Members others = members;
    std::erase_if(others,
                  [&](std::size_t member) { return block_.binding(member).op == Op::constant; });
    if (others.empty() || others.size() == members.size()) return;
    // Scales of quantised products differ from layer to layer; the layers are one kernel.
    const bool quantised = std::any_of(others.begin(), others.end(), [&](std::size_t member) {
      const Binding& binding = block_.binding(member);
      return binding.op == Op::matmul &&
             is_integer(block_.function().tensor_type(binding.results[0]).dtype);
    });
    if (quantised && block_.has_form(others, outputs)) {
      members = std::move(others);
      return;
    }
    if (regions_.reads_scalars(block_.key_of(block_.bindings_of(others), outputs),
                               block_.key_of(block_.bindings_of(members), outputs)) &&
        block_.has_form(others, outputs))
      members = std::move(others);
  }

  const FusionBlock& block_;
  const Groups& groups_;
  FusedRegions& regions_;
  NeededValues needed_;
  ProducerTaker producers_;
  std::set<ValueId> counts_;  // literals that control flow reads on the host
  std::set<ValueId> made_;    // by kernels of those that read them
  std::vector<BlockPart> parts_;
};

}  // namespace

std::vector<BlockPart> collect_kernels(const FusionBlock& block, const Groups& groups,
                                       FusedRegions& regions) {
  return Collector(block, groups, regions).run();
}

}  // namespace anydim::passes
