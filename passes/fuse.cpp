#include "passes/fuse.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>

#include "ir/error.h"
#include "ir/loops/loop_form.h"
#include "passes/fused_regions.h"
#include "passes/fusible.h"
#include "passes/fusion_graph.h"
#include "passes/fusion_limits.h"
#include "passes/outline.h"
#include "passes/product_operands.h"
#include "passes/rewrite.h"
#include "passes/subgraph_key.h"
#include "passes/views.h"

namespace anydim::passes {

using namespace ir;

namespace {

// Bindings of one kernel: deriving its form takes time and stack by their number.
constexpr std::size_t most_members = 512;

// ---- One block ----

struct FunctionFacts {
  std::vector<bool> constants;  // results of `constant`
  std::unordered_set<ValueId> in_types;
  bool joins_rows = true;         // Backend::joins_rows_to_products()
  bool rounds_when_read = false;  // Backend::rounds_keys_and_values()
};

class BlockFuser {
 public:
  BlockFuser(FusedRegions& regions, Function& function, Block& block, const FunctionFacts& facts)
      : known_(regions), function_(function), block_(block), facts_(facts),
        products_(function, block, facts.constants) {}

  void run() {
    if (block_.bindings.empty()) return;
    grow_forwards();
    reorder();
    collect_backwards();
  }

 private:
  using Members = std::set<std::size_t>;

  std::vector<Binding> bindings_of(const Members& members) const {
    std::vector<Binding> list;
    for (std::size_t member : members) list.push_back(block_.bindings[member]);
    return list;
  }

  bool has_form(const Members& members, const std::vector<ValueId>& outputs) const {
    std::vector<Binding> list = bindings_of(members);
    auto [found, fresh] =
        forms_.try_emplace(subgraph_key(function_, list, outputs, facts_.constants), false);
    if (fresh) {
      LoopFormResult result = derive_loop_form(function_, list, inputs_of(list), outputs);
      found->second = result.form && is_small(*result.form);
    }
    return found->second;
  }

  // ---- Forwards ----

  void grow_forwards() {
    FusionGraph graph(function_, block_, facts_.in_types);
    owner_.assign(block_.bindings.size(), -1);
    for (std::size_t i = 0; i < block_.bindings.size(); ++i) {
      if (owner_[i] >= 0 || !is_anchor(block_.bindings[i].op)) continue;
      Members members{i};
      ValueId frontier = block_.bindings[i].results[0];
      while (members.size() < most_members) {
        const auto next = next_user(graph, members, frontier);
        if (!next) break;
        members.insert(*next);
        frontier = block_.bindings[*next].results[0];
      }
      add_narrowings(graph, members, frontier);
      add_extremes(graph, members, frontier);
      for (std::size_t member : members) owner_[member] = groups_;
      ++groups_;
    }
  }

  bool multiplies(const Members& members) const {
    return std::ranges::any_of(
        members, [&](std::size_t member) { return is_product(block_.bindings[member].op); });
  }

  std::optional<std::size_t> next_user(const FusionGraph& graph, const Members& members,
                                       ValueId frontier) const {
    // What is kept anyway is read back by whoever needs it; going on would only write a second
    // result.
    if (graph.escapes(frontier)) return std::nullopt;
    const auto& users = graph.users(frontier);
    if (users.size() != 1 || owner_[users[0]] >= 0) return std::nullopt;
    const Binding& user = block_.bindings[users[0]];
    if (user.results.size() != 1 || is_product(user.op) || stays_outside(user)) return std::nullopt;
    if (!is_pointwise(user) && !is_anchor(user.op)) return std::nullopt;
    if (!facts_.joins_rows && is_anchor(user.op) && multiplies(members)) return std::nullopt;
    // Products read the narrow value and widen it themselves.
    if (is_widening(function_, user) && feeds_product(graph, user.results[0])) return std::nullopt;
    if (graph.path_around(members, users[0])) return std::nullopt;
    Members extended = members;
    extended.insert(users[0]);
    add_literals(graph, extended);
    if (!has_form(extended, {user.results[0]})) return std::nullopt;
    return users[0];
  }

  // Directly or through views.
  bool feeds_product(const FusionGraph& graph, ValueId value) const {
    const auto& users = graph.users(value);
    return std::any_of(users.begin(), users.end(), [&](std::size_t user) {
      const Binding& binding = block_.bindings[user];
      if (is_product(binding.op)) return true;
      return is_view(binding.op) &&
             std::any_of(binding.results.begin(), binding.results.end(),
                         [&](ValueId result) { return feeds_product(graph, result); });
    });
  }

