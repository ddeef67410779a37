// Masks as exporters write them: packed where the bias proves which keys take part and what rows see of one another, left alone where it doesn't.
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

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

// As torch's older exporter writes a causal mask with the padding put into it: where the causal one and the entry add up to 0, a fill.
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
  EXPECT_EQ(refusal({.bias = replaced(filled, "concat(%b5, %h5, %i5, %j5)", "concat(%b5, %h5, %j5, %i5)")}),
            "the bias of attention 'Attention' (%a) is not known element by element: no scalar form inside a kernel: scatter_nd (%bias)");
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
      "the bias of attention 'Attention' (%a) is not known element by element: the number of rows that a mask leaves is "
      "more than compared with a key";
  EXPECT_EQ(refusal({.bias = replaced(counted, "less(%range, %rows4)", "less_equal(%range, %rows4)")}), another);
  EXPECT_EQ(refusal({.bias = replaced(counted, "where(%seen, %zero, %low)", "where(%seen, %low, %zero)")}),
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
  EXPECT_EQ(refusal({.bias = replaced(gathered, "%s4 = expand_dims(%range)",
                                      "%end = sub(%ns, %step)\n  %back = sub(%end, %range)\n  %s4 = expand_dims(%back)")}),
            "the bias of attention 'Attention' (%a) reads no mask of (batch, key)");
}

// ---- Near misses ----

TEST(MaskIdioms, FillsThatMayNotHide) {
  const auto filled = [](const char* fill) { return replaced(additive, "-3.4028234663852886e38", fill); };
  EXPECT_EQ(refusal({.bias = filled("-500")}),
            "%m adds -500 to the scores of masked keys, which does not hide them in attention 'Attention' (%a)");
  for (const char* fill : {"-10000", "-3.4028234663852886e+38"})
    EXPECT_EQ(refusal({.bias = filled(fill), .epsilon = "0"}),
              std::string("attention 'Attention' (%a) adds ") + fill +
                  " to the scores of masked keys, which does not hide them from any score, and nothing bounds its scores: queries or keys "
                  "are made of what may be any number");
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

// ---- Arithmetic of the dtype ----

TEST(MaskIdioms, IntegersThatWrap) {
  const std::string off = numbers + "  %m1 = constant(i64 () [1])\n  %off = sub(%m4, %m1)\n";
  const auto large = [&](const char* type) {
    return off + replaced("  %narrow = cast(%off) {to = TYPE}\n", "TYPE", type) +
           "  %real = cast(%narrow) {to = f32}\n  %large = constant(f32 () [1e38])\n  %bias = mul(%real, %large)\n";
  };
  for (const char* type : {"u8", "u16", "u32", "u64"})
    EXPECT_EQ(refusal({.bias = large(type)}), "%m does not decide which keys take part in attention 'Attention' (%a)") << type;
  for (const char* type : {"i8", "i16", "i32"}) expect_same({.bias = large(type)}, DType::I64);
  const std::string product = off + R"(
  %narrow = cast(%off) {to = i32}
  %half = constant(i32 () [65536])
  %once = mul(%narrow, %half)
  %twice = mul(%once, %half)
  %real = cast(%twice) {to = f32}
  %bias = mul(%real, %low)
)";
  EXPECT_EQ(refusal({.bias = product}), "%m does not decide which keys take part in attention 'Attention' (%a)");
  const std::string not_ones = numbers + "  %u = cast(%m4) {to = u8}\n  %inverse = bit_not(%u)\n";
  EXPECT_EQ(refusal({.bias = not_ones + "  %hidden = cast(%inverse) {to = bool}\n  %bias = where(%hidden, %never, %zero)\n"}),
            "every key is hidden in attention 'Attention' (%a), whatever %m holds");
  expect_same({.bias = not_ones + R"(
  %first = constant(u8 () [1])
  %bit = bit_and(%inverse, %first)
  %hidden = cast(%bit) {to = bool}
  %bias = where(%hidden, %never, %zero)
)"},
              DType::I64);
}

TEST(MaskIdioms, PositionsThatWrap) {
  EXPECT_EQ(refusal({.bias = numbers + positions + added + R"(
  %narrow = cast(%j) {to = i32}
  %far = constant(i32 () [1073741824])
  %place = mul(%narrow, %far)
  %none = constant(i32 () [0])
  %before = greater_equal(%place, %none)
  %bias = where(%before, %padding, %zero)
)"}),
            "%m does not decide which keys take part in attention 'Attention' (%a)");
}

TEST(MaskIdioms, NumbersThatAreRounded) {
  const std::string rounded = numbers + R"(
  %real = cast(%m4) {to = f32}
  %off = sub(%one, %real)
  %tiny = constant(f32 () [1e-9])
  %small = mul(%off, %tiny)
  %half = cast(%small) {to = f16}
  %hidden = cast(%half) {to = bool}
  %bias = where(%hidden, %low, %zero)
)";
  EXPECT_EQ(refusal({.bias = rounded}), "%m does not decide which keys take part in attention 'Attention' (%a)");
  expect_same({.bias = replaced(rounded, "1e-9", "1e-3")}, DType::I64);
  const std::string absorbed = numbers + R"(
  %real = cast(%m4) {to = f32}
  %off = sub(%one, %real)
  %much = constant(f32 () [1e8])
  %sum = add(%off, %much)
  %hidden = greater(%sum, %much)
  %bias = where(%hidden, %low, %zero)
)";
  EXPECT_EQ(refusal({.bias = absorbed}), "%m does not decide which keys take part in attention 'Attention' (%a)");
  expect_same({.bias = replaced(absorbed, "1e8", "1e6")}, DType::I64);
}

