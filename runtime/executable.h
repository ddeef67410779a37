// A program ready to run: its constants as kernels read them, its kernels, and where everything
// lies.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "ir/backend.h"
#include "ir/cancellation.h"
#include "ir/host_functions.h"
#include "ir/program.h"
#include "ir/shapes/shape_program.h"
#include "runtime/device.h"
#include "runtime/input_binding.h"
#include "runtime/kernel_cache.h"
#include "runtime/kernel_store.h"
#include "runtime/timeline.h"
#include "runtime/worker_pool.h"

namespace anydim::runtime {

struct ExecutableOptions {
  std::shared_ptr<Device> device{};            // null: this machine's processors
  std::shared_ptr<const KernelCache> cache{};  // null: kernels are not kept
  // bytes of one call's activations, scratch and outputs
  std::optional<std::int64_t> memory_limit{};
  // which kernels of the program are specialised to the shapes met; empty: none
  std::vector<bool> exact{};
  bool keep_originals =
      false;               // constants as the model has them stay readable beside the packed ones
  bool background = true;  // compile the rest of the tables on a thread of its own
  Warning warn{};
  std::shared_ptr<Timeline> timeline{};  // null: none; launches and kernels that come to be are
                                         // recorded in it while it is on
  // of bringing in kernels and packing constants, in the constructor
  const Cancellation* cancellation = nullptr;
};

// Logically immutable: any number of threads may run it at once, each through a Context of its own
// (runtime/context.h).
class Executable {
 public:
  // Packs constants and brings in one general kernel for each region (runtime/kernel_store.h).
  // Throws Error{Resource}, and what the backend throws for a general kernel.
  Executable(ir::Program program, std::shared_ptr<const ir::Backend> backend,
             std::shared_ptr<WorkerPool> pool, ExecutableOptions options);

  const ir::Program& program() const { return program_; }
  KernelStore& kernels() const { return *kernels_; }
  const ir::Backend& backend() const { return *backend_; }
  Device& device() const { return *device_; }
  WorkerPool& pool() const { return *pool_; }
  const ir::HostFunctions& host_functions() const { return host_functions_; }
  const std::shared_ptr<Timeline>& timeline() const { return options_.timeline; }  // may be null
  std::optional<std::int64_t> memory_limit() const { return options_.memory_limit; }
  std::int64_t constant_bytes() const { return constant_bytes_; }  // as kernels read them
  const std::vector<void*>& constant_addresses() const { return constant_addresses_; }
  const std::vector<ir::Tensor>& originals() const {
    return originals_;
  }  // one a constant where they were to be kept, else empty

  // What a stage, once it has run, gives an address: buffers of its arena segment (of its
  // function's code), and outputs (positions).
  struct StageLayout {
    std::vector<std::int32_t> buffers;
    std::vector<std::int32_t> outputs;
  };
  const std::vector<StageLayout>& stage_layouts() const { return stage_layouts_; }
  const InputBinding& input_binding() const { return *input_binding_; }
  // Tensor parameters of Program::functions[index], for ir::bind_symbols.
  const ir::Function& signature(std::size_t index) const { return signatures_[index]; }
  // Interpreters of the stages' shape programs.
  const ir::ShapeInterpreter& interpreter(std::size_t stage) const { return interpreters_[stage]; }

 private:
  void pack_constants();
  void lay_out_stages();
  void lay_out_stages(const ir::Code& code);
  void add_signatures();

  ir::Program program_;  // not changed once the constructor has packed its constants
  std::shared_ptr<const ir::Backend> backend_;
  ExecutableOptions options_;
  std::shared_ptr<Device> device_;
  std::shared_ptr<WorkerPool> pool_;
  ir::HostFunctions host_functions_ = ir::host_functions();
  std::vector<StageLayout> stage_layouts_;
  std::vector<ir::ShapeInterpreter> interpreters_;
  std::vector<ir::Function> signatures_;
  std::unique_ptr<const InputBinding> input_binding_;
  std::unique_ptr<ConstantStore> constants_;
  std::vector<void*> constant_addresses_;
  std::vector<ir::Tensor> originals_;
  std::int64_t constant_bytes_ = 0;
  std::unique_ptr<KernelStore> kernels_;
};

}  // namespace anydim::runtime
