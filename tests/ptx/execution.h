// A launch under way: blocks, warps, their registers and memory, and what handlers may do with
// them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <span>
#include <string>
#include <tuple>
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
  bool gave_up = false;  // at once, and has not passed since
  std::uint64_t ticket =
      0;                  // a handler's note for its own retry, 0 when the instruction is met first
  std::string waits_for;  // for the deadlock report
};

// Where the lanes that a branch parted meet again.
struct Meeting {
  std::int32_t pc = 0;
  LaneMask expected = 0, arrived = 0;
  std::int32_t outer = -1, outer_pc = -1;
  std::vector<std::int32_t> frames;
};

// Asynchronous work's identity and what its issuer had seen; kept by the work's steps.
struct AsyncAuthor {
  Knowledge seen;
  Agent agent;  // points to `seen`
  Block* block = nullptr;
};

// Sorts of groups that a warp's lanes issue and wait for, each with an actor of its own.
enum class GroupKind : std::uint8_t { CopyAsync, BulkRead, BulkWrite, Wgmma };

struct Warp {
  Warp(Execution& launch, Block& owner) : execution(launch), block(owner) {}

  Execution& execution;
  Block& block;
  std::int32_t index = 0;         // in the block
  LaneMask existing = 0;          // threads that the block has
  LaneMask live = 0;              // not exited
  LaneMask behind_grid_wait = 0;  // have run griddepcontrol.wait
  std::vector<std::uint64_t> registers;
  std::vector<std::byte> local;       // local_bytes a lane
  std::vector<std::byte> call_space;  // call_bytes a lane
  std::vector<Fragment> fragments;
  std::vector<Meeting> meetings;
  std::int32_t current = 0;  // fragment that runs
  std::uint32_t clock = 1, birth = 1;
  Actor actor;
  // Lanes of one number have done all alike since something brought them together.
  std::array<std::uint32_t, 32> company{};
  std::uint32_t companies = 0;
  std::int32_t parted_line = 0;  // of the last branch that parted lanes
  std::array<Knowledge, 32> seen;
  std::array<Knowledge, 32> fence_published;  // what a relaxed write after a fence publishes
  std::array<Knowledge, 32> fence_pending;    // what a fence after a relaxed read will take in
  // offset: which work; using one is a finding
  std::map<std::int32_t, std::string> registers_in_flight;

  LaneMask carry = 0;                 // the condition code's carry bit
  std::vector<OwnGroups> own_groups;  // by GroupKind

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
    if (operand.base >= 0)
      base = operand.wide ? lanes<std::uint64_t>(operand.base)[lane]
                          : lanes<std::uint32_t>(operand.base)[lane];
    return base + static_cast<std::uint64_t>(operand.offset);
  }
  int thread(int lane) const { return index * 32 + lane; }  // in the block

  // Memory, as a thread's own access by the generic proxy. Checks bounds, alignment and races; the
  // pointer is good until the next access. Throws StopLaunch after a finding that ends the launch.
  std::byte* access(AccessKind kind, Space space, std::uint64_t address, std::size_t bytes,
                    std::size_t alignment, int lane, bool strong = false);

  // Order. publish: the knowledge of the lanes, for others to acquire; their later accesses are not
  // covered.
  Knowledge publish(LaneMask mask);
  void acquire(LaneMask mask, const Knowledge& knowledge);
  // ordinary accesses seen so far become visible to asynchronous work
  void proxy_fence(LaneMask mask);
  // The author of asynchronous work that this lane issues; its accesses carry (actor,
  // lane_of_actor, clock), which whoever learns of its completion adds to its Knowledge.
  std::shared_ptr<AsyncAuthor> async_author(int lane, const Actor& actor, int lane_of_actor,
                                            std::uint32_t clock, Proxy proxy = Proxy::Async);
  // The same on behalf of several lanes (wgmma): it has seen what any of them has.
  std::shared_ptr<AsyncAuthor> async_author_of_lanes(LaneMask mask, const Actor& actor,
                                                     int lane_of_actor, std::uint32_t clock);
  OwnGroups& groups(GroupKind kind);  // made on first use

  // Waiting. Use as `return warp.block_on("mbarrier at 0x400, parity 1")`; after any event the
  // instruction runs again.
  Outcome block_on(std::string what, bool may_time_out = false);
  Fragment& fragment() { return fragments[static_cast<std::size_t>(current)]; }

  // Control flow. branch: the lanes of `taken` go to `target`, the fragment's others behind the
  // instruction.
  Outcome branch(const Instruction& instruction, LaneMask taken, std::int32_t target);
  Outcome exit_lanes(LaneMask mask);
  // A branch takes some lanes apart from others of their company; that they come to the same
  // instruction later brings nobody together, but a .sync instruction for all of them does.
  void part(LaneMask some);
  void bring_together(LaneMask mask);
  void check_together(LaneMask mask);
  void finish_meeting(std::int32_t index);
  void arrive_at_meeting();
  // the fragment's lanes meet at pc, whatever happens until then
  void demand_meeting(std::int32_t pc);

  void report(FindingKind kind, int lane, const std::string& message);
  [[noreturn]] void stop(FindingKind kind, int lane, const std::string& message);
  Agent agent(int lane, bool strong = false) const;  // a thread's own ordinary access, now
  std::string place(int lane) const;                 // "block (0, 0, 0) warp 1 lane 2"
};

