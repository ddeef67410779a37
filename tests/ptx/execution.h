// A launch under way: blocks, warps, their registers and memory, and what handlers may do with them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <typeindex>
#include <vector>

#include "tests/ptx/agenda.h"
#include "tests/ptx/clocks.h"
#include "tests/ptx/decoder.h"
#include "tests/ptx/interpreter.h"
#include "tests/ptx/memory.h"
#include "tests/ptx/program.h"
#include "tests/ptx/shadow.h"

namespace anydim::ptx {

struct Block;
class Execution;

// Ends the launch; its findings are already noted.
struct StopLaunch {};

// Lanes of a warp that run together.
struct Fragment {
  std::int32_t pc = 0;
  LaneMask mask = 0;
  std::int32_t meeting = -1;         // innermost Meeting that these lanes owe, -1: none
  std::int32_t meeting_pc = -1;      // its place
  std::vector<std::int32_t> frames;  // return addresses, outermost first
  bool blocked = false;
  std::uint64_t blocked_since = 0;  // Execution::events when it blocked
  bool may_time_out = false;        // a try_wait
  bool timed_out = false;
  std::uint64_t ticket = 0;  // a handler's note for its own retry, 0 when the instruction is met first
  std::string waits_for;     // for the deadlock report
};

// Where the lanes that a branch parted meet again.
struct Meeting {
  std::int32_t pc = 0;
  LaneMask expected = 0, arrived = 0;
  std::int32_t outer = -1, outer_pc = -1;
  std::vector<std::int32_t> frames;
};

// Asynchronous work's identity and knowledge; outlives the issuing thread.
struct AsyncAuthor {
  Knowledge seen;
  Agent agent;
  Block* block = nullptr;
};

struct Warp {
  Execution& execution;
  Block& block;
  std::int32_t index = 0;  // in the block
  LaneMask existing = 0;   // threads that the block has
  LaneMask live = 0;       // not exited
  std::vector<std::uint64_t> registers;
  std::vector<std::byte> local;       // local_bytes a lane
  std::vector<std::byte> call_space;  // call_bytes a lane
  std::vector<Fragment> fragments;
  std::vector<Meeting> meetings;
  std::int32_t current = 0;  // fragment that runs
  std::uint32_t clock = 1;
  Actor actor;
  std::array<Knowledge, 32> seen;
  std::array<Knowledge, 32> fence_published;                // what a relaxed write after a fence publishes
  std::array<Knowledge, 32> fence_pending;                  // what a fence after a relaxed read will take in
  std::map<std::int32_t, std::string> registers_in_flight;  // offset: which work; using one is a finding

  // Registers. T is std::uint32_t (up to 32 bits) or std::uint64_t; 32 of them, one a lane.
  template <class T>
  T* lanes(std::int32_t offset) {
    return reinterpret_cast<T*>(reinterpret_cast<std::byte*>(registers.data()) + offset);
  }
  LaneMask& predicate(std::int32_t offset) { return *lanes<std::uint32_t>(offset); }
  void set_predicate(std::int32_t offset, LaneMask mask, LaneMask bits) {
    LaneMask& p = predicate(offset);
    p = (p & ~mask) | (bits & mask);
  }
  std::uint64_t address(const AddressOperand& operand, int lane) {
    std::uint64_t base = 0;
    if (operand.base >= 0) base = operand.wide ? lanes<std::uint64_t>(operand.base)[lane] : lanes<std::uint32_t>(operand.base)[lane];
    return base + static_cast<std::uint64_t>(operand.offset);
  }
  int thread(int lane) const { return index * 32 + lane; }  // in the block

  // Memory, as a thread's own access by the generic proxy. Checks bounds, alignment and races; the pointer is good until the next
  // access. Throws StopLaunch after a finding that ends the launch.
  std::byte* access(AccessKind kind, Space space, std::uint64_t address, std::size_t bytes, std::size_t alignment, int lane,
                    bool strong = false);

