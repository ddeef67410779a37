#include "bench/campaign/worker/raw_kernel.h"

#include "codegen_cuda/nvrtc.h"
#include "codegen_cuda/target.h"
#include "ir/error.h"
#include "runtime/cuda_device.h"
#include "runtime/cuda_kernel.h"
#include "runtime/cuda_memory.h"

namespace anydim::campaign {

namespace {

namespace cuda = runtime::cuda;

constexpr unsigned char poison = 0x7f;  // NaN in every float type

struct RawStream {
  explicit RawStream(std::shared_ptr<cuda::DeviceContext> shared) : context(std::move(shared)) {
    context->enter();
    context->check(context->driver().stream_create(&stream, cuda::stream_non_blocking),
                   "opening a stream");
  }
  ~RawStream() {
    if (!context->enter_quietly()) return;
    context->driver().stream_destroy(stream);
  }
  RawStream(const RawStream&) = delete;
  RawStream& operator=(const RawStream&) = delete;

  std::shared_ptr<cuda::DeviceContext> context;
  cuda::Stream stream = nullptr;
};

codegen_cuda::CudaTarget own_target(const cuda::Properties& properties) {
  return codegen_cuda::target_of({.driver_name = properties.name,
                                  .capability = properties.capability,
                                  .multiprocessors = properties.multiprocessors,
                                  .shared_per_multiprocessor = properties.shared_per_multiprocessor,
                                  .shared_per_block = properties.shared_per_block,
                                  .l2_bytes = properties.l2_bytes});
}

}  // namespace

std::vector<ir::Tensor> run_raw_kernel(const CompileTarget& target, const RawKernel& kernel,
                                       const std::string& architecture, RawCode code) {
  const auto* device = dynamic_cast<const cuda::CudaDevice*>(target.device.get());
  if (device == nullptr) throw Error(ErrorKind::CommandLine, "a CUDA kernel needs --device cuda");
  const std::shared_ptr<cuda::DeviceContext>& context = device->shared_context();
  const codegen_cuda::CudaTarget own = own_target(context->properties());
  const auto output = codegen_cuda::Nvrtc::open()->compile(
      kernel.source, kernel.name, architecture.empty() ? own.architecture : architecture,
      code == RawCode::Ptx || own.wants_ptx() ? codegen_cuda::CudaOutput::Ptx
                                              : codegen_cuda::CudaOutput::Cubin);
  ir::Region region;
  region.name = kernel.name;
  ir::CompiledKernel compiled;
  compiled.code = output.code;
  compiled.scratch_bytes = 0;
  compiled.device = ir::CudaLaunches{.launches = {kernel.launch}};
  const cuda::CudaKernel loaded(context, region, {{}, {"raw", {}}, 0}, compiled, std::nullopt);

  const RawStream stream(context);
  const cuda::Driver& driver = context->driver();
  std::vector<cuda::StreamMemory> memory;
  std::vector<cuda::Address> buffers;
  const auto take = [&](std::size_t bytes) {
    memory.emplace_back(context, stream.stream)
        .reserve(std::max<std::size_t>(bytes, 16), "a kernel's operands");
    buffers.push_back(memory.back().address());
  };
  for (const ir::Tensor& input : kernel.inputs) {
    take(input.bytes().size());
    context->check(driver.copy_to_device(buffers.back(), input.bytes().data(), input.bytes().size(),
                                         stream.stream),
                   "copying operands");
  }
  std::vector<ir::Tensor> results;
  for (const auto& [dtype, dims] : kernel.outputs) {
    ir::Tensor result(dtype, dims);
    take(result.bytes().size());
    context->check(driver.fill_bytes(buffers.back(), poison, result.bytes().size(), stream.stream),
                   "poisoning results");
    results.push_back(std::move(result));
  }
  const std::vector<cuda::Address> parameters = buffers;
  take(sizeof(ir::KernelError));
  context->check(driver.fill_bytes(buffers.back(), 0xff, sizeof(ir::KernelError), stream.stream),
                 "clearing the error slot");
  cuda::TensorMapCache maps(context);
  for (cuda::PreparedLaunch& launch : cuda::prepare(loaded, loaded.sizes({}),
                                                    {.buffers = parameters,
                                                     .extents = buffers.back(),
                                                     .error = buffers.back(),
                                                     .workspace = 0},
                                                    maps)) {
    const cuda::Result issued = launch.issue(driver, stream.stream, false);
    if (issued != cuda::success) context->fail(issued, "launching " + kernel.name);
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    const auto bytes = results[i].mutable_bytes();
    context->check(driver.copy_to_host(bytes.data(), parameters[kernel.inputs.size() + i],
                                       bytes.size(), stream.stream),
                   "copying results");
  }
  const cuda::Result ended = driver.stream_synchronize(stream.stream);
  if (ended != cuda::success) context->fail(ended, "running " + kernel.name);
  return results;
}

}  // namespace anydim::campaign
