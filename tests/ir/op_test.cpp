// Runs the files of tests/ir/ops: text form, inference and reference evaluator together.
// ANYDIM_UPDATE_TESTS=1 rewrites what they expect.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "ir/reference/evaluate.h"
#include "ir/shapes/infer.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "ir/verify.h"
#include "tests/ir/inferred_text.h"
#include "tests/ir/op_file.h"
#include "tests/ir/same_module.h"

namespace anydim::ir::test {
namespace {

bool updating() {
  const char* setting = std::getenv("ANYDIM_UPDATE_TESTS");
  return setting != nullptr && std::string_view(setting) == "1";
}

// What really comes out, in the form of the file.
OpCase run(const OpCase& one) {
  OpCase actual = one;
  actual.inferred.reset();
  actual.outputs.reset();
  actual.error.reset();
  try {
    Module module = parse(one.source);
    VerifyOptions options;
    options.kind = ErrorKind::Malformed;
    verify(module, options);
    const Module before = module;
    const InferenceResult inferred = infer_types(module);
    options.kind = ErrorKind::Internal;
    options.types_inferred = true;
    verify(module, options);
    actual.inferred = inferred_text(before, module, inferred);
    const std::string printed = print(module);
    const Module again = parse(printed);
    EXPECT_EQ(difference(again, module), "")
        << "the inferred module does not read back: " << printed;
    EXPECT_EQ(print(again), printed);
    const Function& main = module.functions[0];
    if (one.inputs.empty() && !main.body.parameters.empty()) return actual;
    actual.outputs = outputs_text(main, evaluate(module, main, ordered_inputs(one, main)));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::Internal) throw;  // a bug never satisfies a test
    actual.error = error_text(error);
  }
  return actual;
}

class OpTest : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(OpTest, MatchesItsFile) {
  OpFile file = read_op_file(GetParam());
  const std::string op = GetParam().stem().string();
  if (!file.cases.empty()) {
    const std::string& text = file.cases[0].source;
    EXPECT_TRUE(text.find(op + "(") != std::string::npos ||
                text.find(op + " ") != std::string::npos)
        << "the first case does not use the op " << op;
  }
  for (std::size_t i = 0; i < file.cases.size(); ++i) {
    OpCase& one = file.cases[i];
    SCOPED_TRACE("case " + std::to_string(i + 1) + ":\n" + one.source);
    const OpCase actual = run(one);
    const bool same_outputs =
        one.outputs && actual.outputs && close_enough(*one.outputs, *actual.outputs, one.tolerance);
    if (updating()) {
      const std::optional<std::string> kept = same_outputs ? one.outputs : actual.outputs;
      one = actual;
      one.outputs = kept;
      continue;
    }
    EXPECT_TRUE(one.inferred || one.outputs || one.error)
        << "the case expects nothing; ANYDIM_UPDATE_TESTS=1 writes what comes out";
    EXPECT_EQ(one.inferred.value_or(""), actual.inferred.value_or(""));
    EXPECT_EQ(one.error.value_or(""), actual.error.value_or(""));
    if (!same_outputs) EXPECT_EQ(one.outputs.value_or(""), actual.outputs.value_or(""));
  }
  if (updating()) std::ofstream(GetParam()) << text_of(file);
}

std::string name_of_test(const testing::TestParamInfo<std::filesystem::path>& parameter) {
  std::string name = parameter.param.stem().string();
  for (char& c : name) {
    if (c == '.') c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Ops, OpTest, testing::ValuesIn(op_files("ops")), name_of_test);

}  // namespace
}  // namespace anydim::ir::test