  // Order. publish: the knowledge of the lanes, for others to acquire; their later accesses are not covered.
  Knowledge publish(LaneMask mask);
  void acquire(LaneMask mask, const Knowledge& knowledge);
  void proxy_fence(LaneMask mask);  // ordinary accesses seen so far become visible to asynchronous work
  // The author of asynchronous work that this lane issues; its accesses carry (actor, lane_of_actor, clock), which whoever learns of
  // its completion adds to its Knowledge.
  std::shared_ptr<AsyncAuthor> async_author(int lane, const Actor& actor, int lane_of_actor, std::uint32_t clock);

  // Waiting. Use as `return warp.block_on("mbarrier at 0x400, parity 1")`; after any event the instruction runs again.
  Outcome block_on(std::string what, bool may_time_out = false);
  Fragment& fragment() { return fragments[static_cast<std::size_t>(current)]; }

  void report(FindingKind kind, int lane, std::string message);
  [[noreturn]] void stop(FindingKind kind, int lane, std::string message);
};

struct NamedBarrier {
  std::uint32_t arrived = 0;   // threads
  std::uint32_t expected = 0;  // threads; 0: nobody has come yet
  std::uint64_t generation = 1;
  Knowledge gathered, released;
  std::uint32_t reduction = 0, reduced = 0;
  std::vector<std::int32_t> warps;  // that have come
};

struct Block {
  Execution& execution;
  std::int32_t slot = 0;  // among the resident blocks
  std::array<std::uint32_t, 3> index{};
  std::uint32_t cluster_rank = 0;
  std::shared_ptr<struct Cluster> cluster;
  std::vector<std::byte> shared;
  std::unique_ptr<Shadow> shadow;  // of `shared`
  std::vector<std::unique_ptr<Warp>> warps;
  std::array<NamedBarrier, 16> barriers;
  std::map<std::type_index, std::shared_ptr<void>> extensions;  // state that other files' handlers keep a block
  bool finished = false;

  // State of a handler file, made on first use.
  template <class T>
  T& extension() {
    std::shared_ptr<void>& held = extensions[typeid(T)];
    if (!held) held = std::make_shared<T>();
    return *static_cast<T*>(held.get());
  }
};

struct Cluster {
  std::array<std::uint32_t, 3> shape{1, 1, 1};
  std::vector<Block*> blocks;  // by rank; nullptr once finished
};

class Execution {
 public:
  Execution(MachineState& machine, const Program& program, const Function& entry, const LaunchShape& shape,
            std::span<const std::byte> parameters);
  ~Execution();
  Report run();

  MachineState& machine;
  const Program& program;
  const Function& entry;
  const LaunchShape shape;
  const MachineOptions options;
  std::vector<std::byte> parameters;
  Agenda agenda;
  std::vector<std::unique_ptr<Block>> blocks;  // resident

  // Tells blocked warps that something happened (a barrier completed, asynchronous work finished, lanes exited).
  void notify() { ++events; }
  std::uint64_t events = 0;
  std::uint64_t effects = 0;  // stores and anything else visible; while it stands still warps only spin

  // A new actor with so many lanes; belongs to the block's slot and serves again in the slot's next block. Its clock goes on.
  Actor new_actor(Block& block, std::uint16_t lanes);
  std::uint32_t& actor_clock(const Actor& actor) { return actor_clocks_[actor.number]; }

  // Memory on behalf of `agent`; `warp` and `lane` only name who is at fault. `block` gives shared memory its meaning.
  std::byte* access(AccessKind kind, Space space, std::uint64_t address, std::size_t bytes, std::size_t alignment, const Agent& agent,
                    Block& block, int lane);
  void report(FindingKind kind, const Agent& agent, int lane, std::string message);
  [[noreturn]] void stop(FindingKind kind, const Agent& agent, int lane, std::string message);

 private:
  std::vector<std::uint32_t> actor_clocks_;
};

}  // namespace anydim::ptx
