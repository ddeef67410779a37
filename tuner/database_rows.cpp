// Rows written, one kind after the other; callers are inside a transaction.
#include <fmt/format.h>

#include <cmath>
#include <ctime>

#include "ir/error.h"
#include "tuner/database_connection.h"
#include "tuner/database_text.h"

namespace anydim::tuner {

namespace {

bool sensible(double value) { return std::isfinite(value) && value >= 0; }

}  // namespace

std::string now_utc() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

std::int64_t Database::Connection::environment_id(const Environment& environment) const {
  const auto bind = [&](sqlite::Statement& statement) {
    statement.bind(environment.device)
        .bind(environment.target)
        .bind(environment.driver)
        .bind(environment.generator);
    statement.bind(environment.precision).bind(std::int64_t{environment.threads});
  };
  sqlite::Statement insert(sqlite,
                           "INSERT OR IGNORE INTO environments (device, target, driver, generator, "
                           "precision, threads) VALUES (?, ?, ?, ?, ?, ?)");
  bind(insert);
  insert.run();
  sqlite::Statement select(sqlite,
                           "SELECT id FROM environments WHERE device = ? AND target = ? AND driver "
                           "= ? AND generator = ? AND precision = ? AND threads = ?");
  bind(select);
  if (!select.step()) sqlite.damaged("an environment that was inserted cannot be found");
  return select.integer();
}

std::int64_t Database::Connection::region_id(std::string_view identity) const {
  sqlite::Statement insert(
      sqlite, "INSERT OR IGNORE INTO regions (identity, name, description) VALUES (?, '', '')");
  insert.bind(identity).run();
  sqlite::Statement select(sqlite, "SELECT id FROM regions WHERE identity = ?");
  select.bind(identity);
  if (!select.step()) sqlite.damaged("a region that was inserted cannot be found");
  return select.integer();
}

void Database::Connection::name_region(const RegionRecord& region) const {
  sqlite::Statement insert(
      sqlite,
      "INSERT INTO regions (identity, name, description) VALUES (?, ?, ?) ON CONFLICT (identity) "
      "DO UPDATE SET name = excluded.name, description = excluded.description");
  insert.bind(region.identity).bind(region.name).bind(region.description).run();
}

bool Database::Connection::record(std::int64_t environment, const Measurement& one,
                                  bool replace) const {
  internal_check(sensible(one.seconds) && sensible(one.spread) && one.samples >= 0,
                 "a measurement's numbers are finite and not negative");
  const ir::KernelResources& resources = one.resources;
  std::string query =
      "INSERT INTO measurements VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON "
      "CONFLICT DO UPDATE SET outcome = excluded.outcome, measured = excluded.measured, seconds = "
      "excluded.seconds, spread = excluded.spread, samples = excluded.samples, code_bytes = "
      "excluded.code_bytes, instructions = excluded.instructions, spills = excluded.spills, "
      "registers = excluded.registers, stack_bytes = excluded.stack_bytes, shared_bytes = "
      "excluded.shared_bytes, detail = excluded.detail WHERE ";
  query += replace ? "excluded.measured >= measurements.measured"
                   : "excluded.measured > measurements.measured";
  sqlite::Statement insert(sqlite, query);
  insert.bind(environment)
      .bind(region_id(one.region))
      .bind(keys_text(one.keys))
      .bind(to_string(one.schedule));
  insert.bind(keys_text(one.multiples)).bind(name_of(one.outcome)).bind(std::int64_t{one.measured});
  insert.bind(one.seconds).bind(one.spread).bind(one.samples);
  insert.bind(resources.code_bytes)
      .bind(resources.instructions)
      .bind(resources.spills)
      .bind(resources.registers);
  insert.bind(resources.stack_bytes).bind(resources.shared_bytes).bind(one.detail);
  insert.run();
  return sqlite.number("SELECT changes()") > 0;
}

std::int64_t Database::Connection::store_run(std::int64_t environment, const ModelRun& run) const {
  sqlite::Statement insert(
      sqlite,
      "INSERT INTO runs (environment, model, distribution, budget_seconds, most_kernels, kernels, "
      "trials, expected_seconds, lower_bound_seconds, default_seconds, finished, report) VALUES "
      "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  insert.bind(environment)
      .bind(run.model)
      .bind(run.distribution)
      .bind(run.budget_seconds)
      .bind(run.most_kernels)
      .bind(run.kernels);
  insert.bind(run.trials)
      .bind(run.expected_seconds)
      .bind(run.lower_bound_seconds)
      .bind(run.default_seconds);
  insert.bind(run.finished.empty() ? now_utc() : run.finished).bind(run.report).run();
  return sqlite.number("SELECT last_insert_rowid()");
}

void Database::Connection::store_table(std::int64_t environment, std::int64_t run,
                                       const ChosenTable& table) const {
  const std::int64_t region = region_id(table.region);
  for (const char* query : {"DELETE FROM entries WHERE environment = ? AND region = ?",
                            "DELETE FROM tables WHERE environment = ? AND region = ?"})
    sqlite::Statement(sqlite, query).bind(environment).bind(region).run();
  sqlite::Statement(sqlite, "INSERT INTO tables (environment, region, run) VALUES (?, ?, ?)")
      .bind(environment)
      .bind(region)
      .bind(run)
      .run();
  sqlite::Statement insert(
      sqlite,
      "INSERT INTO entries (environment, region, position, bucket, kernel, schedule, seconds, "
      "measured, roofline_seconds) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)");
  for (std::size_t i = 0; i < table.entries.size(); ++i) {
    const ChosenEntry& chosen = table.entries[i];
    internal_check(sensible(chosen.entry.seconds) && sensible(chosen.roofline_seconds),
                   "an entry's numbers are finite and not negative");
    insert.bind(environment).bind(region).bind(static_cast<std::int64_t>(i));
    insert.bind(bucket_text(chosen.entry.bucket))
        .bind(bucket_text(chosen.entry.kernel))
        .bind(to_string(chosen.entry.schedule));
    insert.bind(chosen.entry.seconds)
        .bind(std::int64_t{chosen.entry.measured})
        .bind(chosen.roofline_seconds)
        .run();
  }
}

}  // namespace anydim::tuner
