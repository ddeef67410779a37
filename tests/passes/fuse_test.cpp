// Fusion and loop forms: which kernels there are, and what they compute.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "frontends/onnx.h"
#include "ir/error.h"
#include "ir/reference/evaluate.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "tests/passes/fused_kinds.h"
#include "tests/support/loop_form_interpreter.h"
#include "tests/support/pass_fixture.h"
#include "tests/support/table_backend.h"

namespace anydim::tests {
namespace {

using namespace ir;

// The text of a constant of bytes, all of which are 7 but the last.
std::string bytes_of_sevens(std::string_view dtype, std::int64_t rows, std::int64_t columns,
                            int last) {
  std::string elements;
  for (std::int64_t i = 1; i < rows * columns; ++i) elements += "7, ";
  return fmt::format("constant({} ({}, {}) [{}{}])", dtype, rows, columns, elements, last);
}

// Large weights of i8 whose elements all lie from -8 to 7 are marked, and printed and read so.
TEST(Fuse, WeightsThatFit4BitsAreMarked) {
  const auto marked = [](std::int64_t columns, int last) {
    const Module module =
        fused(parse(fmt::format(R"(
fn @main(%x: Tensor[(n, 64), f32]) -> Tensor[(n, {}), f32] {{
  %w = {}
  %r = cast(%w) {{to = f32}}
  %y = matmul(%x, %r)
  return %y
}})",
                                columns, bytes_of_sevens("i8", 64, columns, last))));
    EXPECT_EQ(module.regions.size(), 1u);
    const Region& region = module.regions.at(0);
    EXPECT_EQ(parse(print(module)).regions.at(0).weights_of_4_bits, region.weights_of_4_bits);
    return !region.weights_of_4_bits.empty();
  };
  EXPECT_TRUE(marked(64, -8));
  EXPECT_FALSE(marked(64, -9));
  EXPECT_FALSE(marked(64, 8));
  EXPECT_FALSE(marked(63, 7)) << "few elements";
}

// What lies in 4 bits only before a zero point is taken from it stays so where it is large.
TEST(Fuse, ZeroPointsStayBesideWeightsThatFit4Bits) {
  const auto differences = [](std::string_view dtype, std::int64_t columns, int last, int zero) {
    const Module module = after_passes(fmt::format(R"(
fn @main(%x: Tensor[(n, 64), f32]) {{
  %w = {}
  %z = {}
  %i = cast(%w) {{to = i32}}
  %o = cast(%z) {{to = i32}}
  %c = sub(%i, %o)
  %r = cast(%c) {{to = f32}}
  %y = matmul(%x, %r)
  return %y
}})",
                                                   bytes_of_sevens(dtype, 64, columns, last),
                                                   bytes_of_sevens(dtype, 1, columns, zero)),
                                       {"infer_types", "centre_weights"});
    // Those that are made real, and those of what is made real from fewer bits.
    return std::ranges::count_if(module.functions[0].body.bindings,
                                 [](const Binding& binding) { return binding.op == Op::sub; });
  };
  EXPECT_EQ(differences("u8", 64, 15, 0), 2);
  EXPECT_EQ(differences("u8", 64, 16, 0), 1) << "five bits";
  EXPECT_EQ(differences("u8", 63, 15, 0), 1) << "few elements";
  EXPECT_EQ(differences("u8", 64, 14, 7), 1) << "differences fit as well";
  EXPECT_EQ(differences("i8", 64, -8, 7), 1);
}

TEST(Fuse, ElementwiseChainsAreOneMap) {
  EXPECT_EQ(fused_kinds(R"(
fn @main(%x: Tensor[(n, 3), f32], %y: Tensor[(3), f32]) {
  %a = add(%x, %y)
  %b = relu(%a)
  %c = mul(%b, %x)
  return %c
})",
                        {{{DType::F32, {4, 3}}, {DType::F32, {3}}},
                         {{DType::F32, {0, 3}}, {DType::F32, {3}}}}),
            KernelKinds{"map"});
}
TEST(Fuse, AnUndecidedBroadcastIsDecidedByTheIndex) {
  EXPECT_EQ(fused_kinds(R"(
fn @main(%x: Tensor[(n), f32], %y: Tensor[(m), f32]) {
  %a = add(%x, %y)
  return %a
})",
                        {{{DType::F32, {4}}, {DType::F32, {1}}},
                         {{DType::F32, {1}}, {DType::F32, {5}}},
                         {{DType::F32, {3}}, {DType::F32, {3}}}}),
            KernelKinds{"map"});
}

