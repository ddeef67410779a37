#include "tuner/database.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <cerrno>
#include <cmath>
#include <cstring>

#include "ir/error.h"
#include "tuner/database_connection.h"
#include "tuner/database_text.h"
#include "tuner/schema.h"

namespace anydim::tuner {

namespace {

constexpr std::string_view environment_columns =
    "device, target, driver, generator, precision, threads";
constexpr std::string_view run_columns =
    "model, distribution, budget_seconds, most_kernels, kernels, trials, expected_seconds, "
    "lower_bound_seconds, default_seconds, finished, report";

// More rows than a region has shapes worth a kernel of their own.
constexpr std::size_t most_entries = 1024;

double read_number(sqlite::Statement& row, std::string_view what) {
  const double value = row.real();
  if (!(value >= 0) || !std::isfinite(value))
    throw Error(ErrorKind::Malformed, "{} are {}, not a number of at least 0", what, value);
  return value;
}

template <typename Entry>
void append_entry(std::vector<Entry>& entries, Entry entry) {
  if (entries.size() == most_entries)
    throw Error(ErrorKind::Malformed, "a region has more than {} rows", most_entries);
  entries.push_back(std::move(entry));
}

Environment read_environment(sqlite::Statement& row) {
  Environment environment{row.text(), row.text(), row.text(), row.text(), row.text()};
  environment.threads = static_cast<int>(row.integer());
  return environment;
}

ModelRun read_run(sqlite::Statement& row) {
  ModelRun run{.model = row.text(), .distribution = row.text()};
  run.budget_seconds = row.real();
  run.most_kernels = row.integer();
  run.kernels = row.integer();
  run.trials = row.integer();
  run.expected_seconds = row.real();
  run.lower_bound_seconds = row.real();
  run.default_seconds = row.real();
  run.finished = row.text();
  run.report = row.text();
  return run;
}

ChosenEntry read_entry(sqlite::Statement& row) {
  ChosenEntry chosen;
  chosen.entry.bucket = parse_bucket(row.text());
  chosen.entry.kernel = parse_bucket(row.text());
  chosen.entry.schedule = ir::parse_schedule(row.text());
  chosen.entry.seconds = read_number(row, "seconds");
  chosen.entry.measured = row.integer() != 0;
  chosen.roofline_seconds = read_number(row, "roofline_seconds");
  return chosen;
}

Measurement read_measurement(sqlite::Statement& row) {
  Measurement one;
  one.region = row.text();
  one.keys = parse_keys(row.text());
  one.schedule = ir::parse_schedule(row.text());
  one.multiples = parse_keys(row.text());
  one.outcome = parse_outcome(row.text());
  one.measured = row.integer() != 0;
  one.seconds = read_number(row, "seconds");
  one.spread = read_number(row, "spread");
  one.samples = row.integer();
  if (one.samples < 0)
    throw Error(ErrorKind::Malformed, "samples are {}, not at least 0", one.samples);
  one.resources.code_bytes = row.integer();
  one.resources.instructions = row.integer();
  one.resources.spills = row.integer();
  one.resources.registers = row.integer();
  one.resources.stack_bytes = row.integer();
  one.resources.shared_bytes = row.integer();
  one.detail = row.text();
  return one;
}

constexpr std::string_view measurement_query =
    "SELECT identity, keys, schedule, multiples, outcome, measured, seconds, spread, samples, "
    "code_bytes, instructions, spills, registers, stack_bytes, shared_bytes, detail FROM "
    "measurements JOIN regions ON regions.id = measurements.region JOIN environments ON "
    "environments.id = measurements.environment WHERE device = ? AND target = ? AND driver = ? AND "
    "generator = ? AND precision = ? AND threads = ?";

void bind(sqlite::Statement& statement, const Environment& environment) {
  statement.bind(environment.device)
      .bind(environment.target)
      .bind(environment.driver)
      .bind(environment.generator);
  statement.bind(environment.precision).bind(std::int64_t{environment.threads});
}

// SQLite's own locks go with any descriptor of the file that this process closes, so the writer's
// lock lies on a file of its own.
std::unique_ptr<ir::FileDescriptor> lock_writer(const std::filesystem::path& file) {
  const std::string name = file.string() + ".writer";
  auto lock = std::make_unique<ir::FileDescriptor>(
      ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!*lock)
    throw Error(ErrorKind::Write, "the tuning database {} cannot be written: {}: {}", file.string(),
                name, std::strerror(errno));
  if (::flock(lock->number(), LOCK_EX | LOCK_NB) != 0) {
    throw Error(ErrorKind::Write,
                "the tuning database {} is locked by another process that writes it; let that one "
                "end, or name another file",
                file.string());
  }
  return lock;
}

// A device or a pipe would be read without end. What is missing is met by whoever opens it.
void check_kind(const std::filesystem::path& file) {
  std::error_code fault;
  const auto status = std::filesystem::status(file, fault);
  if (std::filesystem::is_directory(status))
    throw Error(ErrorKind::Malformed, "{} is a folder, not a tuning database", file.string());
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    throw Error(ErrorKind::Malformed, "{} is no tuning database: it is no regular file",
                file.string());
}

sqlite::Connection open_for_reading(const std::filesystem::path& file) {
  check_kind(file);
  if (std::error_code fault; !std::filesystem::exists(file, fault))
    throw Error(ErrorKind::Malformed, "{}: there is no such tuning database", file.string());
  sqlite::Connection connection(file, sqlite::Connection::Mode::Read);
  if (check_version(connection, file.string()) == static_cast<int>(schema_steps().size())) {
    connection.run("PRAGMA query_only = ON");
    return connection;
  }
  // An older one is brought up to date in memory, and stays as it is on disk.
  sqlite::Connection copy({}, sqlite::Connection::Mode::Memory);
  connection.copy_to(copy);
  bring_up_to_date(copy, file.string());
  return copy;
}

sqlite::Connection open_for_writing(const std::filesystem::path& file) {
  sqlite::Connection connection(file, sqlite::Connection::Mode::Write);
  check_version(connection, file.string());
  if (connection.read_only())
    throw Error(ErrorKind::Write, "the tuning database {} is read-only", file.string());
  connection.run("PRAGMA journal_mode = DELETE");
  bring_up_to_date(connection, file.string());
  return connection;
}

}  // namespace

template <typename Read>
auto Database::Connection::reading(Read read) const {
  try {
    return read();
  } catch (const Error& error) {
    // The connection's own message names the file already.
    if (error.kind() != ErrorKind::Malformed ||
        std::string_view(error.what()).find(file.string()) != std::string_view::npos)
      throw;
    sqlite.damaged(error.what());
  }
}

Database::Database(const std::filesystem::path& file, Access access) {
  static_assert(schema_version == 2);
  if (access == Access::Read) {
    connection_ =
        std::unique_ptr<Connection>(new Connection{file, nullptr, open_for_reading(file)});
    return;
  }
  check_kind(file);
  connection_ =
      std::unique_ptr<Connection>(new Connection{file, lock_writer(file), open_for_writing(file)});
}

Database::~Database() = default;
Database::Database(Database&&) noexcept = default;
Database& Database::operator=(Database&&) noexcept = default;

void Database::record(const Environment& environment, std::span<const Measurement> measurements) {
  sqlite::Transaction transaction(connection_->sqlite);
  const std::int64_t id = connection_->environment_id(environment);
  for (const Measurement& one : measurements) connection_->record(id, one, true);
  transaction.commit();
}

void Database::name_regions(std::span<const RegionRecord> regions) {
  sqlite::Transaction transaction(connection_->sqlite);
  for (const RegionRecord& region : regions) connection_->name_region(region);
  transaction.commit();
}

void Database::store_run(const Environment& environment, const ModelRun& run,
                         std::span<const ChosenTable> tables) {
  sqlite::Transaction transaction(connection_->sqlite);
  const std::int64_t id = connection_->environment_id(environment);
  const std::int64_t run_id = connection_->store_run(id, run);
  for (const ChosenTable& table : tables) connection_->store_table(id, run_id, table);
  transaction.commit();
}

std::vector<Measurement> Database::measurements(const Environment& environment,
                                                std::string_view region) const {
  return connection_->reading([&] {
    sqlite::Statement rows(
        connection_->sqlite,
        std::string(measurement_query) + " AND identity = ? ORDER BY keys, schedule, multiples");
    bind(rows, environment);
    rows.bind(region);
    std::vector<Measurement> found;
    while (rows.step()) found.push_back(read_measurement(rows));
    return found;
  });
}

std::vector<Measurement> Database::measurements(const Environment& environment) const {
  return connection_->reading([&] {
    sqlite::Statement rows(
        connection_->sqlite,
        std::string(measurement_query) + " ORDER BY identity, keys, schedule, multiples");
    bind(rows, environment);
    std::vector<Measurement> found;
    while (rows.step()) found.push_back(read_measurement(rows));
    return found;
  });
}

std::optional<Measurement> Database::find(const Environment& environment, std::string_view region,
                                          std::span<const std::int64_t> keys,
                                          const ir::Schedule& schedule,
                                          std::span<const std::int64_t> multiples) const {
  return connection_->reading([&]() -> std::optional<Measurement> {
    sqlite::Statement rows(connection_->sqlite,
                           std::string(measurement_query) +
                               " AND identity = ? AND keys = ? AND schedule = ? AND multiples = ?");
    bind(rows, environment);
    rows.bind(region).bind(keys_text(keys)).bind(to_string(schedule)).bind(keys_text(multiples));
    if (!rows.step()) return std::nullopt;
    return read_measurement(rows);
  });
}

ir::TuningTable Database::tuning_table(const Environment& environment) const {
  return connection_->reading([&] {
    sqlite::Statement rows(
        connection_->sqlite,
        "SELECT identity, bucket, kernel, schedule, seconds, measured, roofline_seconds FROM "
        "entries JOIN regions ON regions.id = entries.region JOIN environments ON environments.id "
        "= entries.environment WHERE device = ? AND target = ? AND driver = ? AND generator = ? "
        "AND precision = ? AND threads = ? ORDER BY identity, position");
    bind(rows, environment);
    ir::TuningTable table;
    while (rows.step()) {
      const std::string identity = rows.text();
      append_entry(table.regions[identity], read_entry(rows).entry);
    }
    return table;
  });
}

std::vector<StoredTable> Database::tables() const {
  return connection_->reading([&] {
    sqlite::Statement rows(
        connection_->sqlite,
        fmt::format(
            "SELECT environments.id, regions.id, {}, identity, name, description, {} FROM tables "
            "JOIN environments ON environments.id = tables.environment JOIN regions ON regions.id "
            "= tables.region JOIN runs ON runs.id = tables.run ORDER BY {}, name, identity",
            environment_columns, run_columns, environment_columns));
    std::vector<StoredTable> tables;
    while (rows.step()) {
      const std::int64_t environment = rows.integer(), region = rows.integer();
      StoredTable& table = tables.emplace_back();
      table.environment = read_environment(rows);
      table.region = {rows.text(), rows.text(), rows.text()};
      table.run = read_run(rows);
      sqlite::Statement entries(
          connection_->sqlite,
          "SELECT bucket, kernel, schedule, seconds, measured, roofline_seconds FROM entries WHERE "
          "environment = ? AND region = ? ORDER BY position");
      entries.bind(environment).bind(region);
      while (entries.step()) append_entry(table.entries, read_entry(entries));
    }
    return tables;
  });
}

std::vector<Environment> Database::environments() const {
  sqlite::Statement rows(connection_->sqlite,
                         fmt::format("SELECT {} FROM environments ORDER BY {}", environment_columns,
                                     environment_columns));
  std::vector<Environment> found;
  while (rows.step()) found.push_back(read_environment(rows));
  return found;
}

std::vector<RegionRecord> Database::regions() const {
  sqlite::Statement rows(connection_->sqlite,
                         "SELECT identity, name, description FROM regions ORDER BY identity");
  std::vector<RegionRecord> found;
  while (rows.step()) found.push_back({rows.text(), rows.text(), rows.text()});
  return found;
}

std::vector<ModelRun> Database::runs(const Environment& environment) const {
  sqlite::Statement rows(
      connection_->sqlite,
      fmt::format("SELECT {} FROM runs JOIN environments ON environments.id = runs.environment "
                  "WHERE device = ? AND target = ? AND driver = ? AND generator = ? AND precision "
                  "= ? AND threads = ? ORDER BY finished, runs.id",
                  run_columns));
  bind(rows, environment);
  std::vector<ModelRun> found;
  while (rows.step()) found.push_back(read_run(rows));
  return found;
}

std::int64_t Database::measurement_count() const {
  return connection_->sqlite.number("SELECT count(*) FROM measurements");
}

}  // namespace anydim::tuner
