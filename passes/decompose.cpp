#include "passes/decompose.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "ir/error.h"
#include "ir/expand.h"
#include "ir/shapes/infer.h"
#include "passes/binding_writer.h"
#include "passes/decompose_counts.h"
#include "passes/rewrite.h"

namespace anydim::passes {

using namespace ir;

namespace {

class TopK {
 public:
  TopK(Function& function, const Binding& binding, std::vector<Binding>& into)
      : function_(function), binding_(binding), into_(into),
        type_(function.tensor_type(binding.operands[0])) {}

  void write() {
    const std::int64_t given = integer_attribute(binding_, "axis");
    axis_ = static_cast<std::size_t>(given < 0 ? given + static_cast<std::int64_t>(type_.rank())
                                               : given);
    const Dim& extent = type_.dims[axis_];
    const Dim k = function_.tensor_type(binding_.results[1]).dims[axis_];
    const ValueId ranks = ranked(extent);
    // where(rank == place, position, 0), summed: one position has each rank.
    const ValueId rank = widened(ranks, axis_);
    const ValueId place = counted(k, axis_);
    const std::vector<Dim> pairs = with_pair(k, extent);
    const ValueId here = apply(Op::equal, {rank, place}, {DType::Bool, pairs});
    const ValueId chosen =
        apply(Op::where, {here, counted(extent, axis_ + 1), constant(0)}, {DType::I64, pairs});
    reduce(chosen, binding_.results[1]);
    Binding gather{.op = Op::gather_elements,
                   .operands = {binding_.operands[0], binding_.results[1]},
                   .results = {binding_.results[0]}};
    gather.attributes.emplace("axis", static_cast<std::int64_t>(axis_));
    push(std::move(gather));
  }

 private:
  // For each element how many come before it: larger ones (smaller, where the smallest are asked
  // for), and equal ones to its left.
  ValueId ranked(const Dim& extent) {
    const std::vector<Dim> pairs = with_pair(extent, extent);
    const auto truth = [&](Op op, ValueId a, ValueId b) {
      return apply(op, {a, b}, {DType::Bool, pairs});
    };
    const ValueId own = widened(binding_.operands[0], axis_ + 1),
                  other = widened(binding_.operands[0], axis_);
    const bool largest = integer_attribute(binding_, "largest") != 0;
    ValueId before = truth(largest ? Op::greater : Op::less, other, own);
    ValueId equal = truth(Op::equal, other, own);
    if (is_float(type_.dtype)) {
      const auto is_nan = [&](ValueId value) {
        return apply(Op::is_nan, {value}, {DType::Bool, function_.tensor_type(value).dims});
      };
      const ValueId other_nan = is_nan(other), own_nan = is_nan(own);
      const auto negated = [&](ValueId value) {
        return apply(Op::logical_not, {value}, function_.tensor_type(value));
      };
      // NaN counts as larger than every number, and as equal to NaN.
      const ValueId first = largest ? other_nan : negated(other_nan),
                    second = largest ? negated(own_nan) : own_nan;
      before = truth(Op::logical_or, before, truth(Op::logical_and, first, second));
      equal = truth(Op::logical_or, equal, truth(Op::logical_and, other_nan, own_nan));
    }
    const ValueId left = truth(Op::less, counted(extent, axis_ + 1), counted(extent, axis_));
    before = truth(Op::logical_or, before, truth(Op::logical_and, equal, left));
    Binding cast{.op = Op::cast, .operands = {before}, .attributes = {{"to", DType::I64}}};
    const ValueId one = result(std::move(cast), {DType::I64, pairs});
    const ValueId ranks = function_.add_value("rank", TensorType{DType::I64, type_.dims});
    reduce(one, ranks);
    return ranks;
  }

  std::vector<Dim> with_pair(const Dim& first, const Dim& second) const {
    std::vector<Dim> dims = type_.dims;
    dims[axis_] = first;
    dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis_) + 1, second);
    return dims;
  }