TEST(Fuse, ConcatHasAPartForEachOperand) {
  EXPECT_EQ(fused_kinds(R"(
fn @main(%x: Tensor[(n, 2), f32], %y: Tensor[(n, m), f32]) {
  %r = relu(%y)
  %c = concat(%x, %r, %x) {axis = 1}
  return %c
})",
                        {{{DType::F32, {3, 2}}, {DType::F32, {3, 4}}},
                         {{DType::F32, {2, 2}}, {DType::F32, {2, 0}}}}),
            KernelKinds{"map"});
}

TEST(Fuse, GatherReadsThroughComputedIndices) {
  EXPECT_EQ(fused_kinds(R"(
fn @main(%table: Tensor[(v, 4), f32], %ids: Tensor[(b, s), i64]) {
  %g = gather(%table, %ids) {axis = 0}
  %h = neg(%g)
  return %h
})",
                        {{{DType::F32, {4, 4}}, {DType::I64, {2, 3}, 4}},
                         {{DType::F32, {9, 4}}, {DType::I64, {1, 0}, 9}}}),
            KernelKinds{"map"});
}

TEST(Fuse, TriangleTileAndRange) {
  EXPECT_EQ(fused_kinds(R"(
fn @main(%x: Tensor[(n, n), f32]) {
  %k = dim(1)
  %t = dyn.trilu(%x, %k) {upper = 0}
  %r = tile(%t) {repeats = (2, 3)}
  return %r
})",
                        {{{DType::F32, {3, 3}}}, {{DType::F32, {1, 1}}}}),
            KernelKinds{"map"});
}

TEST(Fuse, SoftmaxWithWhatSurroundsItIsOneRowKernel) {
  EXPECT_EQ(fused_kinds(R"(
fn @main(%x: Tensor[(b, s), f32], %m: Tensor[(s), f32]) {
  %a = add(%x, %m)
  %s = softmax(%a) {axis = -1}
  %r = mul(%s, %s)
  return %s, %r
})",
                        {{{DType::F32, {3, 5}}, {DType::F32, {5}}},
                         {{DType::F32, {2, 1}}, {DType::F32, {1}}},
                         {{DType::F32, {0, 4}}, {DType::F32, {4}}}}),
            (KernelKinds{"rows", "map"}));
}

TEST(Fuse, ReductionsOfAnyAxes) {
  EXPECT_EQ(fused_kinds(R"(
fn @main(%x: Tensor[(a, b, 3), f32]) {
  %s = reduce_sum(%x) {axes = (0, 2), keepdims = 1}
  %m = reduce_mean(%x) {axes = (1)}
  %h = reduce_max(%x)
  %c = reduce_prod(%x) {axes = (-1)}
  return %s, %m, %h, %c
})",
                        {{{DType::F32, {2, 4, 3}}}, {{DType::F32, {1, 1, 3}}}}),
            (KernelKinds{"rows", "rows", "rows", "rows"}));
}

TEST(Fuse, LayerNormOfASumOfGathers) {
  EXPECT_EQ(fused_kinds(R"(
fn @main(%w: Tensor[(v, 6), f32], %ids: Tensor[(b, s), i64], %x: Tensor[(b, s, 6), f32], %g: Tensor[(6), f32], %h: Tensor[(6), f32]) {
  %e = gather(%w, %ids) {axis = 0}
  %a = add(%e, %x)
  %n = layer_norm(%a, %g, %h) {axis = -1, epsilon = 1e-5}
  %r = tanh(%n)
  return %r
})",
                        {{{DType::F32, {5, 6}},
                          {DType::I64, {2, 3}, 5},
                          {DType::F32, {2, 3, 6}},
                          {DType::F32, {6}},
                          {DType::F32, {6}}}},
                        1e-4),
            KernelKinds{"rows"});
}

