// Every kind of finding, each beside a kernel that does the same thing right.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>

#include "tests/ptx/fixture.h"

namespace anydim::ptx {
namespace {

using testing::download;
using testing::kernel_text;
using testing::Parameters;
using testing::upload;
using u32 = std::uint32_t;

struct Case {
  std::string body;
  u32 threads = 64;
  u32 blocks = 1;
  u32 cluster = 1;
  std::string module_scope = ".shared .align 16 .b8 buffer[4096];";
  MachineOptions options{};
};

// p0 is a buffer of 1024 words holding zero.
Report run(const Case& test) {
  Machine machine(test.options);
  const DeviceAddress buffer = upload(machine, std::vector<u32>(1024));
  LaunchShape shape;
  shape.block[0] = test.threads;
  shape.grid[0] = test.blocks;
  shape.cluster[0] = test.cluster;
  return machine.launch(parse_ptx(kernel_text(test.body, 1, test.module_scope)), "test", shape,
                        Parameters().add(buffer).bytes());
}

void expect_only(const Report& report, FindingKind kind) {
  ASSERT_FALSE(report.ok()) << "expected: " << finding_name(kind);
  for (const Finding& finding : report.findings)
    EXPECT_EQ(finding_name(finding.kind), finding_name(kind)) << report.text();
}

void expect_ok(const Report& report) { EXPECT_TRUE(report.ok()) << report.text(); }

// Thread t writes word t of shared memory, then reads its neighbour's in the next warp.
std::string exchange(const std::string& between) {
  return "mov.u32 %r0, buffer; shl.b32 %r1, %t, 2; add.u32 %r2, %r0, %r1; st.shared.u32 [%r2], "
         "%t;\n" +
         between +
         "\nadd.u32 %r3, %t, 32; and.b32 %r3, %r3, 63; shl.b32 %r3, %r3, 2; add.u32 %r3, %r0, %r3; "
         "ld.shared.u32 %r4, [%r3];\n";
}

TEST(Findings, out_of_bounds) {
  expect_ok(run({.body = "ld.global.u32 %r0, [p0+4092];"}));
  const Report report =
      run({.body = "setp.eq.u32 %q0, %t, 37; @%q0 ld.global.u32 %r0, [p0+4096];"});
  expect_only(report, FindingKind::OutOfBounds);
  EXPECT_EQ(report.findings[0].warp, 1);
  EXPECT_EQ(report.findings[0].lane, 5);
  EXPECT_EQ(report.findings[0].line, 20);
  EXPECT_NE(report.text().find("4096 bytes from"), std::string::npos) << report.text();
  expect_only(run({.body = "mov.u32 %r0, buffer; st.shared.u32 [%r0+4096], %t;"}),
              FindingKind::OutOfBounds);
  expect_only(run({.body = "mov.u32 %r0, 0; ld.shared.u32 %r1, [%r0];"}), FindingKind::OutOfBounds);
  expect_only(run({.body = "ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [p0+4096];"}),
              FindingKind::OutOfBounds);
  // The generic address of shared memory is checked as shared memory is.
  expect_only(
      run({.body = "mov.u64 %rd0, buffer; cvta.shared.u64 %rd0, %rd0; ld.u32 %r0, [%rd0+4096];"}),
      FindingKind::OutOfBounds);
}

TEST(Findings, misaligned) {
  expect_only(run({.body = "ld.global.u32 %r0, [p0+2];"}), FindingKind::Misaligned);
  expect_only(run({.body = "ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [p0+8];"}),
              FindingKind::Misaligned);
  expect_ok(run({.body = "ld.global.v2.u32 {%r0, %r1}, [p0+8];"}));
}

TEST(Findings, race_in_shared_memory) {
  expect_ok(run({.body = exchange("bar.sync 0;")}));
  const Report report = run({.body = exchange("")});
  expect_only(report, FindingKind::Race);
  EXPECT_NE(report.text().find("read without order after the write of offset"), std::string::npos)
      << report.text();
  // A barrier of the warp does not order two warps.
  expect_only(run({.body = exchange("bar.warp.sync -1;")}), FindingKind::Race);
}

TEST(Findings, race_within_a_warp) {
  const std::string before =
      "mov.u32 %r0, buffer; shl.b32 %r1, %t, 2; add.u32 %r1, %r0, %r1; st.shared.u32 [%r1], %t;\n";
  const std::string after =
      "\nxor.b32 %r2, %t, 1; shl.b32 %r2, %r2, 2; add.u32 %r2, %r0, %r2; ld.shared.u32 %r3, [%r2];";
  expect_ok(run({.body = before + "bar.warp.sync -1;" + after}));
  expect_only(run({.body = before + after}), FindingKind::Race);
  // shfl.sync converges the warp, but it orders no memory.
  expect_only(run({.body = before + "shfl.sync.bfly.b32 %r9, %t, 1, 31, -1;" + after}),
              FindingKind::Race);
}

TEST(Findings, race_of_a_write_after_reads) {
  const std::string reads = exchange("bar.sync 0;");
  const std::string overwrites = "st.shared.u32 [%r2], %r4;";
  expect_ok(run({.body = reads + "bar.sync 0;" + overwrites}));
  expect_only(run({.body = reads + overwrites}), FindingKind::Race);
}

TEST(Findings, race_of_neighbouring_bytes_is_none) {
  expect_ok(run({.body = "mov.u32 %r0, buffer; add.u32 %r0, %r0, %t; st.shared.u8 [%r0], %t;"}));
  expect_only(run({.body = "mov.u32 %r0, buffer; add.u32 %r0, %r0, %t; and.b32 %r0, %r0, -2; "
                           "st.shared.u16 [%r0], %t;"}),
              FindingKind::Race);
}

TEST(Findings, race_between_blocks_in_global_memory) {
  const std::string write =
      "mov.u32 %r0, %ctaid.x; mul.wide.u32 %rd0, %t, 4; add.s64 %rd0, p0, %rd0; st.global.u32 "
      "[%rd0], %r0;";
  expect_ok(run({.body = write, .blocks = 1}));
  expect_only(run({.body = write, .blocks = 2}), FindingKind::Race);
  // Also where the blocks ran one after the other.
  expect_only(run({.body = write, .blocks = 2, .options = {.multiprocessors = 1}}),
              FindingKind::Race);
  expect_ok(run(
      {.body = "atom.global.add.u32 %r0, [p0], 1; red.global.add.u32 [p0+4], 2;", .blocks = 3}));
}

// Block 0 leaves data and raises a flag; block 1 spins on the flag and takes the data.
std::string hand_over(const std::string& raise, const std::string& poll) {
  return R"(
  mov.u32 %r0, %ctaid.x;
  setp.ne.u32 %q0, %r0, 0;
  setp.ne.u32 %q1, %t, 0;
  @%q1 ret;
  @%q0 bra TAKE;
  mov.u32 %r1, 42;
  st.global.u32 [p0], %r1;
  mov.u32 %r2, 1;
)" + raise +
         "\n  ret;\nTAKE:\n" + poll + R"(
  setp.eq.u32 %q2, %r3, 0;
  @%q2 bra TAKE;
  ld.global.u32 %r4, [p0];
  setp.ne.u32 %q3, %r4, 42;
  @%q3 trap;)";
}

