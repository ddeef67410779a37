// The database as JSON, and back.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>

#include "ir/error.h"
#include "ir/printable.h"
#include "tuner/database_connection.h"
#include "tuner/database_text.h"
#include "tuner/json.h"

namespace anydim::tuner {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view format_name = "anydim tuning database";

Json lists_of(const ir::Bucket& bucket) {
  Json lists = Json::array();
  for (const ir::BucketInterval& interval : bucket.intervals)
    lists.push_back({interval.low, interval.high, interval.multiple});
  return lists;
}

Json to_json(const ModelRun& run) {
  return {{"model", run.model},
          {"distribution", run.distribution},
          {"budget_seconds", run.budget_seconds},
          {"most_kernels", run.most_kernels},
          {"kernels", run.kernels},
          {"trials", run.trials},
          {"expected_seconds", run.expected_seconds},
          {"lower_bound_seconds", run.lower_bound_seconds},
          {"default_seconds", run.default_seconds},
          {"finished", run.finished},
          {"report", run.report}};
}

Json to_json(const Measurement& one, std::size_t region) {
  const ir::KernelResources& resources = one.resources;
  return {{"region", region},
          {"keys", one.keys},
          {"schedule", to_string(one.schedule)},
          {"multiples", one.multiples},
          {"outcome", name_of(one.outcome)},
          {"measured", one.measured},
          {"seconds", one.seconds},
          {"spread", one.spread},
          {"samples", one.samples},
          {"resources",
           {{"code_bytes", resources.code_bytes},
            {"instructions", resources.instructions},
            {"spills", resources.spills},
            {"registers", resources.registers},
            {"stack_bytes", resources.stack_bytes},
            {"shared_bytes", resources.shared_bytes}}},
          {"detail", one.detail}};
}

Json to_json(const StoredTable& table, std::size_t region) {
  Json entries = Json::array();
  for (const ChosenEntry& chosen : table.entries) {
    entries.push_back({{"bucket", lists_of(chosen.entry.bucket)},
                       {"kernel", lists_of(chosen.entry.kernel)},
                       {"schedule", to_string(chosen.entry.schedule)},
                       {"seconds", chosen.entry.seconds},
                       {"measured", chosen.entry.measured},
                       {"roofline_seconds", chosen.roofline_seconds}});
  }
  return {{"region", region}, {"run", to_json(table.run)}, {"entries", entries}};
}

std::int64_t integer(const Json& json, const char* name) {
  try {
    return integer_of(json.at(name));
  } catch (const Error& error) {
    throw Error(error.kind(), "\"{}\": {}", name, error.what());
  }
}

std::vector<std::int64_t> integers(const Json& json, const char* name) {
  const Json& list = json.at(name);
  if (!list.is_array()) throw Error(ErrorKind::Malformed, "\"{}\" is no list", name);
  std::vector<std::int64_t> found;
  for (const Json& value : list) found.push_back(integer_of(value));
  return found;
}

// At least 0.
double number(const Json& json, const char* name) {
  const Json& value = json.at(name);
  if (!value.is_number() || !(value.get<double>() >= 0))
    throw Error(ErrorKind::Malformed, "\"{}\" is {}, not a number of at least 0", name,
                printable_json(value));
  return value.get<double>();
}

const std::string& identity_of(const Json& json, const std::vector<RegionRecord>& regions) {
  const std::int64_t place = integer(json, "region");
  if (place < 0 || static_cast<std::size_t>(place) >= regions.size())
    throw Error(ErrorKind::Malformed, "\"region\" is {}, but {} regions are listed", place,
                regions.size());
  return regions[static_cast<std::size_t>(place)].identity;
}

ModelRun run_from(const Json& json) {
  ModelRun run{.model = json.at("model"), .distribution = json.at("distribution")};
  run.budget_seconds = number(json, "budget_seconds");
  run.most_kernels = integer(json, "most_kernels");
  run.kernels = integer(json, "kernels");
  run.trials = integer(json, "trials");
  run.expected_seconds = number(json, "expected_seconds");
  run.lower_bound_seconds = number(json, "lower_bound_seconds");
  run.default_seconds = number(json, "default_seconds");
  run.finished = json.at("finished");
  run.report = json.at("report");
  return run;
}

Measurement measurement_from(const Json& json, const std::vector<RegionRecord>& regions) {
  Measurement one{.region = identity_of(json, regions), .keys = integers(json, "keys")};
  one.schedule = ir::parse_schedule(json.at("schedule").get<std::string>());
  one.multiples = integers(json, "multiples");
  one.outcome = parse_outcome(json.at("outcome").get<std::string>());
  one.measured = json.at("measured");
  one.seconds = number(json, "seconds");
  one.spread = number(json, "spread");
  one.samples = integer(json, "samples");
  if (one.samples < 0)
    throw Error(ErrorKind::Malformed, "\"samples\" is {}, not at least 0", one.samples);
  const Json& resources = json.at("resources");
  one.resources.code_bytes = integer(resources, "code_bytes");
  one.resources.instructions = integer(resources, "instructions");
  one.resources.spills = integer(resources, "spills");
  one.resources.registers = integer(resources, "registers");
  one.resources.stack_bytes = integer(resources, "stack_bytes");
  one.resources.shared_bytes = integer(resources, "shared_bytes");
  one.detail = json.at("detail");
  return one;
}

ChosenTable table_from(const Json& json, const std::vector<RegionRecord>& regions) {
  ChosenTable table{.region = identity_of(json, regions), .entries = {}};
  for (const Json& entry : json.at("entries")) {
    ChosenEntry& chosen = table.entries.emplace_back();
    chosen.entry.bucket = bucket_of(entry.at("bucket"));
    chosen.entry.kernel = bucket_of(entry.at("kernel"));
    chosen.entry.schedule = ir::parse_schedule(entry.at("schedule").get<std::string>());
    chosen.entry.seconds = number(entry, "seconds");
    chosen.entry.measured = entry.at("measured");
    chosen.roofline_seconds = number(entry, "roofline_seconds");
  }
  return table;
}

// When the table that is there was chosen; empty: there is none.
std::string chosen_at(const sqlite::Connection& sqlite, std::int64_t environment,
                      std::int64_t region) {
  sqlite::Statement select(sqlite,
                           "SELECT finished FROM tables JOIN runs ON runs.id = tables.run WHERE "
                           "tables.environment = ? AND region = ?");
  select.bind(environment).bind(region);
  return select.step() ? select.text() : std::string();
}

// The id of an equal run; 0: there is none.
std::int64_t equal_run(const sqlite::Connection& sqlite, std::int64_t environment,
                       const ModelRun& run) {
  sqlite::Statement select(sqlite,
                           "SELECT id FROM runs WHERE environment = ? AND finished = ? AND model = "
                           "? AND distribution = ? AND trials = ? AND most_kernels = ?");
  select.bind(environment)
      .bind(run.finished)
      .bind(run.model)
      .bind(run.distribution)
      .bind(run.trials)
      .bind(run.most_kernels);
  return select.step() ? select.integer() : 0;
}

}  // namespace

