// Windows that share lines, some rows of which are computed at once.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "codegen_cpu/rows/rows_schedule.h"
#include "codegen_cpu/rows/shared_window.h"
#include "tests/codegen_cpu/expect_right.h"

namespace anydim::codegen_cpu::testing {
namespace {

struct Pool {
  std::string name;
  std::string reduce = "reduce_max";
  std::string height = "h";
  std::string width = "w";
  std::int64_t high = 3, wide = 3, stride = 1, dilation = 1, border = 1;
  bool weights = false;
  bool channels_last = false;
  std::string dtype = "f32";
  bool shared = true;  // lines, by rows
  bool whole = true;
  bool looped = false;

  std::string text() const {
    const std::string rows = tests::windows_along(height, border, high, dilation, stride),
                      columns = tests::windows_along(width, border, wide, dilation, stride);
    const auto laid_out = [&](const std::string& h, const std::string& w) {
      return channels_last ? fmt::format("(n, {}, {}, 5)", h, w)
                           : fmt::format("(n, 5, {}, {})", h, w);
    };
    std::string limits;
    if (height == "h") limits += ", h in [8, 40]";
    if (width == "w") limits += ", w in [8, 70]";
    const std::string weight = channels_last ? fmt::format("(5, {}, {})", high, wide)
                                             : fmt::format("(5, 1, 1, {}, {})", high, wide);
    return fmt::format(
        R"(
fn @main(%x: Tensor[{x}, {t}], %k: Tensor[{k}, {t}]) -> Tensor[{y}, {t}]
  where n in [0, 50]{limits} {{
  %p = pad(%x) {{before = ({b}, {b}), after = ({b}, {b}), axes = {axes}}}
  %v = windows(%p) {{axes = {axes}, sizes = ({l}, {q}), strides = ({s}, {s}), dilations = ({d}, {d})}}
  {weighted}
  %r = {reduce}({of}) {{axes = (4, 5), keepdims = 0}}
  %y = add(%r, %r)
  return %y
}})",
        fmt::arg("x", laid_out(height, width)), fmt::arg("y", laid_out(rows, columns)),
        fmt::arg("k", weight), fmt::arg("t", dtype), fmt::arg("limits", limits),
        fmt::arg("b", border), fmt::arg("axes", channels_last ? "(1, 2)" : "(2, 3)"),
        fmt::arg("l", high), fmt::arg("q", wide), fmt::arg("s", stride), fmt::arg("d", dilation),
        fmt::arg("weighted", weights ? "%m = mul(%v, %k)" : ""), fmt::arg("reduce", reduce),
        fmt::arg("of", weights ? "%m" : "%v"));
  }

