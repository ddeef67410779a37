// Ops whose size only the data tells, loops and branches, compiled by NVRTC and run on the interpreter through runtime's CUDA path, against the reference
// evaluator.
#include <gtest/gtest.h>

#include <random>

#include "api/anydim.h"
#include "ir/parse.h"
#include "tests/support/pretended_part.h"
#include "tests/support/random_tensors.h"

namespace anydim {
namespace {

using ir::DType;
using ir::Tensor;
using tests::random_numbers;

// `inputs(size, random)` for sizes that grow and shrink; results are the evaluator's, bit for bit.
template <typename Inputs>
void expect_same(const char* text, const std::vector<std::int64_t>& sizes, const Inputs& inputs) {
  tests::PretendedPart part("h200");
  const auto executable = compile_for(part.target, ir::parse(text), part.options);
  runtime::Context context(executable);
  std::mt19937 random(7);
  for (const std::int64_t size : sizes) {
    SCOPED_TRACE(size);
    const std::vector<Tensor> given = inputs(size, random);
    const std::vector<Tensor> want = evaluate_reference(ir::parse(text), given);
    const std::vector<Tensor> got = part.reporting([&] { return context.run(given); });
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      SCOPED_TRACE(i);
      ASSERT_EQ(got[i].dims(), want[i].dims());
      ASSERT_TRUE(got[i].same_bits(want[i]));
    }
  }
  EXPECT_EQ(part.gpu->findings(), "");
}

TEST(PtxCounts, CoordinatesAndSelection) {
  expect_same(R"(
fn @main(%x: Tensor[(n, 3), f32], %c: Tensor[(n), bool]) where n in [0, 5000] {
  %i = nonzero(%x)
  %picked = gather_nd(%x, transpose(%i))
  %rows = compress(%x, %c) {axis = 0}
  %twice = add(%rows, %rows)
  return %i, %picked, %twice
})",
              {0, 1, 17, 64, 900, 2}, [](std::int64_t size, std::mt19937& random) {
                return std::vector<Tensor>{random_numbers(DType::F32, {size, 3}, random, 4),
                                           random_numbers(DType::Bool, {size}, random, 2)};
              });
}

TEST(PtxCounts, DifferentElements) {
  expect_same(R"(
fn @main(%x: Tensor[(n), f32], %m: Tensor[(n, 2), i64]) where n in [0, 5000] {
  %a, %b, %c, %d = unique(%x)
  %e, %f, %g, %h = unique(%x) {sorted = 0}
  %i, %j, %k, %l = unique(%m) {axis = 0}
  return %a, %b, %c, %d, %e, %f, %g, %h, %i, %j, %k, %l
})",
              {0, 1, 65, 300, 5}, [](std::int64_t size, std::mt19937& random) {
                return std::vector<Tensor>{random_numbers(DType::F32, {size}, random, 1 + static_cast<unsigned>(size) / 3),
                                           random_numbers(DType::I64, {size, 2}, random, 5)};
              });
}

TEST(PtxCounts, LargestElements) {
  expect_same(R"(
fn @main(%x: Tensor[(3, n), f32], %k: Tensor[(), i64]) where n in [0, 5000] {
  %v, %i = dyn.top_k(%x, %k)
  %o = argsort(%x) {descending = 1}
  return %v, %i, %o
})",
              {4, 40, 7}, [](std::int64_t size, std::mt19937& random) {
                return std::vector<Tensor>{random_numbers(DType::F32, {3, size}, random, 9), Tensor::of<std::int64_t>(DType::I64, {}, {3})};
              });
}

// Whose loop over the boxes the host carries out.
TEST(PtxCounts, BoxesThatOverlap) {
  expect_same(R"(
fn @main(%b: Tensor[(2, n, 4), f32], %s: Tensor[(2, 2, n), f32]) where n in [0, 500] {
  %r = non_max_suppression(%b, %s, dim(20), constant(f32 () [0.4]), constant(f32 () [1.5]))
  return %r
})",
              {0, 1, 9, 21, 4}, [](std::int64_t size, std::mt19937& random) {
                return std::vector<Tensor>{random_numbers(DType::F32, {2, size, 4}, random, 12),
                                           random_numbers(DType::F32, {2, 2, size}, random, 9)};
              });
}

