// Convolutions with channels innermost, whose image lines are packed in place of their rows.
#include "codegen_cpu/matmul/windowed_rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <tuple>

#include "codegen_cpu/matmul/matmul_operands.h"
#include "codegen_cpu/matmul/window_taps.h"
#include "tests/codegen_cpu/expect_right.h"

namespace anydim::codegen_cpu::testing {
namespace {

using ir::Dim;

struct Convolution {
  std::string name;
  std::string height = "8", width = "8";  // height "": a sequence
  std::int64_t channels = 16, outputs = 20;
  std::int64_t lines = 3, places = 3;  // of a window
  std::int64_t line_stride = 1, place_stride = 1, line_dilation = 1, place_dilation = 1;
  std::int64_t border = 1;
  std::string dtype = "f32";
  bool shares_lines = true;
  std::vector<tests::SymbolValues> shapes{{{"n", 1}}, {{"n", 3}}, {{"n", 0}}};
  bool planes = false;            // channels are outermost, in the image and in the depth
  std::string mode = "constant";  // of the border
  std::string slices = "";        // of a volume whose windows have 3, with borders of 1; "": images
  std::string images = "n";

  struct Axis {
    std::string extent;
    std::int64_t size = 3, stride = 1, dilation = 1, border = 1;
  };
  std::vector<Axis> axes() const {
    std::vector<Axis> all{{slices},
                          {height, lines, line_stride, line_dilation, border},
                          {width, places, place_stride, place_dilation, border}};
    std::erase_if(all, [](const Axis& axis) { return axis.extent.empty(); });
    return all;
  }
  std::int64_t depth() const {
    std::int64_t all = channels;
    for (const Axis& axis : axes()) all *= axis.size;
    return all;
  }

