// Runs PTX on the CPU, to show without a GPU that generated kernels are right: parse_ptx reads what
// NVRTC emits, a Machine holds device memory and launches kernels. Every access is checked for
// bounds and alignment; with check_races every pair of accesses that nothing orders is reported,
// whether or not it went wrong in this run. Not thread-safe; a Machine belongs to one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/ptx/units/tensor_map.h"  // encode_tensor_map: what tests pass for a tensor map

namespace anydim::ptx {

using DeviceAddress = std::uint64_t;

struct Program;  // program.h

// A parsed and decoded PTX file; cheap to copy.
struct Module {
  std::shared_ptr<const Program> program;
};

// Throws Error{Unsupported} with the line for an instruction, modifier or directive that the
// interpreter does not know, and Error{Malformed} with the line for text that is not PTX.
Module parse_ptx(std::string_view text);

// When asynchronous work (cp.async, TMA, wgmma, bulk stores) is done, within what its waits allow.
enum class Timing {
  ResultsLate,   // operands are read at issue, results appear when a wait forces them
  OperandsLate,  // operands too are read only when a wait forces it, and a try_wait gives up before
                 // it waits
  Random,        // each step at a moment drawn from the seed; warps take turns at random, and a
                 // try_wait may give up at once
};

struct MachineOptions {
  std::string architecture = "sm_90a";
  int multiprocessors = 2;
  int blocks_per_multiprocessor = 1;  // resident at once; .minnctapersm raises it
  Timing timing = Timing::ResultsLate;
  std::uint64_t seed = 1;
  std::uint64_t instruction_limit = 2'000'000'000;  // warp instructions a launch
  // warp instructions without any visible effect until a spin counts as a deadlock
  std::uint64_t idle_limit = 1'000'000;
  // How often a waiting try_wait gives up, when nothing else can happen, before the launch counts
  // as deadlocked; and after which virtual time: the system's limit, whatever that is.
  int wait_timeouts = 6;
  std::uint64_t wait_nanoseconds = 1'000'000'000;
  bool check_races = true;
  bool check_uninitialised = false;  // report reads of memory that nothing wrote
  // The launch may begin before its predecessor ends: a thread may touch memory that is not marked
  // as steady only behind its griddepcontrol.wait.
  bool dependent = false;
  // Launches remember what they touch. One that is `early` (programmatic stream serialisation)
  // begins before those ahead of it end, back to the last one that is not: what its threads touch
  // before griddepcontrol.wait must not be what those write, nor may they write what those read;
  // the wait covers no launch ahead of one none of whose threads waited.
  bool check_overlap = false;
  bool early = false;
  // Where given: PTX lines whose instruction ran for some lane become true; launches only add to
  // it.
  std::vector<bool>* executed_lines = nullptr;
};

enum class FindingKind {
  OutOfBounds,
  Misaligned,
  Uninitialised,
  Race,
  MissingProxyFence,  // ordered, but a generic write reaches the async proxy without
                      // fence.proxy.async
  Divergence,
  RegisterInFlight,  // a register of unfinished asynchronous work was used
  Deadlock,
  Limit,
  Trap,
  TooEarly,  // memory that a predecessor may still write was touched before griddepcontrol.wait
  InvalidLaunch,
  InvalidUse,  // an instruction met operands or a state that it does not allow
};
std::string_view finding_name(FindingKind kind);

struct Finding {
  FindingKind kind;
  int line = 0;  // of the PTX text; 0: no instruction
  std::array<std::uint32_t, 3> block{};
  int warp = -1;
  int lane = -1;
  std::string message;
};

struct Report {
  std::vector<Finding> findings;  // one a kind and pair of lines, at most 20
  std::uint64_t instructions = 0;
  bool ok() const { return findings.empty(); }
  bool has(FindingKind kind) const;
  std::string text() const;  // a line a finding
};

struct LaunchShape {
  std::array<std::uint32_t, 3> grid{1, 1, 1};
  std::array<std::uint32_t, 3> block{1, 1, 1};
  std::array<std::uint32_t, 3> cluster{1, 1, 1};
  std::uint32_t shared_bytes = 0;  // dynamic
};

struct MachineState;  // memory.h

class Machine {
 public:
  explicit Machine(MachineOptions options);
  ~Machine();
  Machine(Machine&&) noexcept;
  Machine& operator=(Machine&&) noexcept;

  MachineOptions& options();  // may be changed between launches

  // Fresh memory holds a poison pattern (NaN in every floating-point type). Allocations never touch
  // one another.
  DeviceAddress allocate(std::uint64_t bytes, std::uint64_t alignment = 256);
  void free(DeviceAddress address);
  void mark_steady(DeviceAddress address);  // no predecessor writes the allocation: weights,
                                            // extents, the error slot
  // Host accesses; a range outside an allocation throws Error{Internal}.
  void write(DeviceAddress address, std::span<const std::byte> bytes);
  void read(DeviceAddress address, std::span<std::byte> bytes) const;

  // Runs one kernel to its end. `parameters` is laid out as the kernel's .param list is (natural
  // alignment, in order). Whatever the kernel does wrong is a finding; an unknown entry or a
  // parameter block of the wrong size throws.
  Report launch(const Module& module, std::string_view entry, const LaunchShape& shape,
                std::span<const std::byte> parameters);

 private:
  std::unique_ptr<MachineState> state_;
};

}  // namespace anydim::ptx
