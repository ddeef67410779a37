// Activations that are quantised by their range: packed, the range is that of the rows that take
// part.
#include <gtest/gtest.h>

#include <string>

#include "ir/reference/evaluate.h"
#include "passes/hide_rows.h"
#include "tests/passes/padded_encoder.h"

namespace anydim::passes {
namespace {

using ir::DType;

// Keys are a product of %real, which is %x0 quantised to u8 by its range and made real again, as
// ONNX's DynamicQuantizeLinear and MatMulInteger do.
const std::string quantised = R"(
  %none = constant(f32 () [0])
  %most = constant(f32 () [255])
  %highest = reduce_max(%x0) {keepdims = 0}
  %lowest = reduce_min(%x0) {keepdims = 0}
  %top = max(%highest, %none)
  %bottom = min(%lowest, %none)
  %span = sub(%top, %bottom)
  %scale = div(%span, %most)
  %depth = neg(%bottom)
  %place = div(%depth, %scale)
  %rounded = round(%place)
  %zero = cast(%rounded) {to = u8}
  %scaled = div(%x0, %scale)
  %whole = round(%scaled)
  %shift = cast(%zero) {to = f32}
  %shifted = add(%whole, %shift)
  %byte = cast(%shifted) {to = u8}
  %integer = cast(%byte) {to = i32}
  %zero_integer = cast(%zero) {to = i32}
  %centred = sub(%integer, %zero_integer)
  %weight = constant(i8 (8, 8) @random(7))
  %weight_integer = cast(%weight) {to = i32}
  %product = matmul(%centred, %weight_integer)
  %unscaled = cast(%product) {to = f32}
  %weight_scale = constant(f32 () [0.01])
  %both = mul(%scale, %weight_scale)
  %made = mul(%unscaled, %both)
)";
// Hidden rows are 0, which every range holds.
const std::string masked = R"(
  %mk = expand_dims(%m) {axes = (-1)}
  %mf = cast(%mk) {to = f32}
  %x0 = mul(%n, %mf)
)";

const std::string unseen = R"(
  %m4 = expand_dims(%m) {axes = (1, 2)}
  %mb = cast(%m4) {to = bool}
  %z = constant(f32 () [0])
  %never = constant(f32 () [-inf])
  %bias = where(%mb, %z, %never)
)";

// A finite fill hides because the range bounds the scores.
TEST(QuantisedPadding, RangesOfKeptRows) {
  for (const std::string& bias : {unseen, additive}) {
    expect_same({.bias = bias,
                 .tail = mean_pooling,
                 .results = "%h, %mean",
                 .keys = "%made",
                 .before = masked + quantised},
                DType::I64);
  }
}

// So are those of the padded module that stands in for the packed one.
TEST(QuantisedPadding, PaddedRangesOfKeptRows) {
  const std::string all_rows = "  %two = constant(f32 () [2])\n  %x0 = mul(%n, %two)\n";
  const ir::Module module = module_of({.bias = additive,
                                       .tail = mean_pooling,
                                       .results = "%mean",
                                       .keys = "%made",
                                       .before = all_rows + quantised});
  const auto row = [](const std::vector<std::int64_t>& entries) {
    return ir::Tensor::of(DType::I64, {1, 6}, entries);
  };
  const auto mean = [&](const ir::Module& of, std::int64_t hidden_id) {
    const ir::Tensor result = ir::evaluate(
        of, of.functions[0], {row({3, 4, 11, 29, 40, hidden_id}), row({1, 1, 1, 1, 1, 0})})[0];
    std::vector<double> elements;
    for (std::int64_t i = 0; i < result.elements(); ++i) elements.push_back(result.real_at(i));
    return elements;
  };
  const ir::Module hidden =
      hide_rows(module, hiding_like(remove_padding(module, PackedForm::Zeroed))).module;
  bool reaches = false;
  for (std::int64_t id = 0; id < 50; ++id) {
    EXPECT_EQ(mean(hidden, id), mean(hidden, 7));
    reaches = reaches || mean(module, id) != mean(module, 7);
  }
  EXPECT_TRUE(reaches);
}

TEST(QuantisedPadding, IsToldAndOnlyWhereHiddenRowsAreZero) {
  const std::string all_rows = "  %two = constant(f32 () [2])\n  %x0 = mul(%n, %two)\n";
  const Encoder encoder{.bias = additive,
                        .tail = mean_pooling,
                        .results = "%mean",
                        .keys = "%made",
                        .before = all_rows + quantised};
  const PackingResult result = remove_padding(module_of(encoder), PackedForm::Zeroed);
  ASSERT_TRUE(result.packed) << result.reason;
  EXPECT_TRUE(result.packed->plan.ranges_of_kept_rows);
  EXPECT_EQ(refusal(encoder, false),
            "reduce_max (%highest) takes the range by which %x0 is quantised from hidden rows too; "
            "--masked-rows zero takes it from the others alone");
  const Encoder plain{.bias = additive, .tail = mean_pooling, .results = "%mean"};
  EXPECT_FALSE(
      remove_padding(module_of(plain), PackedForm::Zeroed).packed->plan.ranges_of_kept_rows);
}

// The largest element of all rows is more than a scale.
TEST(QuantisedPadding, RangesThatSayMore) {
  const auto with = [](const std::string& more, const std::string& keys,
                       const std::string& how = quantised) {
    return refusal({.bias = unseen, .keys = keys, .before = masked + how + more});
  };
  const std::string sums = "reduce_max (%highest) sums rows of several sequences";
  EXPECT_EQ(with("", "%made"), "packed");
  EXPECT_EQ(with("  %more = add(%made, %highest)\n", "%more"), sums);
  EXPECT_EQ(with("  %more = max(%made, %highest)\n", "%more"), sums);
  EXPECT_EQ(with("  %other = div(%n, %scale)\n  %more = add(%made, %other)\n", "%more"), sums);
  EXPECT_EQ(with("  %other = mul(%n, %scale)\n  %more = add(%made, %other)\n", "%more"), sums);
  std::string exact = quantised;
  exact.replace(exact.find("round(%scaled)"), 14, "floor(%scaled)");
  EXPECT_EQ(with("", "%made", exact), sums);
  EXPECT_EQ(
      refusal(
          {.bias = unseen, .results = "%h, %top", .keys = "%made", .before = masked + quantised}),
      sums);
}

}  // namespace
}  // namespace anydim::passes
