// What a model counts of its calls, what it holds, and what a call of given shapes may hold.
#include "api/statistics.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "api/model.h"
#include "ir/error.h"
#include "ir/text/parse.h"
#include "tests/api/small_encoder.h"
#include "tests/support/random_tensors.h"

namespace anydim {
namespace {

std::shared_ptr<const Model> compiled(const std::string& text) {
  CompileOptions options;
  options.keep_kernels = false;
  options.background = false;
  options.threads = 1;
  options.masked_rows = MaskedRows::Zero;
  return Model::compile(ir::parse(text), options);
}

std::vector<ir::Tensor> padded_call(std::int64_t batch, std::int64_t length,
                                    const std::vector<int>& hidden) {
  const std::vector<std::int64_t> ids(static_cast<std::size_t>(batch * length), 3);
  return {ir::Tensor::of<std::int64_t>(ir::DType::I64, {batch, length}, ids),
          ir::Tensor::of<int>(ir::DType::Bool, {batch, length}, hidden)};
}

TEST(Statistics, CallsAreCountedByTheirWayWithTheirTokens) {
  const auto model = compiled(encoder);
  ASSERT_TRUE(model->packing()) << model->padded_because();
  ModelContext context(model);
  context.run(padded_call(2, 3, {0, 0, 1, 0, 1, 1}));
  context.run(padded_call(1, 4, {0, 0, 0, 0}));
  context.run(padded_call(1, 2, {1, 1}));  // no row takes part: the padded way
  const std::vector<std::int64_t> ids{4, 5, 6};
  context.run_ragged(
      {ir::Tensor::of<std::int64_t>(ir::DType::I64, {3}, ids)},
      ir::Tensor::of<std::int64_t>(ir::DType::I64, {3}, std::vector<std::int64_t>{0, 1, 3}));
  EXPECT_THROW(context.run(padded_call(1, 7, {0, 0, 0, 0, 0, 0, 0})), Error);
  // A call whose result does not fit its place is no call that gave results.
  std::vector<float> memory(1);
  const ResultPlace small{
      .dtype = ir::DType::F32, .dims = {1}, .bytes = std::as_writable_bytes(std::span(memory))};
  EXPECT_THROW(context.run(padded_call(1, 4, {0, 0, 0, 0}), std::span(&small, 1)), Error);

  const ModelStatistics statistics = model->statistics();
  EXPECT_EQ(statistics.calls.calls, 4);
  EXPECT_EQ(statistics.calls.failed, 2);
  EXPECT_EQ(statistics.calls.packed, 2);
  EXPECT_EQ(statistics.calls.padded, 1);
  EXPECT_EQ(statistics.calls.ragged, 1);
  EXPECT_EQ(statistics.calls.tokens_given, 6 + 4 + 2 + 3);
  EXPECT_EQ(statistics.calls.tokens_computed, 3 + 4 + 2 + 3);
  EXPECT_EQ(statistics.calls.tokens_useful, 3 + 4 + 3);
  EXPECT_GT(statistics.calls.latency.p50, 0);
  EXPECT_LE(statistics.calls.latency.p50, statistics.calls.latency.p99);
  EXPECT_LE(statistics.calls.latency.p99, statistics.calls.latency.most);
  EXPECT_GE(statistics.calls.seconds, statistics.calls.latency.most);
  EXPECT_GT(statistics.kernels.compiled, 0);
  EXPECT_GT(statistics.memory.constant_bytes, 50 * 16 * 4);
  EXPECT_GT(statistics.memory.code_bytes, 0);
  EXPECT_GT(statistics.memory.held_bytes, 0);
}

TEST(Statistics, WhatAnEndedContextCountedStaysCountedAndWhatItHeldGoes) {
  const auto model = compiled(encoder);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      ModelContext context(model);
      for (int i = 0; i < 25; ++i) context.run(padded_call(1, 3, {0, 0, 1}));
    });
  for (std::thread& thread : threads) thread.join();
  const ModelStatistics statistics = model->statistics();
  EXPECT_EQ(statistics.calls.calls, 100);
  EXPECT_EQ(statistics.calls.tokens_useful, 200);
  EXPECT_EQ(statistics.memory.held_bytes, 0);
}

