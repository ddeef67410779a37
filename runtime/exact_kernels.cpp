#include "runtime/exact_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace anydim::runtime {

ExactKernels::ExactKernels(const ir::Program& program, std::vector<bool> kernels,
                           KernelMaker& maker, BackgroundQueue& queue, int threads,
                           std::int64_t most_bytes)
    : program_(program), kernels_(std::move(kernels)), maker_(maker), queue_(queue),
      threads_(threads), most_bytes_(most_bytes) {}

std::shared_ptr<const ExactKernel> ExactKernels::find(std::int32_t kernel,
                                                      std::span<const std::int64_t> keys,
                                                      const BucketOf& bucket) {
  Key key{kernel, {keys.begin(), keys.end()}};
  std::uint64_t asked = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto known = slots_.find(key);
    if (known != slots_.end()) {
      known->second.used = ++clock_;
      return known->second.exact;
    }
    if (waiting_ >= most) return nullptr;
    ++waiting_;
    asked = ++clock_;
    slots_[key] = {.exact = nullptr, .asked = asked, .used = asked};
  }
  std::optional<ir::DispatchTable::Entry> tuned;
  if (const ir::DispatchTable::Entry& row = bucket(); row.origin != ir::EntryOrigin::CostModel)
    tuned = row;
  const std::string& region = program_.kernels[static_cast<std::size_t>(kernel)].region.name;
  queue_.add_in_call(
      {.run = [this, key = std::move(key), asked,
               tuned = std::move(tuned)] { fill(key, asked, tuned); },
       .failure = fmt::format(
           "a kernel for one shape of {} did not compile, its general kernel serves", region),
       .demand = [] { return 2U; }});  // as a bucket's kernel that one call has met
  return nullptr;
}

// With mutex_ held.
void ExactKernels::make_room() {
  // What is asked for last stays, however large it is.
  while (slots_.size() > most || (bytes_ > most_bytes_ && slots_.size() > 1)) {
    const auto oldest =
        std::ranges::min_element(slots_, {}, [](const auto& entry) { return entry.second.used; });
    if (oldest->second.exact != nullptr) {
      bytes_ -= oldest->second.exact->loaded->bytes;
      queue_.free_later(std::move(oldest->second.exact));
    }
    slots_.erase(oldest);
  }
}

void ExactKernels::fill(const Key& key, std::uint64_t asked,
                        const std::optional<ir::DispatchTable::Entry>& tuned) {
  // By then it may have gone, or have been asked for again.
  const auto wanted = [&] {
    const auto slot = slots_.find(key);
    return slot != slots_.end() && slot->second.asked == asked ? &slot->second : nullptr;
  };
  {
    const std::lock_guard lock(mutex_);
    --waiting_;
    make_room();
    if (wanted() == nullptr) return;
  }
  std::shared_ptr<const ExactKernel> made = make(key, tuned);
  const std::lock_guard lock(mutex_);
  Slot* slot = wanted();
  if (slot == nullptr) return;
  bytes_ += made->loaded->bytes;
  slot->exact = std::move(made);
  make_room();
}

std::shared_ptr<const ExactKernel> ExactKernels::make(
    const Key& key, const std::optional<ir::DispatchTable::Entry>& tuned) const {
  const ir::Region& region = program_.kernels[static_cast<std::size_t>(key.first)].region;
  ir::DispatchTable::Entry entry;
  for (const std::int64_t value : key.second)
    entry.bucket.intervals.push_back({value, value, std::max<std::int64_t>(value, 1)});
  if (tuned) {
    entry.schedule = tuned->schedule;
    entry.estimated_seconds = tuned->estimated_seconds;
    entry.origin = tuned->origin;
  } else {
    entry.estimated_seconds = std::numeric_limits<double>::infinity();
    for (const ir::Schedule& candidate : maker_.backend().candidates(region, entry.bucket)) {
      const double seconds = maker_.backend().estimate(region, candidate, key.second, threads_);
      if (seconds < entry.estimated_seconds) entry = {entry.bucket, candidate, seconds};
    }
  }
  return std::make_shared<const ExactKernel>(maker_.make(region, entry), entry);
}

void ExactKernels::forget() {
  const std::lock_guard lock(mutex_);
  for (auto& [key, slot] : slots_) queue_.free_later(std::move(slot.exact));
  slots_.clear();
  bytes_ = 0;
}

std::vector<ExactKernels::Listed> ExactKernels::list() const {
  const std::lock_guard lock(mutex_);
  std::vector<Listed> all;
  for (const auto& [key, slot] : slots_)
    if (slot.exact != nullptr) all.push_back({key.first, slot.exact});
  return all;
}

std::int64_t ExactKernels::code_bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace anydim::runtime
