// A model that packs and takes ragged input, for tests.
#pragma once

namespace anydim {

// An encoder of one layer that gives its rows, their mean and the first; positions are stored for 6
// tokens.
inline constexpr const char* encoder = R"(
fn @main(%tokens: Tensor[(b, s), i64], %padding: Tensor[(b, s), bool]) where b in [0, 4], s in [0, 6] {
  %table = constant(f32 (50, 16) @random(1))
  %places = constant(f32 (6, 16) @random(2))
  %wq = constant(f32 (16, 16) @random(3))
  %wk = constant(f32 (16, 16) @random(4))
  %gain = constant(f32 (16) @random(5))
  %e = gather(%table, %tokens) {axis = 0}
  %begin = constant(i64 () [0])
  %step = constant(i64 () [1])
  %length = dim(s)
  %range = dyn.arange(%begin, %length, %step)
  %p = gather(%places, %range) {axis = 0}
  %x = add(%e, %p)
  %n = layer_norm(%x, %gain) {axis = -1}
  %q0 = matmul(%n, %wq)
  %k0 = matmul(%n, %wk)
  %heads = shape(b, s, 2, 8)
  %q1 = dyn.reshape(%q0, %heads)
  %k1 = dyn.reshape(%k0, %heads)
  %q = transpose(%q1) {perm = (0, 2, 1, 3)}
  %k = transpose(%k1) {perm = (0, 2, 1, 3)}
  %m4 = expand_dims(%padding) {axes = (1, 2)}
  %zero = constant(f32 () [0])
  %low = constant(f32 () [-inf])
  %bias = where(%m4, %low, %zero)
  %a = attention(%q, %k, %k, %bias) {scale = 0.35}
  %t = transpose(%a) {perm = (0, 2, 1, 3)}
  %flat = shape(b, s, 16)
  %r = dyn.reshape(%t, %flat)
  %rows = add(%r, %x)
  %shown = not(%padding)
  %w1 = cast(%shown) {to = f32}
  %w = expand_dims(%w1) {axes = (-1)}
  %kept = mul(%rows, %w)
  %total = reduce_sum(%kept) {axes = (1)}
  %count1 = reduce_sum(%w1) {axes = (1)}
  %count = expand_dims(%count1) {axes = (-1)}
  %mean = div(%total, %count)
  %index = constant(i64 () [0])
  %first = gather(%rows, %index) {axis = 1}
  return %rows, %mean, %first
}
)";

}  // namespace anydim
