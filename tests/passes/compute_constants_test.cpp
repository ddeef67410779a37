// Constants that are too large for a text beside it.

#include <gtest/gtest.h>

#include <regex>

#include "ir/reference/evaluate.h"
#include "ir/shapes/infer.h"
#include "ir/text/parse.h"
#include "passes/pass.h"

namespace anydim::passes {
namespace {

using namespace ir;

void list(const Block& block, std::vector<const Binding*>& all) {
  for (const Binding& binding : block.bindings) {
    all.push_back(&binding);
    for (const Block& inner : binding.blocks) list(inner, all);
  }
}

// What computes the operand at `position` of the module's first product, behind views.
Op behind_views(const Module& module, std::size_t position) {
  std::vector<const Binding*> bindings;
  list(module.functions[0].body, bindings);
  ValueId value = (*std::ranges::find(bindings, Op::matmul, &Binding::op))->operands.at(position);
  for (;;) {
    const Binding* found = *std::ranges::find_if(bindings, [&](const Binding* binding) {
      return std::ranges::find(binding->results, value) != binding->results.end();
    });
    if (found->op != Op::reshape && found->op != Op::transpose) return found->op;
    value = found->operands[0];
  }
}

TEST(ComputeConstants, OperandsOfProductsThatAreNoBytesAreMadeAtAnySize) {
  const auto module_of = [](const std::string& product, const std::string& dtype = "f32",
                            const std::string& number = "%g") {
    const std::string text = R"(fn @main(%x: Tensor[(m, n), DTYPE], %b: Tensor[(), bool]) {
  %v = constant(i8 (2, 80000, 1) @random(1))
  %i = cast(%v) {to = i32}
  %z = constant(i8 (2, 1, 1) [-3, 90])
  %j = cast(%z) {to = i32}
  %d = sub(%i, %j)
  %c = cast(%d) {to = DTYPE}
  %g = cast(%v) {to = DTYPE}
  %s = constant(DTYPE (2, 1, 1) [0.5, 0.25])
  %h = mul(NUMBER, %s)
  %r = reshape(%h) {shape = (2, 80000)}
  %t = transpose(%r) {perm = (1, 0)}
  %y = PRODUCT
  return %y
})";
    Module module = parse(
        std::regex_replace(std::regex_replace(std::regex_replace(text, std::regex("DTYPE"), dtype),
                                              std::regex("NUMBER"), number),
                           std::regex("PRODUCT"), product));
    infer_types(module);
    const PipelineOptions options;
    PassContext context{options};
    context.compute = [](Module constants) -> std::optional<std::vector<Tensor>> {
      infer_types(constants);
      return evaluate(constants, constants.functions[0], {});
    };
    compute_constants(module, context);
    return module;
  };
  EXPECT_EQ(behind_views(module_of("matmul(%r, %x)"), 0), Op::constant);
  EXPECT_EQ(behind_views(module_of("matmul(%x, %t)"), 1), Op::mul) << "read as bytes";
  EXPECT_EQ(behind_views(module_of("matmul(%x, %t)", "f32", "%c"), 1), Op::mul);
  EXPECT_EQ(behind_views(module_of("matmul(%x, %t)", "f16"), 1), Op::constant);
  const std::string branch = " {\n    %p = matmul(%x, %t)\n    yield %p\n  }",
                    other = " {\n    %q = matmul(%x, %t)\n    yield %q\n  }";
  EXPECT_EQ(behind_views(module_of("if(%b) then" + branch + " else" + other), 1), Op::constant)
      << "a kernel inside reads no bytes outside";
}

TEST(ComputeConstants, WhatIsAConstantIsNotMadeAgain) {
  Module module = parse(R"(fn @main(%x: Tensor[(m, 8), bf16]) {
  %w = constant(bf16 (8, 2) @random(1))
  %y = matmul(%x, %w)
  return %y
})");
  infer_types(module);
  const PipelineOptions options;
  PassContext context{options};
  context.compute = [](const Module&) -> std::optional<std::vector<Tensor>> {
    ADD_FAILURE() << "there is nothing to compute";
    return std::nullopt;
  };
  compute_constants(module, context);
}

}  // namespace
}  // namespace anydim::passes
