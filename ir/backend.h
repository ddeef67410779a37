// What a code generator offers to passes, tuner and runtime. api hands it over; nobody else names a
// concrete backend.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "ir/device_limits.h"
#include "ir/module.h"
#include "ir/schedule.h"
#include "ir/shapes/shape_program.h"
#include "ir/tensor.h"

namespace anydim::ir {

// ---- Kernel ABI (CPU) ----
// A kernel is a position-independent blob without unresolved symbols. Its entry covers tasks
// [begin, end) of a launch; tasks are independent, in any order, on any thread. All buffers are
// contiguous row-major and 64-byte aligned unless they are a caller's input.

// Set by the first failing check of a launch (compare-exchange on `check` from -1); read after the
// launch.
struct KernelError {
  std::int32_t check = -1;  // index into LoopForm::checks; wait_ran_out
  std::int64_t value = 0;   // offending value
  // A wait of a checked form (Backend::checked_forms) ended without what it waited for, and the
  // launch with it. `value`: bits 40 and up the block, 28 to 39 the thread, 20 to 27 the barrier's
  // number, 19 the parity waited for, below that the iteration.
  static constexpr std::int32_t wait_ran_out = -2;
};

struct HostFunctions;  // ir/host_functions.h: libm entry points that a kernel calls through its
                       // arguments

struct KernelCall {
  void* const* buffers;         // region parameters, then results
  const std::int64_t* extents;  // values of the region's symbols, in the order of its symbol table
  KernelError* error;
  const HostFunctions* host;
};
using KernelEntry = void (*)(const KernelCall* call, std::int64_t begin, std::int64_t end,
                             void* scratch);

struct KernelResources {
  std::int64_t code_bytes = 0;
  std::int64_t instructions = 0;  // 0: not known
  std::int64_t spills = 0;        // CUDA: bytes of stores and loads
  // CUDA: the most that any launch uses; 0 on the CPU.
  std::int64_t registers = 0;     // a thread
  std::int64_t stack_bytes = 0;   // a thread's local memory, spills included
  std::int64_t shared_bytes = 0;  // a block's shared memory, static and dynamic
  std::string remarks{};          // of the assembler, a line each: the code is right, but slower
  bool operator==(const KernelResources&) const = default;
};

// ---- Kernel ABI (CUDA) ----
// A region is one or more launches, in order on one stream. Parameters of every entry, in order: a
// 64-bit device address for each buffer of the region (parameters, then results); const int64*
// extents, the region's symbols, in device memory; KernelError* error, in host memory; void*
// workspace (CompiledKernel::scratch_bytes, 256-byte aligned); then each tensor map by value (128
// bytes, 64-byte aligned). Buffers are contiguous row-major and 64-byte aligned. Kernels read every
// extent that varies from `extents`: a grid may be larger than the work.

// A descriptor of tensor memory access, which runtime encodes (cuTensorMapEncodeTiled).
struct TensorMap {
  std::int32_t buffer = 0;        // position among the region's buffers; -1: the workspace
  DType dtype = DType::F32;       // what memory is seen as, as wide as its elements or wider
  std::vector<Dim> dims;          // elements, innermost first, over the region's symbols
  std::vector<Dim> strides;       // bytes, of dims 1 onwards (one fewer than dims), multiples of 16
  std::vector<std::int32_t> box;  // elements, each at most 256
  std::int32_t swizzle_bytes = 0;  // 0, 32, 64 or 128
  bool operator==(const TensorMap&) const = default;
};

// A product that runtime has cuBLASLt carry out: d[row, j] = activation(sum over i of x[row, i] *
// w[i, j] + bias[j]), row-major, all of one dtype (f32, f16, bf16), sums in f32. Rows are
// independent, so a captured graph may compute more of them than a call has.
struct LibraryProduct {
  enum class Activation : std::uint8_t { None, Relu, GeluTanh };
  std::int32_t x = 0, w = 0, bias = -1,
               d = 0;  // positions among the region's buffers; bias -1: none
  DType dtype = DType::BF16;
  std::int64_t n = 0, k = 0;  // at least 1
  bool w_by_columns = false;  // w is stored as [n, k]
  Activation activation = Activation::None;
  bool tf32 = false;  // f32 operands may be rounded to TF32
  static constexpr std::int64_t workspace_bytes = std::int64_t{32} << 20;
  bool operator==(const LibraryProduct&) const = default;
};

struct DeviceLaunch {
  std::string entry;  // extern "C" name in the module
  std::array<Dim, 3> grid{
      Dim(1), Dim(1), Dim(1)};  // blocks, over the region's symbols; 0 in any: nothing to launch
  std::array<std::int32_t, 3> block{1, 1, 1};    // threads
  std::array<std::int32_t, 3> cluster{1, 1, 1};  // blocks; 1, 1, 1: none
  std::int64_t shared_bytes = 0;                 // dynamic shared memory
  std::vector<TensorMap> tensor_maps{};
  bool dependent = false;  // waits (griddepcontrol.wait) before it touches what an earlier launch
                           // wrote: may start before that one ends
  // instead of an entry: grid[0] is its rows, and the workspace its own
  std::optional<LibraryProduct> product{};
  bool operator==(const DeviceLaunch&) const = default;
};

// Code is a blob, alignment 64. Offsets in it:
struct CpuEntries {
  // of the KernelEntry, or of a shape program's entry (Backend::compile_shapes)
  std::int64_t kernel = 0;
  std::int64_t sizes = -1;  // of the native shape program {tasks, scratch_bytes} over the region's
                            // symbols, an entry as of compile_shapes; -1: interpreted
  bool operator==(const CpuEntries&) const = default;
};

// Code is a cubin or the text of PTX; empty where all launches are products of a library.
struct CudaLaunches {
  std::vector<DeviceLaunch> launches{};
  bool waits = false;  // threads wait in loops for what others or copies do, so that a fault could
                       // hang the device
  bool operator==(const CudaLaunches&) const = default;
};

struct CompiledKernel {
  std::vector<std::byte> code;
  std::variant<CpuEntries, CudaLaunches> device{};
  Dim tasks;          // number of tasks, over the region's symbols
  Dim scratch_bytes;  // over the region's symbols; not initialised. CPU: scratch of one running
                      // worker, 64-byte aligned; CUDA: the workspace
  KernelResources resources{};

