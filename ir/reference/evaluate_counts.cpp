// Ops whose size only the data tells.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "ir/reference/evaluate_ops.h"

namespace anydim::ir {
namespace {

Tensor vector_of(const Extents& elements) {
  return Tensor::of(DType::I64, {static_cast<std::int64_t>(elements.size())}, elements);
}

bool is_set(const Tensor& tensor, std::int64_t at) {
  return is_float(tensor.dtype()) ? tensor.real_at(at) != 0 : tensor.integer_at(at) != 0;
}

Extents set_positions(const Tensor& tensor) {
  Extents positions;
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    if (is_set(tensor, i)) positions.push_back(i);
  }
  return positions;
}

// Below 0, 0 or above 0; a NaN is larger than every number and equal to a NaN.
int compared(const Tensor& tensor, std::int64_t a, std::int64_t b) {
  const auto by = [](auto left, auto right) { return left < right ? -1 : left > right ? 1 : 0; };
  if (is_float(tensor.dtype())) {
    const double left = tensor.real_at(a), right = tensor.real_at(b);
    if (std::isnan(left) || std::isnan(right)) return by(std::isnan(left), std::isnan(right));
    return by(left, right);
  }
  const std::int64_t left = tensor.integer_at(a), right = tensor.integer_at(b);
  if (tensor.dtype() == DType::U64)
    return by(static_cast<std::uint64_t>(left), static_cast<std::uint64_t>(right));
  return by(left, right);
}

// Positions that compare equal in order of position.
template <typename Compare>
void sort_stably(Extents& positions, const Compare& compare) {
  std::ranges::sort(positions, [&](std::int64_t a, std::int64_t b) {
    const int order = compare(a, b);
    return order != 0 ? order < 0 : a < b;
  });
}

// A tensor as `extent` slices along one axis (or, without an axis, as its elements).
struct Slices {
  const Tensor& tensor;
  std::int64_t outer = 1, extent = 0, inner = 1;

  Slices(const Tensor& source, std::size_t axis) : tensor(source), extent(source.dims()[axis]) {
    for (std::size_t i = 0; i < axis; ++i) outer *= source.dims()[i];
    for (std::size_t i = axis + 1; i < source.rank(); ++i) inner *= source.dims()[i];
  }
  explicit Slices(const Tensor& source) : tensor(source), extent(source.elements()) {}

  int compare(std::int64_t a, std::int64_t b) const {
    for (std::int64_t o = 0; o < outer; ++o) {
      for (std::int64_t i = 0; i < inner; ++i) {
        const int order =
            compared(tensor, (o * extent + a) * inner + i, (o * extent + b) * inner + i);
        if (order != 0) return order;
      }
    }
    return 0;
  }

  Extents sorted(bool descending) const {
    Extents order(static_cast<std::size_t>(extent));
    std::iota(order.begin(), order.end(), 0);
    sort_stably(order, [&](std::int64_t a, std::int64_t b) {
      return descending ? compare(b, a) : compare(a, b);
    });
    return order;
  }

  // The slices at `positions`, in a tensor of `dims`.
  Tensor taken(const Extents& positions, Extents dims) const {
    Tensor result(tensor.dtype(), std::move(dims));
    const auto bytes = static_cast<std::size_t>(inner) * size_of(tensor.dtype());
    std::byte* to = result.mutable_bytes().data();
    for (std::int64_t o = 0; o < outer; ++o) {
      for (const std::int64_t position : positions) {
        if (bytes > 0)
          std::memcpy(
              to, tensor.bytes().data() + static_cast<std::size_t>(o * extent + position) * bytes,
              bytes);
        to += bytes;
      }
    }
    return result;
  }
};

}  // namespace

Results evaluate_compact(const OpCall& call) {
  const Tensor& mask = call.operand(0);
  Extents positions = set_positions(mask);
  const auto count = static_cast<std::int64_t>(positions.size());
  positions.resize(static_cast<std::size_t>(mask.elements()), 0);
  return std::vector{vector_of(positions), Tensor::of<std::int64_t>(DType::I64, {}, {count})};
}

