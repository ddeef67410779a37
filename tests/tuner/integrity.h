// What SQLite says of a tuning database's file.
#pragma once

#include <filesystem>
#include <string>

#include "tuner/sqlite.h"

namespace anydim::tuner {

// SQLite's own check of the whole file and its references; empty where all is well.
inline std::string integrity(const std::filesystem::path& file) {
  const sqlite::Connection connection(file, sqlite::Connection::Mode::Read);
  std::string findings;
  sqlite::Statement check(connection, "PRAGMA integrity_check");
  while (check.step()) {
    const std::string line = check.text();
    if (line != "ok") findings += line + "\n";
  }
  sqlite::Statement references(connection, "PRAGMA foreign_key_check");
  while (references.step()) findings += "a row of " + references.text() + " refers to nothing\n";
  return findings;
}

}  // namespace anydim::tuner
