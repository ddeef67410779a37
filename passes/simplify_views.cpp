// Views in their simplest form, by what they do to dims and whatever ops an exporter wrote them
// with:
// - a chain of reshapes and transposes that in the end only moves whole dims becomes one
//   transpose (or its operand), as torch's `reshape(b * h, s, d)`, transpose, reshape back does;
// - a reshape of a reshape becomes one reshape, and so does a concat of concats along its axis;
// - gather_elements from data that is one row, broadcast along every axis but the gathered one,
//   becomes a gather from that row;
// - scatter_nd that writes an update to every place of the data, each to its own, is the updates.
#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "ir/loops/scalar_access.h"
#include "ir/shapes/infer.h"
#include "passes/bias_program.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace anydim::passes {

using namespace ir;

namespace {

using Axes = std::vector<std::int64_t>;

// Chains are as long as exporters make them; a longer one is simplified from its end.
constexpr std::size_t longest_chain = 16;

bool reshapes(const Binding& binding) { return info(binding.op).has(traits::reshapes); }
bool moves_dims(const Binding& binding) { return reshapes(binding) || binding.op == Op::transpose; }

class Simplifying {
 public:
  explicit Simplifying(Function& function)
      : function_(function), replacements_(function), definitions_(function.values.size()) {}

  void run() {
    // Before the walk: element programs are read off a whole body.
    for (const Binding& binding : function_.body.bindings)
      if (binding.op == Op::scatter_nd && writes_all(binding))
        replacements_.replace(binding.results[0], binding.operands[2]);
    join_concats(function_.body, count_reads(function_));
    walk(function_.body);
    replacements_.apply(function_);
    drop_dead(function_);
  }

 private:
  const std::vector<Dim>& dims(ValueId value) const { return function_.tensor_type(value).dims; }
  bool is_tensor(ValueId value) const { return function_.values[value].type.is_tensor(); }
  // Null for what is neither a view nor a broadcast.
  const Binding* definition(ValueId value) const {
    const bool known = value < definitions_.size() && definitions_[value];
    return known ? &*definitions_[value] : nullptr;
  }

  // Places at which values are read, also at the ends of blocks.
  // A concat that one concat along the same axis reads, and nothing else, gives it its operands.
  void join_concats(Block& block, const std::vector<std::size_t>& reads) {
    std::map<ValueId, std::size_t> parts;  // of this block, read once: positions
    std::vector<bool> joined(block.bindings.size());
    for (std::size_t i = 0; i < block.bindings.size(); ++i) {
      Binding& binding = block.bindings[i];
      for (Block& nested : binding.blocks) join_concats(nested, reads);
      if (binding.op != Op::concat) continue;
      std::vector<ValueId> operands;
      for (const ValueId operand : binding.operands) {
        const auto part = parts.find(operand);
        if (part == parts.end() || axis_of(block.bindings[part->second]) != axis_of(binding)) {
          operands.push_back(operand);
          continue;
        }
        // What stands first keeps its memory: a long chain is not copied link by link.
        std::vector<ValueId>& more = block.bindings[part->second].operands;
        if (operands.empty()) operands = std::move(more);
        else operands.insert(operands.end(), more.begin(), more.end());
        joined[part->second] = true;
      }
      binding.operands = std::move(operands);
      if (reads[binding.results[0]] == 1) parts.emplace(binding.results[0], i);
    }
    std::vector<Binding> kept;
    for (std::size_t i = 0; i < block.bindings.size(); ++i)
      if (!joined[i]) kept.push_back(std::move(block.bindings[i]));
    block.bindings = std::move(kept);
  }
  std::int64_t axis_of(const Binding& concat) const {
    const std::int64_t axis = integer_attribute(concat, "axis");
    return axis < 0 ? axis + std::ssize(dims(concat.results[0])) : axis;
  }

  void walk(Block& block) {
    std::vector<Binding> result;
    result.reserve(block.bindings.size());
    for (Binding& binding : block.bindings) {
      replacements_.apply(binding);
      for (Block& nested : binding.blocks) walk(nested);
      into_ = &result;
      if (moves_dims(binding) && is_tensor(binding.results[0])) {
        // Later chains are read as the model has them: a joined reshape hides where dims stood.
        define(binding);
        if (simplify_chain(binding)) continue;
        if (join_reshapes(binding)) continue;
      }
      if (binding.op == Op::broadcast_to || binding.op == Op::dyn_broadcast_to) define(binding);
      if (binding.op == Op::gather_elements && gather_row(binding)) continue;
      push(std::move(binding));
    }
    block.bindings = std::move(result);
  }

  void define(const Binding& binding) {
    definitions_.resize(function_.values.size());
    definitions_[binding.results[0]] = binding;
  }
  void push(Binding binding) { into_->push_back(std::move(binding)); }

