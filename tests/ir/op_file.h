// Files of cases: tests/ir/ops, whose README describes the format, and tests/passes. Shared with
// tests that run the cases of ops on other executors.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/error.h"
#include "ir/module.h"

namespace anydim::ir::test {

struct OpCase {
  std::string source;  // comments, inputs and module, as written
  std::vector<std::pair<std::string, Tensor>> inputs;
  std::optional<double> tolerance;
  std::vector<std::string> passes;       // of `// PASSES a b`
  std::optional<std::string> precision;  // of `// PRECISION bf16`
  std::vector<std::string> kept;         // of `// KEEP a b`: outputs
  std::optional<std::string> inferred;   // sections; absent where the file has none
  std::optional<std::string> module;
  std::optional<std::string> outputs;
  std::optional<std::string> error;
};

struct OpFile {
  std::filesystem::path path;
  std::vector<OpCase> cases;
};

// Throws Error{Malformed} where the file can't be read as cases, naming the file and the case.
OpFile read_op_file(const std::filesystem::path& path);
// As it is written back after an update.
std::string text_of(const OpFile& file);
// All files of a folder, in order of name.
std::vector<std::filesystem::path> op_files(const std::filesystem::path& folder);

// @main's inputs in order, by name. Throws Error{Malformed} where the case names others.
std::vector<Tensor> ordered_inputs(const OpCase& one, const Function& main);
// Lines `name = tensor`.
std::string outputs_text(const Function& main, const std::vector<Tensor>& outputs);
// "inputs: message" and a newline, as in `--- error`.
std::string error_text(const Error& error);
// Whether both texts are equal but for floats within the tolerance, absolute or relative to the
// expected one.
bool close_enough(const std::string& expected, const std::string& actual,
                  std::optional<double> tolerance);

}  // namespace anydim::ir::test
