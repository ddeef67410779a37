// An image's values at places that a grid names, and grids.
#include <array>
#include <limits>

#include "frontends/onnx/importers.h"
#include "frontends/sizes.h"

namespace anydim::frontends {

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
    computed_ = computed_in(node.dtype(image_));
    if (mode_ == "linear") mode_ = "bilinear";
    if (mode_ == "cubic") mode_ = "bicubic";
    if (mode_ != "bilinear" && mode_ != "nearest" && mode_ != "bicubic") {
      node.malformed("takes 'bilinear', 'nearest' or 'bicubic' as attribute 'mode', got {}",
                     quoted_name(mode_));
    }
    if (padding_ != "zeros" && padding_ != "border" && padding_ != "reflection") {
      node.malformed("takes 'zeros', 'border' or 'reflection' as attribute 'padding_mode', got {}",
                     quoted_name(padding_));
    }
    const std::size_t rank = node.rank(image_);
    if (rank < 3 || rank > most_sides + 2)
      node.unsupported(
          "samples an input 0 of rank {}; expected images [batch, channel, side...] of "
          "1 to {} sides",
          rank, most_sides);
    channel_ = static_cast<std::int64_t>(rank) - 1;
    if (const auto given = node.extent(grid_, -1); given && *given != channel_ - 1)
      node.malformed("takes {} coordinates a place, one for each side, as input 1 (grid), got {}",
                     channel_ - 1, *given);
  }

  void run() {
    // [batch, side..., channel], so that a pixel's channels are what an index a side addresses.
    std::vector<std::int64_t> last{0}, second{0, channel_};
    for (std::int64_t axis = 2; axis <= channel_; ++axis) {
      last.push_back(axis);
      second.push_back(axis - 1);
    }
    last.push_back(1);
    pixels_ = node_.emit(Op::transpose, {image_}, {{"perm", last}});
    for (std::int64_t axis = 2; axis <= channel_; ++axis) sides_.push_back(side(axis));
    const ValueId sampled = mode_ == "nearest"    ? nearest()
                            : mode_ == "bilinear" ? bilinear()
                                                  : bicubic();
    node_.output(0, node_.emit(Op::transpose, {node_.cast(sampled, node_.dtype(image_))},
                               {{"perm", second}}));
  }

 private:
  static constexpr std::size_t most_sides = 3;  // 64 pixels of a cubic sample

  // A number a side.
  using Place = std::vector<ValueId>;

  ValueId number(double value) { return node_.scalar(computed_, value); }
  ValueId apply(Op op, ValueId a, ValueId b) { return node_.emit(op, {a, b}); }

  // The grid names places along the last side first.
  Side side(std::int64_t axis) {
    Side side{};
    side.length = node_.cast(node_.rank_0(node_.dim_of(image_, axis)), computed_);
    const ValueId given = node_.cast(
        node_.emit(Op::gather,
                   {grid_, node_.scalar(DType::I64, static_cast<double>(channel_ - axis))},
                   {{"axis", channel_}}),
        computed_);
    // What is no number, or infinite, is the first edge, as torch documents it and ONNX Runtime
    // computes it: an exported linspace of one step is 0 / 0.
    const ValueId known =
        apply(Op::less_equal, node_.emit(Op::abs, {given}),
              number(computed_ == DType::F64 ? std::numeric_limits<double>::max()
                                             : std::numeric_limits<float>::max()));
    const ValueId from_grid = node_.emit(Op::where, {known, given, number(-1)});
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

  // The pixels at whole positions, real [batch, side..., channel] of the result.
  ValueId pixel(const Place& place) {
    std::vector<ValueId> indices;
    ValueId all_inside = ir::no_value;
    for (std::size_t i = 0; i < sides_.size(); ++i) {
      const ValueId position = padded(sides_[i], place[i]), end = last(sides_[i]);
      const ValueId nearest = apply(Op::min, apply(Op::max, position, number(0)), end);
      indices.push_back(
          node_.with_axes(node_.cast(node_.emit(Op::round, {nearest}), DType::I64), {channel_}));
      if (padding_ != "zeros") continue;
      const ValueId inside = apply(Op::logical_and, apply(Op::greater_equal, position, number(0)),
                                   apply(Op::less_equal, position, end));
      all_inside = i == 0 ? inside : apply(Op::logical_and, all_inside, inside);
    }
    const ValueId index = node_.emit(Op::concat, std::move(indices), {{"axis", channel_}});
    const ValueId found = node_.cast(
        node_.emit(Op::gather_nd, {pixels_, index}, {{"batch_dims", std::int64_t{1}}}), computed_);
    if (padding_ != "zeros") return found;
    return node_.emit(Op::where, {node_.with_axes(all_inside, {channel_}), found, number(0)});
  }

  ValueId nearest() {
    Place place;
    for (const Side& side : sides_) place.push_back(node_.emit(Op::round, {side.position}));
    return pixel(place);
  }

  // Sums over the neighbours from `first` on, as far as there are weights along each side.
  ValueId weighted(double first, const std::vector<std::vector<ValueId>>& weights) {
    Place base;
    for (const Side& side : sides_) base.push_back(node_.emit(Op::floor, {side.position}));
    ValueId sum = ir::no_value;
    for (std::vector<std::size_t> steps(sides_.size(), 0);;) {
      Place place;
      ValueId weight = ir::no_value;
      for (std::size_t i = 0; i < sides_.size(); ++i) {
        place.push_back(apply(Op::add, base[i], number(first + static_cast<double>(steps[i]))));
        const ValueId along = weights[i][steps[i]];
        weight = i == 0 ? along : apply(Op::mul, weight, along);
      }
      const ValueId part = apply(Op::mul, pixel(place), node_.with_axes(weight, {channel_}));
      sum = sum == ir::no_value ? part : apply(Op::add, sum, part);
      std::size_t moved = sides_.size();
      while (moved > 0 && ++steps[moved - 1] == weights[moved - 1].size()) steps[--moved] = 0;
      if (moved == 0) return sum;
    }
  }

  ValueId fraction(const Side& side) {
    return apply(Op::sub, side.position, node_.emit(Op::floor, {side.position}));
  }

  ValueId bilinear() {
    std::vector<std::vector<ValueId>> weights;
    for (const Side& side : sides_) {
      const ValueId part = fraction(side);
      weights.push_back({apply(Op::sub, number(1), part), part});
    }
    return weighted(0, weights);
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
    std::vector<std::vector<ValueId>> weights;
    for (const Side& side : sides_) {
      const ValueId part = fraction(side), rest = apply(Op::sub, number(1), part);
      const auto near = [&](ValueId x) { return cubic(x, {a + 2, -(a + 3), 0, 1}); };
      const auto far = [&](ValueId x) {
        return cubic(apply(Op::add, x, number(1)), {a, -5 * a, 8 * a, -4 * a});
      };
      weights.push_back({far(part), near(part), near(rest), far(rest)});
    }
    return weighted(-1, weights);
  }

  Node& node_;
  std::string mode_, padding_;
  bool corners_;
  DType computed_ = DType::F32;
  ValueId image_, grid_;
  std::int64_t channel_ = 0;  // axis of the channels, and of the grid's coordinates
  ValueId pixels_ = ir::no_value;
  std::vector<Side> sides_;  // as the image's axes are
};

}  // namespace

