// Who last wrote each byte and who has read it since, and whether that is ordered before the access
// at hand.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tests/ptx/agenda.h"
#include "tests/ptx/clocks.h"

namespace anydim::ptx {

enum class AccessKind : std::uint8_t { Read, Write, Atomic };
enum class Proxy : std::uint8_t { Generic, Async };

// Who made an access, and when by its own clock.
struct Author {
  std::uint32_t clock = 0;
  std::uint32_t component = 0;  // of a ClockSet: the actor's base + lane
  std::uint16_t actor = 0;      // 0: the host, before the launch
  std::uint8_t lane = 0;
  bool strong = false;  // relaxed, volatile, atomic: such accesses don't race with each other
  Proxy proxy = Proxy::Generic;
  std::int32_t instruction = -1;
  friend bool operator==(const Author&, const Author&) = default;
};

inline constexpr std::uint32_t never_own = 0xffff'ffff;

// Groups of asynchronous work of one sort that a warp's lanes have issued. The lane itself knows
// those that its waits have covered.
struct OwnGroups {
  Actor actor;                           // a component for each lane; number 0 until first used
  std::array<std::uint32_t, 32> open{};  // the group that is being filled
  std::array<std::uint32_t, 32> done{};  // the last group that a wait has covered
  std::array<QueueId, 32> queue{};       // on the agenda
};

// Who accesses, with what it has seen. What the pointers name must outlive the access.
struct Agent {
  Author author;
  const Knowledge* seen = nullptr;
  // Accesses of the issuing thread in this range of its clock precede in program order.
  std::uint32_t issuer = 0, issuer_from = 1, issuer_to = 0;
  // Groups of its own that the issuing thread has waited for, up to a number.
  struct Done {
    std::uint32_t component = 0, clock = 0;
  };
  std::array<Done, 4> done{};
  std::int32_t lane = 0;
  bool before_wait = false;  // the issuing thread has not run griddepcontrol.wait
  std::int32_t block = -1;   // slot, for messages
  std::int32_t warp = -1;
};

// Two accesses without order between them.
struct Conflict {
  Author earlier;
  bool earlier_writes = false;
  bool only_fence_missing =
      false;             // ordered, but not through the proxy fence that the later access needs
  std::size_t byte = 0;  // offset in the memory that the shadow covers
};

// Authors of writes and sets of readers, numbered, so that a byte's history is two numbers. One a
// launch.
class AccessHistory {
 public:
  static constexpr std::uint32_t nobody = 0, host = 1;
  AccessHistory();
  std::uint32_t writer(const Author& author);
  // The set with the agent's read added and reads that the agent has seen removed. 0 is the empty
  // set.
  std::uint32_t add_reader(std::uint32_t set, const Agent& agent);
  const Author& author(std::uint32_t writer) const { return authors_[writer]; }
  template <class Visit>
  void for_readers(std::uint32_t set, Visit&& visit) const {
    for (; set != 0; set = readers_[set].others) visit(readers_[set].author);
  }

 private:
  // A set that was asked for lately; what it was made from stays alive, so that its address stays
  // its own.
  struct Answer {
    Author author;
    SharedClocks generic, fenced;
    std::uint32_t set = 0, result = 0;
  };
  // A set is a reader and another set: adding one to a set shares the rest.
  struct Reader {
    Author author;
    std::uint32_t others = 0;
  };
  std::uint32_t push_reader(Author author, std::uint32_t others);
  std::vector<Author> authors_;
  std::vector<std::uint32_t> last_author_;  // by component
  std::vector<Reader> readers_;
  std::vector<Answer> answers_;
};

// Whether what `author` did precedes what the agent does now. Work of the async proxy sees ordinary
// writes only through a proxy fence.
bool is_ordered(const Author& author, bool author_writes, const Agent& agent,
                bool& only_fence_missing);

// Covers a range of memory byte by byte; pages come into being where something is accessed.
class Shadow {
 public:
  explicit Shadow(std::size_t bytes) : pages_((bytes + page_bytes - 1) / page_bytes) {}
  // Checks the access against earlier ones and records it. False: a conflict, described in
  // `conflict`.
  bool access(std::size_t offset, std::size_t bytes, AccessKind kind, const Agent& agent,
              AccessHistory& history, Conflict& conflict);
  // Whether all accesses but those of `own` actors precede what the agent does now; `conflict`
  // tells of one that does not.
  bool all_ordered(const Agent& agent, std::span<const Actor> own, const AccessHistory& history,
                   Conflict& conflict) const;
  bool written(std::size_t offset, std::size_t bytes) const;
  void mark_written(std::size_t offset, std::size_t bytes);  // by the host
  void new_launch();  // what was written stays written; authors are forgotten

 private:
  static constexpr std::size_t page_bytes = 4096;
  struct Cell {
    std::uint32_t writer = AccessHistory::nobody;
    std::uint32_t readers = 0;
  };
  using Page = std::array<Cell, page_bytes>;
  Page& page(std::size_t index);
  std::vector<std::unique_ptr<Page>> pages_;
};

}  // namespace anydim::ptx
