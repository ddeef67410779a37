// What arithmetic, bounds of scores and questions make of a mask: whether its keys are hidden.
#include <gtest/gtest.h>

#include <cmath>

#include <utility>

#include "tests/passes/mask_text.h"
#include "tests/passes/padded_encoder.h"

namespace anydim::passes {
namespace {

using ir::DType;
// ---- Arithmetic of the dtype ----

TEST(MaskIdioms, IntegersThatWrap) {
  const std::string off = numbers + "  %m1 = constant(i64 () [1])\n  %off = sub(%m4, %m1)\n";
  const auto large = [&](const char* type) {
    return off + replaced("  %narrow = cast(%off) {to = TYPE}\n", "TYPE", type) +
           "  %real = cast(%narrow) {to = f32}\n  %large = constant(f32 () [1e38])\n  %bias = "
           "mul(%real, %large)\n";
  };
  for (const char* type : {"u8", "u16", "u32", "u64"})
    EXPECT_EQ(refusal({.bias = large(type)}),
              "%m does not decide which keys take part in attention 'Attention' (%a)")
        << type;
  for (const char* type : {"i8", "i16", "i32"}) expect_same({.bias = large(type)}, DType::I64);
  const std::string product = off + R"(
  %narrow = cast(%off) {to = i32}
  %half = constant(i32 () [65536])
  %once = mul(%narrow, %half)
  %twice = mul(%once, %half)
  %real = cast(%twice) {to = f32}
  %bias = mul(%real, %low)
)";
  EXPECT_EQ(refusal({.bias = product}),
            "%m does not decide which keys take part in attention 'Attention' (%a)");
  const std::string not_ones = numbers + "  %u = cast(%m4) {to = u8}\n  %inverse = bit_not(%u)\n";
  EXPECT_EQ(refusal({.bias = not_ones + "  %hidden = cast(%inverse) {to = bool}\n  %bias = "
                                        "where(%hidden, %never, %zero)\n"}),
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
  EXPECT_EQ(refusal({.bias = rounded}),
            "%m does not decide which keys take part in attention 'Attention' (%a)");
  expect_same({.bias = replaced(rounded, "1e-9", "1e-3")}, DType::I64);
  const std::string absorbed = numbers + R"(
  %real = cast(%m4) {to = f32}
  %off = sub(%one, %real)
  %much = constant(f32 () [1e8])
  %sum = add(%off, %much)
  %hidden = greater(%sum, %much)
  %bias = where(%hidden, %low, %zero)
)";
  EXPECT_EQ(refusal({.bias = absorbed}),
            "%m does not decide which keys take part in attention 'Attention' (%a)");
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
  // At hidden rows the weight is 0 either way; at the others rounding takes it away too, in the
  // model and in both its forms.
  expect_same({.bias = additive, .tail = summed("f32", "1e8"), .results = "%h, %sum"}, DType::I64);
  expect_same({.bias = additive, .tail = summed("i32", "2147483647"), .results = "%h, %sum"},
              DType::I64);
  const std::string complement =
      replaced(summed("f32", "1e8"), "equal(%more, %much)", "greater(%much, %more)");
  EXPECT_EQ(refusal({.bias = additive, .tail = complement, .results = "%sum"}),
            "reduce_sum (%sum) sums rows of %chosen that are not provably 0 where hidden");
}

// ---- Scores ----

TEST(MaskIdioms, FillsThatOnlyABoundMakesHide) {
  for (const char* fill : {"-1e30", "-1e37", "-3.4028235e+38"}) {
    const std::string bias = replaced(additive, "-3.4028234663852886e38", fill);
    expect_same({.bias = bias}, DType::I64);
    for (const char* epsilon : {"0", "-0.1"})
      EXPECT_TRUE(refusal({.bias = bias, .epsilon = epsilon}).find("nothing bounds its scores") !=
                  std::string::npos)
          << epsilon;
  }
}

// What bounds keys beside a norm: tables that ids are looked up in, sums, products with weights,
// functions with a bound.
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
    expect_same({.bias = replaced(additive, "-3.4028234663852886e38", "-10000"),
                 .keys = keys,
                 .before = before},
                DType::I64);
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
  expect_same({.bias = weak,
               .keys = "%rms",
               .before = replaced(norm, "mul(%odd, %inverse)", "div(%odd, %root)")},
              DType::I64);
  expect_same({.bias = weak,
               .keys = "%rms",
               .before = replaced(norm, "pow(%odd, %two)", "mul(%odd, %odd)")},
              DType::I64);
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{"[1e-6]", "[0]"},
                                                        {"[1e-6]", "[-1e-6]"},
                                                        {"pow(%odd, %two)", "pow(%n, %two)"},
                                                        {"axes = (-1)", "axes = (1)"},
                                                        {"[2]", "[3]"}}) {
    SCOPED_TRACE(to);
    EXPECT_TRUE(refusal({.bias = weak, .keys = "%rms", .before = replaced(norm, from, to)})
                    .find("nothing bounds") != std::string::npos);
  }
}

