// Programs as text: what is printed, and what a text is refused for.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "ir/error.h"
#include "ir/text/parse.h"
#include "ir/text/parse_program.h"
#include "tests/passes/lowered.h"
#include "tests/support/changed_text.h"

namespace anydim::tests {
namespace {

using namespace ir;

TEST(ProgramText, Listing) {
  const Program program = lowered(R"(
fn @main(%x: Tensor[(n, 3), f32], %count: Tensor[(1), i64]) {
  %w = constant(f32 (3) [1, 2, 3])
  %z = call @f(%x)
  %r = add(%z, %w) from "/Add"
  %start = constant(i64 (1) [0])
  %axes = constant(i64 (1) [0])
  %s = dyn.strided_slice(%r, %start, %count, %axes) from "/Slice"
  return %s
}
fn @f(%x: Tensor[(a, b), f32]) {
  %r = exp(%x)
  return %r
})");
  EXPECT_EQ(to_string(program), R"listing(program
ceiling 64*ceil_div(3*n, 16)
unbounded because "call (%z)"
constant 0: "w" f32 (3) [1, 2, 3]
kernel 0: keys (3*select(s1 < 0, s0 + min(0, max(s1, -s0)), min(s0, max(0, s1))))
  [0, 128] multiple 3: small
  [129, 6442450941] multiple 3: large
  [0, 6442450941] multiple 3: small
region @dyn_strided_slice_0(%v0: Tensor[(s0, 3), f32]) -> Tensor[(select(s1 < 0, s0 + min(0, max(s1, -s0)), min(s0, max(0, s1))), 3), f32]
  where s0 in [0, 2147483647], s1 in [-9223372036854775808, 9223372036854775807] {
  %v1: Tensor[(1), i64] = shape(0) from "/Slice"
  %v2: Tensor[(1), i64] = shape(s1) from "/Slice"
  %v3: Tensor[(1), i64] = shape(0) from "/Slice"
  %v4: Tensor[(select(s1 < 0, s0 + min(0, max(s1, -s0)), min(s0, max(0, s1))), 3), f32] = dyn.strided_slice(%v0, %v1, %v2, %v3) from "/Slice"
  return %v4 as "out0"
}
kernel 1: keys (3*s0)
  [0, 128] multiple 3: small
  [129, 6442450941] multiple 3: large
  [0, 6442450941] multiple 3: small
region @add_1(%v0: Tensor[(s0, 3), f32], weight %v1: Tensor[(3), f32]) -> Tensor[(s0, 3), f32]
  where s0 in [0, 2147483647] {
  %v2: Tensor[(s0, 3), f32] = add(%v0, %v1) from "/Add"
  return %v2 as "out0"
}
kernel 2: keys (s0*s1)
  [0, 127]: small
  [128, 4611686014132420609]: large
  [0, 4611686014132420609]: small
region @exp_2(%v0: Tensor[(s0, s1), f32]) -> Tensor[(s0, s1), f32]
  where s0 in [0, 2147483647], s1 in [0, 2147483647] {
  %v1: Tensor[(s0, s1), f32] = exp(%v0)
  return %v1 as "out0"
}
stage 0: arena s8 from s2
  tensors (%count)
  leaf value(%count, 0) is s1
  leaf n is s0
  s2 = 3
  s3 = 3*n
  s4 = 3*select(value(%count, 0) < 0, n + min(0, max(value(%count, 0), -n)), min(n, max(0, value(%count, 0))))
  s5 = select(value(%count, 0) < 0, n + min(0, max(value(%count, 0), -n)), min(n, max(0, value(%count, 0))))
  s6 = 0
  s7 = 12*n
  s8 = 64*ceil_div(3*n, 16)
  s9 = 12*select(value(%count, 0) < 0, n + min(0, max(value(%count, 0), -n)), min(n, max(0, value(%count, 0))))
stage 1: arena - from s2
  leaf a is s0
  leaf b is s1
  s2 = 4*a*b
  s3 = a*b
function 0: @main, 10 slots, 2 leaves
  where n in [0, 2147483647]
  input b0 "x": f32 (n, 3)
  input b1 "count": i64 (1)
  symbol s0 = n
  buffer b0: input 0 from "x"
  buffer b1: input 1 from "count"
  buffer b2: pool from "z"
  buffer b3: constant 0 from "w"
  buffer b4: arena of stage 0 at s6, s7 bytes from "r"
  buffer b5: output 0 of stage 0, s9 bytes from "s"
  0: s1 = fetch i64 b1 [0]
  1: stage 0
  2: call function 1 (b0) to (b2) with (s0 = s0, s1 = s2) from "call (%z)"
  3: launch kernel 1 (b2, b3, b4) extents (s0) keys (s3) from "/Add"
  4: launch kernel 0 (b4, b5) extents (s0, s1) keys (s4) from "/Slice"
  output b5 "s": f32 (s5, s2)
function 1: @f, 4 slots, 2 leaves
  where a in [0, 2147483647], b in [0, 2147483647]
  input b0 "x": f32 (a, b)
  symbol s0 = a
  symbol s1 = b
  buffer b0: input 0 from "x"
  buffer b1: pool s2 bytes from "r"
  0: stage 1
  1: allocate b1
  2: launch kernel 2 (b0, b1) extents (s0, s1) keys (s3)
  output b1 "r": f32 (s0, s1)
)listing");
}

// Each kind of instruction says what it reads and writes, and what of it is left out.
TEST(ProgramText, ListingOfEveryInstruction) {
  Program program;
  Program::Kernel& kernel = program.kernels.emplace_back();
  kernel.region = parse(R"(fn @main(%x: Tensor[(n), f32]) { return %x }
region @exp_0(%v0: Tensor[(s0), f32]) -> Tensor[(s0), f32] where s0 in [0, 9] {
  %v1: Tensor[(s0), f32] = exp(%v0)
  return %v1
})")
                      .regions.front();
  kernel.region.keys = {Dim::symbol("s0")};
  kernel.table.entries.push_back({.bucket = {{{0, 4, 1}}},
                                  .schedule = {"small", {{"rows", 2}}},
                                  .kernel = Bucket{{{0, 9, 1}}},
                                  .origin = EntryOrigin::TunedMeasured});
  kernel.checks.push_back({KernelCheck::Kind::Divisor, "div", "Div_1", {}});
  program.policies = {{"exp_0", Policy::Exact}, {"", Policy::Library}};
  program.unbounded = "the \"loop\"";
  program.constants.push_back({.tensor = Tensor(DType::F32, {65}),
                               .name = "w",
                               .layout = PackedLayout{"panels16 f32", {16, 4}},
                               .region = 0,
                               .parameter = 0});
  program.stages.emplace_back();
  Code& code = program.entry();
  code.name = "f";
  code.slots = 4;
  code.buffers.assign(3, {.place = Code::Buffer::Place::Pool, .name = "v 1"});
  const Code::Argument given{.buffer = 1, .dtype = DType::F32, .dims = {0, 1}};
  const Code::Opened opened{.result = 0, .axis = 1, .slot = 3};
  code.instructions = {
      Code::RunStage{.stage = 0},
      Code::Launch{.kernel = 0, .buffers = {0, 2}, .extents = {0}, .keys = {1}, .source = "Exp"},
      Code::Fetch{.buffer = 1, .dtype = DType::I64, .element = 3, .slot = 2},
      Code::Assert{.slot = 1,
                   .shown = {{.name = "n", .buffer = 0, .dtype = DType::I64, .dims = {}}},
                   .source = "Check",
                   .message = "too \"long\""},
      Code::Jump{.target = 7},
      Code::JumpIfZero{.slot = 1, .target = 8},
      Code::Iterate{.counter = 2, .trips = -1, .condition = 1, .target = 9},
      Code::Next{.counter = 2, .target = 6},
      Code::SetSlots{.copies = {{0, 1}, {1, 0}}},
      Code::MoveBuffers{.copies = {{2, 1}}},
      Code::Enter{},
      Code::Leave{.dropped = {2}},
      Code::Allocate{.buffer = 2, .element_of = 1, .counter = 0, .expected = 2},
      Code::StoreScalar{.buffer = 2, .dtype = DType::I64, .slot = 1},
      Code::Append{.to = 2,
                   .from = 1,
                   .counter = 0,
                   .expected = -1,
                   .bytes = 3,
                   .dims = {1},
                   .first = {2},
                   .source = "Scan"},
      Code::Call{.function = 0,
                 .arguments = {0},
                 .results = {1},
                 .leaves = {{0, 2}},
                 .opened = {opened},
                 .source = "Call"},
      Code::MakeFunction{.to = 2, .function = 0, .arguments = {given}},
      Code::CallValue{
          .value = 2, .arguments = {given}, .results = {1}, .opened = {opened}, .source = {}},
      Code::MakeList{.to = 2, .elements = {given}},
      Code::ListInsert{
          .to = 2, .list = 1, .element = given, .position = -1, .last_use = true, .source = {}},
      Code::ListErase{.to = 2, .list = 1, .position = 0, .source = {}},
      Code::ListAt{
          .to = 2, .list = 1, .position = -1, .element = 4, .opened = {opened}, .source = {}},
      Code::ListLength{.list = 1, .slot = 0},
      Code::ListConcat{.to = 2,
                       .list = 1,
                       .dtype = DType::F16,
                       .axis = -1,
                       .new_axis = true,
                       .opened = {opened},
                       .source = {}}};
  ASSERT_EQ(code.instructions.size(), std::variant_size_v<Code::Instruction>);
  EXPECT_EQ(to_string(program), R"listing(program
policy @exp_0 exact
policy library
ceiling 0
unbounded because "the \"loop\""
constant 0: "w" elsewhere f32 (65) packed as "panels16 f32" (16, 4) for parameter 0 of kernel 0
kernel 0: keys (s0)
  check 0: divisor of 0, "div" from "Div_1"
  [0, 4]: small rows=2, code for [0, 9], tuned, measured
region @exp_0(%v0: Tensor[(s0), f32]) -> Tensor[(s0), f32]
  where s0 in [0, 9] {
  %v1: Tensor[(s0), f32] = exp(%v0)
  return %v1
}
stage 0: arena - from s0
function 0: @f, 4 slots, 0 leaves
  buffer b0: pool from "v 1"
  buffer b1: pool from "v 1"
  buffer b2: pool from "v 1"
  0: stage 0
  1: launch kernel 0 (b0, b2) extents (s0) keys (s1) from "Exp"
  2: s2 = fetch i64 b1 [3]
  3: assert s1 "too \"long\"" ("n" b0: i64 ()) from "Check"
  4: jump 7
  5: jump 8 if s1 is 0
  6: iterate s2 trips - while s1 else 9
  7: next s2 to 6
  8: set (s0 = s1, s1 = s0)
  9: move (b2 = b1)
  10: enter
  11: leave (b2)
  12: allocate b2 in b1 at s0 of s2
  13: b2 = scalar i64 s1
  14: append b1 to b2 at s0 of - bytes s3 dims (s1) first (s2) from "Scan"
  15: call function 0 (b0) to (b1) with (s0 = s2) opens (s3 = result 0 axis 1) from "Call"
  16: b2 = function 0 (b1: f32 (s0, s1))
  17: call b2 (b1: f32 (s0, s1)) to (b1) opens (s3 = result 0 axis 1)
  18: b2 = list (b1: f32 (s0, s1))
  19: b2 = insert b1: f32 (s0, s1) into b1 taken over at -
  20: b2 = erase from b1 at s0
  21: b2 = element of b1 at 4 opens (s3 = result 0 axis 1)
  22: s0 = length of b1
  23: b2 = stack f16 of b1 along -1 opens (s3 = result 0 axis 1)
)listing");
  EXPECT_EQ(to_string(parse_program(to_string(program))), to_string(program));
}

std::string reread(const std::string& text) { return to_string(parse_program(text)); }

// What a text of a program is refused for, and where.
TEST(ProgramText, MalformedListings) {
  const std::string text = R"(program
ceiling 0
constant 0: "w" f32 (2) [1, 2]
stage 0: arena - from s1
  leaf n is s0
  s1 = 4*n
function 0: @main, 2 slots, 1 leaves
  where n in [0, 9]
  input b0 "x": f32 (n)
  symbol s0 = n
  buffer b0: input 0
  buffer b1: pool s1 bytes from "y"
  0: stage 0
  1: allocate b1
  output b1 "y": f32 (s0) drops (s1)
)";
  EXPECT_EQ(reread(text), text);
  expect_refused(
      text,
      {
          {"program", "programme", "text:1:1: expected 'program', found 'programme'"},
          {"constant 0", "constant 1", "text:3:10: expected the constant's number, 0, found '1'"},
          {"f32 (2) [1, 2]", "f32 (2) [1]",
           "text:3:17: a tensor f32 (2) has 2 elements, this one lists 1"},
          {"s1 = 4*n", "s2 = 4*n", "text:6:3: expected the next slot, s1, found 's2'"},
          {"leaf n", "leaf n + 1", "text:5:8: expected a symbol or an element of a tensor"},
          {"buffer b1: pool", "buffer b2: pool",
           "text:12:10: expected the next buffer, b1, found 'b2'"},
          {"1: allocate", "1: free", "text:14:6: expected an instruction, found 'free'"},
          {"allocate b1", "allocate c1",
           "text:14:15: expected a buffer, as b3, or '-', found 'c1'"},
          {"allocate b1", "allocate b2", "text:14:6: expected one of 2 buffers, got 2"},
          {"0: stage 0\n", "0: stage 1\n", "text:13:6: expected one of 1 stages, got 1"},
          {"1: allocate b1", "1: jump 3", "text:14:6: expected one of 3 instructions, got 3"},
          {"2 slots", "1 slots", "text:7:10: expected one of 1 slots, got 1"},
          {"drops (s1)", "drops (s1, s0)",
           "text:15:27: expected one number for each dim that an output may drop"},
          {"drops (s1)", "drops (s2)", "text:7:10: expected one of 2 slots, got 2"},
          {"input 0\n", "constant 1\n", "text:7:10: expected one of 1 constants, got 1"},
      },
      reread);
}

// A buffer that is smaller than what a kernel touches of it, or that nothing proves to be as large.
TEST(ProgramText, LaunchesStayInTheirBuffers) {
  const std::string text = to_string(lowered(R"(
fn @main(%x: Tensor[(n, 3), f32], %y: Tensor[(m), f32]) {
  %w = constant(f32 (3) [1, 2, 3])
  %r = add(%x, %w)
  %e = exp(%y)
  return %r, %e
})"));
  EXPECT_EQ(reread(text), text);
  const std::size_t launch = text.find("launch kernel");
  ASSERT_NE(launch, std::string::npos);
  const auto line =
      std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(launch), '\n') + 1;
  const std::string place = "text:" + std::to_string(line) + ":6: buffer ";
  expect_refused(
      text,
      {{"= 12*n\n", "= 12*n - 4\n",
        place + "b3 has 12*s0 - 4 bytes, of which the kernel touches 12*s0"},
       {"f32 (n, 3)", "f32 (n, 2)", place + "b0 has 8*s0 bytes, of which the kernel touches 12*s0"},
       {"f32 (3) [1, 2, 3]", "f32 (2) [1, 2]",
        place + "b2 has 8 bytes, of which the kernel touches 12"},
       {"extents (s0)", "extents (s1)",
        place + "b0 has 12*s0 bytes, of which the kernel touches 12*s1"},
       {"\"r\": f32 (s0, ", "\"r\": f32 (s0, s0, ",
        "text:29:10: buffer b3 has 12*s0 bytes, of which the output holds 12*s0*s0"}},
      reread);
}

// Whatever part of a listing is taken out or doubled.
TEST(ProgramText, DamagedListingsParseOrSayWhere) {
  const std::string text = to_string(lowered(R"(
fn @main(%x: Tensor[(n, 3), f32], %count: Tensor[(1), i64]) {
  %z = call @f(%x)
  %start = constant(i64 (1) [0])
  %axes = constant(i64 (1) [0])
  %s = dyn.strided_slice(%z, %start, %count, %axes) from "/Slice"
  return %s
}
fn @f(%x: Tensor[(a, b), f32]) {
  %r = exp(%x)
  return %r
})"));
  DamagedTexts texts(reread);
  for (std::size_t at = 0; at < text.size(); ++at) {
    for (const std::size_t length : {1, 4, 11}) {
      std::string without = text, twice = text;
      without.erase(at, length);
      twice.insert(at, text.substr(at, length));
      for (const std::string& changed : {without, twice, text.substr(0, at)})
        texts.expect_read_or_place(changed);
    }
  }
  texts.expect_many();
}

}  // namespace
}  // namespace anydim::tests
