// Kernels that are about to be asked for are compiled meanwhile, each on a thread of its own; those
// that were asked for last are kept.
#pragma once

#include <cstddef>
#include <deque>
#include <future>
#include <map>
#include <memory>

#include "runtime/kernel_maker.h"

namespace anydim::tuner {

// Used by one thread. Waits for what it has begun when it goes.
class CompileAhead {
 public:
  using Kernel = std::shared_ptr<const runtime::LoadedKernel>;
  // What runtime::KernelMaker takes; both outlive this.
  explicit CompileAhead(runtime::KernelMaker& maker) : maker_(maker) {}

  void expect(const ir::Region& region, const ir::DispatchTable::Entry& entry);
  // As runtime::KernelMaker::make, which may have been begun before.
  Kernel make(const ir::Region& region, const ir::DispatchTable::Entry& entry);

 private:
  static constexpr std::size_t most_kept = 128;
  runtime::KernelMaker& maker_;
  std::map<runtime::KernelKey, std::future<Kernel>> begun_;
  std::deque<Kernel> kept_;  // the last comes last
};

}  // namespace anydim::tuner
