// Who last wrote each byte and who has read it since, and whether that is ordered before the access at hand.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "tests/ptx/clocks.h"

namespace anydim::ptx {

enum class AccessKind : std::uint8_t { Read, Write, Atomic };
enum class Proxy : std::uint8_t { Generic, Async };

// One access's author, as the shadow keeps it.
struct Author {
  std::uint32_t clock = 0;
  std::uint16_t actor = 0;  // 0: nobody
  std::uint8_t lane = 0;
  bool strong = false;  // relaxed, volatile, atomic: such accesses don't race with each other
  Proxy proxy = Proxy::Generic;
  std::int32_t instruction = -1;
};

// Who accesses, with what it has seen. `seen` must outlive the access.
struct Agent {
  Author author;
  Actor actor;
  const Knowledge* seen = nullptr;
  std::int32_t block = -1;  // index among the resident blocks, for messages
  std::int32_t warp = -1;
};

// Two accesses without order between them.
struct Conflict {
  Author earlier;
  bool earlier_writes = false;
  bool only_fence_missing = false;  // ordered, but not through the proxy fence that the later access needs
  std::size_t byte = 0;             // offset in the memory that the shadow covers
};

// Sets of readers, shared by all bytes that the same accesses have read. One a launch.
class ReaderSets {
 public:
  struct Reader {
    std::uint32_t clock = 0;
    LaneMask lanes = 0;
    Actor actor;
    bool strong = false;
    Proxy proxy = Proxy::Generic;
    std::int32_t instruction = -1;
  };
  ReaderSets() : sets_(1) {}
  // The set with the agent's read added and readers that the agent has seen removed. 0 is the empty set.
  std::uint32_t add(std::uint32_t set, const Agent& agent);
  const std::vector<Reader>& readers(std::uint32_t set) const { return sets_[set]; }

 private:
  std::vector<std::vector<Reader>> sets_;
  std::unordered_map<std::uint64_t, std::uint32_t> transitions_;
};

// Covers a range of memory, a cell a byte.
class Shadow {
 public:
  explicit Shadow(std::size_t bytes) : cells_(bytes) {}
  // Checks the access against earlier ones and records it. False: a conflict, described in `conflict`.
  bool access(std::size_t offset, std::size_t bytes, AccessKind kind, const Agent& agent, ReaderSets& sets, Conflict& conflict);
  bool written(std::size_t offset, std::size_t bytes) const;
  void mark_written(std::size_t offset, std::size_t bytes);  // by the host: before everything
  void clear();
  void forget_authors();  // a new launch: what was written stays written

 private:
  struct Cell {
    std::uint32_t write_clock = 0;
    std::uint32_t readers = 0;
    std::uint32_t write_component = 0;
    std::uint16_t write_actor = 0;  // 0: nobody in this launch
    std::uint8_t write_lane = 0;
    std::uint8_t flags = 0;
    std::int32_t write_instruction = -1;
  };
  std::vector<Cell> cells_;
};

}  // namespace anydim::ptx
