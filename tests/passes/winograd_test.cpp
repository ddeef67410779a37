// Convolutions with fewer multiplications: what they give beside what the model's sums give.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>

#include "ir/reference/evaluate.h"
#include "tests/support/pass_fixture.h"
#include "tests/support/region_fixture.h"

namespace anydim::passes {
namespace {

using namespace ir;

struct Convolution {
  int down = 1, across = 1;  // dilations
  int padding = 1;           // dilations of zeros at each border
  int channels = 64, outputs = 72;
  std::int64_t longest = 99;  // side of an image
};

std::string text_of(const Convolution& given) {
  const auto& [down, across, padding, channels, outputs, longest] = given;
  const std::string padded =
      padding == 0 ? "  %p = relu(%x)\n"
                   : fmt::format(
                         "  %p = pad(%x) {{before = ({0}, {1}), after = ({0}, {1}), axes = "
                         "(1, 2)}}\n",
                         padding * down, padding * across);
  const std::string height = tests::windows_along("h", padding * down, 3, down),
                    width = tests::windows_along("w", padding * across, 3, across);
  return fmt::format(R"(fn @main(%x: Tensor[(n, h, w, {0}), f32])
  where n in [0, 9], h in [7, {8}], w in [7, {8}] {{
{1}  %v = windows(%p) {{axes = (1, 2), sizes = (3, 3), dilations = ({2}, {3})}}
  %t = transpose(%v) {{perm = (0, 1, 2, 4, 5, 3)}}
  %rows = dyn.reshape(%t, shape(n, {4}*{5}, {6}))
  %w = constant(f32 ({7}, {6}) @random(1))
  %right = transpose(%w) {{perm = (1, 0)}}
  %y = matmul(%rows, %right)
  return %y
}})",
                     channels, padded, down, across, height, width, 9 * channels, outputs, longest);
}

Module rewritten(const Convolution& convolution) {
  return tests::after_passes(text_of(convolution),
                             {"infer_types", "dynamic_to_static", "winograd"});
}

// The dims of the products' results.
std::vector<std::vector<Dim>> products(const Module& module) {
  std::vector<std::vector<Dim>> found;
  const Function& main = module.functions[0];
  for (const Binding& binding : main.body.bindings)
    if (binding.op == Op::matmul) found.push_back(main.tensor_type(binding.results[0]).dims);
  return found;
}

void expect_right(const Convolution& convolution) {
  SCOPED_TRACE(text_of(convolution));
  const Module plain = tests::after_passes(text_of(convolution), {"infer_types"}),
               tiled = rewritten(convolution);
  ASSERT_EQ(products(tiled).size(), 1U);
  EXPECT_EQ(products(tiled)[0].front(), Dim(16));
  for (const auto& [images, height, width] : std::vector<std::array<std::int64_t, 3>>{
           {1, 7, 7}, {2, 8, 13}, {1, 16, 9}, {1, 11, 10}, {0, 8, 8}}) {
    const std::vector<Tensor> inputs{
        tests::sample(DType::F32, {images, height, width, convolution.channels}, 3)};
    tests::expect_close(evaluate(tiled, tiled.functions[0], inputs),
                        evaluate(plain, plain.functions[0], inputs), 1e-4);
  }
}

TEST(Winograd, EveryEdgeOfTiles) {
  for (const int padding : {0, 1, 2}) expect_right({.padding = padding});
}

TEST(Winograd, Dilations) {
  expect_right({.down = 2, .across = 2});
  expect_right({.down = 1, .across = 3});
  expect_right({.down = 3, .across = 2, .padding = 0});
}

TEST(Winograd, FourNinthsOfTheMultiplications) {
  const auto dims = products(rewritten({})).at(0);
  const Dim n = Dim::symbol("n"), h = Dim::symbol("h"), w = Dim::symbol("w");
  EXPECT_EQ(dims, (std::vector<Dim>{16, n * ceil_div(h, 2) * ceil_div(w, 2), 72}));
}

bool is_tiled(const Convolution& convolution) {
  return products(rewritten(convolution)).at(0).front() == Dim(16);
}

TEST(Winograd, ManyChannelsOnly) {
  EXPECT_TRUE(is_tiled({.channels = 64, .outputs = 64}));
  EXPECT_FALSE(is_tiled({.channels = 63}));
  EXPECT_FALSE(is_tiled({.outputs = 63}));
}

// Tiles are large: none where images may be, but where many channels say that they are not.
TEST(Winograd, SmallImagesOnly) {
  constexpr std::int64_t unknown = default_symbol_maximum;
  EXPECT_FALSE(is_tiled({.longest = 1000}));
  EXPECT_FALSE(is_tiled({.longest = unknown}));
  EXPECT_TRUE(is_tiled({.channels = 128, .outputs = 128, .longest = unknown}));
}

TEST(Winograd, OnlyWhatIsMultipliedAsF32) {
  Module module = tests::after_passes(text_of({}), {"infer_types", "dynamic_to_static"});
  PipelineOptions options;
  options.precision = DType::BF16;
  PassContext context{.options = options};
  const std::vector<std::string> names{"winograd"};
  run_passes(module, context, names);
  EXPECT_NE(products(module).at(0).front(), Dim(16));
}

}  // namespace
}  // namespace anydim::passes
