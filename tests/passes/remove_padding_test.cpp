// Padded encoders rewritten over packed rows give the same results; near misses are left alone,
// with the op that stands in the way.
#include "passes/remove_padding.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/passes/padded_encoder.h"

namespace anydim::passes {
namespace {

using namespace ir;

TEST(RemovePadding, MeanPoolingAndHiddenStates) {
  expect_same({.bias = additive, .tail = mean_pooling, .results = "%h, %mean"}, DType::I64);
}

TEST(RemovePadding, BoolMaskSelects) {
  const std::string bias = R"(
  %m4 = expand_dims(%m) {axes = (1, 2)}
  %zero = constant(f32 () [0])
  %low = constant(f32 () [-inf])
  %bias = where(%m4, %zero, %low)
)";
  expect_same({.mask_type = "bool", .bias = bias}, DType::Bool);
}

TEST(RemovePadding, InvertedMask) {
  const std::string bias = R"(
  %m4 = expand_dims(%m) {axes = (1, 2)}
  %hidden = cast(%m4) {to = bool}
  %zero = constant(f32 () [0])
  %low = constant(f32 () [-inf])
  %bias = where(%hidden, %low, %zero)
)";
  expect_same({.bias = bias}, DType::I64, 0);
}

// Sums over what the inverted mask leaves: by its complement, or chosen by it.
TEST(RemovePadding, PoolingByAnInvertedMask) {
  const std::string bias = R"(
  %m4 = expand_dims(%m) {axes = (1, 2)}
  %zero = constant(f32 () [0])
  %low = constant(f32 () [-inf])
  %bias = where(%m4, %low, %zero)
)";
  expect_same({.mask_type = "bool",
               .bias = bias,
               .tail = R"(
  %shown = not(%m)
  %w1 = cast(%shown) {to = f32}
  %w = expand_dims(%w1) {axes = (-1)}
  %hw = mul(%h, %w)
  %sum = reduce_sum(%hw) {axes = (1)}
  %m3 = expand_dims(%m) {axes = (-1)}
  %chosen = where(%m3, %zero, %h)
  %other = reduce_sum(%chosen) {axes = (1)}
)",
               .results = "%sum, %other"},
              DType::Bool, 0);
}

TEST(RemovePadding, FloatMaskExpandedToPairs) {
  const std::string bias = R"(
  %columns = expand_dims(%m) {axes = (1, 2)}
  %rows = expand_dims(%m) {axes = (1, 3)}
  %pairs = mul(%rows, %columns)
  %one = constant(f32 () [1])
  %off = sub(%one, %pairs)
  %hidden = cast(%off) {to = bool}
  %zero = constant(f32 () [0])
  %low = constant(f32 () [-3.4028234663852886e38])
  %bias = where(%hidden, %low, %zero)
)";
  expect_same({.mask_type = "f32", .bias = bias}, DType::F32);
}

// As torch's newer exporter writes it: the mask flattened, gathered at batch * length + key,
// compared ranges, expanded to pairs.
TEST(RemovePadding, MaskGatheredAtComputedPositions) {
  const std::string bias = R"(
  %mb = cast(%m) {to = bool}
  %flat_mask = flatten(%mb) {axis = 2}
  %nb = dim(b)
  %ns = dim(s)
  %begin = constant(i64 () [0])
  %step = constant(i64 () [1])
  %bi = dyn.arange(%begin, %nb, %step)
  %si = dyn.arange(%begin, %ns, %step)
  %b4 = expand_dims(%bi) {axes = (1, 2, 3)}
  %j4 = expand_dims(%si) {axes = (0, 1, 2)}
  %i4 = expand_dims(%si) {axes = (0, 1, 3)}
  %see = greater_equal(%i4, %begin)
  %base = mul(%b4, %ns)
  %at = add(%j4, %base)
  %picked = gather(%flat_mask, %at) {axis = 0}
  %all = shape(b, 1, 1, s)
  %mask4 = dyn.reshape(%picked, %all)
  %both = and(%see, %mask4)
  %zero = constant(f32 () [0])
  %low = constant(f32 () [-3.4028234663852886e38])
  %bias = where(%both, %zero, %low)
)";
  expect_same({.bias = bias, .tail = mean_pooling, .results = "%mean"}, DType::I64);
}