  // The kernel must be one for that device.
  const CpuEntries& cpu() const { return std::get<CpuEntries>(device); }
  const CudaLaunches& cuda() const { return std::get<CudaLaunches>(device); }
  bool operator==(const CompiledKernel&) const = default;
};

// How a constant operand (a weight) is stored for the device: chosen before schedules, the same for
// all buckets of all regions that read it.
struct PackedLayout {
  std::string name;  // part of the kernel's key, e.g. "panels16 f32"
  std::vector<std::int64_t> fields;
  bool operator==(const PackedLayout&) const = default;
};

// A launch beside what its workers share, for comparing numbers of them.
struct SharedLaunch {
  int threads = 1;
  std::int64_t tasks = 1;  // of the kernel, at the launch's extents
  double bytes = 0;        // that it reads and writes at least
  // Bytes a second that all threads get from memory; infinite: each gets as much as one alone.
  double memory_bandwidth = std::numeric_limits<double>::infinity();
};

class Backend {
 public:
  virtual ~Backend() = default;

  // Processor features or architecture, e.g. "x86-64 avx512f avx512bf16 ..."; part of the kernel's
  // key.
  virtual std::string target() const = 0;
  // Hash of the generator's sources and its compiler's version; part of the kernel's key. Computed
  // without running a compiler.
  virtual std::string generator() const = 0;

  // Layout for constant parameter `parameter` of the region, or nullopt: read as it is.
  virtual std::optional<PackedLayout> packed_layout(const Region& region,
                                                    std::size_t parameter) const = 0;
  // `weight` in that layout, in memory from `allocate`, which gives writable tensors of zeros.
  using Allocate = std::function<Tensor(DType, std::vector<std::int64_t>)>;
  virtual Tensor pack(const Region& region, std::size_t parameter, const PackedLayout& layout,
                      const Tensor& weight, const Allocate& allocate) const = 0;

  // Parameters of a region of one result in whose memory the result may lie: its kernels read an
  // element of them only to compute the result's element in the same place, which they write after
  // it. One of them at a time, and where no other parameter lies there.
  virtual std::vector<std::size_t> overwritable(const Region&) const { return {}; }

