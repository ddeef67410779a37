#include "api/option_text.h"

#include <fmt/format.h>

#include <charconv>

#include "api/word_table.h"
#include "ir/error.h"

namespace anydim {

namespace {

constexpr WordRow<CompileOptions> rows[] = {
    {{"append_in_place",
      "on or off: whether results that are an input with something appended can be kept in a "
      "cache, which grows where it lies"},
     [](CompileOptions& options, std::string_view value) {
       options.append_in_place = parse_switch(value);
     }},
    {{"background",
      "on or off: whether kernels are compiled beside the calls, or only those that calls need "
      "first"},
     [](CompileOptions& options, std::string_view value) {
       options.background = parse_switch(value);
     }},
    {{"cache_folder", "a folder of compiled kernels, or none"},
     [](CompileOptions& options, std::string_view value) {
       const std::string folder = filled_word(value);
       options.keep_kernels = folder != "none";
       if (options.keep_kernels) options.cache_folder = folder;
       else options.cache_folder.reset();
     }},
    {{"cpu_level", "x86-64, avx2, avx512, avx512bf16 or amx"},
     [](CompileOptions& options, std::string_view value) {
       options.cpu_level = filled_word(value);
     }},
    {{"database", "a tuning database, or none"},
     [](CompileOptions& options, std::string_view value) {
       const std::string file = filled_word(value);
       options.database_optional = false;
       if (file == "none") options.database.reset();
       else options.database = file;
     }},
    {{"device", "cpu or cuda"},
     [](CompileOptions& options, std::string_view value) { options.device = parse_device(value); }},
    {{"dim",
      "NAME=LOW:HIGH[:MULTIPLE] with 0 <= LOW <= HIGH and MULTIPLE >= 1, e.g. sequence=1:512"},
     [](CompileOptions& options, std::string_view value) {
       options.dims.push_back(parse_dim_range(value));
     }},
    {{"f32_products", "exact or tf32"},
     [](CompileOptions& options, std::string_view value) {
       options.f32_products = parse_f32_products(value);
     }},
    {{"masked_rows", "keep or zero"},
     [](CompileOptions& options, std::string_view value) {
       options.masked_rows = parse_masked_rows(value);
     }},
    {{"memory_limit", "bytes of one call such as 1000000, 512M or 2GiB"},
     [](CompileOptions& options, std::string_view value) {
       options.memory_limit = parse_size(value, "memory_limit");
     }},
    {{"output", "the name of a result"},
     [](CompileOptions& options, std::string_view value) {
       options.outputs.push_back(filled_word(value));
     }},
    {{"policy", "[REGION=]symbolic, bucketed, exact or library"},
     [](CompileOptions& options, std::string_view value) {
       options.policies.push_back(parse_policy(value));
     }},
    {{"precision", "f32, bf16, f16 or int8"},
     [](CompileOptions& options, std::string_view value) {
       options.precision = parse_precision(value);
     }},
    {{"threads", "a number from 1 to 1024"},
     [](CompileOptions& options, std::string_view value) {
       options.threads = static_cast<int>(parse_number(value, 1, most_threads()));
     }},
};

}  // namespace

void set_option(CompileOptions& options, std::string_view name, std::string_view value) {
  set_word(std::span(rows), "option", options, name, value);
}

OptionWords option_words(const CompileOptions& options) {
  OptionWords words = {
      {"append_in_place", options.append_in_place ? "on" : "off"},
      {"background", options.background ? "on" : "off"},
      {"device", options.device == DeviceKind::Cuda ? "cuda" : "cpu"},
      {"f32_products", options.f32_products == F32Products::Tf32 ? "tf32" : "exact"},
      {"masked_rows", options.masked_rows == MaskedRows::Zero ? "zero" : "keep"},
      {"precision", std::string(precision_name(options.precision))}};
  if (!options.keep_kernels) words.emplace_back("cache_folder", "none");
  else if (options.cache_folder)
    words.emplace_back("cache_folder", std::filesystem::absolute(*options.cache_folder).string());
  if (options.cpu_level) words.emplace_back("cpu_level", *options.cpu_level);
  for (const DimRange& dim : options.dims)
    words.emplace_back("dim",
                       fmt::format("{}={}:{}:{}", dim.symbol, dim.low, dim.high, dim.multiple));
  if (options.memory_limit)
    words.emplace_back("memory_limit", std::to_string(*options.memory_limit));
  for (const std::string& output : options.outputs) words.emplace_back("output", output);
  for (const PolicyChoice& choice : options.policies)
    words.emplace_back("policy", (choice.region.empty() ? "" : choice.region + "=") +
                                     std::string(name_of(choice.policy)));
  if (options.threads > 0) words.emplace_back("threads", std::to_string(options.threads));
  return words;
}

std::int64_t parse_size(std::string_view text, std::string_view option) {
  const auto wrong = [&] {
    return Error(ErrorKind::CommandLine, "{} {} is not a size such as 1000000, 512M or 2GiB",
                 option, text);
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
