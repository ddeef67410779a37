#include "runtime/worker_pool.h"

#include <algorithm>
#include <bit>
#include <system_error>
#include <utility>

#include "ir/error.h"
#include "runtime/spin.h"

namespace anydim::runtime {

namespace {

constexpr int word_bits = 64;

int checked(int threads) {
  internal_check(threads >= 1 && threads <= WorkerPool::most_threads,
                 "a pool has at least the calling thread, and no more than a gate can name");
  return threads;
}

// A gate from its lowest bit on: workers inside, whether it is open, the slice's threads and its
// first, the job's number.
constexpr std::uint64_t inside_mask = (1U << 11) - 1;
constexpr std::uint64_t open_bit = 1U << 11;
constexpr int count_place = 12, first_place = 23, job_place = 33;

std::uint64_t open_gate(std::uint64_t job, int first, int count) {
  return (job << job_place) | (static_cast<std::uint64_t>(first) << first_place) |
         (static_cast<std::uint64_t>(count) << count_place) | open_bit;
}
std::uint64_t job_of(std::uint64_t gate) { return gate >> job_place; }
int first_of(std::uint64_t gate) { return static_cast<int>((gate >> first_place) & 0x3ff); }
int count_of(std::uint64_t gate) { return static_cast<int>((gate >> count_place) & 0x7ff); }

bool lets_in(std::uint64_t gate, int worker) {
  const int position = worker - first_of(gate);
  return (gate & open_bit) != 0 && position > 0 && position < count_of(gate);
}

int seats_for(int threads) { return std::min(threads, word_bits); }

// The seat of the slice that thread `number` of `threads` is in, of those taken.
int seat_of_thread(std::uint64_t seats, int number, int threads) {
  if (seats == 0) return 0;
  for (int rank = ((number + 1) * std::popcount(seats) - 1) / threads; rank > 0; --rank)
    seats &= seats - 1;
  return std::countr_zero(seats);
}

}  // namespace

WorkerPool::WorkerPool(int threads)
    : threads_(checked(threads)),
      asleep_(static_cast<std::size_t>((threads + word_bits - 1) / word_bits)) {
  for (int seat = 0; seat < seats_for(threads); ++seat)
    places_.push_back(std::make_unique<Place>(threads));
  try {
    for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { work(i); });
  } catch (const std::system_error& error) {
    stop();
    throw Error(ErrorKind::Resource,
                "the system refused worker thread {} of {} ({}); ask for fewer with --threads",
                workers_.size() + 1, threads - 1, error.code().message());
  }
}

WorkerPool::~WorkerPool() { stop(); }

void WorkerPool::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

int WorkerPool::sleeping() const {
  int count = 0;
  for (const std::atomic<std::uint64_t>& word : asleep_)
    count += std::popcount(word.load(std::memory_order_relaxed));
  return count;
}

// ---- Callers ----

int WorkerPool::take_seat() {
  if (threads_ == 1) return -1;
  const std::uint64_t all = ~std::uint64_t{0} >> (word_bits - seats_for(threads_));
  std::uint64_t seats = seats_.load(std::memory_order_relaxed);
  for (;;) {
    const std::uint64_t free = all & ~seats;
    if (free == 0) return -1;
    const std::uint64_t lowest = free & (~free + 1);
    if (seats_.compare_exchange_weak(seats, seats | lowest, std::memory_order_seq_cst))
      return std::countr_zero(lowest);
  }
}

void WorkerPool::leave_seat(int number) {
  if (number >= 0) seats_.fetch_and(~(std::uint64_t{1} << number), std::memory_order_release);
}

WorkerPool::Slice WorkerPool::slice_of(int seat) const {
  if (seat < 0) return {.count = 1};
  const std::uint64_t seats = seats_.load(std::memory_order_relaxed);
  const int callers = std::popcount(seats),
            rank = std::popcount(seats & ((std::uint64_t{1} << seat) - 1));
  const int first = rank * threads_ / callers;
  return {.first = first, .count = (rank + 1) * threads_ / callers - first};
}

void WorkerPool::run_at(int seat, std::int64_t tasks, Function function, void* state) {
  if (tasks <= 0) return;
  Slice slice = slice_of(seat);
  // Nobody comes for whom there is no task: entering costs the others time.
  slice.count = static_cast<int>(std::min<std::int64_t>(slice.count, tasks));
  if (slice.count < 2) {
    function(state, 0, tasks, 0);
    return;
  }
  Place& place = *places_[static_cast<std::size_t>(seat)];
  place.job = {function, state};
  place.shares.begin(tasks, slice.count);
  const std::uint64_t job = job_of(place.gate.load(std::memory_order_relaxed)) + 1;
  // Sequentially consistent against the sleepers' own order (announce, then look at the gate): one
  // of both sees the other.
  place.gate.store(open_gate(job, slice.first, slice.count), std::memory_order_seq_cst);
  wake(slice);

  take_pieces(place, 0);

  std::uint64_t gate = place.gate.fetch_and(~open_bit, std::memory_order_acq_rel) & ~open_bit;
  for (Spin spin; (gate & inside_mask) != 0; gate = place.gate.load(std::memory_order_acquire))
    spin.pause();
}