// Nothing bounds an input of real numbers: the run must, and the proof says how far.
TEST(MaskIdioms, InputsOfRealNumbersAreLimited) {
  const auto limit = [](const char* fill) {
    const PackingResult result =
        remove_padding(module_of({.bias = replaced(additive, "-3.4028234663852886e38", fill),
                                  .keys = "%real_rows",
                                  .inputs = ", %real_rows: Tensor[(b, s, 8), f32]"}),
                       PackedForm::Zeroed);
    EXPECT_TRUE(result.packed) << result.reason;
    if (!result.packed) return 0.0;
    EXPECT_EQ(result.packed->plan.limited_inputs.size(),
              std::isfinite(result.packed->plan.input_limit) ? 1u : 0u);
    return result.packed->plan.input_limit;
  };
  EXPECT_EQ(limit("-3.4028234663852886e38"), 1e8);
  EXPECT_EQ(limit("-2000"), 1e4);
}

TEST(MaskIdioms, KeptKeysMayHaveANegativeConstant) {
  expect_same({.bias = numbers + added +
                       "  %less = constant(f32 () [-3])\n  %bias = add(%padding, %less)\n"},
              DType::I64);
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
  for (const char* term :
       {"mul(%far, %slope)", "exp(%slope)", "log(%next)", "sin(%far)", "div(%slope, %next)",
        "pow(%far, %one)", "mod(%real_distance, %one)", "sqrt(%far)", "tanh(%real_distance)"}) {
    SCOPED_TRACE(term);
    expect_same({.bias = distance + "  %term = " + term + "\n  %bias = add(%padding, %term)\n"},
                DType::I64);
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
  expect_same({.bias = compared, .tail = pooled, .results = "%h, %sum", .mask = "%ids"},
              DType::I64);
  expect_same(
      {.bias = replaced(compared, "equal(%ids, %padding_id)", "less_equal(%ids, %padding_id)"),
       .mask = "%ids"},
      DType::I64);
  // Ids are looked up as well: without padding there is no mask that could be left out.
  const PackingResult ragged =
      remove_padding(module_of({.bias = compared, .mask = "%ids"}), PackedForm::Ragged);
  EXPECT_EQ(ragged.reason, "input %ids is the mask, and more than a mask");
}

TEST(MaskIdioms, OtherThingsThatAreAdded) {
  const std::string more = numbers + added + "  %bias = add(%extra, %padding)\n";
  EXPECT_EQ(refusal({.bias = more, .inputs = ", %extra: Tensor[(s, s), f32]"}),
            "%extra is added to the scores beside %m in attention 'Attention' (%a), and may be any "
            "number");
  const std::string limited = numbers + added + R"(
  %positive = max(%extra, %zero)
  %clipped = min(%positive, %one)
  %bias = add(%clipped, %padding)
)";
  EXPECT_EQ(refusal({.bias = limited, .inputs = ", %extra: Tensor[(s, s), f32]"}),
            "%extra is added to the scores beside %m in attention 'Attention' (%a), and may be any "
            "number");
}

}  // namespace
}  // namespace anydim::passes
