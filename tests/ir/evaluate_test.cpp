// What tests/ir/ops cannot show of the evaluator: inputs that don't fit, folding without a module,
// memory and speed.
#include "ir/reference/evaluate.h"

#include <gtest/gtest.h>

#include <chrono>

#include "ir/error.h"
#include "ir/random_tensor.h"
#include "ir/shapes/bind.h"
#include "ir/shapes/infer.h"
#include "ir/text/parse.h"

namespace anydim::ir {
namespace {

Tensor zeros(DType dtype, std::vector<std::int64_t> dims) { return Tensor(dtype, std::move(dims)); }

std::string refusal(const std::string& text, const std::vector<Tensor>& inputs) {
  Module module = parse(text);
  infer_types(module);
  try {
    bind_symbols(module.functions[0], inputs);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Inputs);
    return error.what();
  }
  return "accepted";
}

const char* two_inputs =
    "fn @main(%ids: Tensor[(b, s), i64], %mask: Tensor[(b, s), i64]) where b in [1, 64], s in [2, "
    "512] multiple 2 { return %ids }";

TEST(BindSymbols, NamesWhatDoesNotFit) {
  const auto of = [](std::vector<Tensor> inputs) { return refusal(two_inputs, inputs); };
  const auto ids = [](std::vector<std::int64_t> dims) {
    return zeros(DType::I64, std::move(dims));
  };
  EXPECT_EQ(of({ids({2, 8}), ids({2, 8})}), "accepted");
  EXPECT_EQ(of({ids({2, 8})}), "@main: expected 2 inputs, got 1.");
  EXPECT_EQ(of({ids({2, 8}), zeros(DType::I32, {2, 8})}),
            "input 'mask': expected dtype i64, got i32.");
  EXPECT_EQ(of({ids({2, 8, 1}), ids({2, 8})}),
            "input 'ids': expected rank 2, got rank 3 with shape (2, 8, 1).");
  EXPECT_EQ(of({ids({2, 514}), ids({2, 514})}),
            "input 'ids', dimension 1 (s): expected at most 512, got 514.");
  EXPECT_EQ(of({ids({0, 8}), ids({0, 8})}),
            "input 'ids', dimension 0 (b): expected at least 1, got 0.");
  EXPECT_EQ(of({ids({2, 7}), ids({2, 7})}),
            "input 'ids', dimension 1 (s): expected a multiple of 2, got 7.");
  EXPECT_EQ(of({ids({2, 8}), ids({2, 10})}),
            "input 'mask', dimension 1 (s): expected 8 as in input 'ids', dimension 1, got 10.");
}

TEST(BindSymbols, ChecksConstantsAndExpressions) {
  const char* text = "fn @main(%x: Tensor[(n, 3), f32], %y: Tensor[(2*n + 1), f32]) { return %x }";
  EXPECT_EQ(refusal(text, {zeros(DType::F32, {2, 3}), zeros(DType::F32, {5})}), "accepted");
  EXPECT_EQ(refusal(text, {zeros(DType::F32, {2, 4}), zeros(DType::F32, {5})}),
            "input 'x', dimension 1: expected 3, got 4.");
  EXPECT_EQ(refusal(text, {zeros(DType::F32, {2, 3}), zeros(DType::F32, {6})}),
            "input 'y', dimension 0: expected 2*n + 1 = 5, got 6.");
}

TEST(BindSymbols, GivesTheReasonOfANarrowedRange) {
  const char* text =
      R"(fn @main(%ids: Tensor[(b, s), i64], %positions: Tensor[(512, 4), f32], %words: Tensor[(9, 4), f32]) {
      %p = dyn.strided_slice(%positions, shape(0), shape(s))
      %e = add(gather(%words, %ids), %p) from "/embeddings/Add_1"
      return %e
    })";
  EXPECT_EQ(refusal(text, {zeros(DType::I64, {1, 513}), zeros(DType::F32, {512, 4}),
                           zeros(DType::F32, {9, 4})}),
            "input 'ids', dimension 1 (s): expected at most 512, got 513; the range comes from add "
            "'/embeddings/Add_1' (%e).");
}

TEST(BindSymbols, UnknownDimsTakeAnything) {
  EXPECT_EQ(
      refusal("fn @main(%x: Tensor[(?, ?), f32]) { return %x }", {zeros(DType::F32, {0, 77})}),
      "accepted");
}

TEST(BindSymbols, RefusesADimThatNoInputGives) {
  Module module = parse("fn @main(%x: Tensor[(2*n), f32]) { return %x }");
  const std::vector<Tensor> inputs{zeros(DType::F32, {4})};
  try {
    bind_symbols(module.functions[0], inputs);
    FAIL() << "n cannot be told";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Unsupported);
    EXPECT_STREQ(error.what(),
                 "input 'x', dimension 0: 2*n depends on something that no input's dimension gives "
                 "by itself.");
  }
}

