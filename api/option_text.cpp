#include "api/option_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "ir/error.h"
#include "ir/printable.h"

namespace anydim {

namespace {

struct Row {
  OptionInfo info;
  void (*set)(CompileOptions& options, std::string_view value);  // throws Error{CommandLine} where the value is wrong
};

Error wrong_value() { return {ErrorKind::CommandLine, "a value that the option does not take"}; }

bool parse_switch(std::string_view text) {
  if (text == "on") return true;
  if (text == "off") return false;
  throw wrong_value();
}

int parse_threads(std::string_view text) {
  int number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault != std::errc{} || end != text.data() + text.size() || number < 1 || number > 1024) throw wrong_value();
  return number;
}

std::string filled(std::string_view text) {
  if (text.empty()) throw wrong_value();
  return std::string(text);
}

constexpr Row rows[] = {
    {{"background", "on or off: whether kernels are compiled beside the calls, or only those that calls need first"},
     [](CompileOptions& options, std::string_view value) { options.background = parse_switch(value); }},
    {{"cache_folder", "a folder of compiled kernels, or none"},
     [](CompileOptions& options, std::string_view value) {
       const std::string folder = filled(value);
       options.keep_kernels = folder != "none";
       if (options.keep_kernels) options.cache_folder = folder;
       else options.cache_folder.reset();
     }},
    {{"cpu_level", "x86-64, avx2, avx512, avx512bf16 or amx"},
     [](CompileOptions& options, std::string_view value) { options.cpu_level = filled(value); }},
    {{"database", "a tuning database, or none"},
     [](CompileOptions& options, std::string_view value) {
       const std::string file = filled(value);
       options.database_optional = false;
       if (file == "none") options.database.reset();
       else options.database = file;
     }},
    {{"device", "cpu or cuda"}, [](CompileOptions& options, std::string_view value) { options.device = parse_device(value); }},
    {{"dim", "NAME=LOW:HIGH[:MULTIPLE] with 0 <= LOW <= HIGH and MULTIPLE >= 1, e.g. sequence=1:512"},
     [](CompileOptions& options, std::string_view value) { options.dims.push_back(parse_dim_range(value)); }},
    {{"f32_products", "exact or tf32"},
     [](CompileOptions& options, std::string_view value) { options.f32_products = parse_f32_products(value); }},
    {{"masked_rows", "keep or zero"},
     [](CompileOptions& options, std::string_view value) { options.masked_rows = parse_masked_rows(value); }},
    {{"memory_limit", "bytes of one call such as 1000000, 512M or 2GiB"},
     [](CompileOptions& options, std::string_view value) { options.memory_limit = parse_size(value, "memory_limit"); }},
    {{"output", "the name of a result"}, [](CompileOptions& options, std::string_view value) { options.outputs.push_back(filled(value)); }},
    {{"policy", "[REGION=]symbolic, bucketed, exact or library"},
     [](CompileOptions& options, std::string_view value) { options.policies.push_back(parse_policy(value)); }},
    {{"precision", "f32, bf16, f16 or int8"},
     [](CompileOptions& options, std::string_view value) { options.precision = parse_precision(value); }},
    {{"threads", "a number from 1 to 1024"},
     [](CompileOptions& options, std::string_view value) { options.threads = parse_threads(value); }},
};

}  // namespace

void set_option(CompileOptions& options, std::string_view name, std::string_view value) {
  const Row* row = std::ranges::find(rows, name, [](const Row& known) { return known.info.name; });
  if (row == std::end(rows)) {
    std::vector<std::string_view> names;
    for (const Row& known : rows) names.push_back(known.info.name);
    throw Error(ErrorKind::CommandLine, fmt::format("there is no option '{}'; there are {}", ir::printable(name), fmt::join(names, ", ")));
  }
  try {
    row->set(options, value);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::CommandLine) throw;
    throw Error(ErrorKind::CommandLine,
                fmt::format("option '{}' cannot be '{}': it takes {}", name, ir::printable(value), row->info.takes));
  }
}

std::vector<OptionInfo> option_infos() {
  std::vector<OptionInfo> infos;
  for (const Row& row : rows) infos.push_back(row.info);
  return infos;
}

std::int64_t parse_size(std::string_view text, std::string_view option) {
  const auto wrong = [&] {
    return Error(ErrorKind::CommandLine, fmt::format("{} {} is not a size such as 1000000, 512M or 2GiB", option, text));
  };
  std::int64_t number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault != std::errc{} || number < 0) throw wrong();
  std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (unit.ends_with("iB")) {
    unit.remove_suffix(2);
    if (unit.empty()) throw wrong();
  } else if (unit.ends_with("B")) {
    unit.remove_suffix(1);
  }
  constexpr std::string_view units = "KMGT";
  int shift = 0;
  if (!unit.empty()) {
    const std::size_t found = units.find(unit);
    if (unit.size() != 1 || found == std::string_view::npos) throw wrong();
    shift = 10 * static_cast<int>(found + 1);
  }
  if (number > (INT64_MAX >> shift)) throw wrong();
  return number << shift;
}

}  // namespace anydim
