// A libcuda.so.1 over the PTX interpreter, for commands that open the driver themselves: tests put
// its folder on the loader's path.
//
// ANYDIM_FAKE_GPU holds words NAME=NUMBER: devices, version (of the driver), capability, memory
// (bytes), kernel_us (that every kernel takes), fault (kernels that run before one faults) and
// result (of that fault, a CUresult; 700 where absent). The capability is newer than any known
// part's, so that kernels come as PTX.
#include <cstdlib>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>

#include "tests/support/fake_libcuda.h"
#include "tests/support/ptx_gpu.h"

namespace anydim::tests {
namespace {

namespace cuda = runtime::cuda;

long long setting(std::string_view name, long long otherwise) {
  const char* settings = std::getenv("ANYDIM_FAKE_GPU");
  std::istringstream words(settings == nullptr ? "" : settings);
  for (std::string word; words >> word;)
    if (word.starts_with(name) && word.substr(name.size()).starts_with("="))
      return std::stoll(word.substr(name.size() + 1));
  return otherwise;
}

struct FakeLibcuda {
  FakeLibcuda() {
    ptx::MachineOptions machine;
    machine.architecture = "sm_120";
    FakeCudaOptions options;
    options.devices = static_cast<int>(setting("devices", 1));
    options.driver_version = static_cast<int>(setting("version", 13000));
    options.capability = static_cast<int>(setting("capability", 130));
    options.memory_bytes = setting("memory", options.memory_bytes);
    options.shared_per_block = 101376;
    options.kernel_microseconds = static_cast<double>(setting("kernel_us", 1));
    fake = std::make_unique<FakeCuda>(std::make_shared<PtxGpu>(machine), options);
    if (const long long launches = setting("fault", -1); launches >= 0)
      fake->fault(static_cast<Result>(setting("result", cuda::illegal_address)),
                  static_cast<int>(launches));
    table = fake->driver();
  }
  std::unique_ptr<FakeCuda> fake;
  std::shared_ptr<const cuda::Driver> table;
};

const FakeLibcuda& library() {
  static const auto* made = new FakeLibcuda;
  return *made;
}

const cuda::Driver& driver() { return *library().table; }

template <auto Member>
struct Forward;
template <typename... Arguments, std::function<Result(Arguments...)> cuda::Driver::* Member>
struct Forward<Member> {
  static Result call(Arguments... arguments) { return (driver().*Member)(arguments...); }
};

void* find(std::string_view wanted) {
#define ANYDIM_CUDA(member, symbol, ...) \
  if (wanted == symbol) return reinterpret_cast<void*>(&Forward<&cuda::Driver::member>::call);
#include "runtime/cuda_driver.def"
#undef ANYDIM_CUDA
  return nullptr;
}

}  // namespace

FakeCuda& process_cuda() { return *library().fake; }

}  // namespace anydim::tests

extern "C" __attribute__((visibility("default"))) int cuGetProcAddress_v2(const char* symbol,
                                                                          void** function, int,
                                                                          std::uint64_t,
                                                                          int* status) {
  *function = anydim::tests::find(symbol);
  *status = *function == nullptr ? 1 : 0;  // CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND
  return *function == nullptr ? anydim::runtime::cuda::not_found : anydim::runtime::cuda::success;
}
