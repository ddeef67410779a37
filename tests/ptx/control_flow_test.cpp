// Branches that part a warp, where its lanes meet again, calls, loops, exits.
#include <gtest/gtest.h>

#include <numeric>

#include "ir/error.h"
#include "tests/ptx/fixture.h"

namespace anydim::ptx {
namespace {

using testing::download;
using testing::kernel_text;
using testing::Parameters;
using u32 = std::uint32_t;

// Runs one block; each thread leaves a word at p0[tid].
std::vector<u32> run(const std::string& body, u32 threads = 32,
                     const std::string& module_scope = {}, MachineOptions options = {}) {
  Machine machine(options);
  const DeviceAddress out = machine.allocate(threads * 4);
  machine.write(out, std::vector<std::byte>(threads * 4));
  const std::string text =
      kernel_text("mul.wide.u32 %rd0, %t, 4; add.s64 %rd0, p0, %rd0; mov.u32 %r0, 0;\n" + body, 1,
                  module_scope);
  LaunchShape shape;
  shape.block[0] = threads;
  const Report report =
      machine.launch(parse_ptx(text), "test", shape, Parameters().add(out).bytes());
  EXPECT_TRUE(report.ok()) << report.text();
  return download<u32>(machine, out, threads);
}

TEST(ControlFlow, lanes_meet_behind_a_branch) {
  // shfl takes its value from the other half, which is only there if both sides have met.
  const std::vector<u32> got = run(R"(
  setp.lt.u32 %q0, %t, 16;
  @%q0 bra LOW;
  mov.u32 %r0, 7;
  bra.uni MEET;
LOW:
  mov.u32 %r0, 5;
MEET:
  activemask.b32 %r1;
  shfl.sync.bfly.b32 %r2, %r0, 16, 31, -1;
  mad.lo.u32 %r3, %r0, 10, %r2;
  setp.ne.u32 %q1, %r1, -1;
  @%q1 mov.u32 %r3, 0;
  st.global.u32 [%rd0], %r3;)");
  for (u32 lane = 0; lane < 32; ++lane) EXPECT_EQ(got[lane], lane < 16 ? 57 : 75);
}

TEST(ControlFlow, nested_branches_and_loops_of_different_lengths) {
  const std::vector<u32> got = run(R"(
LOOP:
  setp.gt.u32 %q0, %r0, 20;
  and.b32 %r1, %t, 1;
  setp.eq.u32 %q1, %r1, 1;
  @%q1 bra ODD;
  add.u32 %r0, %r0, 2;
  @%q0 bra NEXT;
  bra.uni NEXT;
ODD:
  add.u32 %r0, %r0, 1;
NEXT:
  setp.lt.u32 %q2, %r0, %t;
  @%q2 bra LOOP;
  vote.sync.ballot.b32 %r4, %q1, -1;
  activemask.b32 %r5;
  xor.b32 %r4, %r4, 0xaaaaaaaa;
  not.b32 %r5, %r5;
  or.b32 %r4, %r4, %r5;
  setp.ne.u32 %q3, %r4, 0;
  @%q3 mov.u32 %r0, 1000;
  st.global.u32 [%rd0], %r0;)");
  for (u32 lane = 0; lane < 32; ++lane) EXPECT_EQ(got[lane], lane == 0 ? 2 : lane) << lane;
}

TEST(ControlFlow, exited_lanes_are_not_waited_for) {
  const std::vector<u32> got = run(R"(
  setp.ge.u32 %q0, %t, 40;
  @%q0 ret;
  bar.sync 0;
  mov.u32 %r0, 3;
  st.global.u32 [%rd0], %r0;)",
                                   64);
  for (u32 thread = 0; thread < 64; ++thread) EXPECT_EQ(got[thread], thread < 40 ? 3 : 0);
}

TEST(ControlFlow, functions_take_and_return_parameters) {
  const std::string function = R"(
.func (.param .b32 r) twice_or_less(.param .b32 a, .param .align 8 .b8 s[16])
{
  .reg .b32 %x<4>;
  .reg .b64 %y;
  .reg .pred %p;
  ld.param.u32 %x0, [a];
  ld.param.u64 %y, [s+8];
  cvt.u32.u64 %x1, %y;
  setp.gt.u32 %p, %x0, 20;
  @%p bra EARLY;
  mad.lo.u32 %x2, %x0, 2, %x1;
  st.param.b32 [r+0], %x2;
  ret;
EARLY:
  st.param.b32 [r+0], %x1;
  ret;
})";
  const std::vector<u32> got = run(R"(
  {
  .param .b32 q0;
  st.param.b32 [q0+0], %t;
  .param .align 8 .b8 q1[16];
  mov.u64 %rd1, 100;
  st.param.b64 [q1+8], %rd1;
  .param .b32 back;
  call.uni (back), twice_or_less, (q0, q1);
  ld.param.b32 %r0, [back+0];
  }
  activemask.b32 %r1;
  setp.ne.u32 %q1, %r1, -1;
  @%q1 mov.u32 %r0, 0;
  st.global.u32 [%rd0], %r0;)",
                                   32, function);
  for (u32 lane = 0; lane < 32; ++lane) EXPECT_EQ(got[lane], lane > 20 ? 100 : 2 * lane + 100);
}

