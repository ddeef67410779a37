// A region's kernels on a GPU, and one launch made ready: everything but the moment.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/backend.h"
#include "ir/shapes/shape_program.h"
#include "runtime/cublaslt.h"
#include "runtime/cuda_context.h"
#include "runtime/device.h"

namespace anydim::runtime::cuda {

class CudaKernel : public DeviceKernel {
 public:
  // Loads the module and checks it against the device's limits. Throws Error{Resource} naming
  // region and schedule. `library`: not null where a launch is a product that it carries out.
  CudaKernel(std::shared_ptr<DeviceContext> context, const ir::Region& region,
             const ir::DispatchTable::Entry& entry, const ir::CompiledKernel& kernel,
             std::optional<KernelTrial> trial, std::shared_ptr<const CublasLt> library = nullptr);
  ~CudaKernel() override;

  const std::vector<ir::DeviceLaunch>& launches() const { return launches_; }
  Function function(std::size_t launch) const { return functions_[launch]; }
  const std::shared_ptr<const CublasLt>& library() const { return library_; }
  // The library's first choice for a product of so many rows; asked for once. Throws
  // Error{Resource} where it has none.
  CublasLt::Algorithm algorithm(const LibraryProduct& product) const;
  // Grids and workspace grow with every extent: they need no look where no extent is larger than
  // before.
  bool grids_grow() const { return grids_grow_; }

  // Sizes of one call, over the values of the region's symbols.
  struct Sizes {
    std::int64_t workspace_bytes = 0;
    std::vector<std::array<std::int64_t, 3>> grids;  // of each launch
    // of each tensor map of all launches: dims, then strides
    std::vector<std::vector<std::int64_t>> map_values;
  };
  // Throws Error{Inputs} for sizes that overflow or that no grid can have.
  Sizes sizes(std::span<const std::int64_t> extents) const;
  // Blocks of all launches; 0: nothing to do.
  static std::int64_t blocks(const Sizes& sizes);

  // "region matmul_3, schedule matmul_mma bm=64, n = 7, m = 384".
  std::string describe(std::span<const std::int64_t> extents) const;

  // Threads wait for what others do, so that a fault could hang the device.
  bool waits() const { return waits_; }
  // The first launch anywhere is waited for, so that a fault is known to be this kernel's. Where
  // there is one it is the checked form's.
  bool proven() const { return proven_.load(std::memory_order_acquire); }
  void set_proven() const;
  const CudaKernel* checked_form() const { return checked_form_.get(); }

 private:
  std::shared_ptr<DeviceContext> context_;
  std::shared_ptr<const CublasLt> library_;
  mutable std::mutex algorithms_mutex_;
  mutable std::map<std::int64_t, CublasLt::Algorithm> algorithms_;  // by rows
  std::string name_;                                                // region and schedule
  std::vector<std::string> symbols_;
  std::vector<ir::DeviceLaunch> launches_;
  Module module_ = nullptr;
  std::vector<Function> functions_;
  ir::ShapeInterpreter sizes_;
  std::size_t size_count_ = 0;
  bool grids_grow_ = true, waits_ = false;
  std::unique_ptr<const CudaKernel> checked_form_;
  std::function<void()> passed_;
  mutable std::once_flag told_;
  mutable std::atomic<bool> proven_{false};
};

// What a wait that ran out was: "block 3, thread 64, barrier 5, parity 1, iteration 7".
std::string describe_wait(const ir::KernelError& error);

// Whether the value of `dim` can only grow as its leaves, none of them negative, do. No: not known
// to.
bool grows_with_leaves(const ir::Dim& dim);

// Tensor maps by content, so that weights' are encoded once and activations' once a capacity.
class TensorMapCache {
 public:
  explicit TensorMapCache(std::shared_ptr<DeviceContext> context) : context_(std::move(context)) {}
  // `values`: dims, then strides. Throws Error{Internal} where the driver refuses, saying why it
  // may.
  const TensorMapBytes& encode(const ir::TensorMap& map, Address base,
                               std::span<const std::int64_t> values, const CudaKernel& kernel);

 private:
  std::shared_ptr<DeviceContext> context_;
  std::map<std::vector<std::int64_t>, TensorMapBytes> known_;
};

// Whether any launch is a product for the library.
bool wants_library(const ir::CompiledKernel& kernel);

// One cuLaunchKernelEx, or one product of the library, with its parameters in place.
class PreparedLaunch {
 public:
  struct Places {
    std::span<const Address> buffers;  // of the region
    Address extents = 0, error = 0, workspace = 0;
  };
  // `first_map`: position of the launch's first tensor map among the kernel's.
  PreparedLaunch(const CudaKernel& kernel, std::size_t launch, std::size_t first_map,
                 const CudaKernel::Sizes& sizes, const Places& places, TensorMapCache& maps);
  PreparedLaunch(PreparedLaunch&&) noexcept = default;
  PreparedLaunch& operator=(PreparedLaunch&&) noexcept = default;

  // `behind_kernel`: the stream's last operation is a launch, so this one may start before that one
  // ends where it knows how to wait. Throws Error{Internal} where the library refuses a product.
  Result issue(const Driver& driver, Stream stream, bool behind_kernel);
  // The kernel's checked form instead.
  Result issue_checked(const Driver& driver, Stream stream);

  // Whether a buffer of the region must stay where it is: a tensor map describes it, or the library
  // computes on all rows of a capacity there.
  bool fixes(std::int32_t buffer) const;
  // The buffer lies elsewhere from here on; one that is not fixed.
  void move(std::size_t buffer, Address address) {
    if (!product_) words_[buffer] = address;
  }
  // The launch as a captured graph has it.
  void captured_as(GraphNode node) { node_ = node; }
  // The same with the buffers where they are now. `graph` was made from what captured_as() told.
  [[nodiscard]] Result update(const Driver& driver, GraphExecutable graph);

 private:
  struct Product {
    std::shared_ptr<const CublasLt> library;
    LibraryProduct shape;
    CublasLt::Operands operands;
    CublasLt::Algorithm algorithm;
  };
  Result start(const Driver& driver, Stream stream, bool early, Function function);

  std::optional<Product> product_;
  const CudaKernel* kernel_ = nullptr;
  std::size_t index_ = 0;  // among its launches
  LaunchConfiguration configuration_{};
  bool dependent_ = false;
  std::array<std::int32_t, 3> cluster_{1, 1, 1};
  std::vector<Address> words_;  // buffers, extents, error slot, workspace
  std::vector<TensorMapBytes> maps_;
  std::vector<void*> parameters_;  // into the two above
  GraphNode node_ = nullptr;       // of one kernel; null: not captured, or not as one node
};

// All launches of one region's kernel that have work, in order.
std::vector<PreparedLaunch> prepare(const CudaKernel& kernel, const CudaKernel::Sizes& sizes,
                                    const PreparedLaunch::Places& places, TensorMapCache& maps);

}  // namespace anydim::runtime::cuda
