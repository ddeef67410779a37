// A small pool of spinning threads: one fork and join costs about a microsecond while the workers
// are awake.
//
// Workers spin for a bounded while after their last job (spin_time), then sleep until the next one,
// so an idle process burns no processor time. The calling thread takes part. Any number of threads
// may call at once: one of them gets the workers, the others (and calls from inside a running job)
// do their own work alone; nothing waits for another caller.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

#include "runtime/task_shares.h"

namespace anydim::runtime {

class WorkerPool {
 public:
  // `threads` counts the caller: 1 starts no worker. Throws Error{Resource} where the system
  // refuses a thread.
  explicit WorkerPool(int threads);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }
  // Workers that spun in vain and sleep until the next job.
  int sleeping() const { return sleepers_.load(std::memory_order_relaxed); }

  // Calls body(begin, end, participant) over pieces that together cover [0, tasks), each once, in
  // no order, tasks of the same numbers mostly on the same thread (runtime/task_shares.h); returns
  // when all are done and their effects are visible. `participant` is in [0, threads()), and no two
  // pieces run at once under one. Must not throw.
  template <typename Body>
  void run(std::int64_t tasks, Body&& body) {
    using Plain = std::remove_reference_t<Body>;
    run_erased(
        tasks,
        [](void* state, std::int64_t begin, std::int64_t end, int participant) {
          (*static_cast<Plain*>(state))(begin, end, participant);
        },
        const_cast<void*>(static_cast<const void*>(&body)));
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

  void run_erased(std::int64_t tasks, Function function, void* state);
  void work(int participant);
  void take_pieces(const Job& job, int participant);
  bool wait_for_job(std::uint64_t& seen);
  std::uint64_t spin_for_job(std::uint64_t seen) const;

  std::atomic_flag busy_;  // a caller owns the workers
  // Generation of the job in the upper half; then whether it takes workers (bit 31), then how many
  // are inside it.
  alignas(64) std::atomic<std::uint64_t> gate_{0};
  // Written only while the gate is shut and nobody is inside.
  TaskShares shares_;
  Job job_;
  alignas(64) std::atomic<int> sleepers_{0};
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::thread> workers_;
};

}  // namespace anydim::runtime
