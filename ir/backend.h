// What a code generator offers to passes, tuner and runtime. api hands it over; nobody else names a concrete backend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/schedule.h"
#include "ir/shape_program.h"
#include "ir/tensor.h"

namespace anydim::ir {

// ---- Kernel ABI (CPU) ----
// A kernel is a position-independent blob without unresolved symbols. Its entry covers tasks [begin, end) of a launch; tasks are independent, in any order,
// on any thread. All buffers are contiguous row-major and 64-byte aligned unless they are a caller's input.

// Set by the first failing check of a launch (compare-exchange on `check` from -1); read after the launch.
struct KernelError {
  std::int32_t check = -1;  // index into LoopForm::checks
  std::int64_t value = 0;   // offending value
};

struct HostFunctions;  // ir/host_functions.h: libm entry points that a kernel calls through its arguments

struct KernelCall {
  void* const* buffers;         // region parameters, then results
  const std::int64_t* extents;  // values of the region's symbols, in the order of its symbol table
  KernelError* error;
  const HostFunctions* host;
};
using KernelEntry = void (*)(const KernelCall* call, std::int64_t begin, std::int64_t end, void* scratch);

struct KernelResources {
  std::int64_t code_bytes = 0;
  std::int64_t instructions = 0;  // 0: not known
  std::int64_t spills = 0;
};

struct CompiledKernel {
  std::vector<std::byte> code;  // blob; alignment 64
  std::int64_t entry_offset = 0;
  Dim tasks;          // number of tasks, over the region's symbols
  Dim scratch_bytes;  // scratch of one running worker, 64-byte aligned, over the region's symbols; not initialised
  KernelResources resources;
};

// How a constant operand (a weight) is stored for the device: chosen before schedules, the same for all buckets of all regions that read it.
struct PackedLayout {
  std::string name;  // part of the kernel's key, e.g. "panels16 f32"
  std::vector<std::int64_t> fields;
  bool operator==(const PackedLayout&) const = default;
};

class Backend {
 public:
  virtual ~Backend() = default;

  // Processor features or architecture, e.g. "x86-64 avx512f avx512bf16 ..."; part of the kernel's key.
  virtual std::string target() const = 0;
  // Hash of the generator's sources and its compiler's version; part of the kernel's key. Computed without running a compiler.
  virtual std::string generator() const = 0;

  // Layout for constant parameter `parameter` of the region, or nullopt: read as it is.
  virtual std::optional<PackedLayout> packed_layout(const Region& region, std::size_t parameter) const = 0;
  virtual Tensor pack(const Region& region, std::size_t parameter, const PackedLayout& layout, const Tensor& weight) const = 0;

  // Schedules worth considering for a bucket, the first a safe general choice. Never empty for a region that derive_loop_form accepts.
  virtual std::vector<Schedule> candidates(const Region& region, const Bucket& bucket) const = 0;
  // Estimated seconds of one launch on `threads` workers, at concrete values of the region's bucket keys (Region::keys, in order;
  // not its symbols: a matmul over [b, s, 384] has the one key b * s).
  virtual double estimate(const Region& region, const Schedule& schedule, std::span<const std::int64_t> keys, int threads) const = 0;
  // Values where the best schedule may change (first value of the upper side, ascending), one list a key; used to cut ranges into buckets.
  virtual std::vector<std::vector<std::int64_t>> key_edges(const Region& region) const = 0;
  // Safe to call from several threads at once. Throws Error{Internal} where a candidate does not compile.
  virtual CompiledKernel compile(const Region& region, const Bucket& bucket, const Schedule& schedule) const = 0;

  // Native code for a shape program (ir/shape_program.h), or nullopt where this backend runs none (it is interpreted then).
  // Entry: void(const int64_t* leaves, int64_t* values, int32_t* failed), failed = index of the first expression that overflowed or
  // divided by zero, else -1. tasks and scratch_bytes are unused.
  virtual std::optional<CompiledKernel> compile_shapes(const ShapeProgram& program) const = 0;
};

}  // namespace anydim::ir
