// anydim worker: measures what it is told to, one case a line, so that whoever drives it survives what a kernel does to the device.
#include <CLI/CLI.hpp>
#include <iostream>
#include <nlohmann/json.hpp>

#include "tools/command.h"
#include "tools/worker_cases.h"

namespace anydim::tools {

void add_worker(CLI::App& app, CommonOptions& common, Action& action) {
  CLI::App* command = app.add_subcommand("worker", "carry out measurements read from standard input, one JSON object a line");
  add_common_options(*command, common);
  command->callback([&common, &action] {
    action = [&common] {
      CaseRunner runner(compile_options(common));
      run_worker(runner, std::cin);
    };
  });
}

}  // namespace anydim::tools
