// A rule over symbols, evaluated at some sizes, says what the evaluator really does at these sizes:
// the shapes of results, the elements of small integer tensors, and whether the op fails. Random
// ops, attributes, shapes and elements.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>

#include "ir/error.h"
#include "ir/reference/evaluate.h"
#include "ir/shapes/shape_rule.h"
#include "ir/text/print.h"

namespace anydim::ir {
namespace {

using Extents = std::vector<std::int64_t>;

// Over the whole range from the first sample on.
std::int64_t number(std::int64_t low, std::int64_t high) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange<std::int64_t>(low, high + 1));
}
bool coin() { return number(0, 1) == 1; }
std::int64_t extent() { return number(0, 4); }

Extents extents(std::size_t rank) {
  Extents dims;
  for (std::size_t i = 0; i < rank; ++i) dims.push_back(extent());
  return dims;
}

// Dims that broadcast with `dims` as a rule.
Extents beside(const Extents& dims) {
  Extents result(dims.begin() + number(0, static_cast<std::int64_t>(dims.size())), dims.end());
  for (std::int64_t& dim : result) {
    if (number(0, 3) == 0) dim = 1;
    if (number(0, 15) == 0) dim = extent();
  }
  return result;
}

Tensor filled(DType dtype, const Extents& dims, std::int64_t low, std::int64_t high) {
  Tensor tensor(dtype, dims);
  for (std::int64_t i = 0; i < tensor.elements(); ++i) tensor.set_integer(i, number(low, high));
  return tensor;
}

Tensor vector_of(const Extents& elements) {
  return Tensor::of(DType::I64, {static_cast<std::int64_t>(elements.size())}, elements);
}

struct Sample {
  Binding binding;
  std::vector<Tensor> operands;
  std::vector<bool> constant;  // the operand's elements must be known to the rule
  std::size_t results = 1;

  void add(Tensor tensor, bool must_be_known = false) {
    operands.push_back(std::move(tensor));
    constant.push_back(must_be_known);
  }
  // The static op takes an attribute where its dynamic twin takes an operand.
  void add_integers(const std::string& name, const Extents& integers, bool must_be_known = false) {
    if (info(binding.op).has(traits::dynamic)) add(vector_of(integers), must_be_known);
    else binding.attributes[name] = integers;
  }
};

std::int64_t some_axis(std::size_t rank) {
  const auto signed_rank = static_cast<std::int64_t>(rank);
  return number(-signed_rank, signed_rank - 1);
}

// Different axes, some negative, rarely one out of range.
Extents some_axes(std::size_t rank) {
  Extents axes;
  const auto signed_rank = static_cast<std::int64_t>(rank);
  for (std::int64_t axis = 0; axis < signed_rank; ++axis) {
    if (coin()) axes.push_back(coin() ? axis : axis - signed_rank);
  }
  if (number(0, 30) == 0) axes.push_back(signed_rank);
  return axes;
}

Op one_of(std::initializer_list<Op> ops) {
  return *(ops.begin() + number(0, static_cast<std::int64_t>(ops.size()) - 1));
}

void elementwise(Sample& sample) {
  sample.binding.op = one_of({Op::add, Op::sub, Op::mul, Op::min, Op::max, Op::div, Op::mod,
                              Op::equal, Op::less, Op::less_equal, Op::greater, Op::greater_equal,
                              Op::where, Op::logical_and, Op::logical_or, Op::logical_xor});
  const Op op = sample.binding.op;
  if (op == Op::mod) sample.binding.attributes["truncate"] = number(0, 1);
  const Extents dims = extents(static_cast<std::size_t>(number(0, 2)));
  const DType dtype = info(op).has(traits::logical) ? DType::Bool
                      : coin()                      ? DType::I64
                                                    : DType::I32;
  const bool bools = dtype == DType::Bool;
  if (op == Op::where) sample.add(filled(DType::Bool, beside(dims), 0, 1));
  sample.add(filled(dtype, dims, bools ? 0 : -9, bools ? 1 : 9));
  Tensor second = filled(dtype, beside(dims), bools ? 0 : -9, bools ? 1 : 9);
  for (std::int64_t i = 0; i < second.elements() && (op == Op::div || op == Op::mod); ++i) {
    if (second.integer_at(i) == 0) second.set_integer(i, 3);
  }
  sample.add(std::move(second));
}

