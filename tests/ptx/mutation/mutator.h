// Small faults put into PTX, to show that the interpreter notices them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace anydim::ptx {

enum class MutationKind {
  Delete,        // a fence, wait, arrive or barrier is gone; a wait on an mbarrier passes at once
  Expiry,        // a try_wait that gave up counts as one that has seen its phase complete
  Parity,        // an mbarrier wait asks for the other parity
  WaitCount,     // a wait leaves one group more unfinished
  Transactions,  // expect_tx announces 16 bytes more or fewer
  Arrivals,      // mbarrier.init or a named barrier counts one (a warp) more or fewer
  Multicast,     // a copy goes to one block of the cluster more or fewer
  Rank,          // an address in a block of the cluster is one in another
  Release,       // an arrival tells nothing of what came before it
  Descriptor,    // a wgmma descriptor's address, stride or swizzle differs
  Swizzle,       // an xor of addresses or phases is left out
  Comparison,    // an integer comparison takes or leaves its bound
};

// A part of the text and what stands there instead.
struct Edit {
  std::size_t begin = 0, end = 0;
  std::string replacement;
  friend bool operator==(const Edit&, const Edit&) = default;
};

struct Mutant {
  std::string name;  // kind, opcode and its number among the file's instructions of that opcode:
                     // "delete bar.sync #2"
  MutationKind kind = MutationKind::Delete;
  std::vector<int> lines;   // of the original, one for each edit
  std::vector<Edit> edits;  // in the order of the text
};

// Every mutant of the file, in the order of its text.
std::vector<Mutant> mutants_of(std::string_view ptx);
std::string mutated(const Mutant& mutant, std::string_view ptx);

}  // namespace anydim::ptx