TEST(RemovePadding, ReshapesThatAreUndone) {
  const std::string undone = R"(
  %joined = shape(b, s*8)
  %rows = shape(b, s, 8)
  %flat_h = dyn.reshape(%h, %joined)
  %again = dyn.reshape(%flat_h, %rows)
  %apart = shape(b, 1, s, 4, 2)
  %parts = dyn.reshape(%again, %apart)
  %whole = dyn.reshape(%parts, %rows)
  %y = tanh(%whole)
)";
  expect_same({.bias = additive, .tail = undone, .results = "%y"}, DType::I64);
  EXPECT_EQ(refusal({.bias = additive, .tail = undone, .results = "%flat_h"}),
            "dyn.reshape (%flat_h) makes something of rows that hidden ones may change");
}

// Rows that are hidden hold one number in what is pooled.
TEST(RemovePadding, OtherPoolings) {
  const auto pooled = [](const char* fill, const char* reduction) {
    return std::string(R"(
  %m3 = expand_dims(%m) {axes = (-1)}
  %shown3 = cast(%m3) {to = bool}
  %low3 = constant(f32 () [)") +
           fill + R"(])
  %bounded = tanh(%h)
  %chosen = where(%shown3, %bounded, %low3)
  %pooled = )" +
           reduction + "\n";
  };
  const auto encoder = [&](const char* fill, const char* reduction) {
    return Encoder{.bias = additive, .tail = pooled(fill, reduction), .results = "%pooled"};
  };
  for (const char* fill : {"-1e9", "-2", "-inf"})
    expect_same(encoder(fill, "reduce_max(%chosen) {axes = (1)}"), DType::I64);
  expect_same(encoder("-1e9", "reduce_max(%chosen) {axes = (1), keepdims = 1}"), DType::I64);
  for (const char* fill : {"1e9", "inf"})
    expect_same(encoder(fill, "reduce_min(%chosen) {axes = (1)}"), DType::I64);
  expect_same(encoder("0", "reduce_mean(%chosen) {axes = (1)}"), DType::I64);
  expect_same(encoder("0", "reduce_sum(%chosen) {axes = (0, 1)}"), DType::I64);
  expect_same(encoder("0", "reduce_sum(%chosen) {axes = (0, 1), keepdims = 1}"), DType::I64);
  for (const auto& [fill, reduction] : std::vector<std::pair<const char*, const char*>>{
           {"0", "reduce_max(%chosen) {axes = (1)}"}, {"-1e9", "reduce_min(%chosen) {axes = (1)}"}})
    EXPECT_EQ(refusal(encoder(fill, reduction)),
              std::string(reduction).substr(0, 10) +
                  " (%pooled) compares rows of %chosen that hidden ones may change");
  EXPECT_EQ(refusal(encoder("1", "reduce_mean(%chosen) {axes = (1)}")),
            "reduce_mean (%pooled) sums rows of %chosen that are not provably 0 where hidden");
  EXPECT_EQ(refusal(encoder("0", "reduce_mean(%chosen) {axes = (0, 1)}")),
            "reduce_mean (%pooled) sums rows of several sequences");
}

// Positions that are counted from ids, as RoBERTa does: right where hidden rows come last.
TEST(RemovePadding, CountedPositions) {
  const auto counted = [](const char* exclusive) {
    return std::string(R"(
  %padding_id = constant(i64 () [1])
  %is_padding = equal(%ids, %padding_id)
  %is_token = not(%is_padding)
  %entries = cast(%is_token) {to = i32}
  %counted = cumulative_sum(%entries) {axis = 1, exclusive = )") +
           exclusive + R"(}
  %real_count = cast(%counted) {to = f32}
  %c3 = expand_dims(%real_count) {axes = (-1)}
  %y = mul(%h, %c3)
)";
  };
  for (const char* exclusive : {"0", "1"}) {
    const PackingResult result =
        remove_padding(module_of({.bias = additive, .tail = counted(exclusive), .results = "%y"}),
                       PackedForm::Zeroed);
    ASSERT_TRUE(result.packed) << result.reason;
    EXPECT_TRUE(result.packed->plan.leading_rows);
  }
  EXPECT_EQ(refusal({.bias = additive, .tail = counted("0, reverse = 1"), .results = "%y"}),
            "cumulative_sum (%counted) works across rows");
}

TEST(RemovePadding, FirstRowsNeedTheirOwnCheck) {
  const std::string tail = R"(
  %cls = strided_slice(%h) {starts = (0), ends = (1), axes = (1)}
  %c2 = squeeze(%cls) {axes = (1)}
  %pool = matmul(%c2, %wq)
  %out = tanh(%pool)
)";
  const PackingResult result = remove_padding(
      module_of({.bias = additive, .tail = tail, .results = "%out"}), PackedForm::Exact);
  ASSERT_TRUE(result.packed) << result.reason;
  EXPECT_TRUE(result.packed->plan.first_rows);
}

