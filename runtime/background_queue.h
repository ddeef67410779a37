// Work beside the calls, such as compiling kernels: one thread of low priority, which whoever needs
// all of it done may help. To wake a thread costs a call as much as a small launch; so after a call
// has asked for something the thread looks by itself, less and less often, before it sleeps.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "ir/cancellation.h"
#include "runtime/kernel_cache.h"
#include "runtime/worker_pool.h"

namespace anydim::runtime {

class BackgroundQueue {
 public:
  struct Task {
    std::function<void()> run;
    std::string failure;  // one sentence for the warning, which adds what run() threw
    // How many calls wait for it, which may change: the most wanted is next, of those the first.
    std::function<std::uint32_t()> demand;
    const void* group = nullptr;  // for drop()
  };

  // `rested`: called after work was done, before the thread sleeps; `began`: on the thread before
  // its first task. Either may be empty.
  BackgroundQueue(Warning warn, std::function<void()> rested, std::function<void()> began = {});
  ~BackgroundQueue();  // waits for the task at work; those that wait are dropped
  BackgroundQueue(const BackgroundQueue&) = delete;
  BackgroundQueue& operator=(const BackgroundQueue&) = delete;

  // From here on there is a thread; before, tasks wait for complete(). All may be called from any
  // thread.
  void start();
  void add(std::vector<Task> tasks);
  void add_in_call(Task task);
  void drop(const void* group);  // of those that wait
  // Lets go of something by another hand than the caller's, soon or with the next task.
  void free_later(std::shared_ptr<const void> thing);
  // Frees what is to be freed; the thread looks for more for a while.
  void expect_more();
  // Returns when every task has been carried out, and frees what was to be freed; the pool's
  // threads help. Throws Error{Cancelled} where `cancellation` (null: none) asks for it; tasks then
  // wait on.
  void complete(WorkerPool& pool, const Cancellation* cancellation = nullptr);

  std::int64_t pending() const;  // waiting and at work
  std::int64_t failed() const;   // ever

 private:
  std::optional<Task> next();  // with mutex_ held
  bool run_one(std::unique_lock<std::mutex>& lock);
  void work();
  void wake();

  const Warning warn_;
  const std::function<void()> rested_, began_;
  mutable std::mutex mutex_;  // of everything below
  std::vector<Task> tasks_;
  std::vector<std::shared_ptr<const void>> things_;  // to be freed
  std::int64_t at_work_ = 0, failed_ = 0;
  bool started_ = false, stopping_ = false, asleep_ = false, woken_ = false;
  std::chrono::steady_clock::time_point look_until_{};
  std::condition_variable changed_;
  std::thread thread_;
};

}  // namespace anydim::runtime