Results evaluate_nonzero(const OpCall& call) {
  const Tensor& source = call.operand(0);
  const Extents positions = set_positions(source);
  const auto count = static_cast<std::int64_t>(positions.size());
  Tensor result(DType::I64, {static_cast<std::int64_t>(source.rank()), count});
  const Extents strides = strides_of(source.dims());
  for (std::size_t axis = 0; axis < source.rank(); ++axis) {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t index =
          positions[static_cast<std::size_t>(i)] / strides[axis] % source.dims()[axis];
      result.set_integer(static_cast<std::int64_t>(axis) * count + i, index);
    }
  }
  return result;
}

Results evaluate_compress(const OpCall& call) {
  const Tensor& source = call.operand(0);
  const Extents positions = set_positions(call.operand(1));
  const auto count = static_cast<std::int64_t>(positions.size());
  const bool whole = !has_attribute(call.binding, "axis");
  const std::size_t axis =
      whole ? 0 : call.axis(integer_attribute(call.binding, "axis"), source.rank());
  const Slices slices = whole ? Slices(source) : Slices(source, axis);
  if (call.operand(1).elements() > slices.extent) {
    call.fail("dimension 0 of operand 1, the condition,: expected at most {}, got {}",
              slices.extent, call.operand(1).elements());
  }
  Extents dims = whole ? Extents{count} : source.dims();
  dims[axis] = count;
  return slices.taken(positions, std::move(dims));
}

Results evaluate_unique(const OpCall& call) {
  const Tensor& source = call.operand(0);
  const bool whole = !has_attribute(call.binding, "axis");
  const std::size_t axis =
      whole ? 0 : call.axis(integer_attribute(call.binding, "axis"), source.rank());
  const Slices slices = whole ? Slices(source) : Slices(source, axis);
  const Extents order = slices.sorted(false);
  // Groups of equal slices: their first positions, and the group of each position.
  Extents first, group(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || slices.compare(order[i - 1], order[i]) != 0) first.push_back(order[i]);
    group[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(first.size()) - 1;
  }
  Extents place(first.size());
  std::iota(place.begin(), place.end(), 0);
  if (integer_attribute(call.binding, "sorted") == 0) {
    Extents by_position = place;
    std::ranges::sort(by_position, {},
                      [&](std::int64_t of) { return first[static_cast<std::size_t>(of)]; });
    for (std::size_t i = 0; i < place.size(); ++i)
      place[static_cast<std::size_t>(by_position[i])] = static_cast<std::int64_t>(i);
    std::ranges::sort(first);
  }
  Extents counts(first.size(), 0);
  for (std::int64_t& of : group) {
    of = place[static_cast<std::size_t>(of)];
    ++counts[static_cast<std::size_t>(of)];
  }
  Extents dims = whole ? Extents{0} : source.dims();
  dims[axis] = static_cast<std::int64_t>(first.size());
  return std::vector{slices.taken(first, std::move(dims)), vector_of(first), vector_of(group),
                     vector_of(counts)};
}

Results evaluate_argsort(const OpCall& call) {
  const Tensor& source = call.operand(0);
  const std::size_t axis = call.axis(integer_attribute(call.binding, "axis"), source.rank());
  const bool descending = integer_attribute(call.binding, "descending") != 0;
  Extents dims = source.dims();
  if (call.has(1)) {
    const std::int64_t count = call.operand(1).integer_at(0);
    if (count < 0 || count > dims[axis])
      call.fail("count: expected from 0 to {}, got {}", dims[axis], count);
    dims[axis] = count;
  }
  const std::int64_t count = dims[axis];
  if (integer_attribute(call.binding, "slices") != 0) {
    Extents order = Slices(source, axis).sorted(descending);
    order.resize(static_cast<std::size_t>(count));
    return vector_of(order);
  }
  Tensor result(DType::I64, dims);
  const Slices all(source, axis);
  for (std::int64_t o = 0; o < all.outer; ++o) {
    for (std::int64_t i = 0; i < all.inner; ++i) {
      const auto at = [&](std::int64_t item) { return (o * all.extent + item) * all.inner + i; };
      Extents order(static_cast<std::size_t>(all.extent));
      std::iota(order.begin(), order.end(), 0);
      sort_stably(order, [&](std::int64_t a, std::int64_t b) {
        return descending ? compared(source, at(b), at(a)) : compared(source, at(a), at(b));
      });
      for (std::int64_t rank = 0; rank < count; ++rank)
        result.set_integer((o * count + rank) * all.inner + i,
                           order[static_cast<std::size_t>(rank)]);
    }
  }
  return result;
}

