// SQLite's interface as values that close themselves, with its faults as anydim::Error.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace anydim::tuner::sqlite {

class Connection {
 public:
  enum class Mode { Read, Write, Memory };
  // Mode::Write makes the file where there is none. Both modes of files repair what a broken-off writer left. Throws what fault() says.
  Connection(const std::filesystem::path& file, Mode mode);

  // Any number of statements without results. Throws.
  void run(const std::string& statements) const;
  std::int64_t number(const std::string& query) const;  // the first column of the first row; 0 without rows
  void copy_to(Connection& other) const;                // the whole content
  bool read_only() const;
  sqlite3* handle() const { return handle_.get(); }

  // Malformed: no database, damaged; Write: locked, read-only, full disk, other faults of the file; Resource: out of memory; Internal: anything else.
  [[noreturn]] void fail(int code, std::string_view doing) const;

 private:
  struct Close {
    void operator()(sqlite3* handle) const;
  };
  std::string name_;
  std::unique_ptr<sqlite3, Close> handle_;
};

// One prepared statement: bind in order, then step through its rows.
class Statement {
 public:
  Statement(const Connection& connection, std::string_view query);

  Statement& bind(std::int64_t value);
  Statement& bind(double value);
  Statement& bind(std::string_view value);
  bool step();   // to the next row; false: no more
  void run();    // without rows, then ready to be bound again
  void again();  // ready to be bound and stepped once more

  // Of the current row, from left to right.
  std::int64_t integer();
  double real();
  std::string text();

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  const Connection& connection_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  int bound_ = 0, column_ = 0;
};

// Everything until commit() happens as one, or not at all.
class Transaction {
 public:
  explicit Transaction(const Connection& connection);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit();

 private:
  const Connection& connection_;
  bool open_ = true;
};

}  // namespace anydim::tuner::sqlite
