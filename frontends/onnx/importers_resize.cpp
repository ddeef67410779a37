#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <tuple>
#include <utility>

#include "frontends/onnx/importers.h"
#include "frontends/sizes.h"

namespace anydim::frontends {

namespace {

// floor(dim * scale) for every dim. Where the scales are known it is exact arithmetic on integers,
// which inference follows: a float is numerator / 2^power.
Value scaled_sizes(Node& node, Value shape, Value scales, const std::optional<ir::Tensor>& known) {
  if (!known) {
    const Value exact = cast(shape, DType::F32) * scales;
    return cast(floor(exact), DType::I64);
  }
  Ints numerators, denominators;
  for (std::int64_t i = 0; i < known->elements(); ++i) {
    double scale = known->real_at(i);
    std::int64_t denominator = 1;
    while (scale != std::floor(scale) && denominator < std::int64_t{1} << 30) {
      scale *= 2;
      denominator *= 2;
    }
    if (!(scale > 0) || scale != std::floor(scale) || scale > 0x1p31) {
      node.unsupported("scales by {}; Anydim supports scales from 2^-30 to 2^31",
                       known->real_at(i));
    }
    numerators.push_back(static_cast<std::int64_t>(scale));
    denominators.push_back(denominator);
  }
  return shape * node.index_vector(numerators) / node.index_vector(denominators);
}

// The axes that the model resamples, as far as it tells: of those given, not those that it scales
// by 1.
Ints sampled_axes(std::size_t rank, const std::string& mode, const Ints& given,
                  const std::optional<ir::Tensor>& scales) {
  Ints axes;
  for (std::size_t i = 0; i < rank; ++i) {
    const auto axis = static_cast<std::int64_t>(i);
    if (std::ranges::find(given, axis) == given.end()) continue;
    if (scales && scales->real_at(axis) == 1) continue;
    if (mode == "cubic" && i + 2 < rank) continue;  // defined for images only
    axes.push_back(axis);
  }
  return axes;
}

Value emit_resize(Node& node, Value scales, Value sizes, ir::Attributes attributes) {
  return node.emit(Op::dyn_resize, {node.operand(0), scales, sizes}, std::move(attributes));
}

void check_length(const Node& node, const std::optional<ir::Tensor>& scales, std::size_t wanted) {
  if (scales && scales->elements() != static_cast<std::int64_t>(wanted))
    node.malformed("has {} scales for {} axes", scales->elements(), wanted);
}

// The attribute axes, from the front; all where it is missing.
Ints given_axes(Node& node, std::size_t rank) {
  Ints axes;
  if (node.opset() < 18 || !node.has_attribute("axes")) {
    for (std::size_t i = 0; i < rank; ++i) axes.push_back(static_cast<std::int64_t>(i));
    return axes;
  }
  for (const std::int64_t axis : node.integers("axes")) {
    const auto from_front = static_cast<std::int64_t>(node.axis(axis, rank));
    if (std::ranges::find(axes, from_front) != axes.end())
      node.malformed("has axis {} twice in axes", from_front);
    axes.push_back(from_front);
  }
  return axes;
}

// A vector with an element for each axis given, with those of `others` for the rest.
Value on_all_axes(Node& node, Value vector, const Ints& axes, std::size_t rank, Value others) {
  Ints from;
  for (std::size_t i = 0; i < rank; ++i) {
    const auto at = std::ranges::find(axes, static_cast<std::int64_t>(i));
    from.push_back(at == axes.end() ? static_cast<std::int64_t>(axes.size() + i)
                                    : at - axes.begin());
  }
  const Value both = concat({vector, others}, 0);
  return gather(both, node.index_vector(std::move(from)), 0);
}

Value real_vector(Node& node, std::size_t length, double element) {
  return node.constant(ir::Tensor::of(DType::F32, {static_cast<std::int64_t>(length)},
                                      std::vector<double>(length, element)));
}

// One number for each dim of x.
struct Targets {
  Value scales = no_value, sizes = no_value;
};

// By input 3, for the axes given. One scale for all of them, the least or the greatest, where the
// aspect is kept.
Targets targets_of_sizes(Node& node, Value shape, const Ints& axes, const std::string& policy) {
  if (policy != "stretch" && policy != "not_larger" && policy != "not_smaller")
    node.malformed(
        "takes 'stretch', 'not_larger' or 'not_smaller' as attribute "
        "'keep_aspect_ratio_policy', got {}",
        quoted_name(policy));
  const std::size_t rank = node.operand(0).rank();
  Value sizes = node.index_operand(3);
  if (const auto given = sizes.length(); given && *given != static_cast<std::int64_t>(axes.size()))
    node.malformed("has {} sizes for {} axes", *given, axes.size());
  if (policy == "stretch") {
    if (axes.size() != rank) sizes = on_all_axes(node, sizes, axes, rank, shape);
    return {cast(sizes, DType::F32) / cast(shape, DType::F32), sizes};
  }
  const Value extents = cast(gather(shape, node.index_vector(axes), 0), DType::F32);
  const Value scale = node.emit(policy == "not_larger" ? Op::reduce_min : Op::reduce_max,
                                {cast(sizes, DType::F32) / extents},
                                {{"axes", Ints{0}}, {"keepdims", std::int64_t{1}}});
  const Value rounded = floor(scale * extents + 0.5);
  const Value count = node.index_vector({static_cast<std::int64_t>(axes.size())});
  return {on_all_axes(node, node.emit(Op::dyn_broadcast_to, {scale, count}), axes, rank,
                      real_vector(node, rank, 1)),
          on_all_axes(node, cast(rounded, DType::I64), axes, rank, shape)};
}

struct Sampling {
  std::string coordinates, mode, rounding;
  double coefficient = 0;  // of cubic
  bool exclude_outside = false;
  bool antialias = false;  // the filter is as wide as the result's elements are in x
  // Of tf_crop_and_resize: where the results of each axis begin and end, as parts of x, and what
  // lies outside.
  Value starts = no_value, ends = no_value;
  double outside = 0;
};

// Keys' filter (https://doi.org/10.1109/TASSP.1981.1163711), or a triangle, at a distance of at
// least 0.
Value filtered(Node& node, Value distance, const Sampling& sampling) {
  if (sampling.mode != "cubic") return max(1 - distance, 0);
  const auto polynomial = [&](std::initializer_list<double> factors) {
    Value sum = node.scalar(DType::F64, 0);
    for (const double factor : factors) sum = sum * distance + factor;
    return sum;
  };
  const double a = sampling.coefficient;
  const auto below = [&](double border) { return distance < border; };
  const Value far = where(below(2), polynomial({a, -5 * a, 8 * a, -4 * a}), 0);
  return where(below(1), polynomial({a + 2, -(a + 3), 0, 1}), far);
}

// Where the results of an axis lie in x.
Value sources(Node& node, std::int64_t axis, Value size, Value extent, Value scale,
              const Sampling& sampling) {
  const auto real = [&](Value value) { return cast(value, DType::F64); };
  const Value place = real(positions(size));
  const std::string& coordinates = sampling.coordinates;
  if (coordinates == "asymmetric") return place / scale;
  const Value span = real(extent) - 1;
  const Value steps = max(real(size) - 1, 1);
  if (coordinates == "align_corners") return place * span / steps;
  if (coordinates == "tf_crop_and_resize") {
    const Value start = real(slice(sampling.starts, 0, axis, axis + 1));
    const Value width = real(slice(sampling.ends, 0, axis, axis + 1)) - start;
    const Value part = where(real(size) > 1, place / steps, 0.5);
    return (start + part * width) * span;
  }
  const Value halves = (place + 0.5) / scale - 0.5;
  if (coordinates == "pytorch_half_pixel") return where(real(size) > 1, halves, 0);
  if (coordinates == "half_pixel_symmetric") {
    const Value adjustment = real(size) / (scale * real(extent));
    return halves + real(extent) / 2 * (1 - adjustment);
  }
  if (coordinates != "half_pixel")
    node.unsupported("has coordinate_transformation_mode = {}", quoted_name(coordinates));
  return halves;
}

// One axis resampled.
Value resampled(Node& node, Value x, std::int64_t axis, const Targets& to,
                const Sampling& sampling) {
  const auto real = [&](Value value) { return cast(value, DType::F64); };
  const Value size = slice(to.sizes, 0, axis, axis + 1), extent = dim_of(x, axis);
  const Value scale = real(slice(to.scales, 0, axis, axis + 1));        // [1], as all of these
  const Value at = sources(node, axis, size, extent, scale, sampling);  // [size]
  const Value last = real(extent) - 1;
  const DType dtype = x.dtype();
  Ints behind;  // the dims after the axis
  for (std::size_t i = static_cast<std::size_t>(axis) + 1; i < x.rank(); ++i)
    behind.push_back(static_cast<std::int64_t>(i) - axis);
  const auto finished = [&](Value result) {
    if (sampling.starts == no_value) return result;
    Value outside = at < 0 | at > last;
    if (!behind.empty()) outside = with_axes(outside, behind);
    return where(outside, sampling.outside, result);
  };
  const auto within = [&](Value place) { return cast(min(max(place, 0), last), DType::I64); };
  if (sampling.mode == "nearest") {
    struct Rounding {
      std::string_view name;
      Op op;
      double before;  // what is added
    };
    constexpr Rounding roundings[] = {{"round_prefer_floor", Op::ceil, -0.5},
                                      {"round_prefer_ceil", Op::floor, 0.5},
                                      {"floor", Op::floor, 0},
                                      {"ceil", Op::ceil, 0}};
    const auto* const rounding = std::ranges::find(roundings, sampling.rounding, &Rounding::name);
    if (rounding == std::end(roundings))
      node.malformed("has nearest_mode = {}", quoted_name(sampling.rounding));
    const Value nearest = node.emit(rounding->op, {at + rounding->before});
    return finished(gather(x, within(nearest), axis));
  }
  const Value narrow = sampling.antialias ? min(scale, 1) : node.scalar(DType::F64, 1);
  const Value reach = cast(ceil((sampling.mode == "cubic" ? 2 : 1) / narrow), DType::I64);
  const Value taps = reach * node.index_vector({2}) + node.index_vector({1});
  const Value offsets = real(positions(taps) - reach);
  const Value centres = with_axes(at, {1});
  const Value tap = floor(centres) + with_axes(offsets, {0});
  const Value distance = abs(tap - centres) * narrow;
  Value weights = filtered(node, distance, sampling);
  if (sampling.exclude_outside) weights = where(equal(tap, real(within(tap))), weights, 0);
  weights = weights / reduce(Op::reduce_sum, weights, {1}, true);
  const DType computed = computed_in(dtype);
  weights = cast(weights, computed);
  Ints behind_taps;
  for (const std::int64_t dim : behind) behind_taps.push_back(dim + 1);
  if (!behind.empty()) weights = with_axes(weights, behind_taps);
  const Value found = cast(gather(x, within(tap), axis), computed);
  const Value sum = node.emit(Op::reduce_sum, {found * weights}, {{"axes", Ints{axis + 1}}});
  return finished(cast(ir::is_float(dtype) ? sum : round(sum), dtype));
}

// Input 1: where the results of each axis begin, then where they end.
std::pair<Value, Value> region_of(Node& node, const Ints& axes, std::size_t rank) {
  if (!node.has_operand(1)) node.malformed("has no input 1 (roi) to crop to");
  const Value roi = node.operand(1);
  const auto count = static_cast<std::int64_t>(axes.size());
  if (const auto given = roi.length(); given && *given != 2 * count)
    node.malformed("has an input 1 (roi) of {} elements, expected {}", *given, 2 * count);
  const Value all = cast(roi, DType::F32);
  const Value starts = slice(all, 0, 0, count), ends = slice(all, 0, count, 2 * count);
  if (axes.size() == rank) return {starts, ends};
  return {on_all_axes(node, starts, axes, rank, real_vector(node, rank, 0)),
          on_all_axes(node, ends, axes, rank, real_vector(node, rank, 1))};
}

std::string spelled(Node& node, const std::string& mode) {
  if (mode != "nearest" && mode != "linear" && mode != "cubic") {
    node.unsupported("has mode = {}; Anydim supports nearest, linear and cubic", quoted_name(mode));
  }
  return mode;
}

}  // namespace

void import_resize(Node& node) {
  const std::string coordinates = node.string("coordinate_transformation_mode", "half_pixel");
  const std::string mode = spelled(node, node.string("mode", "nearest"));
  const std::string rounding = node.string("nearest_mode", "round_prefer_floor");
  const double cubic = node.real("cubic_coeff_a", -0.75);
  const bool exclude = node.flag("exclude_outside", false);
  const double outside = node.real("extrapolation_value", 0);
  const Value x = node.operand(0);
  const std::size_t rank = x.rank();
  const Ints axes = given_axes(node, rank);
  // A vector without elements stands for an input that is left out.
  const bool by_sizes = node.has_operand(3);
  if (!by_sizes && !node.has_operand(2)) node.malformed("has neither scales nor sizes");
  const auto shape = shape_of(x);
  std::optional<ir::Tensor> known;
  Targets to;
  if (by_sizes) {
    const std::string policy =
        node.opset() >= 18 ? node.string("keep_aspect_ratio_policy", "stretch") : "stretch";
    to = targets_of_sizes(node, shape, axes, policy);
  } else {
    if (node.opset() >= 18) node.ignore_attribute("keep_aspect_ratio_policy");
    known = node.constant_operand(2);
    check_length(node, known, axes.size());
    if (known && axes.size() != rank) {
      ir::Tensor all = ir::Tensor::of(DType::F32, {static_cast<std::int64_t>(rank)},
                                      std::vector<double>(rank, 1));
      for (std::size_t i = 0; i < axes.size(); ++i)
        all.set_real(axes[i], known->real_at(static_cast<std::int64_t>(i)));
      known = std::move(all);
      to.scales = node.constant(*known);
    } else {
      to.scales = axes.size() == rank
                      ? node.operand(2)
                      : on_all_axes(node, node.operand(2), axes, rank, real_vector(node, rank, 1));
    }
    to.sizes = scaled_sizes(node, shape, to.scales, known);
  }
  const bool crops = coordinates == "tf_crop_and_resize";
  // What is cropped is resampled by a scale of 1, too.
  const Ints sampled = sampled_axes(rank, mode, axes, crops ? std::nullopt : known);
  const bool antialias = node.opset() >= 18 && node.flag("antialias", false);
  if (antialias && mode == "nearest") node.unsupported("has antialias = 1 with mode = 'nearest'");
  if (antialias || crops || coordinates == "half_pixel_symmetric") {
    Sampling sampling{.coordinates = coordinates,
                      .mode = mode,
                      .rounding = rounding,
                      .coefficient = cubic,
                      .exclude_outside = exclude,
                      .antialias = antialias,
                      .outside = outside};
    if (crops) std::tie(sampling.starts, sampling.ends) = region_of(node, axes, rank);
    Value result = x;
    for (const std::int64_t axis : sampled) {
      // Batches and channels of images are not resampled: the reshape below holds them to it.
      if (rank > 2 && axis < 2) {
        if (known && known->real_at(axis) != 1)
          node.unsupported("has {} and scales dim {}",
                           antialias ? "antialias = 1" : quoted_name(coordinates), axis);
        continue;
      }
      result = resampled(node, result, axis, to, sampling);
    }
    node.output(0, node.emit(Op::dyn_reshape, {result, to.sizes}));
    return;
  }
  node.output(0, emit_resize(node, to.scales, to.sizes,
                             {{"axes", sampled},
                              {"mode", mode},
                              {"coordinates", coordinates},
                              {"rounding", rounding},
                              {"cubic", cubic},
                              {"exclude_outside", std::int64_t{exclude ? 1 : 0}}}));
}

// Opset 10, and Upsample before it: coordinates are multiplied, and nearest rounds down.
void import_upsample(Node& node) {
  const std::string mode = spelled(node, node.string("mode", "nearest"));
  std::optional<ir::Tensor> known;
  Value scales = no_value;
  if (node.has_attribute("scales")) {
    const std::vector<double> given = node.reals("scales");
    known = ir::Tensor::of(DType::F32, {static_cast<std::int64_t>(given.size())}, given);
    scales = node.constant(*known);
  } else {
    scales = node.operand(1);
    known = node.constant_operand(1);
  }
  const Value x = node.operand(0);
  const std::size_t rank = x.rank();
  check_length(node, known, rank);
  const Value sizes = scaled_sizes(node, shape_of(x), scales, known);
  node.output(0, emit_resize(node, scales, sizes,
                             {{"axes", sampled_axes(rank, mode, given_axes(node, rank), known)},
                              {"mode", mode},
                              {"coordinates", std::string("asymmetric")},
                              {"rounding", std::string("floor")}}));
}

}  // namespace anydim::frontends
