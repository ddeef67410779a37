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
ValueId scaled_sizes(Node& node, ValueId shape, ValueId scales,
                     const std::optional<ir::Tensor>& known) {
  if (!known) {
    const ValueId exact = node.emit(Op::mul, {node.cast(shape, DType::F32), scales});
    return node.cast(node.emit(Op::floor, {exact}), DType::I64);
  }
  std::vector<std::int64_t> numerators, denominators;
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
  return node.emit(Op::div, {node.emit(Op::mul, {shape, node.index_vector(numerators)}),
                             node.index_vector(denominators)});
}

// The axes that the model resamples, as far as it tells: of those given, not those that it scales
// by 1.
std::vector<std::int64_t> sampled_axes(std::size_t rank, const std::string& mode,
                                       const std::vector<std::int64_t>& given,
                                       const std::optional<ir::Tensor>& scales) {
  std::vector<std::int64_t> axes;
  for (std::size_t i = 0; i < rank; ++i) {
    const auto axis = static_cast<std::int64_t>(i);
    if (std::ranges::find(given, axis) == given.end()) continue;
    if (scales && scales->real_at(axis) == 1) continue;
    if (mode == "cubic" && i + 2 < rank) continue;  // defined for images only
    axes.push_back(axis);
  }
  return axes;
}

ValueId emit_resize(Node& node, ValueId scales, ValueId sizes, ir::Attributes attributes) {
  return node.emit(Op::dyn_resize, {node.operand(0), scales, sizes}, std::move(attributes));
}

void check_length(const Node& node, const std::optional<ir::Tensor>& scales, std::size_t wanted) {
  if (scales && scales->elements() != static_cast<std::int64_t>(wanted))
    node.malformed("has {} scales for {} axes", scales->elements(), wanted);
}