void unary(Sample& sample) {
  sample.binding.op = one_of({Op::abs, Op::neg, Op::sign, Op::relu, Op::cast, Op::logical_not});
  if (sample.binding.op == Op::cast) {
    sample.binding.attributes["to"] = std::vector<DType>{
        DType::I64, DType::I8, DType::Bool, DType::F32}[static_cast<std::size_t>(number(0, 3))];
  }
  const bool bools = sample.binding.op == Op::logical_not;
  sample.add(filled(bools ? DType::Bool : DType::I64,
                    extents(static_cast<std::size_t>(number(0, 2))), bools ? 0 : -300,
                    bools ? 1 : 300));
}

void reshape(Sample& sample) {
  sample.binding.op = one_of({Op::reshape, Op::dyn_reshape});
  const Extents dims = extents(static_cast<std::size_t>(number(0, 3)));
  Extents shape = dims;
  if (coin()) std::reverse(shape.begin(), shape.end());
  if (coin() && shape.size() >= 2) {
    shape[1] *= shape[0];
    shape.erase(shape.begin());
  }
  if (number(0, 3) == 0) shape.push_back(number(0, 2));
  if (!shape.empty() && coin())
    shape[static_cast<std::size_t>(number(0, static_cast<std::int64_t>(shape.size()) - 1))] = -1;
  sample.add(filled(DType::I64, dims, -9, 9));
  sample.add_integers("shape", shape);
}

void axes_op(Sample& sample) {
  sample.binding.op = one_of({Op::expand_dims, Op::dyn_expand_dims, Op::squeeze, Op::dyn_squeeze});
  const bool expands =
      sample.binding.op == Op::expand_dims || sample.binding.op == Op::dyn_expand_dims;
  Extents dims = extents(static_cast<std::size_t>(number(0, 3)));
  if (!expands) {
    for (std::int64_t& dim : dims) dim = coin() ? 1 : dim;
  }
  Extents axes = some_axes(dims.size() + (expands ? 1 : 0));
  if (expands) axes.resize(std::min<std::size_t>(axes.size(), 1));
  sample.add(filled(DType::I64, dims, -9, 9));
  sample.add_integers("axes", axes);
}

void broadcast_or_tile(Sample& sample) {
  sample.binding.op = one_of(
      {Op::broadcast_to, Op::dyn_broadcast_to, Op::tile, Op::dyn_tile, Op::full, Op::dyn_full});
  const Op op = sample.binding.op;
  const bool tiles = op == Op::tile || op == Op::dyn_tile;
  const bool fills = op == Op::full || op == Op::dyn_full;
  const Extents dims = extents(fills ? 0 : static_cast<std::size_t>(number(0, 3)));
  sample.add(filled(DType::I64, dims, -9, 9));
  sample.add_integers(tiles ? "repeats" : "shape",
                      tiles   ? extents(dims.size())
                      : fills ? extents(static_cast<std::size_t>(number(0, 2)))
                              : beside(dims));
}

void transpose_flatten_trilu(Sample& sample) {
  sample.binding.op = one_of({Op::transpose, Op::flatten, Op::trilu, Op::shape_of});
  const Extents dims =
      extents(static_cast<std::size_t>(number(sample.binding.op == Op::trilu ? 2 : 0, 3)));
  const auto rank = static_cast<std::int64_t>(dims.size());
  if (sample.binding.op == Op::transpose && coin()) {
    Extents perm(dims.size());
    std::iota(perm.begin(), perm.end(), 0);
    std::rotate(perm.begin(), perm.begin() + number(0, rank == 0 ? 0 : rank - 1), perm.end());
    sample.binding.attributes["perm"] = perm;
  }
  if (sample.binding.op == Op::flatten) sample.binding.attributes["axis"] = number(-rank, rank);
  if (sample.binding.op == Op::trilu) sample.binding.attributes["k"] = number(-3, 3);
  sample.add(filled(DType::I64, dims, -9, 9));
}

void concat(Sample& sample) {
  sample.binding.op = Op::concat;
  const Extents dims = extents(static_cast<std::size_t>(number(1, 3)));
  const std::int64_t axis = some_axis(dims.size());
  sample.binding.attributes["axis"] = axis;
  for (std::int64_t i = number(1, 3); i > 0; --i) {
    Extents part = dims;
    part[static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(dims.size())
                                           : axis)] = extent();
    if (number(0, 20) == 0) part[0] = extent();
    sample.add(filled(DType::I64, part, -9, 9));
  }
}

std::int64_t bound() {
  const std::int64_t kind = number(0, 11);
  if (kind == 0) return std::numeric_limits<std::int64_t>::max();
  if (kind == 1) return std::numeric_limits<std::int64_t>::min();
  return number(-7, 7);
}

