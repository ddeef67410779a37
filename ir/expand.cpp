#include "ir/expand.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "ir/error.h"
#include "ir/loops/scalar_access.h"
#include "ir/reduction.h"

namespace anydim::ir {

const Type& Subgraph::type(ValueId id) const {
  return id < function->values.size() ? function->values[id].type
                                      : extra.at(id - function->values.size()).type;
}

const TensorType& Subgraph::tensor(ValueId id) const {
  const Type& found = type(id);
  internal_check(found.is_tensor(), "a loop form reads tensors only");
  return found.tensor;
}

const std::string& Subgraph::name(ValueId id) const {
  return id < function->values.size() ? function->values[id].name
                                      : extra.at(id - function->values.size()).name;
}

const Binding* Subgraph::definition(ValueId id) const {
  auto found = definitions.find(id);
  return found == definitions.end() ? nullptr : &bindings[found->second.binding];
}

std::vector<std::size_t> normalised_axes(const Binding& binding, std::size_t rank) {
  std::vector<std::size_t> axes;
  auto add = [&](std::int64_t axis) {
    axes.push_back(
        static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis));
  };
  if (binding.op == Op::layer_norm) {
    add(integer_attribute(binding, "axis"));
    while (axes.back() + 1 < rank) axes.push_back(axes.back() + 1);
  } else if (binding.op == Op::softmax || binding.op == Op::log_softmax ||
             binding.op == Op::arg_max || binding.op == Op::arg_min) {
    add(integer_attribute(binding, "axis"));
  } else if (has_attribute(binding, "axes")) {
    for (std::int64_t axis : integers_attribute(binding, "axes")) add(axis);
  } else {
    axes.resize(rank);
    std::iota(axes.begin(), axes.end(), std::size_t{0});
  }
  std::sort(axes.begin(), axes.end());
  internal_check(axes.empty() || axes.back() < rank, "axes are within the rank after inference");
  return axes;
}

namespace {

class Expander {
 public:
  Expander(Subgraph& subgraph) : subgraph_(subgraph) {}

  void add(const Binding& binding) {
    source_ = binding.source;
    if (const auto found = reduction_op(binding.op)) {
      switch (found->over) {
        case ReducedOver::Axes: return reduction(binding);
        case ReducedOver::RunTimeAxes: return run_time_reduction(binding);
        case ReducedOver::Segments: return segment_reduction(binding);
      }
    }
    switch (binding.op) {
      case Op::softmax: return softmax(binding);
      case Op::log_softmax: return log_softmax(binding);
      case Op::layer_norm: return layer_norm(binding);
      case Op::dyn_cumulative_sum: return run_time_cumulative_sum(binding);
      case Op::arg_max:
      case Op::arg_min: return arg(binding);
      default: push(binding);
    }
  }

 private:
  void push(Binding binding) {
    for (std::size_t i = 0; i < binding.results.size(); ++i)
      subgraph_.definitions[binding.results[i]] = {subgraph_.bindings.size(), i};
    subgraph_.bindings.push_back(std::move(binding));
  }

  ValueId value(TensorType type) {
    subgraph_.extra.push_back(
        {"expanded_" + std::to_string(subgraph_.extra.size()), Type(std::move(type))});
    return static_cast<ValueId>(subgraph_.function->values.size() + subgraph_.extra.size() - 1);
  }

  // Result dims of elementwise ops here are those of the first operand (others broadcast to it),
  // unless `result` names the value.
  ValueId apply(Op op, std::vector<ValueId> operands, ValueId result = no_value) {
    if (result == no_value) result = value(subgraph_.tensor(operands[0]));
    push({.op = op, .operands = std::move(operands), .results = {result}, .source = source_});
    return result;
  }

  ValueId cast(ValueId operand, DType to, ValueId result = no_value) {
    if (result == no_value) {
      if (subgraph_.tensor(operand).dtype == to) return operand;
      result = value({to, subgraph_.tensor(operand).dims});
    }
    push({.op = Op::cast,
          .operands = {operand},
          .results = {result},
          .attributes = {{"to", to}},
          .source = source_});
    return result;
  }

