#include "runtime/timeline.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <new>

#include "ir/error.h"

namespace anydim::runtime {

std::uint64_t this_thread() {
  thread_local const auto number = static_cast<std::uint64_t>(gettid());
  return number;
}

TimelineRing::TimelineRing(std::size_t events)
    : bits_(std::bit_width(std::bit_ceil(events)) - 1), slots_(std::size_t{1} << bits_) {}

void TimelineRing::add(const TimelineEvent& event) {
  static_assert(words * sizeof(std::uint64_t) == sizeof(TimelineEvent) && sizeof(Slot) == 128);
  const std::uint64_t position = next_.fetch_add(1, std::memory_order_relaxed);
  Slot& slot = slots_[position & (slots_.size() - 1)];
  const std::uint64_t writing = 2 * (position >> bits_) + 1;
  std::uint64_t state = slot.state.load(std::memory_order_relaxed);
  if ((state & 1) != 0 || state > writing ||
      !slot.state.compare_exchange_strong(state, writing, std::memory_order_relaxed))
    return;
  // Whoever reads a word of this event also reads that it is being written.
  std::atomic_thread_fence(std::memory_order_release);
  const auto content = std::bit_cast<std::array<std::uint64_t, words>>(event);
  for (std::size_t i = 0; i < words; ++i) slot.word[i].store(content[i], std::memory_order_relaxed);
  slot.state.store(writing + 1, std::memory_order_release);
}

TimelineRing::Contents TimelineRing::read() const {
  Contents contents;
  for (const Slot& slot : slots_) {
    const std::uint64_t state = slot.state.load(std::memory_order_acquire);
    if (state == 0 || (state & 1) != 0) continue;
    std::array<std::uint64_t, words> content{};
    for (std::size_t i = 0; i < words; ++i)
      content[i] = slot.word[i].load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (slot.state.load(std::memory_order_relaxed) == state)
      contents.events.push_back(std::bit_cast<TimelineEvent>(content));
  }
  const auto added = static_cast<std::int64_t>(next_.load(std::memory_order_relaxed));
  contents.lost = added - static_cast<std::int64_t>(contents.events.size());
  std::ranges::sort(contents.events, {}, [](const TimelineEvent& event) {
    return std::pair(event.begun, ~event.ticks);
  });
  return contents;
}

void Timeline::start(std::int64_t events) {
  if (events < 1 || events > most_events)
    throw Error(ErrorKind::CommandLine,
                "a timeline of {} events cannot be recorded: expected 1 to {}, of 128 bytes each",
                events, most_events);
  std::shared_ptr<TimelineRing> ring;
  try {
    ring = std::make_shared<TimelineRing>(static_cast<std::size_t>(events));
  } catch (const std::bad_alloc&) {
    throw Error(ErrorKind::Resource,
                "there is no memory for a timeline of {} events, of 128 bytes each", events);
  }
  const std::lock_guard lock(mutex_);
  ring_ = last_ = std::move(ring);
  begun_ = clock_ticks();
  version_.fetch_add(1, std::memory_order_release);
}

void Timeline::stop() {
  const std::lock_guard lock(mutex_);
  ring_ = nullptr;
  version_.fetch_add(1, std::memory_order_release);
}

std::shared_ptr<TimelineRing> Timeline::ring() const {
  const std::lock_guard lock(mutex_);
  return ring_;
}

std::uint32_t Timeline::note(TimelineNote note) {
  const std::lock_guard lock(mutex_);
  if (notes_.empty())
    notes_.push_back({fmt::format("one of more than {} kinds of event", most_notes)});
  if (const auto known = numbers_.find(note); known != numbers_.end()) return known->second;
  if (notes_.size() >= most_notes) return 0;
  const auto number = static_cast<std::uint32_t>(notes_.size());
  notes_.push_back(note);
  numbers_.emplace(std::move(note), number);
  return number;
}

void Timeline::add(const TimelineEvent& event) {
  if (const auto ring = this->ring()) ring->add(event);
}

void Timeline::name_thread(std::string name) {
  const std::lock_guard lock(mutex_);
  threads_[this_thread()] = std::move(name);
}

Timeline::Recording Timeline::read() const {
  Recording recording;
  std::shared_ptr<TimelineRing> ring;
  {
    const std::lock_guard lock(mutex_);
    ring = last_;
    recording.begun = begun_;
  }
  recording.seconds_a_tick = clock_.seconds_a_tick();
  if (ring != nullptr) {
    TimelineRing::Contents contents = ring->read();
    recording.events = std::move(contents.events);
    recording.lost = contents.lost;
  }
  // After the events, which then find their notes.
  const std::lock_guard lock(mutex_);
  recording.notes = notes_;
  recording.threads = threads_;
  return recording;
}

}  // namespace anydim::runtime
