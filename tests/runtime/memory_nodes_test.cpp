#include "runtime/memory_nodes.h"

#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <string>
#include <thread>

#include "runtime/constant_memory.h"
#include "tests/runtime/temporary_folder.h"

namespace anydim::runtime {
namespace {

struct Placed {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;
  std::vector<unsigned long> nodes;
};

// A machine whose list of nodes is a file of the test's and whose calls are kept.
class MemoryNodesTest : public testing::Test {
 protected:
  NodeSystem machine(const std::string& has_memory) {
    std::ofstream(folder_.path() / "has_memory") << has_memory;
    return {
        .folder = folder_.path(),
        .policy = [this] { return policy_; },
        .interleave =
            [this](std::byte* begin, std::size_t bytes, std::span<const unsigned long> nodes) {
              placed_.push_back(
                  {reinterpret_cast<std::uintptr_t>(begin), bytes, {nodes.begin(), nodes.end()}});
              return !refuses_;
            }};
  }

  test::TemporaryFolder folder_;
  int policy_ = MPOL_DEFAULT;
  bool refuses_ = false;
  std::vector<Placed> placed_;
};

TEST_F(MemoryNodesTest, NodesAreThoseThatHaveMemory) {
  EXPECT_EQ(MemoryNodes(machine("0\n")).count(), 1);
  EXPECT_EQ(MemoryNodes(machine("0-1\n")).count(), 2);
  EXPECT_EQ(MemoryNodes(machine("0,2-3,70\n")).count(), 4);
  for (const char* text : {"", "\n", "none\n", "0-\n", "1-x\n", "-1\n", "0-100000\n"})
    EXPECT_EQ(MemoryNodes(machine(text)).count(), 1) << text;
  NodeSystem without = machine("0-1\n");
  without.folder /= "absent";
  EXPECT_EQ(MemoryNodes(without).count(), 1);
}

TEST_F(MemoryNodesTest, OneNodeCostsNoCall) {
  std::vector<std::byte> memory(1 << 20);
  MemoryNodes(machine("0\n")).spread(memory.data(), memory.size());
  EXPECT_TRUE(placed_.empty());
}

TEST_F(MemoryNodesTest, WholePagesOfTheRangeArePlacedInTurn) {
  const MemoryNodes nodes(machine("0,2-3,70\n"));
  const MemoryBlock block(1 << 20);
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  nodes.spread(block.data() + 1, 3 * page);
  ASSERT_EQ(placed_.size(), 1u);
  EXPECT_EQ(placed_[0].begin, reinterpret_cast<std::uintptr_t>(block.data()) + page);
  EXPECT_EQ(placed_[0].bytes, 2 * page);
  EXPECT_EQ(placed_[0].nodes, (std::vector<unsigned long>{0b1101, 1UL << 6}));
  nodes.spread(block.data() + 1, page);  // no whole page
  EXPECT_EQ(placed_.size(), 1u);
}

TEST_F(MemoryNodesTest, APolicyOfTheProcessIsLeftAlone) {
  std::vector<std::byte> memory(1 << 20);
  for (const int policy : std::vector<int>{MPOL_BIND, MPOL_INTERLEAVE, MPOL_PREFERRED, -1}) {
    policy_ = policy;
    MemoryNodes(machine("0-1\n")).spread(memory.data(), memory.size());
  }
  EXPECT_TRUE(placed_.empty());
}

// Also where the caller is pinned: who packs a weight does not decide where it lies.
TEST_F(MemoryNodesTest, BlocksOfConstantsAreSpreadOnceWhoeverAsks) {
  refuses_ = true;  // which changes nothing for whoever uses the memory
  ConstantMemory memory{MemoryNodes(machine("0-1\n"))};
  std::vector<ir::Tensor> tensors;
  std::thread pinned([&] {
    cpu_set_t processors;
    ASSERT_EQ(sched_getaffinity(0, sizeof processors, &processors), 0);
    int first = 0;
    while (!CPU_ISSET(first, &processors)) ++first;
    CPU_ZERO(&processors);
    CPU_SET(first, &processors);
    ASSERT_EQ(sched_setaffinity(0, sizeof processors, &processors), 0);
    tensors.push_back(memory.allocate(ir::DType::F32, {1000, 1000}));
  });
  pinned.join();
  tensors.push_back(memory.allocate(ir::DType::F32, {1000, 1000}));
  ASSERT_EQ(placed_.size(), 1u) << "two tensors of one block";
  for (ir::Tensor& tensor : tensors) {
    const auto bytes = tensor.mutable_bytes();
    EXPECT_GE(reinterpret_cast<std::uintptr_t>(bytes.data()), placed_[0].begin);
    EXPECT_LE(reinterpret_cast<std::uintptr_t>(bytes.data() + bytes.size()),
              placed_[0].begin + placed_[0].bytes);
    std::memset(bytes.data(), 1, bytes.size());
  }
  tensors.push_back(memory.allocate(ir::DType::F32, {10'000, 1000}));
  EXPECT_EQ(placed_.size(), 2u) << "a block of its own";
}

// Whether this kernel takes the call or not, the memory is there.
TEST_F(MemoryNodesTest, TheSystemsOwnCallsLeaveMemoryUsable) {
  NodeSystem system = this_system();
  system.folder = machine("0-1\n").folder;
  const MemoryBlock block(4 << 20);
  MemoryNodes(system).spread(block.data(), block.bytes());
  std::memset(block.data(), 1, block.bytes());
  EXPECT_EQ(block.data()[block.bytes() - 1], std::byte{1});
  EXPECT_GE(MemoryNodes().count(), 1);
}

}  // namespace
}  // namespace anydim::runtime
