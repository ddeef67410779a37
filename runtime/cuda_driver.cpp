#include "runtime/cuda_driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>

#include "ir/error.h"

namespace anydim::runtime::cuda {

namespace {

constexpr std::string_view remedy = "install NVIDIA's driver 525 or newer, or use --device cpu";

using ProcedureAddress = Result (*)(const char* symbol, void** function, int version,
                                    std::uint64_t flags, int* status);

template <typename Signature>
void resolve(std::function<Signature>& member, const char* symbol, ProcedureAddress find,
             const std::string& file) {
  void* found = nullptr;
  int status = 0;
  if (find(symbol, &found, oldest_driver, 0, &status) != success || found == nullptr) {
    throw Error(ErrorKind::Resource, "the CUDA driver ({}) has no function {}: it is too old; {}",
                file, symbol, remedy);
  }
  member = reinterpret_cast<Signature*>(found);
}

}  // namespace

std::shared_ptr<const Driver> open_driver(const std::string& file) {
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    throw Error(ErrorKind::Resource, "there is no CUDA driver here ({}); {}",
                reason == nullptr ? file : reason, remedy);
  }
  const auto find = reinterpret_cast<ProcedureAddress>(dlsym(library, "cuGetProcAddress_v2"));
  if (find == nullptr) {
    throw Error(ErrorKind::Resource, "the CUDA driver ({}) is older than version {}; {}", file,
                version_text(oldest_driver), remedy);
  }
  auto driver = std::make_shared<Driver>();
  driver->file = file;
#define ANYDIM_CUDA(member, symbol, ...) resolve<__VA_ARGS__>(driver->member, symbol, find, file);
#include "runtime/cuda_driver.def"
#undef ANYDIM_CUDA
  return driver;
}

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string describe(const Driver& driver, Result result) {
  const char *name = nullptr, *text = nullptr;
  if (driver.error_name(result, &name) != success || name == nullptr)
    return fmt::format("CUDA error {}", result);
  if (driver.error_text(result, &text) != success || text == nullptr) return name;
  return fmt::format("{} ({})", name, text);
}

bool ends_context(Result result) {
  constexpr Result fatal[] = {contained_fault,
                              illegal_address,
                              launch_timeout,
                              assertion,
                              hardware_stack_error,
                              illegal_instruction,
                              misaligned_address,
                              invalid_address_space,
                              invalid_program_counter,
                              launch_failed,
                              uncorrectable_memory_error,
                              unknown_fault};
  return std::ranges::find(fatal, result) != std::end(fatal);
}

}  // namespace anydim::runtime::cuda