TEST(Fuse, MatmulTakesItsEpilogueAndWholeRows) {
  EXPECT_EQ(fused_kinds(R"(
fn @main(%x: Tensor[(b, s, 4), f32], %w: Tensor[(4, 6), f32], %c: Tensor[(6), f32], %r: Tensor[(b, s, 6), f32], %g: Tensor[(6), f32]) {
  %p = matmul(%x, %w)
  %a = add(%p, %c)
  %q = add(%a, %r)
  %n = layer_norm(%q, %g) {axis = -1}
  return %n
})",
                        {{{DType::F32, {2, 3, 4}},
                          {DType::F32, {4, 6}},
                          {DType::F32, {6}},
                          {DType::F32, {2, 3, 6}},
                          {DType::F32, {6}}},
                         {{DType::F32, {1, 1, 4}},
                          {DType::F32, {4, 6}},
                          {DType::F32, {6}},
                          {DType::F32, {1, 1, 6}},
                          {DType::F32, {6}}}},
                        1e-4),
            KernelKinds{"matmul"});
}

// A backend that wants them apart gets the product with its epilogue, and what needs its rows whole
// behind it.
TEST(Fuse, WholeRowsAreAKernelOfTheirOwnWhereTheBackendSaysSo) {
  TableBackend apart;
  apart.joins_rows = false;
  const std::string head = R"(
fn @main(%x: Tensor[(n, 4), f32], %w: Tensor[(4, 6), f32], %c: Tensor[(6), f32]) {
  %p = matmul(%x, %w)
  %a = add(%p, %c)
)";
  for (const char* rest :
       {"  %y = layer_norm(%a, %c) {axis = -1}\n", "  %y = softmax(%a) {axis = -1}\n",
        "  %y = reduce_max(%a) {axes = (1), keepdims = 0}\n"}) {
    SCOPED_TRACE(rest);
    const std::string text = head + rest + "  return %y\n}";
    const std::vector<std::vector<Shape>> calls{
        {{DType::F32, {5, 4}}, {DType::F32, {4, 6}}, {DType::F32, {6}}},
        {{DType::F32, {0, 4}}, {DType::F32, {4, 6}}, {DType::F32, {6}}}};
    EXPECT_EQ(fused_kinds(text, calls), KernelKinds{"matmul"});
    EXPECT_EQ(fused_kinds(text, calls, 1e-5, &apart), (KernelKinds{"matmul", "rows"}));
  }
}

// What lies in memory as f32 anyway is rounded by the attention that reads it, where the backend
// does that; what a kernel computes for it alone is stored as 16 bits.
TEST(Fuse, WhatLiesInMemoryIsRoundedWhereAttentionReadsIt) {
  TableBackend rounding;
  rounding.rounds_keys = true;
  const auto text = [](const std::string& keys) {
    return R"(
fn @main(%past: Tensor[(b, p, 16), f32], %x: Tensor[(b, s, 16), f32]) {
  %keys = concat(%past, %x) {axis = 1}
  %q16 = cast(%x) {to = bf16}
  %q = cast(%q16) {to = f32}
  %made = exp(%past)
  %k16 = cast()" +
           keys + R"() {to = bf16}
  %k = cast(%k16) {to = f32}
  %y = attention(%q, %k, %k)
  return %y, %keys
})";
  };
  const std::vector<std::vector<Shape>> calls{{{DType::F32, {2, 4, 16}}, {DType::F32, {2, 3, 16}}},
                                              {{DType::F32, {1, 1, 16}}, {DType::F32, {1, 1, 16}}}};
  EXPECT_EQ(fused_kinds(text("%past"), calls, 1e-5, &rounding), (KernelKinds{"map", "attention"}));
  EXPECT_EQ(fused_kinds(text("%past"), calls), (KernelKinds{"map", "map", "map", "attention"}));
  EXPECT_EQ(fused_kinds(text("%keys"), calls, 1e-5, &rounding), (KernelKinds{"map", "attention"}));
  EXPECT_EQ(fused_kinds(text("%made"), calls, 1e-5, &rounding),
            (KernelKinds{"map", "map", "attention"}));
}

