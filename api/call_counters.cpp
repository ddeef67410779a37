#include "api/call_counters.h"

#include <algorithm>
#include <bit>

#include "runtime/tick_clock.h"

namespace anydim {

std::size_t CallCounters::cell_of(std::uint64_t ticks) {
  constexpr std::uint64_t parts = std::uint64_t{1} << part_bits;
  if (ticks < parts) return ticks;
  const int power = std::bit_width(ticks) - 1;
  const std::uint64_t part = (ticks >> (power - part_bits)) & (parts - 1);
  return (static_cast<std::size_t>(power - part_bits + 1) << part_bits) + part;
}

std::uint64_t CallCounters::end_of(std::size_t cell) {
  constexpr std::uint64_t parts = std::uint64_t{1} << part_bits;
  if (cell < parts) return cell;
  const int shift = static_cast<int>(cell >> part_bits) - 1;
  const std::uint64_t first = (parts + (cell & (parts - 1))) << shift;
  return first + ((std::uint64_t{1} << shift) - 1);
}

void CallCounters::add(const CountedCall& call) {
  const auto way = static_cast<std::size_t>(call.way);
  bump(ways_[way], 1);
  if (call.held_bytes > held_[way].load(std::memory_order_relaxed))
    held_[way].store(call.held_bytes, std::memory_order_relaxed);
  const auto ticks = static_cast<std::int64_t>(call.ticks);
  bump(ticks_, ticks);
  if (ticks > most_ticks_.load(std::memory_order_relaxed))
    most_ticks_.store(ticks, std::memory_order_relaxed);
  bump(given_, call.tokens_given);
  bump(computed_, call.tokens_computed);
  bump(useful_, call.tokens_useful);
  bump(latencies_[cell_of(call.ticks)], 1);
}

class CallStatisticsSum {
 public:
  void add(const CallCounters& counters, bool held) {
    const auto read = [](const CallCounters::Counter& counter) {
      return counter.load(std::memory_order_relaxed);
    };
    for (std::size_t way = 0; way < ways_.size(); ++way) {
      ways_[way] += read(counters.ways_[way]);
      if (held) held_ += read(counters.held_[way]);
    }
    failed_ += read(counters.failed_);
    ticks_ += static_cast<double>(read(counters.ticks_));
    most_ticks_ = std::max(most_ticks_, read(counters.most_ticks_));
    given_ += read(counters.given_);
    computed_ += read(counters.computed_);
    useful_ += read(counters.useful_);
    for (std::size_t cell = 0; cell < CallCounters::cells; ++cell)
      latencies_[cell] += read(counters.latencies_[cell]);
  }

  CallStatistics statistics(double seconds_a_tick) const {
    CallStatistics statistics;
    statistics.failed = failed_;
    statistics.packed = ways_[0];
    statistics.padded = ways_[1];
    statistics.ragged = ways_[2];
    statistics.tokens_given = given_;
    statistics.tokens_computed = computed_;
    statistics.tokens_useful = useful_;
    statistics.seconds = ticks_ * seconds_a_tick;
    statistics.held_bytes = held_;
    for (const std::int64_t count : latencies_) statistics.calls += count;
    const double most = static_cast<double>(most_ticks_) * seconds_a_tick;
    const auto quantile = [&](double share) {
      const auto wanted = static_cast<std::int64_t>(share * static_cast<double>(statistics.calls));
      std::int64_t seen = 0;
      for (std::size_t cell = 0; cell < CallCounters::cells; ++cell) {
        seen += latencies_[cell];
        if (seen > wanted)
          return std::min(most, static_cast<double>(CallCounters::end_of(cell)) * seconds_a_tick);
      }
      return most;
    };
    statistics.latency = {quantile(0.5), quantile(0.9), quantile(0.99), quantile(0.999), most};
    return statistics;
  }

 private:
  std::array<std::int64_t, 3> ways_{};
  std::int64_t held_ = 0, failed_ = 0, most_ticks_ = 0, given_ = 0, computed_ = 0, useful_ = 0;
  double ticks_ = 0;
  std::array<std::int64_t, CallCounters::cells> latencies_{};
};

struct CallRegister::State {
  const runtime::TickClock clock;
  std::mutex mutex;  // of what is below
  std::vector<const CallCounters*> counted;
  CallStatisticsSum ended;
};

CallRegister::CallRegister() : state_(std::make_shared<State>()) {}

std::shared_ptr<CallCounters> CallRegister::enter() const {
  auto* counters = new CallCounters;
  std::shared_ptr<CallCounters> entered(counters, [state = state_](CallCounters* ending) {
    {
      const std::lock_guard lock(state->mutex);
      state->ended.add(*ending, false);
      std::erase(state->counted, ending);
    }
    delete ending;
  });
  const std::lock_guard lock(state_->mutex);
  state_->counted.push_back(counters);
  return entered;
}

CallStatistics CallRegister::read() const {
  const double seconds_a_tick = state_->clock.seconds_a_tick();
  const std::lock_guard lock(state_->mutex);
  CallStatisticsSum sum = state_->ended;
  for (const CallCounters* counters : state_->counted) sum.add(*counters, true);
  return sum.statistics(seconds_a_tick);
}

}  // namespace anydim
