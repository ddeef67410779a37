#include <algorithm>
#include <numeric>

#include "ir/reference/evaluate_ops.h"

namespace anydim::ir {
namespace {

struct Range {
  std::int64_t first = 0;
  std::int64_t length = 0;
};

// ONNX Slice's range of indices over an extent: Python's x[start:end:step], but a start that counts
// from the end beyond the first element means the first in both directions. 128 bits, because
// starts and ends go up to the ends of int64.
Range slice_range(__int128 start, __int128 end, __int128 step, __int128 extent) {
  const __int128 low = step > 0 ? 0 : -1;
  const __int128 high = step > 0 ? extent : extent - 1;
  const __int128 first =
      std::clamp(start < 0 ? std::max<__int128>(start + extent, 0) : start, low, high);
  const __int128 last = std::clamp(end < 0 ? end + extent : end, low, high);
  const __int128 distance = step > 0 ? last - first : first - last;
  const __int128 stride = step > 0 ? step : -step;
  const __int128 length = distance <= 0 ? 0 : (distance + stride - 1) / stride;
  return {static_cast<std::int64_t>(first), static_cast<std::int64_t>(length)};
}

Tensor part_of(const Tensor& source, std::size_t axis, std::int64_t first, std::int64_t length) {
  Extents dims = source.dims();
  const Extents strides = strides_of(dims);
  dims[axis] = length;
  return strided_copy(source, dims, strides, first * strides[axis]);
}

}  // namespace

Results evaluate_slice(const OpCall& call) {
  const Tensor& source = call.operand(0);
  const Extents starts = call.integers("starts", 1);
  const Extents ends = call.integers("ends", 2);
  Extents axes(starts.size());
  std::iota(axes.begin(), axes.end(), 0);
  if (call.has_integers("axes", 3)) axes = call.integers("axes", 3);
  Extents steps(starts.size(), 1);
  if (call.has_integers("steps", 4)) steps = call.integers("steps", 4);
  if (ends.size() != starts.size() || axes.size() != starts.size() ||
      steps.size() != starts.size()) {
    call.fail("{} starts, {} ends, {} axes and {} steps: expected as many of each", starts.size(),
              ends.size(), axes.size(), steps.size());
  }
  const std::vector<std::size_t> sliced = call.axes(axes, source.rank());
  Extents dims = source.dims();
  Extents strides = strides_of(dims);
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    if (steps[i] == 0) call.fail("step {} is 0", i);
    const std::size_t axis = sliced[i];
    const Range range = slice_range(starts[i], ends[i], steps[i], source.dims()[axis]);
    dims[axis] = range.length;
    if (range.length > 0) offset += range.first * strides[axis];
    // A single element needs no stride, which might overflow.
    strides[axis] = range.length > 1 ? strides[axis] * steps[i] : 0;
  }
  return strided_copy(source, dims, strides, offset);
}

Results evaluate_windows(const OpCall& call) {
  const Tensor& source = call.operand(0);
  const std::vector<std::size_t> axes =
      call.axes(integers_attribute(call.binding, "axes"), source.rank());
  const Extents sizes = call.integers("sizes", 1);
  const Extents strides = integers_or_ones(call.binding, "strides", axes.size());
  const Extents dilations = integers_or_ones(call.binding, "dilations", axes.size());
  if (sizes.size() != axes.size() || strides.size() != axes.size() ||
      dilations.size() != axes.size()) {
    call.fail("{} sizes, {} strides and {} dilations for {} axes", sizes.size(), strides.size(),
              dilations.size(), axes.size());
  }
  Extents dims = source.dims(), steps = strides_of(dims), inner_steps;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (strides[i] < 1 || dilations[i] < 1)
      call.fail("stride {} and dilation {} of axis {}", strides[i], dilations[i], axes[i]);
    std::int64_t& extent = dims[axes[i]];
    if (sizes[i] < 1) call.fail("size {} of a window is {}; expected at least 1", i, sizes[i]);
    const __int128 left =
        static_cast<__int128>(extent) - static_cast<__int128>(dilations[i]) * (sizes[i] - 1) - 1;
    if (left < 0)
      call.fail("a window of {} with dilation {} does not fit into dimension {} of {}", sizes[i],
                dilations[i], axes[i], extent);
    extent = static_cast<std::int64_t>(left / strides[i]) + 1;
    // A single place needs no step, which might overflow.
    std::int64_t& step = steps[axes[i]];
    inner_steps.push_back(sizes[i] > 1 ? step * dilations[i] : 0);
    step = extent > 1 ? step * strides[i] : 0;
  }
  dims.insert(dims.end(), sizes.begin(), sizes.end());
  steps.insert(steps.end(), inner_steps.begin(), inner_steps.end());
  return strided_copy(source, dims, steps);
}

Results evaluate_split(const OpCall& call) {
  const Tensor& source = call.operand(0);
  const std::size_t axis = call.axis(integer_attribute(call.binding, "axis"), source.rank());
  const std::int64_t extent = source.dims()[axis];
  const auto count = static_cast<std::int64_t>(call.binding.results.size());
  Extents sizes = call.integers("sizes", 1);
  if (!call.has_integers("sizes", 1)) {
    const std::int64_t part = count == 0 ? 0 : (extent + count - 1) / count;
    sizes.assign(static_cast<std::size_t>(count), part);
    if (!sizes.empty()) sizes.back() = extent - part * (count - 1);
  }
  if (static_cast<std::int64_t>(sizes.size()) != count)
    call.fail("{} sizes for {} results", sizes.size(), count);
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 0 || sizes[i] > extent - sum)
      call.fail("part {} of size {} doesn't fit what is left of {}", i, sizes[i], extent);
    sum += sizes[i];
  }
  if (sum != extent) call.fail("dimension {} of operand 0: expected {}, got {}", axis, sum, extent);
  std::vector<Tensor> parts;
  std::int64_t first = 0;
  for (const std::int64_t size : sizes) {
    parts.push_back(part_of(source, axis, first, size));
    first += size;
  }
  return parts;
}

}  // namespace anydim::ir
