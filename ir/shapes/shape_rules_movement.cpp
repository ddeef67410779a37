#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "ir/shapes/shape_rules.h"

namespace anydim::ir {
namespace {

// Known elements survive where no more than the rank changes.
ShapeData kept_contents(const RuleContext& context, std::span<const Dim> dims) {
  return dims.size() <= 1 ? context.shape_data(0) : std::nullopt;
}

// A product with its factors kept apart, so that common factors cancel without asking whether they
// are zero.
struct Factors {
  std::int64_t coefficient = 1;
  std::vector<Dim> factors;

  void multiply(const Dim& dim) {
    if (const std::optional<std::int64_t> constant = dim.constant()) {
      coefficient = *(Dim(coefficient) * *constant).constant();
    } else if (dim.kind() == Dim::Kind::Sum && dim.terms().size() == 1 &&
               dim.constant_part() == 0) {
      coefficient = *(Dim(coefficient) * dim.terms()[0].coefficient).constant();
      factors.insert(factors.end(), dim.terms()[0].factors.begin(), dim.terms()[0].factors.end());
    } else {
      factors.push_back(dim);
    }
  }
  Dim value() const { return Dim(coefficient) * product(factors); }
};

void cancel(Factors& a, Factors& b) {
  for (std::size_t i = 0; i < b.factors.size();) {
    const auto common = std::ranges::find(a.factors, b.factors[i]);
    if (common == a.factors.end()) {
      ++i;
      continue;
    }
    a.factors.erase(common);
    b.factors.erase(b.factors.begin() + static_cast<std::ptrdiff_t>(i));
  }
  constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
  if (a.coefficient == least || b.coefficient == least)
    return;  // it has no absolute value, which gcd takes
  const std::int64_t divisor = std::gcd(a.coefficient, b.coefficient);
  if (divisor > 1) {
    a.coefficient /= divisor;
    b.coefficient /= divisor;
  }
}

class Reshape {
 public:
  Reshape(RuleContext& context, std::vector<Dim> requested, bool zero_copies)
      : context_(context), dims_(std::move(requested)) {
    if (zero_copies) {
      copy_constant_zeros();
      // Where the count of elements is right with every symbolic dim as it stands, also a 0 is
      // meant as it stands: an empty batch. Elsewhere the run tells which dims are 0 and copy.
      if (!counts_agree()) copy_symbolic_zeros();
    }
    decide_inferred();
  }

  std::vector<Dim> run() {
    const auto inferred = std::ranges::count(inferred_, Proof::Yes);
    if (inferred > 1) context_.malformed("the shape has more than one -1");
    for (std::size_t i = 0; i < dims_.size(); ++i) {
      if (inferred_[i] == Proof::No) context_.require_extent(dims_[i], 1, i);
    }
    if (std::ranges::count(inferred_, Proof::Unknown) > 0) infer_somewhere();
    else if (inferred == 1) infer_one();
    else keep_all();
    return std::move(dims_);
  }

 private:
  void copy_constant_zeros() {
    const std::vector<Dim>& source = context_.dims(0);
    for (std::size_t i = 0; i < dims_.size(); ++i) {
      if (!dims_[i].is_constant(0)) continue;
      if (i >= source.size()) {
        context_.malformed(
            "element {} of the shape is 0 and copies a dimension, but {} has rank {}", i,
            context_.operand_text(0), source.size());
      }
      dims_[i] = source[i];
    }
  }

  void copy_symbolic_zeros() {
    const std::vector<Dim>& source = context_.dims(0);
    for (std::size_t i = 0; i < std::min(dims_.size(), source.size()); ++i) {
      if (dims_[i].is_constant() || prove_equal(dims_[i], 0, context_.symbols) == Proof::No)
        continue;
      dims_[i] = select(Comparison::Equal, dims_[i], 0, source[i], dims_[i]);
    }
  }