// The attribute axes, from the front; all where it is missing.
std::vector<std::int64_t> given_axes(Node& node, std::size_t rank) {
  std::vector<std::int64_t> axes;
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
ValueId on_all_axes(Node& node, ValueId vector, const std::vector<std::int64_t>& axes,
                    std::size_t rank, ValueId others) {
  std::vector<std::int64_t> from;
  for (std::size_t i = 0; i < rank; ++i) {
    const auto at = std::ranges::find(axes, static_cast<std::int64_t>(i));
    from.push_back(at == axes.end() ? static_cast<std::int64_t>(axes.size() + i)
                                    : at - axes.begin());
  }
  const ValueId both = node.emit(Op::concat, {vector, others}, {{"axis", std::int64_t{0}}});
  return node.emit(Op::gather, {both, node.index_vector(std::move(from))},
                   {{"axis", std::int64_t{0}}});
}

ValueId real_vector(Node& node, std::size_t length, double element) {
  return node.constant(ir::Tensor::of(DType::F32, {static_cast<std::int64_t>(length)},
                                      std::vector<double>(length, element)));
}

// One number for each dim of x.
struct Targets {
  ValueId scales = ir::no_value, sizes = ir::no_value;
};

// By input 3, for the axes given. One scale for all of them, the least or the greatest, where the
// aspect is kept.
Targets targets_of_sizes(Node& node, ValueId shape, const std::vector<std::int64_t>& axes,
                         const std::string& policy) {
  if (policy != "stretch" && policy != "not_larger" && policy != "not_smaller")
    node.malformed(
        "takes 'stretch', 'not_larger' or 'not_smaller' as attribute "
        "'keep_aspect_ratio_policy', got {}",
        quoted_name(policy));
  const std::size_t rank = node.rank(node.operand(0));
  ValueId sizes = node.index_operand(3);
  if (const auto given = node.length(sizes);
      given && *given != static_cast<std::int64_t>(axes.size()))
    node.malformed("has {} sizes for {} axes", *given, axes.size());
  if (policy == "stretch") {
    if (axes.size() != rank) sizes = on_all_axes(node, sizes, axes, rank, shape);
    return {node.emit(Op::div, {node.cast(sizes, DType::F32), node.cast(shape, DType::F32)}),
            sizes};
  }
  const ValueId extents = node.cast(
      node.emit(Op::gather, {shape, node.index_vector(axes)}, {{"axis", std::int64_t{0}}}),
      DType::F32);
  const ValueId scale =
      node.emit(policy == "not_larger" ? Op::reduce_min : Op::reduce_max,
                {node.emit(Op::div, {node.cast(sizes, DType::F32), extents})},
                {{"axes", std::vector<std::int64_t>{0}}, {"keepdims", std::int64_t{1}}});
  const ValueId rounded = node.emit(
      Op::floor,
      {node.emit(Op::add, {node.emit(Op::mul, {scale, extents}), node.scalar(DType::F32, 0.5)})});
  const ValueId count = node.index_vector({static_cast<std::int64_t>(axes.size())});
  return {on_all_axes(node, node.emit(Op::dyn_broadcast_to, {scale, count}), axes, rank,
                      real_vector(node, rank, 1)),
          on_all_axes(node, node.cast(rounded, DType::I64), axes, rank, shape)};
}

struct Sampling {
  std::string coordinates, mode, rounding;
  double coefficient = 0;  // of cubic
  bool exclude_outside = false;
  bool antialias = false;  // the filter is as wide as the result's elements are in x
  // Of tf_crop_and_resize: where the results of each axis begin and end, as parts of x, and what
  // lies outside.
  ValueId starts = ir::no_value, ends = ir::no_value;
  double outside = 0;
};

// Keys' filter (https://doi.org/10.1109/TASSP.1981.1163711), or a triangle, at a distance of at
// least 0.
ValueId filtered(Node& node, ValueId distance, const Sampling& sampling) {
  const auto number = [&](double value) { return node.scalar(DType::F64, value); };
  if (sampling.mode != "cubic")
    return node.emit(Op::max, {node.emit(Op::sub, {number(1), distance}), number(0)});
  const auto polynomial = [&](std::initializer_list<double> factors) {
    ValueId sum = number(0);
    for (const double factor : factors)
      sum = node.emit(Op::add, {node.emit(Op::mul, {sum, distance}), number(factor)});
    return sum;
  };
  const double a = sampling.coefficient;
  const auto below = [&](double border) { return node.emit(Op::less, {distance, number(border)}); };
  const ValueId far =
      node.emit(Op::where, {below(2), polynomial({a, -5 * a, 8 * a, -4 * a}), number(0)});
  return node.emit(Op::where, {below(1), polynomial({a + 2, -(a + 3), 0, 1}), far});
}

// Where the results of an axis lie in x.
ValueId sources(Node& node, std::int64_t axis, ValueId size, ValueId extent, ValueId scale,
                const Sampling& sampling) {
  const auto number = [&](double value) { return node.scalar(DType::F64, value); };
  const auto apply = [&](Op op, ValueId a, ValueId b) { return node.emit(op, {a, b}); };
  const auto real = [&](ValueId value) { return node.cast(value, DType::F64); };
  const ValueId place = real(node.positions(size)), one = number(1);
  const std::string& coordinates = sampling.coordinates;
  if (coordinates == "asymmetric") return apply(Op::div, place, scale);
  const ValueId span = apply(Op::sub, real(extent), one);
  const ValueId steps = apply(Op::max, apply(Op::sub, real(size), one), one);
  if (coordinates == "align_corners") return apply(Op::div, apply(Op::mul, place, span), steps);
  if (coordinates == "tf_crop_and_resize") {
    const ValueId start = real(node.slice(sampling.starts, 0, axis, axis + 1));
    const ValueId width = apply(Op::sub, real(node.slice(sampling.ends, 0, axis, axis + 1)), start);
    const ValueId part = node.emit(Op::where, {apply(Op::greater, real(size), one),
                                               apply(Op::div, place, steps), number(0.5)});
    return apply(Op::mul, apply(Op::add, start, apply(Op::mul, part, width)), span);
  }
  const ValueId halves =
      apply(Op::sub, apply(Op::div, apply(Op::add, place, number(0.5)), scale), number(0.5));
  if (coordinates == "pytorch_half_pixel")
    return node.emit(Op::where, {apply(Op::greater, real(size), one), halves, number(0)});
  if (coordinates == "half_pixel_symmetric") {
    const ValueId adjustment = apply(Op::div, real(size), apply(Op::mul, scale, real(extent)));
    return apply(
        Op::add, halves,
        apply(Op::mul, apply(Op::div, real(extent), number(2)), apply(Op::sub, one, adjustment)));
  }
  if (coordinates != "half_pixel")
    node.unsupported("has coordinate_transformation_mode = {}", quoted_name(coordinates));
  return halves;
}

// One axis resampled.
ValueId resampled(Node& node, ValueId x, std::int64_t axis, const Targets& to,
                  const Sampling& sampling) {
  const auto number = [&](double value) { return node.scalar(DType::F64, value); };
  const auto apply = [&](Op op, ValueId a, ValueId b) { return node.emit(op, {a, b}); };
  const auto real = [&](ValueId value) { return node.cast(value, DType::F64); };
  const ValueId size = node.slice(to.sizes, 0, axis, axis + 1), extent = node.dim_of(x, axis);
  const ValueId scale = real(node.slice(to.scales, 0, axis, axis + 1));   // [1], as all of these
  const ValueId at = sources(node, axis, size, extent, scale, sampling);  // [size]
  const ValueId one = number(1), last = apply(Op::sub, real(extent), one);
  const DType dtype = node.dtype(x);
  std::vector<std::int64_t> behind;  // the dims after the axis
  for (std::size_t i = static_cast<std::size_t>(axis) + 1; i < node.rank(x); ++i)
    behind.push_back(static_cast<std::int64_t>(i) - axis);
  const auto finished = [&](ValueId result) {
    if (sampling.starts == ir::no_value) return result;
    ValueId outside =
        apply(Op::logical_or, apply(Op::less, at, number(0)), apply(Op::greater, at, last));
    if (!behind.empty()) outside = node.with_axes(outside, behind);
    return node.emit(Op::where, {outside, node.scalar(dtype, sampling.outside), result});
  };
  const auto within = [&](ValueId place) {
    return node.cast(apply(Op::min, apply(Op::max, place, number(0)), last), DType::I64);
  };
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
    const ValueId nearest = node.emit(rounding->op, {apply(Op::add, at, number(rounding->before))});
    return finished(node.emit(Op::gather, {x, within(nearest)}, {{"axis", axis}}));
  }
  const ValueId narrow = sampling.antialias ? apply(Op::min, scale, one) : one;
  const ValueId reach = node.cast(
      node.emit(Op::ceil, {apply(Op::div, number(sampling.mode == "cubic" ? 2 : 1), narrow)}),
      DType::I64);
  const ValueId taps =
      apply(Op::add, apply(Op::mul, reach, node.index_vector({2})), node.index_vector({1}));
  const ValueId offsets = real(apply(Op::sub, node.positions(taps), reach));
  const ValueId centres = node.with_axes(at, {1});
  const ValueId tap = apply(Op::add, node.emit(Op::floor, {centres}), node.with_axes(offsets, {0}));
  const ValueId distance =
      apply(Op::mul, node.emit(Op::abs, {apply(Op::sub, tap, centres)}), narrow);
  ValueId weights = filtered(node, distance, sampling);
  if (sampling.exclude_outside)
    weights = node.emit(Op::where, {apply(Op::equal, tap, real(within(tap))), weights, number(0)});
  const ir::Attributes over_taps{{"axes", std::vector<std::int64_t>{1}},
                                 {"keepdims", std::int64_t{1}}};
  weights = apply(Op::div, weights, node.emit(Op::reduce_sum, {weights}, over_taps));
  const DType computed = computed_in(dtype);
  weights = node.cast(weights, computed);
  std::vector<std::int64_t> behind_taps;
  for (const std::int64_t dim : behind) behind_taps.push_back(dim + 1);
  if (!behind.empty()) weights = node.with_axes(weights, behind_taps);
  const ValueId found =
      node.cast(node.emit(Op::gather, {x, within(tap)}, {{"axis", axis}}), computed);
  const ValueId sum = node.emit(Op::reduce_sum, {apply(Op::mul, found, weights)},
                                {{"axes", std::vector<std::int64_t>{axis + 1}}});
  return finished(node.cast(ir::is_float(dtype) ? sum : node.emit(Op::round, {sum}), dtype));
}