TEST(MaskIdioms, WeightsOfSumsThatAreRounded) {
  const std::string sum = R"(
  %m3 = expand_dims(%m) {axes = (-1)}
  %w = cast(%m3) {to = TYPE}
  %much = constant(TYPE () [NUMBER])
  %more = add(%w, %much)
  %hidden = equal(%more, %much)
  %none = constant(f32 () [0])
  %chosen = where(%hidden, %none, %h)
  %sum = reduce_sum(%chosen) {axes = (1)}
)";
  const auto summed = [&](const std::string& type, const std::string& number) {
    return replaced(replaced(replaced(sum, "TYPE", type), "TYPE", type), "NUMBER", number);
  };
  // At hidden rows the weight is 0 either way; at the others rounding takes it away too, in the model and in both its forms.
  expect_same({.bias = additive, .tail = summed("f32", "1e8"), .results = "%h, %sum"}, DType::I64);
  expect_same({.bias = additive, .tail = summed("i32", "2147483647"), .results = "%h, %sum"}, DType::I64);
  const std::string complement = replaced(summed("f32", "1e8"), "equal(%more, %much)", "greater(%much, %more)");
  EXPECT_EQ(refusal({.bias = additive, .tail = complement, .results = "%sum"}),
            "reduce_sum (%sum) sums rows of %chosen that are not provably 0 where hidden");
}

// ---- Scores ----

TEST(MaskIdioms, FillsThatOnlyABoundMakesHide) {
  for (const char* fill : {"-1e30", "-1e37", "-3.4028235e+38"}) {
    const std::string bias = replaced(additive, "-3.4028234663852886e38", fill);
    expect_same({.bias = bias}, DType::I64);
    for (const char* epsilon : {"0", "-0.1"})
      EXPECT_TRUE(refusal({.bias = bias, .epsilon = epsilon}).find("nothing bounds its scores") != std::string::npos) << epsilon;
  }
}

// What bounds keys beside a norm: tables that ids are looked up in, sums, products with weights, functions with a bound.
TEST(MaskIdioms, KeysOfKnownRange) {
  const std::string before = R"(
  %kh = tanh(%x)
  %kg = gelu(%x)
  %ksum = add(%kh, %kg)
  %ksq = mul(%ksum, %ksum)
  %kmean = reduce_mean(%x) {axes = (-1), keepdims = 1}
  %kall = concat(%ksq, %x) {axis = 2}
  %khalf = strided_slice(%kall) {starts = (4), ends = (12), axes = (2)}
  %kcentred = sub(%khalf, %kmean)
  %ksoft = softmax(%kcentred) {axis = -1}
)";
  for (const char* keys : {"%x", "%kh", "%ksum", "%kcentred", "%ksoft"}) {
    SCOPED_TRACE(keys);
    expect_same({.bias = replaced(additive, "-3.4028234663852886e38", "-10000"), .keys = keys, .before = before}, DType::I64);
  }
}

// x / sqrt(mean(x^2) + epsilon), of what may be any number.
TEST(MaskIdioms, KeysOfARootMeanSquareNorm) {
  const std::string norm = R"(
  %two = constant(f32 () [2])
  %eps = constant(f32 () [1e-6])
  %unit = constant(f32 () [1])
  %odd = div(%unit, %n)
  %square = pow(%odd, %two)
  %mean = reduce_mean(%square) {axes = (-1), keepdims = 1}
  %more = add(%mean, %eps)
  %root = sqrt(%more)
  %inverse = reciprocal(%root)
  %rms = mul(%odd, %inverse)
)";
  const std::string weak = replaced(additive, "-3.4028234663852886e38", "-10000");
  expect_same({.bias = weak, .keys = "%rms", .before = norm}, DType::I64);
  expect_same({.bias = weak, .keys = "%rms", .before = replaced(norm, "mul(%odd, %inverse)", "div(%odd, %root)")}, DType::I64);
  expect_same({.bias = weak, .keys = "%rms", .before = replaced(norm, "pow(%odd, %two)", "mul(%odd, %odd)")}, DType::I64);
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"[1e-6]", "[0]"}, {"[1e-6]", "[-1e-6]"}, {"pow(%odd, %two)", "pow(%n, %two)"}, {"axes = (-1)", "axes = (1)"}, {"[2]", "[3]"}}) {
    SCOPED_TRACE(to);
    EXPECT_TRUE(refusal({.bias = weak, .keys = "%rms", .before = replaced(norm, from, to)}).find("nothing bounds") != std::string::npos);
  }
}