TEST(Statistics, LatenciesFallIntoCellsOfASixteenth) {
  CallRegister calls;
  const auto counters = calls.enter();
  std::uint64_t slowest = 0;
  for (std::uint64_t ticks = 1; ticks <= 100'000; ticks += 7) {
    counters->add({.ticks = ticks});
    slowest = ticks;
  }
  const CallStatistics statistics = calls.read();
  const double tick = statistics.latency.most / static_cast<double>(slowest);
  EXPECT_GE(statistics.latency.p50 / tick, 49'990);
  EXPECT_LE(statistics.latency.p50 / tick, 50'010 * 17.0 / 16);
  EXPECT_GE(statistics.latency.p99 / tick, 98'990);
  EXPECT_LE(statistics.latency.p99 / tick, 100'000);
}

TEST(Statistics, AMemoryCeilingHoldsForCallsOfItsShapes) {
  const auto model = compiled(encoder);
  ModelContext context(model);
  std::int64_t before = 0;
  for (const std::int64_t length : {1, 3, 6}) {
    const std::map<std::string, std::vector<std::int64_t>> shapes{{"tokens", {4, length}},
                                                                  {"padding", {4, length}}};
    const MemoryCeiling ceiling = model->memory_ceiling(shapes);
    ASSERT_TRUE(ceiling.arena_bytes) << ceiling.unbounded_because;
    EXPECT_GT(*ceiling.arena_bytes, before);
    before = *ceiling.arena_bytes;
    EXPECT_GT(ceiling.constant_bytes, 0);
    runtime::Context packed(model->packed());
    packed.run(runtime::pack_inputs(
                   *model->packing(),
                   padded_call(4, length, std::vector<int>(static_cast<std::size_t>(4 * length))))
                   ->tensors);
    EXPECT_LE(packed.memory().arena, *ceiling.arena_bytes) << length;
    static_cast<void>(model->ragged());
    EXPECT_EQ(model->memory_ceiling(shapes).arena_bytes, ceiling.arena_bytes);
  }
}

// How many boxes stay is found in a branch, sized by a count that only the run tells.
TEST(Statistics, AMemoryCeilingHoldsForCountsOfTheData) {
  const auto model = compiled(R"(fn @main(%b: Tensor[(1, n, 4), f32], %s: Tensor[(1, 1, n), f32]) {
  %r = non_max_suppression(%b, %s, dim(9), constant(f32 () [0.5]), constant(f32 () [0]))
  return %r
})");
  std::mt19937 random(7);
  for (const std::int64_t boxes : {10, 1000}) {
    const MemoryCeiling ceiling =
        model->memory_ceiling({{"b", {1, boxes, 4}}, {"s", {1, 1, boxes}}});
    ASSERT_TRUE(ceiling.arena_bytes) << ceiling.unbounded_because;
    runtime::Context context(model->padded());
    context.run({tests::random_numbers(ir::DType::F32, {1, boxes, 4}, random, 9),
                 tests::random_numbers(ir::DType::F32, {1, 1, boxes}, random, 9)});
    EXPECT_GT(context.memory().arena, 0);
    EXPECT_LE(context.memory().arena, *ceiling.arena_bytes) << boxes;
  }
}

TEST(Statistics, ACeilingForShapesThatNoCallCouldHaveIsRefused) {
  const auto model = compiled(encoder);
  const auto refusal =
      [&](const std::map<std::string, std::vector<std::int64_t>>& shapes) -> std::string {
    try {
      static_cast<void>(model->memory_ceiling(shapes));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Inputs);
      return error.what();
    }
    return "taken";
  };
  EXPECT_EQ(refusal({{"tokens", {1, 7}}, {"padding", {1, 7}}}).substr(0, 14), "input 'tokens'");
  EXPECT_EQ(refusal({{"tokens", {1, 3}}}),
            "the shape of input 'padding' is missing; the model takes padding: bool (b, s)");
  EXPECT_EQ(refusal({{"tokens", {1, 3}}, {"padding", {2, 3}}}).substr(0, 15), "input 'padding'");
}

}  // namespace
}  // namespace anydim
