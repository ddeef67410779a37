// The only place that names concrete backends and devices.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "api/compile.h"
#include "api/planned.h"
#include "api/system.h"
#include "codegen_cuda/backend.h"
#include "ir/error.h"
#include "runtime/cuda_device.h"

#ifdef ANYDIM_LLVM
#include "codegen_cpu/backend.h"
#endif

namespace anydim {

namespace {

CompileTarget cpu_target([[maybe_unused]] const CompileOptions& options) {
#ifdef ANYDIM_LLVM
  return {codegen_cpu::make_cpu_backend(
              {.level = options.cpu_level.value_or(""), .threads = thread_count(options)}),
          nullptr, processor_name()};
#else
  throw Error(ErrorKind::Resource,
              "this build has no code generator for the CPU (it was built without LLVM); use "
              "--device cuda or --executor reference");
#endif
}

bool wants_tf32(const CompileOptions& options) { return options.f32_products == F32Products::Tf32; }

CompileTarget cuda_target(codegen_cuda::CudaOptions cuda, const CompileOptions& options,
                          std::shared_ptr<runtime::Device> device) {
  cuda.checked = options.checked_kernels;
  std::string part = codegen_cuda::part_text(cuda.target);
  return {codegen_cuda::make_cuda_backend(cuda), std::move(device), std::move(part)};
}

}  // namespace

CompileTarget gpu_target(std::shared_ptr<runtime::cuda::CudaDevice> device,
                         const CompileOptions& options) {
  const runtime::cuda::Properties& properties = device->context().properties();
  codegen_cuda::CudaOptions cuda;
  cuda.target = codegen_cuda::target_of(
      {.driver_name = properties.name,
       .capability = properties.capability,
       .multiprocessors = properties.multiprocessors,
       .shared_per_multiprocessor = properties.shared_per_multiprocessor,
       .shared_per_block = properties.shared_per_block,
       .l2_bytes = properties.l2_bytes,
       .threads_per_multiprocessor = properties.threads_per_multiprocessor,
       .blocks_per_multiprocessor = properties.blocks_per_multiprocessor,
       .registers_per_multiprocessor = properties.registers_per_multiprocessor,
       .memory_bytes = properties.memory_bytes,
       .memory_bandwidth = properties.memory_bandwidth});
  cuda.target.tf32 = wants_tf32(options);
  return cuda_target(std::move(cuda), options, std::move(device));
}

CompileTarget make_target(const CompileOptions& options) {
  require_device_has(options);
  switch (options.device) {
    case DeviceKind::Cpu: return cpu_target(options);
    // The driver first: without one nothing else matters.
    case DeviceKind::Cuda: return gpu_target(runtime::cuda::open_cuda_device(), options);
  }
  internal_error("a device is one of the enumerators");
}

codegen_cuda::CudaTarget planned_part(std::string_view part, const CompileOptions& options) {
  auto found = codegen_cuda::target_named(part);
  if (!found)
    throw Error(ErrorKind::CommandLine, "there is no GPU '{}' to predict for; there are {}", part,
                fmt::join(codegen_cuda::target_names(), ", "));
  found->tf32 = wants_tf32(options);
  return *found;
}

CompileTarget planned_gpu(std::string_view part, const CompileOptions& options) {
  return cuda_target({.target = planned_part(part, options)}, options, nullptr);
}

}  // namespace anydim
