#include <algorithm>

#include "ir/dims/affine.h"
#include "ir/dims/assumed_extents.h"
#include "ir/error.h"
#include "ir/loops/scalar_access.h"
#include "ir/shapes/shape_rules.h"

namespace anydim::ir {

namespace {

Dim one_where_below(const Dim& value, const Dim& bound, const Dim& then, const Dim& otherwise) {
  return select(Comparison::Less, value, bound, then, otherwise);
}

// ONNX Slice: negative starts count from the end, then clamp to [0, extent] (or to an element when
// stepping backwards).
Dim clamped_start(const Dim& start, const Dim& extent, bool backwards, const SymbolTable& symbols) {
  if (is_before_all(start, extent, 0, symbols)) return 0;
  const bool from_end = !start.is_constant() || start.constant_part() < 0;
  const Dim from_front =
      from_end ? simplify(one_where_below(start, 0, start + extent, start), symbols) : start;
  return simplify(max(Dim(0), min(from_front, backwards ? extent - 1 : extent)), symbols);
}

// A step beyond the extent reads one element, which no step leads to: 0, and products with it stay
// small.
Dim bounded_step(const Dim& step, const Dim& extent, const SymbolTable& symbols) {
  if (auto constant = step.constant()) {
    const std::int64_t reach = bounds(extent, symbols).high;
    return *constant > reach || *constant < -reach ? Dim(0) : step;
  }
  return max(Dim(0) - extent, min(step, extent));
}

SliceStart sliced_axis(const Dim& start, const Dim& step, const Dim& extent,
                       const SymbolTable& symbols) {
  SliceStart slice{.step = bounded_step(step, extent, symbols)};
  if (auto constant = step.constant()) {
    slice.start = clamped_start(start, extent, *constant < 0, symbols);
  } else {
    slice.start = select(Comparison::Less, step, 0, clamped_start(start, extent, true, symbols),
                         clamped_start(start, extent, false, symbols));
  }
  return slice;
}

bool is_one(const Dim& dim, const SymbolTable& symbols) {
  return prove_equal(dim, 1, symbols) == Proof::Yes;
}

bool same(const Dim& a, const Dim& b, const SymbolTable& symbols) {
  return a == b || prove_equal(a, b, symbols) == Proof::Yes;
}

// Row-major split of `linear` into `dims`; the outermost digit needs no modulo.
void split_linear(Dim linear, std::span<const Dim> dims, std::span<Dim> index,
                  const SymbolTable& symbols) {
  for (std::size_t i = dims.size(); i-- > 0;) {
    if (i == 0) {
      index[i] = simplify(linear, symbols);
    } else {
      index[i] = simplify(mod(linear, dims[i]), symbols);
      linear = simplify(floor_div(linear, dims[i]), symbols);
    }
  }
}

// Whether the dim depends on whether an extent is 0, as a size does in whose place ONNX's Reshape
// copies the operand's where it is.
bool chooses_at_zero(const Dim& dim) {
  return any_part(dim, [](const Dim& part) {
    return part.kind() == Dim::Kind::Select && part.operands()[1].is_constant(0);
  });
}

// Dims of both sides of a reshape that hold the same elements.
struct DimGroup {
  std::size_t source, source_end, target, target_end;
  Dim covered_source, covered_target;  // numbers of elements
  bool matched;                        // as DimGroups::match() has it
};

class DimGroups {
 public:
  // `sources`, `targets`: positions in `from` and `to` of the dims that take part.
  DimGroups(const std::vector<Dim>& from, const std::vector<std::size_t>& sources,
            const std::vector<Dim>& to, const std::vector<std::size_t>& targets,
            const SymbolTable& symbols)
      : from_(from), to_(to), sources_(sources), targets_(targets), symbols_(symbols) {}

