// Constants that are too large for a text beside it.
#include "passes/compute_constants.h"

#include <gtest/gtest.h>

#include "ir/reference/evaluate.h"
#include "ir/shapes/infer.h"
#include "ir/text/parse.h"
#include "passes/pass.h"

namespace anydim::passes {
namespace {

using namespace ir;

// What computes the operand at `position` of the module's product, behind views.
Op behind_views(const Module& module, std::size_t position) {
  const std::vector<Binding>& bindings = module.functions[0].body.bindings;
  const auto computing = [&](ValueId value) -> const Binding& {
    return *std::ranges::find_if(bindings, [&](const Binding& binding) {
      return std::ranges::find(binding.results, value) != binding.results.end();
    });
  };
  const Binding* found =
      &computing(std::ranges::find(bindings, Op::matmul, &Binding::op)->operands.at(position));
  while (found->op == Op::reshape || found->op == Op::transpose)
    found = &computing(found->operands[0]);
  return found->op;
}

TEST(ComputeConstants, WeightsOfConvolutionsAreMadeRealAtAnySize) {
  const auto module_of = [](const std::string& product) {
    Module module = parse(R"(fn @main(%x: Tensor[(m, n), f32]) {
  %v = constant(i8 (2, 80000, 1) @random(1))
  %g = cast(%v) {to = f32}
  %s = constant(f32 (2, 1, 1) [0.5, 0.25])
  %h = mul(%g, %s)
  %r = reshape(%h) {shape = (2, 80000)}
  %t = transpose(%r) {perm = (1, 0)}
  %y = )" + product + "\n  return %y\n}");
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
}

}  // namespace
}  // namespace anydim::passes
