// Ops whose size only the data tells, loops and branches, compiled by NVRTC and run on the
// interpreter through runtime's CUDA path, against the reference evaluator.
#include <gtest/gtest.h>

#include <random>

#include "api/anydim.h"
#include "ir/text/parse.h"
#include "tests/support/fake_part.h"
#include "tests/support/random_tensors.h"

namespace anydim {
namespace {

using ir::DType;
using ir::Tensor;
using tests::random_numbers;

// `inputs(size, random)` for sizes that grow and shrink; results are the evaluator's, bit for bit.
template <typename Inputs>
void expect_same(const char* text, const std::vector<std::int64_t>& sizes, const Inputs& inputs) {
  tests::FakePart part("h200");
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
                return std::vector<Tensor>{
                    random_numbers(DType::F32, {size}, random, 1 + static_cast<unsigned>(size) / 3),
                    random_numbers(DType::I64, {size, 2}, random, 5)};
              });
}

TEST(PtxCounts, LargestElements) {
  expect_same(R"(
fn @main(%x: Tensor[(3, n), f32], %k: Tensor[(), i64]) where n in [0, 5000] {
  %v, %i = dyn.top_k(%x, %k)
  %o = argsort(%x) {descending = 1}
  %w, %j = dyn.top_k(%x, %k) {largest = 0}
  return %v, %i, %o, %w, %j
})",
              {4, 40, 7, 3000}, [](std::int64_t size, std::mt19937& random) {
                return std::vector<Tensor>{random_numbers(DType::F32, {3, size}, random, 9),
                                           Tensor::of<std::int64_t>(DType::I64, {}, {3})};
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

// A carried value that grows, scanned results, a counter that kernels read, and values that leave
// branches.
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
              {1, 7, 3}, [](std::int64_t size, std::mt19937& random) {
                return std::vector<Tensor>{random_numbers(DType::F32, {size}, random, 9)};
              });
}

// A call that is broken off in the middle of a loop; memory is flat before and after.
TEST(PtxControl, MemoryLimitWithinALoop) {
  tests::FakePart part("h200");
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
  const std::vector<Tensor> small{random_numbers(DType::F32, {10}, random, 9)},
      large{random_numbers(DType::F32, {12000}, random, 9)};
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
    EXPECT_NE(std::string_view(error.what()).find("over the memory limit of 100000 bytes"),
              std::string_view::npos)
        << error.what();
  }
  for (int call = 0; call < 2; ++call) {
    const std::vector<Tensor> got = part.reporting([&] { return context.run(small); });
    ASSERT_TRUE(got[0].same_bits(want[0]));
  }
}

TEST(PtxControl, Recursion) {
  expect_same(R"(
fn @main(%x: Tensor[(n), f32], %k: Tensor[(), i64]) where n in [0, 100000] {
  %r = call @fold(%x, %k)
  return %r
}

fn @fold(%x: Tensor[(n), f32], %k: Tensor[(), i64]) -> Tensor[(?), f32] {
  %more = greater(%k, constant(i64 () [0]))
  %r = if(%more) then {
    %twice = concat(%x, %x) {axis = 0}
    %next = add(%twice, cast(%k) {to = f32})
    %rest = call @fold(%next, sub(%k, constant(i64 () [1])))
    %all = concat(%x, %rest) {axis = 0}
    yield %all
  } else {
    yield %x
  }
  return %r
})",
              {1, 5, 0, 40}, [](std::int64_t size, std::mt19937& random) {
                return std::vector<Tensor>{random_numbers(DType::F32, {size}, random, 9),
                                           Tensor::of<std::int64_t>(DType::I64, {}, {size % 7})};
              });
}

TEST(PtxControl, ListsTuplesAndFunctionValues) {
  expect_same(R"(
fn @main(%x: Tensor[(3, n), f32], %y: Tensor[(3, m), f32]) where n in [1, 9999], m in [1, 9999] {
  %doubled = add(%x, %x)
  %l = list(%doubled, %y)
  %trips = gather(shape_of(%y), constant(i64 () [1]))
  %all = loop(%trips, none, %l) body(%i, %on, %acc) {
    %wide = mul(%x, cast(%i) {to = f32})
    %next = list_insert(%acc, %wide, dim(0))
    yield %on, %next
  }
  %less = list_erase(%all, dim(1))
  %count = list_length(%less)
  %last: Tensor[(3, ?), f32] = list_at(%less, dim(-1))
  %side = list_concat(%less) {axis = 1}
  %f = closure @scale(%last)
  %scaled = apply(%f, %side)
  return %count, %last, %side, %scaled
}

fn @scale(%by: Tensor[(3, k), f32], %x: Tensor[(3, n), f32]) -> Tensor[(3, n), f32] {
  %sum = reduce_sum(%by) {axes = (1), keepdims = 1}
  %r = mul(%x, %sum)
  return %r
})",
              {1, 4, 33}, [](std::int64_t size, std::mt19937& random) {
                return std::vector<Tensor>{random_numbers(DType::F32, {3, size + 2}, random, 9),
                                           random_numbers(DType::F32, {3, size}, random, 9)};
              });
}

// The entry's sizes are all in its callee's, which has fewer.
TEST(PtxControl, AnEntryThatOnlyCalls) {
  expect_same(R"(
fn @main(%x: Tensor[(a, b, c), f32], %y: Tensor[(d, e), f32]) where a in [0, 99], b in [0, 99], c in [0, 99], d in [0, 99], e in [0, 99] {
  %r = call @once(%y)
  return %r, %x
}

fn @once(%y: Tensor[(n, 4), f32]) -> Tensor[(n, 4), f32] {
  %r = add(%y, %y)
  return %r
})",
              {1, 5, 0, 40}, [](std::int64_t size, std::mt19937& random) {
                return std::vector<Tensor>{random_numbers(DType::F32, {1, 2, size}, random, 9),
                                           random_numbers(DType::F32, {size, 4}, random, 9)};
              });
}

// More launches than the argument buffer has rows, none of which the host waits for.
TEST(PtxControl, LoopsThatFetchNothingWaitOnlyWhereTheirRowsAreTaken) {
  tests::FakePart part("h200");
  const char* text = R"(
fn @main(%x: Tensor[(n), f32], %k: Tensor[(), i64]) where n in [1, 100000] {
  %r = loop(%k, none, %x) body(%i, %on, %acc) {
    %next = add(%acc, cast(%i) {to = f32})
    yield %on, %next
  }
  return %r
})";
  runtime::Context context(compile_for(part.target, ir::parse(text), part.options));
  std::mt19937 random(3);
  const Tensor numbers = random_numbers(DType::F32, {70}, random, 9);
  for (const std::int64_t trips : {3, 3, 600}) {
    const std::vector<Tensor> given{numbers, Tensor::of<std::int64_t>(DType::I64, {}, {trips})};
    const std::vector<Tensor> want = evaluate_reference(ir::parse(text), given);
    part.fake->forget_calls();
    const std::vector<Tensor> got = part.reporting([&] { return context.run(given); });
    ASSERT_TRUE(got[0].same_bits(want[0]));
    if (trips == 600) EXPECT_LE(part.fake->calls("stream_synchronize"), 8);
  }
}

}  // namespace
}  // namespace anydim
