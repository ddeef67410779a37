// GridSample: an image's values at the places that a grid names.
#include <fmt/format.h>

#include <array>

#include "frontends/onnx/importers.h"
#include "frontends/sizes.h"

namespace anydim::frontends {

using ir::DType;
using ir::Op;
using ir::ValueId;

namespace {

// Coordinates along one side of the image, from -1 to 1 in the grid, as positions of pixels.
struct Side {
  ValueId length = ir::no_value;  // real, rank 0
  ValueId position = ir::no_value;
};

class GridSampler {
 public:
  explicit GridSampler(Node& node)
      : node_(node), mode_(node.string("mode", node.opset() >= 20 ? "linear" : "bilinear")),
        padding_(node.string("padding_mode", "zeros")), corners_(node.flag("align_corners", false)),
        image_(node.operand(0)), grid_(node.operand(1)) {
    computed_ = node.dtype(image_) == DType::F64 ? DType::F64 : DType::F32;
    if (mode_ == "linear") mode_ = "bilinear";
    if (mode_ == "cubic") mode_ = "bicubic";
    if (mode_ != "bilinear" && mode_ != "nearest" && mode_ != "bicubic") {
      node.malformed(
          fmt::format("takes 'bilinear', 'nearest' or 'bicubic' as attribute 'mode', got {}",
                      quoted_name(mode_)));
    }
    if (padding_ != "zeros" && padding_ != "border" && padding_ != "reflection") {
      node.malformed(
          fmt::format("takes 'zeros', 'border' or 'reflection' as attribute 'padding_mode', got {}",
                      quoted_name(padding_)));
    }
    if (node.rank(image_) != 4)
      node.unsupported("samples something else than images [batch, channel, height, width]");
  }

  void run() {
    // [batch, height, width, channel], so that a pixel's channels are what two indices address.
    pixels_ =
        node_.emit(Op::transpose, {image_}, {{"perm", std::vector<std::int64_t>{0, 2, 3, 1}}});
    x_ = side(3, 0);
    y_ = side(2, 1);
    const ValueId sampled = mode_ == "nearest"    ? nearest()
                            : mode_ == "bilinear" ? bilinear()
                                                  : bicubic();
    node_.output(0, node_.emit(Op::transpose, {node_.cast(sampled, node_.dtype(image_))},
                               {{"perm", std::vector<std::int64_t>{0, 3, 1, 2}}}));
  }

 private:
  ValueId number(double value) { return node_.scalar(computed_, value); }
  ValueId apply(Op op, ValueId a, ValueId b) { return node_.emit(op, {a, b}); }

  Side side(std::int64_t axis, std::int64_t place) {
    Side side{};
    side.length = node_.cast(node_.rank_0(node_.dim_of(image_, axis)), computed_);
    const ValueId from_grid = node_.cast(
        node_.emit(Op::gather, {grid_, node_.scalar(DType::I64, static_cast<double>(place))},
                   {{"axis", std::int64_t{3}}}),
        computed_);
    const ValueId from_zero = apply(Op::add, from_grid, number(1));
    if (corners_) {
      side.position = apply(Op::mul, apply(Op::div, from_zero, number(2)),
                            apply(Op::sub, side.length, number(1)));
    } else {
      side.position = apply(
          Op::div, apply(Op::sub, apply(Op::mul, from_zero, side.length), number(1)), number(2));
    }
    return side;
  }

  ValueId last(const Side& side) { return apply(Op::sub, side.length, number(1)); }

  // The position inside the image that stands for one outside; zeros stay outside.
  ValueId padded(const Side& side, ValueId position) {
    if (padding_ == "zeros") return position;
    if (padding_ == "border")
      return apply(Op::min, apply(Op::max, position, number(0)), last(side));
    // Mirrored at the outer pixels' centres or outer edges: there and back again is one period.
    const ValueId begin = number(corners_ ? 0 : -0.5);
    const ValueId range = corners_ ? last(side) : side.length;
    const ValueId period = apply(Op::max, apply(Op::mul, range, number(2)),
                                 number(1));  // not 0: of one pixel between corners
    const ValueId distance = apply(Op::sub, position, begin);
    const ValueId turns = node_.emit(Op::floor, {apply(Op::div, distance, period)});
    const ValueId within = apply(Op::sub, distance, apply(Op::mul, turns, period));
    const ValueId back = apply(Op::sub, period, within);
    return apply(Op::add, begin, apply(Op::min, within, back));
  }