  std::string text() const {
    const std::vector<Axis> along = axes();
    const auto listed = [&](const auto& of) {
      std::vector<std::string> items;
      for (const Axis& axis : along) items.push_back(fmt::format("{}", of(axis)));
      return fmt::format("{}", fmt::join(items, ", "));
    };
    const std::string image = listed([](const Axis& axis) { return axis.extent; }),
                      result = listed([](const Axis& axis) {
                        return tests::windows_along(axis.extent, axis.border, axis.size,
                                                    axis.dilation, axis.stride);
                      });
    // Images, outputs and windows along each axis, and channels.
    const std::size_t rank = along.size(), first = planes ? 2 : 1;
    std::vector<std::size_t> dims, order{0};
    for (std::size_t i = 0; i < rank; ++i) dims.push_back(first + i);
    for (std::size_t i = 0; i < rank; ++i) order.push_back(first + i);
    if (planes) order.push_back(1);
    for (std::size_t i = 0; i < rank; ++i) order.push_back(rank + 2 + i);
    if (!planes) order.push_back(rank + 1);
    return fmt::format(
        R"(
fn @main(%x: Tensor[({x}), {t}], %k: Tensor[({d}, {o}), {t}], %r: Tensor[({n}, {y}, {o}), {t}]) -> Tensor[({n}, {y}, {o}), {t}]
  where n in [0, 50]{limits} {{
  %p = pad(%x) {{before = ({b}), after = ({b}), axes = ({axes}), mode = "{mode}"}}
  %v = windows(%p) {{axes = ({axes}), sizes = ({sizes}), strides = ({strides}), dilations = ({dilations})}}
  %t = transpose(%v) {{perm = ({perm})}}
  %s = shape({n}, {y}, {d})
  %a = dyn.reshape(%t, %s)
  %m = matmul(%a, %k)
  %z = add(%m, %r)
  %y = relu(%z)
  return %y
}})",
        fmt::arg("x", planes ? fmt::format("{}, {}, {}", images, channels, image)
                             : fmt::format("{}, {}, {}", images, image, channels)),
        fmt::arg("n", images), fmt::arg("axes", fmt::join(dims, ", ")),
        fmt::arg("perm", fmt::join(order, ", ")),
        fmt::arg("sizes", listed([](const Axis& axis) { return axis.size; })),
        fmt::arg("strides", listed([](const Axis& axis) { return axis.stride; })),
        fmt::arg("dilations", listed([](const Axis& axis) { return axis.dilation; })),
        fmt::arg("d", depth()), fmt::arg("o", outputs), fmt::arg("y", result),
        fmt::arg("b", listed([](const Axis& axis) { return axis.border; })), fmt::arg("mode", mode),
        fmt::arg("t", dtype),
        fmt::arg("limits", std::string(height == "h" ? ", h in [4, 100]" : "") +
                               (width == "w" ? ", w in [4, 100]" : "") +
                               (slices == "s" ? ", s in [1, 100]" : "")));
  }
};

class WindowedRowsOf : public ::testing::TestWithParam<Convolution> {};

TEST_P(WindowedRowsOf, AgreeWithTheReference) {
  const Convolution& one = GetParam();
  const TestRegion region = make_region(one.text(), {1});
  // Rounding grows with the depth.
  const double depth = static_cast<double>(one.depth());
  expect_right(region, {}, one.shapes,
               {.tolerance = one.dtype == "f32" ? 5e-5 * std::max(depth / 4096, 1.0) : 5e-2});
}

TEST_P(WindowedRowsOf, AreFoundWhereTheyShareLines) {
  const Convolution& one = GetParam();
  const TestRegion region = make_region(one.text(), {1});
  ir::LoopForm form = region.form;
  const auto& matmul = std::get<ir::MatmulForm>(form.kind);
  std::uint32_t number = 0;
  const auto found = windowed_rows(
      matmul.left, matmul.m, matmul.k, [&] { return ir::loop_leaf(ir::LoopRole::Made, number++); },
      form.symbols);
  ASSERT_EQ(found.has_value(), one.shares_lines);
  if (!found) return;
  EXPECT_EQ(found->planes, one.planes);
  EXPECT_EQ(found->sequence, one.height.empty());
  const auto expect_axis = [](const WindowedRows::Axis& got, std::int64_t size, std::int64_t stride,
                              std::int64_t dilation) {
    EXPECT_EQ(got.size, size);
    EXPECT_EQ(got.step * dilation, got.dilation * stride);
  };
  if (found->sequence)
    return expect_axis(found->lines, one.places, one.place_stride, one.place_dilation);
  expect_axis(found->lines, one.lines, one.line_stride, one.line_dilation);
  expect_axis(found->places, one.places, one.place_stride, one.place_dilation);
  const std::int64_t elements = one.planes ? 1 : one.channels;
  EXPECT_EQ(found->run(), (found->places.dilation > 1 ? 1 : one.places) * elements);
  EXPECT_EQ(found->row_elements(), found->places.step * elements);
}

TEST(WindowTaps, AreFoundWhereABorderMakesThemZero) {
  const auto taps_of = [](Convolution one) {
    one.line_dilation = 9;
    const TestRegion region = make_region(one.text(), {1});
    ir::LoopForm form = region.form;
    const auto& matmul = std::get<ir::MatmulForm>(form.kind);
    std::uint32_t number = 0;
    return window_taps(
        matmul.left, matmul.k, [&] { return ir::loop_leaf(ir::LoopRole::Made, number++); },
        form.symbols);
  };
  const auto found = taps_of({.name = "", .channels = 32, .border = 9});
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->count, 9);
  EXPECT_EQ(found->depth, 32);
  EXPECT_EQ(found->conditions.size(), 4U);  // two borders each way
  EXPECT_FALSE(taps_of({.name = "", .height = "30", .channels = 32, .border = 0}));
  EXPECT_FALSE(taps_of({.name = "", .channels = 8, .border = 9}));  // of too little depth
  EXPECT_FALSE(taps_of({.name = "", .channels = 32, .border = 9, .planes = true}));
  EXPECT_FALSE(taps_of(
      {.name = "", .height = "20", .width = "20", .channels = 32, .border = 9, .mode = "reflect"}));
}

// Lines are packed whole, but the rows end within one.
TEST(WindowedRows, EndWithTheLastLine) {
  const TestRegion region = make_region(R"(
fn @main(%x: Tensor[(4, 6, 16), f32], %k: Tensor[(144, 20), f32]) -> Tensor[(14, 20), f32] {
  %p = pad(%x) {before = (1, 1), after = (1, 1), axes = (0, 1)}
  %v = windows(%p) {axes = (0, 1), sizes = (3, 3)}
  %t = transpose(%v) {perm = (0, 1, 3, 4, 2)}
  %s = shape(24, 144)
  %a = dyn.reshape(%t, %s)
  %b = strided_slice(%a) {starts = (0), ends = (14), axes = (0)}
  %y = matmul(%b, %k)
  return %y
})",
                                        {1});
  expect_right(region, {}, {{}}, {.tolerance = 5e-5});
}

