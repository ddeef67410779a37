// Masks as exporters write them: packed where the bias proves which keys take part and what rows
// see of one another, left alone where it doesn't.
#include <gtest/gtest.h>

#include "tests/passes/mask_text.h"
#include "tests/passes/padded_encoder.h"

namespace anydim::passes {
namespace {

using ir::DType;
// ---- Masks of keys ----

TEST(MaskIdioms, WeakFillsHideWhereWeightsBoundScores) {
  for (const char* fill : {"-10000", "-1e9"}) {
    SCOPED_TRACE(fill);
    expect_same({.bias = replaced(additive, "-3.4028234663852886e38", fill),
                 .tail = mean_pooling,
                 .results = "%h, %mean"},
                DType::I64);
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
  expect_same({.bias = replaced(replaced(compared, "equal(", "greater("), "%never, %zero",
                                "%zero, %never")},
              DType::I64);
  expect_same({.bias = numbers + "  %not = not(%mb)\n  %bias = where(%not, %never, %zero)\n"},
              DType::I64);
}

TEST(MaskIdioms, LogarithmOfTheMask) {
  expect_same({.mask_type = "f32", .bias = numbers + "  %bias = log(%m4)\n"}, DType::F32);
}

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
  expect_same({.bias = replaced(compared, "%before = less_equal(%j, %i)",
                                "%next = add(%i, %step)\n  %before = less(%j, %next)")},
              DType::I64);
  expect_same({.bias = replaced(compared, "less_equal(%j, %i)", "greater_equal(%i, %j)")},
              DType::I64);
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
    for (int j = 0; j < 32; ++j)
      rows += (rows.empty() ? "" : ", ") + std::string(j <= i ? "1" : "0");
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
                                "%before = less_equal(%j, %i)\n  %window = and(%near, %before)\n  "
                                "%both = and(%window, %mb)")},
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

// As T5 and MPNet have them: the logarithm of the distance chooses a number for each head.
TEST(MaskIdioms, TablesOfRelativePositions) {
  expect_same({.bias = numbers + positions + added + R"(
  %distance = sub(%j, %i)
  %far = abs(%distance)
  %two = constant(i64 () [2])
  %near = less(%far, %two)
  %real_far = cast(%far) {to = f32}
  %half = constant(f32 () [0.5])
  %scaled = mul(%real_far, %half)
  %logarithm = log(%scaled)
  %whole = cast(%logarithm) {to = i64}
  %bucket = add(%whole, %two)
  %last = constant(i64 () [3])
  %limited = min(%bucket, %last)
  %chosen = where(%near, %far, %limited)
  %after = greater(%distance, %begin)
  %side = cast(%after) {to = i64}
  %four = constant(i64 () [4])
  %offset = mul(%side, %four)
  %place = add(%offset, %chosen)
  %relative = constant(f32 (8, 2) @random(41))
  %found = gather(%relative, %place) {axis = 0}
  %by_head = transpose(%found) {perm = (2, 0, 1)}
  %every = expand_dims(%by_head) {axes = (0)}
  %bias = add(%every, %padding)
)",
               .tail = mean_pooling,
               .results = "%h, %mean"},
              DType::I64);
}

// As ONNX Runtime's RelativePositionBias comes out: a table of buckets by distance, and one of
// numbers by bucket.
TEST(MaskIdioms, TablesOfBucketsOfRelativePositions) {
  expect_same({.bias = numbers + positions + added + R"(
  %distance = sub(%j, %i)
  %lowest = constant(i64 () [-3])
  %three = constant(i64 () [3])
  %above = max(%distance, %lowest)
  %within = min(%above, %three)
  %place = add(%within, %three)
  %buckets = constant(i64 (7) [3, 2, 1, 0, 4, 5, 5])
  %bucket = gather(%buckets, %place) {axis = 0}
  %relative = constant(f32 (6, 2) @random(41))
  %found = gather(%relative, %bucket) {axis = 0}
  %by_head = transpose(%found) {perm = (2, 0, 1)}
  %every = expand_dims(%by_head) {axes = (0)}
  %bias = add(%every, %padding)
)",
               .tail = mean_pooling,
               .results = "%h, %mean"},
              DType::I64);
}

// As torch's older exporter writes a causal mask with the padding put into it: where the causal one
// and the entry add up to 0, a fill.
TEST(MaskIdioms, FillsWhereACausalBiasAndTheEntryAreZero) {
  const std::string filled = numbers + positions + R"(
  %square = shape(s, s)
  %fills = dyn.full(%low, %square)
  %triangle = trilu(%fills) {upper = 1, k = 1}
  %later = greater(%j, %i)
  %real_later = cast(%later) {to = f32}
  %causal = mul(%triangle, %real_later)
  %real = cast(%m4) {to = f32}
  %sum = add(%causal, %real)
  %neither = equal(%sum, %zero)
  %all = shape(b, 1, s, s)
  %wide = dyn.broadcast_to(%causal, %all)
  %updates = where(%neither, %low, %wide)
  %nb = dim(b)
  %sequences = dyn.arange(%begin, %nb, %step)
  %b4 = expand_dims(%sequences) {axes = (1, 2, 3)}
  %none = constant(i64 (1, 1, 1) [0])
  %bw = dyn.broadcast_to(%b4, %all)
  %hw = dyn.broadcast_to(%none, %all)
  %iw = dyn.broadcast_to(%i, %all)
  %jw = dyn.broadcast_to(%j, %all)
  %b5 = expand_dims(%bw) {axes = (-1)}
  %h5 = expand_dims(%hw) {axes = (-1)}
  %i5 = expand_dims(%iw) {axes = (-1)}
  %j5 = expand_dims(%jw) {axes = (-1)}
  %indices = concat(%b5, %h5, %i5, %j5) {axis = -1}
  %bias = scatter_nd(%wide, %indices, %updates) {reduction = "none"}
)";
  expect_same({.bias = filled}, DType::I64);
  EXPECT_EQ(refusal({.bias = replaced(filled, "concat(%b5, %h5, %i5, %j5)",
                                      "concat(%b5, %h5, %j5, %i5)")}),
            "the bias of attention 'Attention' (%a) is not known element by element: no scalar "
            "form inside a kernel: scatter_nd (%bias)");
}