  void decide_inferred() {
    inferred_.clear();
    for (const Dim& dim : dims_) {
      inferred_.push_back(dim.is_constant() ? (dim.is_constant(-1) ? Proof::Yes : Proof::No)
                                            : prove_equal(dim, -1, context_.symbols));
    }
  }

  // Whether the counts of elements agree whatever the symbols are, an inferred dim taking what is
  // left.
  bool counts_agree() {
    decide_inferred();
    if (std::ranges::count(inferred_, Proof::Unknown) > 0 ||
        std::ranges::count(inferred_, Proof::Yes) > 1)
      return false;
    auto [total, others] = cancelled_counts();
    const bool infers = std::ranges::count(inferred_, Proof::Yes) == 1;
    return infers ? others.value().is_constant(1) : total.value() == others.value();
  }

  // The elements of x and those of the dims that are not inferred, without their common factors.
  std::pair<Factors, Factors> cancelled_counts() const {
    Factors total;
    for (const Dim& dim : context_.dims(0)) total.multiply(dim);
    Factors others;
    for (std::size_t i = 0; i < dims_.size(); ++i) {
      if (inferred_[i] != Proof::Yes) others.multiply(dims_[i]);
    }
    cancel(total, others);
    return {std::move(total), std::move(others)};
  }

  void infer_one() {
    const auto [total, others] = cancelled_counts();
    const auto position = std::ranges::find(inferred_, Proof::Yes) - inferred_.begin();
    Dim& inferred = dims_[static_cast<std::size_t>(position)];
    const Dim dividend = total.value();
    const Dim divisor = others.value();
    if (divisor.is_constant(0))
      context_.malformed("the shape has a 0 beside -1, so the inferred dimension isn't known");
    inferred = divisor.is_constant(1) ? dividend : floor_div(dividend, divisor);
    if (!divisor.is_constant(1))
      context_.require(Relation::MultipleOf, dividend, divisor, "the elements of operand 0");
  }

  // Which of the dims is -1, if any, only the run will tell; the count of elements then decides
  // whether all was well.
  void infer_somewhere() {
    // Where the dims have as many elements as the operand whatever they are, a -1 among them would
    // have to be of none at all.
    const Dim elements = product(dims_);
    if (!elements.is_constant(0) &&
        prove_equal(elements, product(context_.dims(0)), context_.symbols) == Proof::Yes) {
      for (std::size_t i = 0; i < dims_.size(); ++i)
        if (inferred_[i] != Proof::No) context_.require_extent(dims_[i], 1, i);
      return;
    }
    Dim others = 1, left_open = 0;
    for (const Dim& dim : dims_) {
      others = others * select(Comparison::Equal, dim, -1, 1, dim);
      left_open = left_open + select(Comparison::Equal, dim, -1, 1, 0);
    }
    context_.require(Relation::LessEqual, left_open, 1,
                     "how many dims of the shape, operand 1, are -1");
    context_.require(Relation::NonZero, select(Comparison::Equal, left_open, 0, 1, others), 0,
                     "the product of the dims beside -1 in the shape, operand 1");
    const Dim total = product(context_.dims(0));
    // max keeps the division defined where a dim is 0 as it stands.
    const Dim inferred = floor_div(total, max(others, 1));
    for (std::size_t i = 0; i < dims_.size(); ++i) {
      dims_[i] = select(Comparison::Equal, dims_[i], -1, inferred, dims_[i]);
      context_.require_extent(dims_[i], 1, i);
    }
    context_.require(Relation::Equal, total, product(dims_), "the elements of operand 0");
  }

  void keep_all() {
    const auto [total, others] = cancelled_counts();
    if (total.value() == others.value()) return;
    context_.require(Relation::Equal, product(context_.dims(0)), product(dims_),
                     "the elements of operand 0");
  }

