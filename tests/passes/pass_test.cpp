// Runs the files of tests/passes: module text in, module text out, and the reference evaluator's
// results unchanged. ANYDIM_UPDATE_TESTS=1 rewrites what they expect.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>

#include "ir/reference/evaluate.h"
#include "ir/shapes/infer.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "ir/verify.h"
#include "passes/pass.h"
#include "tests/ir/op_file.h"

namespace anydim::passes {
namespace {

using ir::test::OpCase;

// Results by name, as text.
std::map<std::string, std::string> results(const OpCase& one, const ir::Module& module) {
  const ir::Function& main = module.functions[0];
  const std::vector<ir::Tensor> tensors =
      ir::evaluate(module, main, ir::test::ordered_inputs(one, main));
  std::map<std::string, std::string> texts;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    texts[main.result_names[i]] = main.result_names[i] + " = " + ir::print(tensors[i]) + "\n";
  return texts;
}

// What the passes made: the module, then as comments what they hand on beside it.
std::string text_of(const ir::Module& module, const PassContext& context) {
  std::string text = ir::print(module);
  for (const std::string& reason : context.unresolved) text += "// unresolved: " + reason + "\n";
  return text;
}

OpCase run(const OpCase& one, const std::string& pass) {
  OpCase actual = one;
  actual.module.reset();
  actual.error.reset();
  try {
    ir::Module module = ir::parse(one.source);
    const ir::Module before = module;
    PipelineOptions options;
    options.verify = true;
    options.outputs = one.kept;
    if (one.precision) options.precision = ir::dtype_named(*one.precision).value();
    PassContext context{options};
    context.compute = [](ir::Module constants) -> std::optional<std::vector<ir::Tensor>> {
      ir::verify(constants);
      try {
        return ir::evaluate(constants, constants.functions.at(0), {});
      } catch (const Error&) {
        return std::nullopt;
      }
    };
    const std::vector<std::string> names =
        one.passes.empty() ? std::vector<std::string>{"infer_types", pass} : one.passes;
    run_passes(module, context, names);
    actual.module = text_of(module, context);
    if (!one.inputs.empty()) {
      const auto wanted = results(one, before);
      for (const auto& [name, got] : results(one, module)) {
        EXPECT_TRUE(ir::test::close_enough(wanted.at(name), got, one.tolerance))
            << "before: " << wanted.at(name) << "after: " << got;
      }
    }
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::Internal) throw;  // a bug never satisfies a test
    actual.error = ir::test::error_text(error);
  }
  return actual;
}

class PassFile : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(PassFile, MatchesItsFile) {
  ir::test::OpFile file = ir::test::read_op_file(GetParam());
  const std::string pass = GetParam().stem().string();
  const char* setting = std::getenv("ANYDIM_UPDATE_TESTS");
  const bool updating = setting != nullptr && std::string_view(setting) == "1";
  for (std::size_t i = 0; i < file.cases.size(); ++i) {
    OpCase& one = file.cases[i];
    SCOPED_TRACE("case " + std::to_string(i + 1) + ":\n" + one.source);
    const OpCase actual = run(one, pass);
    if (updating) {
      one = actual;
      continue;
    }
    EXPECT_TRUE(one.module || one.error)
        << "the case expects nothing; ANYDIM_UPDATE_TESTS=1 writes what comes out";
    EXPECT_EQ(one.module.value_or(""), actual.module.value_or(""));
    EXPECT_EQ(one.error.value_or(""), actual.error.value_or(""));
  }
  if (updating) std::ofstream(GetParam()) << ir::test::text_of(file);
}

std::string name_of_test(const testing::TestParamInfo<std::filesystem::path>& parameter) {
  return parameter.param.stem().string();
}

INSTANTIATE_TEST_SUITE_P(Passes, PassFile, testing::ValuesIn(ir::test::op_files(".")),
                         name_of_test);

// Whichever passes run, and however far: a name that is none would skip nothing.
TEST(Passes, NamesOfSkippedOnesAreChecked) {
  PipelineOptions options;
  options.skipped = {"fly"};
  PassContext context{options};
  ir::Module module = ir::parse("fn @main(%x: Tensor[(n), f32]) {\n  return %x\n}\n");
  const auto error_of = [&](const auto& run) {
    try {
      run();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string expected = "there is no pass named 'fly'";
  const std::vector<std::string> names{"infer_types"};
  EXPECT_EQ(error_of([&] { run_passes(module, context); }), expected);
  EXPECT_EQ(error_of([&] { run_passes(module, context, names); }), expected);
  EXPECT_EQ(error_of([&] { run_to_fork(module, context); }), expected);
  options.skipped = {"hide_rows"};
  EXPECT_EQ(error_of([&] { run_passes(module, context); }),
            "'hide_rows' stands beside the pipeline, which does not run it: there is nothing to "
            "skip");
}

}  // namespace
}  // namespace anydim::passes