  ValueId constant(DType dtype, double number) {
    Tensor tensor(dtype, {});
    tensor.set_real(0, number);
    ValueId result = value({dtype, {}});
    push({.op = Op::constant,
          .results = {result},
          .attributes = {{"value", tensor}},
          .source = source_});
    return result;
  }

  ValueId count(const TensorType& type, const std::vector<std::size_t>& axes, DType dtype) {
    Dim elements = 1;
    for (std::size_t axis : axes) elements = elements * type.dims[axis];
    // Integers have no mean of nothing: it is 0, as is the sum.
    if (is_integer(dtype)) elements = max(elements, 1);
    ValueId result = value({DType::I64, {}});
    push({.op = Op::dim, .results = {result}, .dims = {elements}, .source = source_});
    return cast(result, dtype);
  }

  ValueId reduce(Op op, ValueId operand, const std::vector<std::size_t>& axes, bool keep,
                 ValueId result = no_value) {
    if (result == no_value) {
      TensorType type = subgraph_.tensor(operand);
      std::vector<Dim> dims;
      for (std::size_t i = 0; i < type.dims.size(); ++i) {
        bool reduced = std::binary_search(axes.begin(), axes.end(), i);
        if (!reduced) dims.push_back(type.dims[i]);
        else if (keep) dims.push_back(1);
      }
      result = value({type.dtype, std::move(dims)});
    }
    std::vector<std::int64_t> list(axes.begin(), axes.end());
    push({.op = op,
          .operands = {operand},
          .results = {result},
          .attributes = {{"axes", std::move(list)}, {"keepdims", std::int64_t{keep}}},
          .source = source_});
    return result;
  }

  // What sums and their counts are kept in: neither wraps in 64 bits where both would in 8.
  ValueId widened_for_mean(ValueId operand) {
    const DType dtype = subgraph_.tensor(operand).dtype;
    return is_integer(dtype) ? cast(operand, is_signed(dtype) ? DType::I64 : DType::U64)
                             : widened(operand);
  }

  ValueId widened(ValueId operand) {
    return is_half(subgraph_.tensor(operand).dtype) ? cast(operand, DType::F32) : operand;
  }

  // `last(result)` writes the final value straight into `result`, or into a wide one that is then
  // cast.
  template <typename Last>
  void finish(const Binding& binding, DType computed, Last last) {
    ValueId result = binding.results[0];
    const TensorType& type = subgraph_.tensor(result);
    if (type.dtype == computed) {
      last(result);
    } else {
      ValueId wide = value({computed, type.dims});
      last(wide);
      cast(wide, type.dtype, result);
    }
  }

  void softmax(const Binding& binding) {
    ValueId x = widened(binding.operands[0]);
    auto axes = normalised_axes(binding, subgraph_.tensor(x).rank());
    ValueId e = apply(Op::exp, {apply(Op::sub, {x, reduce(Op::reduce_max, x, axes, true)})});
    ValueId sum = reduce(Op::reduce_sum, e, axes, true);
    finish(binding, subgraph_.tensor(x).dtype,
           [&](ValueId result) { apply(Op::div, {e, sum}, result); });
  }

  void log_softmax(const Binding& binding) {
    ValueId x = widened(binding.operands[0]);
    auto axes = normalised_axes(binding, subgraph_.tensor(x).rank());
    ValueId d = apply(Op::sub, {x, reduce(Op::reduce_max, x, axes, true)});
    ValueId log = apply(Op::log, {reduce(Op::reduce_sum, apply(Op::exp, {d}), axes, true)});
    finish(binding, subgraph_.tensor(x).dtype,
           [&](ValueId result) { apply(Op::sub, {d, log}, result); });
  }

