// An image's values at places that a grid or boxes name, and grids.
#include <fmt/format.h>

#include <array>
#include <limits>

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
    computed_ = computed_in(node.dtype(image_));
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
    const std::size_t rank = node.rank(image_);
    if (rank < 3 || rank > most_sides + 2)
      node.unsupported(
          fmt::format("samples an input 0 of rank {}; expected images [batch, channel, side...] of "
                      "1 to {} sides",
                      rank, most_sides));
    channel_ = static_cast<std::int64_t>(rank) - 1;
    if (const auto given = node.extent(grid_, -1); given && *given != channel_ - 1)
      node.malformed(
          fmt::format("takes {} coordinates a place, one for each side, as input 1 (grid), got {}",
                      channel_ - 1, *given));
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
    node.malformed(fmt::format("takes {} elements as input 1 (size), got {}", *sides + 2, *given));
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

namespace {

// Samples along one side of boxes: [boxes, samples], each between two rows (columns) of the image.
struct BoxSide {
  ValueId low = ir::no_value, high = ir::no_value;  // whole numbers, real
  ValueId far = ir::no_value;                       // the higher one's share
  ValueId inside = ir::no_value;
  ValueId each = ir::no_value;  // samples of a bin, a vector of one index
  // Where a box decides how many samples its bins have, of at most `each`: the number, real [boxes,
  // 1], and which samples are among them.
  ValueId own = ir::no_value, taken = ir::no_value;
};

class RoiAligner {
 public:
  explicit RoiAligner(Node& node)
      : node_(node), image_(node.operand(0)), samples_(node.integer("sampling_ratio", 0)),
        scale_(node.real("spatial_scale", 1)), mode_(node.string("mode", "avg")) {
    const std::string mode = node.opset() < 16
                                 ? "output_half_pixel"
                                 : node.string("coordinate_transformation_mode", "half_pixel");
    if (mode != "half_pixel" && mode != "output_half_pixel")
      node.malformed(
          fmt::format("takes 'half_pixel' or 'output_half_pixel' as attribute "
                      "'coordinate_transformation_mode', got {}",
                      quoted_name(mode)));
    if (mode_ != "avg" && mode_ != "max")
      node.malformed(
          fmt::format("takes 'avg' or 'max' as attribute 'mode', got {}", quoted_name(mode_)));
    half_pixel_ = mode == "half_pixel";
    for (const auto* name : {"output_height", "output_width"})
      if (const std::int64_t given = node.integer(name, 1); given < 1 || given > 1 << 15)
        node.malformed(fmt::format("has {} = {}; expected from 1 to {}", name, given, 1 << 15));
    if (samples_ < 0 || samples_ > 1 << 15)
      node.malformed(
          fmt::format("has sampling_ratio = {}; expected from 0 to {}", samples_, 1 << 15));
  }

