#include "tests/passes/padded_encoder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ir/reference/evaluate.h"
#include "ir/verify.h"
#include "runtime/packing.h"
#include "tests/support/pass_fixture.h"

namespace anydim::passes {

using namespace ir;

std::string text_of(const Encoder& encoder) {
  return fmt::format(
      R"(
fn @main(%ids: Tensor[(b, s), i64]{}{}) where b in [0, 64], s in [0, 32] {{
  %table = constant(f32 (50, 8) @random(1))
  %places = constant(f32 (32, 8) @random(2))
  %wq = constant(f32 (8, 8) @random(3))
  %wk = constant(f32 (8, 8) @random(4))
  %wv = constant(f32 (8, 8) @random(5))
  %gain = constant(f32 (8) @random(6))
  %e = gather(%table, %ids) {{axis = 0}}
  %from = constant(i64 (1) [0])
  %to = shape(s)
  %p = dyn.strided_slice(%places, %from, %to)
  %x = add(%e, %p)
  %n = layer_norm(%x, %gain) {{axis = -1, epsilon = {}}}
{}
  %q0 = matmul(%n, %wq)
  %k0 = matmul({}, %wk)
  %v0 = matmul(%n, %wv)
  %heads = shape(b, s, 2, 4)
  %q1 = dyn.reshape(%q0, %heads)
  %k1 = dyn.reshape(%k0, %heads)
  %v1 = dyn.reshape(%v0, %heads)
  %q = transpose(%q1) {{perm = (0, 2, 1, 3)}}
  %k = transpose(%k1) {{perm = (0, 2, 1, 3)}}
  %v = transpose(%v1) {{perm = (0, 2, 1, 3)}}
{}
  %a = attention(%q, %k, %v, %bias) {{scale = 0.5}} from "Attention"
  %t = transpose(%a) {{perm = (0, 2, 1, 3)}}
  %flat = shape(b, s, 8)
  %r = dyn.reshape(%t, %flat)
  %h = add(%r, %x)
{}
  return {}
}}
)",
      encoder.mask == "%m" ? fmt::format(", %m: Tensor[(b, s), {}]", encoder.mask_type) : "",
      encoder.inputs, encoder.epsilon, encoder.before, encoder.keys, encoder.bias, encoder.tail,
      encoder.results);
}

Module module_of(const Encoder& encoder) {
  return tests::after_passes(
      text_of(encoder),
      {"infer_types", "dynamic_to_static", "common_subexpressions", "dead_code", "simplify_views"});
}

const std::string additive = R"(
  %m4 = expand_dims(%m) {axes = (1, 2)}
  %real = cast(%m4) {to = f32}
  %one = constant(f32 () [1])
  %off = sub(%one, %real)
  %low = constant(f32 () [-3.4028234663852886e38])
  %bias = mul(%off, %low)
)";
const std::string mean_pooling = R"(
  %m3 = expand_dims(%m) {axes = (-1)}
  %wide = shape(b, s, 8)
  %m8 = dyn.broadcast_to(%m3, %wide)
  %w = cast(%m8) {to = f32}
  %hw = mul(%h, %w)
  %total = reduce_sum(%hw) {axes = (1)}
  %count = reduce_sum(%w) {axes = (1)}
  %least = constant(f32 () [1e-9])
  %safe = max(%count, %least)
  %mean = div(%total, %safe)
)";

