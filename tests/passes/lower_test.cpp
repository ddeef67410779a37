// Lowered programs: stages, fetches, checks, packed weights, and what they compute with their
// planned memory.
#include "passes/lower.h"

#include <gtest/gtest.h>

#include "ir/error.h"
#include "ir/reference/evaluate.h"
#include "ir/text/parse.h"
#include "tests/support/pass_fixture.h"
#include "tests/support/program_runner.h"
#include "tests/support/table_backend.h"

namespace anydim::tests {
namespace {

using namespace ir;

Program lowered(const std::string& text, const TableBackend& backend = {}) {
  Module module = parse(text);
  passes::PipelineOptions options;
  options.verify = true;
  passes::PassContext context{options, &backend};
  passes::run_passes(module, context);
  return passes::lower(module, context);
}

template <typename Kind>
std::size_t count(const Program& program) {
  std::size_t found = 0;
  for (const auto& instruction : program.entry().instructions)
    found += std::holds_alternative<Kind>(instruction);
  return found;
}

void expect_same(const std::string& text, const Program& program,
                 const std::vector<Tensor>& inputs) {
  Module plain = parse(text);
  expect_close(run_program(program, inputs), evaluate(plain, plain.functions[0], inputs), 1e-5);
}

std::string error_of(const Program& program, const std::vector<Tensor>& inputs) {
  try {
    run_program(program, inputs);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

Tensor integers(std::vector<std::int64_t> elements) {
  auto count = static_cast<std::int64_t>(elements.size());
  return Tensor::of(DType::I64, {count}, elements);
}

TEST(Lower, SizesThatElementsOfAnInputDecideAreKnownInTheFirstStage) {
  const std::string text = R"(
fn @main(%x: Tensor[(n), f32], %shape: Tensor[(2), i64]) {
  %r = dyn.reshape(%x, %shape) from "/Reshape"
  %y = exp(%r)
  return %y
})";
  Program program = lowered(text);
  EXPECT_EQ(program.stages.size(), 1u);
  EXPECT_EQ(count<Code::Fetch>(program), 2u);
  EXPECT_TRUE(std::holds_alternative<Code::Fetch>(program.entry().instructions[0]))
      << "inputs are read before the first stage";
  expect_same(text, program, {sample(DType::F32, {6}, 1), integers({2, 3})});
  expect_same(text, program, {sample(DType::F32, {6}, 1), integers({-1, 1})});
  EXPECT_EQ(error_of(program, {sample(DType::F32, {6}, 1), integers({2, 4})}),
            "dyn.reshape '/Reshape' (%r): the elements of operand 0");
}

TEST(Lower, ElementsOfAComputedTensorAreFetchedForASecondStage) {
  const std::string text = R"(
fn @main(%x: Tensor[(n), f32], %half: Tensor[(2), f32]) {
  %whole = add(%half, %half)
  %shape = cast(%whole) {to = i64}
  %before = relu(%x)
  %r = dyn.reshape(%before, %shape)
  %y = exp(%r)
  %z = softmax(%y) {axis = 1}
  return %z
})";
  Program program = lowered(text);
  EXPECT_EQ(program.stages.size(), 2u);
  EXPECT_EQ(count<Code::Fetch>(program), 2u);
  EXPECT_EQ(count<Code::RunStage>(program), 2u);
  for (std::int64_t rows : {1, 2, 6}) {
    Tensor half(DType::F32, {2});
    half.set_real(0, static_cast<double>(rows) / 2);
    half.set_real(1, 6.0 / static_cast<double>(rows) / 2);
    expect_same(text, program, {sample(DType::F32, {6}, 1), half});
  }
}

TEST(Lower, AChainOfThreeStages) {
  const std::string text = R"(
fn @main(%x: Tensor[(n), f32], %a: Tensor[(1), f32], %b: Tensor[(m), f32]) {
  %i = cast(%a) {to = i64}
  %zero = constant(i64 (1) [0])
  %part = dyn.strided_slice(%b, %zero, %i)
  %sum = reduce_sum(%part) {axes = (0), keepdims = 1}
  %j = cast(%sum) {to = i64}
  %head = dyn.strided_slice(%x, %zero, %j)
  %y = neg(%head)
  return %y
})";
  Program program = lowered(text);
  EXPECT_EQ(program.stages.size(), 3u);
  Tensor a = Tensor::of(DType::F32, {1}, std::vector<double>{2});
  Tensor b = Tensor::of(DType::F32, {4}, std::vector<double>{1, 3, 9, 9});
  expect_same(text, program, {sample(DType::F32, {7}, 1), a, b});
}

TEST(Lower, WhatInferenceLeavesOpenIsChecked) {
  const std::string text = R"(
fn @main(%x: Tensor[(n), f32], %y: Tensor[(m), f32]) {
  %a = add(%x, %y) from "/Add"
  return %a
})";
  Program program = lowered(text);
  ASSERT_EQ(program.stages[0].checks.size(), 1u);
  EXPECT_EQ(program.stages[0].checks[0].relation, Relation::Broadcastable);
  expect_same(text, program, {sample(DType::F32, {3}, 1), sample(DType::F32, {3}, 2)});
  expect_same(text, program, {sample(DType::F32, {1}, 1), sample(DType::F32, {3}, 2)});
  EXPECT_EQ(error_of(program, {sample(DType::F32, {2}, 1), sample(DType::F32, {3}, 2)}),
            "add '/Add' (%a): dimension 0 of operand 0");
}

