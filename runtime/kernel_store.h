// The kernels of one program: every region × compiled shapes × schedule that its tables name, from memory, disk or the backend.
//
// load() brings in what the disk has, compiles one general kernel for each region (the last entry of its table) that the disk lacks, in parallel,
// and returns: the program can run. The rest of the tables, and native shape programs, follow on one background thread of low priority,
// those first that calls have asked for most. Each arrival publishes a new set of tables; sets are immutable, and code is unmapped with the last
// set or caller that holds it. retune() replaces the dispatch tables behind running calls.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "ir/backend.h"
#include "ir/program.h"
#include "ir/shape_program.h"
#include "runtime/code_memory.h"
#include "runtime/device.h"
#include "runtime/dispatch_set.h"
#include "runtime/kernel_cache.h"
#include "runtime/kernel_trials.h"
#include "runtime/worker_pool.h"

namespace anydim::runtime {

enum class KernelOrigin : std::uint8_t { Compiled, Cache };

struct LoadedKernel {
  std::shared_ptr<const DeviceKernel> device;
  ir::KernelResources resources;
  KernelOrigin origin = KernelOrigin::Compiled;
  KernelKey key{};
  std::int64_t bytes = 0;  // of its code and constants
  // Of a kernel for one shape alone: what it was compiled for, which no table has.
  std::optional<ir::DispatchTable::Entry> own{};
};

struct LoadedShapes {
  using Entry = void (*)(const std::int64_t* leaves, std::int64_t* values, std::int32_t* failed);
  std::shared_ptr<const CodeMemory> code;
  Entry entry = nullptr;
};

struct KernelTables {
  std::shared_ptr<const DispatchSet> dispatch;
  std::vector<std::vector<std::shared_ptr<const LoadedKernel>>> kernels;  // [kernel][row of its table]; null: not there yet
  std::vector<std::shared_ptr<const LoadedShapes>> shapes;                // [stage]; null: interpreted

  const ir::DispatchTable::Entry& entry(std::int32_t kernel, std::int32_t row) const {
    return dispatch->tables[static_cast<std::size_t>(kernel)].entries[static_cast<std::size_t>(row)];
  }
  // A call met a shape of this row, whose code isn't loaded.
  void want(std::int32_t kernel, std::int32_t row) const {
    dispatch->wanted[dispatch->code[static_cast<std::size_t>(kernel)][static_cast<std::size_t>(row)]].fetch_add(1,
                                                                                                                std::memory_order_relaxed);
  }
};

struct KernelProgress {
  std::int64_t entries = 0;  // pieces of code that the tables name
  std::int64_t from_cache = 0;
  std::int64_t compiled = 0;
  std::int64_t failed = 0;  // did not compile; their general kernels serve
  std::int64_t pending = 0;
  std::int64_t code_bytes = 0;
  std::int64_t compiler_calls = 0;  // including shape programs
};

class KernelStore {
 public:
  // `program`, `device`, `pool` and `cache` (null: nothing is kept) outlive the store.
  KernelStore(const ir::Program& program, std::shared_ptr<const ir::Backend> backend, Device& device, const KernelCache* cache,
              WorkerPool& pool, Warning warn);
  ~KernelStore();  // waits for the kernel that is being compiled
  KernelStore(const KernelStore&) = delete;
  KernelStore& operator=(const KernelStore&) = delete;

  // Once. Throws what the backend throws for a general kernel. Without `background`, the rest of the tables waits for complete().
  void load(bool background);
  // Other dispatch tables, one a kernel of the program, from the next call on. Code that both name stays; the rest is brought in from disk or compiled in the
  // background (where load() was given one). Until a new general kernel is there, the one before it serves, so no call waits. Any thread.
  void retune(std::vector<ir::DispatchTable> tables);
  // Of a context that has newer tables. Code that these were the last to hold is unmapped in the background (where load() was given one, else with the next change), not by
  // the call that is about to begin. Any thread.
  void give_back(std::shared_ptr<const KernelTables> tables);
  // Returns when every kernel is there (or has failed); the pool's threads help the one in the background.
  void complete();

  std::shared_ptr<const KernelTables> tables() const;
  std::uint64_t version() const { return version_.load(std::memory_order_acquire); }  // changes with tables()
  KernelProgress progress() const;

 private:
  struct Item {
    std::shared_ptr<const DispatchSet> set{};
    std::size_t code = 0;     // position in set->codes
    std::int32_t stage = -1;  // not -1: the shape program of this stage instead
    bool is_shapes() const { return stage >= 0; }
    const DispatchSet::Code& of() const { return set->codes[code]; }
    const ir::DispatchTable::Entry& entry() const {
      return set->tables[static_cast<std::size_t>(of().kernel)].entries[static_cast<std::size_t>(of().entry)];
    }
  };
  KernelKey key_of(const Item& item) const;
  const ir::Region& region_of(const Item& item) const;
  bool load_cached(const Item& item);
  void compile(const Item& item);
  void place(const Item& item, const ir::CompiledKernel& kernel, KernelOrigin origin, std::optional<KernelTrial> trial);
  void compile_general(const std::vector<Item>& items);
  std::optional<Item> next_pending();
  void compile_pending(const Item& item);
  void work_in_background();
  void start_background();
  void free_returned();

  const ir::Program& program_;
  std::shared_ptr<const ir::Backend> backend_;
  Device& device_;
  const KernelCache* cache_;
  WorkerPool& pool_;
  Warning warn_;
  std::string target_, generator_;
  KernelTrials trials_;
  std::atomic<std::uint64_t> version_{0};

  std::mutex retuning_;  // one change of tables at a time; taken before mutex_
  bool has_background_ = false;

  mutable std::mutex mutex_;  // of everything below
  std::shared_ptr<const KernelTables> tables_;
  std::vector<std::shared_ptr<const KernelTables>> returned_;  // for others than their users to free
  std::vector<std::weak_ptr<const KernelTables>> replaced_;    // by retune(), perhaps still in use
  std::vector<Item> pending_;
  KernelProgress progress_;
  int in_flight_ = 0;                        // being compiled
  bool stopping_ = false, working_ = false;  // working_: the thread in the background is not about to end
  std::condition_variable changed_;
  std::thread background_;
};

}  // namespace anydim::runtime
