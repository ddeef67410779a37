#include "tests/passes/fused_kinds.h"

#include "ir/reference/evaluate.h"
#include "ir/text/parse.h"
#include "tests/support/loop_form_interpreter.h"
#include "tests/support/pass_fixture.h"

namespace anydim::tests {

using namespace ir;

KernelKinds fused_kinds(const std::string& text, const std::vector<std::vector<Shape>>& calls,
                        double tolerance, const Backend* backend) {
  Module module = fused(parse(text), backend);
  for (const auto& shapes : calls) {
    std::vector<Tensor> inputs;
    for (const Shape& shape : shapes)
      inputs.push_back(
          sample(shape.dtype, shape.dims, static_cast<unsigned>(inputs.size() + 7), shape.below));
    Module plain = parse(text);
    expect_close(run_regions(module, inputs), evaluate(plain, plain.functions[0], inputs),
                 tolerance);
  }
  KernelKinds kinds;
  for (const Binding& binding : module.functions[0].body.bindings)
    if (binding.op == Op::region)
      kinds.push_back(kind_name(*loop_form_of(module.regions[binding.callee])));
  return kinds;
}

}  // namespace anydim::tests