namespace {

struct Box {
  double low[2], high[2];
  double area() const { return (high[0] - low[0]) * (high[1] - low[1]); }
};

// Rounded as the elements' type rounds each step, so that a threshold decides as it does in
// kernels.
class Overlap {
 public:
  explicit Overlap(DType dtype) : single_(dtype != DType::F64) {}

  double round(double value) const { return single_ ? static_cast<float>(value) : value; }

  Box box(const Tensor& boxes, std::int64_t at, bool centred) const {
    Box box{};
    for (int i = 0; i < 2; ++i) {
      const double first = boxes.real_at(at + i), second = boxes.real_at(at + 2 + i);
      const double half = round(second / 2);
      const double a = centred ? round(first - half) : first,
                   b = centred ? round(first + half) : second;
      box.low[i] = std::min(a, b);
      box.high[i] = std::max(a, b);
    }
    return box;
  }

  double area(const Box& box) const {
    return round(round(box.high[0] - box.low[0]) * round(box.high[1] - box.low[1]));
  }

  double of(const Box& a, const Box& b) const {
    double sides[2];
    for (int i = 0; i < 2; ++i)
      sides[i] =
          std::max(round(std::min(a.high[i], b.high[i]) - std::max(a.low[i], b.low[i])), 0.0);
    const double common = round(sides[0] * sides[1]);
    const double all = round(round(area(a) + area(b)) - common);
    return all > 0 ? round(common / all) : 0;
  }

 private:
  bool single_;
};

}  // namespace

Results evaluate_non_max_suppression(const OpCall& call) {
  const Tensor& boxes = call.operand(0);
  const Tensor& scores = call.operand(1);
  const std::int64_t batches = scores.dims()[0], classes = scores.dims()[1],
                     count = scores.dims()[2];
  const std::int64_t most = call.operand(2).integer_at(0);
  const double threshold = call.operand(3).real_at(0);
  const bool centred = integer_attribute(call.binding, "center_point_box") != 0;
  const Overlap overlap(boxes.dtype());
  Extents chosen;
  for (std::int64_t batch = 0; batch < batches; ++batch) {
    for (std::int64_t of_class = 0; of_class < classes; ++of_class) {
      const std::int64_t line = (batch * classes + of_class) * count;
      Extents order(static_cast<std::size_t>(count));
      std::iota(order.begin(), order.end(), 0);
      sort_stably(order, [&](std::int64_t a, std::int64_t b) {
        return compared(scores, line + b, line + a);
      });
      std::vector<Box> kept;
      for (const std::int64_t candidate : order) {
        if (static_cast<std::int64_t>(kept.size()) >= most) break;
        if (call.has(4) && !(scores.real_at(line + candidate) > call.operand(4).real_at(0)))
          continue;
        const Box box = overlap.box(boxes, (batch * count + candidate) * 4, centred);
        if (std::ranges::any_of(
                kept, [&](const Box& other) { return overlap.of(other, box) > threshold; }))
          continue;
        kept.push_back(box);
        chosen.insert(chosen.end(), {batch, of_class, candidate});
      }
    }
  }
  return Tensor::of(DType::I64, {static_cast<std::int64_t>(chosen.size()) / 3, 3}, chosen);
}

}  // namespace anydim::ir