  // Where others read the wide value too, its conversion to 16 bits is a second, smaller result of
  // the same kernel instead of another pass over memory.
  void add_narrowings(const FusionGraph& graph, Members& members, ValueId frontier) const {
    for (std::size_t user : graph.users(frontier)) {
      const Binding& binding = block_.bindings[user];
      if (owner_[user] >= 0 || !is_narrowing(function_, binding) || members.contains(user))
        continue;
      Members extended = members;
      extended.insert(user);
      if (has_form(extended, {frontier, binding.results[0]})) members = std::move(extended);
    }
  }

  static bool is_extreme(const Binding& binding) {
    return binding.op == Op::reduce_max || binding.op == Op::reduce_min;
  }

  // The largest and the smallest element of each row, by which rows are quantised, are results of
  // the kernel that computes the rows, and of one kernel where that is another's.
  void add_extremes(const FusionGraph& graph, Members& members, ValueId frontier) const {
    // A product whose rows no one needs whole is computed in blocks of columns too, which share its
    // weights among few rows.
    const bool whole_rows = std::ranges::any_of(members, [&](std::size_t member) {
      return is_anchor(block_.bindings[member].op) && !is_product(block_.bindings[member].op);
    });
    if (multiplies(members) && !whole_rows) return;
    std::vector<ValueId> outputs{frontier};
    std::vector<std::size_t> users = graph.users(frontier);
    if (const Binding& only = block_.bindings[*members.begin()];
        members.size() == 1 && is_extreme(only))
      users = graph.users(only.operands[0]);
    for (std::size_t user : users) {
      const Binding& binding = block_.bindings[user];
      if (owner_[user] >= 0 || members.contains(user) || !is_extreme(binding)) continue;
      Members extended = members;
      extended.insert(user);
      outputs.push_back(binding.results[0]);
      if (has_form(extended, outputs)) members = std::move(extended);
      else outputs.pop_back();
    }
  }

  // Literals that members read belong to the group: they cost nothing, and an op is understood only
  // together with all of them.
  void add_literals(const FusionGraph& graph, Members& members) const {
    Members found;
    for (std::size_t member : members)
      for (std::size_t o = 0; o < block_.bindings[member].operands.size(); ++o) {
        const ValueId operand = block_.bindings[member].operands[o];
        if (operand == no_value || graph.producer(operand) < 0 ||
            is_offsets(block_.bindings[member].op, o))
          continue;
        auto source = static_cast<std::size_t>(graph.producer(operand));
        if (is_literal(block_.bindings[source]) && !stays_outside(block_.bindings[source]))
          found.insert(source);
      }
    members.merge(found);
  }

  void reorder() {
    FusionGraph graph(function_, block_, facts_.in_types);
    std::vector<std::size_t> order = contiguous_order(graph, block_, owner_);
    std::vector<Binding> bindings;
    std::vector<std::ptrdiff_t> owner;
    for (std::size_t i : order) {
      bindings.push_back(std::move(block_.bindings[i]));
      owner.push_back(owner_[i]);
    }
    block_.bindings = std::move(bindings);
    owner_ = std::move(owner);
  }

  // ---- Backwards ----

  void collect_backwards() {
    FusionGraph graph(function_, block_, facts_.in_types);
    std::vector<Binding> reversed;
    for (std::size_t i = block_.bindings.size(); i-- > 0;) {
      if (owner_[i] >= 0) {
        Members members;
        std::size_t first = i;
        while (first > 0 && owner_[first - 1] == owner_[i]) --first;
        for (std::size_t member = first; member <= i; ++member) members.insert(member);
        i = first;
        add_region(graph, members, reversed);
        continue;
      }
      const Binding& binding = block_.bindings[i];
      if (binding.op == Op::constant && is_needed(graph, binding.results[0])) {
        reversed.push_back(binding);  // read as it lies, like larger ones
        continue;
      }
      if (binding.op == Op::dim && counts_.contains(binding.results[0]) &&
          !is_needed(graph, binding.results[0])) {
        reversed.push_back(binding);
        continue;
      }
      // Control flow whose results nobody reads stays for the sizes that it makes known: dead code
      // is gone.
      bool wanted = binding.results.empty() || info(binding.op).has(traits::control) ||
                    std::any_of(binding.results.begin(), binding.results.end(), [&](ValueId id) {
                      return is_needed(graph, id) && !made_.contains(id);
                    });
      if (!wanted) continue;
      if (stays_outside(binding)) {
        for (std::size_t o = 0; o < binding.operands.size(); ++o) {
          ValueId operand = binding.operands[o];
          if (operand == no_value) continue;
          const std::ptrdiff_t source = graph.producer(operand);
          const bool literal =
              source >= 0 && block_.bindings[static_cast<std::size_t>(source)].op == Op::dim;
          if (literal && is_host_integer(binding.op, o)) counts_.insert(operand);
          else needed_.insert(operand);
        }
        reversed.push_back(binding);
      } else {
        add_region(graph, {i}, reversed);
      }
    }
    std::reverse(reversed.begin(), reversed.end());
    block_.bindings = std::move(reversed);
  }