  // The pixels at whole positions, real [batch, height, width, channel] of the result.
  ValueId pixel(ValueId y, ValueId x) {
    y = padded(y_, y);
    x = padded(x_, x);
    const auto index = [&](const Side& side, ValueId position) {
      const ValueId inside = apply(Op::min, apply(Op::max, position, number(0)), last(side));
      return node_.with_axes(node_.cast(node_.emit(Op::round, {inside}), DType::I64), {3});
    };
    const ValueId indices =
        node_.emit(Op::concat, {index(y_, y), index(x_, x)}, {{"axis", std::int64_t{3}}});
    const ValueId found =
        node_.cast(node_.emit(Op::gather_nd, {pixels_, indices}, {{"batch_dims", std::int64_t{1}}}),
                   computed_);
    if (padding_ != "zeros") return found;
    const auto inside = [&](const Side& side, ValueId position) {
      return apply(Op::logical_and, apply(Op::greater_equal, position, number(0)),
                   apply(Op::less_equal, position, last(side)));
    };
    const ValueId both = apply(Op::logical_and, inside(y_, y), inside(x_, x));
    return node_.emit(Op::where, {node_.with_axes(both, {3}), found, number(0)});
  }

  ValueId nearest() {
    return pixel(node_.emit(Op::round, {y_.position}), node_.emit(Op::round, {x_.position}));
  }

  // Sums over the neighbours from `first` on, as far as there are weights.
  ValueId weighted(double first, const std::vector<ValueId>& rows,
                   const std::vector<ValueId>& columns) {
    const ValueId top = node_.emit(Op::floor, {y_.position}),
                  left = node_.emit(Op::floor, {x_.position});
    const auto at = [&](ValueId base, std::size_t i) {
      return apply(Op::add, base, number(first + static_cast<double>(i)));
    };
    ValueId sum = ir::no_value;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (std::size_t j = 0; j < columns.size(); ++j) {
        const ValueId weight = node_.with_axes(apply(Op::mul, rows[i], columns[j]), {3});
        const ValueId part = apply(Op::mul, pixel(at(top, i), at(left, j)), weight);
        sum = sum == ir::no_value ? part : apply(Op::add, sum, part);
      }
    }
    return sum;
  }

  ValueId fraction(const Side& side) {
    return apply(Op::sub, side.position, node_.emit(Op::floor, {side.position}));
  }

  ValueId bilinear() {
    const auto weights = [&](const Side& side) {
      const ValueId part = fraction(side);
      return std::vector<ValueId>{apply(Op::sub, number(1), part), part};
    };
    return weighted(0, weights(y_), weights(x_));
  }

  // ((a x + b) x + c) x + d
  ValueId cubic(ValueId x, const std::array<double, 4>& factors) {
    ValueId sum = number(factors[0]);
    for (std::size_t i = 1; i < 4; ++i)
      sum = apply(Op::add, apply(Op::mul, sum, x), number(factors[i]));
    return sum;
  }

  // Keys' convolution kernel with a = -0.75: https://doi.org/10.1109/TASSP.1981.1163711
  ValueId bicubic() {
    constexpr double a = -0.75;
    const auto weights = [&](const Side& side) {
      const ValueId part = fraction(side), rest = apply(Op::sub, number(1), part);
      const auto near = [&](ValueId x) { return cubic(x, {a + 2, -(a + 3), 0, 1}); };
      const auto far = [&](ValueId x) {
        return cubic(apply(Op::add, x, number(1)), {a, -5 * a, 8 * a, -4 * a});
      };
      return std::vector<ValueId>{far(part), near(part), near(rest), far(rest)};
    };
    return weighted(-1, weights(y_), weights(x_));
  }

  Node& node_;
  std::string mode_, padding_;
  bool corners_;
  DType computed_ = DType::F32;
  ValueId image_, grid_;
  ValueId pixels_ = ir::no_value;
  Side x_{}, y_{};
};

}  // namespace

void import_grid_sample(Node& node) { GridSampler(node).run(); }

}  // namespace anydim::frontends
