// A real encoder's export called packed and padded.
#include "api/model.h"

#include <gtest/gtest.h>

#include "api/load.h"
#include "ir/error.h"
#include "ir/text/parse.h"

namespace anydim {
namespace {

constexpr std::int64_t batch = 4, length = 9;

// Lengths 9, 4, 1 and 6 with a hole.
std::vector<ir::Tensor> some_inputs(const std::vector<InputInfo>& inputs) {
  std::vector<ir::Tensor> tensors;
  for (const InputInfo& input : inputs) {
    ir::Tensor tensor(ir::DType::I64, {batch, length});
    for (std::int64_t b = 0; b < batch; ++b) {
      const std::int64_t rows[] = {9, 4, 1, 6};
      for (std::int64_t s = 0; s < length; ++s) {
        const bool kept = s < rows[b] && !(b == 3 && s == 2);
        const bool is_mask = input.name.find("mask") != std::string::npos;
        tensor.set_integer(b * length + s, is_mask ? (kept ? 1 : 0) : (b * 7 + s * 3) % 2);
      }
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

std::size_t mask_position(const std::vector<InputInfo>& inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].name.find("mask") != std::string::npos) return i;
  throw std::logic_error("the model has a mask");
}

std::shared_ptr<const Model> compiled(MaskedRows rows) {
  CompileOptions options;
  options.keep_kernels = false;
  options.background = false;
  options.threads = 1;
  options.masked_rows = rows;
  return Model::compile(load_model("../models/tiny_bert.onnx"), options);
}

// Compiled once: tests call it through contexts of their own.
const std::shared_ptr<const Model>& tiny_bert(MaskedRows rows) {
  static const std::shared_ptr<const Model> keep = compiled(MaskedRows::Keep),
                                            zero = compiled(MaskedRows::Zero);
  return rows == MaskedRows::Keep ? keep : zero;
}

TEST(Model, PackedRowsAreThePaddedOnes) {
  const auto &padded = tiny_bert(MaskedRows::Keep), &packed = tiny_bert(MaskedRows::Zero);
  ASSERT_TRUE(packed->packing()) << packed->padded_because();
  ASSERT_FALSE(padded->padded_because().empty());
  const auto inputs = some_inputs(packed->inputs());
  ModelContext padded_context(padded), packed_context(packed);
  const auto expected = padded_context.run(inputs), got = packed_context.run(inputs);
  EXPECT_EQ(padded_context.packed_rows(), std::nullopt);
  EXPECT_EQ(packed_context.packed_rows(), 9 + 4 + 1 + 5);
  const ir::Tensor& mask = inputs[mask_position(packed->inputs())];
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].dims(), expected[i].dims());
    const bool has_rows =
        got[i].rank() >= 2 && got[i].dims()[0] == batch && got[i].dims()[1] == length;
    const std::int64_t row = has_rows ? got[i].elements() / (batch * length) : 1;
    for (std::int64_t at = 0; at < got[i].elements(); ++at) {
      if (has_rows && mask.integer_at(at / row) == 0) EXPECT_EQ(got[i].real_at(at), 0);
      else
        EXPECT_NEAR(got[i].real_at(at), expected[i].real_at(at), 1e-5)
            << "output " << i << " element " << at;
    }
  }
}

// This model asks of an entry whether it is 0.
TEST(Model, MasksOfOtherEntries) {
  const auto& packed = tiny_bert(MaskedRows::Zero);
  ASSERT_TRUE(packed->packing()) << packed->padded_because();
  ModelContext context(packed);
  auto inputs = some_inputs(packed->inputs());
  const std::size_t mask = mask_position(packed->inputs());
  inputs[mask].set_integer(3, 2);
  EXPECT_EQ(context.run(inputs).at(0).dims()[0], batch);
  EXPECT_EQ(context.packed_rows(), 9 + 4 + 1 + 5);
  for (std::int64_t i = 0; i < inputs[mask].elements(); ++i) inputs[mask].set_integer(i, 0);
  context.run(inputs);
  EXPECT_EQ(context.packed_rows(), std::nullopt);
}

