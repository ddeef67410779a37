// The cases of sequence_cases.h through reader, inference and reference evaluator.
// ANYDIM_SAVE_SEQUENCE_CASES=FOLDER writes their models, to be run elsewhere.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "ir/reference/evaluate.h"
#include "ir/shapes/infer.h"
#include "tests/frontends/sequence_cases.h"
#include "tests/frontends/tensor_difference.h"

namespace anydim::frontends {
namespace {

TEST(OnnxSequences, Cases) {
  for (const SequenceCase& test : sequence_cases()) {
    SCOPED_TRACE(test.name);
    if (const char* folder = std::getenv("ANYDIM_SAVE_SEQUENCE_CASES"))
      std::ofstream(std::filesystem::path(folder) / (test.name + ".onnx"), std::ios::binary)
          << test.builder.bytes();
    ir::Module module = test.builder.read();
    ir::infer_types(module);
    const auto results = ir::evaluate(module, module.functions[0], test.inputs);
    ASSERT_EQ(results.size(), test.wanted.size());
    for (std::size_t i = 0; i < results.size(); ++i)
      EXPECT_EQ(difference(results[i], test.wanted[i]), "");
  }
}

}  // namespace
}  // namespace anydim::frontends
