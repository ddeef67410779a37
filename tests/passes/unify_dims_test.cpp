// Modules in, modules out: dims of inputs that have to agree become one.
#include "passes/unify_dims.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "ir/shapes/infer.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "ir/verify.h"

namespace anydim::passes {
namespace {

using Equal = std::map<std::string, std::string>;

Equal equal(const std::optional<UnifiedModule>& unified) {
  Equal found;
  if (!unified) return found;
  for (const EqualDim& one : unified->equal) found.emplace(one.symbol, one.dim.to_string());
  return found;
}

Equal equal_dims(const std::string& text) { return equal(unify_dims(ir::parse(text))); }

TEST(UnifyDims, AnInputsOwnNamesBecomeThoseOfTheFirst) {
  const auto unified = unify_dims(ir::parse(R"(
fn @main(%ids: Tensor[(batch, sequence), f32], %mask: Tensor[(n, m), f32], %types: Tensor[(k, l), f32])
  where batch in [0, 64], sequence in [0, 512], n in [0, 100], m in [1, 1024] multiple 2, k in [0, 100], l in [0, 100] {
  %x = add(%ids, %types)
  %y = mul(%mask, %x)
  return %y
}
)"));
  EXPECT_EQ(equal(unified),
            (Equal{{"n", "batch"}, {"m", "sequence"}, {"k", "batch"}, {"l", "sequence"}}));
  ir::Module module = unified.value().module;
  ir::infer_types(module);
  ir::verify(module);
  EXPECT_EQ(
      ir::print(module),
      R"(fn @main(%ids: Tensor[(batch, sequence), f32], %mask: Tensor[(batch, sequence), f32], %types: Tensor[(batch, sequence), f32]) -> Tensor[(batch, sequence), f32]
  where batch in [0, 64], sequence in [1, 100] multiple 2 {
  %x: Tensor[(batch, sequence), f32] = add(%ids, %types)
  %y: Tensor[(batch, sequence), f32] = mul(%mask, %x)
  return %y
}
)");
}

TEST(UnifyDims, ASymbolMayBeWhatOthersComeTo) {
  EXPECT_EQ(equal_dims(R"(
fn @main(%past: Tensor[(b, p), f32], %x: Tensor[(b, s), f32], %mask: Tensor[(n, total), f32]) {
  %all = concat(%past, %x) {axis = 1}
  %y = add(%all, %mask)
  return %y
}
)"),
            (Equal{{"n", "b"}, {"total", "p + s"}}));
}

// The first product says what the second one's sizes are.
TEST(UnifyDims, WhatIsFoundTellsMore) {
  EXPECT_EQ(equal_dims(R"(
fn @main(%a: Tensor[(n, k), f32], %b: Tensor[(l, m), f32], %c: Tensor[(q, r), f32], %d: Tensor[(2*t), f32]) {
  %p = matmul(%a, %b)
  %s = add(%p, %c)
  %u = reduce_sum(%s) {axes = (0)}
  %v = add(%u, %d)
  return %v
}
)"),
            (Equal{{"l", "k"}, {"q", "n"}, {"r", "2*t"}, {"m", "2*t"}}));
}

// Each layer's cache with a length of its own, and a mask that is cut to what there is.
TEST(UnifyDims, SumsAndCutsTellOfTheirParts) {
  EXPECT_EQ(equal_dims(R"(
fn @main(%x: Tensor[(b, s, 4), f32], %keys: Tensor[(b, p, 4), f32], %values: Tensor[(b, q, 4), f32], %mask: Tensor[(b, total), f32]) {
  %k = concat(%keys, %x) {axis = 1}
  %v = concat(%values, %x) {axis = 1}
  %kt = transpose(%k) {perm = (0, 2, 1)}
  %scores = matmul(%x, %kt)
  %none = shape(0)
  %all = shape(p + s)
  %axis = shape(1)
  %cut = dyn.strided_slice(%mask, %none, %all, %axis)
  %rows = expand_dims(%cut) {axes = (1)}
  %masked = add(%scores, %rows)
  %w = softmax(%masked) {axis = -1}
  %y = matmul(%w, %v)
  return %y
}
)"),
            (Equal{{"q", "p"}, {"total", "p + s"}}));
}

TEST(UnifyDims, SizesThatCannotBeEqualStayApart) {
  EXPECT_EQ(equal_dims(R"(
fn @main(%a: Tensor[(n), f32], %b: Tensor[(m), f32], %c: Tensor[(k), f32], %d: Tensor[(n + 1), f32], %e: Tensor[(l), f32])
  where n in [4, 100], m in [0, 1], k in [0, 50] {
  %x = add(%a, %b)
  %y = add(%d, %c)
  return %x, %y, %e
}
)"),
            Equal{});
}

// A number is no other size, and what holds in a branch may not hold in a call.
TEST(UnifyDims, OnlyWhatAlwaysRunsTells) {
  EXPECT_EQ(equal_dims(R"(
fn @main(%q: Tensor[(), bool], %a: Tensor[(n), f32], %b: Tensor[(m), f32], %c: Tensor[(1), f32]) {
  %y = if(%q) then {
    %s = add(%a, %b)
    yield %s
  } else {
    yield %a
  }
  %z = add(%a, %c)
  return %y, %z
}
)"),
            Equal{});
}

// One row beside four: as one size, twice it would be 5.
TEST(UnifyDims, AContradictionLeavesTheModuleAsItWas) {
  const std::string text = R"(
fn @main(%a: Tensor[(n), f32], %b: Tensor[(m), f32]) {
  %both = concat(%a, %b) {axis = 0}
  %rows = constant(f32 (5, 3) @random(1))
  %x = matmul(%both, %rows)
  %y = add(%a, %b)
  return %x, %y
}
)";
  const ir::Module module = ir::parse(text);
  EXPECT_FALSE(unify_dims(module).has_value());
  EXPECT_EQ(ir::print(module), ir::print(ir::parse(text)));
}

// Which may keep only results that are right.
TEST(UnifyDims, WhatInferenceRefusesIsLeftToThePipeline) {
  EXPECT_EQ(equal_dims(R"(
fn @main(%a: Tensor[(n, 3), f32], %b: Tensor[(4, m), f32], %c: Tensor[(k), f32], %d: Tensor[(l), f32]) {
  %x = matmul(%a, %b)
  %y = add(%c, %d)
  return %y, %x
}
)"),
            Equal{});
}

}  // namespace
}  // namespace anydim::passes
