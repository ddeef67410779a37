// The straight-line case: a static program with its sizes and kernels settled when it is loaded.
#pragma once

#include <memory>
#include <vector>

#include "ir/tensor.h"
#include "runtime/device.h"
#include "runtime/executable.h"

namespace anydim::runtime {

// Runs what the virtual machine would run, launch by launch, without shape programs, checks or dispatch. Used by one thread at a time.
class GraphExecutor {
 public:
  // The program has passed passes::require_static; every kernel of it is brought in. Throws Error{Resource}, and what a stage's check finds.
  explicit GraphExecutor(std::shared_ptr<const Executable> executable);

  // As Context::run.
  std::vector<ir::Tensor> run(const std::vector<ir::Tensor>& inputs);

 private:
  struct Step {
    std::size_t stage = 0;  // placed, where `launch` is null
    const ir::Code::Launch* launch = nullptr;
    std::shared_ptr<const LoadedKernel> kernel{};
    ir::Bucket bucket{};
    std::vector<std::int64_t> extents{};
  };
  void settle_sizes(std::size_t stage);
  Step settled(const ir::Code::Launch& launch, const KernelTables& tables) const;

  std::shared_ptr<const Executable> executable_;
  std::unique_ptr<DeviceSession> session_;
  std::vector<std::int64_t> slots_;
  std::vector<Step> steps_;
};

}  // namespace anydim::runtime
