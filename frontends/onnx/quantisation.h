// What the operators of linear quantisation share: real = (integer - zero point) * scale.
#pragma once

#include <cstdint>

#include "frontends/onnx/node.h"

namespace anydim::frontends {

// Where the scales and zero points of a tensor stand.
struct Granularity {
  std::int64_t axis = 1;
  std::int64_t block = 0;  // elements along the axis that share one; 0: they are for the whole
                           // tensor or for channels
};
// A scale or zero point a channel or block, in dims that broadcast to x's; one for the whole tensor
// stays as it is.
Value along_axis(Node& node, Value parameter, Value x, const Granularity& granularity);
// round(x / scale) + zero point, at the ends of the integer type where it lies beyond them. Halves
// go to even. Of a float type x / scale as Cast makes it of `saturate`.
Value quantised(Node& node, Value x, Value scale, Value zero_point, const ElementType& to,
                bool saturate);
Value quantised(Node& node, Value x, Value scale, Value zero_point, ir::DType to);
// Malformed where the operand is not of i8 or u8.
void check_8_bits(const Node& node, std::size_t operand);
// x - zero point (no_value: 0), in i32.
Value centred(Value x, Value zero_point);

// (a - its zero point) (b - its zero point) in i32; zero points may be none. One of a's may stand
// for a row, one of b's for a column.
Value integer_product(Value a, Value a_zero, Value b, Value b_zero);

struct Quantised {
  Value y, scale, zero_point;
};
// A tensor of f32 to u8 over the range of its elements and 0.
Quantised quantised_over_range(Node& node, Value x);
// x, quantised over its range, times the weights b, real: the integer product times both scales.
// One of b's scales and zero points may stand for a column.
Value quantised_product(Node& node, Value x, Value b, Value scale, Value zero_point);

// The numbers of 2, 4 or 8 bits in the bytes of a tensor's last dim, lowest bits first, as a last
// dim that is 4, 2 or 1 times as long; u8.
Value unpacked(Node& node, Value bytes, std::int64_t bits);

}  // namespace anydim::frontends