  void run() {
    pixels_ =
        node_.emit(Op::transpose, {image_}, {{"perm", std::vector<std::int64_t>{0, 2, 3, 1}}});
    const std::int64_t height = node_.integer("output_height", 1),
                       width = node_.integer("output_width", 1);
    const BoxSide y = side(1, 2, height), x = side(0, 3, width);
    const ValueId one = number(1), near_y = apply(Op::sub, one, y.far),
                  near_x = apply(Op::sub, one, x.far);
    // What is greatest is so of the four pixels, each by its share.
    ValueId all = ir::no_value;
    const auto take = [&](ValueId row, ValueId row_share, ValueId column, ValueId column_share) {
      const ValueId part =
          apply(Op::mul, pixel(row, column),
                node_.with_axes(apply(Op::mul, across(row_share), along(column_share)), {3}));
      all = all == ir::no_value ? part : apply(mode_ == "max" ? Op::max : Op::add, all, part);
    };
    take(y.low, near_y, x.low, near_x);
    take(y.low, near_y, x.high, x.far);
    take(y.high, y.far, x.low, near_x);
    take(y.high, y.far, x.high, x.far);
    const ValueId inside = apply(Op::logical_and, across(y.inside), along(x.inside));
    all = node_.emit(Op::where, {node_.with_axes(inside, {3}), all, number(0)});
    const bool greatest = mode_ == "max";
    if (samples_ == 0) {
      const ValueId taken = apply(Op::logical_and, across(y.taken), along(x.taken));
      all =
          node_.emit(Op::where, {node_.with_axes(taken, {3}), all,
                                 number(greatest ? -std::numeric_limits<double>::infinity() : 0)});
    }
    const ValueId bins =
        node_.reshaped(all, {node_.dim_of(all, 0), node_.index_vector({height}), y.each,
                             node_.index_vector({width}), x.each, node_.dim_of(all, 3)});
    const Op reduction = greatest        ? Op::reduce_max
                         : samples_ == 0 ? Op::reduce_sum
                                         : Op::reduce_mean;
    ValueId found =
        node_.emit(reduction, {bins},
                   {{"axes", std::vector<std::int64_t>{2, 4}}, {"keepdims", std::int64_t{0}}});
    if (samples_ == 0)
      found = of_own_number(found, node_.with_axes(apply(Op::mul, y.own, x.own), {2, 3}));
    node_.output(
        0, node_.emit(Op::transpose, {found}, {{"perm", std::vector<std::int64_t>{0, 3, 1, 2}}}));
  }

 private:
  ValueId number(double value) { return node_.scalar(node_.dtype(image_), value); }
  ValueId apply(Op op, ValueId a, ValueId b) { return node_.emit(op, {a, b}); }
  ValueId across(ValueId rows) { return node_.with_axes(rows, {2}); }
  ValueId along(ValueId columns) { return node_.with_axes(columns, {1}); }

  BoxSide side(std::int64_t place, std::int64_t image_axis, std::int64_t bins) {
    const ValueId boxes = node_.operand(1);
    const auto edge = [&](std::int64_t at) {  // [boxes, 1]
      const ValueId scaled = apply(Op::mul, node_.slice(boxes, 1, at, at + 1), number(scale_));
      return half_pixel_ ? apply(Op::sub, scaled, number(0.5)) : scaled;
    };
    const ValueId first = edge(place);
    ValueId length = apply(Op::sub, edge(place + 2), first);
    if (!half_pixel_) length = apply(Op::max, length, number(1));
    BoxSide side;
    const ValueId position = samples_ == 0 ? own_samples(side, first, length, bins)
                                           : even_samples(side, first, length, bins);
    const ValueId extent =
        node_.cast(node_.rank_0(node_.dim_of(image_, image_axis)), node_.dtype(image_));
    const ValueId last = apply(Op::sub, extent, number(1));
    const ValueId within = apply(Op::min, apply(Op::max, position, number(0)), last);
    side.inside = apply(Op::logical_and, apply(Op::greater_equal, position, number(-1)),
                        apply(Op::less_equal, position, extent));
    side.low = node_.emit(Op::floor, {within});
    side.high = apply(Op::min, apply(Op::add, side.low, number(1)), last);
    side.far = apply(Op::sub, within, side.low);
    return side;
  }

  // Places of samples [boxes, samples], of as many in every bin.
  ValueId even_samples(BoxSide& side, ValueId first, ValueId length, std::int64_t bins) {
    side.each = node_.index_vector({samples_});
    const std::int64_t count = bins * samples_;
    const ValueId at = middles(node_.positions(node_.index_vector({count})));
    const ValueId step = apply(Op::div, length, number(static_cast<double>(count)));
    return apply(Op::add, first, apply(Op::mul, node_.with_axes(at, {0}), step));
  }

