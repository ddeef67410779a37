#include "runtime/nvtx.h"

#include <dlfcn.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace anydim::runtime {

namespace {

// ---- The protocol (github.com/NVIDIA/NVTX, nvtxDetail/nvtxTypes.h) ----

using AnyFunction = void (*)();

constexpr std::uint32_t callbacks_table = 1, version_table = 3;
constexpr int core_module = 1, core2_module = 5;
constexpr std::size_t range_push = 9,
                      range_pop = 11;  // nvtxRangePushA and nvtxRangePop, among the core module's

struct Callbacks {
  std::size_t struct_size;
  int (*get_module_function_table)(int module, AnyFunction*** table, unsigned* size);
};
struct Version {
  std::size_t struct_size;
  std::uint32_t version, reserved;
  void (*set_injection_version)(std::uint32_t version);
};
using GetExportTable = const void* (*)(std::uint32_t table);
using Initialize = int (*)(GetExportTable get_export_table);

// Where the tool puts its functions. The protocol hands functions without a state of their own to
// it, so that they lie in globals; they are written before watching() first returns and never
// after.
struct Module {
  std::array<AnyFunction, 16> functions{};
  std::array<AnyFunction*, 17> table{};  // ends with null
  Module() {
    for (std::size_t i = 1; i < functions.size(); ++i) table.at(i) = &functions.at(i);
  }
};
Module& module_of(int number) {
  static Module core, core2;
  return number == core_module ? core : core2;
}

int get_module_function_table(int number, AnyFunction*** table, unsigned* size) {
  if (number != core_module && number != core2_module) return 0;
  Module& module = module_of(number);
  if (table != nullptr) *table = module.table.data();
  if (size != nullptr) *size = static_cast<unsigned>(module.functions.size());
  return 1;
}

const void* get_export_table(std::uint32_t number) {
  static const Callbacks callbacks{sizeof(Callbacks), get_module_function_table};
  static const Version version{sizeof(Version), 3, 0, [](std::uint32_t) {}};
  if (number == callbacks_table) return &callbacks;
  return number == version_table ? &version : nullptr;
}

// The library stays open: it may have threads.
bool attach() {
  const char* file = std::getenv("NVTX_INJECTION64_PATH");
  void* library = file == nullptr ? nullptr : dlopen(file, RTLD_LAZY);
  if (library == nullptr) return false;
  const auto initialize = reinterpret_cast<Initialize>(dlsym(library, "InitializeInjectionNvtx2"));
  if (initialize == nullptr || initialize(get_export_table) == 0) return false;
  const Module& core = module_of(core_module);
  return core.functions[range_push] != nullptr && core.functions[range_pop] != nullptr;
}

}  // namespace

const NvtxTool* NvtxTool::watching() {
  static const NvtxTool tool;
  static const bool attached = attach();
  return attached ? &tool : nullptr;
}

void NvtxTool::push(const char* name) const {
  reinterpret_cast<int (*)(const char*)>(module_of(core_module).functions[range_push])(name);
}

void NvtxTool::pop() const {
  reinterpret_cast<int (*)()>(module_of(core_module).functions[range_pop])();
}

}  // namespace anydim::runtime
