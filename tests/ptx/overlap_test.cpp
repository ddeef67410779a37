// Launches that begin early: what they touch before griddepcontrol.wait, and what launches ahead of
// them touch.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/ptx/fixture.h"

namespace anydim::ptx {
namespace {

using testing::kernel_text;
using testing::Parameters;
using testing::upload;

constexpr const char* wait = "griddepcontrol.wait;";

// Three kernels in a row, the second and the third early: a to b, b to c, and the third reads
// again what the first read and wrote. Each has something before its wait and something behind.
struct Chain {
  std::string first = std::string(wait) + "ld.global.u32 %r0, [p0]; st.global.u32 [p1], %r0;";
  std::string second = std::string(wait) + "ld.global.u32 %r0, [p1]; st.global.u32 [p2], %r0;";
  std::string third = std::string(wait) +
                      "ld.global.u32 %r0, [p0]; ld.global.u32 %r1, [p1]; ld.global.u32 %r2, [p2];";
  bool second_is_early = true, third_is_early = true;

  std::string findings() const {
    Machine machine(MachineOptions{});
    machine.options().check_overlap = true;
    std::vector<DeviceAddress> buffers;
    for (int i = 0; i < 4; ++i) buffers.push_back(upload(machine, std::vector<std::uint32_t>(4)));
    std::string found;
    const auto launch = [&](const std::string& body, bool early) {
      machine.options().early = early;
      Parameters parameters;
      for (const DeviceAddress buffer : buffers) parameters.add(buffer);
      const Report report =
          machine.launch(parse_ptx(kernel_text(body, 4)), "test", {}, parameters.bytes());
      for (const Finding& finding : report.findings) EXPECT_EQ(finding.kind, FindingKind::TooEarly);
      found += report.text();
    };
    launch(first, false);
    launch(second, second_is_early);
    launch(third, third_is_early);
    return found;
  }
};

TEST(Overlap, KernelsThatWaitMayBeginEarly) {
  EXPECT_EQ(Chain().findings(), "");
  // What nobody ahead writes may be read before, and what nobody ahead touches be written.
  Chain chain;
  chain.second = "ld.global.u32 %r1, [p0]; st.global.u32 [p3], %r1;" + chain.second;
  EXPECT_EQ(chain.findings(), "");
}

TEST(Overlap, WhatALaunchAheadWritesIsReadBehindTheWait) {
  Chain chain;
  chain.second = "ld.global.u32 %r1, [p1];" + chain.second;
  EXPECT_NE(chain.findings().find("read of 4 bytes"), std::string::npos);
  EXPECT_NE(chain.findings().find("which a launch ahead writes, before griddepcontrol.wait"),
            std::string::npos);
  chain.second_is_early = false;
  EXPECT_EQ(chain.findings(), "");
}

TEST(Overlap, WhatALaunchAheadReadsIsWrittenBehindTheWait) {
  Chain chain;
  chain.second = "st.global.u32 [p0], %t;" + chain.second;
  EXPECT_NE(chain.findings().find("which a launch ahead reads, before griddepcontrol.wait"),
            std::string::npos);
}

// The second kernel begins before the first ends and may wait for it when the third begins.
TEST(Overlap, ALaunchTwoAheadMayStillRunBeforeTheWait) {
  Chain chain;
  chain.third = "ld.global.u32 %r3, [p1];" + chain.third;
  EXPECT_NE(chain.findings().find("which a launch ahead writes, before griddepcontrol.wait"),
            std::string::npos);
  chain.second_is_early = false;
  EXPECT_EQ(chain.findings(), "") << "the first has ended";
}

// A kernel that does not wait may end before the one ahead of it: the wait behind it says nothing
// of that one.
TEST(Overlap, AWaitCoversNothingAheadOfAKernelThatDoesNotWait) {
  Chain chain;
  chain.second = "st.global.u32 [p2], %t;";
  EXPECT_NE(chain.findings().find("no wait covers that one"), std::string::npos);
  chain.third_is_early = false;
  EXPECT_EQ(chain.findings(), "");
}

// Results are the same without the wait, as launches follow one another here.
TEST(Overlap, EveryMissingWaitIsFound) {
  for (std::string Chain::* kernel : {&Chain::second, &Chain::third}) {
    Chain chain;
    (chain.*kernel).erase(0, std::string(wait).size());
    EXPECT_NE(chain.findings(), "");
    chain.second_is_early = chain.third_is_early = false;
    EXPECT_EQ(chain.findings(), "");
  }
}

}  // namespace
}  // namespace anydim::ptx