void slice(Sample& sample) {
  sample.binding.op = one_of({Op::strided_slice, Op::dyn_strided_slice});
  const Extents dims = extents(static_cast<std::size_t>(number(1, 2)));
  const Extents axes = some_axes(dims.size());
  Extents starts, ends, steps;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    starts.push_back(bound());
    ends.push_back(bound());
    const std::int64_t step = bound();
    steps.push_back(step == 0 && number(0, 9) != 0 ? 1 : step);
  }
  sample.add(filled(DType::I64, dims, -9, 9));
  sample.add_integers("starts", starts);
  sample.add_integers("ends", ends);
  sample.add_integers("axes", axes);
  sample.add_integers("steps", steps);
}

void split(Sample& sample) {
  sample.binding.op = one_of({Op::split, Op::dyn_split});
  const Extents dims = extents(static_cast<std::size_t>(number(1, 2)));
  const std::int64_t axis = some_axis(dims.size());
  const std::int64_t size = dims[static_cast<std::size_t>(
      axis < 0 ? axis + static_cast<std::int64_t>(dims.size()) : axis)];
  sample.binding.attributes["axis"] = axis;
  sample.results = static_cast<std::size_t>(number(1, 3));
  sample.add(filled(DType::I64, dims, -9, 9));
  if (sample.binding.op == Op::split && coin()) return;
  Extents sizes;
  std::int64_t rest = size;
  for (std::size_t i = 1; i < sample.results; ++i) {
    sizes.push_back(number(0, rest));
    rest -= sizes.back();
  }
  sizes.push_back(number(0, 9) == 0 ? extent() : rest);
  sample.add_integers("sizes", sizes);
}

void gather(Sample& sample) {
  sample.binding.op = one_of({Op::gather, Op::gather_elements, Op::gather_nd});
  Extents dims = extents(static_cast<std::size_t>(number(1, 3)));
  for (std::int64_t& dim : dims) dim = std::max<std::int64_t>(dim, 1);
  const std::int64_t axis = some_axis(dims.size());
  const std::int64_t size = dims[static_cast<std::size_t>(
      axis < 0 ? axis + static_cast<std::int64_t>(dims.size()) : axis)];
  sample.add(filled(DType::I64, dims, -9, 9));
  if (sample.binding.op == Op::gather_nd) {
    const std::int64_t smallest = *std::ranges::min_element(dims);
    Extents indices = extents(static_cast<std::size_t>(number(0, 2)));
    indices.push_back(number(1, static_cast<std::int64_t>(dims.size())));
    return sample.add(filled(DType::I64, indices, -smallest, smallest - 1));
  }
  sample.binding.attributes["axis"] = axis;
  const Extents indices = sample.binding.op == Op::gather
                              ? extents(static_cast<std::size_t>(number(0, 2)))
                              : extents(dims.size());
  sample.add(filled(DType::I64, indices, -size, size - 1));
}

void reduce(Sample& sample) {
  sample.binding.op = one_of({Op::reduce_sum, Op::reduce_max, Op::reduce_min, Op::reduce_prod,
                              Op::reduce_mean, Op::dyn_reduce_sum, Op::dyn_reduce_max,
                              Op::dyn_reduce_min, Op::dyn_reduce_prod, Op::dyn_reduce_mean});
  const Extents dims = extents(static_cast<std::size_t>(number(0, 3)));
  sample.add(filled(DType::I64, dims, -9, 9));
  const bool keep = coin();
  sample.binding.attributes["keepdims"] = std::int64_t{keep};
  const bool dynamic = info(sample.binding.op).has(traits::dynamic);
  if (dynamic && coin()) sample.binding.attributes["empty_keeps"] = std::int64_t{1};
  if (dynamic || coin()) {
    const Extents axes = some_axes(dims.size());
    sample.add_integers("axes", axes);
  }
}