void import_grid_sample(Node& node) { GridSampler(node).run(); }

// Coordinates from -1 to 1 along each side, x first, times the matrices theta [batch, sides, sides
// + 1].
void import_affine_grid(Node& node) {
  const ValueId theta = node.operand(0), size = node.index_operand(1);
  const bool corners = node.flag("align_corners", false);
  const auto sides = node.rank(theta) == 3 ? node.extent(theta, 1) : std::nullopt;
  if (!sides || (*sides != 2 && *sides != 3) || node.extent(theta, 2).value_or(0) != *sides + 1)
    node.malformed("takes matrices of 2 by 3 or 3 by 4 as input 0 (theta)");
  if (const auto given = node.length(size); given && *given != *sides + 2)
    node.malformed("takes {} elements as input 1 (size), got {}", *sides + 2, *given);
  const auto number = [&](double value) { return node.scalar(node.dtype(theta), value); };
  const auto column = [&](std::int64_t at) {  // [batch, 1..., sides]
    std::vector<std::int64_t> axes;
    for (std::int64_t i = 1; i <= *sides; ++i) axes.push_back(i);
    return node.with_axes(node.without_axes(node.slice(theta, 2, at, at + 1), {2}), axes);
  };
  ValueId grid = column(*sides);
  for (std::int64_t side = 0; side < *sides; ++side) {
    const ValueId extent = node.slice(size, 0, side + 2, side + 3);
    const ValueId length = node.cast(node.without_axes(extent, {0}), node.dtype(theta));
    const ValueId place = node.cast(node.positions(extent), node.dtype(theta));
    // One place between corners is the first corner.
    const ValueId steps =
        corners ? node.emit(Op::max, {node.emit(Op::sub, {length, number(1)}), number(1)}) : length;
    ValueId at = node.emit(Op::mul, {place, number(2)});
    if (!corners) at = node.emit(Op::add, {at, number(1)});
    at = node.emit(Op::sub, {node.emit(Op::div, {at, steps}), number(1)});
    std::vector<std::int64_t> axes;
    for (std::int64_t i = 0; i <= *sides; ++i)
      if (i != side) axes.push_back(i);
    const ValueId term = node.emit(Op::mul, {node.with_axes(at, axes), column(*sides - 1 - side)});
    grid = node.emit(Op::add, {grid, term});
  }
  node.output(0, grid);
}

}  // namespace anydim::frontends
