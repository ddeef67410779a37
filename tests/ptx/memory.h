// Device memory of a Machine, and where the state spaces lie in the generic address space.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/ptx/interpreter.h"
#include "tests/ptx/program.h"
#include "tests/ptx/shadow.h"

namespace anydim::ptx {

// Shared addresses have 32 bits: bits 24 and up are 1 + the rank in the cluster, or 0 for the
// block's own; the rest is the offset. As on hardware the first KiB is nobody's, so that a null
// address is out of bounds.
inline constexpr std::uint64_t shared_start = 1024;
inline constexpr int shared_rank_shift = 24;
// Generic addresses of the windows.
inline constexpr std::uint64_t shared_window = 0x0001'0000'0000'0000;
inline constexpr std::uint64_t local_window = 0x0002'0000'0000'0000;
inline constexpr std::uint64_t param_window = 0x0003'0000'0000'0000;
inline constexpr std::uint64_t global_window = 0x0000'7f00'0000'0000;
// Param addresses from here on are parameters of device functions, below it those of the kernel.
inline constexpr std::uint64_t call_param_start = 0x10'0000;
inline constexpr std::byte poison{0xff};

// What launches have done to a byte: the one at work, those ahead of it that end before
// griddepcontrol.wait returns, and those of which the wait does not tell.
enum class Touched : std::uint8_t {
  nothing = 0,
  read_now = 1,
  written_now = 2,
  read_ahead = 4,
  written_ahead = 8,
  read_uncovered = 16,
  written_uncovered = 32,
  written = written_now | written_ahead | written_uncovered,
};
constexpr Touched operator|(Touched a, Touched b) {
  return static_cast<Touched>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
constexpr Touched operator&(Touched a, Touched b) {
  return static_cast<Touched>(static_cast<unsigned>(a) & static_cast<unsigned>(b));
}
constexpr Touched& operator|=(Touched& a, Touched b) { return a = a | b; }

struct Allocation {
  DeviceAddress base = 0;
  std::vector<std::byte> bytes;
  std::unique_ptr<Shadow> shadow;  // made by the first checked launch
  std::vector<Touched> touched;    // by launches that may overlap; empty: not at all
  bool initialised = false;        // wholly, by the host
  bool steady = false;             // no earlier launch that may still run writes it
};

class GlobalMemory {
 public:
  DeviceAddress allocate(std::uint64_t bytes, std::uint64_t alignment);
  void free(DeviceAddress address);
  Allocation* find(DeviceAddress address);  // the allocation that holds it, nullptr: none
  const Allocation* find(DeviceAddress address) const {
    return const_cast<GlobalMemory*>(this)->find(address);
  }
  const std::map<DeviceAddress, Allocation>& allocations() const { return allocations_; }
  std::map<DeviceAddress, Allocation>& allocations() { return allocations_; }
  // All launches so far have ended; and one more is ahead of the next, some of whose threads have
  // waited for those ahead of it, or none.
  void forget_launches();
  void note_launch(bool waited);
  // where the nearest allocation below ends
  std::string describe_miss(DeviceAddress address) const;

 private:
  std::map<DeviceAddress, Allocation> allocations_;
  DeviceAddress next_ = global_window;
  Allocation* last_ = nullptr;
};

struct LoadedModule {
  std::shared_ptr<const Program> program;
  std::vector<DeviceAddress> variables;  // of program->variables
};

struct MachineState {
  MachineOptions options;
  GlobalMemory memory;
  std::map<const Program*, LoadedModule> modules;
};

}  // namespace anydim::ptx