void product(Sample& sample) {
  sample.binding.op = one_of({Op::matmul, Op::attention, Op::layer_norm, Op::softmax});
  const Op op = sample.binding.op;
  const Extents batch = extents(static_cast<std::size_t>(number(0, 2)));
  const std::int64_t rows = extent(), depth = extent(), keys = extent();
  const auto with = [](Extents dims, std::initializer_list<std::int64_t> more) {
    dims.insert(dims.end(), more);
    return filled(DType::F32, dims, -2, 2);
  };
  const auto depth_again = [&] { return number(0, 15) == 0 ? extent() : depth; };
  if (op == Op::matmul) {
    sample.add(coin() ? with(batch, {rows, depth}) : with({}, {depth}));
    sample.add(coin() ? with(beside(batch), {depth_again(), keys}) : with({}, {depth_again()}));
  } else if (op == Op::attention) {
    sample.add(with(batch, {rows, depth}));
    sample.add(with(beside(batch), {keys, depth_again()}));
    sample.add(with(beside(batch), {keys, extent()}));
    if (coin()) sample.add(filled(DType::F32, beside({rows, keys}), -2, 2));
  } else {
    sample.add(with(batch, {rows, depth}));
    sample.binding.attributes["axis"] = some_axis(batch.size() + 2);
    if (op == Op::layer_norm) sample.add(with({}, {depth_again()}));
  }
}

// Ops that place elements: pad, repeat, one_hot, resize, scatter.
void placed(Sample& sample) {
  sample.binding.op = one_of({Op::pad, Op::dyn_pad, Op::repeat, Op::dyn_repeat, Op::windows,
                              Op::dyn_windows, Op::one_hot, Op::dyn_one_hot, Op::resize,
                              Op::dyn_resize, Op::scatter_elements, Op::scatter_nd});
  const Op op = sample.binding.op;
  const bool dynamic = info(op).has(traits::dynamic);
  const auto integer = [](std::int64_t value) {
    return Tensor::of(DType::I64, {}, Extents{value});
  };
  Extents dims = extents(static_cast<std::size_t>(number(1, 3)));
  const std::int64_t axis = some_axis(dims.size());
  std::int64_t& along = dims[static_cast<std::size_t>(
      axis < 0 ? axis + static_cast<std::int64_t>(dims.size()) : axis)];
  const auto single = [&](const std::string& name, std::int64_t value) {
    if (dynamic) sample.add(integer(value));
    else sample.binding.attributes[name] = value;
  };
  if (op == Op::one_hot || op == Op::dyn_one_hot) {
    sample.add(filled(DType::I64, dims, -4, 4));
    sample.add(integer(0));
    sample.add(integer(1));
    sample.binding.attributes["axis"] = axis;
    return single("depth", number(dynamic ? -1 : 0, 4));
  }
  if (op == Op::scatter_elements || op == Op::scatter_nd) {
    along = std::max<std::int64_t>(along, 1);
    sample.add(filled(DType::I64, dims, -9, 9));
    if (coin()) sample.binding.attributes["reduction"] = std::string(coin() ? "add" : "max");
    if (op == Op::scatter_elements) {
      sample.binding.attributes["axis"] = axis;
      Extents indices = dims;
      for (std::int64_t& dim : indices) dim = number(0, dim + (number(0, 9) == 0 ? 1 : 0));
      sample.add(filled(DType::I64, indices, -along, along - 1));
      return sample.add(filled(DType::I64, indices, -9, 9));
    }
    const auto depth = static_cast<std::size_t>(number(1, static_cast<std::int64_t>(dims.size())));
    const std::int64_t smallest =
        *std::min_element(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(depth));
    Extents updates = extents(static_cast<std::size_t>(number(0, 2)));
    if (smallest == 0 && !updates.empty()) updates[0] = 0;
    if (smallest == 0 && updates.empty()) updates = {0};
    Extents indices = updates;
    indices.push_back(static_cast<std::int64_t>(depth));
    sample.add(filled(DType::I64, indices, -smallest, smallest - 1));
    updates.insert(updates.end(), dims.begin() + static_cast<std::ptrdiff_t>(depth), dims.end());
    return sample.add(filled(DType::I64, updates, -9, 9));
  }
  sample.add(filled(DType::I64, dims, -9, 9));
  if (op == Op::repeat || op == Op::dyn_repeat) {
    sample.binding.attributes["axis"] = axis;
    return single("repeats", number(dynamic ? -1 : 0, 3));
  }
  if (op == Op::windows || op == Op::dyn_windows) {
    sample.binding.attributes["axes"] = Extents{axis};
    if (coin()) sample.binding.attributes["strides"] = Extents{number(1, 3)};
    if (coin()) sample.binding.attributes["dilations"] = Extents{number(1, 2)};
    return sample.add_integers("sizes", {number(dynamic ? -1 : 1, 3)});
  }
  if (op == Op::resize || op == Op::dyn_resize) {
    Tensor scales(DType::F32, {static_cast<std::int64_t>(dims.size())});
    for (std::int64_t i = 0; i < scales.elements(); ++i) scales.set_real(i, 1.5);
    sample.add(std::move(scales));
    return sample.add_integers("sizes", extents(dims.size()));
  }
  static const std::vector<std::string> modes{"constant", "edge", "reflect", "wrap"};
  sample.binding.attributes["mode"] = modes[static_cast<std::size_t>(number(0, 3))];
  sample.add(integer(7));
  const Extents axes = coin() ? Extents{axis} : Extents{};
  const std::size_t count = axes.empty() ? dims.size() : 1;
  Extents before, after;
  for (std::size_t i = 0; i < count; ++i) {
    before.push_back(number(-1, 3));
    after.push_back(number(-1, 3));
  }
  sample.add_integers("before", before);
  sample.add_integers("after", after);
  if (!axes.empty()) sample.add_integers("axes", axes, true);
}

