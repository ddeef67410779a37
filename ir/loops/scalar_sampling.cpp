// Elements of ops that compute where they read: pad, one_hot and resize.
#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "ir/loops/scalar_access.h"
#include "ir/shapes/shape_rules.h"

namespace anydim::ir {

namespace {

// A number of elements added in front that only the run tells may be any integer. More than there
// are cannot be taken away for anything to be read, and what is left then overflows nothing.
Dim bounded_before(const Dim& before, const Dim& extent, const SymbolTable& symbols) {
  if (bounds(before, symbols).low > std::numeric_limits<std::int64_t>::min()) return before;
  return simplify(max(before, Dim(0) - extent), symbols);
}

}  // namespace

std::int32_t ProgramBuilder::padded(const Binding& binding, const Index& index) {
  const Subgraph& subgraph = *context_.subgraph;
  const TensorType& x = subgraph.tensor(binding.operands[0]);
  std::vector<Dim> axes = given_elements(subgraph, binding, "axes", 4);
  for (Dim& axis : axes) axis = counted_from_front(axis, x.rank());
  const auto sizes = [&](std::string_view attribute, std::size_t operand) {
    std::vector<Dim> given = given_elements(subgraph, binding, attribute, operand);
    return axes.empty() ? given : sizes_by_dimension(given, axes, x.rank());
  };
  const std::vector<Dim> before = sizes("before", 2), after = sizes("after", 3);
  const std::string& mode = string_attribute(binding, "mode");
  Index at = index;
  std::vector<ScalarStep::Condition> inside;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i].is_constant(0) && after[i].is_constant(0)) continue;
    const Dim& extent = x.dims[i];
    Dim& place = at[i];
    const Dim in_front = bounded_before(before[i], extent, context_.symbols);
    if (mode == "constant") {
      place = simplify(place - in_front, context_.symbols);
      inside.push_back({Comparison::LessEqual, 0, place});
      inside.push_back({Comparison::Less, place, extent});
      continue;
    }
    // What negative sizes take away is gone before the rest is filled from what is left.
    const Dim first = max(Dim(0), -1 * in_front), left = extent - first + min(Dim(0), after[i]);
    place = place - max(Dim(0), in_front);
    if (mode == "edge") {
      place = max(Dim(0), min(place, left - 1));
    } else if (mode == "wrap") {
      place = mod(place, left);
    } else {
      const Dim turn = mod(place, max(Dim(1), 2 * (left - 1)));
      place = min(turn, 2 * (left - 1) - turn);
    }
    place = first + place;
    place = simplify(place, context_.symbols);
  }
  const std::int32_t element_there = element(binding.operands[0], at);
  if (inside.empty()) return element_there;
  const bool filled = binding.operands.size() > 1 && binding.operands[1] != no_value;
  return guarded(element_there, filled ? element(binding.operands[1], {}) : zero(x.dtype), x.dtype,
                 std::move(inside));
}

std::int32_t ProgramBuilder::hot(const Binding& binding, const Index& index) {
  const Subgraph& subgraph = *context_.subgraph;
  const std::size_t axis = axis_from_front(binding, index.size());
  Index at = index;
  at.erase(at.begin() + static_cast<std::ptrdiff_t>(axis));
  std::int32_t position = element(binding.operands[0], at);
  if (subgraph.tensor(binding.operands[0]).dtype != DType::I64)
    position = apply(Op::cast, DType::I64, {position});
  const std::int32_t depth = extent(given_elements(subgraph, binding, "depth", 3).at(0));
  const std::int32_t negative = apply(Op::less, DType::Bool, {position, number(DType::I64, 0)});
  position = apply(Op::where, DType::I64,
                   {negative, apply(Op::add, DType::I64, {position, depth}), position});
  const std::int32_t is_here = apply(Op::equal, DType::Bool, {position, extent(index[axis])});
  return apply(Op::where, subgraph.tensor(binding.results[0]).dtype,
               {is_here, element(binding.operands[2], {}), element(binding.operands[1], {})});
}

