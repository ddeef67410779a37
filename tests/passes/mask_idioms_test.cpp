// Masks as exporters write them: packed where the bias proves which keys take part and what rows see of one another, left alone where it doesn't.
#include <gtest/gtest.h>

#include "tests/passes/padded_encoder.h"

namespace anydim::passes {
namespace {

using ir::DType;

// Positions of rows and keys, as %i (s, 1) and %j (1, s), and numbers.
const std::string positions = R"(
  %ns = dim(s)
  %begin = constant(i64 () [0])
  %step = constant(i64 () [1])
  %range = dyn.arange(%begin, %ns, %step)
  %i = expand_dims(%range) {axes = (1)}
  %j = expand_dims(%range) {axes = (0)}
)";
const std::string numbers = R"(
  %m4 = expand_dims(%m) {axes = (1, 2)}
  %mb = cast(%m4) {to = bool}
  %zero = constant(f32 () [0])
  %one = constant(f32 () [1])
  %low = constant(f32 () [-3.4028234663852886e38])
  %never = constant(f32 () [-inf])
)";
const std::string added = R"(
  %real = cast(%m4) {to = f32}
  %off = sub(%one, %real)
  %padding = mul(%off, %low)
)";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

// ---- Masks of keys ----

TEST(MaskIdioms, WeakFillsHideWhereWeightsBoundScores) {
  for (const char* fill : {"-10000", "-1e9"}) {
    SCOPED_TRACE(fill);
    expect_same({.bias = replaced(additive, "-3.4028234663852886e38", fill), .tail = mean_pooling, .results = "%h, %mean"}, DType::I64);
  }
}

TEST(MaskIdioms, MaskLessOneTimesALargeNumber) {
  expect_same({.bias = numbers + R"(
  %real = cast(%m4) {to = f32}
  %off = sub(%real, %one)
  %large = constant(f32 () [1e9])
  %bias = mul(%off, %large)
)"},
              DType::I64);
}

TEST(MaskIdioms, FilledWhereTheInvertedMaskIs) {
  expect_same({.bias = numbers + R"(
  %real = cast(%m4) {to = f32}
  %wide = shape(b, 1, s, s)
  %all = dyn.broadcast_to(%real, %wide)
  %off = sub(%one, %all)
  %hidden = cast(%off) {to = bool}
  %bias = where(%hidden, %low, %off)
)"},
              DType::I64);
}

TEST(MaskIdioms, ComparedWithZero) {
  const std::string compared = numbers + R"(
  %none = constant(i64 () [0])
  %hidden = equal(%m4, %none)
  %bias = where(%hidden, %never, %zero)
)";
  expect_same({.bias = compared}, DType::I64);
  expect_same({.bias = replaced(replaced(compared, "equal(", "greater("), "%never, %zero", "%zero, %never")}, DType::I64);
  expect_same({.bias = numbers + "  %not = not(%mb)\n  %bias = where(%not, %never, %zero)\n"}, DType::I64);
}

TEST(MaskIdioms, LogarithmOfTheMask) { expect_same({.mask_type = "f32", .bias = numbers + "  %bias = log(%m4)\n"}, DType::F32); }

// ---- What rows see of one another ----

TEST(MaskIdioms, CausalFromATriangleOfOnes) {
  expect_same({.bias = numbers + R"(
  %square = shape(s, s)
  %ones = dyn.ones(%square)
  %triangle = trilu(%ones) {upper = 0}
  %before = cast(%triangle) {to = bool}
  %both = and(%before, %mb)
  %bias = where(%both, %zero, %never)
)"},
              DType::I64);
}

TEST(MaskIdioms, CausalFromATriangleOfFills) {
  expect_same({.bias = numbers + added + R"(
  %square = shape(s, s)
  %fills = dyn.full(%low, %square)
  %causal = trilu(%fills) {upper = 1, k = 1}
  %bias = add(%causal, %padding)
)"},
              DType::I64);
}

TEST(MaskIdioms, CausalFromComparedRanges) {
  const std::string compared = numbers + positions + added + R"(
  %before = less_equal(%j, %i)
  %causal = where(%before, %zero, %low)
  %bias = add(%causal, %padding)
)";
  expect_same({.bias = compared, .tail = mean_pooling, .results = "%h, %mean"}, DType::I64);
  // A row of the mask's own numbers, one further on.
  expect_same({.bias = replaced(compared, "%before = less_equal(%j, %i)", "%next = add(%i, %step)\n  %before = less(%j, %next)")},
              DType::I64);
  expect_same({.bias = replaced(compared, "less_equal(%j, %i)", "greater_equal(%i, %j)")}, DType::I64);
}

TEST(MaskIdioms, CausalFromRangesOfFloats) {
  expect_same({.bias = numbers + positions + R"(
  %ri = cast(%i) {to = f32}
  %rj = cast(%j) {to = f32}
  %before = greater_equal(%ri, %rj)
  %both = and(%mb, %before)
  %bias = where(%both, %zero, %low)
)"},
              DType::I64);
}

TEST(MaskIdioms, CausalFromAStoredTriangle) {
  std::string rows;
  for (int i = 0; i < 32; ++i)
    for (int j = 0; j < 32; ++j) rows += (rows.empty() ? "" : ", ") + std::string(j <= i ? "1" : "0");
  const std::string stored = numbers + "  %stored = constant(i64 (1, 1, 32, 32) [" + rows + R"(])
  %corner = constant(i64 (2) [0, 0])
  %size = shape(s, s)
  %last = constant(i64 (2) [2, 3])
  %cut = dyn.strided_slice(%stored, %corner, %size, %last)
  %before = cast(%cut) {to = bool}
  %both = and(%before, %mb)
  %bias = where(%both, %zero, %never)
)";
  expect_same({.bias = stored}, DType::I64);
  EXPECT_EQ(refusal({.bias = replaced(stored, "1, 0, 0", "1, 0, 1")}),
            "a row that takes part may not see itself in attention 'Attention' (%a)");
}

