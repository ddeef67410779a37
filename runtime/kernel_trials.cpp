#include "runtime/kernel_trials.h"

#include <utility>

namespace anydim::runtime {

namespace {

// What the cache holds for a kernel that has passed: there is nothing to say but that.
ir::CompiledKernel mark() {
  ir::CompiledKernel kernel;
  kernel.code.resize(1);
  return kernel;
}

}  // namespace

KernelTrials::KernelTrials(const ir::Backend& backend, const Device& device,
                           const KernelCache* cache)
    : cache_(cache), machine_(device.machine()) {
  if (machine_.empty()) return;
  checked_forms_ = backend.checked_forms();
  if (checked_forms_ == nullptr) return;
  target_ = checked_forms_->target();
  generator_ = checked_forms_->generator();
}

std::optional<KernelTrials::Keys> KernelTrials::keys_of(const ir::Region& region,
                                                        const ir::DispatchTable::Entry& entry,
                                                        const ir::CompiledKernel& kernel) const {
  if (checked_forms_ == nullptr || !kernel.cuda().waits) return std::nullopt;
  const std::string bucket = to_string(entry.compiled_for()), schedule = to_string(entry.schedule);
  return Keys{
      kernel_key("kernel", region.identity, bucket, schedule, target_, generator_),
      kernel_key("passed on " + machine_, region.identity, bucket, schedule, target_, generator_)};
}

KernelTrial KernelTrials::trial_with(ir::CompiledKernel checked_form, const Keys& keys) const {
  return {std::move(checked_form), [cache = cache_, passed = keys.passed] {
            if (cache != nullptr) cache->store(passed, mark());
          }};
}

KernelTrials::Cached KernelTrials::cached_trial_of(const ir::Region& region,
                                                   const ir::DispatchTable::Entry& entry,
                                                   const ir::CompiledKernel& kernel) const {
  const std::optional<Keys> keys = keys_of(region, entry, kernel);
  if (!keys) return {};
  if (cache_ == nullptr) return {.complete = false};
  if (cache_->load(keys->passed)) return {};
  std::optional<ir::CompiledKernel> checked_form = cache_->load(keys->checked_form);
  if (!checked_form) return {.complete = false};
  return {.trial = trial_with(std::move(*checked_form), *keys)};
}

std::optional<KernelTrial> KernelTrials::trial_of(const ir::Region& region,
                                                  const ir::DispatchTable::Entry& entry,
                                                  const ir::CompiledKernel& kernel) const {
  Cached cached = cached_trial_of(region, entry, kernel);
  if (cached.complete) return std::move(cached.trial);
  const Keys keys = keys_of(region, entry, kernel).value();
  ir::CompiledKernel checked_form =
      checked_forms_->compile(region, entry.compiled_for(), entry.schedule);
  if (cache_ != nullptr) cache_->store(keys.checked_form, checked_form);
  return trial_with(std::move(checked_form), keys);
}

}  // namespace anydim::runtime
