// Barriers of the block and of the cluster, memory of other blocks of a cluster, persistent blocks.
#include <gtest/gtest.h>

#include "tests/ptx/fixture.h"

namespace anydim::ptx {
namespace {

using testing::download;
using testing::kernel_text;
using testing::Parameters;
using testing::upload;
using u32 = std::uint32_t;

struct Outcome {
  Report report;
  std::vector<u32> words;
};

// p0: `words` zeros, which come back.
Outcome run(const std::string& body, const LaunchShape& shape, std::size_t words,
            const std::string& module_scope = {}, MachineOptions options = {}) {
  Machine machine(options);
  const DeviceAddress buffer = upload(machine, std::vector<u32>(words));
  Outcome outcome;
  outcome.report = machine.launch(parse_ptx(kernel_text(body, 1, module_scope)), "test", shape,
                                  Parameters().add(buffer).bytes());
  EXPECT_TRUE(outcome.report.ok()) << outcome.report.text();
  outcome.words = download<u32>(machine, buffer, words);
  return outcome;
}

TEST(Barrier, reductions) {
  const Outcome outcome = run(R"(
  setp.lt.u32 %q0, %t, 70;
  bar.red.popc.u32 %r0, 0, %q0;
  bar.red.and.pred %q1, 0, %q0;
  bar.red.or.pred %q2, 0, 96, !%q0;
  selp.u32 %r1, 1000, 0, %q1;
  selp.u32 %r2, 2000, 0, %q2;
  add.u32 %r0, %r0, %r1;
  add.u32 %r0, %r0, %r2;
  mul.wide.u32 %rd0, %t, 4;
  add.s64 %rd0, p0, %rd0;
  st.global.u32 [%rd0], %r0;)",
                              {.block = {96, 1, 1}}, 96);
  for (const u32 word : outcome.words) EXPECT_EQ(word, 2070U);
}

TEST(Barrier, producer_and_consumer_warps_take_turns) {
  // Warp 0 fills a slot, warp 1 empties it: two named barriers of 64 threads, arrive on one side
  // and sync on the other.
  const Outcome outcome = run(R"(
  mov.u32 %r0, slot;
  and.b32 %r1, %t, 31;
  shl.b32 %r2, %r1, 2;
  add.u32 %r3, %r0, %r2;
  mov.u32 %r4, 0;
  mov.u32 %r6, 0;
  setp.ge.u32 %q0, %t, 32;
  @%q0 bra CONSUME;
PRODUCE:
  mad.lo.u32 %r5, %r4, 100, %r1;
  st.shared.u32 [%r3], %r5;
  bar.arrive 1, 64;
  bar.sync 2, 64;
  add.u32 %r4, %r4, 1;
  setp.lt.u32 %q1, %r4, 5;
  @%q1 bra PRODUCE;
  ret;
CONSUME:
  bar.sync 1, 64;
  xor.b32 %r7, %r2, 124;
  add.u32 %r7, %r0, %r7;
  ld.shared.u32 %r5, [%r7];
  add.u32 %r6, %r6, %r5;
  bar.arrive 2, 64;
  add.u32 %r4, %r4, 1;
  setp.lt.u32 %q1, %r4, 5;
  @%q1 bra CONSUME;
  mul.wide.u32 %rd0, %r1, 4;
  add.s64 %rd0, p0, %rd0;
  st.global.u32 [%rd0], %r6;)",
                              {.block = {64, 1, 1}}, 32, ".shared .align 4 .b8 slot[128];");
  for (u32 lane = 0; lane < 32; ++lane) EXPECT_EQ(outcome.words[lane], 1000 + 5 * (31 - lane));
}

const char* const neighbour = R"(
  mov.u32 %r0, slot;
  mov.u32 %r1, %cluster_ctarank;
  mov.u32 %r2, %ctaid.x;
  add.u32 %r3, %r2, 10;
  st.shared.u32 [%r0], %r3;
  BARRIER
  xor.b32 %r4, %r1, 1;
  add.u32 %r4, %r4, 1;
  shl.b32 %r4, %r4, 24;
  or.b32 %r4, %r4, %r0;
  ld.shared::cluster.u32 %r5, [%r4];
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  mul.wide.u32 %rd0, %r2, 4;
  add.s64 %rd0, p0, %rd0;
  st.global.u32 [%rd0], %r5;)";

