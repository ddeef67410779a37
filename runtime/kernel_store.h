// The kernels of one program: every region × compiled shapes × schedule that its tables name, and
// those for single shapes (runtime/exact_kernels.h).
//
// load() brings in what the disk has, compiles one general kernel for each region (the last entry
// of its table) that the disk lacks, in parallel, and returns: the program can run. The rest of the
// tables, and native shape programs, follow in the background, those first that calls have asked
// for most. Each arrival publishes a new set of tables; sets are immutable, and code is unmapped
// with the last set or caller that holds it. retune() replaces the dispatch tables behind running
// calls.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "ir/backend.h"
#include "ir/cancellation.h"
#include "ir/program.h"
#include "runtime/background_queue.h"
#include "runtime/device.h"
#include "runtime/dispatch_set.h"
#include "runtime/exact_kernels.h"
#include "runtime/kernel_cache.h"
#include "runtime/kernel_maker.h"
#include "runtime/timeline.h"
#include "runtime/worker_pool.h"

namespace anydim::runtime {

struct KernelTables {
  std::shared_ptr<const DispatchSet> dispatch;
  // [kernel][row of its table]; null: not there yet
  std::vector<std::vector<std::shared_ptr<const LoadedKernel>>> kernels;
  std::vector<std::shared_ptr<const LoadedShapes>> shapes;  // [stage]; null: interpreted

  const ir::DispatchTable::Entry& entry(std::int32_t kernel, std::int32_t row) const {
    return dispatch->tables[static_cast<std::size_t>(kernel)]
        .entries[static_cast<std::size_t>(row)];
  }
  // A call met a shape of this row, whose code isn't loaded.
  void want(std::int32_t kernel, std::int32_t row) const {
    dispatch
        ->wanted[dispatch->code[static_cast<std::size_t>(kernel)][static_cast<std::size_t>(row)]]
        .fetch_add(1, std::memory_order_relaxed);
  }
};

struct KernelProgress {
  std::int64_t entries = 0;  // pieces of code that the tables name
  std::int64_t from_cache = 0;
  std::int64_t compiled = 0;
  std::int64_t failed = 0;   // did not compile, for tables or single shapes; general kernels serve
  std::int64_t pending = 0;  // for tables or single shapes
  std::int64_t code_bytes = 0;
  std::int64_t compiler_calls = 0;  // including shape programs and single shapes
};

class KernelStore {
 public:
  // `program`, `device`, `pool` and `cache` (null: nothing is kept) outlive the store. `exact`:
  // which kernels of the program are specialised to the shapes met; may be empty. `timeline` (null:
  // none) is told of kernels that come to be.
  KernelStore(const ir::Program& program, std::vector<bool> exact,
              std::shared_ptr<const ir::Backend> backend, Device& device, const KernelCache* cache,
              WorkerPool& pool, Warning warn, std::shared_ptr<Timeline> timeline = nullptr);

  // Once. Throws what the backend throws for a general kernel. Without `background`, the rest of
  // the tables and kernels for single shapes wait for complete(). `cancellation` (null: none) is
  // asked before each kernel: Error{Cancelled}.
  void load(bool background, const Cancellation* cancellation = nullptr);
  // Other dispatch tables, one a kernel of the program, from the next call on. Code that both name
  // stays; the rest, and kernels for the single shapes met from then on, is brought in from disk or
  // compiled in the background (where load() was given one). Until a new general kernel is there,
  // the one before it serves, so no call waits. Any thread.
  void retune(std::vector<ir::DispatchTable> tables);
  // A context that has newer tables calls it. Code that these were the last to hold is unmapped in
  // the background (where load() was given one, else with the next change), not by the call that is
  // about to begin. Any thread.
  void give_back(std::shared_ptr<const KernelTables> tables) {
    queue_.free_later(std::move(tables));
  }
  // Returns when every kernel is there (or has failed); the pool's threads help the one in the
  // background. `cancellation` is asked before each kernel: Error{Cancelled}, and the rest stays in
  // the background.
  void complete(const Cancellation* cancellation = nullptr) {
    queue_.complete(pool_, cancellation);
  }

  ExactKernels& exact() { return exact_; }
  std::shared_ptr<const KernelTables> tables() const;
  std::uint64_t version() const {
    return version_.load(std::memory_order_acquire);
  }  // changes with tables()
  KernelProgress progress() const;

 private:
  using Set = std::shared_ptr<const DispatchSet>;
  const ir::Region& region_of(const DispatchSet::Code& code) const {
    return program_.kernels[static_cast<std::size_t>(code.kernel)].region;
  }
  bool find(const DispatchSet& set, const DispatchSet::Code& code);
  void place(const std::shared_ptr<const LoadedKernel>& loaded, std::size_t kernel);
  void place(const std::shared_ptr<const LoadedShapes>& loaded, std::size_t stage);
  std::shared_ptr<const KernelTables> publish(std::shared_ptr<const KernelTables> tables);
  void compile_general(const Set& set, const std::vector<std::size_t>& codes,
                       const Cancellation* cancellation);
  BackgroundQueue::Task task_of(const Set& set, std::size_t code);
  BackgroundQueue::Task task_of_shapes(std::size_t stage);

  const ir::Program& program_;
  WorkerPool& pool_;
  KernelMaker maker_;
  std::atomic<std::uint64_t> version_{0};

  std::mutex retuning_;  // one change of tables at a time; taken before mutex_

  mutable std::mutex mutex_;  // of everything up to exact_
  std::shared_ptr<const KernelTables> tables_;
  KernelProgress progress_;

  ExactKernels exact_;
  BackgroundQueue queue_;  // last: its tasks use all the rest
};

}  // namespace anydim::runtime