TEST(MaskIdioms, SlidingWindows) {
  const std::string both_sides = numbers + positions + R"(
  %distance = sub(%i, %j)
  %far = abs(%distance)
  %reach = constant(i64 () [2])
  %near = less_equal(%far, %reach)
  %both = and(%mb, %near)
  %bias = where(%both, %zero, %low)
)";
  expect_same({.bias = both_sides, .tail = mean_pooling, .results = "%h, %mean"}, DType::I64);
  expect_same({.bias = replaced(both_sides, "%both = and(%mb, %near)",
                                "%before = less_equal(%j, %i)\n  %window = and(%near, %before)\n  %both = and(%window, %mb)")},
              DType::I64);
}

TEST(MaskIdioms, DistancesAddedToScores) {
  expect_same({.bias = numbers + positions + added + R"(
  %distance = sub(%j, %i)
  %real_distance = cast(%distance) {to = f32}
  %slope = constant(f32 () [0.125])
  %nearer = mul(%real_distance, %slope)
  %before = less_equal(%j, %i)
  %causal = where(%before, %nearer, %low)
  %bias = add(%causal, %padding)
)"},
              DType::I64);
}

// ---- Near misses ----

TEST(MaskIdioms, FillsThatMayNotHide) {
  const auto filled = [](const char* fill) { return replaced(additive, "-3.4028234663852886e38", fill); };
  EXPECT_EQ(refusal({.bias = filled("-500")}),
            "%m adds -500 to the scores of masked keys, which does not hide them in attention 'Attention' (%a)");
  EXPECT_EQ(refusal({.bias = filled("-10000"), .keys = "%x"}),
            "attention 'Attention' (%a) adds -10000 to the scores of masked keys, which does not hide them from any score, and nothing "
            "bounds its scores: queries and keys are not layer norms times weights, or their epsilon is not positive");
  EXPECT_EQ(refusal({.bias = filled("10000")}), "%m does not decide which keys take part in attention 'Attention' (%a)");
}

TEST(MaskIdioms, RowsThatMayNotSeeThemselves) {
  const std::string before = numbers + positions + R"(
  %before = less(%j, %i)
  %both = and(%mb, %before)
  %bias = where(%both, %zero, %never)
)";
  EXPECT_EQ(refusal({.bias = before}), "a row that takes part may not see itself in attention 'Attention' (%a)");
  EXPECT_EQ(refusal({.bias = replaced(before, "less(%j, %i)", "less(%i, %j)")}),
            "a row that takes part may not see itself in attention 'Attention' (%a)");
}

TEST(MaskIdioms, MasksThatOtherThingsLift) {
  // Keys before the row are seen whatever the mask says.
  EXPECT_EQ(refusal({.bias = numbers + positions + R"(
  %before = less_equal(%j, %i)
  %either = or(%mb, %before)
  %bias = where(%either, %zero, %never)
)"}),
            "%m does not decide which keys take part in attention 'Attention' (%a)");
  // The entry of the next key.
  EXPECT_EQ(refusal({.bias = numbers + R"(
  %first = strided_slice(%m4) {starts = (0), ends = (1), axes = (3)}
  %rest = strided_slice(%m4) {starts = (1), ends = (9223372036854775807), axes = (3)}
  %turned = concat(%rest, %first) {axis = 3}
  %turned_real = cast(%turned) {to = bool}
  %bias = where(%turned_real, %zero, %never)
)"}),
            "the bias of attention 'Attention' (%a) reads no mask of (batch, key)");
  // A mask of no rows at all.
  EXPECT_EQ(refusal({.bias = numbers + "  %all = or(%mb, %mb)\n  %hidden = xor(%all, %mb)\n  %bias = where(%hidden, %zero, %never)\n"}),
            "every key is hidden in attention 'Attention' (%a), whatever %m holds");
}

TEST(MaskIdioms, OtherThingsThatAreAdded) {
  const std::string more = numbers + added + "  %bias = add(%extra, %padding)\n";
  EXPECT_EQ(refusal({.bias = more, .inputs = ", %extra: Tensor[(s, s), f32]"}),
            "%extra is added to the scores beside %m in attention 'Attention' (%a), and may be any number");
  const std::string limited = numbers + added + R"(
  %positive = max(%extra, %zero)
  %clipped = min(%positive, %one)
  %bias = add(%clipped, %padding)
)";
  EXPECT_EQ(refusal({.bias = limited, .inputs = ", %extra: Tensor[(s, s), f32]"}),
            "%extra is added to the scores beside %m in attention 'Attention' (%a), and may be any number");
  const std::string slopes = numbers + positions + added + R"(
  %slopes = constant(f32 (2, 1, 1) [0.5, 0.25])
  %distance = sub(%j, %i)
  %real_distance = cast(%distance) {to = f32}
  %nearer = mul(%real_distance, %slopes)
  %bias = add(%nearer, %padding)
)";
  EXPECT_EQ(refusal({.bias = slopes}),
            "the bias of attention 'Attention' (%a) is not known element by element: a constant of several elements must be an input of "
            "the region");
}

}  // namespace
}  // namespace anydim::passes
