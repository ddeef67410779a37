// What boxes cut out of images.
#include <limits>

#include "frontends/onnx/importers.h"

namespace anydim::frontends {

namespace {

// Samples along one side of boxes: [boxes, samples], each between two rows (columns) of the image.
struct BoxSide {
  Value low = no_value, high = no_value;  // whole numbers, real
  Value far = no_value;                   // the higher one's share
  Value inside = no_value;
  Value each = no_value;  // samples of a bin, a vector of one index
  // Where a box decides how many samples its bins have, of at most `each`: the number, real [boxes,
  // 1], and which samples are among them.
  Value own = no_value, taken = no_value;
};

class RoiAligner {
 public:
  explicit RoiAligner(Node& node)
      : node_(node), image_(node.operand(0)), samples_(node.integer("sampling_ratio", 0)),
        scale_(node.real("spatial_scale", 1)), mode_(node.one_of({"avg", "max"}, "mode", "avg")) {
    half_pixel_ = node.opset() >= 16 &&
                  node.one_of({"half_pixel", "output_half_pixel"}, "coordinate_transformation_mode",
                              "half_pixel") == "half_pixel";
    for (const auto* name : {"output_height", "output_width"})
      if (const std::int64_t given = node.integer(name, 1); given < 1 || given > 1 << 15)
        node.malformed("has {} = {}; expected from 1 to {}", name, given, 1 << 15);
    if (samples_ < 0 || samples_ > 1 << 15)
      node.malformed("has sampling_ratio = {}; expected from 0 to {}", samples_, 1 << 15);
  }

  void run() {
    pixels_ = transpose(image_, {0, 2, 3, 1});
    const std::int64_t height = node_.integer("output_height", 1),
                       width = node_.integer("output_width", 1);
    const BoxSide y = side(1, 2, height), x = side(0, 3, width);
    const Value near_y = 1 - y.far, near_x = 1 - x.far;
    // What is greatest is so of the four pixels, each by its share.
    Value all = no_value;
    const auto take = [&](Value row, Value row_share, Value column, Value column_share) {
      const Value part =
          pixel(row, column) * with_axes(across(row_share) * along(column_share), {3});
      all = all == no_value ? part : mode_ == "max" ? max(all, part) : all + part;
    };
    take(y.low, near_y, x.low, near_x);
    take(y.low, near_y, x.high, x.far);
    take(y.high, y.far, x.low, near_x);
    take(y.high, y.far, x.high, x.far);
    const Value inside = across(y.inside) & along(x.inside);
    all = where(with_axes(inside, {3}), all, 0);
    const bool greatest = mode_ == "max";
    if (samples_ == 0) {
      const Value taken = across(y.taken) & along(x.taken);
      all = where(with_axes(taken, {3}), all,
                  greatest ? -std::numeric_limits<double>::infinity() : 0);
    }
    const Value bins = reshaped(all, {dim_of(all, 0), node_.index_vector({height}), y.each,
                                      node_.index_vector({width}), x.each, dim_of(all, 3)});
    const Op reduction = greatest        ? Op::reduce_max
                         : samples_ == 0 ? Op::reduce_sum
                                         : Op::reduce_mean;
    Value found = reduce(reduction, bins, {2, 4}, false);
    if (samples_ == 0) found = of_own_number(found, with_axes(y.own * x.own, {2, 3}));
    node_.output(0, transpose(found, {0, 3, 1, 2}));
  }

 private:
  Value across(Value rows) { return with_axes(rows, {2}); }
  Value along(Value columns) { return with_axes(columns, {1}); }

  BoxSide side(std::int64_t place, std::int64_t image_axis, std::int64_t bins) {
    const Value boxes = node_.operand(1);
    const auto edge = [&](std::int64_t at) {  // [boxes, 1]
      const Value scaled = slice(boxes, 1, at, at + 1) * scale_;
      return half_pixel_ ? scaled - 0.5 : scaled;
    };
    const Value first = edge(place);
    Value length = edge(place + 2) - first;
    if (!half_pixel_) length = max(length, 1);
    BoxSide side;
    const Value position = samples_ == 0 ? own_samples(side, first, length, bins)
                                         : even_samples(side, first, length, bins);
    const Value extent = cast(rank_0(dim_of(image_, image_axis)), image_.dtype());
    const Value last = extent - 1;
    const Value within = min(max(position, 0), last);
    side.inside = (position >= -1) & (position <= extent);
    side.low = floor(within);
    side.high = min(side.low + 1, last);
    side.far = within - side.low;
    return side;
  }

  // Places of samples [boxes, samples], of as many in every bin.
  Value even_samples(BoxSide& side, Value first, Value length, std::int64_t bins) {
    side.each = node_.index_vector({samples_});
    const std::int64_t count = bins * samples_;
    const Value at = middles(positions(node_.index_vector({count})));
    const Value step = length / static_cast<double>(count);
    return first + with_axes(at, {0}) * step;
  }

