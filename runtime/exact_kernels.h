// Kernels for single shapes, under the policy `exact`: compiled beside the calls when a shape is met, while its bucket's kernel answers.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "ir/backend.h"
#include "ir/program.h"
#include "runtime/kernel_cache.h"
#include "runtime/kernel_store.h"
#include "runtime/kernel_trials.h"

namespace anydim::runtime {

class ExactKernels {
 public:
  // At most this many are kept in one executable, with at most so many bytes of code; the least recently used goes. As many more may wait to be compiled.
  static constexpr std::size_t most = 128;
  static constexpr std::int64_t most_bytes = std::int64_t{64} << 20;

  // All outlive this; `cache` may be null. `kernels`: which of the program's are specialised. `threads`: that launches use, for estimates.
  ExactKernels(const ir::Program& program, std::vector<bool> kernels, const ir::Backend& backend, Device& device, const KernelCache* cache,
               int threads, Warning warn, std::int64_t most_bytes = ExactKernels::most_bytes);
  ~ExactKernels();  // waits for the kernel that is being compiled
  ExactKernels(const ExactKernels&) = delete;
  ExactKernels& operator=(const ExactKernels&) = delete;

  bool covers(std::int32_t kernel) const {
    return static_cast<std::size_t>(kernel) < kernels_.size() && kernels_[static_cast<std::size_t>(kernel)];
  }
  // Any thread. Null where it isn't there; then it is compiled: with the schedule that `tuned` gives, which is asked once, else with the one that the
  // backend expects most of. What has to go for it goes in the background too: code is never unmapped here.
  std::shared_ptr<const LoadedKernel> find(std::int32_t kernel, std::span<const std::int64_t> keys,
                                           const std::function<const ir::DispatchTable::Entry*()>& tuned);
  void complete();                  // returns when all that was asked for is there, was dropped or has failed
  std::size_t kept() const;         // how many are there
  std::int64_t code_bytes() const;  // of those

 private:
  using Key = std::pair<std::int32_t, std::vector<std::int64_t>>;
  struct Slot {
    std::shared_ptr<const LoadedKernel> kernel{};
    std::uint64_t used = 0;
    std::optional<ir::DispatchTable::Entry> tuned{};  // whose schedule a tuning database has for this shape
  };
  void work();
  std::shared_ptr<const LoadedKernel> make(const Key& key, const std::optional<ir::DispatchTable::Entry>& tuned);
  std::vector<std::shared_ptr<const LoadedKernel>> make_room();

  const ir::Program& program_;
  std::vector<bool> kernels_;
  const ir::Backend& backend_;
  Device& device_;
  const KernelCache* cache_;
  KernelTrials trials_;
  int threads_;
  Warning warn_;
  std::int64_t most_bytes_;

  mutable std::mutex mutex_;  // of everything below
  std::map<Key, Slot> slots_;
  std::deque<Key> waiting_;
  std::uint64_t clock_ = 0;
  std::int64_t bytes_ = 0;  // of the code that is kept
  bool busy_ = false, asleep_ = false, stopping_ = false;
  int hurried_ = 0;  // that wait in complete()
  std::condition_variable changed_;
  std::thread thread_;
};

}  // namespace anydim::runtime
