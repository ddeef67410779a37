#include "runtime/task_shares.h"

#include <algorithm>

namespace anydim::runtime {

namespace {

constexpr std::int64_t most_units = 0xffff;

struct State {
  std::uint32_t job = 0;
  std::int64_t first = 0, end = 0;  // units

  static State of(std::uint64_t packed) {
    return {static_cast<std::uint32_t>(packed >> 32),
            static_cast<std::int64_t>((packed >> 16) & most_units),
            static_cast<std::int64_t>(packed & most_units)};
  }
  std::uint64_t packed() const {
    return (std::uint64_t{job} << 32) | (static_cast<std::uint64_t>(first) << 16) |
           static_cast<std::uint64_t>(end);
  }
};

}  // namespace

TaskShares::TaskShares(int most_participants)
    : left_(static_cast<std::size_t>(most_participants)) {}

void TaskShares::begin(std::int64_t tasks, int participants) {
  ++job_;
  // A share that had no task for long must not be taken for one of a later job with this number.
  constexpr std::uint32_t numbers_apart = std::uint32_t{1} << 31;
  if (job_ % numbers_apart == 0)
    for (Left& left : left_) left.state.store(State{job_ - 1}.packed(), std::memory_order_relaxed);
  // Divided once: a division takes as long as all else that a small job's takers do.
  shares_ = static_cast<std::size_t>(participants);
  least_ = tasks / participants;
  larger_ = tasks - least_ * participants;
  unit_ = (least_ + (larger_ > 0 ? 1 : 0) - 1) / most_units + 1;
  unspent_.store(std::min<std::int64_t>(tasks, participants), std::memory_order_relaxed);
}

TaskShares::Piece TaskShares::take(int participant) {
  const std::size_t own = static_cast<std::size_t>(participant);
  Piece piece = take_from(own, From::Front);
  for (std::size_t i = 1; i < shares_ && piece.empty(); ++i) {
    if (unspent_.load(std::memory_order_relaxed) == 0) break;
    piece = take_from(own + i < shares_ ? own + i : own + i - shares_, From::Back);
  }
  return piece;
}

TaskShares::Piece TaskShares::take_from(std::size_t share, From end) {
  const auto number = static_cast<std::int64_t>(share);
  const std::int64_t begin = number * least_ + std::min(number, larger_),
                     count = least_ + (number < larger_ ? 1 : 0);
  if (count == 0) return {};
  const std::int64_t units = unit_ == 1 ? count : (count - 1) / unit_ + 1;
  std::atomic<std::uint64_t>& state = left_[share].state;
  std::uint64_t seen = state.load(std::memory_order_relaxed);
  for (;;) {
    State left = State::of(seen);
    if (left.job != job_) left = {job_, 0, units};
    const std::int64_t there = left.end - left.first;
    if (there == 0) return {};
    const std::int64_t taken = std::max<std::int64_t>(1, there / 2);
    const std::int64_t first = end == From::Front ? left.first : left.end - taken;
    if (end == From::Front) left.first += taken;
    else left.end -= taken;
    if (!state.compare_exchange_weak(seen, left.packed(), std::memory_order_relaxed)) continue;
    if (taken == there) unspent_.fetch_sub(1, std::memory_order_relaxed);
    return {begin + first * unit_, begin + std::min(count, (first + taken) * unit_)};
  }
}

}  // namespace anydim::runtime
