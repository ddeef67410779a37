// The shapes that a service met: a compact histogram of a model's symbols, bounded in size, kept as JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace anydim::tuner {

// One call's sizes: the symbols' values in the trace's order, then the rows that took part (of packed calls; of others 0).
using TracedCall = std::vector<std::int64_t>;

class Trace {
 public:
  static constexpr std::size_t most_bins = 4096;

  // `inputs` tell models apart: each input as to_string(InputInfo) writes it.
  Trace(std::vector<std::string> inputs, std::vector<std::string> symbols);

  const std::vector<std::string>& inputs() const { return inputs_; }
  const std::vector<std::string>& symbols() const { return symbols_; }
  // Counts by sizes. Where there would be more than most_bins, sizes are rounded up to fewer significant bits, for all bins alike.
  const std::map<TracedCall, std::int64_t>& bins() const { return bins_; }
  std::int64_t calls() const;

  // `values`: one a symbol.
  void add(std::span<const std::int64_t> values, std::int64_t rows, std::int64_t count = 1);
  // Throws Error{Malformed} where the other is of another model.
  void merge(const Trace& other);

  std::string to_json() const;
  // Throws Error{Malformed}; `where` names the text in messages.
  static Trace parse(std::string_view json, const std::string& where);

 private:
  void coarsen();

  std::vector<std::string> inputs_, symbols_;
  std::map<TracedCall, std::int64_t> bins_;
  int significant_bits_ = 63;
};

// Throws Error{Malformed}: no such file, not a trace, of a newer form.
Trace read_trace(const std::filesystem::path& file);

// Adds to what the file holds, made where absent: written whole under another name, then renamed; two processes at once lose nothing.
// Throws Error{Malformed} where the file is no trace or of another model (then it stays as it is), Error{Write}.
void record_trace(const std::filesystem::path& file, const Trace& trace);

// A trace that several threads add to.
class TraceRecorder {
 public:
  explicit TraceRecorder(Trace trace) : trace_(std::move(trace)) {}
  void add(std::span<const std::int64_t> values, std::int64_t rows) {
    const std::lock_guard lock(mutex_);
    trace_.add(values, rows);
  }
  Trace trace() const {
    const std::lock_guard lock(mutex_);
    return trace_;
  }

 private:
  mutable std::mutex mutex_;
  Trace trace_;
};

}  // namespace anydim::tuner
