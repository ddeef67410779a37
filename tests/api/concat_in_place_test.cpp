// Concatenations whose parts are written where they lie in the whole, compiled, against the
// reference evaluator, under every policy.
#include <gtest/gtest.h>

#include <random>

#include "api/anydim.h"
#include "ir/reference/evaluate.h"
#include "ir/shapes/infer.h"
#include "ir/text/parse.h"
#include "tests/support/pass_fixture.h"
#include "tests/support/random_tensors.h"

namespace anydim {
namespace {

using ir::DType;
using ir::Tensor;

// Of @main(%x: Tensor[(n, 16), f32], %k: Tensor[(), i64]).
void expect_right(const std::string& body, const std::string& results) {
  const std::string text =
      "fn @main(%x: Tensor[(n, 16), f32], %k: Tensor[(), i64]) where n in [0, 300] {\n"
      "  %w = constant(f32 (16, 16) @random(1))\n" +
      body + "  return " + results + "\n}";
  SCOPED_TRACE(text);
  ir::Module module = ir::parse(text);
  ir::infer_types(module);
  for (const Policy policy : {Policy::Symbolic, Policy::Bucketed, Policy::Exact}) {
    CompileOptions options;
    options.threads = 2;
    options.keep_kernels = false;
    options.policies = {{"", policy}};
    runtime::Context context(compile(ir::parse(text), options));
    std::mt19937 random(3);
    for (const std::int64_t size : {5, 1, 0, 200, 64}) {
      const std::vector<Tensor> inputs{tests::random_numbers(DType::F32, {size, 16}, random, 3),
                                       Tensor::of<std::int64_t>(DType::I64, {}, {size % 2})};
      tests::expect_close(context.run(inputs), ir::evaluate(module, module.functions[0], inputs),
                          1e-4);
    }
  }
}

TEST(ConcatInPlace, PartsThatOthersRead) {
  expect_right(R"(  %a = matmul(%x, %w)
  %b = tanh(matmul(%a, %w))
  %all = concat(%a, %x, %b, %x) {axis = 1}
  %y = exp(%all)
  %sum = add(%b, %a)
)",
               "%y, %sum");
}

TEST(ConcatInPlace, DenseBlock) {
  expect_right(R"(  %v = constant(f32 (32, 16) @random(2))
  %u = constant(f32 (48, 16) @random(3))
  %a = matmul(%x, %w)
  %b = relu(matmul(%a, %w))
  %c = relu(matmul(relu(concat(%a, %b) {axis = 1}), %v))
  %d = matmul(concat(%a, %b, %c) {axis = 1}, %u)
  %y = exp(concat(%a, %b, %c, %d) {axis = 1})
  %other = exp(concat(%b, %a) {axis = 1})
)",
               "%y, %other");
}

TEST(ConcatInPlace, ReductionsAndMaps) {
  expect_right(R"(  %wide = expand_dims(%x) {axes = (1)}
  %both = matmul(concat(%wide, %wide) {axis = 1}, %w)
  %sum = reduce_sum(%both) {axes = (1)}
  %largest = reduce_max(%both) {axes = (1)}
  %y = exp(concat(%sum, tanh(%x), %largest, relu(tanh(%x))) {axis = 1})
)",
               "%y");
}

// What control flow keeps has memory of its own.
TEST(ConcatInPlace, ControlFlow) {
  expect_right(R"(  %a = matmul(%x, %w)
  %b = relu(matmul(%a, %w))
  %all = concat(%a, %b) {axis = 1}
  %r = loop(%k, none, %all) body(%i, %on, %s) {
    %t = tanh(add(%s, %all))
    yield %on, %t
  }
  %l = list(%r, %all)
  %y = exp(list_at(%l, %k))
)",
               "%y");
  expect_right(R"(  %a = matmul(%x, %w)
  %b = relu(matmul(%a, %w))
  %l = list(%a, %b)
  %y = exp(concat(%a, list_at(%l, %k)) {axis = 1})
)",
               "%y");
}

}  // namespace
}  // namespace anydim