TEST(Lower, ASymbolThatNoInputMentionsHasNoSlot) {
  const std::string text = R"(
fn @main(%x: Tensor[(n), f32]) where n in [0, 9], m in [0, 9] {
  %a = relu(%x)
  return %a
})";
  Program program = lowered(text);
  EXPECT_EQ(program.entry().leaf_symbols, std::vector<std::string>{"n"});
  expect_same(text, program, {sample(DType::F32, {3}, 1)});
}

TEST(Lower, AWeightIsPackedOnceALayout) {
  const std::string text = R"(
fn @main(%x: Tensor[(n, 2), f32], %z: Tensor[(m, 2), f32]) {
  %w = constant(f32 (2, 3) [1, 2, 3, 4, 5, 6])
  %p = matmul(%x, %w)
  %q = matmul(%z, %w)
  %y = gelu(%q)
  return %p, %y
})";
  TableBackend backend;
  backend.packs = true;
  Program program = lowered(text, backend);
  ASSERT_EQ(program.constants.size(), 1u);
  ASSERT_TRUE(program.constants[0].layout);
  EXPECT_EQ(program.constants[0].layout->name, "panels");
  EXPECT_EQ(program.constants[0].parameter, 1);
  EXPECT_EQ(count<Code::Launch>(program), 2u);
}

TEST(Lower, MemoryIsUsedAgain) {
  const std::string text = R"(
fn @main(%x: Tensor[(n, 16), f32]) {
  %a = softmax(%x) {axis = 0}
  %b = softmax(%a) {axis = 1}
  %c = softmax(%b) {axis = 0}
  %d = softmax(%c) {axis = 1}
  %e = softmax(%d) {axis = 0}
  return %e
})";
  Program program = lowered(text);
  EXPECT_EQ(count<Code::Launch>(program), 5u);
  EXPECT_EQ(program.arena_ceiling.to_string(), "128*n");
  expect_same(text, program, {sample(DType::F32, {3, 16}, 1)});
  expect_same(text, program, {sample(DType::F32, {0, 16}, 1)});
}

TEST(Lower, BlocksBecomeStretchesWithStagesOfTheirOwn) {
  Program program = lowered(R"(
fn @main(%x: Tensor[(n), f32], %c: Tensor[(), bool]) {
  %y = if(%c) then {
    %a = concat(%x, %x) {axis = 0}
    yield %a
  } else {
    yield %x
  }
  %z = neg(%y)
  return %z
})");
  EXPECT_EQ(count<Code::JumpIfZero>(program), 1u);
  EXPECT_EQ(count<Code::Jump>(program), 1u);
  EXPECT_EQ(count<Code::Fetch>(program), 1u) << "the condition";
  // The function's, one a block, and one that knows the extent of what came out.
  EXPECT_EQ(program.stages.size(), 4u);
  EXPECT_EQ(program.unbounded, "");
}

TEST(Lower, ALoopWhoseExtentsStayNeedsNoStageAfterIt) {
  Program program = lowered(R"(
fn @main(%x: Tensor[(n), f32], %m: Tensor[(), i64]) {
  %y = loop(%m, none, %x) body(%i, %on, %a) {
    %b = add(%a, %a)
    yield %on, %b
  }
  %z = neg(%y)
  return %z
})");
  EXPECT_EQ(count<Code::Iterate>(program), 1u);
  EXPECT_EQ(count<Code::Append>(program), 0u);
  EXPECT_EQ(program.stages.size(), 2u) << "the function's and the body's";
  EXPECT_EQ(program.unbounded, "");
}

TEST(Lower, ARecursionHasOneCodeAndNoBound) {
  Program program = lowered(R"(
fn @main(%x: Tensor[(n), f32], %m: Tensor[(), i64]) {
  %y = call @f(%x, %m)
  return %y
}
fn @f(%x: Tensor[(n), f32], %m: Tensor[(), i64]) -> Tensor[(n), f32] {
  %zero = constant(i64 () [0])
  %more = greater(%m, %zero)
  %y = if(%more) then {
    %one = constant(i64 () [1])
    %less = sub(%m, %one)
    %a = call @f(%x, %less)
    yield %a
  } else {
    yield %x
  }
  return %y
})");
  ASSERT_EQ(program.functions.size(), 2u);
  EXPECT_EQ(program.functions[1].name, "f");
  EXPECT_EQ(program.unbounded, "call (%y)");
}

