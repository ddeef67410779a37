// What boxes cut out of images.
#include <limits>

#include "frontends/onnx/importers.h"
#include "frontends/sizes.h"

namespace anydim::frontends {

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
          "takes 'half_pixel' or 'output_half_pixel' as attribute "
          "'coordinate_transformation_mode', got {}",
          quoted_name(mode));
    if (mode_ != "avg" && mode_ != "max")
      node.malformed("takes 'avg' or 'max' as attribute 'mode', got {}", quoted_name(mode_));
    half_pixel_ = mode == "half_pixel";
    for (const auto* name : {"output_height", "output_width"})
      if (const std::int64_t given = node.integer(name, 1); given < 1 || given > 1 << 15)
        node.malformed("has {} = {}; expected from 1 to {}", name, given, 1 << 15);
    if (samples_ < 0 || samples_ > 1 << 15)
      node.malformed("has sampling_ratio = {}; expected from 0 to {}", samples_, 1 << 15);
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
    if (rank != wanted) node.malformed("takes rank {} as input {}, got {}", wanted, i, rank);
  }
  if (const auto edges = node.extent(node.operand(1), 1); edges && *edges != 4)
    node.malformed("takes boxes of 4 edges as input 1 (rois), got {}", *edges);
  RoiAligner(node).run();
}

namespace {

// The pixels along one side that each bin of a box takes: which, as [boxes, bins, side], and
// whether there are any, as [boxes, bins].
struct BinSide {
  ValueId taken = ir::no_value, any = ir::no_value;
};

BinSide bin_side(Node& node, std::int64_t place, std::int64_t image_axis, std::int64_t bins) {
  const ValueId boxes = node.operand(1);
  const DType dtype = node.dtype(boxes);
  const auto number = [&](double value) { return node.scalar(dtype, value); };
  const auto apply = [&](Op op, ValueId a, ValueId b) { return node.emit(op, {a, b}); };
  const auto edge = [&](std::int64_t at) {  // [boxes, 1], rounded, halves away from zero
    const ValueId scaled =
        apply(Op::mul, node.slice(boxes, 1, at, at + 1), number(node.real("spatial_scale", 1)));
    return node.emit(Op::where, {apply(Op::less, scaled, number(0)),
                                 node.emit(Op::ceil, {apply(Op::sub, scaled, number(0.5))}),
                                 node.emit(Op::floor, {apply(Op::add, scaled, number(0.5))})});
  };
  const ValueId first = edge(place);
  const ValueId length =
      apply(Op::max, apply(Op::add, apply(Op::sub, edge(place + 2), first), number(1)), number(1));
  const ValueId bin = apply(Op::div, length, number(static_cast<double>(bins)));
  const ValueId extent = node.dim_of(node.operand(0), image_axis);
  const ValueId last = node.cast(node.rank_0(extent), dtype);
  const ValueId index = node.cast(node.positions(node.index_vector({bins})), dtype);
  const auto bound = [&](Op rounded, ValueId at) {
    const ValueId along = node.emit(rounded, {apply(Op::mul, node.with_axes(at, {0}), bin)});
    return apply(Op::min, apply(Op::max, apply(Op::add, first, along), number(0)), last);
  };
  const ValueId begin = bound(Op::floor, index),
                end = bound(Op::ceil, apply(Op::add, index, number(1)));
  const ValueId pixels = node.cast(node.positions(extent), dtype);
  const auto of_bin = [&](ValueId value) { return node.with_axes(value, {2}); };
  return {apply(Op::logical_and, apply(Op::greater_equal, pixels, of_bin(begin)),
                apply(Op::less, pixels, of_bin(end))),
          apply(Op::less, begin, end)};
}

}  // namespace

// Boxes of whole pixels cut into bins, each its largest pixel; 0 where a bin has none.
void import_max_roi_pool(Node& node) {
  const ValueId image = node.operand(0), boxes = node.operand(1);
  for (const std::size_t i : {0, 1}) {
    const std::size_t rank = node.rank(node.operand(i)), wanted = i == 0 ? 4 : 2;
    if (rank != wanted) node.malformed("takes rank {} as input {}, got {}", wanted, i, rank);
  }
  if (const auto fields = node.extent(boxes, 1); fields && *fields != 5)
    node.malformed("takes an image's number and 4 edges for each box as input 1 (rois), got {}",
                   *fields);
  const std::vector<std::int64_t> bins = node.integers("pooled_shape");
  if (bins.size() != 2 || bins[0] < 1 || bins[1] < 1 || bins[0] > 1 << 15 || bins[1] > 1 << 15)
    node.malformed("takes 2 numbers from 1 to {} as attribute pooled_shape", 1 << 15);
  const BinSide y = bin_side(node, 2, 2, bins[0]), x = bin_side(node, 1, 3, bins[1]);
  const ValueId lowest = node.scalar(node.dtype(image), -std::numeric_limits<double>::infinity());
  const ValueId number = node.cast(node.without_axes(node.slice(boxes, 1, 0, 1), {1}), DType::I64);
  ValueId found = node.emit(Op::gather, {image, number}, {{"axis", std::int64_t{0}}});
  const auto largest = [&](const std::vector<std::int64_t>& pixel_axes,
                           const std::vector<std::int64_t>& mask_axes, ValueId taken,
                           std::int64_t axis) {
    found = node.emit(Op::reduce_max,
                      {node.emit(Op::where, {node.with_axes(taken, mask_axes),
                                             node.with_axes(found, pixel_axes), lowest})},
                      {{"axes", std::vector<std::int64_t>{axis}}, {"keepdims", std::int64_t{0}}});
  };
  largest({2}, {1, 4}, y.taken, 3);  // [boxes, channels, rows, width]
  largest({3}, {1, 2}, x.taken, 4);  // [boxes, channels, rows, columns]
  const ValueId any =
      node.emit(Op::logical_and, {node.with_axes(y.any, {1, 3}), node.with_axes(x.any, {1, 2})});
  node.output(0, node.emit(Op::where, {any, found, node.scalar(node.dtype(image), 0)}));
}

}  // namespace anydim::frontends