TEST(Findings, order_through_flags) {
  const std::string release = "st.release.gpu.global.u32 [p0+64], %r2;",
                    acquire = "ld.acquire.gpu.global.u32 %r3, [p0+64];";
  const std::string fence_release = "fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [p0+64], %r2;";
  const std::string fence_acquire = "ld.volatile.global.u32 %r3, [p0+64]; membar.gl;";
  expect_ok(run({.body = hand_over(release, acquire), .blocks = 2}));
  expect_ok(run({.body = hand_over(fence_release, fence_acquire), .blocks = 2}));
  expect_ok(run({.body = hand_over("membar.gl; atom.global.exch.b32 %r9, [p0+64], %r2;",
                                   "atom.global.acquire.gpu.or.b32 %r3, [p0+64], 0;"),
                 .blocks = 2}));
  expect_only(
      run({.body = hand_over("st.relaxed.gpu.global.u32 [p0+64], %r2;", acquire), .blocks = 2}),
      FindingKind::Race);
  expect_only(
      run({.body = hand_over(release, "ld.relaxed.gpu.global.u32 %r3, [p0+64];"), .blocks = 2}),
      FindingKind::Race);
}

TEST(Findings, uninitialised) {
  const std::string read = "mov.u32 %r0, buffer; ld.shared.u32 %r1, [%r0];";
  MachineOptions options;
  options.check_uninitialised = true;
  expect_only(run({.body = read, .options = options}), FindingKind::Uninitialised);
  expect_ok(run({.body = "mov.u32 %r0, buffer; shl.b32 %r1, %t, 2; add.u32 %r0, %r0, %r1; "
                         "st.shared.u32 [%r0], %t; ld.shared.u32 %r1, [%r0];",
                 .options = options}));
  expect_ok(run({.body = read}));
  Machine machine(options);
  const DeviceAddress half = machine.allocate(64);
  machine.write(half, std::vector<std::byte>(32));
  const Module module =
      parse_ptx(kernel_text("ld.global.u32 %r0, [p0+28]; ld.global.u32 %r0, [p0+32];", 1));
  const Report report = machine.launch(module, "test", {}, Parameters().add(half).bytes());
  expect_only(report, FindingKind::Uninitialised);
  EXPECT_EQ(report.findings.size(), 1U);
}