TEST(Lower, Listing) {
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
  EXPECT_EQ(to_string(program), R"(constant 0: "w" f32 (3)
kernel 0: @dyn_strided_slice_0 keys (3*select(s1 < 0, s0 + min(0, max(s1, -s0)), min(s0, max(0, s1))))
  [0, 127] multiple 3: small
  [128, 6442450941] multiple 3: large
  [0, 6442450941] multiple 3: small
kernel 1: @add_1 keys (3*s0)
  [0, 127] multiple 3: small
  [128, 6442450941] multiple 3: large
  [0, 6442450941] multiple 3: small
kernel 2: @exp_2 keys (s0*s1)
  [0, 127]: small
  [128, 4611686014132420609]: large
  [0, 4611686014132420609]: small
stage 0: arena s8
  value(count, 0) is s1
  n is s0
  s2 = 3
  s3 = 3*n
  s4 = 3*select(value(count, 0) < 0, n + min(0, max(value(count, 0), -n)), min(n, max(0, value(count, 0))))
  s5 = select(value(count, 0) < 0, n + min(0, max(value(count, 0), -n)), min(n, max(0, value(count, 0))))
  s6 = 0
  s7 = 12*n
  s8 = 64*ceil_div(3*n, 16)
  s9 = 12*select(value(count, 0) < 0, n + min(0, max(value(count, 0), -n)), min(n, max(0, value(count, 0))))
stage 1: arena -
  a is s0
  b is s1
  s2 = 4*a*b
  s3 = a*b
function 0: @main, 10 slots
  input b0 "x": f32 (n, 3)
  input b1 "count": i64 (1)
  symbol s0 = n
  buffer b0: input 0  // x
  buffer b1: input 1  // count
  buffer b2: pool  // z
  buffer b3: constant 0  // w
  buffer b4: arena of stage 0 at s6, s7 bytes  // r
  buffer b5: output 0 of stage 0, s9 bytes  // s
  0: s1 = fetch i64 b1 [0]
  1: stage 0
  2: call function 1 (b0) to (b2) with (s0 = s0, s1 = s2)  // call (%z)
  3: launch kernel 1 (b2, b3, b4) extents (s0) keys (s3)  // /Add
  4: launch kernel 0 (b4, b5) extents (s0, s1) keys (s4)  // /Slice
  output b5 "s": f32 (s5, s2)
function 1: @f, 4 slots
  input b0 "x": f32 (a, b)
  symbol s0 = a
  symbol s1 = b
  buffer b0: input 0  // x
  buffer b1: pool s2 bytes  // r
  0: stage 1
  1: allocate b1
  2: launch kernel 2 (b0, b1) extents (s0, s1) keys (s3)
  output b1 "r": f32 (s0, s1)
)");
}

// Each kind of instruction says what it reads and writes, and what of it is left out.
TEST(Lower, ListingOfEveryInstruction) {
  Program program;
  Code& code = program.entry();
  code.name = "f";
  code.slots = 4;
  const Code::Argument given{.buffer = 1, .dtype = DType::F32, .dims = {0, 1}};
  const Code::Opened opened{.result = 0, .axis = 1, .slot = 3};
  code.instructions = {
      Code::RunStage{.stage = 2},
      Code::Launch{.kernel = 1, .buffers = {0, 2}, .extents = {0}, .keys = {1}, .source = "Exp"},
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
      Code::Allocate{.buffer = 2},
      Code::StoreScalar{.buffer = 2, .dtype = DType::I64, .slot = 1},
      Code::Append{.to = 2,
                   .from = 1,
                   .counter = 0,
                   .expected = -1,
                   .bytes = 3,
                   .dims = {1},
                   .first = {2},
                   .source = "Scan"},
      Code::Call{.function = 1,
                 .arguments = {0},
                 .results = {1},
                 .leaves = {{0, 2}},
                 .opened = {opened},
                 .source = "Call"},
      Code::MakeFunction{.to = 2, .function = 1, .arguments = {given}},
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
  EXPECT_EQ(to_string(program), R"(function 0: @f, 4 slots
  0: stage 2
  1: launch kernel 1 (b0, b2) extents (s0) keys (s1)  // Exp
  2: s2 = fetch i64 b1 [3]
  3: assert s1 "too \"long\"" ("n" b0: i64 ())  // Check
  4: jump 7
  5: jump 8 if s1 is 0
  6: iterate s2 trips - while s1 else 9
  7: next s2 to 6
  8: set (s0 = s1, s1 = s0)
  9: move (b2 = b1)
  10: enter
  11: leave (b2)
  12: allocate b2
  13: b2 = scalar i64 s1
  14: append b1 to b2 at s0 of - bytes s3 dims (s1) first (s2)  // Scan
  15: call function 1 (b0) to (b1) with (s0 = s2) opens (s3 = result 0 axis 1)  // Call
  16: b2 = function 1 (b1: f32 (s0, s1))
  17: call b2 (b1: f32 (s0, s1)) to (b1) opens (s3 = result 0 axis 1)
  18: b2 = list (b1: f32 (s0, s1))
  19: b2 = insert b1: f32 (s0, s1) into b1 taken over at -
  20: b2 = erase from b1 at s0
  21: b2 = element of b1 at 4 opens (s3 = result 0 axis 1)
  22: s0 = length of b1
  23: b2 = stack f16 of b1 along -1 opens (s3 = result 0 axis 1)
)");
}

}  // namespace
}  // namespace anydim::tests
