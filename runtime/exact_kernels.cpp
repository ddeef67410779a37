#include "runtime/exact_kernels.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <limits>

namespace anydim::runtime {

namespace {

// Calls get the processor first.
constexpr int background_niceness = 10;
constexpr std::chrono::milliseconds let_the_call_end{1};
// To wake a thread costs a caller as much as a small launch. So where shapes have been asked for lately the thread looks by itself, less and less often, before it sleeps.
constexpr std::chrono::milliseconds first_look{1}, longest_look{50};
constexpr std::chrono::seconds looking{60};

}  // namespace

ExactKernels::ExactKernels(const ir::Program& program, std::vector<bool> kernels, const ir::Backend& backend, Device& device,
                           const KernelCache* cache, int threads, Warning warn, std::int64_t most_bytes)
    : program_(program), kernels_(std::move(kernels)), backend_(backend), device_(device), cache_(cache), trials_(backend, device, cache),
      threads_(threads), warn_(std::move(warn)), most_bytes_(most_bytes) {
  if (std::ranges::find(kernels_, true) != kernels_.end()) thread_ = std::thread([this] { work(); });
}

ExactKernels::~ExactKernels() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<const LoadedKernel> ExactKernels::find(std::int32_t kernel, std::span<const std::int64_t> keys,
                                                       const std::function<const ir::DispatchTable::Entry*()>& tuned) {
  Key key{kernel, {keys.begin(), keys.end()}};
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    const auto known = slots_.find(key);
    if (known != slots_.end()) {
      known->second.used = ++clock_;
      return known->second.kernel;
    }
    if (waiting_.size() >= most) return nullptr;
    Slot& slot = slots_[key];
    slot.used = ++clock_;
    if (const ir::DispatchTable::Entry* entry = tuned()) slot.tuned = *entry;
    waiting_.push_back(std::move(key));
    wake = asleep_;
    asleep_ = false;
  }
  // Once for all that a call asks for: waking a thread costs as much as a small launch.
  if (wake) changed_.notify_all();
  return nullptr;
}

// With mutex_ held. What goes is for the caller to drop without it: code in use is not waited for, but unmapping takes its time.
std::vector<std::shared_ptr<const LoadedKernel>> ExactKernels::make_room() {
  std::vector<std::shared_ptr<const LoadedKernel>> gone;
  // What is asked for last stays, however large it is.
  while (slots_.size() > most || (bytes_ > most_bytes_ && slots_.size() > 1)) {
    const auto oldest = std::ranges::min_element(slots_, {}, [](const auto& entry) { return entry.second.used; });
    std::erase(waiting_, oldest->first);
    if (oldest->second.kernel != nullptr) bytes_ -= oldest->second.kernel->bytes;
    gone.push_back(std::move(oldest->second.kernel));
    slots_.erase(oldest);
  }
  return gone;
}

void ExactKernels::work() {
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), background_niceness);
  std::unique_lock lock(mutex_);
  std::vector<std::shared_ptr<const LoadedKernel>> gone;
  auto look_until = std::chrono::steady_clock::time_point::min();
  std::chrono::milliseconds look = first_look;
  for (;;) {
    if (waiting_.empty() && std::chrono::steady_clock::now() < look_until) {
      changed_.wait_for(lock, look, [&] { return stopping_ || (hurried_ > 0 && !waiting_.empty()); });
      look = std::min(2 * look, longest_look);
      if (!stopping_ && waiting_.empty()) continue;
    }
    asleep_ = waiting_.empty();
    if (asleep_) {
      changed_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
      asleep_ = false;
      // The call that asked is about to ask for its other kernels too: it shall not find the lock taken.
      lock.unlock();
      std::this_thread::sleep_for(let_the_call_end);
      lock.lock();
    }
    if (stopping_) return;
    look = first_look;
    look_until = std::chrono::steady_clock::now() + looking;
    gone = make_room();
    if (waiting_.empty()) {
      changed_.notify_all();
      continue;
    }
    const Key key = std::move(waiting_.front());
    waiting_.pop_front();
    const auto asked = slots_.find(key);
    const std::optional<ir::DispatchTable::Entry> tuned = asked == slots_.end() ? std::nullopt : asked->second.tuned;
    busy_ = true;
    lock.unlock();
    gone.clear();
    std::shared_ptr<const LoadedKernel> made;
    std::string fault;
    try {
      made = make(key, tuned);
    } catch (const std::exception& error) {
      fault = error.what();
    }
    if (!fault.empty() && warn_) {
      warn_(fmt::format("a kernel for one shape of {} did not compile, its general kernel serves: {}",
                        program_.kernels[static_cast<std::size_t>(key.first)].region.name, fault));
    }
    lock.lock();
    busy_ = false;
    if (const auto slot = slots_.find(key); slot != slots_.end() && made != nullptr) {
      bytes_ += made->bytes;
      slot->second.kernel = std::move(made);
      gone = make_room();
    }
    changed_.notify_all();
    lock.unlock();
    gone.clear();
    lock.lock();
  }
}

std::shared_ptr<const LoadedKernel> ExactKernels::make(const Key& key, const std::optional<ir::DispatchTable::Entry>& tuned) {
  const ir::Region& region = program_.kernels[static_cast<std::size_t>(key.first)].region;
  ir::DispatchTable::Entry entry;
  for (const std::int64_t value : key.second) entry.bucket.intervals.push_back({value, value, std::max<std::int64_t>(value, 1)});
  entry.estimated_seconds = std::numeric_limits<double>::infinity();
  for (const ir::Schedule& candidate : backend_.candidates(region, entry.bucket)) {
    const double seconds = backend_.estimate(region, candidate, key.second, threads_);
    if (seconds < entry.estimated_seconds) entry = {entry.bucket, candidate, seconds};
  }
  if (tuned) {
    entry.schedule = tuned->schedule;
    entry.estimated_seconds = tuned->estimated_seconds;
    entry.origin = tuned->origin;
  }
  const KernelKey name =
      kernel_key("kernel", region.identity, to_string(entry.bucket), to_string(entry.schedule), backend_.target(), backend_.generator());
  auto origin = KernelOrigin::Cache;
  std::optional<ir::CompiledKernel> compiled = cache_ != nullptr ? cache_->load(name) : std::nullopt;
  if (!compiled) {
    origin = KernelOrigin::Compiled;
    compiled = backend_.compile(region, entry.bucket, entry.schedule);
    if (cache_ != nullptr) cache_->store(name, *compiled);
  }
  auto device = device_.load(region, entry, *compiled, trials_.trial_of(region, entry, *compiled));
  const auto bytes = static_cast<std::int64_t>(compiled->code.size());
  return std::make_shared<LoadedKernel>(LoadedKernel{std::move(device), compiled->resources, origin, name, bytes, std::move(entry)});
}

void ExactKernels::complete() {
  std::unique_lock lock(mutex_);
  ++hurried_;
  changed_.notify_all();
  changed_.wait(lock, [&] { return waiting_.empty() && !busy_; });
  --hurried_;
}

std::size_t ExactKernels::kept() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(std::ranges::count_if(slots_, [](const auto& entry) { return entry.second.kernel != nullptr; }));
}

std::int64_t ExactKernels::code_bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace anydim::runtime