// Input 1: where the results of each axis begin, then where they end.
std::pair<ValueId, ValueId> region_of(Node& node, const std::vector<std::int64_t>& axes,
                                      std::size_t rank) {
  if (!node.has_operand(1)) node.malformed("has no input 1 (roi) to crop to");
  const ValueId roi = node.operand(1);
  const auto count = static_cast<std::int64_t>(axes.size());
  if (const auto given = node.length(roi); given && *given != 2 * count)
    node.malformed("has an input 1 (roi) of {} elements, expected {}", *given, 2 * count);
  const ValueId all = node.cast(roi, DType::F32);
  const ValueId starts = node.slice(all, 0, 0, count), ends = node.slice(all, 0, count, 2 * count);
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
  const ValueId x = node.operand(0);
  const std::size_t rank = node.rank(x);
  const std::vector<std::int64_t> axes = given_axes(node, rank);
  // A vector without elements stands for an input that is left out.
  const bool by_sizes = node.has_operand(3);
  if (!by_sizes && !node.has_operand(2)) node.malformed("has neither scales nor sizes");
  const auto shape = node.emit(Op::shape_of, {x});
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
  const std::vector<std::int64_t> sampled =
      sampled_axes(rank, mode, axes, crops ? std::nullopt : known);
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
    ValueId result = x;
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
  ValueId scales = ir::no_value;
  if (node.has_attribute("scales")) {
    const std::vector<double> given = node.reals("scales");
    known = ir::Tensor::of(DType::F32, {static_cast<std::int64_t>(given.size())}, given);
    scales = node.constant(*known);
  } else {
    scales = node.operand(1);
    known = node.constant_operand(1);
  }
  const ValueId x = node.operand(0);
  const std::size_t rank = node.rank(x);
  check_length(node, known, rank);
  const ValueId sizes = scaled_sizes(node, node.emit(Op::shape_of, {x}), scales, known);
  node.output(0, emit_resize(node, scales, sizes,
                             {{"axes", sampled_axes(rank, mode, given_axes(node, rank), known)},
                              {"mode", mode},
                              {"coordinates", std::string("asymmetric")},
                              {"rounding", std::string("floor")}}));
}

}  // namespace anydim::frontends
