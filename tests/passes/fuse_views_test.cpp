// Fusion of views: indices in the place of values, unless memory is cheaper.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ir/loops/loop_form.h"
#include "ir/text/parse.h"
#include "tests/passes/fused_kinds.h"
#include "tests/support/pass_fixture.h"

namespace anydim::tests {
namespace {

using namespace ir;

// Both sums read the cosine through one view: each would compute it again for every head.
TEST(FuseViews, WorkReadThroughASharedViewIsDoneOnce) {
  EXPECT_EQ(
      fused_kinds(R"(
fn @main(%a: Tensor[(s, 4), f32], %q: Tensor[(b, 3, s, 4), f32], %k: Tensor[(b, 3, s, 4), f32]) {
  %c = cos(%a)
  %shape = shape(1, 1, s, 4)
  %v = dyn.reshape(%c, %shape)
  %x = mul(%q, %v)
  %y = mul(%k, %v)
  return %x, %y
})",
                  {{{DType::F32, {5, 4}}, {DType::F32, {2, 3, 5, 4}}, {DType::F32, {2, 3, 5, 4}}}}),
      (KernelKinds{"map", "map", "map"}));
}

TEST(FuseViews, ViewsNeverExist) {
  EXPECT_EQ(
      fused_kinds(
          R"(
fn @main(%x: Tensor[(b, s, 12), f32]) {
  %shape = shape(b, s, 3, 4)
  %a = dyn.reshape(%x, %shape)
  %t = transpose(%a) {perm = (0, 2, 1, 3)}
  %c = strided_slice(%t) {starts = (1), ends = (3), axes = (3)}
  %e = exp(%c)
  return %e
})",
          {{{DType::F32, {2, 3, 12}}}, {{DType::F32, {1, 1, 12}}}, {{DType::F32, {0, 5, 12}}}}),
      KernelKinds{"map"});
}

// Where windows overlap, or a row is passed over several times, each element would be found by
// divisions several times, unless it lies in line.
TEST(FuseViews, WhatIsReadOftenOverJoinedDimsComesFromMemory) {
  const auto kinds = [](std::string_view perm, std::string_view rest) {
    const std::string text = fmt::format(R"(
fn @main(%x: Tensor[(n, h, w, 8), f32]) {{
  %t = transpose(%x) {{perm = ({})}}
  %joined = dyn.reshape(%t, shape(n, 2, 4*h*w))
  {}
  return %m
}})",
                                         perm, rest);
    return fused_kinds(text, {{{DType::F32, {2, 3, 4, 8}}}, {{DType::F32, {1, 1, 5, 8}}}});
  };
  const auto windows = [](std::string_view stride) {
    return "%v = windows(%joined) {axes = (2), dilations = (1), sizes = (3), strides = (" +
           std::string(stride) + ")} %m = reduce_max(%v) {axes = (3)}";
  };
  const KernelKinds apart{"map", "rows"}, one{"rows"};
  EXPECT_EQ(kinds("0, 3, 1, 2", windows("1")), apart);
  EXPECT_EQ(kinds("0, 3, 1, 2", windows("3")), one);
  EXPECT_EQ(kinds("0, 1, 2, 3", windows("1")), one);
  EXPECT_EQ(kinds("0, 3, 1, 2", "%m = softmax(%joined) {axis = 2}"), apart);
  EXPECT_EQ(kinds("0, 1, 2, 3", "%m = softmax(%joined) {axis = 2}"), one);
}

// Points of a running sum are computed together where they lie in line.
TEST(FuseViews, WhatIsSummedInOrderComesFromMemoryUnlessItIsInLine) {
  const auto kinds = [](std::string_view perm) {
    return fused_kinds(fmt::format(R"(
fn @main(%x: Tensor[(n, 3, h, w), f32], %of_line: Tensor[(n, 1, 1, 1), f32]) {{
  %t = transpose(%x) {{perm = ({})}}
  %axis = constant(i64 () [1])
  %s = cumulative_sum(%t, %axis)
  %y = mul(%s, %of_line)
  return %y
}})",
                                   perm),
                       {{{DType::F32, {2, 3, 4, 5}}, {DType::F32, {2, 1, 1, 1}}}});
  };
  EXPECT_EQ(kinds("0, 2, 3, 1"), (KernelKinds{"map", "ordered"}));
  EXPECT_EQ(kinds("0, 2, 1, 3"), KernelKinds{"ordered"});
}

// A loop over dims that a reshape joined is one loop for each of them, in a map and along rows.
TEST(FuseViews, IndicesOfJoinedDimsNeedNoDivision) {
  const std::string joins = R"(
fn @main(%x: Tensor[(n, h, w), f32]) {
  %t = transpose(%x) {perm = (0, 2, 1)}
  %y = dyn.reshape(%t, shape(n, h*w))
  return %y
})";
  const std::string normalises = R"(
fn @main(%x: Tensor[(n, h, 8, w), f32], %of_line: Tensor[(8, 1), f32]) {
  %m = mul(%x, %of_line)
  %joined = dyn.reshape(%m, shape(n, 2, 4*h*w))
  %y = softmax(%joined) {axis = 2}
  return %y
})";
  fused_kinds(joins,
              {{{DType::F32, {2, 3, 4}}}, {{DType::F32, {2, 1, 5}}}, {{DType::F32, {2, 0, 5}}}});
  const auto shapes = [](std::int64_t h, std::int64_t w) {
    return std::vector<Shape>{{DType::F32, {2, h, 8, w}}, {DType::F32, {8, 1}}};
  };
  fused_kinds(normalises, {shapes(3, 5), shapes(1, 1), shapes(2, 0)});
  for (const std::string& text : {joins, normalises}) {
    const Module module = fused(parse(text));
    ASSERT_EQ(module.regions.size(), 1u);
    const std::string loops = to_string(*loop_form_of(module.regions[0]));
    EXPECT_EQ(loops.find("floor_div($"), std::string::npos) << loops;
  }
}

// An index through many views outgrows what is worth computing an element, and in the end what a
// dim may be.
TEST(FuseViews, ChainsOfViewsAreSeveralKernels) {
  std::string text =
      "fn @main(%v0: Tensor[(a, b, c), f32]) {\n%flat = constant(i64 (1) [-1])\n%whole = "
      "shape_of(%v0)\n";
  for (int i = 0; i < 24; ++i)
    text += fmt::format(
        "%t{0} = transpose(%v{0}) {{perm = (1, 2, 0)}}\n%f{0} = dyn.reshape(%t{0}, %flat)\n%v{1} = "
        "dyn.reshape(%f{0}, %whole)\n",
        i, i + 1);
  text += "return %v24\n}";
  EXPECT_GT(fused_kinds(text, {{{DType::F32, {2, 3, 4}}}}).size(), 1u);
}

}  // namespace
}  // namespace anydim::tests
