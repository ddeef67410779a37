// Models whose inputs name their dims apart: calls that agree and calls that do not.
#include "api/equal_dims.h"

#include <gtest/gtest.h>

#include "api/explain_model.h"
#include "api/model.h"
#include "ir/error.h"
#include "ir/random_tensor.h"
#include "ir/text/parse.h"
#include "tests/api/small_encoder.h"

namespace anydim {
namespace {

std::shared_ptr<const Model> compiled(const std::string& text, CompileOptions options = {}) {
  options.keep_kernels = false;
  options.background = false;
  options.threads = 1;
  return Model::compile(ir::parse(text), options);
}

// The encoder, with a mask of its own dims.
std::string encoder_with_own_mask() {
  std::string text = encoder;
  const std::string together = "%padding: Tensor[(b, s), bool]) where b in [0, 4], s in [0, 6]";
  text.replace(
      text.find(together), together.size(),
      "%padding: Tensor[(n, m), bool]) where b in [0, 4], s in [0, 6], n in [0, 4], m in [0, 6]");
  return text;
}

ir::Tensor ids(std::int64_t batch, std::int64_t length) {
  ir::Tensor tensor(ir::DType::I64, {batch, length});
  for (std::int64_t i = 0; i < tensor.elements(); ++i) tensor.set_integer(i, i * 7 % 50);
  return tensor;
}

ir::Tensor padding(std::vector<std::int64_t> dims, const std::vector<int>& hidden) {
  return ir::Tensor::of<int>(ir::DType::Bool, std::move(dims), hidden);
}

void expect_as_reference(const std::string& text, const std::vector<ir::Tensor>& inputs,
                         const std::vector<ir::Tensor>& got) {
  const std::vector<ir::Tensor> expected = evaluate_reference(ir::parse(text), inputs);
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].dims(), expected[i].dims()) << "output " << i;
    for (std::int64_t e = 0; e < got[i].elements(); ++e)
      EXPECT_NEAR(got[i].real_at(e), expected[i].real_at(e), 1e-5) << "output " << i << " at " << e;
  }
}

TEST(EqualDims, CallsThatAgreeArePacked) {
  CompileOptions options;
  options.masked_rows = MaskedRows::Zero;
  const auto model = compiled(encoder_with_own_mask(), options);
  EXPECT_EQ(model->equal_dims().text(), "m = s; n = b");
  ASSERT_TRUE(model->packing()) << model->padded_because();
  ModelContext context(model);
  context.run({ids(2, 3), padding({2, 3}, {0, 0, 1, 0, 1, 1})});
  EXPECT_EQ(context.packed_rows(), 3);
  EXPECT_EQ(model->statistics().calls.packed, 1);
}

TEST(EqualDims, CallsThatDoNotAgreeAreAsTheModelSays) {
  const std::string text = encoder_with_own_mask();
  const auto model = compiled(text);
  ModelContext context(model);
  for (const std::vector<ir::Tensor>& inputs : std::vector<std::vector<ir::Tensor>>{
           {ids(2, 3), padding({2, 3}, {0, 0, 1, 0, 0, 0})},   // agrees
           {ids(2, 3), padding({1, 3}, {0, 0, 1})},            // one mask for both
           {ids(2, 3), padding({2, 1}, {0, 0})},               // one entry for a sequence
           {ids(2, 3), padding({2, 3}, {0, 1, 0, 0, 0, 0})}})  // agrees again
    expect_as_reference(text, inputs, context.run(inputs));
  const ModelStatistics statistics = model->statistics();
  EXPECT_EQ(statistics.calls.calls, 4);
  EXPECT_EQ(statistics.calls.failed, 0);
  EXPECT_EQ(model->general(), model->general());
  EXPECT_TRUE(model->general()->equal_dims().empty());
}