TEST(Fuse, BatchedAndVectorProducts) {
  EXPECT_EQ(fused_kinds(R"(
fn @main(%x: Tensor[(b, 1, m, k), f32], %y: Tensor[(3, k, n), f32], %v: Tensor[(k), f32]) {
  %p = matmul(%x, %y)
  %q = matmul(%x, %v)
  %d = matmul(%v, %v)
  return %p, %q, %d
})",
                        {{{DType::F32, {2, 1, 2, 3}}, {DType::F32, {3, 3, 4}}, {DType::F32, {3}}},
                         {{DType::F32, {1, 1, 1, 0}}, {DType::F32, {3, 0, 2}}, {DType::F32, {0}}}}),
            (KernelKinds{"matmul", "matmul", "matmul"}));
}

TEST(Fuse, AttentionReadsMergedHeadsInPlace) {
  EXPECT_EQ(fused_kinds(R"(
fn @main(%x: Tensor[(b, s, 18), f32], %mask: Tensor[(b, s), i64]) {
  %shape = shape(b, s, 2, 3)
  %q0 = strided_slice(%x) {starts = (0), ends = (6), axes = (2)}
  %q1 = dyn.reshape(%q0, %shape)
  %q = transpose(%q1) {perm = (0, 2, 1, 3)}
  %k0 = strided_slice(%x) {starts = (6), ends = (12), axes = (2)}
  %k1 = dyn.reshape(%k0, %shape)
  %k = transpose(%k1) {perm = (0, 2, 3, 1)}
  %v0 = strided_slice(%x) {starts = (12), ends = (18), axes = (2)}
  %v1 = dyn.reshape(%v0, %shape)
  %v = transpose(%v1) {perm = (0, 2, 1, 3)}
  %scores = matmul(%q, %k)
  %scale = constant(f32 () [0.5])
  %scaled = mul(%scores, %scale)
  %seen = cast(%mask) {to = bool}
  %wide = expand_dims(%seen) {axes = (1, 2)}
  %zero = constant(f32 () [0])
  %low = constant(f32 () [-3.4028235e38])
  %bias = where(%wide, %zero, %low)
  %masked = add(%scaled, %bias)
  %weights = softmax(%masked) {axis = -1}
  %o = matmul(%weights, %v)
  %t = transpose(%o) {perm = (0, 2, 1, 3)}
  %flat = shape(b, s, 6)
  %r = dyn.reshape(%t, %flat)
  return %r
})",
                        {{{DType::F32, {2, 4, 18}}, {DType::I64, {2, 4}, 2}},
                         {{DType::F32, {1, 1, 18}}, {DType::I64, {1, 1}, 2}},
                         {{DType::F32, {0, 3, 18}}, {DType::I64, {0, 3}, 2}}}),
            KernelKinds{"attention"});
}

TEST(Fuse, ARowsResultAlongTheOtherAxisOfASquareIsNoEpilogue) {
  EXPECT_EQ(fused_kinds(R"(
fn @main(%x: Tensor[(n, n), f32]) {
  %s = reduce_sum(%x) {axes = (1)}
  %a = add(%x, %s)
  return %a
})",
                        {{{DType::F32, {3, 3}}}, {{DType::F32, {1, 1}}}, {{DType::F32, {0, 0}}}}),
            (KernelKinds{"rows", "map"}));
}

TEST(Fuse, AnElementIsWrittenOnceWhateverTheRowsExtent) {
  EXPECT_EQ(fused_kinds(R"(
fn @main(%x: Tensor[(n, 4), f32], %y: Tensor[(4), f32]) {
  %s = reduce_sum(%x) {keepdims = 1}
  %a = add(%s, %y)
  return %a
})",
                        {{{DType::F32, {3, 4}}, {DType::F32, {4}}},
                         {{DType::F32, {0, 4}}, {DType::F32, {4}}}}),
            (KernelKinds{"rows", "map"}));
}