  // The same where a box has a sample for each pixel that its bins are large; bins of all boxes
  // have places for the most that one box has.
  ValueId own_samples(BoxSide& side, ValueId first, ValueId length, std::int64_t bins) {
    const ValueId bin = apply(Op::div, length, number(static_cast<double>(bins)));
    side.own = apply(Op::max, node_.emit(Op::ceil, {bin}), number(0));
    const ValueId most =
        node_.emit(Op::reduce_max, {side.own},
                   {{"axes", std::vector<std::int64_t>{0, 1}}, {"keepdims", std::int64_t{0}}});
    side.each = node_.with_axes(node_.cast(apply(Op::max, most, number(0)), DType::I64),
                                {0});  // without boxes: 0
    const ValueId sample = node_.positions(side.each);
    const ValueId share =
        apply(Op::div, node_.with_axes(middles(sample), {0}), apply(Op::max, side.own, number(1)));
    const ValueId begin = node_.with_axes(
        node_.cast(node_.positions(node_.index_vector({bins})), node_.dtype(image_)), {1});
    const auto of_box = [&](ValueId value) { return node_.with_axes(value, {2}); };
    const ValueId places =
        apply(Op::add, of_box(first),
              apply(Op::mul, apply(Op::add, begin, node_.with_axes(share, {1})), of_box(bin)));
    const ValueId all = node_.emit(Op::mul, {side.each, node_.index_vector({bins})});
    const std::vector<ValueId> shape{node_.dim_of(places, 0), all};
    const ValueId among =
        apply(Op::less, node_.with_axes(node_.cast(sample, node_.dtype(image_)), {0}), side.own);
    side.taken = node_.reshaped(
        node_.emit(Op::dyn_broadcast_to,
                   {node_.with_axes(among, {1}), node_.emit(Op::shape_of, {places})}),
        shape);
    return node_.reshaped(places, shape);
  }

  // Sums over a box's samples as their mean. Bins without any sample are 0.
  ValueId of_own_number(ValueId found, ValueId samples) {
    if (mode_ != "max") return apply(Op::div, found, apply(Op::max, samples, number(1)));
    return node_.emit(Op::where, {apply(Op::greater, samples, number(0)), found, number(0)});
  }

  ValueId middles(ValueId places) {
    return apply(Op::add, node_.cast(places, node_.dtype(image_)), number(0.5));
  }

  // [boxes, rows, columns, channel]
  ValueId pixel(ValueId row, ValueId column) {
    const ValueId shape = node_.emit(Op::shape_of, {apply(Op::add, across(row), along(column))});
    const auto index = [&](ValueId value) {
      return node_.with_axes(
          node_.emit(Op::dyn_broadcast_to, {node_.cast(value, DType::I64), shape}), {3});
    };
    const ValueId image = node_.with_axes(node_.index_operand(2), {1, 2});
    const ValueId indices =
        node_.emit(Op::concat, {index(image), index(across(row)), index(along(column))},
                   {{"axis", std::int64_t{3}}});
    return node_.emit(Op::gather_nd, {pixels_, indices}, {{"batch_dims", std::int64_t{0}}});
  }

  Node& node_;
  ValueId image_;
  std::int64_t samples_;
  double scale_;
  std::string mode_;
  bool half_pixel_ = true;
  ValueId pixels_ = ir::no_value;
};

}  // namespace

// Boxes cut into bins, each the mean (or the largest) of a few samples between pixels.
void import_roi_align(Node& node) {
  for (const std::size_t i : {0, 1, 2}) {
    const std::size_t rank = node.rank(node.operand(i)), wanted = i == 0 ? 4 : i == 1 ? 2 : 1;
    if (rank != wanted)
      node.malformed(fmt::format("takes rank {} as input {}, got {}", wanted, i, rank));
  }
  if (const auto edges = node.extent(node.operand(1), 1); edges && *edges != 4)
    node.malformed(fmt::format("takes boxes of 4 edges as input 1 (rois), got {}", *edges));
  RoiAligner(node).run();
}

}  // namespace anydim::frontends