// Nothing bounds an input of real numbers: the run must, and the proof says how far.
TEST(MaskIdioms, InputsOfRealNumbersAreLimited) {
  const auto limit = [](const char* fill) {
    const PackingResult result = remove_padding(module_of({.bias = replaced(additive, "-3.4028234663852886e38", fill),
                                                           .keys = "%real_rows",
                                                           .inputs = ", %real_rows: Tensor[(b, s, 8), f32]"}),
                                                PackedForm::Zeroed);
    EXPECT_TRUE(result.packed) << result.reason;
    if (!result.packed) return 0.0;
    EXPECT_EQ(result.packed->plan.limited_inputs.size(), std::isfinite(result.packed->plan.input_limit) ? 1u : 0u);
    return result.packed->plan.input_limit;
  };
  EXPECT_EQ(limit("-3.4028234663852886e38"), 1e8);
  EXPECT_EQ(limit("-2000"), 1e4);
}

TEST(MaskIdioms, KeptKeysMayHaveANegativeConstant) {
  expect_same({.bias = numbers + added + "  %less = constant(f32 () [-3])\n  %bias = add(%padding, %less)\n"}, DType::I64);
  expect_same({.bias = numbers + R"(
  %real = cast(%m4) {to = f32}
  %fill = constant(f32 () [-1e9])
  %kept = constant(f32 () [-5000])
  %bias = where(%mb, %kept, %fill)
)"},
              DType::I64);
}

TEST(MaskIdioms, FunctionsOfTheDistance) {
  const std::string distance = numbers + positions + added + R"(
  %distance = sub(%j, %i)
  %real_distance = cast(%distance) {to = f32}
  %far = abs(%real_distance)
  %next = add(%far, %one)
  %slope = constant(f32 () [-0.5])
)";
  for (const char* term : {"mul(%far, %slope)", "exp(%slope)", "log(%next)", "sin(%far)", "div(%slope, %next)", "pow(%far, %one)",
                           "mod(%real_distance, %one)", "sqrt(%far)", "tanh(%real_distance)"}) {
    SCOPED_TRACE(term);
    expect_same({.bias = distance + "  %term = " + term + "\n  %bias = add(%padding, %term)\n"}, DType::I64);
  }
}

TEST(MaskIdioms, SlopesOfEachHead) {
  const std::string slopes = numbers + positions + added + R"(
  %slopes = constant(f32 (2, 1, 1) [-0.5, -0.25])
  %distance = sub(%j, %i)
  %real_distance = cast(%distance) {to = f32}
  %far = abs(%real_distance)
  %nearer = mul(%far, %slopes)
  %bias = add(%nearer, %padding)
)";
  expect_same({.bias = slopes, .tail = mean_pooling, .results = "%h, %mean"}, DType::I64);
  expect_same({.bias = replaced(slopes, "(2, 1, 1)", "(1, 2, 1, 1)")}, DType::I64);
  EXPECT_EQ(refusal({.bias = replaced(slopes, "[-0.5, -0.25]", "[-0.5, 1e38]")}),
            "%m does not decide which keys take part in attention 'Attention' (%a)");
  EXPECT_EQ(refusal({.bias = replaced(slopes, "[-0.5, -0.25]", "[-0.5, nan]")}),
            "%m does not decide which keys take part in attention 'Attention' (%a)");
}

// ---- Questions ----

TEST(MaskIdioms, IdsThatAreNotThePaddingId) {
  const std::string compared = R"(
  %padding_id = constant(i64 () [0])
  %shown2 = equal(%ids, %padding_id)
  %hidden4 = expand_dims(%shown2) {axes = (1, 2)}
  %zero = constant(f32 () [0])
  %low = constant(f32 () [-inf])
  %bias = where(%hidden4, %low, %zero)
)";
  const std::string pooled = R"(
  %shown = not(%shown2)
  %w1 = cast(%shown) {to = f32}
  %w = expand_dims(%w1) {axes = (-1)}
  %hw = mul(%h, %w)
  %sum = reduce_sum(%hw) {axes = (1)}
)";
  expect_same({.bias = compared, .tail = pooled, .results = "%h, %sum", .mask = "%ids"}, DType::I64);
  expect_same({.bias = replaced(compared, "equal(%ids, %padding_id)", "less_equal(%ids, %padding_id)"), .mask = "%ids"}, DType::I64);
  // Ids are looked up as well: without padding there is no mask that could be left out.
  const PackingResult ragged = remove_padding(module_of({.bias = compared, .mask = "%ids"}), PackedForm::Ragged);
  EXPECT_EQ(ragged.reason, "input %ids is the mask, and more than a mask");
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
}

}  // namespace
}  // namespace anydim::passes
