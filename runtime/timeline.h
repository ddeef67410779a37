// What happened over time: calls, launches and compilations, in a ring that keeps the newest
// events. While it is off, a call reads one number of it.
//
// Memory is bounded by the number of events that start() was given, and by most_notes. Writers
// neither wait for each other nor for a reader; an event whose place is overwritten, or which meets
// a writer that is a whole ring behind, is lost and counted.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/tick_clock.h"

namespace anydim::runtime {

enum class TimelineKind : std::uint32_t { Call, Launch, Compile, CacheRead, Stage };

// One thing that took time. `values` by kind, bytes and rows as counts:
//   Call       rows given, computed and taking part (0 where the model knows no mask);
//              bytes of inputs; bytes of results; 1 where it threw
//   Launch     1 where the general kernel stood in for one that is not compiled yet;
//              bytes of the buffers it reads and writes;
//              extents of the region's symbols, as many as there is room for
//   Compile    bytes of code
//   CacheRead  bytes of code
//   Stage      nothing
struct TimelineEvent {
  TimelineKind kind{};
  std::uint32_t note = 0;    // Timeline::note
  std::uint64_t thread = 0;  // this_thread()
  std::uint64_t begun = 0, ticks = 0;
  std::array<std::int64_t, 11> values{};

  static constexpr std::size_t first_extent = 2;
};

std::uint64_t this_thread();  // the system's number for it

// What many events have in common.
struct TimelineNote {
  std::string name;
  std::vector<std::pair<std::string, std::string>> facts{};
  std::vector<std::string> symbols{};  // of a launch's extents
  auto operator<=>(const TimelineNote&) const = default;
};

class TimelineRing {
 public:
  explicit TimelineRing(std::size_t events);  // rounded up to a power of two
  // Any thread; never waits.
  void add(const TimelineEvent& event);

  struct Contents {
    std::vector<TimelineEvent> events;  // by when they began
    std::int64_t lost = 0;              // others that were added
  };
  // While others add, events under way count as lost.
  Contents read() const;

 private:
  static constexpr std::size_t words = sizeof(TimelineEvent) / sizeof(std::uint64_t);
  // `state`: 0 before the first event; 2 * turn + 1 while the event of that turn around the ring
  // (from 0) is written, 2 * turn + 2 once it stands.
  struct alignas(64) Slot {
    std::atomic<std::uint64_t> state{0};
    std::array<std::atomic<std::uint64_t>, words> word{};
  };
  int bits_;
  std::vector<Slot> slots_;
  alignas(64) std::atomic<std::uint64_t> next_{0};
};

// Any thread, while others record.
class Timeline {
 public:
  static constexpr std::int64_t default_events = 1 << 16,
                                most_events = 1 << 24;  // of 128 bytes each
  static constexpr std::size_t most_notes = 1 << 16;

  // From here on, anew. Throws Error{CommandLine} for a number of events outside of [1,
  // most_events], Error{Resource} where there is no memory for them.
  void start(std::int64_t events = default_events);
  void stop();  // what was recorded stays until the next start()
  bool on() const { return ring() != nullptr; }

  // Changes with each start() and stop().
  std::uint64_t version() const { return version_.load(std::memory_order_acquire); }
  std::shared_ptr<TimelineRing> ring() const;  // null: off
  // The number by which events name it. Beyond most_notes the number of one that says so.
  std::uint32_t note(TimelineNote note);
  // For one event now and then; others take the ring.
  void add(const TimelineEvent& event);
  // the calling one, where it is ours and works beside the calls
  void name_thread(std::string name);

  struct Recording {
    std::uint64_t begun = 0;  // ticks of start()
    double seconds_a_tick = 0;
    std::vector<TimelineEvent> events;
    std::int64_t lost = 0;
    std::vector<TimelineNote> notes;
    std::map<std::uint64_t, std::string> threads;  // that have a name
  };
  // What was recorded since the last start(); no events where there was none.
  Recording read() const;

 private:
  const TickClock clock_;
  std::atomic<std::uint64_t> version_{0};
  mutable std::mutex mutex_;  // of what is below
  std::shared_ptr<TimelineRing> ring_, last_;
  std::uint64_t begun_ = 0;
  std::map<TimelineNote, std::uint32_t> numbers_;
  std::vector<TimelineNote> notes_;
  std::map<std::uint64_t, std::string> threads_;
};

// One thread's way to the ring, looked up again where start() or stop() was called.
class TimelineWriter {
 public:
  explicit TimelineWriter(std::shared_ptr<Timeline> timeline) : timeline_(std::move(timeline)) {}
  // At the beginning of a call.
  void refresh() {
    if (timeline_ == nullptr || timeline_->version() == version_) return;
    version_ = timeline_->version();
    ring_ = timeline_->ring();
  }
  bool on() const { return ring_ != nullptr; }
  Timeline& timeline() const { return *timeline_; }
  void add(const TimelineEvent& event) const { ring_->add(event); }

 private:
  std::shared_ptr<Timeline> timeline_;  // null: there is none
  std::uint64_t version_ = 0;
  std::shared_ptr<TimelineRing> ring_;
};

}  // namespace anydim::runtime
