#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "runtime/packing.h"
#include "tests/codegen_cpu/expect_right.h"
#include "tests/support/attention_regions.h"

namespace anydim::codegen_cpu::testing {
namespace {

void expect_attention_right(const TestRegion& region, const ir::Bucket& bucket,
                            const std::vector<Symbols>& shapes,
                            const Expectation& expectation = {.most = 1}) {
  ASSERT_TRUE(std::holds_alternative<ir::AttentionForm>(region.form.kind))
      << to_string(region.form);
  expect_right(region, bucket, shapes, expectation);
}

TEST(Attention, BucketOfFewRows) {
  expect_attention_right(make_region(tests::region_case("AttentionOfPlainOperands").text),
                         bucket_of({{0, 64}}), tests::sizes("s", {1, 8, 33, 64}));
}

bool reads_keys_in_place(const ir::Schedule& schedule) {
  return schedule.find("keys_in_place").value_or(0) != 0;
}

// Every schedule of the space that reads keys where they lie, on every level that has one.
void expect_keys_in_place_right(const std::string& text, const std::vector<Symbols>& shapes) {
  SCOPED_TRACE(text);
  const TestRegion region = make_region(text);
  const std::vector<ReferenceCall> calls = reference_calls(region, shapes);
  for (const Target& target : targets()) {
    std::size_t found = 0;
    for (const ir::Schedule& schedule : space(region, target, {})) {
      if (!reads_keys_in_place(schedule)) continue;
      ++found;
      // They are many, and alike but for their sizes.
      if (found % 23 == 1) expect_kernel_right(region, target, {}, schedule, calls);
    }
    // A key of 80 numbers is too many vectors of four.
    if (target.level != Level::Baseline) EXPECT_GT(found, 5u) << target.name();
  }
}

TEST(Attention, KeysInPlace) {
  const std::vector<Symbols> shapes = {
      {{"s", 1}, {"t", 1}},   {{"s", 1}, {"t", 15}},  {{"s", 1}, {"t", 16}}, {{"s", 2}, {"t", 17}},
      {{"s", 5}, {"t", 130}}, {{"s", 9}, {"t", 300}}, {{"s", 3}, {"t", 0}},  {{"s", 0}, {"t", 3}}};
  for (const auto& [depth, width, dtype] : std::vector<std::tuple<int, int, std::string>>{
           {16, 16, "f32"}, {64, 64, "f32"}, {80, 40, "f32"}, {128, 33, "f32"}, {32, 64, "f64"}})
    expect_keys_in_place_right(
        fmt::format("fn @main(%q: Tensor[(2, s, {0}), {2}], %k: Tensor[(2, t, {0}), {2}], %v: "
                    "Tensor[(2, t, {1}), {2}], %bias: Tensor[(s, t), {2}]) -> Tensor[(2, s, {1}), "
                    "{2}] where s in [0, 600], t in [0, 600] {{\n %y = attention(%q, %k, %v, "
                    "%bias) {{scale = 0.3}}\n return %y\n}}",
                    depth, width, dtype),
        shapes);
}

// The tensor is a cache with room, each of whose heads three of the queries' share.
TEST(Attention, KeysInPlaceOfAPartOfATensor) {
  expect_keys_in_place_right(R"(
fn @main(%q: Tensor[(b, 6, s, 32), f32], %keys: Tensor[(b, 2, t + r, 32), f32], %values: Tensor[(b, 2, t + r, 32), f32], %n: Tensor[(t), f32], %m: Tensor[(r), f32]) -> Tensor[(b, 6, s, 32), f32]
  where b in [0, 4], s in [0, 100], t in [0, 600], r in [0, 600] {
  %none = shape(0)
  %all = shape(t)
  %axis = shape(2)
  %k4 = dyn.strided_slice(%keys, %none, %all, %axis)
  %v4 = dyn.strided_slice(%values, %none, %all, %axis)
  %k = repeat(%k4) {repeats = 3, axis = 1}
  %v = repeat(%v4) {repeats = 3, axis = 1}
  %y = attention(%q, %k, %v) {scale = 0.2}
  return %y
})",
                             {{{"b", 2}, {"s", 1}, {"t", 33}, {"r", 31}},
                              {{"b", 1}, {"s", 3}, {"t", 260}, {"r", 0}},
                              {{"b", 3}, {"s", 1}, {"t", 1}, {"r", 7}}});
}

// Where queries are the keys' own rows, or keys are no whole vectors, they are packed.
TEST(Attention, KeysThatArePacked) {
  for (const std::string shapes :
       {"%q: Tensor[(2, s, 32), f32], %k: Tensor[(2, s, 32), f32], %v: Tensor[(2, s, 32), f32]",
        "%q: Tensor[(2, s, 31), f32], %k: Tensor[(2, t, 31), f32], %v: Tensor[(2, t, 32), f32]"}) {
    const TestRegion region = make_region("fn @main(" + shapes +
                                          ") -> Tensor[(2, s, 32), f32] {\n %y = attention(%q, "
                                          "%k, %v)\n return %y\n}");
    for (const Target& target : targets())
      for (const ir::Schedule& schedule : space(region, target, {}))
        EXPECT_FALSE(reads_keys_in_place(schedule)) << to_string(schedule);
  }
}

// A list of work changes no result.
TEST(Attention, SegmentsWithAListOfWork) {
  const TestRegion region = make_region(tests::text_of({.work = true}));
  const auto fill = [](std::vector<ir::Tensor>& inputs) {
    tests::fill_offsets(inputs[1], inputs[0].dims()[0]);
    tests::fill(inputs[2], runtime::work_list(inputs[1].as<std::int64_t>()));
  };
  expect_attention_right(region, bucket_of({}),
                         {{{"t", 0}, {"n", 1}}, {{"t", 1}, {"n", 3}}, {{"t", 250}, {"n", 10}}},
                         {.fill = fill});
}

TEST(Attention, WrongListsOfWorkAreReported) {
  const TestRegion region = make_region(tests::text_of({.work = true}));
  const tests::WrongLists& lists = tests::wrong_lists();
  ASSERT_EQ(runtime::work_list(lists.offsets), lists.right);
  const Symbols symbols{{"t", 50}, {"n", 5}};
  auto inputs = random_inputs(region, symbols, 1);
  tests::fill(inputs[1], lists.offsets);
  const auto& segments = std::get<ir::AttentionForm>(region.form.kind).segments;
  for (const Target& target : targets()) {
    const TestKernel kernel =
        compile(region, target, bucket_of({}), candidates(region, target, bucket_of({})).front());
    const auto failure_of = [&](const std::vector<std::int64_t>& list) {
      tests::fill(inputs[2], list);
      ir::KernelError failure;
      run(region, target, kernel, symbols, inputs, 2, &failure);
      return failure;
    };
    EXPECT_EQ(failure_of(lists.right).check, -1);
    for (const auto& [list, place] : lists.wrong) {
      const ir::KernelError failure = failure_of(list);
      EXPECT_EQ(failure.check, segments->work_check);
      EXPECT_EQ(failure.value, place);
    }
  }
}

TEST(Attention, WrongOffsetsAreReported) {
  const TestRegion region = make_region(tests::text_of({}));
  const Symbols symbols{{"t", 50}, {"n", 4}};
  for (const Target& target : targets()) {
    const TestKernel kernel =
        compile(region, target, bucket_of({}), candidates(region, target, bucket_of({})).front());
    for (const auto& [offsets, value] : tests::wrong_offsets()) {
      auto inputs = random_inputs(region, symbols, 1);
      tests::fill(inputs[1], offsets);
      ir::KernelError failure;
      run(region, target, kernel, symbols, inputs, 2, &failure);
      EXPECT_EQ(failure.check, std::get<ir::AttentionForm>(region.form.kind).segments->check);
      EXPECT_EQ(failure.value, value);
    }
  }
}

// What another sequence holds makes no difference, not even NaN.
TEST(Attention, SegmentsKeepToThemselves) {
  const TestRegion region = make_region(tests::text_of({}));
  const Symbols symbols{{"t", 91}, {"n", 6}};
  for (const Target& target : targets()) {
    const TestKernel kernel =
        compile(region, target, bucket_of({}), candidates(region, target, bucket_of({})).front());
    auto inputs = random_inputs(region, symbols, 1);
    tests::fill_offsets(inputs[1], 91);
    const auto clean = run(region, target, kernel, symbols, inputs);
    const std::int64_t first = inputs[1].integer_at(2), last = inputs[1].integer_at(3);
    for (std::int64_t i = first * 192; i < last * 192; ++i)
      inputs[0].set_real(i, std::numeric_limits<double>::quiet_NaN());
    const auto spoilt = run(region, target, kernel, symbols, inputs);
    for (std::int64_t i = 0; i < clean[0].elements(); ++i) {
      if (i >= first * 64 && i < last * 64) EXPECT_TRUE(std::isnan(spoilt[0].real_at(i)));
      else EXPECT_EQ(spoilt[0].real_at(i), clean[0].real_at(i)) << "element " << i;
    }
  }
}

// For two keys with scores 0 and x <= 0 and values 0 and 1 the output is exp(x) / (1 + exp(x)): the
// weights' own error shows.
TEST(Attention, WeightsAreExponentials) {
  const TestRegion region = make_region(R"(
fn @main(%q: Tensor[(b, 1, 1), f32], %k: Tensor[(b, 2, 1), f32], %v: Tensor[(b, 2, 1), f32]) -> Tensor[(b, 1, 1), f32]
  where b in [0, 100000] {
  %y = attention(%q, %k, %v) {scale = 0.7}
  return %y
})");
  constexpr std::int64_t points = 20001;
  const Symbols symbols{{"b", points}};
  auto inputs = random_inputs(region, symbols, 1);
  for (std::int64_t i = 0; i < points; ++i) {
    inputs[0].set_real(i, 1);
    inputs[1].set_real(2 * i, 0);
    inputs[1].set_real(2 * i + 1, -static_cast<double>(i) / 128);
    inputs[2].set_real(2 * i, 0);
    inputs[2].set_real(2 * i + 1, 1);
  }
  for (const Target& target : targets()) {
    SCOPED_TRACE(name_of(target.level));
    const TestKernel kernel = compile(region, target, {}, candidates(region, target, {}).front());
    const auto got = run(region, target, kernel, symbols, inputs);
    double worst = 0;
    for (std::int64_t i = 0; i < points; ++i) {
      const double x = 0.7F * -static_cast<double>(i) / 128,
                   exact = std::exp(x) / (1 + std::exp(x)), value = got[0].real_at(i);
      if (exact < 1e-38) ASSERT_LE(value, 2e-38) << x;
      else
        worst = std::max(
            worst, std::abs(value / exact - 1) / (std::numeric_limits<float>::epsilon() * (1 - x)));
    }
    EXPECT_LE(worst, 1.5);
  }
}

}  // namespace
}  // namespace anydim::codegen_cpu::testing
