// What a model's calls came to, counted by the threads that make them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace anydim {

struct LatencyQuantiles {
  double p50 = 0, p90 = 0, p99 = 0, p999 = 0,
         most = 0;  // seconds, each at most 1/16 above what was measured; 0 without calls
};

// Since the model was compiled.
struct CallStatistics {
  std::int64_t calls = 0;   // that gave results
  std::int64_t failed = 0;  // that threw
  // Those of `calls` that took each way (api/model.h).
  std::int64_t packed = 0, padded = 0, ragged = 0;
  // Rows of calls whose mask the model knows, and of ragged ones: those that the inputs hold,
  // hidden ones too; those that were computed; those that take part. Calls that fell back to the
  // padded way tell the first two.
  std::int64_t tokens_given = 0, tokens_computed = 0, tokens_useful = 0;
  double seconds = 0;  // of all calls, one after another
  LatencyQuantiles latency;
  // arena, pool and scratch of the contexts there are, each of its largest call
  std::int64_t held_bytes = 0;
};

enum class CallWay : std::uint8_t { Packed, Padded, Ragged };

struct CountedCall {
  CallWay way = CallWay::Padded;
  std::uint64_t ticks = 0;  // runtime/tick_clock.h
  std::int64_t tokens_given = 0, tokens_computed = 0, tokens_useful = 0;
  // that the way's context holds after the call, as far as it has a largest one
  std::int64_t held_bytes = 0;
};

// Counts of one context. One thread writes at a time, with plain loads and stores; any reads.
class CallCounters {
 public:
  void add(const CountedCall& call);
  void add_failure() { bump(failed_, 1); }

 private:
  friend class CallStatisticsSum;
  using Counter = std::atomic<std::int64_t>;
  static void bump(Counter& counter, std::int64_t by) {
    counter.store(counter.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
  }
  // Spaced by powers of two, each in 16 equal parts.
  static constexpr int part_bits = 4;
  static constexpr std::size_t cells = (64 - part_bits + 1) << part_bits;
  static std::size_t cell_of(std::uint64_t ticks);
  static std::uint64_t end_of(std::size_t cell);  // the largest number of ticks that falls into it

  std::array<Counter, 3> ways_{}, held_{};  // by CallWay
  Counter failed_{}, ticks_{}, most_ticks_{}, given_{}, computed_{}, useful_{};
  std::array<Counter, cells> latencies_{};
};

// The counters of a model's contexts, those that have ended too. Any thread.
class CallRegister {
 public:
  CallRegister();
  // Counted as long as it is held; what it counted stays counted then.
  std::shared_ptr<CallCounters> enter() const;
  CallStatistics read() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace anydim