  bool is_needed(const FusionGraph& graph, ValueId value) const {
    return graph.escapes(value) || needed_.contains(value);
  }

  void add_region(const FusionGraph& graph, Members members, std::vector<Binding>& reversed) {
    std::vector<ValueId> outputs;
    for (std::size_t member : members)
      for (ValueId result : block_.bindings[member].results)
        if (is_needed(graph, result)) outputs.push_back(result);
    if (outputs.empty()) return;
    absorb(graph, members, outputs);
    add_results(graph, members, outputs);
    share_scalars(members, outputs);
    std::vector<Binding> list = bindings_of(members);
    Binding call = call_of(list, outputs);
    for (ValueId input : call.operands) needed_.insert(input);
    auto anchor = std::find_if(list.begin(), list.end(),
                               [](const Binding& binding) { return is_anchor(binding.op); });
    call.source = anchor != list.end() ? anchor->source : list.back().source;
    reversed.push_back(std::move(call));
  }

  // A map that others read too is a second result of the map over the same elements that reads it,
  // rather than a kernel before it whose result is read back.
  void add_results(const FusionGraph& graph, Members& members, std::vector<ValueId>& outputs) {
    const std::size_t last = *members.rbegin();
    Members refused;
    while (const auto source = map_before(graph, members, outputs, last, refused)) {
      Members extended = members;
      extended.insert(*source);
      add_literals(graph, extended);
      outputs.push_back(block_.bindings[*source].results[0]);
      if (has_form(extended, outputs)) {
        made_.insert(outputs.back());
        members = std::move(extended);
        absorb(graph, members, outputs);
      } else {
        outputs.pop_back();
        refused.insert(*source);
      }
    }
  }

  // `last`: where the kernel stands.
  std::optional<std::size_t> map_before(const FusionGraph& graph, const Members& members,
                                        const std::vector<ValueId>& outputs, std::size_t last,
                                        const Members& refused) const {
    const auto is_map = [&](std::size_t at) {
      const Binding& binding = block_.bindings[at];
      return is_pointwise(binding) && owner_[at] < 0 && !stays_outside(binding);
    };
    if (!std::ranges::all_of(members, is_map)) return std::nullopt;
    const std::vector<Dim>& space = function_.tensor_type(outputs[0]).dims;
    for (const std::size_t member : members) {
      for (const ValueId operand : block_.bindings[member].operands) {
        if (operand == no_value || graph.producer(operand) < 0) continue;
        const auto source = static_cast<std::size_t>(graph.producer(operand));
        const Binding& binding = block_.bindings[source];
        if (members.contains(source) || refused.contains(source) || !is_map(source) ||
            is_literal(binding) || is_free(function_, binding) || binding.results.size() != 1 ||
            made_.contains(operand) || !is_needed(graph, operand) ||
            function_.tensor_type(operand).dims != space)
          continue;
        if (is_read_only_later(graph, members, binding, last)) return source;
      }
    }
    return std::nullopt;
  }

  // By others than the members. Views are taken in by all that read them.
  bool is_read_only_later(const FusionGraph& graph, const Members& members, const Binding& binding,
                          std::size_t last) const {
    const auto is_later = [&](std::size_t reader) {
      return members.contains(reader) || reader > last;
    };
    return std::ranges::all_of(binding.results, [&](ValueId result) {
      const auto source = static_cast<std::size_t>(graph.producer(result));
      return std::ranges::all_of(graph.users(result),
                                 [&](std::size_t user) {
                                   const Binding& reader = block_.bindings[user];
                                   return is_free(function_, reader)
                                              ? is_read_only_later(graph, members, reader, last)
                                              : is_later(user);
                                 }) &&
             std::ranges::all_of(graph.openers(), [&](const auto& opener) {
               return opener.first != source || is_later(opener.second);
             });
    });
  }

