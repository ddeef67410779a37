// How one kernel comes to be: one that is loaded serves again, else the disk's, else the
// compiler's.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "ir/backend.h"
#include "ir/shapes/shape_program.h"
#include "runtime/code_memory.h"
#include "runtime/device.h"
#include "runtime/kernel_cache.h"
#include "runtime/kernel_trials.h"
#include "runtime/timeline.h"

namespace anydim::runtime {

enum class KernelOrigin : std::uint8_t { Compiled, Cache };

struct LoadedKernel {
  std::shared_ptr<const DeviceKernel> device;
  ir::KernelResources resources;
  KernelOrigin origin = KernelOrigin::Compiled;
  KernelKey key{};
  std::int64_t bytes = 0;  // of its code and constants
};

struct LoadedShapes {
  using Entry = void (*)(const std::int64_t* leaves, std::int64_t* values, std::int32_t* failed);
  std::shared_ptr<const CodeMemory> code;
  Entry entry = nullptr;
  std::int64_t bytes = 0;
};

// Any thread.
class KernelMaker {
 public:
  // `device` and `cache` (null: nothing is kept on disk) outlive this. `timeline` may be null.
  KernelMaker(std::shared_ptr<const ir::Backend> backend, Device& device, const KernelCache* cache,
              std::shared_ptr<Timeline> timeline = nullptr);

  const ir::Backend& backend() const { return *backend_; }
  KernelKey key_of(const ir::Region& region, const ir::DispatchTable::Entry& entry) const;

  // Null where only the compiler can make it.
  std::shared_ptr<const LoadedKernel> find(const ir::Region& region,
                                           const ir::DispatchTable::Entry& entry);
  // One that somebody holds; null: nobody does.
  std::shared_ptr<const LoadedKernel> loaded(const KernelKey& key);
  // As find(), else compiled and kept on disk. Throws what the backend and the device throw.
  std::shared_ptr<const LoadedKernel> make(const ir::Region& region,
                                           const ir::DispatchTable::Entry& entry);
  // Native code of a shape program; null where the disk lacks it, or the backend compiles none.
  std::shared_ptr<const LoadedShapes> find(const ir::ShapeProgram& shapes) const;
  std::shared_ptr<const LoadedShapes> make(const ir::ShapeProgram& shapes);

  std::int64_t compiler_calls() const { return compiler_calls_.load(std::memory_order_relaxed); }

 private:
  KernelKey key_of(const ir::ShapeProgram& shapes) const;
  std::shared_ptr<const LoadedKernel> load(const ir::Region& region,
                                           const ir::DispatchTable::Entry& entry,
                                           const KernelKey& key, const ir::CompiledKernel& kernel,
                                           KernelOrigin origin, std::optional<KernelTrial> trial);

  void record(TimelineKind kind, std::uint64_t begun, std::int64_t bytes, const ir::Region* region,
              const ir::DispatchTable::Entry* entry) const;

  std::shared_ptr<const ir::Backend> backend_;
  Device& device_;
  const KernelCache* cache_;
  std::shared_ptr<Timeline> timeline_;
  const std::string target_, generator_;
  KernelTrials trials_;
  std::atomic<std::int64_t> compiler_calls_{0};
  std::mutex mutex_;
  std::map<KernelKey, std::weak_ptr<const LoadedKernel>> loaded_;
};

}  // namespace anydim::runtime
