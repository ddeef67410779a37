#include "tuner/sqlite.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <utility>

#include "ir/error.h"

namespace anydim::tuner::sqlite {

namespace {

constexpr int patience_ms = 5000;
// What a file of others may cost (docs/limits.md): bytes of one value, bytes of text and steps of
// SQLite's virtual machine of one statement.
constexpr int longest_text = 16 << 20;
constexpr std::size_t most_text = std::size_t{1} << 30;
constexpr std::int64_t most_steps = 400'000'000;
constexpr int steps_between_looks = 10'000;

// SQLite asks this while a statement runs; an answer other than 0 ends the statement.
int look(void* steps) {
  std::int64_t* taken = *static_cast<std::int64_t**>(steps);
  if (taken == nullptr) return 0;
  *taken += steps_between_looks;
  return *taken > most_steps ? 1 : 0;
}

int open_flags(Connection::Mode mode) {
  switch (mode) {
    // Also for reading: the journal of a broken-off writer is rolled back by whoever opens the file
    // next. A file that may not be written opens read-only.
    case Connection::Mode::Read: return SQLITE_OPEN_READWRITE;
    case Connection::Mode::Write: return SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    case Connection::Mode::Memory:
      return SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_MEMORY;
  }
  internal_error("a mode is one of the enumerators");
}

}  // namespace

void Connection::Close::operator()(sqlite3* handle) const { sqlite3_close_v2(handle); }

Connection::Connection(const std::filesystem::path& file, Mode mode)
    : name_(file.string()), steps_(std::make_unique<std::int64_t*>(nullptr)) {
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(mode == Mode::Memory ? ":memory:" : file.c_str(), &handle,
                                   open_flags(mode), nullptr);
  handle_.reset(handle);
  if (handle == nullptr) throw Error(ErrorKind::Resource, "out of memory");
  sqlite3_extended_result_codes(handle, 1);
  if (code != SQLITE_OK) fail(code, "opening it");
  sqlite3_busy_timeout(handle, patience_ms);
  sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, longest_text);
  sqlite3_limit(handle, SQLITE_LIMIT_ATTACHED, 0);
  sqlite3_progress_handler(handle, steps_between_looks, look, steps_.get());
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  // EXTRA: the folder is synced too once a journal is gone, so that what was committed outlives the
  // machine.
  run("PRAGMA synchronous = EXTRA; PRAGMA foreign_keys = ON");
}

void Connection::run(const std::string& statements) const {
  std::int64_t taken = 0;
  const Counted counted(*this, taken);
  const int code = sqlite3_exec(handle_.get(), statements.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) fail(sqlite3_extended_errcode(handle_.get()), "a statement");
}

std::int64_t Connection::number(const std::string& query) const {
  Statement statement(*this, query);
  return statement.step() ? statement.integer() : 0;
}

void Connection::copy_to(Connection& other) const {
  std::int64_t taken = 0;
  const Counted counted(*this, taken);
  sqlite3_backup* backup = sqlite3_backup_init(other.handle(), "main", handle_.get(), "main");
  if (backup == nullptr) other.fail(sqlite3_extended_errcode(other.handle()), "copying it");
  sqlite3_backup_step(backup, -1);
  const int code = sqlite3_backup_finish(backup);
  if (code != SQLITE_OK) fail(code, "copying it");
}

bool Connection::read_only() const { return sqlite3_db_readonly(handle_.get(), "main") == 1; }

void Connection::damaged(const std::string& why) const {
  throw Error(ErrorKind::Malformed,
              "the tuning database {} is damaged: {}; restore it "
              "from an export, or remove it and tune again",
              name_, why);
}

Connection::Counted::Counted(const Connection& connection, std::int64_t& taken)
    : current_(*connection.steps_), before_(std::exchange(current_, &taken)) {}

Connection::Counted::~Counted() { current_ = before_; }