TEST(Findings, divergence) {
  const std::string body =
      "setp.lt.u32 %q0, %t, 7; @%q0 bra IN; bra.uni OUT; IN: bar.sync 0; OUT: mov.u32 %r0, 0;";
  const Report report = run({.body = body});
  expect_only(report, FindingKind::Divergence);
  EXPECT_NE(report.text().find("lanes 0x0000007f are here without the warp's others, 0xffffff80"),
            std::string::npos)
      << report.text();
  expect_only(run({.body = "setp.lt.u32 %q0, %t, 7; @%q0 bar.sync 0;"}), FindingKind::Divergence);
}

TEST(Findings, deadlock_tells_where_each_warp_waits) {
  MachineOptions options;
  options.idle_limit = 20000;
  const Report missing = run({.body = "setp.lt.u32 %q0, %t, 32; @%q0 bra FIRST; bar.sync 1, 64; "
                                      "bra.uni END; FIRST: bar.sync 2, 64; END: mov.u32 %r0, 0;",
                              .options = options});
  expect_only(missing, FindingKind::Deadlock);
  EXPECT_NE(missing.text().find("warp 0 lanes 0xffffffff at line 20 (bar.sync): waits for barrier "
                                "2, at which 32 of 64 threads are"),
            std::string::npos)
      << missing.text();
  EXPECT_NE(
      missing.text().find("warp 1 lanes 0xffffffff at line 20 (bar.sync): waits for barrier 1"),
      std::string::npos)
      << missing.text();
  const Report spins = run(
      {.body = "SPIN: ld.volatile.global.u32 %r0, [p0]; setp.eq.u32 %q0, %r0, 0; @%q0 bra SPIN;",
       .options = options});
  expect_only(spins, FindingKind::Deadlock);
  const Report partial = run({.body = "setp.lt.u32 %q0, %t, 3; @%q0 bar.warp.sync 15;",
                              .threads = 32,
                              .options = options});
  expect_only(partial, FindingKind::Deadlock);
  EXPECT_NE(partial.text().find("lanes 0x00000008 to join"), std::string::npos) << partial.text();
}

TEST(Findings, limit_and_trap) {
  MachineOptions options;
  options.instruction_limit = 1000;
  expect_only(run({.body = "FOREVER: st.global.u32 [p0], 1; bra FOREVER;",
                   .threads = 1,
                   .options = options}),
              FindingKind::Limit);
  expect_only(run({.body = "setp.eq.u32 %q0, %t, 40; @%q0 trap;"}), FindingKind::Trap);
}

TEST(Findings, invalid_launch) {
  const auto launch = [](const LaunchShape& shape, const std::string& module_scope = {}) {
    Machine machine({});
    return machine.launch(parse_ptx(kernel_text("", 0, module_scope)), "test", shape, {});
  };
  expect_ok(launch({}));
  expect_only(launch({.grid = {1, 1, 1}, .block = {1025, 1, 1}}), FindingKind::InvalidLaunch);
  expect_only(launch({.grid = {3, 1, 1}, .block = {32, 1, 1}, .cluster = {2, 1, 1}}),
              FindingKind::InvalidLaunch);
  expect_only(launch({.grid = {1, 70000, 1}, .block = {32, 1, 1}}), FindingKind::InvalidLaunch);
  expect_only(
      launch(
          {.grid = {1, 1, 1}, .block = {32, 1, 1}, .cluster = {1, 1, 1}, .shared_bytes = 232449}),
      FindingKind::InvalidLaunch);
}

