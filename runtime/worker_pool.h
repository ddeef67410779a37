// A small pool of spinning threads: one fork and join costs about a microsecond while the workers
// are awake.
//
// Workers spin for a bounded while after their last job (spin_time), then sleep until the next one,
// so an idle process burns no processor time. The calling thread takes part. Any number of threads
// may call at once, and nothing waits for another caller: of T threads and C callers that hold a
// Seat, the r-th has the threads from r T / C to (r + 1) T / C, of which its own stands for the
// first. So one caller has all of them, and T or more callers compute alone. Slices follow
// from one word that says which seats are taken; they change as calls begin and end, and a job
// keeps those it began with. Calls from inside a running job do their own work alone.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

#include "runtime/task_shares.h"

namespace anydim::runtime {

class WorkerPool {
 public:
  static constexpr int most_threads = 1024;

  // `threads` counts the caller: 1 starts no worker; at most most_threads. Throws Error{Resource}
  // where the system refuses a thread.
  explicit WorkerPool(int threads);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  int threads() const { return threads_; }
  // Workers that spun in vain and sleep until the next job.
  int sleeping() const;

  // A caller's place among those that call at once, for as long as its call lasts; used by one
  // thread at a time. Taking it and giving it back cost an atomic operation each.
  class Seat {
   public:
    explicit Seat(WorkerPool& pool) : pool_(pool), number_(pool.take_seat()) {}
    ~Seat() { pool_.leave_seat(number_); }
    Seat(const Seat&) = delete;
    Seat& operator=(const Seat&) = delete;

    // Calls body(begin, end, participant) over pieces that together cover [0, tasks), each once, in
    // no order, tasks of the same numbers mostly on the same thread (runtime/task_shares.h) while
    // the slice stays the same; returns when all are done and their effects are visible.
    // `participant` is in [0, threads()), and no two pieces of one job run at once under one. Must
    // not throw.
    template <typename Body>
    void run(std::int64_t tasks, Body&& body) {
      pool_.run_at(number_, tasks, function_of(body), state_of(body));
    }
    // Threads that a job begun now would have.
    int threads() const { return pool_.slice_of(number_).count; }

   private:
    WorkerPool& pool_;
    int number_;
  };

  // As Seat::run for a caller without a seat: on all threads where no seat is taken, else alone.
  template <typename Body>
  void run(std::int64_t tasks, Body&& body) {
    run_without_seat(tasks, function_of(body), state_of(body));
  }

  // Has every worker come out of its sleep, as amid a call, so that the next job finds all of them
  // spinning. Waits for them for `limit` at most; false: not all came, because something else holds
  // their processors or another caller has them.
  bool gather(std::chrono::microseconds limit);

  static constexpr std::chrono::microseconds spin_time{500};

 private:
  using Function = void (*)(void* state, std::int64_t begin, std::int64_t end, int participant);
  struct Job {
    Function function = nullptr;
    void* state = nullptr;
  };
  // Threads of a caller, by number; the caller stands for the first, and worker i is number i.
  struct Slice {
    int first = 0, count = 0;
  };
  // What workers of a seat watch.
  struct alignas(64) Place {
    explicit Place(int threads) : shares(threads) {}
    // The job's number, the slice that it is for, whether it takes workers, and how many are inside
    // it (worker_pool.cpp).
    std::atomic<std::uint64_t> gate{0};
    // Written only while the gate is shut and nobody is inside.
    TaskShares shares;
    Job job;
  };
  // The newest job that a worker knows of.
  struct Seen {
    int seat = 0;
    std::uint64_t job = 0;
  };
  enum class Sight : std::uint8_t { Nothing, ForOthers, ForMe };

  template <typename Body>
  static Function function_of(Body&) {
    using Plain = std::remove_reference_t<Body>;
    return [](void* state, std::int64_t begin, std::int64_t end, int participant) {
      (*static_cast<Plain*>(state))(begin, end, participant);
    };
  }
  template <typename Body>
  static void* state_of(Body& body) {
    return const_cast<void*>(static_cast<const void*>(&body));
  }

  int take_seat();  // -1: all are taken
  void leave_seat(int number);
  Slice slice_of(int seat) const;
  void run_at(int seat, std::int64_t tasks, Function function, void* state);
  void run_without_seat(std::int64_t tasks, Function function, void* state);
  void wake(Slice slice);
  static void take_pieces(Place& place, int participant);

  void work(int worker);
  void stop();
  bool wait_for_job(int worker, Seen& seen);
  Sight look(int worker, Seen& seen) const;

  const int threads_;
  alignas(64) std::atomic<std::uint64_t> seats_{0};  // taken, a bit each
  alignas(64) std::atomic<bool> stopping_{false};
  std::vector<std::unique_ptr<Place>> places_;      // [seat]
  std::vector<std::atomic<std::uint64_t>> asleep_;  // a bit a worker
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::thread> workers_;
};

}  // namespace anydim::runtime