TEST(EqualDims, WhatFitsNeitherIsToldAsBefore) {
  const auto model = compiled(encoder_with_own_mask());
  ModelContext context(model);
  const auto message = [&](const std::vector<ir::Tensor>& inputs) -> std::string {
    try {
      context.run(inputs);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Inputs);
      return error.what();
    }
    return "no error";
  };
  EXPECT_NE(message({ids(2, 3), padding({2, 2}, {0, 0, 0, 0})}).find("expected"),
            std::string::npos);
  EXPECT_EQ(message({ids(2, 7), padding({2, 7}, std::vector<int>(14))}),
            "input 'tokens', dimension 1 (s): expected at most 6, got 7.");
  EXPECT_NE(message({ids(2, 3)}).find("inputs"), std::string::npos);
  EXPECT_EQ(model->statistics().calls.failed, 3);
}

constexpr const char* decoder = R"(
fn @main(%past: Tensor[(b, p, 4), f32], %x: Tensor[(n, s, 4), f32], %mask: Tensor[(k, total), f32])
  where b in [0, 8], p in [0, 30], n in [0, 8], s in [0, 9], k in [0, 8] {
  %keys = concat(%past, %x) {axis = 1}
  %turned = transpose(%keys) {perm = (0, 2, 1)}
  %scores = matmul(%x, %turned)
  %rows = expand_dims(%mask) {axes = (1)}
  %masked = add(%scores, %rows)
  %weights = softmax(%masked) {axis = -1}
  %y = matmul(%weights, %keys)
  return %y, %keys
}
)";

std::vector<ir::Tensor> step(std::int64_t past, std::int64_t total) {
  return {ir::random_tensor(ir::DType::F32, {2, past, 4}, 1, "past"),
          ir::random_tensor(ir::DType::F32, {2, 1, 4}, 1, "x"),
          ir::random_tensor(ir::DType::F32, {2, total}, 1, "mask")};
}

// A mask over all tokens is of the earlier and the new ones together, and may be of one for all.
TEST(EqualDims, AMaskOverAllTokensIsAttentions) {
  const auto model = compiled(decoder);
  EXPECT_EQ(model->equal_dims().text(), "k = b; n = b; total = p + s");
  std::string kernels;
  for (const ir::Program::Kernel& kernel : model->padded()->program().kernels)
    kernels += kernel.region.name + " ";
  EXPECT_NE(kernels.find("attention"), std::string::npos) << kernels;
  ModelContext context(model);
  for (const auto& inputs : {step(4, 5), step(0, 1), step(4, 1)})
    expect_as_reference(decoder, inputs, context.run(inputs));
}

TEST(EqualDims, StepsAppendInPlace) {
  CompileOptions options;
  options.append_in_place = true;
  const auto model = compiled(decoder, options);
  ModelContext context(model);
  for (const auto& inputs : {step(4, 5), step(4, 1)})
    expect_as_reference(decoder, inputs, context.run(inputs));
  KvCache cache(*model);
  const std::vector<ir::Tensor> inputs = step(4, 5);
  cache.set("past", inputs[0]);
  expect_as_reference(decoder, inputs,
                      {context.run(cache, {inputs[1], inputs[2]})[0], cache.tensor("keys")});
  EXPECT_THROW(context.run(cache, {inputs[1], step(4, 1)[2]}), Error);
  EXPECT_EQ(cache.length(), 5);
}

TEST(EqualDims, ACallIsExplainedByWhatServesIt) {
  const auto model = compiled(decoder);
  const ModelExplanation agrees = explain_model(*model, {{2, 4, 4}, {2, 1, 4}, {2, 5}}, 1),
                         other = explain_model(*model, {{2, 4, 4}, {2, 1, 4}, {2, 1}}, 1);
  EXPECT_EQ(agrees.equal_dims, "k = b; n = b; total = p + s");
  EXPECT_EQ(other.equal_dims, "");
  EXPECT_NE(to_text(agrees).find("sizes: k = b; n = b; total = p + s;"), std::string::npos);
  EXPECT_TRUE(
      model->memory_ceiling({{"past", {2, 4, 4}}, {"x", {2, 1, 4}}, {"mask", {2, 5}}}).arena_bytes);
  EXPECT_TRUE(
      model->memory_ceiling({{"past", {2, 4, 4}}, {"x", {2, 1, 4}}, {"mask", {2, 1}}}).arena_bytes);
}

}  // namespace
}  // namespace anydim