std::string with_barrier(const std::string& barrier) {
  std::string text = neighbour;
  return text.replace(text.find("BARRIER"), 7, barrier);
}

TEST(Barrier, blocks_of_a_cluster_see_each_other) {
  const LaunchShape shape{.grid = {6, 1, 1}, .block = {1, 1, 1}, .cluster = {2, 1, 1}};
  const std::string shared = ".shared .align 4 .b8 slot[4];";
  const Outcome outcome = run(
      with_barrier("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;"),
      shape, 6, shared);
  EXPECT_EQ(outcome.words, (std::vector<u32>{11, 10, 13, 12, 15, 14}));
  Machine machine({});
  const DeviceAddress buffer = upload(machine, std::vector<u32>(6));
  const Report racing = machine.launch(
      parse_ptx(kernel_text(
          with_barrier("barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;"), 1,
          shared)),
      "test", shape, Parameters().add(buffer).bytes());
  EXPECT_TRUE(racing.has(FindingKind::Race)) << racing.text();
}

TEST(Barrier, a_block_that_ended_cannot_be_read) {
  std::string text = with_barrier("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;");
  const std::string last =
      "barrier.cluster.arrive.aligned;\n  barrier.cluster.wait.aligned;\n  mul";
  // Without the second barrier block 1 may end while block 0 still reads; here it surely does.
  text.replace(
      text.find("  barrier.cluster.arrive.aligned;\n  barrier.cluster.wait.aligned;\n  mul"),
      last.size() + 2, "  mul");
  text.replace(text.find("xor.b32 %r4"), 0,
               "setp.eq.u32 %q0, %r1, 1; @%q0 ret; mov.u32 %r9, 0; DELAY: add.u32 %r9, %r9, 1; "
               "setp.lt.u32 %q1, %r9, 2000; @%q1 bra DELAY;\n");
  Machine machine({});
  const DeviceAddress buffer = upload(machine, std::vector<u32>(6));
  const Report report =
      machine.launch(parse_ptx(kernel_text(text, 1, ".shared .align 4 .b8 slot[4];")), "test",
                     {.grid = {2, 1, 1}, .block = {1, 1, 1}, .cluster = {2, 1, 1}},
                     Parameters().add(buffer).bytes());
  EXPECT_TRUE(report.has(FindingKind::OutOfBounds)) << report.text();
}

TEST(Barrier, a_block_ends_after_others_have_read_it) {
  std::string text = with_barrier("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;");
  const std::string last =
      "barrier.cluster.arrive.aligned;\n  barrier.cluster.wait.aligned;\n  mul";
  text.replace(text.find("  " + last) + 2, last.size(),
               "barrier.cluster.arrive.relaxed.aligned;\n  barrier.cluster.wait.aligned;\n  mul");
  Machine machine({});
  const DeviceAddress buffer = upload(machine, std::vector<u32>(6));
  const Report report =
      machine.launch(parse_ptx(kernel_text(text, 1, ".shared .align 4 .b8 slot[4];")), "test",
                     {.grid = {2, 1, 1}, .block = {1, 1, 1}, .cluster = {2, 1, 1}},
                     Parameters().add(buffer).bytes());
  EXPECT_TRUE(report.has(FindingKind::Race)) << report.text();
  EXPECT_NE(report.text().find("the block ends without order after the read"), std::string::npos)
      << report.text();
}

TEST(Barrier, blocks_come_and_go_and_take_work_from_a_counter) {
  // 7 blocks on 2 multiprocessors add their number to the words that a counter hands out.
  const Outcome outcome = run(R"(
TAKE:
  atom.global.add.u32 %r0, [p0], 1;
  setp.ge.u32 %q0, %r0, 20;
  @%q0 ret;
  mul.wide.u32 %rd0, %r0, 4;
  add.s64 %rd0, p0, %rd0;
  st.global.u32 [%rd0+4], %r0;
  bra.uni TAKE;)",
                              {.grid = {7, 1, 1}, .block = {1, 1, 1}}, 32);
  EXPECT_EQ(outcome.words[0], 27U);
  for (u32 i = 0; i < 20; ++i) EXPECT_EQ(outcome.words[i + 1], i);
}

}  // namespace
}  // namespace anydim::ptx