void ordered(Sample& sample) {
  sample.binding.op = one_of({Op::arg_max, Op::arg_min, Op::cumulative_sum, Op::dyn_cumulative_sum,
                              Op::top_k, Op::dyn_top_k});
  const Op op = sample.binding.op;
  const Extents dims = extents(static_cast<std::size_t>(number(1, 3)));
  sample.add(filled(DType::I64, dims, -9, 9));
  const std::int64_t axis = some_axis(dims.size());
  if (op == Op::dyn_cumulative_sum)
    return sample.add(Tensor::of(DType::I64, {}, Extents{number(0, 15) == 0 ? 9 : axis}));
  sample.binding.attributes["axis"] = axis;
  if (op == Op::arg_max || op == Op::arg_min) sample.binding.attributes["keepdims"] = number(0, 1);
  if (op != Op::top_k && op != Op::dyn_top_k) return;
  sample.results = 2;
  const std::int64_t k = number(op == Op::top_k ? 0 : -1, 4);
  if (op == Op::top_k) sample.binding.attributes["k"] = k;
  else sample.add(Tensor::of(DType::I64, {}, Extents{k}));
}

void arange(Sample& sample) {
  sample.binding.op = one_of({Op::arange, Op::dyn_arange});
  const std::int64_t step = number(-3, 3);
  const Extents values{number(-9, 9), number(-9, 9),
                       sample.binding.op == Op::arange && step == 0 ? 1 : step};
  const std::vector<std::string> names{"start", "stop", "step"};
  for (std::size_t i = 0; i < 3; ++i) {
    if (sample.binding.op == Op::arange) sample.binding.attributes[names[i]] = values[i];
    else sample.add(Tensor::of(DType::I64, {}, Extents{values[i]}));
  }
}

Sample any_sample() {
  Sample sample;
  void (*const makers[])(Sample&) = {elementwise,
                                     elementwise,
                                     unary,
                                     reshape,
                                     axes_op,
                                     broadcast_or_tile,
                                     transpose_flatten_trilu,
                                     concat,
                                     slice,
                                     slice,
                                     split,
                                     gather,
                                     reduce,
                                     product,
                                     arange,
                                     placed,
                                     placed,
                                     ordered};
  makers[number(0, std::size(makers) - 1)](sample);
  return sample;
}

// The sample as a rule sees it: some dims and some elements become symbols.
struct Symbolic {
  Function function;
  std::vector<ShapeData> shape_data;
  std::map<std::string, std::int64_t> values;

  Dim maybe_symbol(std::int64_t value) {
    if (value < 0 || coin()) return value;
    // Equal numbers share a symbol or not, so both proofs and open questions come up.
    std::string name = coin() ? "v" + std::to_string(value) : "s" + std::to_string(values.size());
    values[name] = value;
    function.symbols.declare(name);
    return Dim::symbol(std::move(name));
  }

  void add(const Tensor& tensor, bool fixed_length, bool must_be_known) {
    TensorType type{tensor.dtype(), {}};
    const bool small = tensor.rank() <= 1 && !is_float(tensor.dtype());
    const bool known = must_be_known || (small && coin());
    for (const std::int64_t dim : tensor.dims())
      type.dims.push_back(fixed_length || (small && known) ? Dim(dim) : maybe_symbol(dim));
    function.add_value("x" + std::to_string(function.values.size()), type);
    ShapeData elements;
    if (known) {
      elements.emplace();
      for (std::int64_t i = 0; i < tensor.elements(); ++i) {
        const std::int64_t element = tensor.integer_at(i);
        elements->push_back(must_be_known || tensor.dtype() == DType::Bool ? Dim(element)
                                                                           : maybe_symbol(element));
      }
    }
    shape_data.push_back(std::move(elements));
  }
};

