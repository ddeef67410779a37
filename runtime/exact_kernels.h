// Kernels for single shapes, under the policy `exact`: compiled beside the calls when a shape is
// met, while its bucket's kernel answers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ir/program.h"
#include "runtime/background_queue.h"
#include "runtime/kernel_maker.h"

namespace anydim::runtime {

struct ExactKernel {
  std::shared_ptr<const LoadedKernel> loaded;
  ir::DispatchTable::Entry entry;  // what it was compiled for, which no table has
};

class ExactKernels {
 public:
  // At most this many are kept in one executable, with at most so many bytes of code; the least
  // recently used goes. As many more may wait to be compiled.
  static constexpr std::size_t most = 128;
  static constexpr std::int64_t most_bytes = std::int64_t{64} << 20;

  // All outlive this. `kernels`: which of the program's are specialised; may be empty. `threads`:
  // that launches use, for estimates.
  ExactKernels(const ir::Program& program, std::vector<bool> kernels, KernelMaker& maker,
               BackgroundQueue& queue, int threads,
               std::int64_t most_bytes = ExactKernels::most_bytes);

  bool covers(std::int32_t kernel) const {
    return static_cast<std::size_t>(kernel) < kernels_.size() &&
           kernels_[static_cast<std::size_t>(kernel)];
  }
  // The row of the dispatch table that serves a shape.
  using BucketOf = std::function<const ir::DispatchTable::Entry&()>;
  // Any thread. Null where it isn't there; then it is compiled, with the schedule of `bucket`,
  // which is asked once, where a tuning database chose that, else with the one that the backend
  // expects most of. Code is never unmapped here.
  std::shared_ptr<const ExactKernel> find(std::int32_t kernel, std::span<const std::int64_t> keys,
                                          const BucketOf& bucket);
  // The tables have changed: every kernel is made anew when its shape is met. Any thread.
  void forget();

  struct Listed {
    std::int32_t kernel = 0;
    std::shared_ptr<const ExactKernel> exact;
  };
  std::vector<Listed> list() const;  // those that are there, by kernel and shape
  std::int64_t code_bytes() const;   // of those

 private:
  using Key = std::pair<std::int32_t, std::vector<std::int64_t>>;
  struct Slot {
    std::shared_ptr<const ExactKernel> exact;
    std::uint64_t asked = 0, used = 0;
  };
  void fill(const Key& key, std::uint64_t asked,
            const std::optional<ir::DispatchTable::Entry>& tuned);
  std::shared_ptr<const ExactKernel> make(
      const Key& key, const std::optional<ir::DispatchTable::Entry>& tuned) const;
  void make_room();

  const ir::Program& program_;
  const std::vector<bool> kernels_;
  KernelMaker& maker_;
  BackgroundQueue& queue_;
  const int threads_;
  const std::int64_t most_bytes_;

  mutable std::mutex mutex_;  // of everything below
  std::map<Key, Slot> slots_;
  std::size_t waiting_ = 0;  // to be compiled, whether still wanted or not
  std::uint64_t clock_ = 0;
  std::int64_t bytes_ = 0;  // of the code that is kept
};

}  // namespace anydim::runtime
