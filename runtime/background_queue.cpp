#include "runtime/background_queue.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>

namespace anydim::runtime {

namespace {

// Calls get the processor first.
constexpr int background_niceness = 10;
// A call that woke the thread is about to ask for more: it shall not find the lock taken.
constexpr std::chrono::milliseconds let_the_call_end{1};
constexpr std::chrono::milliseconds first_look{1}, longest_look{50};
constexpr std::chrono::seconds looking{60};

}  // namespace

BackgroundQueue::BackgroundQueue(Warning warn, std::function<void()> rested,
                                 std::function<void()> began)
    : warn_(std::move(warn)), rested_(std::move(rested)), began_(std::move(began)) {}

BackgroundQueue::~BackgroundQueue() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

// With mutex_ held.
void BackgroundQueue::wake() {
  if (!started_) return;
  woken_ = true;
  if (thread_.joinable()) changed_.notify_all();
  else thread_ = std::thread([this] { work(); });
}

void BackgroundQueue::start() {
  const std::lock_guard lock(mutex_);
  started_ = true;
  if (!tasks_.empty()) wake();
}

void BackgroundQueue::add(std::vector<Task> tasks) {
  const std::lock_guard lock(mutex_);
  std::ranges::move(tasks, std::back_inserter(tasks_));
  if (!tasks.empty()) wake();
}

void BackgroundQueue::add_in_call(Task task) {
  const std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  look_until_ = std::chrono::steady_clock::now() + looking;
  if (asleep_ || !thread_.joinable()) wake();
  asleep_ = false;  // once for all that a call asks for
}

void BackgroundQueue::drop(const void* group) {
  const std::lock_guard lock(mutex_);
  std::erase_if(tasks_, [&](const Task& task) { return task.group == group; });
  changed_.notify_all();
}

void BackgroundQueue::free_later(std::shared_ptr<const void> thing) {
  const std::lock_guard lock(mutex_);
  things_.push_back(std::move(thing));
}

void BackgroundQueue::expect_more() {
  std::vector<std::shared_ptr<const void>> things;  // outlives the lock
  const std::lock_guard lock(mutex_);
  things.swap(things_);
  look_until_ = std::chrono::steady_clock::now() + looking;
  wake();
}

std::optional<BackgroundQueue::Task> BackgroundQueue::next() {
  if (tasks_.empty() || stopping_) return std::nullopt;
  const auto chosen =
      std::ranges::max_element(tasks_, {}, [](const Task& task) { return task.demand(); });
  Task task = std::move(*chosen);
  tasks_.erase(chosen);
  return task;
}

// Frees what is to be freed and carries one task out, without the lock. False: there was none.
bool BackgroundQueue::run_one(std::unique_lock<std::mutex>& lock) {
  std::vector<std::shared_ptr<const void>> things = std::exchange(things_, {});
  std::optional<Task> task = next();
  if (task) ++at_work_;
  lock.unlock();
  things.clear();
  bool failed = false;
  if (task) {
    try {
      task->run();
    } catch (const std::exception& error) {
      failed = true;
      if (warn_) warn_(fmt::format("{}: {}", task->failure, error.what()));
    }
  }
  const bool ran = task.has_value();
  task.reset();
  lock.lock();
  if (!ran) return false;
  --at_work_;
  failed_ += failed ? 1 : 0;
  changed_.notify_all();
  return true;
}

void BackgroundQueue::work() {
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), background_niceness);
  if (began_) began_();
  std::unique_lock lock(mutex_);
  std::chrono::milliseconds look = first_look;
  bool worked = false;
  while (!stopping_) {
    woken_ = false;
    while (run_one(lock)) {
      worked = true;
      look = first_look;
    }
    const auto needed = [&] { return stopping_ || woken_; };
    if (needed()) continue;
    if (std::chrono::steady_clock::now() < look_until_) {
      changed_.wait_for(lock, look, needed);
      look = std::min(2 * look, longest_look);
      continue;
    }
    if (std::exchange(worked, false) && rested_) {
      lock.unlock();
      rested_();
      lock.lock();
      continue;
    }
    asleep_ = true;
    changed_.wait(lock, needed);
    const bool by_a_call = !std::exchange(asleep_, false);
    look = first_look;
    if (!by_a_call) continue;
    lock.unlock();
    std::this_thread::sleep_for(let_the_call_end);
    lock.lock();
  }
}

void BackgroundQueue::complete(WorkerPool& pool, const Cancellation* cancellation) {
  const auto given_up = [&] { return cancellation != nullptr && cancellation->cancelled(); };
  pool.run(pool.threads(), [&](std::int64_t, std::int64_t, int) {
    std::unique_lock lock(mutex_);
    while (!given_up() && run_one(lock)) continue;
  });
  std::unique_lock lock(mutex_);
  const auto done = [&] { return tasks_.empty() && at_work_ == 0; };
  if (cancellation == nullptr) {
    changed_.wait(lock, done);
    return;
  }
  while (!changed_.wait_for(lock, Cancellation::poll_pause, done)) cancellation->check();
}

std::int64_t BackgroundQueue::pending() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(tasks_.size()) + at_work_;
}

std::int64_t BackgroundQueue::failed() const {
  const std::lock_guard lock(mutex_);
  return failed_;
}

}  // namespace anydim::runtime
