// The table of elementwise ops once more, compiled and run by the virtual machine, against the
// reference evaluator.
#include <gtest/gtest.h>

#include "api/anydim.h"
#include "ir/reference/evaluate.h"
#include "ir/shapes/infer.h"
#include "ir/text/parse.h"
#include "tests/support/elementwise_cases.h"

namespace anydim {
namespace {

using ir::DType;

void expect_right(const tests::ElementwiseCase& tested, const std::vector<ir::Tensor>& inputs) {
  SCOPED_TRACE(tested.text);
  ir::Module module = ir::parse(tested.text);
  ir::Module inferred = module;
  ir::infer_types(inferred);
  CompileOptions options;
  options.threads = 2;
  options.keep_kernels = false;
  options.background = false;
  runtime::Context context(compile(std::move(module), options));
  EXPECT_EQ(tests::compare(tested, inputs, context.run(inputs),
                           ir::evaluate(inferred, inferred.functions[0], inputs)),
            "");
}

TEST(ElementwiseCompiled, EveryOpOnEveryType) {
  for (const tests::ElementwiseCase& tested : tests::elementwise_cases())
    expect_right(tested, tests::special_pairs(tested.dtype));
}

TEST(ElementwiseCompiled, OperandsBroadcast) {
  for (const DType dtype : {DType::F32, DType::I32, DType::Bool}) {
    for (const DType result : {dtype, DType::Bool}) {
      const auto expect = [&](const tests::ElementwiseDims& dims,
                              const std::vector<std::int64_t>& x,
                              const std::vector<std::int64_t>& y) {
        expect_right(tests::elementwise_case(dtype, result, dims),
                     {tests::special_values(dtype, x, 0), tests::special_values(dtype, y, 1)});
      };
      expect({"(n, 1, 3)", "(2, 1)", "(n, 2, 3)"}, {2, 1, 3}, {2, 1});
      expect({"(n, 2)", "(m, 2)", "(broadcast(m, n), 2)"}, {1, 2}, {3, 2});
      expect({"(n, 2)", "(m, 2)", "(broadcast(m, n), 2)"}, {3, 2}, {1, 2});
      expect({"(n)", "(1)", "(n)"}, {0}, {1});
      expect({"()", "(2, 2)", "(2, 2)"}, {}, {2, 2});
    }
  }
}

}  // namespace
}  // namespace anydim