  // A value of these dims, made of `operand`; `result` names it.
  ValueId emit(Op op, ValueId operand, Attributes attributes, std::vector<Dim> made,
               const Binding& like, ValueId result = no_value) {
    if (result == no_value) {
      const Value& named = function_.values[like.results[0]];
      result = function_.add_value(named.name + "_view",
                                   TensorType{named.type.tensor.dtype, std::move(made)});
    }
    push({.op = op,
          .operands = {operand},
          .results = {result},
          .attributes = std::move(attributes),
          .source = like.source});
    return result;
  }

  // ---- chains that move whole dims ----

  bool simplify_chain(const Binding& last) {
    std::vector<Binding> chain{last};
    while (chain.size() < longest_chain) {
      const Binding* before = definition(chain.back().operands[0]);
      if (!before || !moves_dims(*before)) break;
      chain.push_back(*before);
    }
    std::reverse(chain.begin(), chain.end());
    for (std::size_t first = 0; first + 1 < chain.size(); ++first)
      if (auto places = moved_dims(std::span(chain).subspan(first)))
        if (rewrite(chain[first].operands[0], *places, last, chain.size() - first)) return true;
    return false;
  }

  // For each dim of the chain's result the axis of its source that it is, -1 for a dim of 1.
  // nullopt: some dim is a part or a product of the source's.
  std::optional<Axes> moved_dims(std::span<const Binding> chain) const {
    const std::vector<Dim>& source = dims(chain[0].operands[0]);
    std::vector<Axes> made_of;  // by dim of the value so far: axes of the source, in order
    for (std::size_t axis = 0; axis < source.size(); ++axis) {
      if (source[axis].is_constant(0)) return std::nullopt;
      made_of.push_back(source[axis].is_constant(1) ? Axes{}
                                                    : Axes{static_cast<std::int64_t>(axis)});
    }
    for (const Binding& view : chain) {
      if (view.op == Op::transpose) {
        std::vector<Axes> moved;
        for (const std::size_t axis : permutation(view, made_of.size()))
          moved.push_back(made_of[axis]);
        made_of = std::move(moved);
        continue;
      }
      Axes order;
      for (const Axes& axes : made_of) order.insert(order.end(), axes.begin(), axes.end());
      auto regrouped = grouped(order, source, dims(view.results[0]));
      if (!regrouped) return std::nullopt;
      made_of = std::move(*regrouped);
    }
    Axes places;
    for (const Axes& axes : made_of) {
      if (axes.size() > 1) return std::nullopt;
      places.push_back(axes.empty() ? -1 : axes[0]);
    }
    return places;
  }

  // The source's axes in this order as dims of `target`.
  static std::optional<std::vector<Axes>> grouped(const Axes& order, const std::vector<Dim>& source,
                                                  const std::vector<Dim>& target) {
    std::vector<Axes> groups;
    std::size_t next = 0;
    for (const Dim& dim : target) {
      Axes group;
      Dim product = 1;
      while (product != dim) {
        if (next == order.size()) return std::nullopt;
        product = product * source[static_cast<std::size_t>(order[next])];
        group.push_back(order[next++]);
      }
      groups.push_back(std::move(group));
    }
    if (next != order.size()) return std::nullopt;
    return groups;
  }

  // The last view of a chain of `length` as views of `source`, where those are fewer.
  bool rewrite(ValueId source, const Axes& places, const Binding& last, std::size_t length) {
    const std::vector<Dim> from = dims(source), to = dims(last.results[0]);
    Axes units, added, kept, perm;
    for (std::size_t axis = 0; axis < from.size(); ++axis)
      if (from[axis].is_constant(1)) units.push_back(static_cast<std::int64_t>(axis));
    for (std::size_t axis = 0; axis < to.size(); ++axis) {
      if (places[axis] < 0) added.push_back(static_cast<std::int64_t>(axis));
      else kept.push_back(places[axis]);
    }
    const bool ordered = std::is_sorted(kept.begin(), kept.end());
    if (units.size() == added.size()) {
      // Each dim of 1 stands for one of the source's.
      std::size_t unit = 0;
      for (const std::int64_t place : places) perm.push_back(place < 0 ? units[unit++] : place);
      if (std::is_sorted(perm.begin(), perm.end())) {
        replacements_.replace(last.results[0], source);
      } else {
        emit(Op::transpose, source, {{"perm", perm}}, {}, last, last.results[0]);
      }
      return true;
    }
    const std::size_t steps = (units.empty() ? 0 : 1) + (ordered ? 0 : 1) + (added.empty() ? 0 : 1);
    if (steps >= length) return false;
    ValueId value = source;
    std::vector<Dim> now;
    for (const Dim& dim : from)
      if (!dim.is_constant(1)) now.push_back(dim);
    if (!units.empty()) {
      const bool done = ordered && added.empty();
      value =
          emit(Op::squeeze, value, {{"axes", units}}, now, last, done ? last.results[0] : no_value);
    }
    if (!ordered) {
      Axes sorted = kept;
      std::sort(sorted.begin(), sorted.end());
      std::vector<Dim> moved;
      for (const std::int64_t axis : kept) {
        perm.push_back(std::find(sorted.begin(), sorted.end(), axis) - sorted.begin());
        moved.push_back(from[static_cast<std::size_t>(axis)]);
      }
      value = emit(Op::transpose, value, {{"perm", perm}}, std::move(moved), last,
                   added.empty() ? last.results[0] : no_value);
    }
    if (!added.empty()) emit(Op::expand_dims, value, {{"axes", added}}, {}, last, last.results[0]);
    return true;
  }

