// anydim worker: tries what the tuner asks for, one case a line, so that the tuner survives what a kernel does to its process.
#include <CLI/CLI.hpp>
#include <iostream>
#include <nlohmann/json.hpp>

#include "tools/cases.h"
#include "tools/command.h"
#include "tools/tuning_cases.h"

namespace anydim::tools {

void add_worker(CLI::App& app, CommonOptions& common, Action& action) {
  CLI::App* command = app.add_subcommand("worker", "carry out measurements read from standard input, one JSON object a line");
  add_common_options(*command, common);
  command->callback([&common, &action] {
    action = [&common] {
      const CompileOptions options = compile_options(common);
      TuningCases cases(options, [&] { return make_target(options); });
      run_cases([&](const nlohmann::json& wanted, const std::function<void()>& compiled) { return cases.run(wanted, compiled); }, std::cin);
    };
  });
}

}  // namespace anydim::tools