void Connection::fail(int code, std::string_view doing) const {
  const std::string said =
      fmt::format("{} (SQLite {}: {})", sqlite3_errstr(code), code, sqlite3_errmsg(handle_.get()));
  switch (code & 0xff) {
    case SQLITE_NOTADB:
      throw Error(ErrorKind::Malformed, "{} is no tuning database: it is no file of SQLite", name_);
    case SQLITE_TOOBIG: damaged(fmt::format("a text is longer than {} bytes", longest_text));
    case SQLITE_INTERRUPT: damaged(fmt::format("{} takes more than {} steps", doing, most_steps));
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      throw Error(ErrorKind::Write,
                  "the tuning database {} is locked by another process; let that one end, or name "
                  "another file",
                  name_);
    case SQLITE_READONLY:
    case SQLITE_PERM:
      throw Error(ErrorKind::Write, "the tuning database {} or its folder is read-only: {}", name_,
                  said);
    case SQLITE_FULL:
      throw Error(
          ErrorKind::Write,
          "the tuning database {} cannot grow: the disk is full; what was kept before is safe",
          name_);
    case SQLITE_CANTOPEN:
      throw Error(ErrorKind::Write, "the tuning database {} cannot be opened: {}", name_, said);
    case SQLITE_IOERR:
    case SQLITE_PROTOCOL:
    case SQLITE_NOLFS:
      throw Error(ErrorKind::Write,
                  "the tuning database {}: {} failed: {}; what was kept before is safe", name_,
                  doing, said);
    case SQLITE_NOMEM: throw Error(ErrorKind::Resource, "out of memory");
    case SQLITE_MISUSE:
    case SQLITE_RANGE:
    case SQLITE_INTERNAL: internal_error(fmt::format("{}: {} succeeds: {}", name_, doing, said));
    // Our statements fit a file that we made, so all else is the file's: tables or columns that are
    // gone, other types, broken pages, constraints.
    default: damaged(said);
  }
}

void Statement::Finalize::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

Statement::Statement(const Connection& connection, std::string_view query)
    : connection_(connection) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v2(connection.handle(), query.data(),
                                      static_cast<int>(query.size()), &statement, nullptr);
  statement_.reset(statement);
  if (code != SQLITE_OK) connection.fail(sqlite3_extended_errcode(connection.handle()), "a query");
}

Statement& Statement::bind(std::int64_t value) {
  internal_check(sqlite3_bind_int64(statement_.get(), ++bound_, value) == SQLITE_OK,
                 "a statement has a place for each value");
  return *this;
}

Statement& Statement::bind(double value) {
  internal_check(sqlite3_bind_double(statement_.get(), ++bound_, value) == SQLITE_OK,
                 "a statement has a place for each value");
  return *this;
}

Statement& Statement::bind(std::string_view value) {
  // An empty view may have no address, which SQLite would take for NULL.
  const char* data = value.empty() ? "" : value.data();
  const int code = sqlite3_bind_text64(statement_.get(), ++bound_, data, value.size(),
                                       SQLITE_TRANSIENT, SQLITE_UTF8);
  if (code != SQLITE_OK) connection_.fail(code, "a query");
  return *this;
}

bool Statement::step() {
  column_ = 0;
  const Connection::Counted counted(connection_, taken_);
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) {
    const int extended = sqlite3_extended_errcode(connection_.handle());
    sqlite3_reset(statement_.get());
    connection_.fail(extended, "a query");
  }
  return false;
}

void Statement::run() {
  internal_check(!step(), "the statement has no rows");
  again();
}

void Statement::again() {
  sqlite3_reset(statement_.get());
  bound_ = 0;
  taken_ = 0;
}

std::int64_t Statement::integer() { return sqlite3_column_int64(statement_.get(), column_++); }

double Statement::real() { return sqlite3_column_double(statement_.get(), column_++); }

std::string Statement::text() {
  const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column_));
  const auto bytes = static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column_++));
  text_ += bytes;
  if (text_ > most_text)
    connection_.damaged(fmt::format("a query gives more than {} bytes of text", most_text));
  return data == nullptr ? std::string() : std::string(data, bytes);
}

Transaction::Transaction(const Connection& connection, Kind kind) : connection_(connection) {
  connection_.run(kind == Kind::Write ? "BEGIN IMMEDIATE" : "BEGIN");
}

Transaction::~Transaction() {
  // Some faults have rolled back already; then there is nothing left to end.
  if (open_ && sqlite3_get_autocommit(connection_.handle()) == 0) {
    sqlite3_exec(connection_.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
  }
}

void Transaction::commit() {
  connection_.run("COMMIT");
  open_ = false;
}

}  // namespace anydim::tuner::sqlite