  std::vector<DimGroup> groups() {
    std::vector<DimGroup> exact = from_inside();
    if (std::ranges::all_of(exact, &DimGroup::matched)) return exact;
    // A reshape that a call makes has as many elements on both sides. Where no group has more of
    // them than its other side, or none fewer, each has as many: h against (floor_div(h, 2), 2).
    up_to_rests_ = true;
    std::vector<DimGroup> rounded = from_inside();
    const bool down = std::ranges::all_of(rounded, [&](const DimGroup& group) {
      return is_rest(group.covered_source - group.covered_target);
    });
    const bool up = std::ranges::all_of(rounded, [&](const DimGroup& group) {
      return is_rest(group.covered_target - group.covered_source);
    });
    return down || up ? rounded : exact;
  }

 private:
  // From the innermost side, a group closes as soon as both sides cover the same number of
  // elements.
  std::vector<DimGroup> from_inside() const {
    std::vector<DimGroup> groups;
    std::size_t source_end = sources_.size(), target_end = targets_.size();
    while (source_end > 0 || target_end > 0) {
      groups.push_back(innermost(source_end, target_end));
      source_end = groups.back().source;
      target_end = groups.back().target;
    }
    return groups;
  }

  DimGroup innermost(std::size_t source_end, std::size_t target_end) const {
    std::size_t source = source_end, target = target_end;
    Dim covered_source = 1, covered_target = 1;
    if (source > 0) covered_source = from_[sources_[--source]];
    if (target > 0) covered_target = to_[targets_[--target]];
    bool matched = match(covered_source, covered_target);
    while (!matched && (source > 0 || target > 0)) {
      // Grow the side that is provably smaller; where that is unknown, take everything left.
      bool grow_source = target == 0 || (source > 0 && prove_less(covered_source, covered_target,
                                                                  symbols_) == Proof::Yes);
      bool grow_target = source == 0 || (target > 0 && prove_less(covered_target, covered_source,
                                                                  symbols_) == Proof::Yes);
      if (!grow_source && !grow_target) {
        const Dim& next_source = from_[sources_[source - 1]];
        const Dim& next_target = to_[targets_[target - 1]];
        // A product that divides the other grows: (b, s, 384) against (b * s, 384) and (b, s * 12,
        // 32).
        if (simplify(mod(covered_target, covered_source), symbols_).is_constant(0))
          grow_source = true;
        else if (simplify(mod(covered_source, covered_target), symbols_).is_constant(0))
          grow_target = true;
        else if (match(covered_source * next_source, covered_target)) grow_source = true;
        else if (match(covered_target * next_target, covered_source)) grow_target = true;
        else grow_source = grow_target = true;
      }
      if (grow_source && source > 0) covered_source = covered_source * from_[sources_[--source]];
      if (grow_target && target > 0) covered_target = covered_target * to_[targets_[--target]];
      matched = match(covered_source, covered_target);
    }
    return {source, source_end, target, target_end, covered_source, covered_target, matched};
  }

  bool match(const Dim& a, const Dim& b) const {
    return same(a, b, symbols_) || (up_to_rests_ && (is_rest(a - b) || is_rest(b - a)));
  }

  // What rounding to blocks leaves. That it is never negative is what groups() rests on; that it is
  // small, and no constant, tells a rounded size from another one.
  bool is_rest(const Dim& difference) const {
    constexpr std::int64_t largest_rest = 4096;
    if (difference.is_constant()) return difference.is_constant(0);
    return prove_less_equal(0, difference, symbols_) == Proof::Yes &&
           prove_less_equal(difference, largest_rest, symbols_) == Proof::Yes;
  }