TEST(RemovePadding, RowsPickedByNumber) {
  const std::string tail = R"(
  %at = arg_max(%ids) {axis = 1, keepdims = 1}
  %out = gather_nd(%h, %at) {batch_dims = 1}
)";
  const PackingResult result = remove_padding(
      module_of({.bias = additive, .tail = tail, .results = "%out"}), PackedForm::Exact);
  ASSERT_TRUE(result.packed) << result.reason;
  EXPECT_TRUE(result.packed->plan.counts_hidden_picks);
  EXPECT_EQ(result.packed->module.functions.at(0).body.results.size(), 2u);
  EXPECT_EQ(remove_padding(module_of({.bias = additive, .tail = tail, .results = "%out"}),
                           PackedForm::Ragged)
                .reason,
            "gather_nd (%out) picks among rows");
  EXPECT_EQ(refusal({.bias = additive,
                     .tail = "  %at = constant(i64 (1) [0])\n  %out = gather(%h, %at) {axis = 2}\n "
                             "%least = reduce_min(%out) {axes = (1)}",
                     .results = "%least"}),
            "reduce_min (%least) compares rows of %out that hidden ones may change");
}

// As torch exports h[:, :, [7, 2]]: the indexed dim first, then back.
TEST(RemovePadding, PartsOfRowsPickedByNumber) {
  const std::string tail = R"(
  %front = transpose(%h) {perm = (2, 0, 1)}
  %which = constant(i64 (2, 1) [7, 2])
  %some = gather_nd(%front, %which)
  %out = transpose(%some) {perm = (1, 2, 0)}
)";
  const PackingResult result = remove_padding(
      module_of({.bias = additive, .tail = tail, .results = "%out"}), PackedForm::Zeroed);
  ASSERT_TRUE(result.packed) << result.reason;
  const std::string by_rows = R"(
  %which = constant(i64 (1, 1) [0])
  %out = gather_nd(%h, %which)
)";
  EXPECT_EQ(refusal({.bias = additive, .tail = by_rows, .results = "%out"}),
            "gather_nd (%out) picks among other dims than those of rows");
}

TEST(RemovePadding, HiddenRowsStayUnlessZerosWillDo) {
  EXPECT_EQ(refusal({.bias = additive}, false),
            "result %h keeps hidden rows, as the model computes them; --masked-rows zero gives "
            "zeros there");
}

TEST(RemovePadding, NearMisses) {
  const auto replaced = [](std::string text, const std::string& from, const std::string& to) {
    return text.replace(text.find(from), from.size(), to);
  };
  EXPECT_EQ(refusal({.bias = replaced(additive, "axes = (1, 2)", "axes = (1, 3)")}),
            "the bias of attention 'Attention' (%a) reads no mask of (batch, key)");
  EXPECT_EQ(refusal({.mask_type = "f32", .bias = "  %bias = expand_dims(%m) {axes = (1, 2)}"}),
            "%m does not decide which keys take part in attention 'Attention' (%a)");
  EXPECT_EQ(
      refusal(
          {.bias = additive, .tail = "  %mean = reduce_mean(%h) {axes = (1)}", .results = "%mean"}),
      "reduce_mean (%mean) sums rows of %h that are not provably 0 where hidden");
  EXPECT_EQ(
      refusal(
          {.bias = additive, .tail = "  %sum = reduce_sum(%h) {axes = (1)}", .results = "%sum"}),
      "reduce_sum (%sum) sums rows of %h that are not provably 0 where hidden");
  EXPECT_EQ(
      refusal({.bias = additive, .tail = "  %soft = softmax(%h) {axis = 1}", .results = "%soft"}),
      "softmax (%soft) works across rows");
}

}  // namespace
}  // namespace anydim::passes