  void layer_norm(const Binding& binding) {
    ValueId x = widened(binding.operands[0]);
    DType dtype = subgraph_.tensor(x).dtype;
    TensorType type = subgraph_.tensor(x);
    auto axes = normalised_axes(binding, type.rank());
    ValueId elements = count(type, axes, dtype);
    ValueId mean = apply(Op::div, {reduce(Op::reduce_sum, x, axes, true), elements});
    ValueId d = apply(Op::sub, {x, mean});
    ValueId variance =
        apply(Op::div, {reduce(Op::reduce_sum, apply(Op::mul, {d, d}), axes, true), elements});
    ValueId deviation =
        apply(Op::sqrt,
              {apply(Op::add, {variance, constant(dtype, real_attribute(binding, "epsilon"))})});
    ValueId scaled = apply(Op::mul, {d, apply(Op::reciprocal, {deviation})});
    ValueId scale = cast(binding.operands[1], dtype);
    bool has_bias = binding.operands.size() > 2 && binding.operands[2] != no_value;
    finish(binding, dtype, [&](ValueId result) {
      if (!has_bias) {
        apply(Op::mul, {scaled, scale}, result);
      } else {
        apply(Op::add, {apply(Op::mul, {scaled, scale}), cast(binding.operands[2], dtype)}, result);
      }
    });
  }

  // The same elements under other dims.
  ValueId reshaped(ValueId operand, std::vector<Dim> dims, ValueId result = no_value) {
    if (result == no_value) result = value({subgraph_.tensor(operand).dtype, std::move(dims)});
    push({.op = Op::reshape, .operands = {operand}, .results = {result}, .source = source_});
    return result;
  }

  void arg(const Binding& binding) {
    ValueId x = widened(binding.operands[0]);
    const TensorType type = subgraph_.tensor(x);
    const auto axes = normalised_axes(binding, type.rank());
    const bool last = integer_attribute(binding, "last") != 0;
    const bool keep = integer_attribute(binding, "keepdims") != 0;
    const ValueId best =
        reduce(binding.op == Op::arg_max ? Op::reduce_max : Op::reduce_min, x, axes, true);
    const TensorType truth{DType::Bool, type.dims};
    ValueId found = apply(Op::equal, {x, best}, value(truth));
    // Nothing equals a NaN; where there is one, the extreme is NaN.
    if (is_float(type.dtype))
      found = apply(Op::logical_or, {found, apply(Op::is_nan, {x}, value(truth))}, value(truth));
    const ValueId elsewhere = integer(last ? -1 : std::numeric_limits<std::int64_t>::max());
    const ValueId candidates = apply(Op::where, {found, positions(type, axes[0]), elsewhere},
                                     value({DType::I64, type.dims}));
    reduce(last ? Op::reduce_max : Op::reduce_min, candidates, axes, keep, binding.results[0]);
  }

  ValueId integer(std::int64_t number) {
    ValueId result = value({DType::I64, {}});
    Attributes attributes{{"value", Tensor::of<std::int64_t>(DType::I64, {}, {number})}};
    push({.op = Op::constant,
          .results = {result},
          .attributes = std::move(attributes),
          .source = source_});
    return result;
  }

  // 0, 1, 2, ... along the axis, in dims that broadcast to the type's.
  ValueId positions(const TensorType& type, std::size_t axis) {
    const auto literal = [&](const Dim& dim) {
      ValueId result = value({DType::I64, {}});
      push({.op = Op::dim, .results = {result}, .dims = {dim}, .source = source_});
      return result;
    };
    const Dim& extent = type.dims[axis];
    std::vector<ValueId> range{literal(0), literal(extent), literal(1)};
    ValueId counted = value({DType::I64, {extent}});
    push({.op = Op::dyn_arange,
          .operands = std::move(range),
          .results = {counted},
          .source = source_});
    std::vector<Dim> dims(type.rank(), Dim(1));
    dims[axis] = extent;
    return reshaped(counted, std::move(dims));
  }

