#include "passes/fusion_graph.h"

#include <functional>
#include <map>
#include <queue>

#include "ir/error.h"

namespace anydim::passes {

using namespace ir;

namespace {

void mark_nested(const Block& block, std::unordered_set<ValueId>& escaping) {
  auto mark = [&](ValueId value) {
    if (value != no_value) escaping.insert(value);
  };
  for (const Binding& binding : block.bindings) {
    for (ValueId operand : binding.operands) mark(operand);
    for (const Block& nested : binding.blocks) mark_nested(nested, escaping);
  }
  for (ValueId result : block.results) mark(result);
}

}  // namespace

std::unordered_set<ValueId> values_in_types(const Function& function) {
  std::unordered_set<ValueId> found;
  for (const Value& value : function.values) {
    if (!value.type.is_tensor()) continue;
    for (const Dim& dim : value.type.tensor.dims)
      for (const DimLeaf& leaf : dim.leaves())
        if (!leaf.is_symbol()) found.insert(leaf.value);
  }
  return found;
}

FusionGraph::FusionGraph(const Function& function, const Block& block,
                         const std::unordered_set<ValueId>& in_types)
    : block_(block), in_types_(in_types) {
  for (std::size_t i = 0; i < block.bindings.size(); ++i) {
    const Binding& binding = block.bindings[i];
    for (ValueId operand : binding.operands) {
      if (operand == no_value) continue;
      std::vector<std::size_t>& users = users_[operand];
      if (users.empty() || users.back() != i) users.push_back(i);
    }
    for (ValueId result : binding.results) producer_[result] = static_cast<std::ptrdiff_t>(i);
    for (const Block& nested : binding.blocks) mark_nested(nested, escaping_);
    // Elements of a value that a dim mentions are read on the host.
    for (const Dim& dim : binding.dims)
      for (const DimLeaf& leaf : dim.leaves())
        if (!leaf.is_symbol()) escaping_.insert(leaf.value);
  }
  escaping_.insert(block.results.begin(), block.results.end());
  find_openers(function);
}

namespace {

void collect_leaves(const Function& function, const Binding& binding, std::set<DimLeaf>& leaves) {
  for (const Dim& dim : binding.dims) dim.collect_leaves(leaves);
  for (ValueId result : binding.results)
    for (const Dim& dim : function.values[result].type.tensor.dims) dim.collect_leaves(leaves);
  for (const Block& nested : binding.blocks)
    for (const Binding& inner : nested.bindings) collect_leaves(function, inner, leaves);
}

void collect_reads(const Binding& binding, std::set<ValueId>& reads) {
  for (const Block& nested : binding.blocks) {
    for (const Binding& inner : nested.bindings) {
      reads.insert(inner.operands.begin(), inner.operands.end());
      collect_reads(inner, reads);
    }
    reads.insert(nested.results.begin(), nested.results.end());
  }
}

}  // namespace

// Sizes that control flow, bind and check_shape make known come before whoever mentions them, and
// values before the blocks that read them.
void FusionGraph::find_openers(const Function& function) {
  std::set<DimLeaf> known;  // before anything runs
  for (const ValueId parameter : function.body.parameters)
    for (const Dim& dim : function.values[parameter].type.tensor.dims) dim.collect_leaves(known);
  std::map<DimLeaf, std::size_t> opened;
  for (std::size_t i = 0; i < block_.bindings.size(); ++i) {
    const Binding& binding = block_.bindings[i];
    std::set<DimLeaf> leaves;
    collect_leaves(function, binding, leaves);
    for (const DimLeaf& leaf : leaves) {
      if (!leaf.is_symbol()) {
        const std::ptrdiff_t source = producer(leaf.value);
        if (source >= 0 && static_cast<std::size_t>(source) < i)
          openers_.emplace_back(static_cast<std::size_t>(source), i);
      } else if (auto found = opened.find(leaf); found != opened.end()) {
        openers_.emplace_back(found->second, i);
      } else if (!known.contains(leaf) &&
                 (info(binding.op).has(traits::control) || binding.op == Op::bind ||
                  binding.op == Op::check_shape)) {
        opened.emplace(leaf, i);
      }
    }
    std::set<ValueId> reads;
    collect_reads(binding, reads);
    for (ValueId value : reads)
      if (value != no_value && producer(value) >= 0)
        openers_.emplace_back(static_cast<std::size_t>(producer(value)), i);
  }
}

const std::vector<std::size_t>& FusionGraph::users(ValueId value) const {
  static const std::vector<std::size_t> none;
  const auto found = users_.find(value);
  return found == users_.end() ? none : found->second;
}

bool FusionGraph::path_around(const std::set<std::size_t>& group, std::size_t to) const {
  // Backwards from `to` through outside bindings; meeting a member means that the group would wait
  // for itself.
  std::set<std::size_t> seen;
  std::vector<std::size_t> open;
  auto visit_operands = [&](std::size_t binding, bool direct) {
    for (ValueId operand : block_.bindings[binding].operands) {
      if (operand == no_value || producer(operand) < 0) continue;
      auto source = static_cast<std::size_t>(producer(operand));
      if (group.contains(source)) {
        if (!direct) return true;
        continue;
      }
      if (source >= *group.begin() && seen.insert(source).second) open.push_back(source);
    }
    return false;
  };
  visit_operands(to, true);
  while (!open.empty()) {
    std::size_t binding = open.back();
    open.pop_back();
    if (visit_operands(binding, false)) return true;
  }
  return false;
}

std::vector<std::size_t> contiguous_order(const FusionGraph& graph, const Block& block,
                                          const std::vector<std::ptrdiff_t>& owner) {
  // Kahn's algorithm over groups and single bindings; among those that are ready, the one whose
  // last binding came first.
  std::size_t count = block.bindings.size();
  std::map<std::ptrdiff_t, std::vector<std::size_t>> members;
  std::vector<std::size_t> last(count);
  for (std::size_t i = 0; i < count; ++i)
    if (owner[i] >= 0) members[owner[i]].push_back(i);
  for (std::size_t i = 0; i < count; ++i) last[i] = owner[i] >= 0 ? members[owner[i]].back() : i;

  std::vector<std::set<std::size_t>> successors(count);
  std::vector<std::size_t> waiting(count, 0);
  auto before = [&](std::size_t first, std::size_t second) {
    if (last[first] != last[second] && successors[last[first]].insert(last[second]).second)
      ++waiting[last[second]];
  };
  for (std::size_t i = 0; i < count; ++i)
    for (ValueId result : block.bindings[i].results)
      for (std::size_t user : graph.users(result)) before(i, user);
  for (const auto& [opener, user] : graph.openers()) before(opener, user);

  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
  for (std::size_t i = 0; i < count; ++i)
    if (last[i] == i && waiting[i] == 0) ready.push(i);
  std::vector<std::size_t> order;
  while (!ready.empty()) {
    std::size_t node = ready.top();
    ready.pop();
    if (owner[node] >= 0) {
      const auto& list = members[owner[node]];
      order.insert(order.end(), list.begin(), list.end());
    } else {
      order.push_back(node);
    }
    for (std::size_t next : successors[node])
      if (--waiting[next] == 0) ready.push(next);
  }
  internal_check(order.size() == count, "fusion groups form no cycle");
  return order;
}

}  // namespace anydim::passes
