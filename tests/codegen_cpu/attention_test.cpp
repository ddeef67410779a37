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

std::vector<Symbols> lengths(const std::vector<std::int64_t>& values) {
  std::vector<Symbols> result;
  for (const std::int64_t value : values) result.push_back({{"s", value}});
  return result;
}

TEST(Attention, PlainOperands) {
  const TestRegion region = make_region(R"(
fn @main(%q: Tensor[(3, s, 32), f32], %k: Tensor[(3, s, 32), f32], %v: Tensor[(3, s, 32), f32], %bias: Tensor[(3, 1, s), f32]) -> Tensor[(3, s, 32), f32]
  where s in [0, 600] {
  %y = attention(%q, %k, %v, %bias) {scale = 0.17}
  return %y
})");
  expect_attention_right(region, bucket_of({{0, 600}}),
                         lengths({0, 1, 2, 15, 16, 17, 27, 64, 65, 128, 129, 300}), {.most = 100});
  expect_attention_right(region, bucket_of({{0, 64}}), lengths({1, 8, 33, 64}));
}

TEST(Attention, HeadDims) {
  for (const auto& [depth, width] : std::vector<std::pair<int, int>>{
           {64, 64}, {80, 80}, {96, 96}, {128, 128}, {1, 1}, {5, 7}, {24, 40}, {16, 33}, {0, 8}}) {
    const std::string d = std::to_string(depth), e = std::to_string(width);
    SCOPED_TRACE(d + " " + e);
    const TestRegion region =
        make_region("fn @main(%q: Tensor[(2, s, " + d + "), f32], %k: Tensor[(2, t, " + d +
                    "), f32], %v: Tensor[(2, t, " + e + "), f32]) -> Tensor[(2, s, " + e +
                    "), f32] where s in [0, 600], t in [0, 600] {\n %y = attention(%q, %k, %v) "
                    "{scale = 0.3}\n return %y\n}");
    expect_attention_right(region, bucket_of({}),
                           {{{"s", 1}, {"t", 1}},
                            {{"s", 19}, {"t", 37}},
                            {{"s", 3}, {"t", 300}},
                            {{"s", 3}, {"t", 0}},
                            {{"s", 0}, {"t", 3}}});
  }
}

bool reads_keys_in_place(const ir::Schedule& schedule) {
  return schedule.find("keys_in_place").value_or(0) != 0;
}

