// The tuning database: one SQLite file with a rollback journal, one writer, any number of readers.
// It holds parameters and measurements, never code.
//
// Every call that writes is one transaction: when it returns, its rows survive the process and the
// machine; if it throws or the process dies, none of its rows are there. A file of an older schema
// is brought up to date when opened for writing, and read as it is otherwise.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/backend.h"
#include "ir/tuning_table.h"
#include "tuner/environment.h"

namespace anydim::tuner {

enum class Outcome : std::uint8_t {
  Ok,
  Wrong,        // its result differs from the reference
  Crashed,      // a signal, an abort, a fault of the device
  Hung,         // over its time limit
  OutOfBounds,  // wrote outside its buffers
  OutOfMemory,
  Uncompiled,  // the code generator refused it
};
std::string_view name_of(Outcome outcome);     // "ok", "wrong", "crashed", "hung", "out_of_bounds",
                                               // "out_of_memory", "uncompiled"
Outcome parse_outcome(std::string_view text);  // throws Error{Malformed}

// One candidate at one point.
struct Measurement {
  std::string region;              // identity
  std::vector<std::int64_t> keys;  // Region::keys, in order
  ir::Schedule schedule{};
  std::vector<std::int64_t> multiples{};  // that the code was compiled for, one a key; empty: any
  Outcome outcome = Outcome::Ok;
  bool measured = true;  // false: predicted
  double seconds = 0;    // median of one launch; 0 unless Ok
  double spread = 0;  // half the width of the 95 % interval of A against A, as a share of seconds
  std::int64_t samples = 0;
  ir::KernelResources resources{};
  std::string detail{};  // what was seen, where the outcome is not Ok
};

struct RegionRecord {
  std::string identity;
  std::string name;           // a model's name for it, for people
  std::string description{};  // e.g. the source nodes
};

struct ChosenEntry {
  ir::TunedEntry entry;
  double roofline_seconds = 0;  // least time that memory and arithmetic of the device allow at the
                                // same shapes; 0: not known
};
struct ChosenTable {
  std::string region;  // identity
  std::vector<ChosenEntry> entries;
};

struct ModelRun {
  std::string model;         // file name, or what names it for people
  std::string distribution;  // as given
  double budget_seconds = 0;
  std::int64_t most_kernels = 0, kernels = 0, trials = 0;
  double expected_seconds = 0, lower_bound_seconds = 0,
         default_seconds = 0;  // of a call; default: the cost model alone
  std::string report{};        // JSON object with what else is to be kept
  std::string finished{};      // UTC, "2026-11-21T14:45:00Z"; filled in when stored
};

// A region's table as stored, for showing and for the passes.
struct StoredTable {
  Environment environment;
  RegionRecord region;
  ModelRun run;  // that chose it
  std::vector<ChosenEntry> entries;
};

struct MergeCounts {
  std::int64_t measurements = 0, tables = 0, runs = 0;  // taken over
};

class Database {
 public:
  static constexpr int schema_version = 2;
  enum class Access { Read, Write };

  // Write makes the file where there is none and is the only writer until the object goes. Throws
  // Error{Malformed}: not a tuning database, damaged, or of a newer version; Error{Write}: locked
  // by another writer, read-only, or a full disk; Error{Malformed} for Read of a file that is not
  // there.
  Database(const std::filesystem::path& file, Access access);
  ~Database();
  Database(Database&&) noexcept;
  Database& operator=(Database&&) noexcept;

  // Replaces a measurement of the same environment, region, keys, schedule and multiples; a
  // predicted one never replaces a measured one.
  void record(const Environment& environment, std::span<const Measurement> measurements);
  void name_regions(std::span<const RegionRecord> regions);
  // The outcome of a run. A region's table of the same environment is replaced.
  void store_run(const Environment& environment, const ModelRun& run,
                 std::span<const ChosenTable> tables);

  // In order of region, keys, schedule.
  std::vector<Measurement> measurements(const Environment& environment,
                                        std::string_view region) const;
  std::vector<Measurement> measurements(const Environment& environment) const;  // of all regions
  // Null: not tried yet.
  std::optional<Measurement> find(const Environment& environment, std::string_view region,
                                  std::span<const std::int64_t> keys, const ir::Schedule& schedule,
                                  std::span<const std::int64_t> multiples = {}) const;
  ir::TuningTable tuning_table(const Environment& environment) const;
  std::vector<StoredTable> tables() const;  // of all environments
  std::vector<Environment> environments() const;
  std::vector<RegionRecord> regions() const;                         // by identity
  std::vector<ModelRun> runs(const Environment& environment) const;  // oldest first
  std::int64_t measurement_count() const;

  // One JSON object (docs/tuning-database.md); everything, in a fixed order: equal databases give
  // equal text.
  std::string export_json() const;
  // Both take over measurements that are missing here or only predicted here, tables of later runs,
  // and runs that are missing. Throws Error{Malformed} and changes nothing where the other side is
  // damaged.
  MergeCounts import_json(std::string_view text);
  MergeCounts merge(const Database& other);

  struct Connection;

 private:
  std::unique_ptr<Connection> connection_;
};

}  // namespace anydim::tuner
