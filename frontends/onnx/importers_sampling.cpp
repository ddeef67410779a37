// An image's values at places that a grid names, and grids.
#include <array>
#include <limits>

#include "frontends/onnx/importers.h"
#include "frontends/sizes.h"

namespace anydim::frontends {

namespace {

// Coordinates along one side of the image, from -1 to 1 in the grid, as positions of pixels.
struct Side {
  Value length = no_value;  // real, rank 0
  Value position = no_value;
};

class GridSampler {
 public:
  explicit GridSampler(Node& node)
      : node_(node), mode_(node.string("mode", node.opset() >= 20 ? "linear" : "bilinear")),
        padding_(node.one_of({"zeros", "border", "reflection"}, "padding_mode", "zeros")),
        corners_(node.flag("align_corners", false)), image_(node.operand(0)),
        grid_(node.operand(1)) {
    computed_ = computed_in(image_.dtype());
    if (mode_ == "linear") mode_ = "bilinear";
    if (mode_ == "cubic") mode_ = "bicubic";
    if (mode_ != "bilinear" && mode_ != "nearest" && mode_ != "bicubic") {
      node.malformed("takes 'bilinear', 'nearest' or 'bicubic' as attribute 'mode', got {}",
                     quoted_name(mode_));
    }
    const std::size_t rank = image_.rank();
    if (rank < 3 || rank > most_sides + 2)
      node.unsupported(
          "samples an input 0 of rank {}; expected images [batch, channel, side...] of "
          "1 to {} sides",
          rank, most_sides);
    channel_ = static_cast<std::int64_t>(rank) - 1;
    if (const auto given = grid_.extent(-1); given && *given != channel_ - 1)
      node.malformed("takes {} coordinates a place, one for each side, as input 1 (grid), got {}",
                     channel_ - 1, *given);
  }

  void run() {
    // [batch, side..., channel], so that a pixel's channels are what an index a side addresses.
    Ints last{0}, second{0, channel_};
    for (std::int64_t axis = 2; axis <= channel_; ++axis) {
      last.push_back(axis);
      second.push_back(axis - 1);
    }
    last.push_back(1);
    pixels_ = transpose(image_, last);
    for (std::int64_t axis = 2; axis <= channel_; ++axis) sides_.push_back(side(axis));
    const Value sampled = mode_ == "nearest"    ? nearest()
                          : mode_ == "bilinear" ? bilinear()
                                                : bicubic();
    node_.output(0, transpose(cast(sampled, image_.dtype()), second));
  }

 private:
  static constexpr std::size_t most_sides = 3;  // 64 pixels of a cubic sample

  // The grid names places along the last side first.
  Side side(std::int64_t axis) {
    Side side{};
    side.length = cast(rank_0(dim_of(image_, axis)), computed_);
    const Value given = cast(gather(grid_, channel_ - axis, channel_), computed_);
    // What is no number, or infinite, is the first edge, as torch documents it and ONNX Runtime
    // computes it: an exported linspace of one step is 0 / 0.
    const Value known = abs(given) <= (computed_ == DType::F64 ? std::numeric_limits<double>::max()
                                                               : std::numeric_limits<float>::max());
    const Value from_grid = where(known, given, -1);
    const Value from_zero = from_grid + 1;
    if (corners_) {
      side.position = from_zero / 2 * (side.length - 1);
    } else {
      side.position = (from_zero * side.length - 1) / 2;
    }
    return side;
  }

  Value last(const Side& side) { return side.length - 1; }

  // The position inside the image that stands for one outside; zeros stay outside.
  Value padded(const Side& side, Value position) {
    if (padding_ == "zeros") return position;
    if (padding_ == "border") return min(max(position, 0), last(side));
    // Mirrored at the outer pixels' centres or outer edges: there and back again is one period.
    const double begin = corners_ ? 0 : -0.5;
    const Value range = corners_ ? last(side) : side.length;
    const Value period = max(range * 2, 1);  // not 0: of one pixel between corners
    const Value distance = position - begin;
    const Value turns = floor(distance / period);
    const Value within = distance - turns * period;
    const Value back = period - within;
    return begin + min(within, back);
  }

  // The pixels at whole positions, one a side, real [batch, side..., channel] of the result.
  Value pixel(const Values& place) {
    Values indices;
    Value all_inside = no_value;
    for (std::size_t i = 0; i < sides_.size(); ++i) {
      const Value position = padded(sides_[i], place[i]), end = last(sides_[i]);
      const Value nearest = min(max(position, 0), end);
      indices.push_back(with_axes(cast(round(nearest), DType::I64), {channel_}));
      if (padding_ != "zeros") continue;
      const Value inside = (position >= 0) & (position <= end);
      all_inside = i == 0 ? inside : all_inside & inside;
    }
    const Value index = concat(std::move(indices), channel_);
    const Value found = cast(
        node_.emit(Op::gather_nd, {pixels_, index}, {{"batch_dims", std::int64_t{1}}}), computed_);
    if (padding_ != "zeros") return found;
    return where(with_axes(all_inside, {channel_}), found, 0);
  }