  void run_time_reduction(const Binding& binding) {
    const TensorType type = subgraph_.tensor(binding.operands[0]);
    const auto axes = binding.operands.size() > 1 ? literal_elements(subgraph_, binding.operands[1])
                                                  : std::nullopt;
    const auto op = static_twin(binding.op);
    internal_check(op.has_value(), "every dynamic reduction has a static twin");
    const bool absent = binding.operands.size() < 2 || binding.operands[1] == no_value;
    if (!axes && !absent) return push(binding);
    const bool none = absent || axes->empty();
    if (none || axes->size() == type.rank()) {
      Binding all{.op = *op,
                  .operands = {binding.operands[0]},
                  .results = binding.results,
                  .source = source_};
      all.attributes.emplace("keepdims", integer_attribute(binding, "keepdims"));
      if (none && integer_attribute(binding, "empty_keeps") != 0)
        all.attributes.emplace("axes", std::vector<std::int64_t>{});
      return reduction(all);
    }
    std::vector<Dim> pairs, kept;
    std::vector<std::int64_t> reduced;
    for (std::size_t i = 0; i < type.rank(); ++i) {
      const auto here = static_cast<std::int64_t>(i),
                 from_back = here - static_cast<std::int64_t>(type.rank());
      Dim outer = type.dims[i], inner = 1;
      for (const Dim& axis : *axes) {
        for (std::int64_t name : {here, from_back}) {
          outer = select(Comparison::Equal, axis, name, 1, outer);
          inner = select(Comparison::Equal, axis, name, type.dims[i], inner);
        }
      }
      reduced.push_back(static_cast<std::int64_t>(pairs.size()) + 1);
      pairs.insert(pairs.end(), {outer, inner});
      kept.push_back(outer);
    }
    const ValueId paired = reshaped(binding.operands[0], pairs);
    const ValueId result = value({type.dtype, kept});
    Binding fixed{.op = *op, .operands = {paired}, .results = {result}, .source = source_};
    fixed.attributes = {{"axes", reduced}, {"keepdims", std::int64_t{0}}};
    reduction(fixed);
    reshaped(result, {}, binding.results[0]);
  }

  // Along the middle one of the dims before the axis, at it and after it.
  void run_time_cumulative_sum(const Binding& binding) {
    const TensorType type = subgraph_.tensor(binding.operands[0]);
    const auto given = literal_elements(subgraph_, binding.operands[1]);
    if (!given) return push(binding);
    const auto rank = static_cast<std::int64_t>(type.rank());
    const Dim axis = select(Comparison::Less, given->at(0), 0, given->at(0) + rank, given->at(0));
    std::vector<Dim> dims{1, 1, 1};
    for (std::size_t i = 0; i < type.rank(); ++i) {
      const auto position = static_cast<std::int64_t>(i);
      dims[0] = dims[0] * select(Comparison::Less, position, axis, type.dims[i], 1);
      dims[1] = dims[1] * select(Comparison::Equal, position, axis, type.dims[i], 1);
      dims[2] = dims[2] * select(Comparison::Less, axis, position, type.dims[i], 1);
    }
    const ValueId middle = reshaped(binding.operands[0], dims);
    const ValueId sums = value({type.dtype, dims});
    Binding fixed{.op = Op::cumulative_sum,
                  .operands = {middle},
                  .results = {sums},
                  .attributes = binding.attributes,
                  .source = source_};
    fixed.attributes["axis"] = std::int64_t{1};
    push(std::move(fixed));
    reshaped(sums, {}, binding.results[0]);
  }

  void reduction(const Binding& binding) {
    ValueId x = binding.op == Op::reduce_mean ? widened_for_mean(binding.operands[0])
                                              : widened(binding.operands[0]);
    TensorType type = subgraph_.tensor(x);
    auto axes = normalised_axes(binding, type.rank());
    bool keep = integer_attribute(binding, "keepdims") != 0;
    finish(binding, type.dtype, [&](ValueId result) {
      if (axes.empty()) {
        cast(x, type.dtype, result);  // over no axes: every element by itself
      } else if (binding.op != Op::reduce_mean) {
        reduce(binding.op, x, axes, keep, result);
      } else {
        ValueId elements = count(type, axes, type.dtype);
        apply(Op::div, {reduce(Op::reduce_sum, x, axes, keep), elements}, result);
      }
    });
  }

  void segment_reduction(const Binding& binding) {
    ValueId x = widened(binding.operands[0]);
    finish(binding, subgraph_.tensor(x).dtype, [&](ValueId result) {
      push({.op = binding.op,
            .operands = {x, binding.operands[1]},
            .results = {result},
            .source = source_});
    });
  }

  Subgraph& subgraph_;
  std::string source_;
};

}  // namespace

Subgraph expand_subgraph(const Function& function, std::span<const Binding> bindings) {
  Subgraph subgraph{.function = &function};
  Expander expander(subgraph);
  for (const Binding& binding : bindings) expander.add(binding);
  return subgraph;
}

}  // namespace anydim::ir