  // The same where a box has a sample for each pixel that its bins are large; bins of all boxes
  // have places for the most that one box has.
  Value own_samples(BoxSide& side, Value first, Value length, std::int64_t bins) {
    const Value bin = length / static_cast<double>(bins);
    side.own = max(ceil(bin), 0);
    const Value most = reduce(Op::reduce_max, side.own, {0, 1}, false);
    side.each = with_axes(cast(max(most, 0), DType::I64), {0});  // without boxes: 0
    const Value sample = positions(side.each);
    const Value share = with_axes(middles(sample), {0}) / max(side.own, 1);
    const Value begin = with_axes(cast(positions(node_.index_vector({bins})), image_.dtype()), {1});
    const auto of_box = [&](Value value) { return with_axes(value, {2}); };
    const Value places = of_box(first) + (begin + with_axes(share, {1})) * of_box(bin);
    const Value all = side.each * node_.index_vector({bins});
    const Values shape{dim_of(places, 0), all};
    const Value among = with_axes(cast(sample, image_.dtype()), {0}) < side.own;
    side.taken = reshaped(
        node_.emit(Op::dyn_broadcast_to, {with_axes(among, {1}), shape_of(places)}), shape);
    return reshaped(places, shape);
  }

  // Sums over a box's samples as their mean. Bins without any sample are 0.
  Value of_own_number(Value found, Value samples) {
    if (mode_ != "max") return found / max(samples, 1);
    return where(samples > 0, found, 0);
  }

  Value middles(Value places) { return cast(places, image_.dtype()) + 0.5; }

  // [boxes, rows, columns, channel]
  Value pixel(Value row, Value column) {
    const Value shape = shape_of(across(row) + along(column));
    const auto index = [&](Value value) {
      return with_axes(node_.emit(Op::dyn_broadcast_to, {cast(value, DType::I64), shape}), {3});
    };
    const Value image = with_axes(node_.index_operand(2), {1, 2});
    const Value indices = concat({index(image), index(across(row)), index(along(column))}, 3);
    return node_.emit(Op::gather_nd, {pixels_, indices}, {{"batch_dims", std::int64_t{0}}});
  }

  Node& node_;
  Value image_;
  std::int64_t samples_;
  double scale_;
  std::string mode_;
  bool half_pixel_ = true;
  Value pixels_ = no_value;
};

}  // namespace

// Boxes cut into bins, each the mean (or the largest) of a few samples between pixels.
void import_roi_align(Node& node) {
  node.check_rank(0, 4);
  node.check_rank(1, 2);
  node.check_rank(2, 1);
  if (const auto edges = node.operand(1).extent(1); edges && *edges != 4)
    node.malformed("takes boxes of 4 edges as input 1 (rois), got {}", *edges);
  RoiAligner(node).run();
}

namespace {

// The pixels along one side that each bin of a box takes: which, as [boxes, bins, side], and
// whether there are any, as [boxes, bins].
struct BinSide {
  Value taken = no_value, any = no_value;
};

BinSide bin_side(Node& node, std::int64_t place, std::int64_t image_axis, std::int64_t bins) {
  const Value boxes = node.operand(1);
  const DType dtype = boxes.dtype();
  const auto edge = [&](std::int64_t at) {  // [boxes, 1], rounded, halves away from zero
    const Value scaled = slice(boxes, 1, at, at + 1) * node.real("spatial_scale", 1);
    return where(scaled < 0, ceil(scaled - 0.5), floor(scaled + 0.5));
  };
  const Value first = edge(place);
  const Value length = max(edge(place + 2) - first + 1, 1);
  const Value bin = length / static_cast<double>(bins);
  const Value extent = dim_of(node.operand(0), image_axis);
  const Value last = cast(rank_0(extent), dtype);
  const Value index = cast(positions(node.index_vector({bins})), dtype);
  const auto bound = [&](Op rounded, Value at) {
    const Value along = node.emit(rounded, {with_axes(at, {0}) * bin});
    return min(max(first + along, 0), last);
  };
  const Value begin = bound(Op::floor, index), end = bound(Op::ceil, index + 1);
  const Value pixels = cast(positions(extent), dtype);
  const auto of_bin = [&](Value value) { return with_axes(value, {2}); };
  return {(pixels >= of_bin(begin)) & (pixels < of_bin(end)), begin < end};
}

}  // namespace

// Boxes of whole pixels cut into bins, each its largest pixel; 0 where a bin has none.
void import_max_roi_pool(Node& node) {
  const Value image = node.operand(0), boxes = node.operand(1);
  node.check_rank(0, 4);
  node.check_rank(1, 2);
  if (const auto fields = boxes.extent(1); fields && *fields != 5)
    node.malformed("takes an image's number and 4 edges for each box as input 1 (rois), got {}",
                   *fields);
  const Ints bins = node.integers("pooled_shape");
  if (bins.size() != 2 || bins[0] < 1 || bins[1] < 1 || bins[0] > 1 << 15 || bins[1] > 1 << 15)
    node.malformed("takes 2 numbers from 1 to {} as attribute pooled_shape", 1 << 15);
  const BinSide y = bin_side(node, 2, 2, bins[0]), x = bin_side(node, 1, 3, bins[1]);
  const Value lowest = node.scalar(image.dtype(), -std::numeric_limits<double>::infinity());
  const Value number = cast(without_axes(slice(boxes, 1, 0, 1), {1}), DType::I64);
  Value found = gather(image, number, 0);
  const auto largest = [&](const Ints& pixel_axes, const Ints& mask_axes, Value taken,
                           std::int64_t axis) {
    found = reduce(Op::reduce_max,
                   where(with_axes(taken, mask_axes), with_axes(found, pixel_axes), lowest), {axis},
                   false);
  };
  largest({2}, {1, 4}, y.taken, 3);  // [boxes, channels, rows, width]
  largest({3}, {1, 2}, x.taken, 4);  // [boxes, channels, rows, columns]
  const Value any = with_axes(y.any, {1, 3}) & with_axes(x.any, {1, 2});
  node.output(0, where(any, found, 0));
}

}  // namespace anydim::frontends
