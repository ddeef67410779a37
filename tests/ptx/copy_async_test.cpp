// cp.async under the three timings: values, groups, and what happens without the wait.
#include <gtest/gtest.h>

#include <numeric>

#include "tests/ptx/fixture.h"

namespace anydim::ptx {
namespace {

using testing::download;
using testing::kernel_text;
using testing::Parameters;
using testing::upload;
using u32 = std::uint32_t;

// Each of 64 threads copies 16 bytes into each of two stages and takes its neighbour's in the other
// warp.
std::string ring(const std::string& first_wait, const std::string& second_wait,
                 const std::string& barrier) {
  return R"(
  mov.u32 %r0, stages;
  shl.b32 %r1, %t, 4;
  add.u32 %r2, %r0, %r1;
  mul.wide.u32 %rd0, %t, 16;
  add.s64 %rd1, p0, %rd0;
  cp.async.cg.shared.global.L2::128B [%r2], [%rd1], 16;
  cp.async.commit_group;
  cp.async.ca.shared.global [%r2+1024], [%rd1+1024], 16, 8;
  cp.async.commit_group;
  xor.b32 %r3, %r1, 512;
  add.u32 %r3, %r0, %r3;
)" + first_wait +
         barrier + R"(
  ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r3];
)" + second_wait +
         barrier + R"(
  ld.shared.v4.u32 {%r8, %r9, %r10, %r11}, [%r3+1024];
  add.s64 %rd2, p1, %rd0;
  st.global.v4.u32 [%rd2], {%r4, %r5, %r6, %r7};
  st.global.v4.u32 [%rd2+1024], {%r8, %r9, %r10, %r11};)";
}

struct Result {
  Report report;
  std::vector<u32> words;
};

Result run(const std::string& body, Timing timing) {
  Machine machine({.timing = timing, .seed = 3});
  std::vector<u32> values(512);
  std::iota(values.begin(), values.end(), 1U);
  const DeviceAddress in = upload(machine, values), out = upload(machine, std::vector<u32>(512));
  Result result;
  result.report =
      machine.launch(parse_ptx(kernel_text(body, 2, ".shared .align 16 .b8 stages[2048];")), "test",
                     {.block = {64, 1, 1}}, Parameters().add(in).add(out).bytes());
  result.words = download<u32>(machine, out, 512);
  return result;
}

const std::string wait_one = "cp.async.wait_group 1;\n", wait_none = "cp.async.wait_group 0;\n",
                  wait_all = "cp.async.wait_all;\n", barrier = "bar.sync 0;\n";

class CopyAsync : public ::testing::TestWithParam<Timing> {};

TEST_P(CopyAsync, copies_and_fills_with_zeros) {
  for (const std::string& last : {wait_none, wait_all}) {
    const Result result = run(ring(wait_one, last, barrier), GetParam());
    ASSERT_TRUE(result.report.ok()) << result.report.text();
    for (u32 i = 0; i < 256; ++i) {
      const u32 from = (i ^ 128) + 1;
      EXPECT_EQ(result.words[i], from);
      EXPECT_EQ(result.words[256 + i], i % 4 < 2 ? from + 256 : 0);
    }
  }
}

TEST_P(CopyAsync, without_its_wait_is_a_race) {
  EXPECT_TRUE(run(ring("", wait_none, barrier), GetParam()).report.has(FindingKind::Race));
  EXPECT_TRUE(run(ring(wait_one, wait_one, barrier), GetParam()).report.has(FindingKind::Race));
  EXPECT_TRUE(run(ring(wait_one, wait_none, ""), GetParam()).report.has(FindingKind::Race));
}

INSTANTIATE_TEST_SUITE_P(Timings, CopyAsync,
                         ::testing::Values(Timing::ResultsLate, Timing::OperandsLate,
                                           Timing::Random));

TEST(CopyAsyncLate, results_come_only_with_the_wait) {
  const Result result = run(ring("", wait_none, barrier), Timing::ResultsLate);
  // Warp 1 takes what warp 0 copies and has not yet waited for: poison.
  EXPECT_EQ(result.words[128], 0xffff'ffffU);
}

TEST(CopyAsyncLate, operands_are_read_as_late_as_the_wait) {
  // The source is overwritten between issue and wait: a race, and the late reader sees the new
  // value.
  const std::string body = R"(
  mov.u32 %r0, stages;
  cp.async.ca.shared.global [%r0], [p0], 4;
  cp.async.commit_group;
  st.global.u32 [p0], 99;
  cp.async.wait_group 0;
  ld.shared.u32 %r1, [%r0];
  st.global.u32 [p1], %r1;)";
  for (const Timing timing : {Timing::ResultsLate, Timing::OperandsLate}) {
    Machine machine({.timing = timing});
    const DeviceAddress in = upload(machine, std::vector<u32>{7}), out = machine.allocate(4);
    const Report report =
        machine.launch(parse_ptx(kernel_text(body, 2, ".shared .align 16 .b8 stages[16];")), "test",
                       {}, Parameters().add(in).add(out).bytes());
    EXPECT_TRUE(report.has(FindingKind::Race)) << report.text();
    EXPECT_EQ(download<u32>(machine, out, 1)[0], timing == Timing::ResultsLate ? 7U : 99U);
  }
}

TEST(CopyAsyncBounds, source_and_destination_are_checked) {
  const auto report = [](const std::string& body) {
    Machine machine({});
    const DeviceAddress in = upload(machine, std::vector<u32>(64));
    return machine.launch(
        parse_ptx(kernel_text("mov.u32 %r0, stages;\n" + body + "cp.async.wait_all;", 1,
                              ".shared .align 16 .b8 stages[64];")),
        "test", {}, Parameters().add(in).bytes());
  };
  EXPECT_TRUE(report("cp.async.cg.shared.global [%r0], [p0+240], 16;").ok());
  EXPECT_TRUE(
      report("cp.async.cg.shared.global [%r0], [p0+256], 16;").has(FindingKind::OutOfBounds));
  EXPECT_TRUE(
      report("cp.async.cg.shared.global [%r0+64], [p0], 16;").has(FindingKind::OutOfBounds));
  EXPECT_TRUE(report("cp.async.cg.shared.global [%r0], [p0+8], 16;").has(FindingKind::Misaligned));
  EXPECT_TRUE(report("cp.async.cg.shared.global [%r0], [p0+4096], 16, 0;")
                  .ok());  // nothing of the source is read
}

}  // namespace
}  // namespace anydim::ptx