Symbolic symbolic(Sample& sample) {
  Symbolic result;
  const bool dynamic = info(sample.binding.op).has(traits::dynamic);
  for (std::size_t i = 0; i < sample.operands.size(); ++i) {
    // The length of a shape-deciding operand is the rank of something, and that of gather_nd's
    // tuples too.
    const bool shapes = dynamic && i >= first_shape_operand(sample.binding.op);
    const bool scales =
        i == 1 && (sample.binding.op == Op::resize || sample.binding.op == Op::dyn_resize);
    const bool fixed =
        shapes || scales ||
        (i == 1 && (sample.binding.op == Op::gather_nd || sample.binding.op == Op::scatter_nd));
    result.add(sample.operands[i], fixed, sample.constant[i]);
    sample.binding.operands.push_back(static_cast<ValueId>(i));
  }
  for (std::size_t i = 0; i < sample.results; ++i)
    sample.binding.results.push_back(result.function.add_value("y" + std::to_string(i)));
  return result;
}

bool holds(const Precondition& precondition,
           const std::function<std::int64_t(const Dim&)>& value_of) {
  return ir::holds(precondition.relation, value_of(precondition.left),
                   value_of(precondition.right));
}

void check_one() {
  Sample sample = any_sample();
  Symbolic seen = symbolic(sample);
  std::vector<OperandFacts> facts;
  std::vector<const Tensor*> operands;
  for (std::size_t i = 0; i < sample.operands.size(); ++i) {
    facts.push_back({&seen.function.values[i].type, &seen.shape_data[i], nullptr});
    operands.push_back(&sample.operands[i]);
  }
  const std::function<std::int64_t(const Dim&)> value_of = [&](const Dim& dim) {
    return dim.evaluate([&](const DimLeaf& leaf) {
      return leaf.is_symbol() ? seen.values.at(leaf.symbol)
                              : sample.operands[leaf.value].integer_at(leaf.element);
    });
  };

  std::string refusal;
  RuleResult rule;
  try {
    rule = apply_shape_rule(seen.function, sample.binding, facts, seen.function.symbols);
    for (std::size_t i = 0; i < sample.results; ++i)
      seen.function.values[sample.binding.results[i]].type = rule.types[i];
    for (const Precondition& precondition : rule.preconditions) {
      const bool at_these_sizes = holds(precondition, value_of);
      if (!at_these_sizes && refusal.empty()) refusal = to_string(precondition, seen.function);
      const Proof proof = prove(precondition, seen.function.symbols);
      RC_ASSERT(proof == Proof::Unknown || (proof == Proof::Yes) == at_these_sizes);
    }
  } catch (const Error& error) {
    RC_ASSERT(error.kind() == ErrorKind::Malformed);
    refusal = error.what();
  }
  RC_LOG() << print(Module{}, seen.function, sample.binding) << "\nrefusal: " << refusal << '\n';
  for (const auto& [name, value] : seen.values) RC_LOG() << name << " = " << value << ' ';
  for (const Tensor& tensor : sample.operands) RC_LOG() << '\n' << print(tensor);

  std::vector<Tensor> actual;
  std::string failure;
  try {
    actual = evaluate_binding(seen.function, sample.binding, operands,
                              refusal.empty() ? value_of : nullptr);
  } catch (const Error& error) {
    RC_ASSERT(error.kind() == ErrorKind::Inputs);
    failure = error.what();
  }
  RC_LOG() << "\nfailure: " << failure << '\n';
  RC_ASSERT(refusal.empty() == failure.empty());
  if (!refusal.empty()) return;
  RC_ASSERT(rule.types.size() == actual.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    Extents dims;
    for (const Dim& dim : rule.types[i].tensor.dims) dims.push_back(value_of(dim));
    RC_ASSERT(dims == actual[i].dims());
    RC_ASSERT(rule.types[i].tensor.dtype == actual[i].dtype());
    if (!rule.shape_data[i]) continue;
    for (std::size_t j = 0; j < rule.shape_data[i]->size(); ++j) {
      RC_ASSERT(value_of((*rule.shape_data[i])[j]) ==
                actual[i].integer_at(static_cast<std::int64_t>(j)));
    }
  }
}

RC_GTEST_PROP(ShapeRuleProperty, AgreesWithTheEvaluator, ()) {
  for (int i = 0; i < 30; ++i) check_one();
}

}  // namespace
}  // namespace anydim::ir
