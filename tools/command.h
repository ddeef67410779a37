// What the subcommands share: common options, messages, results.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "api/anydim.h"
#include "tools/process.h"

namespace CLI {
class App;
}

namespace anydim::tools {

struct CommonOptions {
  std::string device = "cpu";
  std::string executor = "auto";
  std::vector<std::string> policies;
  std::string precision = "f32";
  std::string f32_products = "exact";
  std::string masked_rows = "keep";
  bool append_in_place = false;
  std::vector<std::string> dims;
  int threads = 0;
  std::string database;
  std::string cache_folder;
  std::string memory_limit;
  std::string cpu_level;
  bool json = false;
  bool quiet = false;
};
void add_common_options(CLI::App& command, CommonOptions& options);
void add_outputs_option(CLI::App& command, std::vector<std::string>& outputs);

// Throws Error{CommandLine} for what this build does not do, Error{Resource} for a device that it
// lacks.
CompileOptions compile_options(const CommonOptions& options);

// Warnings on standard error; none where quiet.
runtime::Warning warning_log(bool quiet);

// Thrown by an action that has printed all there is to say, for the exit code.
struct Ends {
  int code = 0;
};

// Each adds its subcommand; `action` is set to what the chosen one does.
using Action = std::function<void()>;
void add_run(CLI::App& app, CommonOptions& common, Action& action);
void add_opt(CLI::App& app, CommonOptions& common, Action& action);
void add_explain(CLI::App& app, CommonOptions& common, Action& action);
void add_bench(CLI::App& app, CommonOptions& common, Action& action, const ProcessClock& clock);
void add_compare(CLI::App& app, CommonOptions& common, Action& action);
void add_tune(CLI::App& app, CommonOptions& common, Action& action);
void add_worker(CLI::App& app, Action& action);
void add_doctor(CLI::App& app, CommonOptions& common, Action& action);

}  // namespace anydim::tools
