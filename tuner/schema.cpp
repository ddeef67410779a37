#include "tuner/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <compare>
#include <set>
#include <string>

#include "ir/error.h"
#include "ir/printable.h"

namespace anydim::tuner {

namespace {

// Lists of numbers and buckets are JSON text: "[128, 64]", "[[1, 512, 1]]" (low, high, multiple of
// each key).
constexpr std::string_view first_step = R"sql(
CREATE TABLE environments (
  id INTEGER PRIMARY KEY,
  device TEXT NOT NULL, target TEXT NOT NULL, driver TEXT NOT NULL, generator TEXT NOT NULL, precision TEXT NOT NULL,
  threads INTEGER NOT NULL CHECK (threads > 0),
  UNIQUE (device, target, driver, generator, precision, threads)
);
CREATE TABLE regions (
  id INTEGER PRIMARY KEY,
  identity TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL, description TEXT NOT NULL
);
CREATE TABLE measurements (
  environment INTEGER NOT NULL REFERENCES environments (id),
  region INTEGER NOT NULL REFERENCES regions (id),
  keys TEXT NOT NULL, schedule TEXT NOT NULL, multiples TEXT NOT NULL,
  outcome TEXT NOT NULL CHECK (outcome IN ('ok', 'wrong', 'crashed', 'hung', 'out_of_bounds', 'out_of_memory', 'uncompiled')),
  measured INTEGER NOT NULL CHECK (measured IN (0, 1)),
  seconds REAL NOT NULL CHECK (seconds >= 0), spread REAL NOT NULL CHECK (spread >= 0), samples INTEGER NOT NULL CHECK (samples >= 0),
  code_bytes INTEGER NOT NULL, instructions INTEGER NOT NULL, spills INTEGER NOT NULL, registers INTEGER NOT NULL,
  stack_bytes INTEGER NOT NULL, shared_bytes INTEGER NOT NULL,
  detail TEXT NOT NULL,
  PRIMARY KEY (environment, region, keys, schedule, multiples)
) WITHOUT ROWID;
CREATE TABLE runs (
  id INTEGER PRIMARY KEY,
  environment INTEGER NOT NULL REFERENCES environments (id),
  model TEXT NOT NULL, distribution TEXT NOT NULL,
  budget_seconds REAL NOT NULL, most_kernels INTEGER NOT NULL, kernels INTEGER NOT NULL, trials INTEGER NOT NULL,
  expected_seconds REAL NOT NULL, lower_bound_seconds REAL NOT NULL, default_seconds REAL NOT NULL,
  finished TEXT NOT NULL
);
CREATE TABLE tables (
  environment INTEGER NOT NULL REFERENCES environments (id),
  region INTEGER NOT NULL REFERENCES regions (id),
  run INTEGER NOT NULL REFERENCES runs (id),
  PRIMARY KEY (environment, region)
) WITHOUT ROWID;
CREATE TABLE entries (
  environment INTEGER NOT NULL, region INTEGER NOT NULL, position INTEGER NOT NULL,
  bucket TEXT NOT NULL, kernel TEXT NOT NULL, schedule TEXT NOT NULL,
  seconds REAL NOT NULL CHECK (seconds >= 0), measured INTEGER NOT NULL CHECK (measured IN (0, 1)),
  PRIMARY KEY (environment, region, position),
  FOREIGN KEY (environment, region) REFERENCES tables (environment, region)
) WITHOUT ROWID;
)sql";

constexpr std::string_view second_step = R"sql(
ALTER TABLE entries ADD COLUMN roofline_seconds REAL NOT NULL DEFAULT 0 CHECK (roofline_seconds >= 0);
ALTER TABLE runs ADD COLUMN report TEXT NOT NULL DEFAULT '';
)sql";

constexpr std::string_view steps[] = {first_step, second_step};

struct SchemaRow {
  std::string type, name, table, statement;
  auto operator<=>(const SchemaRow&) const = default;
};

std::set<SchemaRow> schema_of(const sqlite::Connection& connection) {
  sqlite::Statement rows(connection, "SELECT type, name, tbl_name, sql FROM sqlite_schema");
  std::set<SchemaRow> found;
  while (rows.step()) found.insert({rows.text(), rows.text(), rows.text(), rows.text()});
  return found;
}

// Tables and views of others may stand beside ours, but nothing that SQLite would run or keep up
// when it reads or writes ours.
void check_schema(const sqlite::Connection& connection, int version) {
  const sqlite::Connection own({}, sqlite::Connection::Mode::Memory);
  for (const std::string_view step : std::span(steps).first(static_cast<std::size_t>(version)))
    own.run(std::string(step));
  const std::set<SchemaRow> wanted = schema_of(own), there = schema_of(connection);
  for (const SchemaRow& row : wanted)
    if (!there.contains(row))
      connection.damaged(fmt::format("its {} {} is missing, or not as schema {} has it", row.type,
                                     row.name, version));
  const auto is_ours = [&](const std::string& table) {
    return std::ranges::any_of(wanted, [&](const SchemaRow& row) { return row.table == table; });
  };
  for (const SchemaRow& row : there)
    if (!wanted.contains(row) && (row.type == "trigger" || is_ours(row.table)))
      connection.damaged(fmt::format("it has the {} {}, which schema {} does not", row.type,
                                     ir::printable(row.name), version));
}

}  // namespace

std::span<const std::string_view> schema_steps() { return steps; }

int check_version(const sqlite::Connection& connection, std::string_view file) {
  const std::int64_t version = connection.number("PRAGMA user_version");
  const std::int64_t owner = connection.number("PRAGMA application_id");
  const bool empty = connection.number("SELECT count(*) FROM sqlite_schema") == 0;
  if (empty && version == 0 && owner == 0) return 0;
  if (owner != application_id || version < 1)
    throw Error(ErrorKind::Malformed,
                "{} is no tuning database: it is another program's SQLite file", file);
  if (version > static_cast<std::int64_t>(std::size(steps))) {
    throw Error(ErrorKind::Malformed,
                "the tuning database {} was written by a newer Anydim (schema {}, this one knows "
                "up to {}); use that one, or name another file",
                file, version, std::size(steps));
  }
  check_schema(connection, static_cast<int>(version));
  return static_cast<int>(version);
}

void bring_up_to_date(sqlite::Connection& connection, std::string_view file) {
  if (check_version(connection, file) == static_cast<int>(std::size(steps))) return;
  sqlite::Transaction transaction(connection);
  // Another writer may have been faster.
  for (auto version = static_cast<std::size_t>(check_version(connection, file));
       version < std::size(steps); ++version)
    connection.run(std::string(steps[version]));
  connection.run(fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}", application_id,
                             std::size(steps)));
  transaction.commit();
}

}  // namespace anydim::tuner