TEST(Model, AMaskOfAnotherShapeThanTheIdsIsNamed) {
  const auto& packed = tiny_bert(MaskedRows::Zero);
  ModelContext context(packed);
  auto inputs = some_inputs(packed->inputs());
  inputs[mask_position(packed->inputs())] = ir::Tensor(ir::DType::I64, {batch, length - 1});
  try {
    context.run(inputs);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Inputs);
    EXPECT_STREQ(error.what(),
                 "input 'attention_mask', dimension 1 (seq): expected 9 as in input 'input_ids', "
                 "dimension 1, got 8.");
  }
}

TEST(Model, ATextWithoutAValidToken) {
  const auto &padded = tiny_bert(MaskedRows::Keep), &packed = tiny_bert(MaskedRows::Zero);
  auto inputs = some_inputs(packed->inputs());
  ir::Tensor& mask = inputs[mask_position(packed->inputs())];
  for (std::int64_t s = 0; s < length; ++s) mask.set_integer(1 * length + s, 0);
  ModelContext padded_context(padded), packed_context(packed);
  const auto expected = padded_context.run(inputs), got = packed_context.run(inputs);
  EXPECT_EQ(packed_context.packed_rows(), 9 + 1 + 5);
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i].rank() != 2) continue;  // pooled: nothing is pooled for that text
    for (std::int64_t at = 0; at < got[i].elements(); ++at)
      EXPECT_NEAR(got[i].real_at(at), expected[i].real_at(at), 1e-5)
          << "output " << i << " element " << at;
  }
}

TEST(Model, BatchesCountWhatACallComputes) {
  EXPECT_EQ(tiny_bert(MaskedRows::Zero)->batch_rule(100).counted, runtime::CountedTokens::Useful);
  EXPECT_EQ(tiny_bert(MaskedRows::Keep)->batch_rule(100).counted, runtime::CountedTokens::Padded);
  EXPECT_EQ(tiny_bert(MaskedRows::Keep)->batch_rule(100).tokens, 100);
}

TEST(Model, AnEmptyBatch) {
  const auto& packed = tiny_bert(MaskedRows::Zero);
  ModelContext context(packed);
  std::vector<ir::Tensor> inputs(packed->inputs().size(), ir::Tensor(ir::DType::I64, {0, length}));
  EXPECT_EQ(context.run(inputs).at(0).dims()[0], 0);
}

// How many rows are kept is known only at run time; the model says all of them.
TEST(Model, WhatIsSaidOfResultsIsHeldAgainstCalls) {
  ir::Module module = ir::parse(
      "fn @main(%x: Tensor[(n, 2), f32], %keep: Tensor[(n), bool]) {\n"
      "  %y = compress(%x, %keep) {axis = 0}\n  return %y\n}\n");
  ir::Function& main = module.functions[0];
  ir::Value& result = main.values[main.body.results[0]];
  result.type = ir::TensorType{ir::DType::F32, {ir::Dim::symbol("n"), ir::any_extent()}};
  result.declared = ir::Value::Declared::Hint;
  std::vector<std::string> warnings;
  CompileOptions options{.threads = 1, .keep_kernels = false, .background = false};
  options.warn = [&](const std::string& warning) { warnings.push_back(warning); };
  ModelContext context(Model::compile(std::move(module), options));
  const auto call = [&](std::int64_t kept) {
    ir::Tensor keep(ir::DType::Bool, {3});
    for (std::int64_t i = 0; i < kept; ++i) keep.set_integer(i, 1);
    return context.run({ir::Tensor(ir::DType::F32, {3, 2}), keep}).at(0).dims();
  };
  EXPECT_EQ(call(3), (std::vector<std::int64_t>{3, 2}));
  EXPECT_EQ(warnings, std::vector<std::string>{});
  EXPECT_EQ(call(1), (std::vector<std::int64_t>{1, 2}));
  const std::vector<std::string> once{
      "the model declares its output y as Tensor[(n, ?), f32], and this call gives it f32 (1, 2): "
      "dim 0 was expected to be 3, got 1"};
  EXPECT_EQ(warnings, once);
  EXPECT_EQ(call(2), (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(warnings, once);
}

}  // namespace
}  // namespace anydim
