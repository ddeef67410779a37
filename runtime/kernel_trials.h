// Which kernels a machine has not run yet. Where a kernel waits for other threads or copies, a
// fault of it, or hardware that is not as it was written for, could hang the device: the first to
// run there is its checked form (ir::Backend::checked_forms), whose waits end. What has passed is
// remembered in the cache of kernels, for this device and driver.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "ir/backend.h"
#include "runtime/device.h"
#include "runtime/kernel_cache.h"

namespace anydim::runtime {

class KernelTrials {
 public:
  // `device` and `cache` (null: every process tries anew) outlive this.
  KernelTrials(const ir::Backend& backend, const Device& device, const KernelCache* cache);

  // What Device::load is to be given with a kernel of this entry; nothing where it needs no trial.
  // Compiles the checked form where the cache has none, and throws what that throws. Any thread.
  std::optional<KernelTrial> trial_of(const ir::Region& region,
                                      const ir::DispatchTable::Entry& entry,
                                      const ir::CompiledKernel& kernel) const;
  // Whether any kernel is tried here at all.
  bool wanted() const { return checked_forms_ != nullptr; }
  // The same without the compiler.
  struct Cached {
    bool complete = true;  // false: a trial is needed whose checked form only the compiler can make
    std::optional<KernelTrial> trial{};
  };
  Cached cached_trial_of(const ir::Region& region, const ir::DispatchTable::Entry& entry,
                         const ir::CompiledKernel& kernel) const;

 private:
  struct Keys {
    KernelKey checked_form, passed;
  };
  KernelTrial trial_with(ir::CompiledKernel checked_form, const Keys& keys) const;
  std::optional<Keys> keys_of(const ir::Region& region, const ir::DispatchTable::Entry& entry,
                              const ir::CompiledKernel& kernel) const;

  std::shared_ptr<const ir::Backend> checked_forms_;  // null: none is tried
  const KernelCache* cache_;
  std::string machine_, target_, generator_;
};

}  // namespace anydim::runtime
