// The shapes that a service met: a compact histogram of a model's symbols, bounded in size, kept as
// JSON. Of a model whose values decide sizes it also holds what its calls launched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace anydim::tuner {

// One call's sizes: the symbols' values in the trace's order, then the rows that took part (of
// packed calls; of others 0).
using TracedCall = std::vector<std::int64_t>;

// Launches by region (text_hash of its identity) and the values of its keys.
using TracedLaunches = std::map<std::pair<std::string, std::vector<std::int64_t>>, std::int64_t>;

struct TraceBin {
  std::int64_t calls = 0;
  TracedLaunches launches;  // of all these calls; empty where the sizes tell them
  bool operator==(const TraceBin&) const = default;
};

class Trace {
 public:
  static constexpr std::size_t most_bins = 4096,
                               most_launches = 65536;  // the latter: distinct ones, over all bins

  // `inputs` tell models apart: each input as to_string(InputInfo) writes it.
  Trace(std::vector<std::string> inputs, std::vector<std::string> symbols);

  const std::vector<std::string>& inputs() const { return inputs_; }
  const std::vector<std::string>& symbols() const { return symbols_; }
  // By sizes. Where there would be more than most_bins or most_launches, sizes and keys are rounded
  // up to fewer significant bits, for all bins alike.
  const std::map<TracedCall, TraceBin>& bins() const { return bins_; }
  std::int64_t calls() const;

  // `values`: one a symbol. `launches`: of all `count` calls.
  void add(std::span<const std::int64_t> values, std::int64_t rows,
           const TracedLaunches& launches = {}, std::int64_t count = 1);
  // Throws Error{Malformed} where the other is of another model.
  void merge(const Trace& other);

  std::string to_json() const;
  // Throws Error{Malformed}; `where` names the text in messages.
  static Trace parse(std::string_view json, const std::string& where);

 private:
  void take(std::span<const std::int64_t> sizes, const TraceBin& more);
  void coarsen();

  std::vector<std::string> inputs_, symbols_;
  std::map<TracedCall, TraceBin> bins_;
  std::size_t launches_ = 0;  // distinct ones, over all bins
  int significant_bits_ = 63;
};

// Throws Error{Malformed}: no such file, not a trace, of a newer form.
Trace read_trace(const std::filesystem::path& file);

// Adds to what the file holds, made where absent: written whole under another name, then renamed;
// two processes at once lose nothing. Throws Error{Malformed} where the file is no trace or of
// another model (then it stays as it is), Error{Write}.
void record_trace(const std::filesystem::path& file, const Trace& trace);

// A trace that several threads add to.
class TraceRecorder {
 public:
  explicit TraceRecorder(Trace trace) : trace_(std::move(trace)) {}
  void add(std::span<const std::int64_t> values, std::int64_t rows,
           const TracedLaunches& launches) {
    const std::lock_guard lock(mutex_);
    trace_.add(values, rows, launches);
  }
  Trace trace() const {
    const std::lock_guard lock(mutex_);
    return trace_;
  }
  // What was added up to now; the recorder starts anew.
  Trace take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(trace_, Trace(trace_.inputs(), trace_.symbols()));
  }
  // `other` is of the same model.
  void merge(const Trace& other) {
    const std::lock_guard lock(mutex_);
    trace_.merge(other);
  }

 private:
  mutable std::mutex mutex_;
  Trace trace_;
};

}  // namespace anydim::tuner
