// The tasks of one job after another, handed out to the participants of a pool.
//
// Each participant has a share of a job's tasks that lie side by side, as many as the others have.
// It takes them from the front, half of what is left at a time, and once its own share is spent,
// from the back of the others' shares in the same way. So tasks of the same numbers mostly run on
// the same processor in job after job, whose caches hold what was read and written before, and
// nobody waits for a participant that is late.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace anydim::runtime {

class TaskShares {
 public:
  explicit TaskShares(int most_participants);

  // A job of `tasks` for so many participants; all of the job before are taken, and nobody takes
  // meanwhile.
  void begin(std::int64_t tasks, int participants);

  struct Piece {
    std::int64_t begin = 0, end = 0;
    bool empty() const { return begin == end; }
  };
  // Tasks that nobody else has; empty where all of the job are taken. Any thread, after begin()
  // happened before.
  Piece take(int participant);

 private:
  // What is left of a share, in units: its job's number in the upper half, then the first unit left
  // and the end. Of another job, the share is whole.
  struct alignas(64) Left {
    std::atomic<std::uint64_t> state{0};
  };
  enum class From : std::uint8_t { Front, Back };
  Piece take_from(std::size_t share, From end);

  std::vector<Left> left_;  // [participant]
  // Of the job: its shares, the first `larger_` of which have one task more than `least_`, counted
  // in units of `unit_` tasks.
  std::size_t shares_ = 0;
  std::int64_t least_ = 0, larger_ = 0, unit_ = 1;
  std::uint32_t job_ = 0;
  alignas(64) std::atomic<std::int64_t> unspent_{0};  // shares with tasks that nobody took
};

}  // namespace anydim::runtime