  // ---- a reshape of a reshape ----

  bool join_reshapes(const Binding& last) {
    const bool plain =
        last.op == Op::reshape || last.op == Op::dyn_reshape || last.op == Op::flatten;
    if (!plain || opens_extents(function_, last)) return false;
    ValueId source = last.operands[0];
    while (definition(source) && reshapes(*definition(source)))
      source = definition(source)->operands[0];
    if (source == last.operands[0]) return false;
    const ValueId result = last.results[0];
    const std::vector<Dim> to = dims(result);
    if (std::ranges::all_of(to, [](const Dim& dim) { return dim.is_constant(); })) {
      emit(Op::reshape, source, {{"shape", constant_extents(to)}}, {}, last, result);
      return true;
    }
    const TensorType vector{DType::I64, {static_cast<std::int64_t>(to.size())}};
    const ValueId shape = function_.add_value(function_.values[result].name + "_shape", vector);
    push({.op = Op::shape, .results = {shape}, .dims = to, .source = last.source});
    push({.op = Op::dyn_reshape,
          .operands = {source, shape},
          .results = {result},
          .source = last.source});
    return true;
  }

  // ---- gathering from one row ----

  bool gather_row(const Binding& binding) {
    const Binding* spread = definition(binding.operands[0]);
    if (!spread || moves_dims(*spread)) return false;
    const std::size_t rank = dims(binding.operands[0]).size();
    const std::size_t axis = axis_from_front(binding, rank);
    const ValueId row = spread->operands[0];
    const std::vector<Dim>& narrow = dims(row);
    if (narrow.size() > rank || narrow.empty()) return false;
    Axes ones;
    const std::size_t missing = rank - narrow.size();
    if (axis < missing || narrow[axis - missing] != dims(binding.operands[0])[axis]) return false;
    for (std::size_t at = 0; at < narrow.size(); ++at) {
      if (at + missing == axis) continue;
      if (!narrow[at].is_constant(1)) return false;
      ones.push_back(static_cast<std::int64_t>(at));
    }
    const ValueId vector =
        ones.empty() ? row
                     : emit(Op::squeeze, row, {{"axes", ones}}, {narrow[axis - missing]}, binding);
    push({.op = Op::gather,
          .operands = {vector, binding.operands[1]},
          .results = binding.results,
          .attributes = {{"axis", std::int64_t{0}}},
          .source = binding.source});
    return true;
  }

  // ---- writing every element to its own place ----

  // As torch exports an assignment to a slice that is the whole.
  bool writes_all(const Binding& binding) const {
    const ValueId data = binding.operands[0], indices = binding.operands[1];
    const std::vector<Dim>& extents = dims(data);
    const std::size_t rank = extents.size();
    if (string_attribute(binding, "reduction") != "none" || dims(binding.operands[2]) != extents ||
        dims(indices).size() != rank + 1 ||
        dims(indices).back() != Dim(static_cast<std::int64_t>(rank)))
      return false;
    std::vector<Iteration> space;
    std::vector<Dim> index;
    for (std::size_t axis = 0; axis < rank; ++axis) {
      index.push_back(batch_index(axis));
      space.push_back({index.back().leaf(), extents[axis]});
    }
    index.emplace_back(0);
    try {
      for (std::size_t axis = 0; axis < rank; ++axis) {
        index.back() = static_cast<std::int64_t>(axis);
        ElementProgram element;
        build_element(element, function_, function_.body, indices, index, space);
        const ScalarStep& last = element.program.steps.back();
        const bool constant = last.is<step::Constant>() && last.as<step::Constant>().integer == 0;
        const auto* extent = std::get_if<step::Extent>(&last.kind);
        const bool whole = extent && extent->value == index[axis];
        if (!whole && !(extents[axis].is_constant(1) && constant)) return false;
      }
    } catch (const NoLoopForm&) {
      return false;
    }
    return true;
  }

  Function& function_;
  Replacements replacements_;
  std::vector<std::optional<Binding>> definitions_;  // by value, as the model has them
  std::vector<Binding>* into_ = nullptr;
};

}  // namespace

void simplify_views(Module& module, PassContext&) {
  for (Function& function : module.functions) Simplifying(function).run();
}

}  // namespace anydim::passes