// What tells groups apart is a batch, each of which has lines of its own.
TEST(WindowedRows, OfGroupsOfChannels) {
  for (const auto& [dtype, outputs, stride] :
       {std::tuple{"f32", 16, 1}, {"f32", 20, 2}, {"bf16", 32, 1}}) {
    SCOPED_TRACE(fmt::format("{} {} by {}", dtype, outputs, stride));
    const TestRegion region =
        make_region(fmt::format(R"(
fn @main(%x: Tensor[(n, 9, w, 48), {t}], %k: Tensor[(3, 144, {o}), {t}]) -> Tensor[(n, {h}*ceil_div(w, {s}), 3, {o}), {t}]
  where n in [0, 50], w in [4, 100] {{
  %p = pad(%x) {{before = (1, 1), after = (1, 1), axes = (1, 2)}}
  %v = windows(%p) {{axes = (1, 2), sizes = (3, 3), strides = ({s}, {s})}}
  %t = transpose(%v) {{perm = (0, 1, 2, 4, 5, 3)}}
  %g = dyn.reshape(%t, shape(n, {h}, ceil_div(w, {s}), 3, 3, 3, 16))
  %l = transpose(%g) {{perm = (0, 5, 1, 2, 3, 4, 6)}}
  %a = dyn.reshape(%l, shape(n, 3, {h}*ceil_div(w, {s}), 144))
  %m = matmul(%a, %k)
  %y = transpose(%m) {{perm = (0, 2, 1, 3)}}
  return %y
}})",
                                fmt::arg("t", dtype), fmt::arg("o", outputs), fmt::arg("s", stride),
                                fmt::arg("h", stride == 1 ? 9 : 5)),
                    {1});
    ir::LoopForm form = region.form;
    const auto& matmul = std::get<ir::MatmulForm>(form.kind);
    EXPECT_EQ(matmul.batch.size(), 2u);
    std::uint32_t number = 0;
    const auto found = windowed_rows(
        matmul.left, matmul.m, matmul.k,
        [&] { return ir::loop_leaf(ir::LoopRole::Made, number++); }, form.symbols);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->run(), 48);
    expect_right(region, {}, {{{"n", 1}, {"w", 30}}, {{"n", 3}, {"w", 5}}, {{"n", 0}, {"w", 4}}},
                 {.tolerance = std::string_view(dtype) == "f32" ? 5e-5 : 5e-2});
  }
}