std::string Database::export_json() const {
  const sqlite::Transaction transaction(connection_->sqlite, sqlite::Transaction::Kind::Read);
  Json object = {{"format", format_name}, {"schema", schema_version}};
  std::map<std::string, std::size_t> positions;
  // The list of regions comes from an index, the rows that name them from the tables: in a damaged
  // file the two differ.
  const auto position_of = [&](const std::string& identity) {
    const auto found = positions.find(identity);
    if (found == positions.end())
      connection_->sqlite.damaged(fmt::format("it has rows of a region `{}` that it does not list",
                                              ir::printable(identity)));
    return found->second;
  };
  object["regions"] = Json::array();
  for (const RegionRecord& region : regions()) {
    positions.emplace(region.identity, positions.size());
    object["regions"].push_back({{"identity", region.identity},
                                 {"name", region.name},
                                 {"description", region.description}});
  }
  object["environments"] = Json::array();
  const std::vector<StoredTable> stored = tables();
  for (const Environment& environment : environments()) {
    Json one = {{"device", environment.device},       {"target", environment.target},
                {"driver", environment.driver},       {"generator", environment.generator},
                {"precision", environment.precision}, {"threads", environment.threads}};
    one["measurements"] = Json::array();
    for (const Measurement& measurement : measurements(environment))
      one["measurements"].push_back(to_json(measurement, position_of(measurement.region)));
    // Runs of the same second are told apart by what they say.
    std::vector<std::pair<std::string, Json>> runs_by_time;
    for (const ModelRun& run : runs(environment)) {
      Json json = to_json(run);
      runs_by_time.emplace_back(
          run.finished + json.dump(-1, ' ', false, Json::error_handler_t::replace),
          std::move(json));
    }
    std::ranges::sort(runs_by_time, {}, &std::pair<std::string, Json>::first);
    one["runs"] = Json::array();
    for (auto& [time, run] : runs_by_time) one["runs"].push_back(std::move(run));
    std::map<std::size_t, Json> tables_by_region;
    for (const StoredTable& table : stored) {
      const std::size_t region = position_of(table.region.identity);
      if (table.environment == environment)
        tables_by_region.emplace(region, to_json(table, region));
    }
    one["tables"] = Json::array();
    for (auto& [region, table] : tables_by_region) one["tables"].push_back(std::move(table));
    object["environments"].push_back(std::move(one));
  }
  return object.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

MergeCounts Database::import_json(std::string_view text) {
  const auto wrong = [](const std::string& why) {
    return Error(ErrorKind::Malformed, "this is no export of a tuning database: " + why);
  };
  const Json object = parse_ordered_json(text);
  if (object.is_discarded()) throw wrong("it is no JSON, or nests too deep");
  if (!object.is_object() || !object.contains("format") || object["format"] != format_name)
    throw wrong(fmt::format("\"format\" is not \"{}\"", format_name));
  const sqlite::Connection& sqlite = connection_->sqlite;
  try {
    if (const std::int64_t schema = integer(object, "schema"); schema > schema_version)
      throw wrong(fmt::format("it is of a newer Anydim (schema {}, this one knows up to {})",
                              schema, schema_version));
    MergeCounts counts;
    sqlite::Transaction transaction(sqlite);
    std::vector<RegionRecord> regions;
    for (const Json& region : object.at("regions")) {
      regions.push_back({region.at("identity"), region.at("name"), region.at("description")});
      const std::int64_t id = connection_->region_id(regions.back().identity);
      sqlite::Statement named(sqlite, "SELECT name FROM regions WHERE id = ?");
      named.bind(id).step();
      if (named.text().empty()) connection_->name_region(regions.back());
    }
    for (const Json& one : object.at("environments")) {
      Environment environment{one.at("device"), one.at("target"), one.at("driver"),
                              one.at("generator"), one.at("precision")};
      const std::int64_t threads = integer(one, "threads");
      if (threads < 1 || threads > INT32_MAX)
        throw wrong(fmt::format("\"threads\" is {}, not from 1 to {}", threads, INT32_MAX));
      environment.threads = static_cast<int>(threads);
      const std::int64_t id = connection_->environment_id(environment);
      for (const Json& measurement : one.at("measurements"))
        counts.measurements +=
            connection_->record(id, measurement_from(measurement, regions), false) ? 1 : 0;
      const auto run_id = [&](const ModelRun& run) {
        if (const std::int64_t known = equal_run(sqlite, id, run); known != 0) return known;
        ++counts.runs;
        return connection_->store_run(id, run);
      };
      for (const Json& run : one.at("runs")) run_id(run_from(run));
      for (const Json& table : one.at("tables")) {
        const ModelRun run = run_from(table.at("run"));
        const ChosenTable chosen = table_from(table, regions);
        if (chosen_at(sqlite, id, connection_->region_id(chosen.region)) >= run.finished) continue;
        connection_->store_table(id, run_id(run), chosen);
        ++counts.tables;
      }
    }
    transaction.commit();
    return counts;
  } catch (const nlohmann::json::exception& error) {
    throw wrong(error.what());
  }
}

MergeCounts Database::merge(const Database& other) { return import_json(other.export_json()); }

}  // namespace anydim::tuner
