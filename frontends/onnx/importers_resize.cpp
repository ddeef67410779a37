#include <fmt/format.h>

#include <cmath>

#include "frontends/onnx/importers.h"
#include "frontends/sizes.h"

namespace anydim::frontends {

using ir::DType;
using ir::Op;
using ir::ValueId;

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
      node.unsupported(fmt::format("scales by {}; Anydim supports scales from 2^-30 to 2^31",
                                   known->real_at(i)));
    }
    numerators.push_back(static_cast<std::int64_t>(scale));
    denominators.push_back(denominator);
  }
  return node.emit(Op::div, {node.emit(Op::mul, {shape, node.index_vector(numerators)}),
                             node.index_vector(denominators)});
}

// The axes that the model resamples, as far as it tells: not those that it scales by 1.
std::vector<std::int64_t> sampled_axes(const Node& node, ValueId x, const std::string& mode,
                                       const std::optional<ir::Tensor>& scales) {
  const std::size_t rank = node.rank(x);
  std::vector<std::int64_t> axes;
  for (std::size_t i = 0; i < rank; ++i) {
    if (scales && scales->real_at(static_cast<std::int64_t>(i)) == 1) continue;
    if (mode == "cubic" && i + 2 < rank) continue;  // defined for images only
    axes.push_back(static_cast<std::int64_t>(i));
  }
  return axes;
}

ValueId emit_resize(Node& node, ValueId scales, ValueId sizes, ir::Attributes attributes) {
  return node.emit(Op::dyn_resize, {node.operand(0), scales, sizes}, std::move(attributes));
}

void check_length(const Node& node, const std::optional<ir::Tensor>& scales) {
  if (!scales) return;
  const auto rank = static_cast<std::int64_t>(node.rank(node.operand(0)));
  if (scales->elements() != rank)
    node.malformed(fmt::format("has {} scales for an input of rank {}", scales->elements(), rank));
}

std::string spelled(Node& node, const std::string& mode) {
  if (mode != "nearest" && mode != "linear" && mode != "cubic") {
    node.unsupported(
        fmt::format("has mode = {}; Anydim supports nearest, linear and cubic", quoted_name(mode)));
  }
  return mode;
}

}  // namespace

void import_resize(Node& node) {
  const std::string coordinates = node.string("coordinate_transformation_mode", "half_pixel");
  if (coordinates == "tf_crop_and_resize" || coordinates == "half_pixel_symmetric") {
    node.unsupported(
        fmt::format("has coordinate_transformation_mode = {}", quoted_name(coordinates)));
  }
  const std::string mode = spelled(node, node.string("mode", "nearest"));
  const std::string rounding = node.string("nearest_mode", "round_prefer_floor");
  const double cubic = node.real("cubic_coeff_a", -0.75);
  const std::int64_t exclude = node.flag("exclude_outside", false) ? 1 : 0;
  node.real("extrapolation_value", 0);  // only tf_crop_and_resize leaves the source
  if (node.opset() >= 18) {
    if (node.flag("antialias", false)) node.unsupported("has antialias = 1");
    if (node.string("keep_aspect_ratio_policy", "stretch") != "stretch")
      node.unsupported("keeps the aspect ratio");
    if (node.has_attribute("axes")) node.unsupported("has the attribute 'axes'");
  }
  const ValueId x = node.operand(0);
  const auto shape = node.emit(Op::shape_of, {x});
  // A vector without elements stands for an input that is left out.
  const bool by_sizes = node.has_operand(3);
  if (!by_sizes && !node.has_operand(2)) node.malformed("has neither scales nor sizes");
  const std::optional<ir::Tensor> known = by_sizes ? std::nullopt : node.constant_operand(2);
  check_length(node, known);
  const ValueId sizes =
      by_sizes ? node.index_operand(3) : scaled_sizes(node, shape, node.operand(2), known);
  const ValueId scales =
      by_sizes ? node.emit(Op::div, {node.cast(sizes, DType::F32), node.cast(shape, DType::F32)})
               : node.operand(2);
  node.output(0, emit_resize(node, scales, sizes,
                             {{"axes", sampled_axes(node, x, mode, known)},
                              {"mode", mode},
                              {"coordinates", coordinates},
                              {"rounding", rounding},
                              {"cubic", cubic},
                              {"exclude_outside", exclude}}));
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
  check_length(node, known);
  const ValueId x = node.operand(0);
  const ValueId sizes = scaled_sizes(node, node.emit(Op::shape_of, {x}), scales, known);
  node.output(0, emit_resize(node, scales, sizes,
                             {{"axes", sampled_axes(node, x, mode, known)},
                              {"mode", mode},
                              {"coordinates", std::string("asymmetric")},
                              {"rounding", std::string("floor")}}));
}

}  // namespace anydim::frontends