  void share_scalars(Members& members, const std::vector<ValueId>& outputs) {
    Members others = members;
    std::erase_if(others,
                  [&](std::size_t member) { return block_.bindings[member].op == Op::constant; });
    if (others.empty() || others.size() == members.size()) return;
    // Scales of quantised products differ from layer to layer; the layers are one kernel.
    const bool quantised = std::any_of(others.begin(), others.end(), [&](std::size_t member) {
      const Binding& binding = block_.bindings[member];
      return binding.op == Op::matmul &&
             is_integer(function_.tensor_type(binding.results[0]).dtype);
    });
    if (quantised && has_form(others, outputs)) {
      members = std::move(others);
      return;
    }
    if (known_.reads_scalars(
            subgraph_key(function_, bindings_of(others), outputs, facts_.constants),
            subgraph_key(function_, bindings_of(members), outputs, facts_.constants)) &&
        has_form(others, outputs))
      members = std::move(others);
  }

  // The binding that runs this work as a region, made where no equal subgraph came before.
  Binding call_of(const std::vector<Binding>& list, const std::vector<ValueId>& outputs) {
    SubgraphKey key = subgraph_key(function_, list, outputs, facts_.constants);
    if (auto found = regions_.find(key); found != regions_.end()) {
      Binding call = found->second;
      call.operands = inputs_of(list);
      call.results = outputs;
      return call;
    }
    LoopFormResult form = derive_loop_form(function_, list, inputs_of(list), outputs);
    if (!form.form)
      throw Error(ErrorKind::Unsupported,
                  "cannot compile " + describe(function_, list.back()) + ": " + form.reason);
    Outlined outlined = outline(function_, list, outputs, facts_.constants);
    outlined.call.callee = known_.intern(std::move(outlined.region));
    regions_.emplace(std::move(key), outlined.call);
    return std::move(outlined.call);
  }

  // Producers that may join a group, in the order of their users; a producer that must wait for
  // another user is met again when that one has joined.
  class Frontier {
   public:
    void open(const FusionGraph& graph, const Binding& binding, std::size_t member) {
      for (std::size_t i = 0; i < binding.operands.size(); ++i)
        if (binding.operands[i] != no_value && graph.producer(binding.operands[i]) >= 0)
          open_.emplace(member, i);
    }
    std::optional<std::pair<std::size_t, std::size_t>> take() {
      if (open_.empty()) return std::nullopt;
      return open_.extract(open_.begin()).value();
    }

   private:
    std::set<std::pair<std::size_t, std::size_t>> open_;  // members and their operands
  };

  struct Growth {
    Members members;
    Frontier frontier;
  };