TEST(Findings, invalid_use) {
  expect_only(run({.body = "bar.sync 16;"}), FindingKind::InvalidUse);
  expect_only(run({.body = "bar.sync 1, 40;"}), FindingKind::InvalidUse);
  expect_only(run({.body = "setp.lt.u32 %q0, %t, 32; @%q0 bra FIRST; bar.sync 1, 64; bra.uni END; "
                           "FIRST: bar.sync 1, 96; END: mov.u32 %r0, 0;",
                   .threads = 96}),
              FindingKind::InvalidUse);
  expect_only(run({.body = "bar.arrive 1, 64;", .threads = 32}), FindingKind::InvalidUse);
  expect_only(run({.body = "setp.lt.u32 %q0, %t, 3; @%q0 shfl.sync.idx.b32 %r0, %t, 5, 31, 7;",
                   .threads = 32}),
              FindingKind::InvalidUse);
}

TEST(Findings, too_early_for_a_dependent_launch) {
  MachineOptions options;
  options.dependent = true;
  expect_ok(run(
      {.body = "griddepcontrol.launch_dependents; griddepcontrol.wait; ld.global.u32 %r0, [p0];",
       .options = options}));
  expect_only(run({.body = "ld.global.u32 %r0, [p0]; griddepcontrol.wait;", .options = options}),
              FindingKind::TooEarly);
  // Each thread has to wait for itself.
  expect_only(run({.body = "setp.eq.u32 %q0, %t, 0; @%q0 griddepcontrol.wait; bar.sync 0; "
                           "ld.global.u32 %r0, [p0];",
                   .options = options}),
              FindingKind::TooEarly);
  expect_ok(run({.body = "ld.global.u32 %r0, [p0];"}));
  Machine machine(options);
  const DeviceAddress weights = upload(machine, std::vector<u32>(4));
  machine.mark_steady(weights);
  expect_ok(machine.launch(parse_ptx(kernel_text("ld.global.u32 %r0, [p0];", 1)), "test", {},
                           Parameters().add(weights).bytes()));
}

// What follows a wait holds only if the wait asks again: a try_wait may give up at any moment.
std::string waiting(std::string_view behind_the_try) {
  return fmt::format(R"(
  setp.eq.u32 %q0, %t, 0;
  @%q0 mbarrier.init.shared.b64 [barrier], 1;
  bar.sync 0;
  setp.lt.u32 %q1, %t, 32;
  @%q1 bra WRITE;
TRY:
  mbarrier.try_wait.parity.shared::cta.b64 %q2, [barrier], 0;
  {}
  mov.u32 %r0, buffer;
  ld.shared.u32 %r1, [%r0];
  bra.uni END;
WRITE:
  mov.u32 %r0, buffer;
  setp.eq.u32 %q3, %t, 0;
  @%q3 st.shared.u32 [%r0], %t;
  @%q3 mbarrier.arrive.shared::cta.b64 _, [barrier];
END:
  mov.u32 %r0, 0;)",
                     behind_the_try);
}

TEST(Findings, a_try_wait_that_gave_up_is_not_believed) {
  const std::string shared = ".shared .align 8 .b64 barrier; .shared .align 4 .b8 buffer[64];";
  const auto found = [&](const std::string& body, Timing timing) {
    bool any = false;
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
      MachineOptions options;
      options.timing = timing;
      options.seed = seed;
      any |= !run({.body = body, .module_scope = shared, .options = options}).ok();
    }
    return any;
  };
  const std::string loop = waiting("@!%q2 bra TRY;"), once = waiting("");
  for (const Timing timing : {Timing::ResultsLate, Timing::OperandsLate, Timing::Random})
    EXPECT_FALSE(found(loop, timing));
  EXPECT_FALSE(found(once, Timing::ResultsLate)) << "the try waits for all that it may";
  EXPECT_TRUE(found(once, Timing::OperandsLate));
  EXPECT_TRUE(found(once, Timing::Random));
}

