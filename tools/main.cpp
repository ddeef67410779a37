// The `anydim` command.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tools/command.h"
#include "tools/output.h"
#include "tools/process.h"

namespace anydim::tools {
namespace {

// One clear sentence first; with --json standard output still holds one object.
int fail(ErrorKind kind, std::string_view said, bool json) {
  const std::string message = ir::printable_message(said);
  std::fflush(stdout);
  complain(fmt::format("anydim: {}\n", message));
  const int code = static_cast<int>(kind);
  if (json) {
    try {
      put_json(nlohmann::json{{"error", message}, {"exit_code", code}});
      flush_output();
    } catch (const Error&) {
      // The first fault stays what is reported.
    }
  }
  return code;
}

// The first word where it is neither an option nor a command: CLI11 only says that a command is
// missing.
std::string unknown_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return {};
  std::string known;
  for (const CLI::App* command : app.get_subcommands({})) {
    if (command->get_name() == argv[1]) return {};
    known += fmt::format("{}{}", known.empty() ? "" : ", ", command->get_name());
  }
  return fmt::format("there is no command '{}'; there are {}", argv[1], known);
}

std::string one_sentence(std::string message) {
  std::ranges::replace(message, '\n', ' ');
  while (!message.empty() && (message.back() == ' ' || message.back() == '.')) message.pop_back();
  return message + "; `anydim --help` and `anydim COMMAND --help` list what there is";
}

bool wants_json(int argc, char** argv) {
  return std::any_of(argv, argv + argc,
                     [](const char* word) { return std::string_view(word) == "--json"; });
}

// --help and --version.
int succeed(const CLI::App& app, const CLI::Success& success) {
  std::ostringstream out;
  app.exit(success, out, out);
  try {
    put_text(out.view());
    flush_output();
    return 0;
  } catch (const Error& error) {
    return fail(error.kind(), error.what(), false);
  }
}

int run(int argc, char** argv, const ProcessClock& clock) {
  CLI::App app("Compiles tensor programs once for every shape they will meet, and runs them.",
               "anydim");
  app.require_subcommand(1);
  app.set_version_flag("--version", "anydim " ANYDIM_VERSION);
  CommonOptions common;
  Action action;
  add_run(app, common, action);
  add_opt(app, common, action);
  add_explain(app, common, action);
  add_bench(app, common, action, clock);
  add_compare(app, common, action);
  add_doctor(app, common, action);
  add_tune(app, common, action);
  add_worker(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return succeed(app, success);
  } catch (const CLI::ParseError& error) {
    const std::string unknown = unknown_command(app, argc, argv);
    return fail(ErrorKind::CommandLine, unknown.empty() ? one_sentence(error.what()) : unknown,
                wants_json(argc, argv));
  }
  try {
    action();
    flush_output();
    return 0;
  } catch (const Ends& end) {
    flush_output();
    return end.code;
  } catch (const Error& error) {
    return fail(error.kind(), error.what(), common.json);
  } catch (const std::bad_alloc&) {
    return fail(ErrorKind::Resource, "out of memory", common.json);
  } catch (const std::exception& error) {
    return fail(ErrorKind::Internal, fmt::format("internal error, a bug here: {}", error.what()),
                common.json);
  }
}

}  // namespace
}  // namespace anydim::tools

int main(int argc, char** argv) {
  const anydim::tools::ProcessClock clock;
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error to report, as a full disk
  anydim::tools::hold_standard_streams();
  anydim::tools::explain_cut_files();
  try {
    return anydim::tools::run_on_own_stack([&] { return anydim::tools::run(argc, argv, clock); });
  } catch (const anydim::Error& error) {
    return anydim::tools::fail(error.kind(), error.what(), anydim::tools::wants_json(argc, argv));
  }
}