TEST(Evaluate, RunsWithoutInference) {
  const Module module = parse(
      "fn @main(%x: Tensor[(n, 4), f32]) { %s = shape_of(%x) return dyn.reshape(%x, %s), "
      "shape(3*n) }");
  const std::vector<Tensor> results =
      evaluate(module, module.functions[0], {zeros(DType::F32, {2, 4})});
  EXPECT_EQ(results[0].dims(), (std::vector<std::int64_t>{2, 4}));
  EXPECT_EQ(results[1].integer_at(0), 6);
}

TEST(Evaluate, AnEmptyBatchGivesTheOtherDims) {
  Module module = parse(R"(fn @main(%x: Tensor[(b, s, 8), f32]) {
      %h = dyn.reshape(%x, shape(b, -1, 2, 4)) {zero_copies = 1}
      return transpose(%h) {perm = (0, 2, 1, 3)}, dyn.reshape(%x, shape(b*s, -1))
    })");
  infer_types(module);
  const std::vector<Tensor> results =
      evaluate(module, module.functions[0], {zeros(DType::F32, {0, 7, 8})});
  EXPECT_EQ(results[0].dims(), (std::vector<std::int64_t>{0, 2, 7, 4}));
  EXPECT_EQ(results[1].dims(), (std::vector<std::int64_t>{0, 8}));
}

// One op on constants, as constant folding does it.
std::vector<Tensor> fold(Op op, Attributes attributes, const std::vector<Tensor>& operands) {
  Function function;
  Binding binding;
  binding.op = op;
  binding.attributes = std::move(attributes);
  std::vector<const Tensor*> pointers;
  for (const Tensor& operand : operands) {
    pointers.push_back(&operand);
    binding.operands.push_back(function.add_value("x"));
  }
  binding.results.push_back(function.add_value("y"));
  return evaluate_binding(function, binding, pointers);
}

TEST(EvaluateBinding, SharesMemoryWhereNothingMoves) {
  const Tensor weight = zeros(DType::F32, {8, 4});
  const Tensor reshaped =
      fold(Op::reshape, {{"shape", std::vector<std::int64_t>{4, -1}}}, {weight})[0];
  EXPECT_EQ(reshaped.bytes().data(), weight.bytes().data());
  EXPECT_EQ(reshaped.dims(), (std::vector<std::int64_t>{4, 8}));
}

TEST(EvaluateBinding, FoldsWithoutSymbols) {
  const Tensor sum = fold(Op::add, {},
                          {Tensor::of<std::int64_t>(DType::I64, {2}, {1, 2}),
                           Tensor::of<std::int64_t>(DType::I64, {}, {3})})[0];
  EXPECT_TRUE(sum.same_bits(Tensor::of<std::int64_t>(DType::I64, {2}, {4, 5})));
}

double milliseconds(const std::function<void()>& work) {
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    best = std::min(
        best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
                  .count());
  }
  return best;
}

// Folding moves weights of many megabytes at compile time. The bounds leave room for debug builds
// and busy machines.
// Sizes that no block and no unrolled loop divides.
TEST(EvaluateBinding, AddsProductsUpInOrderOfDepth) {
  constexpr std::int64_t rows = 3, depth = 131, columns = 517;
  const Tensor left = random_tensor(DType::F64, {rows, depth}, 1, "left");
  const Tensor right = random_tensor(DType::F64, {depth, columns}, 1, "right");
  const Tensor product = fold(Op::matmul, {}, {left, right}).at(0);
  ASSERT_EQ(product.dims(), (std::vector<std::int64_t>{rows, columns}));
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < depth; ++k)
        sum += left.real_at(i * depth + k) * right.real_at(k * columns + j);
      ASSERT_EQ(product.real_at(i * columns + j), sum) << i << ", " << j;
    }
  }
}

TEST(EvaluateBinding, MovesMegabytesQuickly) {
  const Tensor weight = zeros(DType::F32, {512, 512});
  EXPECT_LT(milliseconds([&] { fold(Op::transpose, {}, {weight}); }), 50);
  EXPECT_LT(milliseconds(
                [&] { fold(Op::concat, {{"axis", std::int64_t{1}}}, {weight, weight, weight}); }),
            50);
  EXPECT_LT(milliseconds([&] { fold(Op::split, {{"axis", std::int64_t{0}}}, {weight}); }), 50);
}

TEST(RunTimeMessages, NameTheNode) {
  EXPECT_EQ(index_out_of_range("gather index", "'/emb/Gather'", 30523, 30522),
            "gather index of '/emb/Gather': expected from -30522 to 30521, got 30523");
  EXPECT_EQ(division_by_zero("div", "%y"), "div of %y: the divisor is 0");
}

}  // namespace
}  // namespace anydim::ir