// Who has waited for a phase may end the barrier: its arrivals are over. Who has not may not.
TEST(Findings, an_arrival_comes_before_those_that_wait_for_it) {
  const auto run_ended = [](std::string_view wait) {
    return run({.body = fmt::format(R"(
  setp.eq.u32 %q0, %t, 0;
  @%q0 mbarrier.init.shared.b64 [barrier], 32;
  bar.sync 0;
  setp.lt.u32 %q1, %t, 32;
  @%q1 bra WAIT;
  mbarrier.arrive.shared::cta.b64 _, [barrier];
  bra.uni END;
WAIT:
  mov.u32 %r0, 0;
  {}
  bar.warp.sync -1;
  @%q0 mbarrier.inval.shared.b64 [barrier];
END:
  mov.u32 %r0, 0;)",
                                    wait),
                .module_scope = ".shared .align 8 .b64 barrier;"});
  };
  expect_ok(
      run_ended("TRY: mbarrier.try_wait.parity.shared::cta.b64 %q2, [barrier], 0; @!%q2 bra TRY;"));
  EXPECT_FALSE(run_ended("").ok());
}

// A wait that nothing ends, bounded by tries and by time.
TEST(Findings, a_bounded_wait_ends_after_time_not_after_tries) {
  const auto run_bounded = [&](std::string_view counts, std::string_view asks) {
    return run({.body = fmt::format(R"(
  setp.eq.u32 %q0, %t, 0;
  @%q0 mbarrier.init.shared.b64 [barrier], 1;
  bar.sync 0;
  mov.u64 %rd0, %globaltimer;
  mov.u32 %r0, 0;
TRY:
  mbarrier.try_wait.parity.shared::cta.b64 %q2, [barrier], 0;
  {}
  {}
  @%q1 bra TRY;
  trap;)",
                                    counts, asks),
                .threads = 32,
                .module_scope = ".shared .align 8 .b64 barrier;"});
  };
  expect_only(run_bounded("add.u32 %r0, %r0, 1;", "setp.lt.u32 %q1, %r0, 262144;"),
              FindingKind::Deadlock);
  expect_only(run_bounded("mov.u64 %rd1, %globaltimer; sub.u64 %rd1, %rd1, %rd0;",
                          "setp.lt.u64 %q1, %rd1, 2000000000;"),
              FindingKind::Trap);
}

// Lanes that a branch parted come to the same place, but nothing makes them come together.
TEST(Findings, aligned_instructions_need_lanes_that_are_together) {
  const auto parted = [&](std::string_view before) {
    return run({.body = fmt::format(R"(
  setp.ne.u32 %q0, %t, 0;
  @%q0 bra MEET;
  st.global.u32 [p0], %t;
MEET:
  {}
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;)",
                                    before),
                .threads = 32});
  };
  expect_only(parted(""), FindingKind::Divergence);
  expect_ok(parted("bar.warp.sync 0xffffffff;"));
  expect_ok(parted("bar.sync 0;"));
  expect_ok(parted("shfl.sync.idx.b32 %r0, %t, 0, 31, 0xffffffff;"));
  expect_only(parted("setp.lt.u32 %q1, %t, 16; @%q1 bar.warp.sync 0xffff;"),
              FindingKind::Divergence);
  // A guard parts nobody, and lanes that have ended are missed by nobody.
  expect_ok(run({.body = "setp.eq.u32 %q0, %t, 0; @%q0 st.global.u32 [p0], %t; "
                         "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
                 .threads = 32}));
  expect_ok(run({.body = "setp.lt.u32 %q0, %t, 3; @%q0 bra ON; ret; ON: "
                         "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
                 .threads = 32}));
}

TEST(Findings, same_line_is_reported_once) {
  const Report report =
      run({.body = "mov.u32 %r1, 0; AGAIN: mov.u32 %r0, buffer; st.shared.u32 [%r0], %t; add.u32 "
                   "%r1, %r1, 1; setp.lt.u32 %q0, %r1, 9; @%q0 bra AGAIN;"});
  EXPECT_EQ(report.findings.size(), 1U) << report.text();
}

TEST(Findings, unchecked_launches_run_without_shadow) {
  MachineOptions options;
  options.check_races = false;
  expect_ok(run({.body = exchange(""), .options = options}));
}

}  // namespace
}  // namespace anydim::ptx
