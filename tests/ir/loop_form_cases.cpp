#include "tests/ir/loop_form_cases.h"

#include <map>

#include "tests/support/region_cases.h"

namespace anydim::tests {
namespace {

const std::map<std::string, std::string>& further_cases() {
  static const std::map<std::string, std::string> cases{
      {"AttentionWithAMaskAndASoftcap", R"(
fn @main(%q: Tensor[(b, 2, n, 16), f32], %k: Tensor[(b, 2, m, 16), f32], %v: Tensor[(b, 2, m, 16), f32], %mask: Tensor[(b, 1, 1, m), bool]) -> Tensor[(b, 2, n, 16), f32] {
  %y = attention(%q, %k, %v, %mask) {scale = 0.08838834764831845, softcap = 30, fill = -inf}
  return %y
})"},
      {"AttentionWithoutNanAmongItsWeights", R"(
fn @main(%q: Tensor[(2, n, 16), f32], %k: Tensor[(2, m, 16), f32]) -> Tensor[(2, n, 16), f32] {
  %y = attention(%q, %k, %k) {zero_nan = 1}
  return %y
})"},
      {"MatmulOfBytesByBlocks", R"(
fn @main(%x: Tensor[(n, 64), f32], %w: Tensor[(64, 8), f32]) -> Tensor[(n, 8), f32] {
  %y = matmul(%x, %w) {left_block = 32}
  return %y
})"},
      {"ProductWithGates", R"(
fn @main(%x: Tensor[(b, n, 8), f32], %w: Tensor[(12, 8), f32], %c: Tensor[(b, n, 4), f32]) -> (Tensor[(b, n, 4), f32], Tensor[(b, n, 4), f32]) {
  %t = transpose(%w) {perm = (1, 0)}
  %p = matmul(%x, %t)
  %i, %o, %f = split(%p) {axis = -1, sizes = (4, 4, 4)}
  %kept = mul(%f, %c)
  %next = add(%kept, %i)
  %shown = mul(%o, %next)
  return %shown, %next
})"},
      {"ProductWithGatesOfOneColumn", R"(
fn @main(%x: Tensor[(b, n, k), f32], %y: Tensor[(b, k, 2), f32]) -> Tensor[(b, 1, n), f32] {
  %p = matmul(%x, %y)
  %g = strided_slice(%p) {axes = (2), starts = (0), ends = (1)}
  %u = strided_slice(%p) {axes = (2), starts = (1), ends = (2)}
  %m = mul(%g, %u)
  %z = transpose(%m) {perm = (0, 2, 1)}
  return %z
})"},
      {"Overwrite", R"(
fn @main(%x: Tensor[(n, m + s + r), f32], %u: Tensor[(n, s), f32], %l: Tensor[(m), f32], %r: Tensor[(r), f32]) -> Tensor[(n, m + s + r), f32] {
  %y = overwrite(%x, %u, dim(m)) {axis = 1}
  return %y
})"},
      {"AttentionOverSegmentsInAnOrder", R"(
fn @main(%q: Tensor[(2, t, 4), f32], %offsets: Tensor[(n + 1), i64], %work: Tensor[(n, 2), i64]) -> Tensor[(t, 2, 4), f32]
  where t in [0, 5000], n in [1, 64] multiple 1 {
  %y = attention(%q, %q, %q, none, %offsets, %work) {scale = 0.5} from "Attention 1"
  %z = transpose(%y) {perm = (1, 0, 2)}
  return %z
})"},
      {"StepsWithFlags", R"(
fn @main(%x: Tensor[(n), f32], %i: Tensor[(n), i64]) -> (Tensor[(n), bool], Tensor[(n), bool], Tensor[(n), i64], Tensor[(n), i64]) {
  %a = is_inf(%x) {negative = 0}
  %b = is_inf(%x)
  %c = mod(%i, %i) {truncate = 1}
  %d = mod(%i, %i)
  return %a, %b, %c, %d
})"},
      {"Constants", R"(
fn @main(%x: Tensor[(n), f32], %i: Tensor[(n), u8], %d: Tensor[(n), f64]) -> (Tensor[(n), f32], Tensor[(n), u8], Tensor[(n), f64]) {
  %inf = constant(f32 () [-inf])
  %a = max(%x, %inf)
  %third = constant(f32 () [0.33333334])
  %b = mul(%a, %third)
  %byte = constant(u8 () [255])
  %c = max(%i, %byte)
  %tiny = constant(f64 () [5e-324])
  %e = add(%d, %tiny)
  return %b, %c, %e
})"},
      {"SymbolsWithRanges", R"(
fn @main(%x: Tensor[("past length", n), f32]) -> Tensor[(n, "past length"), f32]
  where "past length" in [8, 64] multiple 8 because "the \"past\"", n in [2, 70] {
  %y = transpose(%x) {perm = (1, 0)}
  return %y
})"},
      {"OneElement", R"(
fn @main(%x: Tensor[(), f32]) -> Tensor[(), f32] {
  %y = relu(%x)
  return %y
})"},
      {"BroadcastOfUnknownExtents", R"(
fn @main(%x: Tensor[(a, n), f32], %y: Tensor[(b, n), f32], %z: Tensor[(c, 1), f32]) {
  %s = add(%x, %y)
  %t = add(%s, %z)
  return %t
})"},
      {"NormsBehindAProduct", R"(
fn @main(%x: Tensor[(b, n, 64), f32], %w: Tensor[(64, 32), f32], %g: Tensor[(32), f32], %r: Tensor[(b, n, 32), f32]) -> Tensor[(b, n, 32), f32] {
  %p = matmul(%x, %w)
  %s = add(%p, %r)
  %y = layer_norm(%s, %g, %g) {epsilon = 1e-12}
  return %y
})"},
      {"ChecksOfOneDivisor", R"(
fn @main(%x: Tensor[(n, 4), i64], %d: Tensor[(4), i64]) -> Tensor[(n + 3, 6), i64] {
  %q = div(%x, %d) from "Div \"1\""
  %p = pad(%q) {before = (1, 0), after = (2, 2)}
  %z = neg(%p)
  return %z
})"},
      {"TwoRowsOfIndices", R"(
fn @main(%x: Tensor[(n, m, 8), f32], %i: Tensor[(k, 2), i64]) -> Tensor[(k, 8), f32] {
  %g = gather_nd(%x, %i) {batch_dims = 0}
  return %g
})"},
      {"Resize", R"(
fn @main(%x: Tensor[(2, 3, 5, 7), f32], %c: Tensor[(4), f32]) -> Tensor[(2, 3, 9, 10), f32] {
  %y = resize(%x, %c) {sizes = (2, 3, 9, 10), mode = "linear", coordinates = "half_pixel"}
  return %y
})"},
  };
  return cases;
}

}  // namespace

std::vector<std::string> loop_form_case_names() {
  std::vector<std::string> names = region_case_names();
  for (const auto& [name, text] : further_cases()) names.push_back(name);
  return names;
}

std::string loop_form_case(const std::string& name) {
  const auto further = further_cases().find(name);
  return further != further_cases().end() ? further->second : region_case(name).text;
}

}  // namespace anydim::tests