namespace {

// The steps of ONNX Resize along one axis.
class AxisSampling {
 public:
  // Elements read, and their shares; a share of -1 is all of it.
  struct Tap {
    Dim index;
    std::int32_t share = -1;
  };

  AxisSampling(ProgramBuilder& builder, const Binding& binding, DType dtype,
               std::function<Dim(std::int32_t)> as_index)
      : builder_(builder), binding_(binding), dtype_(dtype), as_index_(std::move(as_index)),
        coordinates_(string_attribute(binding, "coordinates")) {}

  std::vector<Tap> taps(const Dim& at, const Dim& source, const Dim& result, std::int32_t scale) {
    source_ = builder_.extent(source);
    result_ = builder_.extent(result);
    const std::int32_t x = coordinate(real_of(builder_.extent(at)), scale);
    const std::string& mode = string_attribute(binding_, "mode");
    if (mode == "nearest") return {{as_index_(clamped(rounded(x))), -1}};
    const std::int32_t first = apply(Op::floor, x);
    const std::int32_t part = apply(Op::sub, x, first);
    if (mode == "linear") {
      return {{as_index_(clamped(first)), apply(Op::sub, real(1), part)},
              {as_index_(clamped(apply(Op::add, first, real(1)))), part}};
    }
    return cubic_taps(first, part);
  }

 private:
  std::vector<Tap> cubic_taps(std::int32_t first, std::int32_t part) {
    const bool excludes = integer_attribute(binding_, "exclude_outside") != 0;
    std::vector<Tap> taps;
    std::int32_t total = -1;
    for (int k = -1; k <= 2; ++k) {
      const std::int32_t place = apply(Op::add, first, real(k));
      std::int32_t share = kernel(apply(Op::abs, apply(Op::sub, part, real(k))), k == 0 || k == 1);
      if (excludes) {
        const std::int32_t low = builder_.apply(Op::less, DType::Bool, {place, real(0)});
        const std::int32_t high =
            builder_.apply(Op::greater_equal, DType::Bool, {place, real_of(source_)});
        const std::int32_t outside = builder_.apply(Op::logical_or, DType::Bool, {low, high});
        share = builder_.apply(Op::where, dtype_, {outside, real(0), share});
      }
      total = total < 0 ? share : apply(Op::add, total, share);
      taps.push_back({as_index_(clamped(place)), share});
    }
    if (excludes) {
      for (Tap& tap : taps) tap.share = apply(Op::div, tap.share, total);
    }
    return taps;
  }

  // Keys' cubic convolution kernel (1981) at a distance up to 1 (near) or from 1 to 2.
  std::int32_t kernel(std::int32_t distance, bool near) {
    const double a = real_attribute(binding_, "cubic");
    const auto times = [&](std::int32_t x) { return apply(Op::mul, x, distance); };
    const auto plus = [&](std::int32_t x, double constant) {
      return apply(Op::add, x, real(constant));
    };
    if (near) return plus(times(times(plus(times(real(a + 2)), -(a + 3)))), 1);
    return plus(times(plus(times(plus(times(real(a)), -5 * a)), 8 * a)), -4 * a);
  }

  std::int32_t coordinate(std::int32_t at, std::int32_t scale) {
    if (coordinates_ == "align_corners") {
      const std::int32_t reach = apply(Op::sub, real_of(source_), real(1));
      const std::int32_t steps = apply(Op::max, apply(Op::sub, real_of(result_), real(1)), real(1));
      return apply(Op::div, apply(Op::mul, at, reach), steps);
    }
    if (coordinates_ == "asymmetric") return apply(Op::div, at, scale);
    const std::int32_t middle = apply(Op::div, apply(Op::add, at, real(0.5)), scale);
    if (coordinates_ == "tf_half_pixel_for_nn") return middle;
    const std::int32_t half_pixel = apply(Op::sub, middle, real(0.5));
    if (coordinates_ == "half_pixel") return half_pixel;
    const std::int32_t alone =
        builder_.apply(Op::less_equal, DType::Bool, {real_of(result_), real(1)});
    return builder_.apply(Op::where, dtype_, {alone, real(0), half_pixel});
  }

