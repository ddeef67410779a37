// Memory that threads on every node of a machine read, spread over the nodes.
//
// On a machine of several nodes (NUMA) a page lies where the thread ran that first touched it. One
// thread packs a weight, so all of it would lie on one node, whose memory would serve every other
// node's threads. Which thread reads which part is not known beforehand: it follows from the size
// met, from how many callers there are and from who is late (runtime/task_shares.h), and the system
// moves threads, which nobody here pins. So pages are placed on the nodes in turn
// (MPOL_INTERLEAVE): whoever reads, every node's memory gives its part, pinned or not, and it is of
// no matter who touches first. A copy for each node would read faster and take as often the memory.
// Activations, scratch and results are written by the threads that compute them, and stay where
// those touch them first. Weights that kernels read where they lie in a model's file are pages of
// the system's file cache, which other processes share: they are where whoever read the file first
// ran.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

namespace anydim::runtime {

// What is asked of the system; tests bring their own.
struct NodeSystem {
  std::filesystem::path folder;  // with the list of nodes that have memory, `has_memory`
  // The calling thread's policy for memory (MPOL_DEFAULT where none was set); negative: refused.
  std::function<int()> policy;
  // mbind with MPOL_INTERLEAVE over the nodes whose bits are set; false: refused. `begin` and
  // `bytes` are whole pages.
  std::function<bool(std::byte* begin, std::size_t bytes, std::span<const unsigned long> nodes)>
      interleave;
};
NodeSystem this_system();

class MemoryNodes {
 public:
  // Reads which nodes have memory, once. One where the system doesn't say.
  explicit MemoryNodes(NodeSystem system = this_system());

  int count() const { return static_cast<int>(nodes_.size()); }
  // Has the whole pages of this range, none of which was touched, placed on the nodes in turn. Does
  // nothing on one node, and leaves a policy alone that the process was started with (numactl).
  // Where the system refuses, pages lie where they are touched first.
  void spread(std::byte* begin, std::size_t bytes) const;

 private:
  NodeSystem system_;
  std::vector<int> nodes_;
};

}  // namespace anydim::runtime