  const std::vector<Dim>& from_;
  const std::vector<Dim>& to_;
  const std::vector<std::size_t>& sources_;
  const std::vector<std::size_t>& targets_;
  const SymbolTable& symbols_;
  bool up_to_rests_ = false;
};

std::vector<Dim> index_through_groups(const std::vector<Dim>& index, const std::vector<Dim>& from,
                                      const std::vector<Dim>& to, const SymbolTable& symbols) {
  std::vector<Dim> result(to.size(), Dim(0));
  // Extents of one carry no information: leave them out on both sides, their index is 0.
  std::vector<std::size_t> sources, targets;
  for (std::size_t i = 0; i < from.size(); ++i)
    if (!is_one(from[i], symbols)) sources.push_back(i);
  for (std::size_t i = 0; i < to.size(); ++i)
    if (!is_one(to[i], symbols)) targets.push_back(i);
  for (const DimGroup& group : DimGroups(from, sources, to, targets, symbols).groups()) {
    const std::size_t target_count = group.target_end - group.target;
    if (group.source_end - group.source == 1 && target_count == 1) {
      result[targets[group.target]] = index[sources[group.source]];
      continue;
    }
    Dim linear = 0;
    for (std::size_t i = group.source; i < group.source_end; ++i)
      linear = linear * from[sources[i]] + index[sources[i]];
    std::vector<Dim> dims, digits(target_count, Dim(0));
    for (std::size_t i = group.target; i < group.target_end; ++i) dims.push_back(to[targets[i]]);
    split_linear(simplify(linear, symbols), dims, digits, symbols);
    for (std::size_t i = 0; i < target_count; ++i) result[targets[group.target + i]] = digits[i];
  }
  return result;
}

}  // namespace

std::vector<Dim> broadcast_index(const std::vector<Dim>& index, const std::vector<Dim>& dims,
                                 const std::vector<Dim>& operand_dims, const SymbolTable& symbols) {
  std::size_t skipped = dims.size() - operand_dims.size();
  std::vector<Dim> result;
  result.reserve(operand_dims.size());
  for (std::size_t i = 0; i < operand_dims.size(); ++i) {
    const Dim& extent = operand_dims[i];
    const Dim& at = index[i + skipped];
    if (is_one(extent, symbols)) {
      result.emplace_back(0);
    } else if (same(extent, dims[i + skipped], symbols) ||
               prove_equal(extent, 1, symbols) == Proof::No) {
      result.push_back(at);
    } else {
      result.push_back(simplify(select(Comparison::Equal, extent, 1, 0, at), symbols));
    }
  }
  return result;
}

std::vector<Dim> reshape_index(const std::vector<Dim>& index, const std::vector<Dim>& from,
                               const std::vector<Dim>& to, const SymbolTable& symbols) {
  if (std::ranges::none_of(from, chooses_at_zero) && std::ranges::none_of(to, chooses_at_zero))
    return index_through_groups(index, from, to, symbols);
  // Where there is an element, no extent is 0.
  SymbolTable known = symbols;
  AssumedExtents assumed(known);
  for (const std::vector<Dim>* dims : {&from, &to})
    for (const Dim& dim : *dims) assumed.add(dim, 1);
  const auto simplified = [&](std::vector<Dim> dims) {
    for (Dim& dim : dims) dim = simplify(dim, known);
    return dims;
  };
  return index_through_groups(index, simplified(from), simplified(to), known);
}

std::optional<std::vector<Dim>> literal_elements(const Subgraph& subgraph, ValueId id) {
  const Binding* binding = subgraph.definition(id);
  if (binding == nullptr) return std::nullopt;
  if (binding->op == Op::shape || binding->op == Op::dim) return binding->dims;
  if (binding->op == Op::constant) {
    const Tensor& tensor = tensor_attribute(*binding, "value");
    if (!is_integer(tensor.dtype()) || tensor.rank() > 1 || tensor.elements() > 1024)
      return std::nullopt;
    std::vector<Dim> elements;
    for (std::int64_t i = 0; i < tensor.elements(); ++i)
      elements.emplace_back(tensor.integer_at(i));
    return elements;
  }
  return std::nullopt;
}

std::vector<Dim> given_elements(const Subgraph& subgraph, const Binding& binding,
                                std::string_view attribute, std::size_t operand) {
  std::vector<Dim> elements;
  if (!info(binding.op).has(traits::dynamic)) {
    auto found = binding.attributes.find(attribute);
    if (found == binding.attributes.end()) return elements;
    if (const auto* one = std::get_if<std::int64_t>(&found->second)) return {Dim(*one)};
    for (std::int64_t element : integers_attribute(binding, attribute))
      elements.emplace_back(element);
    return elements;
  }
  if (operand >= binding.operands.size() || binding.operands[operand] == no_value) return elements;
  auto known = literal_elements(subgraph, binding.operands[operand]);
  if (!known) {
    throw NoLoopForm{std::string("the ") + std::string(attribute) +
                     " are computed from values: " + describe(*subgraph.function, binding)};
  }
  return *std::move(known);
}

std::vector<SliceStart> slice_starts(const Subgraph& subgraph, const Binding& binding,
                                     const SymbolTable& symbols) {
  const TensorType& x = subgraph.tensor(binding.operands[0]);
  std::vector<SliceStart> result(x.rank());
  std::vector<Dim> starts = given_elements(subgraph, binding, "starts", 1);
  std::vector<Dim> axes = given_elements(subgraph, binding, "axes", 3);
  std::vector<Dim> steps = given_elements(subgraph, binding, "steps", 4);
  for (std::size_t i = 0; i < starts.size(); ++i) {
    Dim axis = axes.empty() ? Dim(static_cast<std::int64_t>(i)) : axes[i];
    axis = counted_from_front(axis, x.rank());
    for (std::size_t d = 0; d < x.rank(); ++d) {
      const auto position = static_cast<std::int64_t>(d);
      if (axis.is_constant() && !axis.is_constant(position)) continue;
      SliceStart slice =
          sliced_axis(starts[i], steps.empty() ? Dim(1) : steps[i], x.dims[d], symbols);
      SliceStart& entry = result[d];
      entry.start = select(Comparison::Equal, axis, position, slice.start, entry.start);
      entry.step = select(Comparison::Equal, axis, position, slice.step, entry.step);
    }
  }
  return result;
}

std::vector<Dim> windows_index(const Binding& binding, const std::vector<Dim>& index,
                               const SymbolTable& symbols) {
  const std::vector<std::int64_t>& axes = integers_attribute(binding, "axes");
  const std::vector<std::int64_t> strides = integers_or_ones(binding, "strides", axes.size());
  const std::vector<std::int64_t> dilations = integers_or_ones(binding, "dilations", axes.size());
  const std::size_t rank = index.size() - axes.size();
  std::vector<Dim> result(index.begin(), index.begin() + static_cast<std::ptrdiff_t>(rank));
  for (std::size_t i = 0; i < axes.size(); ++i) {
    Dim& at = result[static_cast<std::size_t>(
        axes[i] < 0 ? axes[i] + static_cast<std::int64_t>(rank) : axes[i])];
    at = simplify(at * strides[i] + index[rank + i] * dilations[i], symbols);
  }
  return result;
}

std::vector<std::size_t> permutation(const Binding& binding, std::size_t rank) {
  std::vector<std::size_t> perm;
  if (has_attribute(binding, "perm")) {
    for (std::int64_t axis : integers_attribute(binding, "perm"))
      perm.push_back(
          static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis));
  } else {
    for (std::size_t i = rank; i-- > 0;) perm.push_back(i);
  }
  return perm;
}

Dim linear_offset(const std::vector<Dim>& index, const std::vector<Dim>& dims,
                  const SymbolTable& symbols) {
  internal_check(index.size() == dims.size(), "an access has one index expression a dim");
  Dim offset = 0;
  for (std::size_t i = 0; i < dims.size(); ++i) offset = offset * dims[i] + index[i];
  return simplify(offset, symbols);
}

}  // namespace anydim::ir