  // Takes producers into the group: all that may come at once, as most often they fit; else fewer,
  // down to one at a time.
  void absorb(const FusionGraph& graph, Members& members, const std::vector<ValueId>& outputs) {
    add_literals(graph, members);
    const std::set<ValueId> product_operands = products_.operands_of(graph, members);
    Growth grown{members, {}};
    for (std::size_t member : members) grown.frontier.open(graph, block_.bindings[member], member);
    Members refused;
    for (std::size_t batch = most_members;;) {
      Growth more = grown;
      std::vector<std::size_t> taken;
      while (taken.size() < batch && more.members.size() < most_members) {
        const auto source = next_producer(graph, more, refused, product_operands);
        if (!source) break;
        taken.push_back(*source);
        take(graph, more, *source);
      }
      if (taken.empty()) break;
      if (has_form(more.members, outputs)) {
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

  void take(const FusionGraph& graph, Growth& grown, std::size_t source) const {
    Members joining{source};
    add_literals(graph, joining);
    for (std::size_t member : joining)
      if (grown.members.insert(member).second)
        grown.frontier.open(graph, block_.bindings[member], member);
  }

  std::optional<std::size_t> next_producer(const FusionGraph& graph, Growth& grown,
                                           const Members& refused,
                                           const std::set<ValueId>& product_operands) const {
    while (const auto place = grown.frontier.take()) {
      const ValueId input = block_.bindings[place->first].operands[place->second];
      const auto source = static_cast<std::size_t>(graph.producer(input));
      if (grown.members.contains(source) || refused.contains(source)) continue;
      if (may_absorb(graph, grown.members, source, product_operands.contains(input))) return source;
    }
    return std::nullopt;
  }

  bool may_absorb(const FusionGraph& graph, const Members& members, std::size_t source,
                  bool feeds_product) const {
    const Binding& binding = block_.bindings[source];
    if (owner_[source] >= 0 || stays_outside(binding)) return false;
    if (is_free(function_, binding)) return true;
    if (products_.makes_weight_real(graph, binding)) return true;
    if (feeds_product && is_rounded_when_read(graph, members, binding)) return true;
    if (feeds_product || !is_pointwise(binding) || binding.op == Op::concat) return false;
    if (is_read_often(graph, binding)) return false;
    return is_read_only_in(graph, members, binding) || is_mask_arithmetic(members, binding);
  }

  // Read several times each, directly or through views, the elements are computed once.
  bool is_read_often(const FusionGraph& graph, const Binding& binding) const {
    return std::ranges::any_of(binding.results, [&](ValueId result) {
      return std::ranges::any_of(graph.users(result), [&](std::size_t user) {
        const Binding& reader = block_.bindings[user];
        if (reader.operands[0] == result && (mixes_elements(reader) || repeats_elements(reader)))
          return true;
        return is_free(function_, reader) && is_read_often(graph, reader);
      });
    });
  }

  // A conversion of what lies in memory anyway (a decoder's keys of earlier tokens) costs attention
  // less than another pass over memory.
  bool is_rounded_when_read(const FusionGraph& graph, const Members& members,
                            const Binding& binding) const {
    return facts_.rounds_when_read && is_narrowing(function_, binding) && attends(members) &&
           lies_in_memory(graph, binding.operands[0]);
  }

  bool lies_in_memory(const FusionGraph& graph, ValueId value) const {
    if (graph.producer(value) < 0 || is_needed(graph, value)) return true;
    const Binding& source = block_.bindings[static_cast<std::size_t>(graph.producer(value))];
    return stays_outside(source) ||
           (is_view(source.op) && lies_in_memory(graph, source.operands[0]));
  }

  bool attends(const Members& members) const {
    return std::ranges::any_of(
        members, [&](std::size_t member) { return block_.bindings[member].op == Op::attention; });
  }

  // Views are taken in by all that read them, so a value that one group reads through a view may be
  // read by others through the same view.
  bool is_read_only_in(const FusionGraph& graph, const Members& members,
                       const Binding& binding) const {
    return std::ranges::all_of(binding.results, [&](ValueId result) {
      return !is_needed(graph, result) &&
             std::ranges::all_of(graph.users(result), [&](std::size_t user) {
               const Binding& reader = block_.bindings[user];
               return members.contains(user) &&
                      (!is_free(function_, reader) || is_read_only_in(graph, members, reader));
             });
    });
  }

  // Comparisons, logic and selections in front of an attention are cheaper to repeat in every layer
  // than to keep as [batch, 1, seq, seq].
  bool is_mask_arithmetic(const Members& members, const Binding& binding) const {
    return attends(members) && is_cheap_arithmetic(binding);
  }

  FusedRegions& known_;
  Function& function_;
  Block& block_;
  const FunctionFacts& facts_;
  ProductOperands products_;
  std::vector<std::ptrdiff_t> owner_;
  std::ptrdiff_t groups_ = 0;
  std::unordered_set<ValueId> needed_;  // besides those that escape
  std::set<ValueId> counts_;            // literals that control flow reads on the host
  std::set<ValueId> made_;              // by kernels of those that read them
  // Answers by what the subgraph is: models repeat their layers.
  mutable std::map<SubgraphKey, bool> forms_;
  std::map<SubgraphKey, Binding> regions_;
};

void find_constants(const Block& block, std::vector<bool>& constants) {
  for (const Binding& binding : block.bindings) {
    if (binding.op == Op::constant) constants[binding.results[0]] = true;
    for (const Block& nested : binding.blocks) find_constants(nested, constants);
  }
}

void fuse_block(FusedRegions& regions, Function& function, Block& block,
                const FunctionFacts& facts) {
  for (Binding& binding : block.bindings)
    for (Block& nested : binding.blocks) fuse_block(regions, function, nested, facts);
  BlockFuser(regions, function, block, facts).run();
}

}  // namespace

void fuse(Module& module, PassContext& context) {
  FusedRegions regions(module);
  for (Function& function : module.functions) {
    FunctionFacts known{
        .constants = std::vector<bool>(function.values.size(), false),
        .in_types = values_in_types(function),
        .joins_rows = !context.backend || context.backend->joins_rows_to_products(),
        .rounds_when_read = context.backend && context.backend->rounds_keys_and_values()};
    find_constants(function.body, known.constants);
    fuse_block(regions, function, function.body, known);
  }
}

}  // namespace anydim::passes
