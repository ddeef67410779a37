// The decoded form that runs. A warp's registers are one block of bytes; an operand is an offset
// into it, at which the lanes stand side by side: predicates are one 32-bit mask, registers up to
// 32 bits take 4 bytes a lane, wider ones 8. Immediates, addresses of variables and special
// registers are registers too, filled when the warp starts, so that handlers read every source
// alike.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/ptx/syntax.h"

namespace anydim::ptx {

struct Warp;
struct Instruction;

using LaneMask = std::uint32_t;

enum class Space : std::uint8_t { Generic, Global, Shared, SharedCluster, Local, Const, Param };

enum class Outcome : std::uint8_t {
  Next,     // go on behind the instruction
  Jumped,   // the handler has set the program counter, or ended lanes
  Blocked,  // nothing was done; run the instruction again once something has happened
            // (Warp::block_on says what)
};

// Runs the instruction for the lanes of `mask` (never empty; the guard is already applied).
using Execute = Outcome (*)(Warp& warp, const Instruction& instruction, LaneMask mask);

// How an instruction goes on; slot[0] of a Branch is its target, `detail` of an IndexedBranch a
// std::vector<std::int32_t> of them.
enum class Control : std::uint8_t { None, Branch, IndexedBranch, Return, Exit };

struct Instruction {
  Execute execute = nullptr;
  std::array<std::int32_t, 6> slot{-1, -1, -1,
                                   -1, -1, -1};  // register-file offsets or what the handler likes
  std::int64_t immediate = 0;
  std::int32_t guard = -1;  // offset of the guard's mask, -1: none
  bool guard_negated = false;
  bool aligned = false;          // all live lanes of the warp must be here together
  bool brings_together = false;  // aligned, and the assembler sees to it (__syncthreads)
  // .sync with a member mask in slot[member_slot]: waits until all members are here
  bool needs_members = false;
  std::uint8_t member_slot = 0;
  bool members_meet_anywhere = false;  // even at different instructions of this kind
  bool may_touch_in_flight = false;    // knows how to use registers of unfinished asynchronous work
  std::uint8_t flags = 0;              // the handler's own
  std::int32_t line = 0;
  Control control = Control::None;
  std::int32_t reconverge = -1;        // branches: where diverged lanes meet again, -1: nowhere
  std::shared_ptr<const void> detail;  // whatever else the decoder of this opcode wants to keep
  template <class T>
  const T& get() const {
    return *static_cast<const T*>(detail.get());
  }
};

// Registers that the machine knows. X, Y and Z follow one another.
enum class Special : std::int32_t {
  TidX,
  TidY,
  TidZ,
  NtidX,
  NtidY,
  NtidZ,
  CtaidX,
  CtaidY,
  CtaidZ,
  NctaidX,
  NctaidY,
  NctaidZ,
  ClusteridX,
  ClusteridY,
  ClusteridZ,
  NclusteridX,
  NclusteridY,
  NclusteridZ,
  ClusterCtaidX,
  ClusterCtaidY,
  ClusterCtaidZ,
  ClusterNctaidX,
  ClusterNctaidY,
  ClusterNctaidZ,
  ClusterCtarank,
  ClusterNctarank,
  IsExplicitCluster,
  Laneid,
  Warpid,
  Nwarpid,
  Smid,
  Nsmid,
  Gridid,
  LanemaskEq,
  LanemaskLt,
  LanemaskLe,
  LanemaskGt,
  LanemaskGe,
  DynamicSmemSize,
  TotalSmemSize,
  Clock,
  Clock64,
  Globaltimer,
};

// A register that is filled before the warp starts.
struct Preset {
  enum class Kind : std::uint8_t { Value, GlobalAddress, DynamicShared, LocalAddress, Special };
  Kind kind = Kind::Value;
  bool wide = false;        // 8 bytes a lane
  std::int32_t offset = 0;  // in the register file
  std::int64_t value = 0;   // GlobalAddress: added to it
  std::int32_t index = 0;   // GlobalAddress: which variable; Special: which
};

struct GlobalVariable {
  std::string name;
  bool constant = false;
  std::uint64_t bytes = 0, alignment = 1;
  std::vector<std::uint8_t> initial;
};

struct Parameter {
  std::string name;
  std::uint64_t offset = 0, bytes = 0, alignment = 1;
};

struct Function {
  std::string name;
  bool is_entry = false;
  std::int32_t first = 0, last = 0;  // instructions [first, last)
  std::vector<Parameter> parameters;
  std::uint64_t parameter_bytes = 0;  // of an entry's block
  std::uint64_t shared_bytes = 0;     // static, from the start of shared memory on; entries only
  std::uint64_t dynamic_alignment = 16;
  std::array<std::uint32_t, 3> maximum_threads{};
  bool required_threads = false;
  std::array<std::uint32_t, 3> required_cluster{};
  int minimum_blocks = 0;
  std::vector<Preset> presets;
  std::uint64_t register_bytes = 0;  // entries: of a warp, with those of all device functions
};

struct Program {
  std::string target;
  std::vector<Instruction> instructions;
  std::vector<std::vector<std::int32_t>>
      touched;                      // offsets of the registers that each instruction names
  std::vector<std::string> source;  // opcode with modifiers, for messages
  std::vector<Function> functions;
  std::vector<GlobalVariable> variables;
  std::uint64_t local_bytes = 0;                       // of a lane, stack of all functions
  std::uint64_t call_bytes = 0;                        // of a lane: parameters of device functions
  const Function* entry(std::string_view name) const;  // nullptr: none
};

}  // namespace anydim::ptx