TEST(Fuse, LoopsThatNeverRun) {
  EXPECT_EQ(fused_kinds(R"(
fn @main(%x: Tensor[(n, 4), f32], %y: Tensor[(4), f32]) {
  %none = strided_slice(%x) {starts = (5), ends = (2), axes = (1)}
  %a = softmax(%none) {axis = 0}
  %s = reduce_sum(%none) {keepdims = 1}
  %b = add(%s, %y)
  return %a, %b
})",
                        {{{DType::F32, {3, 4}}, {DType::F32, {4}}},
                         {{DType::F32, {0, 4}}, {DType::F32, {4}}}}),
            (KernelKinds{"rows", "rows", "map"}));
}

TEST(Fuse, ALiteralReadInALoopThatNeverRuns) {
  EXPECT_EQ(fused_kinds(R"(
fn @main(%x: Tensor[(n), f32]) {
  %s = shape()
  %y = strided_slice(%s) {starts = (2), ends = (0), axes = (-1), steps = (-2)}
  return %y
})",
                        {{{DType::F32, {3}}}}),
            KernelKinds{"map"});
}

TEST(Fuse, EveryResultIsARegionsOwn) {
  EXPECT_EQ(fused_kinds(R"(
fn @main(%x: Tensor[(n, 2), f32]) {
  %c = constant(f32 (3) [1, 2, 3])
  %r = relu(%x)
  %s = shape_of(%x)
  return %x, %c, %r, %r, %s
})",
                        {{{DType::F32, {3, 2}}}}),
            (KernelKinds{"map", "map", "map", "map"}));
}

// As an LSTM's cell and what it shows: one kernel, unless something in between reads the first.
TEST(Fuse, AMapThatOthersReadIsASecondResult) {
  EXPECT_EQ(fused_kinds(R"(
fn @main(%x: Tensor[(n, 4), f32], %c: Tensor[(n, 4), f32]) {
  %kept = mul(%x, %c)
  %cell = add(%kept, %x)
  %shown = tanh(%cell)
  %y = mul(%shown, %x)
  return %y, %cell
})",
                        {{{DType::F32, {3, 4}}, {DType::F32, {3, 4}}}}),
            KernelKinds{"map"});
  EXPECT_EQ(fused_kinds(R"(
fn @main(%x: Tensor[(n, 4), f32]) {
  %cell = exp(%x)
  %at = argsort(%cell) {axis = 1}
  %sum = gather_elements(%cell, %at) {axis = 1}
  %shown = tanh(%cell)
  %y = mul(%shown, %sum)
  return %y, %cell
})",
                        {{{DType::F32, {3, 4}}}}),
            (KernelKinds{"map", "sort", "map"}));
  // Through a view.
  EXPECT_EQ(fused_kinds(R"(
fn @main(%x: Tensor[(n, 4), f32]) {
  %cell = exp(%x)
  %rows = transpose(%cell) {perm = (1, 0)}
  %at = argsort(%rows) {axis = 0}
  %sum = gather_elements(%rows, %at) {axis = 0}
  %back = transpose(%rows) {perm = (1, 0)}
  %y = tanh(%back)
  return %y, %cell, %sum
})",
                        {{{DType::F32, {3, 4}}}}),
            (KernelKinds{"map", "sort", "map", "map"}));
  EXPECT_EQ(fused_kinds(R"(
fn @main(%x: Tensor[(n, 4), f32]) {
  %all = exp(%x)
  %half = strided_slice(%all) {axes = (1), ends = (2), starts = (0)}
  %y = tanh(%half)
  return %y, %all
})",
                        {{{DType::F32, {3, 4}}}}),
            (KernelKinds{"map", "map"}));
}

TEST(Fuse, ElementsOfATensorDecideAShape) {
  EXPECT_EQ(fused_kinds(R"(
fn @main(%x: Tensor[(n), f32], %s: Tensor[(2), i64]) {
  %r = dyn.reshape(%x, %s)
  %y = exp(%r)
  return %y
})",
                        {}),
            KernelKinds{"map"});
}