  // With a dim of 1 at `axis`.
  ValueId widened(ValueId value, std::size_t axis) {
    TensorType type = function_.tensor_type(value);
    type.dims.insert(type.dims.begin() + static_cast<std::ptrdiff_t>(axis), Dim(1));
    Binding binding{.op = Op::expand_dims, .operands = {value}};
    binding.attributes.emplace("axes", std::vector<std::int64_t>{static_cast<std::int64_t>(axis)});
    return result(std::move(binding), std::move(type));
  }

  // 0, 1, 2, ... along `axis` of the pairs' dims.
  ValueId counted(const Dim& extent, std::size_t axis) {
    std::vector<ValueId> range;
    for (const Dim& bound : {Dim(0), extent, Dim(1)})
      range.push_back(result({.op = Op::dim, .dims = {bound}}, {DType::I64, {}}));
    const ValueId vector =
        result({.op = Op::dyn_arange, .operands = std::move(range)}, {DType::I64, {extent}});
    Binding spread{.op = Op::expand_dims, .operands = {vector}};
    std::vector<std::int64_t> axes;
    std::vector<Dim> dims(type_.rank() + 1, Dim(1));
    for (std::size_t i = 0; i < dims.size(); ++i) {
      if (i != axis) axes.push_back(static_cast<std::int64_t>(i));
    }
    dims[axis] = extent;
    spread.attributes.emplace("axes", std::move(axes));
    return result(std::move(spread), {DType::I64, std::move(dims)});
  }

  ValueId constant(std::int64_t value) {
    Binding binding{.op = Op::constant};
    binding.attributes.emplace("value", Tensor::of<std::int64_t>(DType::I64, {}, {value}));
    return result(std::move(binding), {DType::I64, {}});
  }

  // Sums over the second dim of the pairs.
  void reduce(ValueId pairs, ValueId into) {
    Binding sum{.op = Op::reduce_sum, .operands = {pairs}, .results = {into}};
    sum.attributes.emplace("axes", std::vector<std::int64_t>{static_cast<std::int64_t>(axis_) + 1});
    push(std::move(sum));
  }

  ValueId apply(Op op, std::vector<ValueId> operands, TensorType type) {
    return result({.op = op, .operands = std::move(operands)}, std::move(type));
  }

  ValueId result(Binding binding, TensorType type) {
    binding.results = {function_.add_value("top_k", Type(std::move(type)))};
    const ValueId made = binding.results[0];
    push(std::move(binding));
    return made;
  }

  void push(Binding binding) {
    binding.source = binding_.source;
    into_.push_back(std::move(binding));
  }

  Function& function_;
  const Binding binding_;
  std::vector<Binding>& into_;
  const TensorType type_;
  std::size_t axis_ = 0;
};

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

void decompose(Function& function, Block& block) {
  std::vector<Binding> result;
  for (Binding& binding : block.bindings) {
    for (Block& nested : binding.blocks) decompose(function, nested);
    if (binding.op == Op::top_k || binding.op == Op::dyn_top_k)
      TopK(function, binding, result).write();
    else if (binding.op == Op::concat && binding.operands.size() > most_joined)
      write_concat(function, std::move(binding), result);
    else if (binding.op == Op::attention && integer_attribute(binding, "zero_nan") != 0)
      write_zero_nan(function, std::move(binding), result);
    else if (is_extreme_of_rows(function, binding))
      write_extreme(function, std::move(binding), result);
    else if (opens_extents(function, binding)) write_counted(function, binding, result);
    else {
      if (binding.op == Op::assertion) reduce_condition(function, binding, result);
      result.push_back(std::move(binding));
    }
  }
  block.bindings = std::move(result);
}

}  // namespace

void decompose(Module& module, PassContext&) {
  for (Function& function : module.functions) decompose(function, function.body);
  infer_types(module);
}

}  // namespace anydim::passes
