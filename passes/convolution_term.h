// Convolutions with constant weights, as operands of sums: what a value is of an image.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/module.h"
#include "passes/pattern.h"

namespace anydim::passes {

// A constant of f32 as it is stored, through reshapes; null: none.
const ir::Tensor* stored_constant(const PatternGraph& graph, ir::ValueId value);
// For each of `channels`, the number of a constant that has one for all places of a channel, where
// it is broadcast to a value of `rank` dims whose axis 1 they are.
std::optional<std::vector<double>> number_by_channel(const PatternGraph& graph, ir::ValueId value,
                                                     std::size_t rank, std::int64_t channels);

// A value of dims [N, outputs, places...], f32: of every output channel, a sum over the channels of
// its group and the places of a window over an image [N, channels, places...] that has zeros all
// around, times `scale`, plus `shift`.
struct ConvolutionTerm {
  ir::ValueId image = ir::no_value;
  std::int64_t channels = 0, outputs = 0, groups = 1;
  // Per axis of the places: extents of the window, steps between windows and between a window's
  // places, and how far the first one begins before the image.
  std::vector<std::int64_t> sizes, strides, dilations, before;
  std::optional<ir::Tensor> weight{};  // outputs * (channels / groups) * sizes... elements, in this
                                       // order; none: the image itself, each channel its own group
  std::vector<double> scale{}, shift{};  // by output channel
  // From the op that reads the weight, operand `weight_operand`, to the value before scale and
  // shift; empty for the image itself.
  std::vector<const ir::Binding*> steps{};
  std::size_t weight_operand = 0;

  std::int64_t places() const;  // of a window
};

// The term that is the value before scale and shift: a product of windows with channels outermost
// (Op::matmul with the weight on the left, or for each channel Op::mul and a sum), or the image
// itself. nullopt: the value has no such dims, or none that are known.
std::optional<ConvolutionTerm> convolution_term(const PatternGraph& graph, ir::ValueId value);

}  // namespace anydim::passes
