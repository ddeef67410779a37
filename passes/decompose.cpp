// Ops that no single kernel computes, as several that do.
//
// top_k: an argsort that gives the first k positions; the values are gathered. concat of more than
// 32 operands: neighbours are joined first, then what came of them. reduce_max and reduce_min of
// all elements: of rows first. resize of several axes by linear or cubic shares: one axis after the
// other. Types must be inferred; the new values' types are given.
#include <algorithm>
#include <numeric>
#include <span>

#include "ir/expand.h"
#include "ir/shapes/infer.h"
#include "passes/binding_writer.h"
#include "passes/decompose_counts.h"
#include "passes/fusible.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace anydim::passes {

using namespace ir;

namespace {

// Positions by a sort of which only the first are asked for, values by position.
void write_top_k(Function& function, const Binding& top_k, std::vector<Binding>& into) {
  const TensorType& positions = function.tensor_type(top_k.results[1]);
  const std::int64_t axis = integer_attribute(top_k, "axis");
  const std::int64_t from_front =
      axis < 0 ? axis + static_cast<std::int64_t>(positions.rank()) : axis;
  const Dim count = positions.dims[static_cast<std::size_t>(from_front)];
  BindingWriter writer(function, into, top_k.source, "top_k");
  writer.emit(Op::argsort, {top_k.operands[0], writer.dim(count)},
              {{"axis", axis}, {"descending", integer_attribute(top_k, "largest")}},
              top_k.results[1]);
  writer.emit(Op::gather_elements, {top_k.operands[0], top_k.results[1]}, {{"axis", axis}},
              top_k.results[0]);
}

// A kernel of a concat has a loop and a guarded read an operand, and its code grows faster than
// their number.
constexpr std::size_t most_joined = 32;

// Neighbours are joined, then what came of them, until few are left.
void write_concat(Function& function, Binding concat, std::vector<Binding>& into) {
  const TensorType& type = function.tensor_type(concat.results[0]);
  const std::int64_t given = integer_attribute(concat, "axis");
  const auto axis =
      static_cast<std::size_t>(given < 0 ? given + static_cast<std::int64_t>(type.rank()) : given);
  while (concat.operands.size() > most_joined) {
    std::vector<ValueId> joined;
    for (std::size_t begin = 0; begin < concat.operands.size(); begin += most_joined) {
      const std::size_t count = std::min(most_joined, concat.operands.size() - begin);
      const std::span<const ValueId> parts = std::span(concat.operands).subspan(begin, count);
      if (count == 1) {
        joined.push_back(parts[0]);
        continue;
      }
      std::vector<Dim> extents;
      for (ValueId part : parts) extents.push_back(function.tensor_type(part).dims[axis]);
      TensorType part_type = function.tensor_type(concat.results[0]);
      part_type.dims[axis] = sum(extents);
      Binding part{.op = Op::concat,
                   .operands = {parts.begin(), parts.end()},
                   .attributes = concat.attributes,
                   .source = concat.source};
      part.results = {function.add_value("joined", Type(std::move(part_type)))};
      joined.push_back(part.results[0]);
      into.push_back(std::move(part));
    }
    concat.operands = std::move(joined);
  }
  into.push_back(std::move(concat));
}

// The condition of any shape as one bool: the least of its elements, which of none at all is the
// greatest number.
void reduce_condition(Function& function, Binding& check, std::vector<Binding>& into) {
  if (function.tensor_type(check.operands[0]).rank() == 0) return;
  BindingWriter writer(function, into, check.source, "condition");
  const ValueId least = writer.emit(Op::reduce_min, {writer.cast(check.operands[0], DType::I32)},
                                    {{"keepdims", std::int64_t{0}}});
  check.operands[0] = writer.cast(least, DType::Bool);
}

// Rows of fewer elements are not worth a kernel of their own.
constexpr std::int64_t shortest_row = 16;

bool is_extreme_of_rows(const Function& function, const Binding& binding) {
  if ((binding.op != Op::reduce_max && binding.op != Op::reduce_min) ||
      binding.operands[0] == no_value)
    return false;
  const TensorType& type = function.tensor_type(binding.operands[0]);
  if (type.rank() < 2 ||
      (type.dims.back().constant() && *type.dims.back().constant() < shortest_row))
    return false;
  return normalised_axes(binding, type.rank()).size() == type.rank();
}

// The largest or smallest of all elements: of each row first, which many workers find at once, or
// the kernel that computes the rows; then of these.
void write_extreme(Function& function, Binding extreme, std::vector<Binding>& into) {
  const std::size_t rank = function.tensor_type(extreme.operands[0]).rank();
  BindingWriter writer(function, into, extreme.source, function.values[extreme.results[0]].name);
  const std::int64_t keep = integer_attribute(extreme, "keepdims");
  extreme.operands[0] = writer.emit(extreme.op, {extreme.operands[0]},
                                    {{"axes", std::vector<std::int64_t>{-1}}, {"keepdims", keep}});
  if (keep != 0) {
    std::vector<std::int64_t> all(rank);
    std::iota(all.begin(), all.end(), 0);
    extreme.attributes["axes"] = std::move(all);
  } else {
    extreme.attributes.erase("axes");
  }
  writer.push(std::move(extreme));
}

// Attention whose weights of NaN are 0. Its result without that is NaN where the weights are, and
// where a value is NaN or infinite; in both cases what it should be is the sum of 0 times each
// value, which is 0 or NaN.
void write_zero_nan(Function& function, Binding attention, std::vector<Binding>& into) {
  const ValueId result = attention.results[0];
  const TensorType type = function.tensor_type(result);
  BindingWriter writer(function, into, attention.source, "weighted");
  attention.attributes.erase("zero_nan");
  attention.results[0] = writer.new_value();
  const ValueId plain = attention.results[0], values = attention.operands[2];
  writer.push(std::move(attention));
  const ValueId none = writer.emit(Op::mul, {values, writer.number(type.dtype, 0)});
  const ValueId sum =
      writer.emit(Op::reduce_sum, {none},
                  {{"axes", std::vector<std::int64_t>{-2}}, {"keepdims", std::int64_t{1}}});
  writer.emit(Op::where, {writer.emit(Op::is_nan, {plain}), sum, plain}, {}, result);
}

bool mixes_along_several(const Function& function, const Binding& binding) {
  return mixes_elements(binding) &&
         normalised_axes(binding, function.tensor_type(binding.operands[0]).rank()).size() > 1;
}

// Linear and cubic resampling along one axis after the other: the sum of both axes' shares, with
// as many elements read as the axes have shares together, not multiplied. Elements of the last axis
// are the costly ones to read, so it is done where there are fewest.
void write_resize(Function& function, const Binding& resize, std::vector<Binding>& into) {
  const TensorType source = function.tensor_type(resize.operands[0]),
                   target = function.tensor_type(resize.results[0]);
  std::vector<std::size_t> axes = normalised_axes(resize, source.rank());
  const bool grows = std::ranges::any_of(axes, [&](std::size_t axis) {
    return axis + 1 != source.rank() &&
           prove_less_equal(target.dims[axis], source.dims[axis], function.symbols) != Proof::Yes;
  });
  if (grows) std::ranges::reverse(axes);
  BindingWriter writer(function, into, resize.source, "resampled");
  Attributes attributes = resize.attributes;
  attributes.erase("sizes");
  const bool converted = source.dtype != DType::F32;
  ValueId value = converted ? writer.cast(resize.operands[0], DType::F32) : resize.operands[0];
  std::vector<Dim> dims = source.dims;
  for (const std::size_t axis : axes) {
    dims[axis] = target.dims[axis];
    attributes["axes"] = std::vector<std::int64_t>{static_cast<std::int64_t>(axis)};
    const bool last = axis == axes.back() && !converted;
    value = writer.emit(Op::dyn_resize, {value, resize.operands[1], writer.shape(dims)}, attributes,
                        last ? resize.results[0] : no_value);
  }
  if (converted) writer.emit(Op::cast, {value}, {{"to", source.dtype}}, resize.results[0]);
}

// `zeroes_nan_weights`: Backend::zeroes_nan_weights().
void decompose(Function& function, Block& block, bool zeroes_nan_weights) {
  std::vector<Binding> result;
  for (Binding& binding : block.bindings) {
    for (Block& nested : binding.blocks) decompose(function, nested, zeroes_nan_weights);
    if (binding.op == Op::top_k || binding.op == Op::dyn_top_k)
      write_top_k(function, binding, result);
    else if (binding.op == Op::concat && binding.operands.size() > most_joined)
      write_concat(function, std::move(binding), result);
    else if (binding.op == Op::attention && !zeroes_nan_weights &&
             integer_attribute(binding, "zero_nan") != 0)
      write_zero_nan(function, std::move(binding), result);
    else if (is_extreme_of_rows(function, binding))
      write_extreme(function, std::move(binding), result);
    else if (mixes_along_several(function, binding)) write_resize(function, binding, result);
    else if (opens_extents(function, binding)) write_counted(function, binding, result);
    else {
      if (binding.op == Op::assertion) reduce_condition(function, binding, result);
      result.push_back(std::move(binding));
    }
  }
  block.bindings = std::move(result);
}

}  // namespace

void decompose(Module& module, PassContext& context) {
  const bool zeroes_nan_weights =
      context.backend != nullptr && context.backend->zeroes_nan_weights();
  for (Function& function : module.functions)
    decompose(function, function.body, zeroes_nan_weights);
  infer_types(module);
}

}  // namespace anydim::passes
