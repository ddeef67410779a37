// anydim worker: tries what the tuner asks for, one case a line, so that the tuner survives what a
// kernel does to its process.
#include <CLI/CLI.hpp>

#include "api/tuning_worker.h"
#include "tools/command.h"

namespace anydim::tools {

void add_worker(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "worker", "carry out measurements read from standard input, one JSON object a line");
  command->callback([&action] { action = [] { serve_tuning(); }; });
}

}  // namespace anydim::tools