struct NamedBarrier {
  std::uint32_t arrived = 0;   // threads
  std::uint32_t expected = 0;  // threads, where a number was given
  bool whole_block = false;    // no number: all live threads
  std::uint64_t generation = 1;
  Knowledge gathered, released;
  bool all = true, reduced_and = true;  // of bar.red
  std::uint32_t count = 0, reduced_count = 0;
};

struct Block {
  explicit Block(Execution& launch) : execution(launch) {}

  Execution& execution;
  std::int32_t slot = 0;  // among the resident blocks
  std::array<std::uint32_t, 3> index{};
  std::uint32_t cluster_rank = 0;
  std::shared_ptr<struct Cluster> cluster;
  std::vector<std::byte> shared;
  std::unique_ptr<Shadow> shadow;  // of `shared`
  std::vector<std::unique_ptr<Warp>> warps;
  std::array<NamedBarrier, 16> barriers;
  std::vector<Actor> actors;  // that it holds
  // state that other files' handlers keep a block
  std::map<std::type_index, std::shared_ptr<void>> extensions;
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
  std::uint32_t arrived = 0;   // threads at the cluster's barrier
  std::uint64_t generation = 1;
  Knowledge gathered, released;
};

class Execution {
 public:
  Execution(MachineState& machine, const Program& program, const Function& entry,
            const LaunchShape& shape, std::span<const std::byte> parameters);
  ~Execution();
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;
  Report run();

  MachineState& machine;
  const Program& program;
  const Function& entry;
  const LaunchShape shape;
  const MachineOptions options;
  std::vector<std::byte> parameters;
  Agenda agenda;
  std::vector<std::unique_ptr<Block>> blocks;  // resident, by slot; empty slots are null

  // Tells blocked warps that something happened (a barrier completed, asynchronous work finished,
  // lanes exited).
  void notify() { ++events, ++effects; }
  std::uint64_t events = 0;
  // stores and anything else visible; while it stands still warps only spin
  std::uint64_t effects = 0;
  // reads that may be waiting for others: strong loads, tests of a barrier
  std::uint64_t polls = 0;
  std::uint64_t instructions = 0;
  bool any_grid_wait = false;  // some thread has run griddepcontrol.wait
  // Virtual time: an instruction a nanosecond, and what try_wait took that gave up.
  std::uint64_t nanoseconds() const { return instructions + waited_nanoseconds_; }
  // Whether a try_wait that would wait gives up at once.
  bool gives_up(Fragment& fragment);

