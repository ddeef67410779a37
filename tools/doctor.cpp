// anydim doctor: what this machine offers, one line each.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "tools/command.h"
#include "tools/output.h"

namespace anydim::tools {

namespace {

void run(const CommonOptions& common) {
  const std::vector<Finding> findings = examine_system(compile_options(common));
  std::string missing;
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const Finding& finding : findings) {
    object[finding.name] = finding.value;
    if (!common.json)
      put("{:20} {}{}\n", finding.name, finding.missing ? "MISSING: " : "", finding.value);
    if (finding.missing) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", finding.name);
  }
  if (!missing.empty())
    throw Error(ErrorKind::Resource, "something that running models needs is missing: {}", missing);
  if (common.json) put_json(object);
}

}  // namespace

void add_doctor(CLI::App& app, CommonOptions& common, Action& action) {
  CLI::App* command =
      app.add_subcommand("doctor", "say what this machine offers and whether something is missing");
  add_common_options(*command, common);
  command->callback([&common, &action] { action = [&common] { run(common); }; });
}

}  // namespace anydim::tools
