// SQLite's interface as values that close themselves, with its faults as anydim::Error. A file may
// come from anyone: it runs no code of its own (no trusted schema), and the length of a value, the
// text that a query gives and the steps that it takes are bounded (docs/limits.md).
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
  // Mode::Write makes the file where there is none. Both modes of files repair what a broken-off
  // writer left. Throws what fault() says.
  Connection(const std::filesystem::path& file, Mode mode);

  // Any number of statements without results. Throws.
  void run(const std::string& statements) const;
  std::int64_t number(
      const std::string& query) const;    // the first column of the first row; 0 without rows
  void copy_to(Connection& other) const;  // the whole content
  bool read_only() const;
  sqlite3* handle() const { return handle_.get(); }

  // Write: locked, read-only, full disk, other faults of the file system; Resource: out of memory;
  // Internal: SQLite's interface used wrongly; Malformed: all else, as it comes from what the file
  // holds.
  [[noreturn]] void fail(int code, std::string_view doing) const;
  [[noreturn]] void damaged(const std::string& why) const;  // Error{Malformed}

  // While it lives, the steps of SQLite's virtual machine are added to `taken`; what takes too many
  // is broken off.
  class Counted {
   public:
    Counted(const Connection& connection, std::int64_t& taken);
    ~Counted();
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;

   private:
    std::int64_t*& current_;
    std::int64_t* before_;
  };

 private:
  struct Close {
    void operator()(sqlite3* handle) const;
  };
  std::string name_;
  // where steps are counted; at an address that SQLite knows
  std::unique_ptr<std::int64_t*> steps_;
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

  // Each reads the next column of the current row, from left to right.
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
  std::int64_t taken_ = 0;  // steps of the virtual machine
  std::size_t text_ = 0;    // bytes read
};

// Everything until commit() happens as one, or not at all.
class Transaction {
 public:
  enum class Kind { Write, Read };  // Read: every query sees the file as it was at the first one
  explicit Transaction(const Connection& connection, Kind kind = Kind::Write);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit();

 private:
  const Connection& connection_;
  bool open_ = true;
};

}  // namespace anydim::tuner::sqlite