void WorkerPool::run_without_seat(std::int64_t tasks, Function function, void* state) {
  std::uint64_t none = 0;
  if (threads_ == 1 || tasks < 2 ||
      !seats_.compare_exchange_strong(none, 1, std::memory_order_seq_cst)) {
    if (tasks > 0) function(state, 0, tasks, 0);
    return;
  }
  run_at(0, tasks, function, state);
  leave_seat(0);
}

void WorkerPool::wake(Slice slice) {
  bool any = false;
  for (int worker = slice.first + 1; worker < slice.first + slice.count;) {
    const int bit = worker % word_bits,
              bits = std::min(slice.first + slice.count - worker, word_bits - bit);
    const std::uint64_t mask = (~std::uint64_t{0} >> (word_bits - bits)) << bit;
    const auto& word = asleep_[static_cast<std::size_t>(worker / word_bits)];
    any = any || (word.load(std::memory_order_seq_cst) & mask) != 0;
    worker += bits;
  }
  if (!any) return;
  {
    const std::lock_guard lock(mutex_);
  }
  wake_.notify_all();
}

bool WorkerPool::gather(std::chrono::microseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  std::atomic<int> here{0};
  std::vector<char> came(static_cast<std::size_t>(threads_));
  // A task a thread, and none is done with its own before all have one.
  run(threads_, [&](std::int64_t, std::int64_t, int participant) {
    if (std::exchange(came[static_cast<std::size_t>(participant)], char{1}) == 0)
      here.fetch_add(1, std::memory_order_relaxed);
    for (Spin spin;
         here.load(std::memory_order_relaxed) < threads_ && std::chrono::steady_clock::now() < end;)
      spin.pause();
  });
  return here.load(std::memory_order_relaxed) == threads_;
}

void WorkerPool::take_pieces(Place& place, int participant) {
  for (TaskShares::Piece piece = place.shares.take(participant); !piece.empty();
       piece = place.shares.take(participant))
    place.job.function(place.job.state, piece.begin, piece.end, participant);
}

// ---- Workers ----

void WorkerPool::work(int worker) {
  Seen seen;
  while (wait_for_job(worker, seen)) {
    Place& place = *places_[static_cast<std::size_t>(seen.seat)];
    std::uint64_t gate = place.gate.load(std::memory_order_relaxed);
    bool inside = false;
    while (lets_in(gate, worker) && !inside)
      inside = place.gate.compare_exchange_weak(gate, gate + 1, std::memory_order_acquire);
    seen.job = job_of(gate);
    if (!inside) continue;
    take_pieces(place, worker - first_of(gate));
    place.gate.fetch_sub(1, std::memory_order_release);
  }
}

// What the worker's caller has that the worker did not know of.
WorkerPool::Sight WorkerPool::look(int worker, Seen& seen) const {
  const int seat = seat_of_thread(seats_.load(std::memory_order_seq_cst), worker, threads_);
  const std::uint64_t gate =
      places_[static_cast<std::size_t>(seat)]->gate.load(std::memory_order_seq_cst);
  if (seat == seen.seat && job_of(gate) == seen.job) return Sight::Nothing;
  seen = {.seat = seat, .job = job_of(gate)};
  return lets_in(gate, worker) ? Sight::ForMe : Sight::ForOthers;
}

// False: the pool stops. True: the gate of the seat that was seen may be open for the worker.
bool WorkerPool::wait_for_job(int worker, Seen& seen) {
  const auto limit = std::chrono::steady_clock::now() + spin_time;
  for (Spin spin; std::chrono::steady_clock::now() < limit;) {
    for (int i = 0; i < 32; ++i) {
      if (stopping_.load(std::memory_order_relaxed)) return false;
      if (look(worker, seen) == Sight::ForMe) return true;
      spin.pause();
    }
  }
  std::atomic<std::uint64_t>& word = asleep_[static_cast<std::size_t>(worker / word_bits)];
  const std::uint64_t bit = std::uint64_t{1} << (worker % word_bits);
  std::unique_lock lock(mutex_);
  word.fetch_or(bit, std::memory_order_seq_cst);
  wake_.wait(lock, [&] { return stopping_ || look(worker, seen) == Sight::ForMe; });
  word.fetch_and(~bit, std::memory_order_relaxed);
  return !stopping_.load(std::memory_order_relaxed);
}

}  // namespace anydim::runtime
