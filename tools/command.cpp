#include "tools/command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "tools/output.h"

namespace anydim::tools {

void add_outputs_option(CLI::App& command, std::vector<std::string>& outputs) {
  command
      .add_option("--outputs", outputs, "names of the outputs wanted, with commas; default: all")
      ->delimiter(',');
}

void add_common_options(CLI::App& command, CommonOptions& options) {
  command.add_option("--device", options.device, "where to compute")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  command
      .add_option("--executor", options.executor,
                  "what runs the program; reference is slow and plain, for looking")
      ->check(CLI::IsMember({"auto", "vm", "graph", "reference"}))
      ->capture_default_str();
  command
      .add_option(
          "--policy", options.policies,
          "what serves unknown shapes: [REGION=]symbolic|bucketed|exact|library (repeatable)")
      ->allow_extra_args(false);
  command
      .add_option("--precision", options.precision,
                  "what operands of matmul and attention are rounded to; int8: products with "
                  "weights, attention in bf16")
      ->check(CLI::IsMember({"f32", "bf16", "f16", "int8"}))
      ->capture_default_str();
  command
      .add_option(
          "--f32-products", options.f32_products,
          "matmuls of f32 numbers: exact, or on CUDA's tensor cores with operands of 10 bits")
      ->check(CLI::IsMember({"exact", "tf32"}))
      ->capture_default_str();
  command
      .add_option("--masked-rows", options.masked_rows,
                  "rows of outputs that a mask leaves out: as computed, or zero")
      ->check(CLI::IsMember({"keep", "zero"}))
      ->capture_default_str();
  command.add_flag("--append-in-place", options.append_in_place,
                   "append results that are an input with something appended (a decoder's keys and "
                   "values) where that lies");
  command
      .add_option("--dim", options.dims,
                  "narrow a dimension: NAME=LOW:HIGH[:MULTIPLE] (repeatable)")
      ->allow_extra_args(false);
  command
      .add_option("--threads", options.threads,
                  "threads that compute; default: the processors this process may use")
      ->check(CLI::Range(1, most_threads()));
  command.add_option("--cpu-level", options.cpu_level,
                     "generate for x86-64, avx2, avxvnni, avx512, avx512vnni, avx512bf16 or amx; "
                     "default: the best there is");
  command.add_option("--db", options.database,
                     "tuning database; default: tuning.db in the folder of compiled kernels");
  command.add_option(
      "--cache-dir", options.cache_folder,
      "folder of compiled kernels; default $XDG_CACHE_HOME/anydim or ~/.cache/anydim");
  command.add_option("--memory-limit", options.memory_limit, "most memory of one call, e.g. 512M");
  command.add_flag("--json", options.json, "one JSON object on standard output and nothing else");
  command.add_flag("--quiet", options.quiet, "no warnings");
}

CompileOptions compile_options(const CommonOptions& options) {
  CompileOptions compile;
  compile.device = parse_device(options.device);
  compile.f32_products = parse_f32_products(options.f32_products);
  compile.precision = parse_precision(options.precision);
  compile.masked_rows = parse_masked_rows(options.masked_rows);
  compile.append_in_place = options.append_in_place;
  for (const std::string& dim : options.dims) compile.dims.push_back(parse_dim_range(dim));
  for (const std::string& text : options.policies) compile.policies.push_back(parse_policy(text));
  require_device_has(compile);
  compile.threads = options.threads;
  if (!options.cpu_level.empty()) compile.cpu_level = options.cpu_level;
  if (!options.cache_folder.empty()) compile.cache_folder = options.cache_folder;
  if (options.database.empty()) use_own_database(compile);
  else compile.database = options.database;
  if (!options.memory_limit.empty())
    compile.memory_limit = parse_size(options.memory_limit, "--memory-limit");
  compile.warn = warning_log(options.quiet);
  return compile;
}

runtime::Warning warning_log(bool quiet) {
  if (quiet) return {};
  return [](const std::string& message) {
    complain(fmt::format("anydim: warning: {}\n", ir::printable_message(message)));
  };
}

}  // namespace anydim::tools