// As ONNX Runtime's optimizer writes a mask: how many rows take part, which must be the first.
TEST(MaskIdioms, KeysComparedWithTheNumberOfRows) {
  const std::string counted = positions + R"(
  %narrow = cast(%m) {to = i32}
  %rows = reduce_sum(%narrow) {axes = (1), keepdims = 0}
  %wide_rows = cast(%rows) {to = i64}
  %rows4 = expand_dims(%wide_rows) {axes = (1, 2, 3)}
  %seen = less(%range, %rows4)
  %zero = constant(f32 () [0])
  %low = constant(f32 () [-10000])
  %bias = where(%seen, %zero, %low)
)";
  expect_same({.bias = counted, .tail = mean_pooling, .results = "%h, %mean"}, DType::I64);
  const PackingResult result = remove_padding(module_of({.bias = counted}), PackedForm::Zeroed);
  ASSERT_TRUE(result.packed);
  EXPECT_TRUE(result.packed->plan.leading_rows);
  EXPECT_TRUE(result.packed->plan.question.steps.empty());
  const std::string another =
      "the bias of attention 'Attention' (%a) is not known element by element: the number of rows "
      "that a mask leaves is more than compared with a key";
  EXPECT_EQ(
      refusal({.bias = replaced(counted, "less(%range, %rows4)", "less_equal(%range, %rows4)")}),
      another);
  EXPECT_EQ(
      refusal(
          {.bias = replaced(counted, "where(%seen, %zero, %low)", "where(%seen, %low, %zero)")}),
      "the entries of %m that are counted are those of hidden keys in attention 'Attention' (%a)");
}

// As torch's dynamo exports a mask: every entry through its indices.
TEST(MaskIdioms, EntriesGatheredByTheirIndices) {
  const std::string gathered = numbers + positions + R"(
  %nb = dim(b)
  %sequences = dyn.arange(%begin, %nb, %step)
  %b4 = expand_dims(%sequences) {axes = (1, 2, 3)}
  %s4 = expand_dims(%range) {axes = (0, 1, 2)}
  %all = shape(b, 1, 1, s)
  %bw = dyn.broadcast_to(%b4, %all)
  %sw = dyn.broadcast_to(%s4, %all)
  %b5 = expand_dims(%bw) {axes = (-1)}
  %s5 = expand_dims(%sw) {axes = (-1)}
  %indices = concat(%b5, %s5) {axis = -1}
  %seen = cast(%m) {to = bool}
  %entries = gather_nd(%seen, %indices) {batch_dims = 0}
  %always = greater_equal(%i, %begin)
  %both = and(%always, %entries)
  %bias = where(%both, %zero, %low)
)";
  expect_same({.bias = gathered}, DType::I64);
  EXPECT_EQ(
      refusal(
          {.bias = replaced(
               gathered, "%s4 = expand_dims(%range)",
               "%end = sub(%ns, %step)\n  %back = sub(%end, %range)\n  %s4 = expand_dims(%back)")}),
      "the bias of attention 'Attention' (%a) reads no mask of (batch, key)");
}

// ---- Near misses ----

TEST(MaskIdioms, FillsThatMayNotHide) {
  const auto filled = [](const char* fill) {
    return replaced(additive, "-3.4028234663852886e38", fill);
  };
  EXPECT_EQ(refusal({.bias = filled("-500")}),
            "%m adds -500 to the scores of masked keys, which does not hide them in attention "
            "'Attention' (%a)");
  for (const char* fill : {"-10000", "-3.4028234663852886e+38"})
    EXPECT_EQ(refusal({.bias = filled(fill), .epsilon = "0"}),
              std::string("attention 'Attention' (%a) adds ") + fill +
                  " to the scores of masked keys, which does not hide them from any score, and "
                  "nothing bounds its scores: queries or keys are made of what may be any number");
  EXPECT_EQ(refusal({.bias = filled("10000")}),
            "%m does not decide which keys take part in attention 'Attention' (%a)");
}

TEST(MaskIdioms, RowsThatMayNotSeeThemselves) {
  const std::string before = numbers + positions + R"(
  %before = less(%j, %i)
  %both = and(%mb, %before)
  %bias = where(%both, %zero, %never)
)";
  EXPECT_EQ(refusal({.bias = before}),
            "a row that takes part may not see itself in attention 'Attention' (%a)");
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
  EXPECT_EQ(refusal({.bias = numbers + "  %all = or(%mb, %mb)\n  %hidden = xor(%all, %mb)\n  %bias "
                                       "= where(%hidden, %zero, %never)\n"}),
            "every key is hidden in attention 'Attention' (%a), whatever %m holds");
}

}  // namespace
}  // namespace anydim::passes