TEST(ControlFlow, indexed_branch) {
  const std::vector<u32> got = run(R"(
  and.b32 %r1, %t, 3;
  TABLE: .branchtargets A, B, A, C;
  brx.idx %r1, TABLE;
A:
  mov.u32 %r0, 1;
  bra.uni MEET;
B:
  mov.u32 %r0, 2;
  bra.uni MEET;
C:
  mov.u32 %r0, 3;
MEET:
  activemask.b32 %r2;
  setp.ne.u32 %q1, %r2, -1;
  @%q1 mov.u32 %r0, 0;
  st.global.u32 [%rd0], %r0;)");
  for (u32 lane = 0; lane < 32; ++lane)
    EXPECT_EQ(got[lane], (std::vector<u32>{1, 2, 1, 3}[lane % 4]));
}

TEST(ControlFlow, registers_and_labels_of_inner_blocks_are_their_own) {
  const std::vector<u32> got = run(R"(
  {
  .reg .b32 x;
  .reg .pred P;
  mov.u32 x, %t;
AGAIN:
  setp.lt.u32 P, x, 50;
  @P add.u32 x, x, 10;
  @P bra AGAIN;
  mov.u32 %r1, x;
  }
  {
  .reg .b64 x;
  .reg .pred P;
AGAIN:
  mov.u64 x, 1;
  setp.ne.u64 P, x, 1;
  @P bra AGAIN;
  cvt.u32.u64 %r2, x;
  }
  add.u32 %r0, %r1, %r2;
  st.global.u32 [%rd0], %r0;)");
  for (u32 lane = 0; lane < 32; ++lane) {
    u32 x = lane;
    while (x < 50) x += 10;
    EXPECT_EQ(got[lane], x + 1);
  }
}

TEST(ControlFlow, lanes_of_one_warp_may_wait_for_each_other) {
  // Lane 0 waits in a loop for what lane 1 stores behind it: the lanes that have left the loop must
  // not wait for lane 0.
  const std::string shared = ".shared .align 4 .b32 flag;";
  MachineOptions options;
  options.idle_limit = 20000;
  const std::vector<u32> got = run(R"(
  setp.ne.u32 %q0, %t, 0;
  @%q0 bra BEHIND;
WAIT:
  ld.volatile.shared.u32 %r1, [flag];
  setp.ne.u32 %q1, %r1, 77;
  @%q1 bra WAIT;
BEHIND:
  setp.eq.u32 %q2, %t, 1;
  mov.u32 %r2, 77;
  @%q2 st.volatile.shared.u32 [flag], %r2;
  st.global.u32 [%rd0], %t;)",
                                   32, shared, options);
  for (u32 lane = 0; lane < 32; ++lane) EXPECT_EQ(got[lane], lane);
}

TEST(ControlFlow, warp_operations) {
  const std::vector<u32> got = run(R"(
  shfl.sync.up.b32 %r1|%q0, %t, 3, 0, -1;
  @!%q0 mov.u32 %r1, 100;
  shfl.sync.idx.b32 %r2, %t, 2, 0x181f, -1;
  shfl.sync.down.b32 %r3, %t, 1, 31, -1;
  and.b32 %r4, %t, 3;
  match.any.sync.b32 %r5, %r4, -1;
  redux.sync.add.u32 %r6, %t, -1;
  redux.sync.max.s32 %r7, %t, -1;
  elect.sync %r8|%q1, -1;
  selp.u32 %r9, 1, 0, %q1;
  setp.lt.u32 %q2, %t, 5;
  vote.sync.any.pred %q3, %q2, -1;
  vote.sync.all.pred %q4, %q2, -1;
  selp.u32 %r10, 1, 0, %q3;
  @%q4 mov.u32 %r10, 2;
  popc.b32 %r5, %r5;
  mad.lo.u32 %r0, %r1, 32, %r2;
  mad.lo.u32 %r0, %r0, 32, %r3;
  add.u32 %r0, %r0, %r5;
  add.u32 %r0, %r0, %r6;
  add.u32 %r0, %r0, %r7;
  add.u32 %r0, %r0, %r9;
  add.u32 %r0, %r0, %r10;
  st.global.u32 [%rd0], %r0;)");
  for (u32 lane = 0; lane < 32; ++lane) {
    const u32 up = lane >= 3 ? lane - 3 : 100, index = lane / 8 * 8 + 2,
              down = lane < 31 ? lane + 1 : lane;
    EXPECT_EQ(got[lane], (up * 32 + index) * 32 + down + 8 + 496 + 31 + (lane == 31 ? 1 : 0) + 1)
        << lane;
  }
}

TEST(ControlFlow, unknown_instructions_are_refused_with_their_line) {
  const auto message = [](const std::string& body) -> std::string {
    try {
      parse_ptx(kernel_text(body, 0));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Unsupported);
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(message("frobnicate.u32 %r0, %r1;"),
            "PTX line 17: the instruction frobnicate.u32 is not known here.");
  EXPECT_EQ(message("max.cc.u32 %r0, %r1, %r2;"),
            "PTX line 17: the instruction max.cc.u32 is not known here: the modifier .cc is not "
            "understood.");
}

TEST(ControlFlow, malformed_text_is_refused_with_its_line) {
  const auto message = [](const std::string& text) -> std::string {
    try {
      parse_ptx(text);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Malformed);
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(message(kernel_text("add.u32 %r0, %r1, %zz;", 0)),
            "PTX line 17: the name %zz is not declared.");
  EXPECT_EQ(message(kernel_text("add.u32 %r0, %r1, %rd2;", 0)),
            "PTX line 17: %rd2 has not the size of the instruction's type.");
  EXPECT_EQ(message(kernel_text("bra NOWHERE;", 0)),
            "PTX line 17: the label NOWHERE is not declared.");
  EXPECT_EQ(message(".version 9.0\n.target sm_90a\n.visible .entry x()\n{\n  add.u32"),
            "PTX line 5: expected a name, found the end.");
}

}  // namespace
}  // namespace anydim::ptx
