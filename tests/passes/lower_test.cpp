// Lowered programs: stages, fetches, checks, packed weights, and what they compute with their
// planned memory.
#include "passes/lower.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ir/error.h"
#include "ir/reference/evaluate.h"
#include "ir/text/parse.h"
#include "tests/passes/lowered.h"
#include "tests/support/pass_fixture.h"
#include "tests/support/program_runner.h"
#include "tests/support/table_backend.h"

namespace anydim::tests {
namespace {

using namespace ir;

template <typename Kind>
std::size_t count(const Program& program) {
  std::size_t found = 0;
  for (const auto& instruction : program.entry().instructions)
    found += std::holds_alternative<Kind>(instruction);
  return found;
}

void expect_same(const std::string& text, const Program& program, const std::vector<Tensor>& inputs,
                 const std::vector<std::size_t>& overwritable = {}) {
  Module plain = parse(text);
  expect_close(run_program(program, inputs, overwritable),
               evaluate(plain, plain.functions[0], inputs), 1e-5);
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

TEST(Lower, AResultTakesThePlaceOfAnOperandThatItsKernelMayOverwrite) {
  const auto ceiling = [](const std::string& more, const TableBackend& backend) {
    const std::string text = fmt::format(R"(
fn @main(%x: Tensor[(n, 16), f32]) {{
  %a = softmax(%x) {{axis = 0}}
  %b = softmax(%a) {{axis = 1}}
  {}
}})",
                                         more);
    const Program program = lowered(text, backend);
    expect_same(text, program, {sample(DType::F32, {3, 16}, 1)}, backend.overwritten);
    return program.arena_ceiling.to_string();
  };
  TableBackend backend;
  const std::string once = "%c = softmax(%b) {axis = 0}\n  return %c",
                    again =
                        "%c = softmax(%b) {axis = 0}\n  %d = add(%c, %a)\n"
                        "  %e = softmax(%d) {axis = 1}\n  return %e";
  EXPECT_EQ(ceiling(once, backend), "128*n");
  EXPECT_EQ(ceiling(again, backend), "192*n");
  backend.overwritten = {0};
  EXPECT_EQ(ceiling(once, backend), "64*n");
  EXPECT_EQ(ceiling(again, backend), "128*n") << "%a is read later";
}

TEST(Lower, BlocksBecomePartsWithStagesOfTheirOwn) {
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

TEST(Lower, ElementsOfAScannedResultOfKnownLengthHaveTheirPlaceInIt) {
  const auto placed = [](const std::string& condition) {
    const Program program = lowered(fmt::format(R"(
fn @main(%x: Tensor[(n), f32], %t: Tensor[(t), f32], %limit: Tensor[(), i64]) {{
  %trips = dim(t)
  %y, %all = loop(%trips, none, %x) body(%i, %on, %a) {{
    %more = less(%i, %limit)
    %b = add(%a, %a)
    yield {}, %b, %b
  }}
  return %y, %all
}})",
                                                condition));
    int found = 0;
    for (const Code::Instruction& instruction : program.entry().instructions)
      if (const auto* allocate = std::get_if<Code::Allocate>(&instruction))
        found += allocate->element_of >= 0 ? 1 : 0;
    return found;
  };
  EXPECT_EQ(placed("%on"), 1);
  EXPECT_EQ(placed("%more"), 0) << "the loop may end before";
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

}  // namespace
}  // namespace anydim::tests