// Every schedule of the space that reads keys where they lie, on every level that has one.
void expect_keys_in_place_right(const std::string& text, const std::vector<Symbols>& shapes) {
  SCOPED_TRACE(text);
  const TestRegion region = make_region(text);
  for (const Target& target : targets()) {
    std::size_t found = 0;
    for (const ir::Schedule& schedule : space(region, target, {})) {
      if (!reads_keys_in_place(schedule)) continue;
      ++found;
      // They are many, and alike but for their sizes.
      if (found % 23 == 1) expect_kernel_right(region, target, {}, schedule, shapes);
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

// Of a cache with room, whose heads three of the queries' share.
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

// Weights of NaN count as 0: of rows that see no key, and of rows with a score that is NaN.
TEST(Attention, WeightsOfNanAreZero) {
  for (const std::string dtype : {"f32", "f64"}) {
    for (const int width : {16, 33, 64}) {
      SCOPED_TRACE(dtype + " " + std::to_string(width));
      const TestRegion region = make_region(fmt::format(
          "fn @main(%q: Tensor[(2, s, 32), {0}], %k: Tensor[(2, t, 32), {0}], %v: Tensor[(2, t, "
          "{1}), {0}], %bias: Tensor[(2, s, t), {0}]) -> Tensor[(2, s, {1}), {0}] where s in [0, "
          "600], t in [0, 600] {{\n %y = attention(%q, %k, %v, %bias) {{scale = 0.3, zero_nan = "
          "1}}\n return %y\n}}",
          dtype, width));
      const double nan = std::numeric_limits<double>::quiet_NaN(),
                   infinity = std::numeric_limits<double>::infinity();
      const auto fill = [&](std::vector<ir::Tensor>& inputs) {
        ir::Tensor &values = inputs[2], &bias = inputs[3];
        const std::int64_t rows = bias.dims()[1], keys = bias.dims()[2];
        for (std::int64_t i = 0; i < bias.elements(); ++i) {
          const std::int64_t row = i / std::max<std::int64_t>(keys, 1) % rows, key = i % keys;
          if (row % 3 == 1 || (row % 3 == 2 && key % 4 == 0)) bias.set_real(i, -infinity);
          if (row % 5 == 3 && key == keys / 2) bias.set_real(i, nan);
        }
        if (values.elements() > 5) values.set_real(5, infinity);  // 0 times it is NaN
      };
      expect_right(region, {},
                   {{{"s", 1}, {"t", 1}},
                    {{"s", 3}, {"t", 40}},
                    {{"s", 4}, {"t", 300}},
                    {{"s", 19}, {"t", 37}},
                    {{"s", 3}, {"t", 0}}},
                   {.fill = fill});
    }
  }
}

// As exporters write it: heads split and transposed before, transposed and merged after, the mask
// made of integers.
TEST(Attention, HeadsOfOneTensorAndIntegerMask) {
  const TestRegion region = make_region(R"(
fn @main(%x: Tensor[(b, s, 128), f32], %y: Tensor[(b, s, 128), f32], %z: Tensor[(b, s, 128), f32], %mask: Tensor[(b, s), i64]) -> Tensor[(b, s, 128), f32]
  where b in [0, 64], s in [0, 512] {
  %heads = shape(b, s, 4, 32)
  %x4 = dyn.reshape(%x, %heads)
  %y4 = dyn.reshape(%y, %heads)
  %z4 = dyn.reshape(%z, %heads)
  %q = transpose(%x4) {perm = (0, 2, 1, 3)}
  %k = transpose(%y4) {perm = (0, 2, 1, 3)}
  %v = transpose(%z4) {perm = (0, 2, 1, 3)}
  %m = expand_dims(%mask) {axes = (1, 2)}
  %real = cast(%m) {to = f32}
  %one = constant(f32 () [1])
  %lowest = constant(f32 () [-3.4028234663852886e38])
  %off = sub(%one, %real)
  %bias = mul(%off, %lowest)
  %a = attention(%q, %k, %v, %bias) {scale = 0.17677669}
  %t = transpose(%a) {perm = (0, 2, 1, 3)}
  %merged = shape(b, s, 128)
  %r = dyn.reshape(%t, %merged)
  return %r
})");
  const auto fill = [](std::vector<ir::Tensor>& inputs) {
    const std::int64_t batch = inputs[3].dims()[0], length = inputs[3].dims()[1];
    for (std::int64_t b = 0; b < batch; ++b) {
      // Text b has b * 5 tokens less; the last text of several is masked from end to end.
      for (std::int64_t j = 0; j < length; ++j)
        inputs[3].set_integer(b * length + j, b + 1 == batch && batch > 1 ? 0
                                              : j < length - 5 * b        ? 1
                                                                          : 0);
    }
  };
  expect_attention_right(region, bucket_of({}),
                         {{{"b", 1}, {"s", 1}},
                          {{"b", 2}, {"s", 27}},
                          {{"b", 3}, {"s", 64}},
                          {{"b", 1}, {"s", 300}},
                          {{"b", 0}, {"s", 4}},
                          {{"b", 2}, {"s", 0}}},
                         {.most = 1, .fill = fill});
}

TEST(Attention, InfiniteScores) {
  const TestRegion region = make_region(R"(
fn @main(%q: Tensor[(1, s, 16), f32], %k: Tensor[(1, s, 16), f32], %v: Tensor[(1, s, 16), f32], %bias: Tensor[(1, s, s), f32]) -> Tensor[(1, s, 16), f32]
  where s in [0, 1200] {
  %y = attention(%q, %k, %v, %bias)
  return %y
})");
  const auto fill = [](std::vector<ir::Tensor>& inputs) { tests::fill_infinite_scores(inputs[3]); };
  expect_attention_right(region, bucket_of({{0, 1200}}), lengths({1, 4, 30, 300, 600}),
                         {.most = 100, .fill = fill});
}

// Heads of one merged tensor of rows laid end to end.
TEST(Attention, Segments) {
  const TestRegion region = make_region(tests::text_of({}));
  const auto fill = [](std::vector<ir::Tensor>& inputs) {
    tests::fill_offsets(inputs[1], inputs[0].dims()[0]);
  };
  expect_attention_right(region, bucket_of({}),
                         {{{"t", 0}, {"n", 1}},
                          {{"t", 0}, {"n", 3}},
                          {{"t", 1}, {"n", 2}},
                          {{"t", 64}, {"n", 2}},
                          {{"t", 74}, {"n", 4}},
                          {{"t", 221}, {"n", 7}},
                          {{"t", 300}, {"n", 2}},
                          {{"t", 900}, {"n", 40}}},
                         {.most = 100, .fill = fill});
}

TEST(Attention, SegmentsWithBias) {
  const TestRegion region = make_region(tests::text_of({.bias = true}));
  const auto fill = [](std::vector<ir::Tensor>& inputs) {
    tests::fill_offsets(inputs[1], inputs[0].dims()[0]);
  };
  expect_attention_right(region, bucket_of({}),
                         {{{"t", 1}, {"n", 2}}, {{"t", 91}, {"n", 6}}, {{"t", 250}, {"n", 9}}},
                         {.most = 1, .fill = fill});
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

TEST(Attention, ElementTypes) {
  // Loop forms widen narrower floats with casts.
  const auto region = [](const std::string& dtype, const std::string& widened) {
    const std::string tensor = "Tensor[(2, s, 24), " + dtype + "]";
    if (dtype == widened) {
      return make_region(
          "fn @main(%q: " + tensor + ", %k: " + tensor + ", %v: " + tensor + ") -> " + tensor +
          " where s in [0, 600] {\n %y = attention(%q, %k, %v) {scale = 0.2}\n return %y\n}");
    }
    return make_region(
        "fn @main(%q: " + tensor + ", %k: " + tensor + ", %v: " + tensor + ") -> " + tensor +
        " where s in [0, 600] {\n %qw = cast(%q) {to = " + widened +
        "}\n %kw = cast(%k) {to = " + widened + "}\n %vw = cast(%v) {to = " + widened +
        "}\n %y = attention(%qw, %kw, %vw) {scale = 0.2}\n %z = cast(%y) {to = " + dtype +
        "}\n return %z\n}");
  };
  const auto expect = [&](const std::string& dtype, const std::string& widened, double tolerance) {
    SCOPED_TRACE(dtype);
    expect_attention_right(region(dtype, widened), bucket_of({{0, 600}}), lengths({0, 1, 20, 70}),
                           {.tolerance = tolerance, .most = 1});
  };
  expect("f64", "f64", 1e-12);
  expect("f16", "f32", 2e-3);
  expect("bf16", "f32", 1e-2);
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
