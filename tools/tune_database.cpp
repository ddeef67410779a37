#include "tools/tune_database.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tools/output.h"

namespace anydim::tools {

namespace {

using Json = nlohmann::ordered_json;
using Access = tuner::Database::Access;

std::string environment_text(const tuner::Environment& environment) {
  return fmt::format("{}{}{}, {}, {} threads; {}; generator {}", environment.device,
                     environment.driver.empty() ? "" : ", driver ", environment.driver,
                     environment.precision, environment.threads, environment.target,
                     environment.generator);
}

std::string_view chosen_by(const ir::TunedEntry& entry) {
  return name_of(entry.measured ? ir::EntryOrigin::TunedMeasured : ir::EntryOrigin::TunedPredicted);
}

Json to_json(const tuner::ChosenEntry& chosen) {
  Json json = {{"bucket", to_string(chosen.entry.bucket)},
               {"compiled_for", to_string(chosen.entry.kernel)},
               {"schedule", to_string(chosen.entry.schedule)},
               {"us", 1e6 * chosen.entry.seconds},
               {"chosen", chosen_by(chosen.entry)}};
  if (chosen.roofline_seconds > 0 && chosen.entry.seconds > 0)
    json["share_of_roofline"] = chosen.roofline_seconds / chosen.entry.seconds;
  return json;
}

void show_json(const tuner::Database& database, const std::filesystem::path& file) {
  Json tables = Json::array();
  for (const tuner::StoredTable& table : database.tables()) {
    const tuner::Environment& environment = table.environment;
    Json entries = Json::array();
    for (const tuner::ChosenEntry& chosen : table.entries) entries.push_back(to_json(chosen));
    tables.push_back({{"region", table.region.name},
                      {"description", table.region.description},
                      {"device", environment.device},
                      {"target", environment.target},
                      {"driver", environment.driver},
                      {"generator", environment.generator},
                      {"precision", environment.precision},
                      {"threads", environment.threads},
                      {"model", table.run.model},
                      {"distribution", table.run.distribution},
                      {"finished", table.run.finished},
                      {"entries", entries}});
  }
  const Json object = {{"database", file.string()},
                       {"measurements", database.measurement_count()},
                       {"tables", tables}};
  put_json(object);
}

void show_text(const tuner::Database& database, const std::filesystem::path& file) {
  const std::vector<tuner::StoredTable> tables = database.tables();
  put("{}: {} measurements, {} tuned regions\n", file.string(), database.measurement_count(),
      tables.size());
  const tuner::Environment* shown = nullptr;
  for (const tuner::StoredTable& table : tables) {
    if (shown == nullptr || !(*shown == table.environment))
      put("\n{}\n", environment_text(table.environment));
    shown = &table.environment;
    put("\n  {}  for {}, {}, at {}\n",
        table.region.name.empty() ? "a region without a name" : table.region.name, table.run.model,
        table.run.distribution, table.run.finished);
    for (const tuner::ChosenEntry& chosen : table.entries) {
      const bool known = chosen.roofline_seconds > 0 && chosen.entry.seconds > 0;
      put("    {}  {}  {:.2f} us{}  {}\n", to_string(chosen.entry.bucket),
          to_string(chosen.entry.schedule), 1e6 * chosen.entry.seconds,
          known ? fmt::format(", {:.0f} % of the roofline",
                              100 * chosen.roofline_seconds / chosen.entry.seconds)
                : "",
          chosen_by(chosen.entry));
    }
  }
}

void export_to(const tuner::Database& database, const std::string& file) {
  std::ofstream stream(file, std::ios::binary);
  stream << database.export_json();
  stream.flush();
  if (!stream) throw Error(ErrorKind::Write, "{} cannot be written", file);
}

void tell(const tuner::MergeCounts& counts, const std::filesystem::path& file, bool json) {
  if (json) {
    const Json object = {{"database", file.string()},
                         {"measurements", counts.measurements},
                         {"tables", counts.tables},
                         {"runs", counts.runs}};
    put_json(object);
    return;
  }
  put("{}: took over {} measurements, {} tables, {} runs\n", file.string(), counts.measurements,
      counts.tables, counts.runs);
}

}  // namespace

void add_database_options(CLI::App& command, DatabaseCommand& options) {
  command.add_flag("--show", options.show, "list what the tuning database holds");
  command.add_option("--export", options.export_file,
                     "write the tuning database as JSON to this file");
  command.add_option("--import", options.import_file, "take over what such a JSON file holds");
  command.add_option("--merge", options.merged_file,
                     "take over what another tuning database holds");
}

void run_database_command(const DatabaseCommand& command, const CommonOptions& common) {
  const int wishes = (command.show ? 1 : 0) + (command.export_file.empty() ? 0 : 1) +
                     (command.import_file.empty() ? 0 : 1) + (command.merged_file.empty() ? 0 : 1);
  if (wishes > 1)
    throw Error(ErrorKind::CommandLine,
                "tune takes one of --show, --export, --import and --merge at a time");
  const std::filesystem::path file = compile_options(common).database.value_or("");
  if (file.empty())
    throw Error(
        ErrorKind::CommandLine,
        "there is no cache folder to look for a tuning database in; name one with --db FILE");
  if (command.show) {
    const tuner::Database database(file, Access::Read);
    common.json ? show_json(database, file) : show_text(database, file);
  } else if (!command.export_file.empty()) {
    export_to(tuner::Database(file, Access::Read), command.export_file);
  } else if (!command.import_file.empty()) {
    const std::string text = tuner::read_text_file(command.import_file);
    try {
      tell(tuner::Database(file, Access::Write).import_json(text), file, common.json);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::Malformed) throw;
      throw Error(ErrorKind::Malformed, "{}: {}", command.import_file, error.what());
    }
  } else {
    const tuner::Database other(command.merged_file, Access::Read);
    tell(tuner::Database(file, Access::Write).merge(other), file, common.json);
  }
}

}  // namespace anydim::tools