// A carried value that grows, scanned results, a counter that kernels read, and values that leave branches.
TEST(PtxControl, LoopsAndBranches) {
  expect_same(R"(
fn @main(%x: Tensor[(n), f32]) where n in [1, 500] {
  %none = zeros() {shape = (0)}
  %zero = constant(f32 () [0])
  %trips = gather(shape_of(%x), constant(i64 () [0]))
  %sums, %last, %widths = loop(%trips, none, %none, %zero) body(%i, %on, %acc, %before) {
    %end = expand_dims(add(%i, constant(i64 () [1]))) {axes = (0)}
    %part = dyn.strided_slice(%x, constant(i64 (1) [0]), %end)
    %sum = reduce_sum(%part) {keepdims = 1}
    %all = reduce_sum(%part) {keepdims = 0}
    %more = greater(%all, %before)
    %kept = if(%more) then {
      %doubled = mul(%all, constant(f32 () [2]))
      yield %doubled
    } else {
      %same = add(%before, cast(%i) {to = f32})
      yield %same
    }
    %next = concat(%acc, %sum) {axis = 0}
    yield %on, %next, %kept, %kept
  }
  return %sums, %last, %widths
})",
              {1, 7, 3},
              [](std::int64_t size, std::mt19937& random) { return std::vector<Tensor>{random_numbers(DType::F32, {size}, random, 9)}; });
}

// A call that is broken off in the middle of a loop; memory is flat before and after.
TEST(PtxControl, MemoryLimitWithinALoop) {
  tests::PretendedPart part("h200");
  part.options.memory_limit = 100'000;
  const char* text = R"(
fn @main(%x: Tensor[(n), f32]) where n in [1, 100000] {
  %none = zeros() {shape = (0)}
  %all = loop(dim(3), none, %none) body(%i, %on, %acc) {
    %next = concat(%acc, %x) {axis = 0}
    yield %on, %next
  }
  return %all
})";
  runtime::Context context(compile_for(part.target, ir::parse(text), part.options));
  std::mt19937 random(3);
  const std::vector<Tensor> small{random_numbers(DType::F32, {10}, random, 9)}, large{random_numbers(DType::F32, {12000}, random, 9)};
  const std::vector<Tensor> want = evaluate_reference(ir::parse(text), small);
  std::int64_t in_use = 0;
  for (int call = 0; call < 3; ++call) {
    const std::vector<Tensor> got = part.reporting([&] { return context.run(small); });
    ASSERT_TRUE(got[0].same_bits(want[0]));
    if (call > 0) EXPECT_EQ(part.fake->bytes_in_use(), in_use);
    in_use = static_cast<std::int64_t>(part.fake->bytes_in_use());
  }
  try {
    context.run(large);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Resource);
    EXPECT_NE(std::string_view(error.what()).find("over the memory limit of 100000 bytes"), std::string_view::npos) << error.what();
  }
  for (int call = 0; call < 2; ++call) {
    const std::vector<Tensor> got = part.reporting([&] { return context.run(small); });
    ASSERT_TRUE(got[0].same_bits(want[0]));
  }
}

TEST(PtxControl, CallsAreRefusedAndTheNextCallFailsAlike) {
  tests::PretendedPart part("h200");
  const char* text = R"(
fn @main(%k: Tensor[(), i64]) {
  %rest = call @factorial(%k)
  return %rest
}

fn @factorial(%k: Tensor[(), i64]) -> Tensor[(), i64] {
  %more = greater(%k, constant(i64 () [1]))
  %r = if(%more) then {
    %below = sub(%k, constant(i64 () [1]))
    %rest = call @factorial(%below)
    %all = mul(%k, %rest)
    yield %all
  } else {
    yield %k
  }
  return %r
})";
  runtime::Context context(compile_for(part.target, ir::parse(text), part.options));
  for (int call = 0; call < 2; ++call) {
    try {
      context.run({Tensor::of<std::int64_t>(DType::I64, {}, {4})});
      FAIL() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Unsupported);
      EXPECT_EQ(error.what(), std::string("calls of functions, lists and tuples run on the CPU only: use --device cpu"));
    }
  }
}

}  // namespace
}  // namespace anydim