  std::int32_t rounded(std::int32_t x) {
    const std::string& rounding = string_attribute(binding_, "rounding");
    if (rounding == "floor") return apply(Op::floor, x);
    if (rounding == "ceil") return apply(Op::ceil, x);
    if (rounding == "round_prefer_ceil") return apply(Op::floor, apply(Op::add, x, real(0.5)));
    return apply(Op::ceil, apply(Op::sub, x, real(0.5)));
  }

  std::int32_t clamped(std::int32_t place) {
    const std::int32_t last = builder_.apply(Op::sub, DType::I64, {source_, builder_.extent(1)});
    const std::int32_t integer = builder_.apply(Op::cast, DType::I64, {place});
    return builder_.apply(
        Op::max, DType::I64,
        {builder_.apply(Op::min, DType::I64, {integer, last}), builder_.extent(0)});
  }

  std::int32_t apply(Op op, std::int32_t a) { return builder_.apply(op, dtype_, {a}); }
  std::int32_t apply(Op op, std::int32_t a, std::int32_t b) {
    return builder_.apply(op, dtype_, {a, b});
  }
  std::int32_t real(double value) { return builder_.number(dtype_, value); }
  std::int32_t real_of(std::int32_t integer) { return apply(Op::cast, integer); }

  ProgramBuilder& builder_;
  const Binding& binding_;
  DType dtype_;
  std::function<Dim(std::int32_t)> as_index_;
  std::string coordinates_;
  std::int32_t source_ = 0, result_ = 0;
};

}  // namespace

std::int32_t ProgramBuilder::resized(const Binding& binding, const Index& index) {
  const Subgraph& subgraph = *context_.subgraph;
  const TensorType& x = subgraph.tensor(binding.operands[0]);
  const std::vector<Dim>& dims = subgraph.tensor(binding.results[0]).dims;
  const DType computed = DType::F32;
  std::vector<std::size_t> axes;
  if (has_attribute(binding, "axes")) axes = normalised_axes(binding, index.size());
  std::vector<std::vector<AxisSampling::Tap>> taps;
  for (std::size_t i = 0; i < index.size(); ++i) {
    if (has_attribute(binding, "axes") && !std::ranges::binary_search(axes, i)) {
      taps.push_back({{index[i], -1}});
      continue;
    }
    AxisSampling sampling(*this, binding, computed,
                          [&](std::int32_t step) { return checked(step, x.dims[i], binding); });
    taps.push_back(
        sampling.taps(index[i], x.dims[i], dims[i],
                      element(binding.operands[1], {Dim(static_cast<std::int64_t>(i))})));
  }
  Index at = index;
  bool mixes = false;
  const std::function<std::int32_t(std::size_t)> sample = [&](std::size_t axis) -> std::int32_t {
    if (axis == taps.size()) {
      const std::int32_t value = element(binding.operands[0], at);
      return mixes && x.dtype != computed ? apply(Op::cast, computed, {value}) : value;
    }
    std::int32_t sum = -1;
    for (const AxisSampling::Tap& tap : taps[axis]) {
      at[axis] = tap.index;
      std::int32_t value = sample(axis + 1);
      if (tap.share >= 0) value = apply(Op::mul, computed, {tap.share, value});
      sum = sum < 0 ? value : apply(Op::add, computed, {sum, value});
    }
    return sum;
  };
  for (const auto& axis : taps) mixes = mixes || axis.front().share >= 0;
  const std::int32_t value = sample(0);
  return mixes && x.dtype != computed ? apply(Op::cast, x.dtype, {value}) : value;
}

}  // namespace anydim::ir