namespace {

// Sequences of the masks that the tests use: lengths 5, 1, 0 padding inside, left padding, all.
Tensor mask_entries(DType dtype, std::int64_t kept) {
  const std::vector<std::vector<int>> rows{{1, 1, 1, 1, 1, 0, 0},
                                           {1, 0, 0, 0, 0, 0, 0},
                                           {1, 0, 1, 1, 0, 0, 1},
                                           {0, 0, 0, 1, 1, 1, 1},
                                           {1, 1, 1, 1, 1, 1, 1}};
  Tensor mask(dtype, {5, 7});
  for (std::int64_t b = 0; b < 5; ++b) {
    for (std::int64_t s = 0; s < 7; ++s) {
      const std::int64_t entry =
          rows[static_cast<std::size_t>(b)][static_cast<std::size_t>(s)] == 1 ? kept : 1 - kept;
      if (is_float(dtype)) mask.set_real(b * 7 + s, static_cast<double>(entry));
      else mask.set_integer(b * 7 + s, entry);
    }
  }
  return mask;
}

// The same number of rows in every sequence, those that take part first.
Tensor with_leading_rows(const Tensor& mask, std::int64_t kept) {
  Tensor sorted(mask.dtype(), mask.dims());
  const std::int64_t length = mask.dims()[1];
  for (std::int64_t b = 0; b < mask.dims()[0]; ++b) {
    std::int64_t rows = 0;
    for (std::int64_t s = 0; s < length; ++s)
      rows += mask.integer_at(b * length + s) == kept ? 1 : 0;
    for (std::int64_t s = 0; s < length; ++s)
      sorted.set_integer(b * length + s, s < rows ? kept : 1 - kept);
  }
  return sorted;
}

bool takes_part(const Tensor& mask, std::int64_t kept, std::int64_t at) {
  return (is_float(mask.dtype()) ? static_cast<std::int64_t>(mask.real_at(at))
                                 : mask.integer_at(at)) == kept;
}

std::vector<Tensor> with_plan(const PackedModule& packed, std::vector<Tensor> inputs,
                              const Tensor& entries) {
  const Tensor mask = runtime::row_truths({.question = packed.plan.question}, entries);
  const Function& main = packed.module.functions[0];
  const std::int64_t batch = mask.dims()[0], length = mask.dims()[1];
  std::vector<std::int64_t> rows, offsets{0}, positions, sequences, places;
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t s = 0; s < length; ++s) {
      const bool kept = takes_part(mask, packed.plan.kept, b * length + s);
      places.push_back(kept ? static_cast<std::int64_t>(rows.size()) : -1);
      if (!kept) continue;
      rows.push_back(b * length + s);
      positions.push_back(s);
      sequences.push_back(b);
    }
    offsets.push_back(static_cast<std::int64_t>(rows.size()));
  }
  for (std::size_t i = inputs.size(); i < main.body.parameters.size(); ++i) {
    const ValueId id = main.body.parameters[i];
    if (id == packed.plan.work) {
      inputs.push_back(
          Tensor::of<std::int64_t>(DType::I64, {batch, 2}, runtime::work_list(offsets)));
      continue;
    }
    const auto& values = id == packed.plan.rows        ? rows
                         : id == packed.plan.offsets   ? offsets
                         : id == packed.plan.positions ? positions
                         : id == packed.plan.sequences ? sequences
                                                       : places;
    inputs.push_back(
        Tensor::of<std::int64_t>(DType::I64, {static_cast<std::int64_t>(values.size())}, values));
  }
  return inputs;
}

Tensor ids() {
  Tensor ids(DType::I64, {5, 7});
  for (std::int64_t i = 0; i < ids.elements(); ++i) ids.set_integer(i, (i * 31 + 7) % 50);
  return ids;
}

// Ids of which 0 is the padding.
Tensor masked_ids() {
  Tensor tokens = ids();
  const Tensor mask = mask_entries(DType::I64, 1);
  for (std::int64_t i = 0; i < tokens.elements(); ++i)
    tokens.set_integer(i, mask.integer_at(i) != 0 ? 1 + tokens.integer_at(i) % 49 : 0);
  return tokens;
}

}  // namespace

void expect_same(const Encoder& encoder, DType mask_dtype, std::int64_t kept) {
  const Module padded = module_of(encoder);
  const PackingResult result = remove_padding(padded, PackedForm::Zeroed);
  ASSERT_TRUE(result.packed) << result.reason;
  ASSERT_EQ(result.packed->plan.kept_entry, kept);
  verify(result.packed->module);
  const bool by_ids = encoder.mask == "%ids";
  Tensor mask = by_ids ? masked_ids() : mask_entries(mask_dtype, kept);
  if (result.packed->plan.leading_rows) mask = with_leading_rows(mask, kept);
  const std::vector<Tensor> inputs = by_ids ? std::vector{mask} : std::vector{ids(), mask};
  const Tensor truths = runtime::row_truths({.question = result.packed->plan.question}, mask);
  const auto expected = evaluate(padded, padded.functions[0], inputs);
  const auto got = evaluate(result.packed->module, result.packed->module.functions[0],
                            with_plan(*result.packed, inputs, mask));
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].dims(), expected[i].dims());
    const bool has_rows = got[i].rank() == 3;
    for (std::int64_t at = 0; at < got[i].elements(); ++at) {
      if (has_rows && !takes_part(truths, result.packed->plan.kept, at / got[i].dims()[2]))
        EXPECT_EQ(got[i].real_at(at), 0);
      else
        EXPECT_NEAR(got[i].real_at(at), expected[i].real_at(at), 1e-5)
            << "result " << i << " element " << at;
    }
  }
}

std::string refusal(const Encoder& encoder, bool zero_hidden) {
  const PackingResult result =
      remove_padding(module_of(encoder), zero_hidden ? PackedForm::Zeroed : PackedForm::Exact);
  return result.packed ? "packed" : result.reason;
}

}  // namespace anydim::passes