  RuleContext& context_;
  std::vector<Dim> dims_;
  std::vector<Proof> inferred_;
};

// Axes from an attribute or, for the dynamic twin, from operand 1; nothing where both are absent.
std::optional<std::vector<std::int64_t>> axes_of(const RuleContext& context) {
  if (info(context.binding.op).has(traits::dynamic)) {
    if (!context.has(1)) return std::nullopt;
    return context.constants(1, "the axes");
  }
  if (!has_attribute(context.binding, "axes")) return std::nullopt;
  return integers_attribute(context.binding, "axes");
}

bool has_run_time_axes(const RuleContext& context) {
  return info(context.binding.op).has(traits::dynamic) && context.has(1) &&
         !all_constant(context.elements(1));
}

void squeeze_run_time_axes(RuleContext& context) {
  const std::vector<Dim>& source = context.dims(0);
  const RunTimeAxes axes(context, 1, source.size());
  if (axes.from_front().size() > source.size()) {
    context.malformed("{} axes for {} of rank {}", axes.from_front().size(),
                      context.operand_text(0), source.size());
  }
  for (std::size_t i = 0; i < source.size(); ++i) {
    const Dim leaving = axes.choose(static_cast<std::int64_t>(i), source[i], 1);
    if (!leaving.is_constant(1))
      context.require(Relation::Equal, leaving, 1, dimension_of_operand(i, 0));
  }
  context.add_result(context.dtype(0), axes.removed(source));
}

}  // namespace

void reshape_rule(RuleContext& context) {
  const bool is_static = context.binding.op == Op::reshape;
  std::vector<Dim> requested =
      is_static ? dims_of(integers_attribute(context.binding, "shape")) : context.elements(1);
  const bool zero_copies = !is_static && integer_attribute(context.binding, "zero_copies") != 0;
  const DType dtype = context.dtype(0);
  std::vector<Dim> dims = Reshape(context, std::move(requested), zero_copies).run();
  ShapeData shape_data = kept_contents(context, dims);
  context.add_result(dtype, std::move(dims), std::move(shape_data));
}

void flatten_rule(RuleContext& context) {
  const std::vector<Dim>& dims = context.dims(0);
  const auto rank = static_cast<std::int64_t>(dims.size());
  const std::int64_t axis = integer_attribute(context.binding, "axis");
  if (axis < -rank || axis > rank)
    context.malformed("axis {} is out of range for rank {}", axis, rank);
  const auto split = static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
  const std::span<const Dim> all(dims);
  context.add_result(context.dtype(0), {product(all.first(split)), product(all.subspan(split))});
}

void broadcast_to_rule(RuleContext& context) {
  const bool is_static = context.binding.op == Op::broadcast_to;
  const std::vector<Dim> shape =
      is_static ? dims_of(integers_attribute(context.binding, "shape")) : context.elements(1);
  for (std::size_t i = 0; i < shape.size(); ++i) context.require_extent(shape[i], 1, i);
  TensorType type{context.dtype(0), context.broadcast_dims(context.dims(0), 0, shape)};
  ShapeData shape_data;
  if (const ShapeData& known = context.shape_data(0); known && tracks_contents(type)) {
    const auto length = static_cast<std::size_t>(type.rank() == 0 ? 1 : *type.dims[0].constant());
    if (known->size() == length) shape_data = known;
    else if (known->size() == 1) shape_data.emplace(length, known->front());
  }
  context.add_result(type.dtype, std::move(type.dims), std::move(shape_data));
}

void expand_dims_rule(RuleContext& context) {
  const std::vector<Dim>& source = context.dims(0);
  if (has_run_time_axes(context)) {
    const RunTimeAxes axes(context, 1, source.size() + context.elements(1).size());
    return context.add_result(context.dtype(0), axes.inserted(source));
  }
  const std::optional<std::vector<std::int64_t>> given = axes_of(context);
  if (!given) context.malformed("the axes are missing");
  const std::size_t rank = source.size() + given->size();
  const std::vector<std::size_t> axes = context.axes(*given, rank);
  std::vector<Dim> dims;
  std::size_t next = 0;
  for (std::size_t i = 0; i < rank; ++i) {
    dims.push_back(std::ranges::find(axes, i) != axes.end() ? Dim(1) : source[next++]);
  }
  ShapeData shape_data = kept_contents(context, dims);
  context.add_result(context.dtype(0), std::move(dims), std::move(shape_data));
}

void squeeze_rule(RuleContext& context) {
  const std::vector<Dim>& source = context.dims(0);
  if (has_run_time_axes(context)) return squeeze_run_time_axes(context);
  const std::optional<std::vector<std::int64_t>> given = axes_of(context);
  std::vector<bool> removed(source.size());
  if (given) {
    for (const std::size_t axis : context.axes(*given, source.size())) {
      removed[axis] = true;
      context.require_dim(Relation::Equal, 0, axis, 1);
    }
  } else {
    for (std::size_t i = 0; i < source.size(); ++i) {
      const Proof one = prove_equal(source[i], 1, context.symbols);
      if (one == Proof::Unknown) {
        context.unsupported(
            "without axes, the rank of the result isn't known: dimension {} of {} is "
            "{}, which may be 1; give the axes, or a range without 1",
            i, context.operand_text(0), source[i].to_string());
      }
      removed[i] = one == Proof::Yes;
    }
  }
  std::vector<Dim> dims;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (!removed[i]) dims.push_back(source[i]);
  }
  ShapeData shape_data = kept_contents(context, dims);
  context.add_result(context.dtype(0), std::move(dims), std::move(shape_data));
}

