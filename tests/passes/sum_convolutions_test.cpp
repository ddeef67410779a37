// Sums of convolutions of one image: what they give beside what the model's branches give.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

#include "ir/reference/evaluate.h"
#include "tests/support/pass_fixture.h"
#include "tests/support/region_fixture.h"

namespace anydim::passes {
namespace {

using namespace ir;

constexpr std::int64_t channels = 6;

struct Branch {
  std::int64_t size = 3, dilation = 1, stride = 1, padding = 1;  // of both places' axes
  std::int64_t groups = 1;
  bool scaled = false;  // and shifted, as a norm is after constants are computed
};

// Of %x into %NAME.
std::string text_of(const Branch& branch, const std::string& name, int seed) {
  const auto& [size, dilation, stride, padding, groups, scaled] = branch;
  std::string text, image = "x";
  if (padding > 0) {
    image = "p" + name;
    text +=
        fmt::format("  %{0} = pad(%x) {{before = ({1}, {1}), after = ({1}, {1}), axes = (2, 3)}}\n",
                    image, padding);
  }
  const std::string height = tests::windows_along("h", padding, size, dilation, stride),
                    width = tests::windows_along("w", padding, size, dilation, stride);
  text += fmt::format(
      "  %v{0} = windows(%{1}) {{axes = (2, 3), sizes = ({2}, {2}), strides = ({3}, {3}), "
      "dilations = ({4}, {4})}}\n",
      name, image, size, stride, dilation);
  if (groups == channels) {
    text += fmt::format(R"(  %w{0} = constant(f32 ({1}, 1, 1, {2}, {2}) @random({3}))
  %m{0} = mul(%v{0}, %w{0})
  %c{0} = reduce_sum(%m{0}) {{axes = (4, 5)}}
)",
                        name, channels, size, seed);
  } else {
    const std::string of_group = groups == 1 ? "" : fmt::format("{}, ", groups);
    text += fmt::format(R"(  %t{0} = transpose(%v{0}) {{perm = (0, 1, 4, 5, 2, 3)}}
  %r{0} = dyn.reshape(%t{0}, shape(n, {1}{2}, ({3})*({4})))
  %w{0} = constant(f32 ({1}{5}, {2}) @random({6}))
  %m{0} = matmul(%w{0}, %r{0})
  %c{0} = dyn.reshape(%m{0}, shape(n, {7}, {3}, {4}))
)",
                        name, of_group, channels / groups * size * size, height, width,
                        channels / groups, seed, channels);
  }
  if (!scaled) {
    return text + fmt::format(R"(  %b{0} = constant(f32 ({1}, 1, 1) @random({2}))
  %{0} = add(%c{0}, %b{0})
)",
                              name, channels, seed + 1);
  }
  return text + fmt::format(R"(  %d{0} = constant(f32 ({1}, 1, 1) @random({2}))
  %e{0} = sub(%c{0}, %d{0})
  %f{0} = constant(f32 () [0.7])
  %g{0} = div(%e{0}, %f{0})
  %i{0} = constant(f32 (1, {1}, 1, 1) @random({3}))
  %{0} = mul(%i{0}, %g{0})
)",
                            name, channels, seed + 1, seed + 2);
}

std::string text_of(const std::vector<Branch>& branches, bool with_image) {
  std::string text = fmt::format(
      "fn @main(%x: Tensor[(n, {}, h, w), f32])\n"
      "  where n in [0, 9], h in [13, 40], w in [13, 40] {{\n",
      channels);
  std::string sum;
  for (std::size_t i = 0; i < branches.size(); ++i) {
    const std::string name = fmt::format("y{}", i);
    text += text_of(branches[i], name, static_cast<int>(10 * i + 1));
    const std::string next = i == 0 ? name : fmt::format("s{}", i);
    if (i > 0) text += fmt::format("  %{} = add(%{}, %{})\n", next, name, sum);
    sum = next;
  }
  if (with_image) {
    text += fmt::format(
        "  %scale = constant(f32 ({}, 1, 1) @random(5))\n"
        "  %image = mul(%x, %scale)\n  %all = add(%image, %{})\n",
        channels, sum);
    sum = "all";
  }
  return text + fmt::format("  %end = relu(%{})\n  return %end\n}}", sum);
}

