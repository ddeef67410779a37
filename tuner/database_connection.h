// What the parts of the database share.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "ir/file_descriptor.h"
#include "tuner/database.h"
#include "tuner/sqlite.h"

namespace anydim::tuner {

struct Database::Connection {
  std::filesystem::path file;
  std::unique_ptr<ir::FileDescriptor> writer;  // holds the lock of the only writer
  sqlite::Connection sqlite;

  // Made where absent; callers are inside a transaction.
  std::int64_t environment_id(const Environment& environment) const;
  std::int64_t region_id(std::string_view identity) const;
  void name_region(const RegionRecord& region) const;
  // Whether the row was written: a predicted time never replaces a measured one, and without
  // `replace` nothing is replaced but a predicted one by a measured one.
  bool record(std::int64_t environment, const Measurement& measurement, bool replace) const;
  std::int64_t store_run(std::int64_t environment, const ModelRun& run) const;  // its id
  void store_table(std::int64_t environment, std::int64_t run, const ChosenTable& table) const;

  // Carries out `read`; a row that says nothing sensible is Error{Malformed} with the file's name.
  template <typename Read>
  auto reading(Read read) const;
};

std::string now_utc();  // "2026-11-21T14:45:00Z"

}  // namespace anydim::tuner
