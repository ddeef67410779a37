// Resampling as ONNX Resize defines it; the formulas of its coordinate modes are in the operator's
// specification.
#include <algorithm>
#include <cmath>

#include "ir/reference/evaluate_ops.h"

namespace anydim::ir {
namespace {

// One element that is read along an axis, and its share.
struct Tap {
  std::int64_t index = 0;
  double weight = 1;
};

// In f32, as the compiled form computes: a coordinate between two elements must fall to the same
// one.
class AxisSampler {
 public:
  AxisSampler(const Binding& binding, std::int64_t source, std::int64_t result, float scale)
      : mode_(string_attribute(binding, "mode")),
        coordinates_(string_attribute(binding, "coordinates")),
        rounding_(string_attribute(binding, "rounding")),
        cubic_(static_cast<float>(real_attribute(binding, "cubic"))),
        exclude_(integer_attribute(binding, "exclude_outside") != 0), source_(source),
        result_(result), scale_(scale) {}

  std::vector<Tap> taps(std::int64_t at) const {
    const float x = coordinate(static_cast<float>(at));
    if (mode_ == "nearest") return {{clamped(rounded(x)), 1}};
    const float floor = std::floor(x);
    const float t = x - floor;
    const auto first = static_cast<std::int64_t>(floor);
    if (mode_ == "linear") return {{clamped(first), 1 - t}, {clamped(first + 1), t}};
    std::vector<Tap> all;
    float total = 0;
    for (std::int64_t k = -1; k <= 2; ++k) {
      const std::int64_t index = first + k;
      const bool outside = index < 0 || index >= source_;
      const float weight = exclude_ && outside ? 0 : kernel(std::fabs(t - static_cast<float>(k)));
      all.push_back({clamped(index), weight});
      total += weight;
    }
    if (exclude_) {
      for (Tap& tap : all) tap.weight /= total;
    }
    return all;
  }

 private:
  float coordinate(float at) const {
    if (coordinates_ == "asymmetric") return at / scale_;
    if (coordinates_ == "align_corners") {
      return result_ <= 1 ? 0
                          : at * static_cast<float>(source_ - 1) / static_cast<float>(result_ - 1);
    }
    if (coordinates_ == "pytorch_half_pixel" && result_ <= 1) return 0;
    if (coordinates_ == "tf_half_pixel_for_nn") return (at + 0.5F) / scale_;
    return (at + 0.5F) / scale_ - 0.5F;
  }

  std::int64_t rounded(float x) const {
    const auto floor = static_cast<std::int64_t>(std::floor(x));
    const auto ceil = static_cast<std::int64_t>(std::ceil(x));
    if (rounding_ == "floor") return floor;
    if (rounding_ == "ceil") return ceil;
    if (rounding_ == "round_prefer_ceil") return static_cast<std::int64_t>(std::floor(x + 0.5F));
    return static_cast<std::int64_t>(std::ceil(x - 0.5F));
  }

  // Keys' cubic convolution kernel (1981), with the free parameter that the model gives.
  float kernel(float distance) const {
    const float d = distance;
    if (d <= 1) return ((cubic_ + 2) * d - (cubic_ + 3)) * d * d + 1;
    if (d < 2) return ((cubic_ * d - 5 * cubic_) * d + 8 * cubic_) * d - 4 * cubic_;
    return 0;
  }

  std::int64_t clamped(std::int64_t index) const {
    return std::clamp<std::int64_t>(index, 0, source_ - 1);
  }

  std::string mode_, coordinates_, rounding_;
  float cubic_;
  bool exclude_;
  std::int64_t source_, result_;
  float scale_;
};

double interpolate(const Tensor& source, const Extents& strides,
                   std::span<const std::vector<Tap>> taps, std::int64_t offset) {
  const std::size_t axis = strides.size() - taps.size();
  if (taps.empty()) return source.real_at(offset);
  double sum = 0;
  for (const Tap& tap : taps.front())
    sum += tap.weight *
           interpolate(source, strides, taps.subspan(1), offset + tap.index * strides[axis]);
  return sum;
}

}  // namespace

Results evaluate_resize(const OpCall& call) {
  const Tensor& source = call.operand(0);
  const Tensor& scales = call.operand(1);
  const Extents dims = call.integers("sizes", 2);
  const std::size_t rank = source.rank();
  if (dims.size() != rank || scales.elements() != static_cast<std::int64_t>(rank))
    call.fail("one size and scale for each dimension is needed");
  std::vector<bool> sampled(rank, !has_attribute(call.binding, "axes"));
  if (has_attribute(call.binding, "axes")) {
    for (const std::size_t axis : call.axes(integers_attribute(call.binding, "axes"), rank))
      sampled[axis] = true;
  }
  std::vector<AxisSampler> samplers;
  for (std::size_t i = 0; i < rank; ++i) {
    if (dims[i] < 0 || (dims[i] > 0 && source.dims()[i] == 0))
      call.fail("an empty dimension cannot grow, and no size is negative");
    if (!sampled[i] && dims[i] != source.dims()[i]) call.fail("only sampled dimensions may change");
    samplers.emplace_back(call.binding, source.dims()[i], dims[i],
                          static_cast<float>(scales.real_at(static_cast<std::int64_t>(i))));
  }
  Tensor result(source.dtype(), dims);
  const Extents strides = strides_of(source.dims());
  const bool nearest = string_attribute(call.binding, "mode") == "nearest";
  std::int64_t next = 0;
  for_each_index(dims, [&](const Extents& index) {
    std::vector<std::vector<Tap>> taps;
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < index.size(); ++i) {
      taps.push_back(sampled[i] ? samplers[i].taps(index[i]) : std::vector<Tap>{{index[i], 1}});
      offset += taps.back()[0].index * strides[i];
    }
    if (!nearest) result.set_real(next, interpolate(source, strides, taps, 0));
    else if (is_float(source.dtype())) result.set_real(next, source.real_at(offset));
    else result.set_integer(next, source.integer_at(offset));
    ++next;
  });
  return result;
}

}  // namespace anydim::ir