  // Whether one kernel is the best way to compute a product and what needs its rows whole (a layer
  // norm, a softmax of the result); else those are kernels of their own, which read the rows from
  // memory, and a region of both throws Error{Unsupported} whatever is asked about it.
  virtual bool joins_rows_to_products() const { return true; }

  // Whether one kernel is the best way to compute a region that is a product and a gate
  // (ir::MatmulForm::gate); else a region of both throws Error{Unsupported} as above.
  virtual bool gates_product(const Region&) const { return false; }

  // Whether kernels of attention take weights that are NaN for 0 (zero_nan in ir/ops.def); else
  // that is done beside them, and a region that asks for it throws Error{Unsupported} as above.
  virtual bool zeroes_nan_weights() const { return false; }

  // Whether kernels of attention round keys and values of f32 to 16 bits where they read them; else
  // what is rounded lies in memory as 16 bits.
  virtual bool rounds_keys_and_values() const { return false; }

  // Whether kernels of products, rows and maps write their result into a part of a larger tensor as
  // fast as into one of its own (passes/concat_in_place.cpp).
  virtual bool writes_parts() const { return false; }

  // Whether multiplications of f32 are what products wait for, so that convolutions with fewer of
  // them and more additions in memory (passes/winograd.cpp) are faster.
  virtual bool saves_multiplications() const { return false; }

  // Schedules worth considering for a bucket, the first a safe general choice. Never empty for a
  // region that derive_loop_form accepts, but for what joins_rows_to_products() keeps apart.
  virtual std::vector<Schedule> candidates(const Region& region, const Bucket& bucket) const = 0;
  // Every schedule that makes a right kernel for the bucket, for a search by measurement: the
  // candidates first, then what the cost model leaves out. What is not among them must not be
  // compiled for the bucket.
  virtual std::vector<Schedule> space(const Region& region, const Bucket& bucket) const {
    return candidates(region, bucket);
  }
  // Estimated seconds of one launch on `threads` workers, at concrete values of the region's bucket
  // keys (Region::keys, in order; not its symbols: a matmul over [b, s, 384] has the one key b *
  // s).
  virtual double estimate(const Region& region, const Schedule& schedule,
                          std::span<const std::int64_t> keys, int threads) const = 0;
  // The same with what estimate() may leave out because no schedule of a region changes it:
  // starting workers and waiting for the last of them, and bytes that pass through memory they
  // share. Tasks are whole: the worker with most of them decides.
  virtual double estimate_shared(const Region& region, const Schedule& schedule,
                                 std::span<const std::int64_t> keys,
                                 const SharedLaunch& launch) const {
    return estimate(region, schedule, keys, launch.threads);
  }
  // What the device can do at most, where its description tells; nothing: only a measurement does.
  virtual std::optional<DeviceLimits> limits() const { return std::nullopt; }
  // About how many instructions the schedule's kernel for a bucket has, which its compile time
  // follows; schedules of one region are compared.
  virtual double code_size(const Region&, const Bucket&, const Schedule&) const { return 1; }
  // Values where the best schedule may change (first value of the upper side, ascending), one list
  // a key; used to cut ranges into buckets.
  virtual std::vector<std::vector<std::int64_t>> key_edges(const Region& region) const = 0;
  // Safe to call from several threads at once. Throws Error{Internal} where a candidate does not
  // compile.
  virtual CompiledKernel compile(const Region& region, const Bucket& bucket,
                                 const Schedule& schedule) const = 0;

  // Gives the checked forms of this backend's kernels: the same launches, but for their shared
  // memory, with waits that end after a bounded time, then trap. Null: there are none.
  virtual std::shared_ptr<const Backend> checked_forms() const { return nullptr; }

  // The schedule that has a library compute the region, or why no library does (policy `library`).
  struct LibraryChoice {
    std::optional<Schedule> schedule;
    std::string reason;
  };
  virtual LibraryChoice library_schedule(const Region&) const {
    return {std::nullopt, "this device has no library of kernels"};
  }

  // Native code for a shape program (ir/shapes/shape_program.h), or nullopt where this backend runs
  // none (it is interpreted then). Entry: void(const int64_t* leaves, int64_t* values, int32_t*
  // failed), failed = index of the first expression that overflowed or divided by zero, else -1.
  // tasks and scratch_bytes are unused.
  virtual std::optional<CompiledKernel> compile_shapes(const ShapeProgram& program) const = 0;
};

}  // namespace anydim::ir
