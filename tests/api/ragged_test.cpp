// Texts laid end to end: the same results as padded calls, and what does not fit is named.
#include "api/ragged.h"

#include <gtest/gtest.h>

#include "api/model.h"
#include "ir/error.h"
#include "ir/text/parse.h"
#include "tests/api/small_encoder.h"

namespace anydim {
namespace {

std::shared_ptr<const Model> compiled(const std::string& text,
                                      std::vector<std::string> outputs = {}) {
  CompileOptions options;
  options.keep_kernels = false;
  options.background = false;
  options.threads = 1;
  options.outputs = std::move(outputs);
  return Model::compile(ir::parse(text), options);
}

// Compiled once: tests call it through contexts of their own.
const std::shared_ptr<const Model>& small() {
  static const std::shared_ptr<const Model> model = compiled(encoder);
  return model;
}

ir::Tensor integers(const std::vector<std::int64_t>& values) {
  return ir::Tensor::of<std::int64_t>(ir::DType::I64, {static_cast<std::int64_t>(values.size())},
                                      values);
}

const std::vector<std::int64_t> three{0, 4, 5, 8};  // texts of 4, 1 and 3 tokens
const std::vector<std::int64_t> ids{7, 8, 9, 10, 3, 44, 2, 9};

// Texts end to end and the same padded.
void expect_padded_results(const std::shared_ptr<const Model>& model) {
  ModelContext context(model);
  const auto got = context.run_ragged({integers(ids)}, integers(three));
  EXPECT_EQ(context.packed_rows(), 8);
  EXPECT_EQ(model->ragged()->output_rows, (std::vector<bool>{true, false, false}));
  ASSERT_EQ(got.size(), 3u);
  EXPECT_EQ(got[0].dims(), (std::vector<std::int64_t>{8, 16}));
  EXPECT_EQ(got[1].dims(), (std::vector<std::int64_t>{3, 16}));

  ir::Tensor tokens(ir::DType::I64, {3, 4}), padding(ir::DType::Bool, {3, 4});
  for (std::int64_t t = 0; t < 3; ++t) {
    const std::int64_t begin = three[static_cast<std::size_t>(t)],
                       length = three[static_cast<std::size_t>(t) + 1] - begin;
    for (std::int64_t s = 0; s < 4; ++s) {
      padding.set_integer(t * 4 + s, s < length ? 0 : 1);
      if (s < length) tokens.set_integer(t * 4 + s, ids[static_cast<std::size_t>(begin + s)]);
    }
  }
  const auto expected = context.run({tokens, padding});
  EXPECT_EQ(context.packed_rows(), std::nullopt);  // rows are asked for as the model gives them
  for (std::int64_t t = 0; t < 3; ++t) {
    const std::int64_t begin = three[static_cast<std::size_t>(t)],
                       length = three[static_cast<std::size_t>(t) + 1] - begin;
    for (std::int64_t e = 0; e < 16; ++e) {
      for (std::int64_t s = 0; s < length; ++s)
        EXPECT_NEAR(got[0].real_at((begin + s) * 16 + e), expected[0].real_at((t * 4 + s) * 16 + e),
                    1e-5);
      for (const std::size_t pooled : {1u, 2u})
        EXPECT_NEAR(got[pooled].real_at(t * 16 + e), expected[pooled].real_at(t * 16 + e), 1e-5);
    }
  }
}

TEST(Ragged, RowsAndPoolingAreThePaddedOnes) { expect_padded_results(small()); }

TEST(Ragged, RowsThatSeeWhatCameBeforeThemAlone) {
  std::string text = encoder;
  const std::string bias = "%bias = where(%m4, %low, %zero)";
  text.replace(text.find(bias), bias.size(), R"(%i = expand_dims(%range) {axes = (1)}
  %j = expand_dims(%range) {axes = (0)}
  %later = less(%i, %j)
  %hidden = or(%m4, %later)
  %bias = where(%hidden, %low, %zero))");
  const auto model = compiled(text);
  expect_padded_results(model);
  // What rows see of one another is computed inside of attention's kernel.
  EXPECT_EQ(model->ragged()->executable->program().kernels.size(),
            small()->ragged()->executable->program().kernels.size());
}

TEST(Ragged, NoTextsAndTextsWithoutTokens) {
  const auto model = compiled(encoder, {"rows"});
  ModelContext context(model);
  EXPECT_EQ(context.run_ragged({integers({})}, integers({0}))[0].dims(),
            (std::vector<std::int64_t>{0, 16}));
  EXPECT_EQ(context.run_ragged({integers({})}, integers({0, 0, 0}))[0].dims(),
            (std::vector<std::int64_t>{0, 16}));
  const auto alone = context.run_ragged({integers({7, 8})}, integers({0, 2}));
  const auto beside = context.run_ragged({integers({7, 8})}, integers({0, 0, 2, 2}));
  EXPECT_TRUE(alone[0].same_bits(beside[0]));
}

std::string refusal(ModelContext& context, const std::vector<ir::Tensor>& inputs,
                    const ir::Tensor& offsets) {
  try {
    context.run_ragged(inputs, offsets);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Inputs);
    return error.what();
  }
  ADD_FAILURE() << "accepted";
  return {};
}

TEST(Ragged, WhatDoesNotFitIsNamed) {
  const auto& model = small();
  ModelContext context(model);
  const auto eight = integers(ids);
  EXPECT_EQ(
      refusal(context, {eight}, integers({})),
      "offsets are i64 (0): expected i64 of rank 1 with one element more than there are texts");
  EXPECT_EQ(
      refusal(context, {eight}, ir::Tensor(ir::DType::I32, {2, 2})),
      "offsets are i32 (2, 2): expected i64 of rank 1 with one element more than there are texts");
  EXPECT_EQ(refusal(context, {eight}, integers({1, 8})), "offsets[0] is 1: expected 0");
  EXPECT_EQ(refusal(context, {eight}, integers({0, 5, 3, 8})),
            "offsets[2] is 3, after 5: offsets never decrease");
  EXPECT_EQ(refusal(context, {eight}, integers({0, 4, 9})),
            "offsets end with 9, but input 'tokens' has 8 rows: expected as many");
  EXPECT_EQ(refusal(context, {eight}, integers({0, 4})),
            "offsets end with 4, but input 'tokens' has 8 rows: expected as many");
  EXPECT_EQ(refusal(context, {eight, eight}, integers(three)),
            "a ragged call of this model takes 1 inputs and offsets, got 2 inputs");
  EXPECT_EQ(refusal(context, {ir::Tensor(ir::DType::F32, {8})}, integers(three)),
            "input 'tokens' does not fit: expected i64 (tokens), got f32 (8)");
  EXPECT_EQ(refusal(context, {eight}, integers({0, 0, 8})),
            "text 0 has no token, and the model reads every text's first");
  EXPECT_EQ(refusal(context, {eight}, integers({0, 1, 8})),
            "text 1 has 7 tokens: expected at most 6");
  EXPECT_EQ(refusal(context, {eight}, integers({0, 1, 2, 3, 4, 8})),
            "a call with 5 texts: expected 0 to 4");
}

TEST(Ragged, AModelWhoseRowsMixIsRefused) {
  std::string text = encoder;
  const std::string local = "%rows = add(%r, %x)";
  text.replace(text.find(local), local.size(), "%rows = softmax(%r) {axis = 1}");
  const auto model = compiled(text);
  try {
    model->ragged();
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Unsupported);
    EXPECT_STREQ(error.what(),
                 "the model does not take ragged input: softmax (%rows) works across rows");
  }
}

}  // namespace
}  // namespace anydim
