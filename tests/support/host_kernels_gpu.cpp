#include "tests/support/host_kernels_gpu.h"

#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "ir/host_functions.h"
#include "ir/region.h"
#include "ir/shapes/shape_program.h"
#include "runtime/code_memory.h"
#include "tests/support/forwarding_backend.h"

namespace anydim::tests {

namespace cuda = runtime::cuda;

namespace {

// What a module's image points to; kept for the life of the backend and of every module.
struct HostKernel {
  ir::CompiledKernel kernel;
  std::size_t buffers = 0;
  ir::ShapeInterpreter tasks;
  std::size_t symbols = 0;
};

// An image is this: cuModuleLoadData gets no length.
struct Image {
  char magic[16];
  const std::shared_ptr<const HostKernel>* kernel;
};
constexpr char image_magic[16] = "host kernel 1";
constexpr const char* entry_name = "kernel";

class HostKernelBackend : public ir::ForwardingBackend {
 public:
  HostKernelBackend(std::shared_ptr<const ir::Backend> inner, bool dependent)
      : ForwardingBackend(std::move(inner)), dependent_(dependent) {}

  ir::CompiledKernel compile(const ir::Region& region, const ir::Bucket& bucket,
                             const ir::Schedule& schedule) const override {
    ir::CompiledKernel kernel = ForwardingBackend::compile(region, bucket, schedule);
    const ir::ShapeProgram tasks = ir::shapes_over(region, {kernel.tasks});
    auto host = std::make_shared<HostKernel>(
        HostKernel{kernel, region.body.body.parameters.size() + region.body.body.results.size(),
                   ir::ShapeInterpreter(tasks), tasks.leaves.size()});
    Image image{};
    std::memcpy(image.magic, image_magic, sizeof image_magic);
    {
      const std::lock_guard lock(mutex_);
      kernels_.push_back(std::make_unique<std::shared_ptr<const HostKernel>>(std::move(host)));
      image.kernel = kernels_.back().get();
    }
    ir::DeviceLaunch launch;
    launch.entry = entry_name;
    launch.grid[0] = kernel.tasks;
    launch.block = {32, 1, 1};
    launch.dependent = dependent_;
    kernel.device = ir::CudaLaunches{.launches = {launch}};
    const auto* bytes = reinterpret_cast<const std::byte*>(&image);
    kernel.code.assign(bytes, bytes + sizeof image);
    return kernel;
  }
  std::optional<ir::CompiledKernel> compile_shapes(const ir::ShapeProgram&) const override {
    return std::nullopt;
  }

 private:
  bool dependent_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<std::shared_ptr<const HostKernel>>> kernels_;
};

struct LoadedHostKernel {
  explicit LoadedHostKernel(std::shared_ptr<const HostKernel> shared)
      : host(std::move(shared)), code(host->kernel.code) {}
  std::shared_ptr<const HostKernel> host;
  runtime::CodeMemory code;
};

class HostKernelGpu : public FakeGpu {
 public:
  Address allocate(std::size_t bytes) override {
    // Poisoned: NaN in every float type. Space around every allocation, so that neighbours never
    // touch.
    auto* data = new (std::align_val_t(256)) std::byte[bytes + 256];
    std::memset(data, 0x7f, bytes + 256);
    blocks_.emplace(reinterpret_cast<Address>(data), Block{data, bytes});
    return reinterpret_cast<Address>(data);
  }
  ~HostKernelGpu() override {
    for (auto& [address, block] : blocks_) ::operator delete[](block.data, std::align_val_t(256));
  }
  void free(Address address) override {
    const auto found = blocks_.find(address);
    ::operator delete[](found->second.data, std::align_val_t(256));
    blocks_.erase(found);
  }
  bool write(Address address, std::span<const std::byte> bytes) override {
    if (!holds(address, bytes.size())) return false;
    std::memcpy(reinterpret_cast<void*>(address), bytes.data(), bytes.size());
    return true;
  }
  bool read(Address address, std::span<std::byte> bytes) override {
    if (!holds(address, bytes.size())) return false;
    std::memcpy(bytes.data(), reinterpret_cast<const void*>(address), bytes.size());
    return true;
  }
  std::shared_ptr<void> load(const void* image) override {
    Image found{};
    std::memcpy(&found, image, sizeof found);
    if (std::memcmp(found.magic, image_magic, sizeof image_magic) != 0) return nullptr;
    return std::make_shared<LoadedHostKernel>(*found.kernel);
  }
  std::vector<std::size_t> parameters(const std::shared_ptr<void>& module,
                                      const std::string& entry) override {
    if (entry != entry_name) return {};
    constexpr std::size_t beside_buffers = 3;  // extents, error, workspace
    return std::vector<std::size_t>(
        static_cast<LoadedHostKernel*>(module.get())->host->buffers + beside_buffers,
        sizeof(Address));
  }
  Result launch(const std::shared_ptr<void>& module, const std::string&, const Shape& shape,
                const std::vector<std::vector<std::byte>>& parameters) override {
    auto& kernel = *static_cast<LoadedHostKernel*>(module.get());
    std::vector<void*> words;
    for (const auto& parameter : parameters)
      std::memcpy(&words.emplace_back(), parameter.data(), sizeof(void*));
    const std::size_t buffers = kernel.host->buffers;
    const auto* extents = static_cast<const std::int64_t*>(words[buffers]);
    auto* error = static_cast<ir::KernelError*>(words[buffers + 1]);
    if (!holds(words[buffers], kernel.host->symbols * sizeof(std::int64_t)) ||
        !holds(error, sizeof *error))
      return cuda::illegal_address;
    std::int64_t tasks = 0;
    if (kernel.host->tasks.run({extents, kernel.host->symbols}, {&tasks, 1}) >= 0)
      return cuda::launch_failed;
    // A grid that is too small would leave work undone without a word on a GPU.
    if (tasks > std::int64_t{shape.grid[0]}) return cuda::launch_failed;
    const ir::HostFunctions functions = ir::host_functions();
    const ir::KernelCall call{words.data(), extents, error, &functions};
    const auto entry = kernel.code.function<ir::KernelEntry>(kernel.host->kernel.cpu().kernel);
    for (std::int64_t task = 0; task < tasks; ++task)
      runtime::call_generated(entry, &call, task, task + 1, words[buffers + 2]);
    return cuda::success;
  }
  Result encode(cuda::TensorMapBytes&, int, Address, std::span<const std::uint64_t>,
                std::span<const std::uint64_t>, std::span<const unsigned>, int) override {
    return cuda::invalid_value;  // CPU kernels have no tensor maps
  }

 private:
  struct Block {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
  };
  template <typename Pointer>
  bool holds(Pointer pointer, std::size_t bytes) const {
    Address address = 0;
    if constexpr (std::is_pointer_v<Pointer>) address = reinterpret_cast<Address>(pointer);
    else address = pointer;
    auto after = blocks_.upper_bound(address);
    if (after == blocks_.begin()) return bytes == 0;
    const auto& [base, block] = *std::prev(after);
    return address - base + bytes <= block.bytes;
  }

  std::map<Address, Block> blocks_;
};

}  // namespace

std::shared_ptr<const ir::Backend> host_kernel_backend(std::shared_ptr<const ir::Backend> inner,
                                                       bool dependent) {
  return std::make_shared<HostKernelBackend>(std::move(inner), dependent);
}

std::shared_ptr<FakeGpu> host_kernel_gpu() { return std::make_shared<HostKernelGpu>(); }

}  // namespace anydim::tests