  std::vector<Symbols> shapes() const {
    std::vector<Symbols> all;
    for (const auto& [h, w] :
         std::vector<std::pair<std::int64_t, std::int64_t>>{{8, 8}, {9, 33}, {20, 17}, {31, 70}}) {
      Symbols one{{"n", 2}};
      if (height == "h") one["h"] = h;
      if (width == "w") one["w"] = w;
      all.push_back(one);
      if (height != "h" && width != "w") break;
    }
    return all;
  }
};

class WindowsOf : public ::testing::TestWithParam<Pool> {};

std::optional<SharedWindow> window_of(const TestRegion& region) {
  return shared_window(std::get<ir::RowForm>(region.form.kind));
}

TEST_P(WindowsOf, AgreeWithTheReference) {
  const TestRegion region = make_region(GetParam().text(), {});
  expect_right(region, {}, GetParam().shapes(), {.bf16_tolerance = 5e-2});
}

TEST_P(WindowsOf, AreFoundWhereRowsShareLines) {
  const Pool& one = GetParam();
  const auto window = window_of(make_region(one.text(), {}));
  ASSERT_EQ(window.has_value(), one.shared);
  if (!window) return;
  EXPECT_EQ(window->whole, one.whole);
  EXPECT_EQ(window->looped, one.looped);
  EXPECT_EQ(window->row_step * one.dilation, window->place_step * one.stride);
  EXPECT_EQ(window->places, one.channels_last ? one.wide : one.high);
}

// One order of sums, whatever the level and however many rows are computed at once. Levels with
// multiply-adds round products with what they are added to, so that weighted sums differ from the
// others'.
TEST_P(WindowsOf, GiveTheSameBits) {
  const Pool& one = GetParam();
  if (!one.shared) return;
  const TestRegion region = make_region(one.text(), {});
  std::map<bool, std::vector<std::vector<ir::Tensor>>> first_of;
  for (const Target& target : targets()) {
    auto& first = first_of[one.weights && !target.fused_multiply_add()];
    for (const std::int64_t together : {2, 4, 8}) {
      const RowsSchedule schedule{
          .vector = target.lanes(4), .grain = 2 * together, .across = true, .together = together};
      SCOPED_TRACE(target.name() + " " + to_string(schedule.schedule()));
      const TestKernel kernel = compile(region, target, {}, schedule.schedule());
      for (std::size_t i = 0; i < one.shapes().size(); ++i) {
        const Symbols symbols = one.shapes()[i];
        const auto got = run(region, target, kernel, symbols, random_inputs(region, symbols, 1));
        if (first.size() <= i) first.push_back(got);
        EXPECT_TRUE(got[0].same_bits(first[i][0]));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Pools, WindowsOf,
    ::testing::Values(
        Pool{.name = "Largest"}, Pool{.name = "LargestBySteps", .stride = 2},
        Pool{.name = "LargestOfChannelsLast", .channels_last = true},
        Pool{.name = "Sums", .reduce = "reduce_sum"},
        Pool{.name = "SumsOfKnownSizes", .reduce = "reduce_sum", .height = "16", .width = "24"},
        Pool{.name = "LargestOfFewRows", .height = "5", .width = "7"},
        Pool{.name = "Means", .reduce = "reduce_mean", .high = 5, .border = 2},
        Pool{.name = "Bytes", .stride = 2, .dtype = "u8"},
        Pool{.name = "BytesWithoutBorder", .border = 0, .dtype = "u8"},
        Pool{.name = "BytesOfChannelsLast", .stride = 2, .channels_last = true, .dtype = "u8"},
        Pool{.name = "HalvesOfChannelsLast", .channels_last = true, .dtype = "bf16"},
        Pool{.name = "Halves", .reduce = "reduce_sum", .dtype = "bf16"},
        Pool{.name = "Weighted", .reduce = "reduce_sum", .weights = true, .whole = false},
        Pool{.name = "WeightedBySteps",
             .reduce = "reduce_sum",
             .high = 5,
             .wide = 5,
             .stride = 2,
             .border = 2,
             .weights = true,
             .whole = false},
        Pool{.name = "WeightedApart",
             .reduce = "reduce_sum",
             .dilation = 2,
             .border = 2,
             .weights = true,
             .whole = false},
        Pool{.name = "WeightedOfChannelsLast",
             .reduce = "reduce_sum",
             .weights = true,
             .channels_last = true,
             .whole = false},
        // Groups of 8 rows and 6 more, which are the last group's too.
        Pool{.name = "WeightedOfKnownSizes",
             .reduce = "reduce_sum",
             .height = "14",
             .width = "14",
             .high = 5,
             .wide = 5,
             .border = 2,
             .weights = true,
             .channels_last = true,
             .whole = false},
        Pool{.name = "LargestOfWide", .high = 9, .wide = 9, .border = 4},
        Pool{.name = "LargestInALoop", .high = 11, .wide = 11, .border = 5, .looped = true},
        Pool{.name = "SumsByStepsInALoop",
             .reduce = "reduce_sum",
             .high = 13,
             .wide = 12,
             .stride = 2,
             .border = 6,
             .looped = true},
        Pool{.name = "BytesInALoop",
             .high = 12,
             .wide = 13,
             .border = 6,
             .channels_last = true,
             .dtype = "u8",
             .looped = true},
        Pool{.name = "WeightedInALoop",
             .reduce = "reduce_sum",
             .high = 9,
             .wide = 9,
             .border = 4,
             .weights = true,
             .whole = false,
             .looped = true},
        Pool{.name = "WeightedApartInALoop",
             .reduce = "reduce_sum",
             .high = 9,
             .wide = 8,
             .stride = 2,
             .dilation = 3,
             .border = 12,
             .weights = true,
             .whole = false,
             .looped = true},
        Pool{.name = "WeightedOfChannelsLastInALoop",
             .reduce = "reduce_sum",
             .high = 3,
             .wide = 33,
             .border = 16,
             .weights = true,
             .channels_last = true,
             .whole = false,
             .looped = true},
        Pool{.name = "OfTooManyPlaces", .high = 66, .wide = 2, .border = 33, .shared = false}),
    [](const auto& info) { return info.param.name; });

// A NaN anywhere in a window is its largest number.
TEST(Windows, KeepNan) {
  const TestRegion region = make_region(Pool{.name = ""}.text(), {});
  Expectation expectation;
  expectation.fill = [](std::vector<ir::Tensor>& inputs) {
    auto values = inputs[0].mutable_as<float>();
    for (std::size_t i = 0; i < values.size(); i += 7)
      values[i] = std::numeric_limits<float>::quiet_NaN();
  };
  expect_right(region, {}, {{{"n", 1}, {"h", 19}, {"w", 37}}}, expectation);
}

}  // namespace
}  // namespace anydim::codegen_cpu::testing
