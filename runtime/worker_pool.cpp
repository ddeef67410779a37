#include "runtime/worker_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "ir/error.h"
#include "runtime/spin.h"

namespace anydim::runtime {

namespace {

constexpr std::uint64_t open_bit = std::uint64_t{1} << 31;
constexpr std::uint64_t inside_mask = open_bit - 1;

int checked(int threads) {
  internal_check(threads >= 1, "a pool has at least the calling thread");
  return threads;
}

std::uint64_t generation_of(std::uint64_t gate) { return gate >> 32; }

}  // namespace

WorkerPool::WorkerPool(int threads) : shares_(checked(threads)) {
  try {
    for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { work(i); });
  } catch (const std::system_error& error) {
    const std::size_t started = workers_.size();
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    for (std::thread& worker : workers_) worker.join();
    throw Error(
        ErrorKind::Resource,
        fmt::format("the system refused worker thread {} of {} ({}); ask for fewer with --threads",
                    started + 1, threads - 1, error.code().message()));
  }
}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void WorkerPool::run_erased(std::int64_t tasks, Function function, void* state) {
  if (tasks <= 0) return;
  if (tasks == 1 || workers_.empty() || busy_.test_and_set(std::memory_order_acquire)) {
    function(state, 0, tasks, 0);
    return;
  }
  job_ = {function, state};
  shares_.begin(tasks);
  const std::uint64_t generation = generation_of(gate_.load(std::memory_order_relaxed)) + 1;
  // Sequentially consistent against the sleepers' own order (announce, then look at the gate): one
  // of both sees the other.
  gate_.store((generation << 32) | open_bit, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) > 0) {
    {
      const std::lock_guard lock(mutex_);
    }
    wake_.notify_all();
  }

  take_pieces(job_, 0);

  std::uint64_t gate = gate_.fetch_and(~open_bit, std::memory_order_acq_rel) & ~open_bit;
  for (Spin spin; (gate & inside_mask) != 0; gate = gate_.load(std::memory_order_acquire))
    spin.pause();
  busy_.clear(std::memory_order_release);
}

bool WorkerPool::gather(std::chrono::microseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  std::atomic<int> here{0};
  std::vector<char> came(static_cast<std::size_t>(threads()));
  // A task a thread, and none is done with its own before all have one.
  run(threads(), [&](std::int64_t, std::int64_t, int participant) {
    if (std::exchange(came[static_cast<std::size_t>(participant)], char{1}) == 0)
      here.fetch_add(1, std::memory_order_relaxed);
    for (Spin spin; here.load(std::memory_order_relaxed) < threads() &&
                    std::chrono::steady_clock::now() < end;)
      spin.pause();
  });
  return here.load(std::memory_order_relaxed) == threads();
}

void WorkerPool::take_pieces(const Job& job, int participant) {
  for (TaskShares::Piece piece = shares_.take(participant); !piece.empty();
       piece = shares_.take(participant))
    job.function(job.state, piece.begin, piece.end, participant);
}

void WorkerPool::work(int participant) {
  std::uint64_t seen = 0;
  while (wait_for_job(seen)) {
    std::uint64_t gate = gate_.load(std::memory_order_relaxed);
    bool inside = false;
    while ((gate & open_bit) != 0 && !inside)
      inside = gate_.compare_exchange_weak(gate, gate + 1, std::memory_order_acquire);
    seen = generation_of(gate);
    if (!inside) continue;
    take_pieces(job_, participant);
    gate_.fetch_sub(1, std::memory_order_release);
  }
}

// Returns the gate once it shows another generation than `seen`, or what it showed when the
// spinning time was up.
std::uint64_t WorkerPool::spin_for_job(std::uint64_t seen) const {
  const auto limit = std::chrono::steady_clock::now() + spin_time;
  Spin spin;
  for (;;) {
    for (int i = 0; i < 32; ++i) {
      const std::uint64_t gate = gate_.load(std::memory_order_acquire);
      if (generation_of(gate) != seen || stopping_.load(std::memory_order_relaxed)) return gate;
      spin.pause();
    }
    if (std::chrono::steady_clock::now() >= limit) return gate_.load(std::memory_order_acquire);
  }
}

// False: the pool stops. True: the gate may be open for a job that this worker has not seen.
bool WorkerPool::wait_for_job(std::uint64_t& seen) {
  if (generation_of(spin_for_job(seen)) == seen && !stopping_.load(std::memory_order_relaxed)) {
    std::unique_lock lock(mutex_);
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    wake_.wait(lock, [&] {
      return stopping_ || generation_of(gate_.load(std::memory_order_seq_cst)) != seen;
    });
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
  }
  return !stopping_.load(std::memory_order_relaxed);
}

}  // namespace anydim::runtime