  Value nearest() {
    Values place;
    for (const Side& side : sides_) place.push_back(round(side.position));
    return pixel(place);
  }

  // Sums over the neighbours from `first` on, as far as there are weights along each side.
  Value weighted(double first, const std::vector<Values>& weights) {
    Values base;
    for (const Side& side : sides_) base.push_back(floor(side.position));
    Value sum = no_value;
    for (std::vector<std::size_t> steps(sides_.size(), 0);;) {
      Values place;
      Value weight = no_value;
      for (std::size_t i = 0; i < sides_.size(); ++i) {
        place.push_back(base[i] + (first + static_cast<double>(steps[i])));
        const Value along = weights[i][steps[i]];
        weight = i == 0 ? along : weight * along;
      }
      const Value part = pixel(place) * with_axes(weight, {channel_});
      sum = sum == no_value ? part : sum + part;
      std::size_t moved = sides_.size();
      while (moved > 0 && ++steps[moved - 1] == weights[moved - 1].size()) steps[--moved] = 0;
      if (moved == 0) return sum;
    }
  }

  Value fraction(const Side& side) { return side.position - floor(side.position); }

  Value bilinear() {
    std::vector<Values> weights;
    for (const Side& side : sides_) {
      const Value part = fraction(side);
      weights.push_back({1 - part, part});
    }
    return weighted(0, weights);
  }

  // ((a x + b) x + c) x + d
  Value cubic(Value x, const std::array<double, 4>& factors) {
    return ((factors[0] * x + factors[1]) * x + factors[2]) * x + factors[3];
  }

  // Keys' convolution kernel with a = -0.75: https://doi.org/10.1109/TASSP.1981.1163711
  Value bicubic() {
    constexpr double a = -0.75;
    std::vector<Values> weights;
    for (const Side& side : sides_) {
      const Value part = fraction(side), rest = 1 - part;
      const auto near = [&](Value x) { return cubic(x, {a + 2, -(a + 3), 0, 1}); };
      const auto far = [&](Value x) { return cubic(x + 1, {a, -5 * a, 8 * a, -4 * a}); };
      weights.push_back({far(part), near(part), near(rest), far(rest)});
    }
    return weighted(-1, weights);
  }

  Node& node_;
  std::string mode_, padding_;
  bool corners_;
  DType computed_ = DType::F32;
  Value image_, grid_;
  std::int64_t channel_ = 0;  // axis of the channels, and of the grid's coordinates
  Value pixels_ = no_value;
  std::vector<Side> sides_;  // as the image's axes are
};

}  // namespace

void import_grid_sample(Node& node) { GridSampler(node).run(); }

// Coordinates from -1 to 1 along each side, x first, times the matrices theta [batch, sides, sides
// + 1].
void import_affine_grid(Node& node) {
  const Value theta = node.operand(0), size = node.index_operand(1);
  const bool corners = node.flag("align_corners", false);
  const auto sides = theta.rank() == 3 ? theta.extent(1) : std::nullopt;
  if (!sides || (*sides != 2 && *sides != 3) || theta.extent(2).value_or(0) != *sides + 1)
    node.malformed("takes matrices of 2 by 3 or 3 by 4 as input 0 (theta)");
  if (const auto given = size.length(); given && *given != *sides + 2)
    node.malformed("takes {} elements as input 1 (size), got {}", *sides + 2, *given);
  const auto column = [&](std::int64_t at) {  // [batch, 1..., sides]
    Ints axes;
    for (std::int64_t i = 1; i <= *sides; ++i) axes.push_back(i);
    return with_axes(without_axes(slice(theta, 2, at, at + 1), {2}), axes);
  };
  Value grid = column(*sides);
  for (std::int64_t side = 0; side < *sides; ++side) {
    const Value extent = slice(size, 0, side + 2, side + 3);
    const Value length = cast(without_axes(extent, {0}), theta.dtype());
    const Value place = cast(positions(extent), theta.dtype());
    // One place between corners is the first corner.
    const Value steps = corners ? max(length - 1, 1) : length;
    Value at = place * 2;
    if (!corners) at = at + 1;
    at = at / steps - 1;
    Ints axes;
    for (std::int64_t i = 0; i <= *sides; ++i)
      if (i != side) axes.push_back(i);
    const Value term = with_axes(at, axes) * column(*sides - 1 - side);
    grid = grid + term;
  }
  node.output(0, grid);
}

}  // namespace anydim::frontends