TEST(Fuse, EqualWorkIsOneRegion) {
  Module module = fused(parse(R"(
fn @main(%x: Tensor[(n, 4), f32], %y: Tensor[(n, 4), f32]) {
  %a = relu(%x)
  %b = relu(%y)
  return %a, %b
})"));
  EXPECT_EQ(module.regions.size(), 1u);
}

// Forty subgraphs are alike but for a number: the first have it in their code, the others read it.
TEST(Fuse, SubgraphsAlikeButForScalarsShareAKernel) {
  std::string text = "fn @main(%x: Tensor[(n), f32]) {\n", results;
  for (int i = 0; i < 40; ++i) {
    text += fmt::format("%c{0} = constant(f32 () [{0}.5])\n%y{0} = mul(%x, %c{0})\n", i);
    results += fmt::format("{}%y{}", i == 0 ? "" : ", ", i);
  }
  text += "return " + results + "\n}";
  EXPECT_EQ(fused_kinds(text, {{{DType::F32, {3}}}}).size(), 40u);
  EXPECT_EQ(fused(parse(text)).regions.size(), 17u);
}

// What is computed again for every stage behind it ends the kernel, long before its code takes LLVM
// minutes.
TEST(Fuse, ChainsOfSoftmaxAreSeveralKernels) {
  std::string text = "fn @main(%v0: Tensor[(n, 8), f32]) {\n";
  for (int i = 0; i < 60; ++i) text += fmt::format("%v{} = softmax(%v{})\n", i + 1, i);
  text += "return %v60\n}";
  const KernelKinds kernels = fused_kinds(text, {{{DType::F32, {2, 8}}}});
  EXPECT_GT(kernels.size(), 2u);
  EXPECT_LT(kernels.size(), 20u);
  EXPECT_LE(fused(parse(text)).regions.size(), 3u);
}

// Symbols that a region knows by their sum alone are one symbol: kernels over what sixteen concats
// joined are few.
TEST(Fuse, SymbolsThatStandTogetherAreOne) {
  std::string head = "fn @main(%y0: Tensor[(d0, 4), f32]", text, results;
  std::vector<Shape> shapes{{DType::F32, {2, 4}}};
  for (int i = 1; i <= 16; ++i) {
    head += fmt::format(", %x{0}: Tensor[(d{0}, 4), f32]", i);
    text += fmt::format(
        "%y{0} = concat(%y{1}, %x{0}) {{axis = 0}}\n%r{0} = reduce_sum(%y{0}) {{axes = (1), "
        "keepdims = 0}}\n",
        i, i - 1);
    results += fmt::format("{}%y{}, %r{}", i == 1 ? "" : ", ", i, i);
    shapes.push_back({DType::F32, {i % 3, 4}});
  }
  const std::string whole = head + ") {\n" + text + "return " + results + "\n}";
  EXPECT_EQ(fused_kinds(whole, {shapes}).size(), 32u);
  const Module module = fused(parse(whole));
  EXPECT_LE(module.regions.size(), 12u);
  for (const Region& region : module.regions) EXPECT_LE(region.body.symbols.names().size(), 2u);
}

TEST(Fuse, TinyBertIsFiveKernelsALayer) {
  Module module = frontends::read_onnx(std::filesystem::path("../models/tiny_bert.onnx"));
  Module plain = module;
  module = fused(std::move(module));
  std::vector<Tensor> inputs;
  for (ValueId parameter : plain.functions[0].body.parameters) {
    bool mask = plain.functions[0].values[parameter].name == "attention_mask";
    Tensor input(DType::I64, {2, 5});
    for (std::int64_t i = 0; i < 10; ++i) input.set_integer(i, mask ? i < 8 : 3 * i + 1);
    inputs.push_back(input);
  }
  expect_close(run_regions(module, inputs), evaluate(plain, plain.functions[0], inputs), 1e-4);
  EXPECT_EQ(module.regions.size(), 6u);
  std::size_t launches = 0;
  for (const Binding& binding : module.functions[0].body.bindings)
    launches += binding.op == Op::region;
  EXPECT_EQ(launches, 2 * 5 + 1u);
}

}  // namespace
}  // namespace anydim::tests