void transpose_rule(RuleContext& context) {
  const std::vector<Dim>& source = context.dims(0);
  std::vector<std::int64_t> order(source.size());
  if (has_attribute(context.binding, "perm")) {
    order = integers_attribute(context.binding, "perm");
  } else {
    std::iota(order.rbegin(), order.rend(), 0);
  }
  if (order.size() != source.size()) {
    context.malformed("the permutation has {} axes, but {} has rank {}", order.size(),
                      context.operand_text(0), source.size());
  }
  std::vector<Dim> dims;
  for (const std::size_t axis : context.axes(order, source.size())) dims.push_back(source[axis]);
  ShapeData shape_data = kept_contents(context, dims);
  context.add_result(context.dtype(0), std::move(dims), std::move(shape_data));
}

void tile_rule(RuleContext& context) {
  const bool is_static = context.binding.op == Op::tile;
  const std::vector<Dim> repeats =
      is_static ? dims_of(integers_attribute(context.binding, "repeats")) : context.elements(1);
  const std::vector<Dim>& source = context.dims(0);
  if (repeats.size() != source.size()) {
    context.malformed("{} repeats for {} of rank {}", repeats.size(), context.operand_text(0),
                      source.size());
  }
  TensorType type{context.dtype(0), {}};
  for (std::size_t i = 0; i < source.size(); ++i) {
    context.require_extent(repeats[i], 1, i);
    type.dims.push_back(source[i] * repeats[i]);
  }
  ShapeData shape_data;
  if (const ShapeData& known = context.shape_data(0); known && tracks_contents(type)) {
    shape_data.emplace();
    const std::int64_t times = source.empty() ? 1 : repeats[0].constant().value_or(0);
    for (std::int64_t i = 0; i < times; ++i)
      shape_data->insert(shape_data->end(), known->begin(), known->end());
    if (!source.empty() && !type.dims[0].is_constant(static_cast<std::int64_t>(shape_data->size())))
      shape_data.reset();
  }
  context.add_result(type.dtype, std::move(type.dims), std::move(shape_data));
}

void trilu_rule(RuleContext& context) {
  context.expect_rank_at_least(0, 2);
  if (context.binding.op == Op::dyn_trilu) {
    context.scalar(1);
  }
  context.add_result(context.dtype(0), context.dims(0));
}

}  // namespace anydim::ir