std::int64_t convolutions(const Module& module) {
  return std::ranges::count_if(module.functions[0].body.bindings, [](const Binding& binding) {
    return binding.op == Op::matmul || binding.op == Op::reduce_sum;
  });
}

// The number of convolutions that are left.
std::int64_t left_of(const std::vector<Branch>& branches, bool with_image = false) {
  const std::string text = text_of(branches, with_image);
  SCOPED_TRACE(text);
  const Module plain = tests::after_passes(text, {"infer_types"}),
               summed = tests::after_passes(
                   text, {"infer_types", "dynamic_to_static", "sum_convolutions"});
  for (const auto& [images, height, width] :
       std::vector<std::array<std::int64_t, 3>>{{1, 13, 13}, {2, 14, 17}, {0, 15, 15}}) {
    const std::vector<Tensor> inputs{
        tests::sample(DType::F32, {images, channels, height, width}, 3)};
    tests::expect_close(evaluate(summed, summed.functions[0], inputs),
                        evaluate(plain, plain.functions[0], inputs), 1e-4);
  }
  return convolutions(summed);
}

TEST(SumConvolutions, Branches) {
  EXPECT_EQ(left_of({{.size = 3}, {.size = 1, .padding = 0}}), 1);
  EXPECT_EQ(left_of({{.size = 1, .padding = 0, .scaled = true}, {.size = 3}, {.size = 3}}, true),
            1);
  EXPECT_EQ(left_of({{.size = 3, .stride = 2}, {.size = 1, .stride = 2, .padding = 0}}), 1);
  EXPECT_EQ(left_of({{.size = 3, .scaled = true}}, true), 1);
}

TEST(SumConvolutions, Groups) {
  EXPECT_EQ(left_of({{.size = 5, .padding = 2, .groups = channels},
                     {.size = 3, .groups = channels, .scaled = true}},
                    true),
            1);
  EXPECT_EQ(left_of({{.size = 3, .groups = 2}, {.size = 1, .padding = 0, .groups = 2}}, true), 1);
  // Of each group's channels, some.
  EXPECT_EQ(
      left_of({{.size = 3}, {.size = 3, .groups = 2}, {.size = 1, .padding = 0, .groups = 6}}), 1);
  EXPECT_EQ(left_of({{.size = 3, .groups = 3}, {.size = 3, .groups = 2}}), 2);
}

TEST(SumConvolutions, Dilations) {
  EXPECT_EQ(left_of({{.size = 7, .padding = 3, .groups = channels},
                     {.size = 3, .dilation = 3, .padding = 3, .groups = channels},
                     {.size = 3, .dilation = 2, .padding = 2, .groups = channels}}),
            1);
  EXPECT_EQ(
      left_of({{.size = 5, .dilation = 2, .padding = 4}, {.size = 3, .dilation = 4, .padding = 4}}),
      1);
  EXPECT_EQ(left_of({{.size = 5, .dilation = 2, .padding = 4}, {.size = 3}}), 2);
}

// Windows that reach beyond the others', or have places between theirs.
TEST(SumConvolutions, OnlyWithinWindows) {
  EXPECT_EQ(left_of({{.size = 3}, {.size = 3, .dilation = 2, .padding = 2}}), 2);
  EXPECT_EQ(left_of({{.size = 5, .dilation = 3, .padding = 6}, {.size = 5, .padding = 2}}), 2);
}

TEST(SumConvolutions, DrawnBranches) {
  std::mt19937 random(7);
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  std::int64_t given = 0, left = 0;
  for (int round = 0; round < 60; ++round) {
    std::vector<Branch> branches(static_cast<std::size_t>(draw(2, 4)));
    const std::int64_t stride = draw(1, 2);
    for (Branch& branch : branches) {
      constexpr std::array<std::int64_t, 4> groups{1, 2, 3, channels};
      branch = {.size = 2 * draw(0, 2) + 1,
                .dilation = draw(1, 3),
                .stride = stride,
                .groups = groups[static_cast<std::size_t>(draw(0, 3))],
                .scaled = draw(0, 1) == 1};
      branch.padding = branch.size / 2 * branch.dilation;
    }
    given += std::ssize(branches);
    left += left_of(branches, stride == 1 && draw(0, 1) == 1);
  }
  EXPECT_LT(left, given * 3 / 4);
}

}  // namespace
}  // namespace anydim::passes
