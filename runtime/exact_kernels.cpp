#include "runtime/exact_kernels.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <limits>

namespace anydim::runtime {

namespace {

// Calls get the processor first.
constexpr int background_niceness = 10;

}  // namespace

ExactKernels::ExactKernels(const ir::Program& program, std::vector<bool> kernels, const ir::Backend& backend, Device& device,
                           const KernelCache* cache, int threads, Warning warn, std::int64_t most_bytes)
    : program_(program), kernels_(std::move(kernels)), backend_(backend), device_(device), cache_(cache), threads_(threads),
      warn_(std::move(warn)), most_bytes_(most_bytes) {
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

std::shared_ptr<const LoadedKernel> ExactKernels::find(std::int32_t kernel, std::span<const std::int64_t> keys) {
  Key key{kernel, {keys.begin(), keys.end()}};
  const std::lock_guard lock(mutex_);
  const auto [slot, fresh] = slots_.try_emplace(key);
  slot->second.used = ++clock_;
  if (!fresh) return slot->second.kernel;
  waiting_.push_back(std::move(key));
  make_room();
  changed_.notify_all();
  return nullptr;
}

void ExactKernels::make_room() {
  // What is asked for last stays, however large it is.
  while (slots_.size() > most || (bytes_ > most_bytes_ && slots_.size() > 1)) {
    const auto oldest = std::ranges::min_element(slots_, {}, [](const auto& entry) { return entry.second.used; });
    std::erase(waiting_, oldest->first);
    if (oldest->second.kernel != nullptr) bytes_ -= oldest->second.kernel->bytes;
    slots_.erase(oldest);
  }
}

void ExactKernels::work() {
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), background_niceness);
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
    if (stopping_) return;
    const Key key = std::move(waiting_.front());
    waiting_.pop_front();
    busy_ = true;
    lock.unlock();
    std::shared_ptr<const LoadedKernel> made;
    std::string fault;
    try {
      made = make(key);
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
      make_room();
    }
    changed_.notify_all();
  }
}

std::shared_ptr<const LoadedKernel> ExactKernels::make(const Key& key) {
  const ir::Region& region = program_.kernels[static_cast<std::size_t>(key.first)].region;
  ir::DispatchTable::Entry entry;
  for (const std::int64_t value : key.second) entry.bucket.intervals.push_back({value, value, std::max<std::int64_t>(value, 1)});
  entry.estimated_seconds = std::numeric_limits<double>::infinity();
  for (const ir::Schedule& candidate : backend_.candidates(region, entry.bucket)) {
    const double seconds = backend_.estimate(region, candidate, key.second, threads_);
    if (seconds < entry.estimated_seconds) entry = {entry.bucket, candidate, seconds};
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
  return std::make_shared<LoadedKernel>(LoadedKernel{device_.load(region, entry, *compiled), compiled->resources, origin, name,
                                                     static_cast<std::int64_t>(compiled->code.size())});
}

void ExactKernels::complete() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return waiting_.empty() && !busy_; });
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