  // A new actor with so many lanes; belongs to the block's slot and serves again in the slot's next
  // block. Its clock goes on.
  Actor new_actor(Block& block, std::uint16_t lanes, std::string name);
  std::uint32_t& actor_clock(const Actor& actor) { return actors_[actor.number].clock; }

  // Memory on behalf of `agent`. `block` gives shared addresses their meaning; warp and lane of the
  // agent are named if it is at fault.
  std::byte* access(AccessKind kind, Space space, std::uint64_t address, std::size_t bytes,
                    std::size_t alignment, const Agent& agent, Block& block);
  void report(FindingKind kind, const Agent& agent, const std::string& message);
  [[noreturn]] void stop(FindingKind kind, const Agent& agent, const std::string& message);
  // Strong accesses order through the address that they touch.
  struct SyncPlace {
    Knowledge published;
  };
  std::map<const std::byte*, SyncPlace> sync_places;
  std::mt19937_64 random;

 private:
  struct Place {
    std::byte* data = nullptr;
    Shadow* shadow = nullptr;
    std::size_t offset = 0;
    bool tracked = true;  // whether unwritten bytes are known
  };
  struct ActorRecord {
    Actor actor;
    std::uint32_t clock = 0;
    std::string name;
  };
  Place resolve(Space space, std::uint64_t address, std::size_t bytes, std::size_t alignment,
                AccessKind kind, const Agent& agent, Block& block);
  void check_access(const Place& place, std::size_t bytes, AccessKind kind, const Agent& agent);
  // Against what launches ahead that may still run touch.
  void check_overlap(Allocation& allocation, std::uint64_t offset, std::size_t bytes,
                     AccessKind kind, const Agent& agent);
  std::string describe(const Author& author) const;
  bool check_launch();
  void dispatch();
  void start_block(std::int32_t slot, std::uint64_t cluster, std::uint32_t rank,
                   const std::shared_ptr<Cluster>& group);
  std::unique_ptr<Warp> make_warp(Block& block, std::int32_t index);
  void fill_presets(Warp& warp, const Function& function);
  std::uint64_t special(const Warp& warp, Special which, int lane) const;
  void retire();
  void check_end(const Block& block);
  bool only_spins();
  bool run_warp(Warp& warp);
  bool pick_fragment(Warp& warp);
  void run_fragment(Warp& warp, int budget);
  bool meet_members(Warp& warp, const Instruction& instruction, LaneMask mask);
  void check_in_flight(Warp& warp, std::int32_t pc);
  void unstick();
  bool release_meeting();
  bool time_out_waits();
  std::string where_warps_wait() const;

  Report report_;
  std::set<std::tuple<FindingKind, std::int32_t, std::int32_t>> noted_;
  AccessHistory history_;
  std::vector<ActorRecord> actors_;
  std::uint32_t components_ = 0;
  // by slot and lanes
  std::vector<std::map<std::uint16_t, std::vector<std::uint16_t>>> free_actors_;
  std::uint64_t next_cluster_ = 0, clusters_ = 0;
  std::array<std::uint32_t, 3> cluster_grid_{1, 1, 1};
  std::int32_t blocks_per_multiprocessor_ = 1;
  std::uint64_t shared_bytes_ = 0;
  std::uint64_t dynamic_start_ = 0;
  std::vector<DeviceAddress> variables_;
  std::uint64_t last_effects_ = 0, last_effect_instruction_ = 0, last_effect_polls_ = 0,
                timeout_effects_ = 0;
  std::uint64_t waited_nanoseconds_ = 0;
  int timeouts_ = 0, releases_ = 0;
  std::string stuck_;  // where warps waited when the first lanes were let go from a meeting; empty
                       // unless nothing has happened since
};

}  // namespace anydim::ptx
