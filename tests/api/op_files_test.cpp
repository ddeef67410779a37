// The cases of tests/ir/ops once more, compiled and run by the virtual machine: what the reference
// evaluator gives, compiled code gives too.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "api/anydim.h"
#include "ir/text/parse.h"
#include "tests/ir/op_file.h"

namespace anydim {
namespace {

using ir::test::OpCase;

// Vector functions and other orders of summation differ from the evaluator's by a few units in the
// last place.
constexpr double compiled_tolerance = 2e-5;

CompileOptions quiet_options() {
  CompileOptions options;
  options.threads = 2;
  options.keep_kernels = false;
  options.background = false;
  return options;
}

std::string on_one_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos;)
    text.replace(at, 1, "; ");
  return text;
}

// Runs the case and says on one line in what it differs from the file; empty where it doesn't.
std::string deviation(const OpCase& one) {
  try {
    ir::Module module = ir::parse(one.source);
    const std::vector<ir::Tensor> inputs = ir::test::ordered_inputs(one, module.functions[0]);
    const ir::Function main = module.functions[0];
    runtime::Context context(compile(std::move(module), quiet_options()));
    const std::string got = ir::test::outputs_text(main, context.run(inputs));
    if (one.error) return on_one_line("runs, but must be refused, and gives " + got);
    const double tolerance = std::max(compiled_tolerance, one.tolerance.value_or(0));
    if (ir::test::close_enough(*one.outputs, got, tolerance)) return {};
    return on_one_line("gives " + got);
  } catch (const Error& error) {
    // Messages differ where a kernel finds the fault; the kind does not.
    const std::string text = ir::test::error_text(error);
    if (one.error && text.substr(0, text.find(':')) == one.error->substr(0, one.error->find(':')))
      return {};
    // The place in the source of an internal error changes with every edit.
    return on_one_line(error.kind() == ErrorKind::Internal ? text.substr(0, text.find(" ("))
                                                           : text);
  }
}

// What the compiler does not do yet, or does wrong: one line a case, `FILE: TITLE: what comes out`.
// Everything else must agree.
constexpr const char* deviations_file = "op_deviations.txt";

std::vector<std::string> known_deviations() {
  std::ifstream stream(deviations_file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// The case's first line, by which it is known also when cases come and go.
std::string title_of(const OpCase& one) {
  const std::string line = one.source.substr(0, one.source.find('\n'));
  return line.starts_with("// ") ? line.substr(3) : line;
}

class OpOnVirtualMachine : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(OpOnVirtualMachine, AgreesWithItsFile) {
  const ir::test::OpFile file = ir::test::read_op_file(GetParam());
  const std::string prefix = GetParam().stem().string() + ": ";
  std::string got;
  for (std::size_t i = 0; i < file.cases.size(); ++i) {
    const OpCase& one = file.cases[i];
    if (!one.outputs && !(one.error && one.inferred)) continue;  // nothing runs
    const std::string found = deviation(one);
    if (!found.empty()) got += prefix + title_of(one) + ": " + found + "\n";
  }
  std::string expected;
  std::string others;
  for (const std::string& line : known_deviations())
    (line.starts_with(prefix) ? expected : others) += line + "\n";
  const char* setting = std::getenv("ANYDIM_UPDATE_TESTS");
  if (setting != nullptr && std::string_view(setting) == "1") {
    std::ofstream(deviations_file) << others << got;
  } else {
    EXPECT_EQ(expected, got) << "where this is progress, ANYDIM_UPDATE_TESTS=1 rewrites "
                             << deviations_file;
  }
}

std::string name_of_test(const testing::TestParamInfo<std::filesystem::path>& parameter) {
  std::string name = parameter.param.stem().string();
  for (char& c : name) {
    if (c == '.') c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Ops, OpOnVirtualMachine,
                         testing::ValuesIn(ir::test::op_files("../ir/ops")), name_of_test);

}  // namespace
}  // namespace anydim
