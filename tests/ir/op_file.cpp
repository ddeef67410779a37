#include "tests/ir/op_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <sstream>

#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "tests/ir/parse_parts.h"

namespace anydim::ir::test {
namespace {

constexpr std::string_view between_cases = "=====";
constexpr std::string_view input_mark = "// INPUT ";
constexpr std::string_view tolerance_mark = "// TOLERANCE ";
constexpr std::string_view passes_mark = "// PASSES ";
constexpr std::string_view precision_mark = "// PRECISION ";
constexpr std::string_view kept_mark = "// KEEP ";

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

[[noreturn]] void fail(const std::string& place, const std::string& what) {
  throw Error(ErrorKind::Malformed, place + ": " + what);
}

// "x = f32 (2) [1, 2]"
std::pair<std::string, Tensor> named_tensor(std::string_view text, const std::string& place) {
  const std::size_t equals = text.find(" = ");
  if (equals == std::string_view::npos)
    fail(place, fmt::format("expected 'name = tensor', found '{}'", text));
  return {std::string(text.substr(0, equals)), parse_tensor(text.substr(equals + 3))};
}

OpCase read_case(const std::vector<std::string>& lines, const std::string& place) {
  OpCase one;
  std::string* section = &one.source;
  for (const std::string& line : lines) {
    if (line.starts_with("--- ")) {
      const std::string name = line.substr(4);
      std::optional<std::string>* wanted = nullptr;
      if (name == "inferred") wanted = &one.inferred;
      if (name == "module") wanted = &one.module;
      if (name == "outputs") wanted = &one.outputs;
      if (name == "error") wanted = &one.error;
      if (wanted == nullptr || *wanted)
        fail(place, fmt::format("the section '{}' is unknown or given twice", name));
      section = &wanted->emplace();
      continue;
    }
    if (section == &one.source && line.starts_with(input_mark)) {
      one.inputs.push_back(named_tensor(std::string_view(line).substr(input_mark.size()), place));
    } else if (section == &one.source && line.starts_with(tolerance_mark)) {
      one.tolerance = std::stod(line.substr(tolerance_mark.size()));
    } else if (section == &one.source && line.starts_with(passes_mark)) {
      one.passes = words_of(line.substr(passes_mark.size()));
    } else if (section == &one.source && line.starts_with(precision_mark)) {
      one.precision = line.substr(precision_mark.size());
    } else if (section == &one.source && line.starts_with(kept_mark)) {
      one.kept = words_of(line.substr(kept_mark.size()));
    }
    *section += line + "\n";
  }
  return one;
}

std::string_view kind_text(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::CommandLine: return "command line";
    case ErrorKind::Unsupported: return "unsupported";
    case ErrorKind::Malformed: return "malformed";
    case ErrorKind::Inputs: return "inputs";
    case ErrorKind::Resource: return "resource";
    case ErrorKind::Write: return "write";
    case ErrorKind::Cancelled: return "cancelled";
    case ErrorKind::Internal: break;
  }
  return "internal";
}

bool close_floats(const Tensor& expected, const Tensor& actual, double tolerance) {
  if (expected.dtype() != actual.dtype() || expected.dims() != actual.dims()) return false;
  if (!is_float(expected.dtype())) return expected.same_bits(actual);
  for (std::int64_t i = 0; i < expected.elements(); ++i) {
    const double wanted = expected.real_at(i);
    const double got = actual.real_at(i);
    if (std::isnan(wanted) && std::isnan(got)) continue;
    if (wanted == got) continue;
    if (!(std::abs(wanted - got) <= tolerance * std::max(1.0, std::abs(wanted)))) return false;
  }
  return true;
}

}  // namespace

OpFile read_op_file(const std::filesystem::path& path) {
  std::ifstream stream(path);
  if (!stream) fail(path.string(), "cannot be read");
  std::ostringstream text;
  text << stream.rdbuf();
  OpFile file;
  file.path = path;
  std::vector<std::string> lines;
  const auto finish = [&] {
    file.cases.push_back(
        read_case(lines, fmt::format("{}, case {}", path.string(), file.cases.size() + 1)));
    lines.clear();
  };
  for (std::string& line : lines_of(text.str())) {
    if (line == between_cases) {
      finish();
    } else {
      lines.push_back(std::move(line));
    }
  }
  finish();
  return file;
}

std::string text_of(const OpFile& file) {
  std::string text;
  for (const OpCase& one : file.cases) {
    if (!text.empty()) text += std::string(between_cases) + "\n";
    text += one.source;
    if (one.inferred) text += "--- inferred\n" + *one.inferred;
    if (one.module) text += "--- module\n" + *one.module;
    if (one.outputs) text += "--- outputs\n" + *one.outputs;
    if (one.error) text += "--- error\n" + *one.error;
  }
  return text;
}

std::vector<std::filesystem::path> op_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".test") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::vector<Tensor> ordered_inputs(const OpCase& one, const Function& main) {
  std::vector<Tensor> inputs;
  for (const ValueId id : main.body.parameters) {
    const std::string& name = main.values[id].name;
    const auto found = std::find_if(one.inputs.begin(), one.inputs.end(),
                                    [&](const auto& input) { return input.first == name; });
    if (found == one.inputs.end()) fail("a case", fmt::format("there is no INPUT {}", name));
    inputs.push_back(found->second);
  }
  if (inputs.size() != one.inputs.size())
    fail("a case", "an INPUT is not a parameter of @main, or is given twice");
  return inputs;
}

std::string outputs_text(const Function& main, const std::vector<Tensor>& outputs) {
  std::string text;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    text += fmt::format("{} = {}\n", main.result_names[i], print(outputs[i]));
  return text;
}

std::string error_text(const Error& error) {
  return fmt::format("{}: {}\n", kind_text(error.kind()), error.what());
}

bool close_enough(const std::string& expected, const std::string& actual,
                  std::optional<double> tolerance) {
  if (expected == actual) return true;
  if (!tolerance) return false;
  const std::vector<std::string> wanted = lines_of(expected);
  const std::vector<std::string> got = lines_of(actual);
  return std::equal(wanted.begin(), wanted.end(), got.begin(), got.end(),
                    [&](const std::string& left, const std::string& right) {
                      const auto [left_name, left_tensor] = named_tensor(left, "outputs");
                      const auto [right_name, right_tensor] = named_tensor(right, "outputs");
                      return left_name == right_name &&
                             close_floats(left_tensor, right_tensor, *tolerance);
                    });
}

}  // namespace anydim::ir::test