INSTANTIATE_TEST_SUITE_P(
    Convolutions, WindowedRowsOf,
    ::testing::Values(
        Convolution{.name = "ThreeByThree", .width = "30"},
        Convolution{.name = "LinesOfAnyNumber",
                    .height = "h",
                    .shapes = {{{"n", 1}, {"h", 4}}, {{"n", 2}, {"h", 13}}, {{"n", 5}, {"h", 7}}}},
        Convolution{.name = "LinesOfAnyWidth",
                    .height = "h",
                    .width = "w",
                    .shapes = {{{"n", 1}, {"h", 4}, {"w", 31}},
                               {{"n", 2}, {"h", 5}, {"w", 4}},
                               {{"n", 3}, {"h", 30}, {"w", 100}},
                               {{"n", 0}, {"h", 9}, {"w", 9}}}},
        Convolution{.name = "LinesOfAnyWidthByStrides",
                    .width = "w",
                    .line_stride = 2,
                    .place_stride = 2,
                    .shapes = {{{"n", 2}, {"w", 33}}, {{"n", 1}, {"w", 4}}}},
        Convolution{.name = "PlacesOfAnyWidthThatShareSets",
                    .height = "h",
                    .width = "w",
                    .channels = 1024,
                    .lines = 2,
                    .places = 2,
                    .shapes = {{{"n", 1}, {"h", 5}, {"w", 17}}}},
        Convolution{.name = "ByStrides",
                    .height = "11",
                    .width = "13",
                    .line_stride = 2,
                    .place_stride = 2},
        // In the first-level cache; they are packed a line further apart.
        Convolution{.name = "PlacesThatShareSets",
                    .width = "14",
                    .channels = 1024,
                    .lines = 2,
                    .places = 2},
        Convolution{.name = "PlacesThatShareSetsByStride",
                    .height = "4",
                    .width = "30",
                    .channels = 512,
                    .places = 2,
                    .place_stride = 2,
                    .border = 0},
        Convolution{.name = "NarrowPlacesThatShareSets",
                    .height = "4",
                    .width = "14",
                    .channels = 2048,
                    .dtype = "bf16"},
        Convolution{.name = "ChannelsThatFillNoVector", .width = "7", .channels = 5, .outputs = 16},
        Convolution{.name = "WindowsLowerThanTheirStride",
                    .height = "10",
                    .lines = 2,
                    .places = 4,
                    .line_stride = 3,
                    .place_stride = 1,
                    .border = 0},
        Convolution{
            .name = "WindowsOfWideLines", .width = "20", .lines = 2, .places = 5, .border = 2},
        Convolution{.name = "StridesThatDilationsDivide",
                    .height = "12",
                    .line_stride = 2,
                    .line_dilation = 2,
                    .border = 2},
        Convolution{.name = "DilationsBeyondStrides", .line_dilation = 2, .border = 2},
        Convolution{.name = "PlacesApart",
                    .height = "h",
                    .width = "w",
                    .line_dilation = 3,
                    .place_dilation = 2,
                    .border = 3,
                    .shapes = {{{"n", 1}, {"h", 4}, {"w", 31}}, {{"n", 2}, {"h", 40}, {"w", 4}}}},
        Convolution{.name = "PlacesApartByStrides",
                    .width = "40",
                    .line_stride = 2,
                    .place_stride = 4,
                    .place_dilation = 2,
                    .border = 2},
        Convolution{.name = "DilationsAndStridesWithoutCommonStep",
                    .width = "20",
                    .place_stride = 2,
                    .place_dilation = 3,
                    .border = 3,
                    .shares_lines = false},
        Convolution{.name = "PlacesApartThatShareSets",
                    .width = "14",
                    .channels = 1024,
                    .lines = 2,
                    .places = 2,
                    .place_dilation = 2},
        Convolution{.name = "HalfPrecisionOfPlacesApart",
                    .width = "19",
                    .channels = 6,
                    .line_dilation = 2,
                    .place_dilation = 2,
                    .border = 2,
                    .dtype = "bf16"},
        Convolution{.name = "PlacesOfPlanesApart",
                    .width = "20",
                    .place_dilation = 2,
                    .border = 2,
                    .shares_lines = false,
                    .planes = true},
        Convolution{.name = "LinesOfPlanesApart",
                    .width = "20",
                    .line_dilation = 2,
                    .border = 2,
                    .planes = true},
        Convolution{.name = "Volumes", .width = "20", .slices = "4"},
        Convolution{.name = "VolumesOfAnySize",
                    .height = "h",
                    .width = "w",
                    .shapes = {{{"n", 1}, {"h", 4}, {"w", 31}, {"s", 5}},
                               {{"n", 3}, {"h", 5}, {"w", 4}, {"s", 1}},
                               {{"n", 0}, {"h", 9}, {"w", 9}, {"s", 2}}},
                    .slices = "s"},
        Convolution{.name = "VolumesByStrides",
                    .height = "9",
                    .width = "31",
                    .channels = 5,
                    .line_stride = 2,
                    .place_stride = 2,
                    .slices = "3"},
        Convolution{.name = "VolumesWhosePlacesShareSets",
                    .height = "3",
                    .width = "14",
                    .channels = 1024,
                    .lines = 2,
                    .places = 2,
                    .slices = "2"},
        Convolution{.name = "VolumesWhosePlacesLieApart",
                    .width = "20",
                    .line_dilation = 2,
                    .place_dilation = 2,
                    .border = 2,
                    .slices = "3"},
        Convolution{.name = "Sequences",
                    .height = "",
                    .width = "w",
                    .shapes = {{{"n", 1}, {"w", 4}},
                               {{"n", 3}, {"w", 31}},
                               {{"n", 40}, {"w", 5}},
                               {{"n", 0}, {"w", 9}}}},
        Convolution{.name = "OneSequence",
                    .height = "",
                    .width = "w",
                    .places = 7,
                    .place_stride = 2,
                    .border = 3,
                    .shapes = {{{"n", 1}, {"w", 4}}, {{"n", 1}, {"w", 99}}},
                    .images = "1"},
        Convolution{.name = "SequencesOfPlacesApart",
                    .height = "",
                    .width = "50",
                    .channels = 5,
                    .place_dilation = 3,
                    .border = 3},
        Convolution{.name = "SequencesShorterThanTheirWindows",
                    .height = "",
                    .width = "5",
                    .place_dilation = 16,
                    .border = 16,
                    .shares_lines = false},
        Convolution{.name = "SequencesWhosePlacesShareSets",
                    .height = "",
                    .width = "30",
                    .channels = 512,
                    .place_stride = 2},
        Convolution{.name = "SequencesSideBySide",
                    .height = "",
                    .width = "32",
                    .places = 2,
                    .place_stride = 2,
                    .border = 0,
                    .shares_lines = false},
        Convolution{.name = "SequencesInHalfPrecision",
                    .height = "",
                    .width = "w",
                    .channels = 6,
                    .dtype = "bf16",
                    .shapes = {{{"n", 4}, {"w", 23}}}},
        Convolution{.name = "VolumesOfOneChannel",
                    .height = "h",
                    .width = "30",
                    .channels = 1,
                    .shapes = {{{"n", 2}, {"h", 5}, {"s", 4}}},
                    .planes = true,
                    .slices = "s"},
        Convolution{.name = "VolumesOfChannelsOutermost",
                    .height = "h",
                    .width = "30",
                    .channels = 3,
                    .shapes = {{{"n", 2}, {"h", 5}, {"s", 4}}},
                    .planes = true,
                    .slices = "s"},
        Convolution{.name = "WindowsThatReachBesideTheImage",
                    .height = "h",
                    .width = "20",
                    .channels = 32,
                    .line_dilation = 9,
                    .border = 9,
                    .shares_lines = false,
                    .shapes = {{{"n", 1}, {"h", 5}}, {{"n", 2}, {"h", 11}}, {{"n", 3}, {"h", 30}}}},
        Convolution{.name = "WindowsThatReachBesideTheImageInHalves",
                    .height = "6",
                    .channels = 64,
                    .line_dilation = 6,
                    .border = 6,
                    .dtype = "bf16",
                    .shares_lines = false},
        Convolution{.name = "WindowsSideBySide",
                    .lines = 2,
                    .places = 2,
                    .line_stride = 2,
                    .place_stride = 2,
                    .border = 0,
                    .shares_lines = false},
        Convolution{.name = "ChannelsOutermost",
                    .height = "11",
                    .width = "23",
                    .channels = 3,
                    .lines = 5,
                    .places = 7,
                    .line_stride = 2,
                    .place_stride = 2,
                    .border = 3,
                    .planes = true},
        Convolution{.name = "ManyChannelsOutermost",
                    .height = "h",
                    .channels = 20,
                    .shapes = {{{"n", 1}, {"h", 4}}, {{"n", 3}, {"h", 9}}},
                    .planes = true},
        Convolution{.name = "ChannelsOutermostOfAnyWidth",
                    .height = "h",
                    .width = "w",
                    .channels = 3,
                    .lines = 5,
                    .places = 7,
                    .line_stride = 2,
                    .place_stride = 2,
                    .border = 3,
                    .shapes = {{{"n", 1}, {"h", 23}, {"w", 40}}, {{"n", 2}, {"h", 4}, {"w", 5}}},
                    .planes = true},
        Convolution{.name = "BordersThatReflect",
                    .height = "h",
                    .width = "23",
                    .border = 2,
                    .shapes = {{{"n", 1}, {"h", 4}}, {{"n", 2}, {"h", 11}}},
                    .mode = "reflect"},
        Convolution{.name = "HalfPrecisionOfAnyWidth",
                    .width = "w",
                    .dtype = "bf16",
                    .shapes = {{{"n", 2}, {"w", 21}}}},
        Convolution{.name = "HalfPrecision", .width = "9", .dtype = "bf16"}),
    [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace anydim::codegen_cpu::testing
