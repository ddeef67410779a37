// What is wrong with nodes of newer opsets and of other domains: attributes that contradict each
// other or the inputs, with the whole message.
#include <gtest/gtest.h>

#include "ir/reference/evaluate.h"
#include "ir/shapes/infer.h"
#include "tests/frontends/model_builder.h"

namespace anydim::frontends {
namespace {

using Inputs = std::vector<std::pair<std::vector<DimSpec>, int>>;  // dims and element type

struct OneNode {
  ModelBuilder builder;
  NodeBuilder node;
  std::string failure() const { return builder.failure(); }
};

// A node named 'n' over inputs x0, x1, ...; one of rank -1 (dims {"left out"}) is left out.
OneNode one_node(const std::string& op, const Inputs& inputs, int opset = 25,
                 const std::string& domain = "") {
  ModelBuilder builder(opset);
  if (!domain.empty()) {
    auto& import = *builder.model.add_opset_import();
    import.set_domain(domain);
    import.set_version(1);
  }
  std::vector<std::string> names;
  for (const auto& [dims, type] : inputs) {
    names.push_back(type == 0 ? "" : "x" + std::to_string(names.size()));
    if (type != 0) builder.input(names.back(), type, dims);
  }
  builder.output("y");
  NodeBuilder node = builder.node(op, names, {"y"}).name("n").domain(domain);
  return {std::move(builder), node};
}

const std::pair<std::vector<DimSpec>, int> left_out{{}, 0};

OneNode runtime_node(const std::string& op, const Inputs& inputs) {
  return one_node(op, inputs, 17, "com.microsoft");
}

TEST(DomainErrors, Attention) {
  const Inputs packed{{{"b", "s", 6}, f32}, {{"b", "t", 6}, f32}, {{"b", "t", 6}, f32}};
  auto heads = one_node("Attention", packed);
  heads.node.integer("q_num_heads", 4).integer("kv_num_heads", 2);
  EXPECT_EQ(heads.failure(),
            "malformed: node 'n' (Attention) has q_num_heads = 4, which does not divide the 6 "
            "elements of a row");
  auto shared = one_node("Attention", packed);
  shared.node.integer("q_num_heads", 3).integer("kv_num_heads", 2);
  EXPECT_EQ(shared.failure(),
            "malformed: node 'n' (Attention) has kv_num_heads = 2, which does not divide "
            "q_num_heads = 3");
  EXPECT_EQ(one_node("Attention", packed).failure(),
            "malformed: node 'n' (Attention) lacks the attribute 'q_num_heads'");
  const std::pair<std::vector<DimSpec>, int> apart{{"b", 3, "s", 4}, f32},
      fewer{{"b", 2, "t", 4}, f32}, past{{"b", 3, "p", 4}, f32};
  EXPECT_EQ(one_node("Attention", {apart, fewer, fewer}).failure(),
            "malformed: node 'n' (Attention) has 2 heads in input 1, which do not divide the 3 of "
            "input 0");
  EXPECT_EQ(
      one_node("Attention", {apart, apart, apart, left_out, past}).failure(),
      "malformed: node 'n' (Attention) takes past_key and past_value together, got one of them");
  EXPECT_EQ(
      one_node("Attention", {apart, apart, apart, left_out, past, past, {{"b"}, i64}}).failure(),
      "malformed: node 'n' (Attention) takes past_key or nonpad_kv_seqlen, got both");
  EXPECT_EQ(one_node("Attention", {apart, apart, apart, {{"s", "s"}, i64}}).failure(),
            "malformed: node 'n' (Attention) takes bool or f32 as input 3 (attn_mask), got i64");
  auto window = one_node("Attention", {apart, apart, apart});
  window.node.integer("left_window_size", -2);
  EXPECT_EQ(
      window.failure(),
      "malformed: node 'n' (Attention) has left_window_size = -2; expected -1 or a number of keys");
  auto told = one_node("Attention", {apart, apart, apart});
  told.node.integer("q_num_heads", 3);
  EXPECT_EQ(told.failure(),
            "malformed: node 'n' (Attention) has q_num_heads or kv_num_heads beside inputs of rank "
            "4, whose heads are apart");
}

TEST(DomainErrors, GroupsOfChannelsLast) {
  const auto norm = [](std::int64_t groups, std::int64_t activation) {
    auto one = runtime_node("GroupNorm", {{{"n", "h", "w", 6}, f32}, {{6}, f32}, {{6}, f32}});
    one.node.integer("groups", groups).integer("activation", activation);
    return one.failure();
  };
  EXPECT_EQ(norm(3, 1), "read");
  EXPECT_EQ(norm(4, 1),
            "malformed: node 'n' (GroupNorm) has groups = 4, which does not divide the 6 channels "
            "of input 0");
  EXPECT_EQ(norm(3, 2),
            "malformed: node 'n' (GroupNorm) takes 0 (none) or 1 (swish) as attribute "
            "'activation', got 2");
}

TEST(DomainErrors, StatesAndAngles) {
  auto rule = one_node("LinearAttention",
                       {{{"b", "t", 4}, f32}, {{"b", "t", 4}, f32}, {{"b", "t", 4}, f32}}, 27);
  rule.node.integer("q_num_heads", 2).integer("kv_num_heads", 2);
  EXPECT_EQ(rule.failure(),
            "malformed: node 'n' (LinearAttention) lacks a decay (input 4) with update_rule = "
            "'gated_delta'");
  EXPECT_EQ(one_node("CausalConvWithState",
                     {{{"b", 2, "t"}, f32}, {{2, 1, 3}, f32}, left_out, {{"b", 2, 3}, f32}}, 27)
                .failure(),
            "malformed: node 'n' (CausalConvWithState) takes a past_state of 2 positions, got 3");
  auto axis = one_node("TensorScatter", {{{"b", "t"}, f32}, {{"b", "u"}, f32}});
  axis.node.integer("axis", 0);
  EXPECT_EQ(axis.failure(),
            "malformed: node 'n' (TensorScatter) has axis = 0, which is the batch's");
  EXPECT_EQ(one_node("RotaryEmbedding",
                     {{{"b", 2, "s", 6}, f32}, {{8, 2}, f32}, {{8, 2}, f32}, {{"b", "s"}, i64}})
                .failure(),
            "malformed: node 'n' (RotaryEmbedding) takes rows of 3 elements as input 1, got 2");
}

// What the run alone can tell, it checks.
TEST(DomainErrors, UpdatesThatDoNotFitTheCache) {
  auto one = one_node("TensorScatter", {{{"b", "t"}, f32}, {{"b", "u"}, f32}, {{"b"}, i64}});
  one.node.integer("axis", 1);
  ir::Module module = one.builder.read();
  ir::infer_types(module);
  const auto run = [&](std::int64_t first) {
    const std::vector<ir::Tensor> arguments{
        ir::Tensor::of(ir::DType::F32, {1, 3}, std::vector<double>{1, 2, 3}),
        ir::Tensor::of(ir::DType::F32, {1, 2}, std::vector<double>{4, 5}),
        ir::Tensor::of(ir::DType::I64, {1}, std::vector<std::int64_t>{first})};
    try {
      ir::evaluate(module, module.functions[0], arguments);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("ran");
  };
  EXPECT_EQ(run(1), "ran");
  const std::string fault =
      "node 'n' (TensorScatter): the update and its write_indices do not fit the cache: its steps, "
      "and the cache's:";
  EXPECT_NE(run(2).find(fault), std::string::npos) << run(2);
  EXPECT_NE(run(-1).find(fault), std::string::npos) << run(-1);
}

TEST(DomainErrors, RuntimeAttention) {
  const std::pair<std::vector<DimSpec>, int> x{{"b", "s", 3}, f32}, weights{{3, 12}, f32};
  auto heads = runtime_node("Attention", {x, weights});
  heads.node.integer("num_heads", 3);
  EXPECT_EQ(
      heads.failure(),
      "malformed: node 'n' (Attention) has num_heads = 3, which does not divide the hidden size 4");
  auto none = runtime_node("Attention", {x, weights});
  none.node.integer("num_heads", 0);
  EXPECT_EQ(none.failure(),
            "malformed: node 'n' (Attention) has num_heads = 0; expected 1 to 1048576");
  auto sizes = runtime_node("Attention", {x, weights});
  sizes.node.integer("num_heads", 2).integers("qkv_hidden_sizes", {4, 4, 6});
  EXPECT_EQ(sizes.failure(),
            "malformed: node 'n' (Attention) has qkv_hidden_sizes that sum to 14, but weights of "
            "12 columns");
  auto differ = runtime_node("Attention", {x, weights});
  differ.node.integer("num_heads", 2).integers("qkv_hidden_sizes", {2, 4, 6});
  EXPECT_EQ(differ.failure(),
            "malformed: node 'n' (Attention) has qkv_hidden_sizes of 2 for q and 4 for k, which "
            "must be one");
  auto thirds = runtime_node("Attention", {x, {{3, 11}, f32}});
  thirds.node.integer("num_heads", 2);
  EXPECT_EQ(thirds.failure(),
            "malformed: node 'n' (Attention) has weights of 11 columns, expected three times the "
            "hidden size");
  auto past =
      runtime_node("Attention", {x, weights, left_out, left_out, {{2, "b", 4, "p", 2}, f32}});
  past.node.integer("num_heads", 2);
  EXPECT_EQ(past.failure(), "malformed: node 'n' (Attention) has past of 4 heads, expected 2");
  auto buffer = runtime_node("Attention", {x, weights});
  buffer.node.integer("num_heads", 2).integer("past_present_share_buffer", 1);
  EXPECT_EQ(buffer.failure(),
            "unsupported: node 'n' (Attention) has past_present_share_buffer = 1");
}

TEST(DomainErrors, HeadsOfQueriesAndKeys) {
  const std::pair<std::vector<DimSpec>, int> q{{"b", "s", 8}, f32}, k{{"b", "t", 8}, f32},
      cache{{"b", 2, "p", 3}, f32};
  auto bias = runtime_node("MultiHeadAttention",
                           {q, {{"b", 2, "t", 4}, f32}, {{"b", 2, "t", 4}, f32}, {{24}, f32}});
  bias.node.integer("num_heads", 2);
  EXPECT_EQ(
      bias.failure(),
      "malformed: node 'n' (MultiHeadAttention) takes no bias (input 3) beside a key of rank 4");
  auto heads = runtime_node("MultiHeadAttention", {q, {{"b", "t", 4, 2, 2}, f32}});
  heads.node.integer("num_heads", 2);
  EXPECT_EQ(heads.failure(),
            "malformed: node 'n' (MultiHeadAttention) has num_heads = 2, but 4 heads in input 1");
  auto past =
      runtime_node("MultiHeadAttention", {q, k, k, left_out, left_out, left_out, cache, cache});
  past.node.integer("num_heads", 2);
  EXPECT_EQ(
      past.failure(),
      "malformed: node 'n' (MultiHeadAttention) has past_key of 3 elements a head, expected 4");
  const std::pair<std::vector<DimSpec>, int> lengths{{"b"}, i32}, total{{}, i32};
  auto shared = runtime_node("GroupQueryAttention", {q, k, k, left_out, left_out, lengths, total});
  shared.node.integer("num_heads", 4).integer("kv_num_heads", 3);
  EXPECT_EQ(shared.failure(),
            "malformed: node 'n' (GroupQueryAttention) has kv_num_heads = 3, which does not divide "
            "num_heads = 4");
  auto packed = runtime_node("GroupQueryAttention",
                             {q, left_out, left_out, left_out, left_out, lengths, total});
  packed.node.integer("num_heads", 4).integer("kv_num_heads", 1);
  EXPECT_EQ(packed.failure(),
            "malformed: node 'n' (GroupQueryAttention) has num_heads + 2 kv_num_heads = 6, which "
            "does not divide the 8 elements of a row");
  auto rotary = runtime_node("GroupQueryAttention", {q, k, k, left_out, left_out, lengths, total});
  rotary.node.integer("num_heads", 2).integer("kv_num_heads", 2).integer("do_rotary", 1);
  EXPECT_EQ(rotary.failure(),
            "malformed: node 'n' (GroupQueryAttention) has do_rotary = 1, which needs cos_cache "
            "and sin_cache");
  auto local = runtime_node("GroupQueryAttention", {q, k, k, left_out, left_out, lengths, total});
  local.node.integer("num_heads", 2)
      .integer("kv_num_heads", 2)
      .integer("local_window_size", 3)
      .integer("causal", 0);
  EXPECT_EQ(local.failure(),
            "malformed: node 'n' (GroupQueryAttention) has local_window_size = 3 and causal = 0");
}

// A cache that is shorter than what its lengths say was there before.
TEST(DomainErrors, CachesShorterThanTheirPast) {
  const std::pair<std::vector<DimSpec>, int> x{{"b", "s", 2}, f32}, cache{{"b", 1, "p", 2}, f32};
  auto one = runtime_node("GroupQueryAttention", {x, x, x, cache, cache, {{"b"}, i32}, {{}, i32}});
  one.node.integer("num_heads", 1).integer("kv_num_heads", 1);
  ir::Module module = one.builder.read();
  ir::infer_types(module);
  const auto run = [&](std::int64_t last, std::int64_t total) {
    const ir::Tensor row = ir::Tensor::of(ir::DType::F32, {1, 1, 2}, std::vector<double>{1, 2});
    const ir::Tensor held =
        ir::Tensor::of(ir::DType::F32, {1, 1, 2, 2}, std::vector<double>{1, 2, 3, 4});
    const std::vector<ir::Tensor> arguments{
        row,
        row,
        row,
        held,
        held,
        ir::Tensor::of(ir::DType::I32, {1}, std::vector<std::int64_t>{last}),
        ir::Tensor::of(ir::DType::I32, {}, std::vector<std::int64_t>{total})};
    try {
      ir::evaluate(module, module.functions[0], arguments);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("ran");
  };
  EXPECT_EQ(run(2, 3), "ran");
  EXPECT_NE(run(3, 4).find("node 'n' (GroupQueryAttention): past_key is shorter than the keys that "
                           "were there before"),
            std::string::npos)
      << run(3, 4);
  EXPECT_NE(run(4, 3).find(
                "node 'n' (GroupQueryAttention): seqlens_k does not fit total_sequence_length"),
            std::string::npos)
      << run(4, 3);
}

TEST(DomainErrors, Blocks) {
  const std::pair<std::vector<DimSpec>, int> a{{"r", 32}, f32};
  const auto with = [&](OneNode one, std::int64_t k, std::int64_t block) {
    one.node.integer("N", 2).integer("K", k).integer("block_size", block);
    return one.failure();
  };
  const Inputs good{a, {{2, 2, 8}, u8}, {{2, 2}, f32}};
  EXPECT_EQ(with(runtime_node("MatMulNBits", good), 32, 24),
            "malformed: node 'n' (MatMulNBits) has block_size = 24; expected a power of 2 from 16");
  EXPECT_EQ(with(runtime_node("MatMulNBits", good), 40, 16),
            "malformed: node 'n' (MatMulNBits) has K = 40, but rows of 32 elements in input 0");
  EXPECT_EQ(with(runtime_node("MatMulNBits", {a, {{2, 3, 8}, u8}, {{2, 2}, f32}}), 32, 16),
            "malformed: node 'n' (MatMulNBits) takes 32 elements as input 1 (B), got 48; "
            "attributes K, N, bits and block_size say so");
  EXPECT_EQ(with(runtime_node("MatMulNBits", {a, {{2, 2, 8}, u8}, {{2, 3}, f32}}), 32, 16),
            "malformed: node 'n' (MatMulNBits) takes 4 elements as input 2 (scales), got 6; "
            "attributes K, N, bits and block_size say so");
  auto bits = runtime_node("MatMulNBits", good);
  bits.node.integer("N", 2).integer("K", 32).integer("block_size", 16).integer("bits", 3);
  EXPECT_EQ(bits.failure(), "malformed: node 'n' (MatMulNBits) has bits = 3; expected 2, 4 or 8");
  auto rows = runtime_node("GatherBlockQuantized", {{{9, 16}, u8}, {{"i"}, i64}, {{9, 3}, f32}});
  rows.node.integer("block_size", 16);
  EXPECT_EQ(rows.failure(),
            "malformed: node 'n' (GatherBlockQuantized) has block_size = 16, so 2 scales for 32 "
            "numbers, got 3");
  auto zeros = runtime_node("GatherBlockQuantized",
                            {{{9, 16}, u8}, {{"i"}, i64}, {{9, 2}, f32}, {{9, 2}, u8}});
  zeros.node.integer("block_size", 16);
  EXPECT_EQ(zeros.failure(),
            "malformed: node 'n' (GatherBlockQuantized) has block_size = 16 and bits = 4, so rows "
            "of 1 bytes as input 3 (zero_points), got 2");
  auto blocked = one_node("DequantizeLinear", {{{2, 5}, u8}, {{2, 2}, f32}});
  blocked.node.integer("block_size", 2);
  EXPECT_EQ(blocked.failure(),
            "malformed: node 'n' (DequantizeLinear) has block_size = 2, which makes 5 elements 3 "
            "blocks, but 2 scales");
}

TEST(DomainErrors, Quantised) {
  const std::pair<std::vector<DimSpec>, int> x{{"r", 8, 4}, u8}, scale{{}, f32}, zero{{}, u8};
  auto softmax = runtime_node("QLinearSoftmax", {x, scale, zero, scale, zero});
  softmax.node.integer("axis", 1).integer("opset", 11);
  EXPECT_EQ(softmax.failure(),
            "unsupported: node 'n' (QLinearSoftmax) has axis = 1 of opset 11; Anydim supports the "
            "last axis there");
  auto joined = runtime_node("QLinearConcat", {scale, zero, x, scale, zero, x});
  joined.node.integer("axis", 1);
  EXPECT_EQ(joined.failure(),
            "malformed: node 'n' (QLinearConcat) takes a scale, a zero point and three inputs for "
            "each tensor, got 6 inputs");
  const std::pair<std::vector<DimSpec>, int> a{{"r", 4}, u8}, b{{4, 2}, u8}, bias{{2}, i32};
  auto gemm = runtime_node("QGemm", {a, scale, zero, b, scale, zero, bias});
  gemm.node.real("alpha", 0.5F);
  EXPECT_EQ(gemm.failure(), "unsupported: node 'n' (QGemm) has alpha = 0.5 beside a bias");
}

TEST(DomainErrors, RelativePositionBias) {
  const std::pair<std::vector<DimSpec>, int> length{{1}, i64};
  const auto failure = [&](std::int64_t rows, std::int64_t distance, std::int64_t both_sides) {
    auto bias = runtime_node("RelativePositionBias", {{{rows, 2}, f32}, length, length});
    bias.node.integer("max_distance", distance).integer("is_bidirectional", both_sides);
    return bias.failure();
  };
  EXPECT_EQ(
      failure(7, 128, 1),
      "malformed: node 'n' (RelativePositionBias) has a bias_table of 7 rows; expected an even "
      "number, at least 4");
  EXPECT_EQ(failure(1, 128, 0),
            "malformed: node 'n' (RelativePositionBias) has a bias_table of 1 rows; expected at "
            "least 2");
  EXPECT_EQ(
      failure(32, 8, 1),
      "malformed: node 'n' (RelativePositionBias) has max_distance = 8; expected 9 to 1048576");
  EXPECT_EQ(failure(32, 16, 0),
            "malformed: node 'n' (RelativePositionBias) has max_distance = 16; expected 17 to "
            "1048576");
}

TEST(DomainErrors, RotaryAndActivations) {
  auto width =
      runtime_node("RotaryEmbedding",
                   {{{"b", "s", 12}, f32}, {{"b", "s"}, i64}, {{16, 4}, f32}, {{16, 4}, f32}});
  EXPECT_EQ(width.failure(),
            "malformed: node 'n' (RotaryEmbedding) has a cos_cache of 4 columns, whose double does "
            "not divide the 12 elements of a row");
  EXPECT_EQ(
      runtime_node("RotaryEmbedding",
                   {{{"b", "s", 8}, f32}, {{"b", "s"}, i64}, {{16, 4}, f32}, {{16, 2}, f32}})
          .failure(),
      "malformed: node 'n' (RotaryEmbedding) takes an input 3 (sin_cache) of the shape (16, 4) of "
      "cos_cache, got (16, 2)");
  auto norm = runtime_node("SkipLayerNormalization",
                           {{{"b", "s", 8}, f32}, {{"b", "s", 8}, f32}, {{8}, f32}});
  norm.node.real("epsilon", -1);
  EXPECT_EQ(norm.failure(),
            "malformed: node 'n' (SkipLayerNormalization) has epsilon = -1; expected at least 0");
  auto gemm = runtime_node("FusedGemm", {{{2, 3}, f32}, {{3, 2}, f32}});
  gemm.node.string("activation", "Wave");
  EXPECT_EQ(
      gemm.failure(),
      "unsupported: node 'n' (FusedGemm) has the activation 'Wave', which Anydim does not support");
}

TEST(DomainErrors, QuantisedRecurrence) {
  const std::pair<std::vector<DimSpec>, int> x{{"t", "b", 3}, f32}, w{{1, 3, 8}, u8},
      r{{1, 2, 8}, u8}, real{{1}, f32}, zero{{1}, u8};
  const auto failure = [&](const auto& weights, const auto& scale) {
    auto lstm = runtime_node("DynamicQuantizeLSTM", {x, weights, r, left_out, left_out, left_out,
                                                     left_out, left_out, scale, zero, real, zero});
    lstm.node.integer("hidden_size", 2);
    return lstm.failure();
  };
  EXPECT_EQ(failure(w, real), "read");
  EXPECT_EQ(failure(x, real),
            "malformed: node 'n' (DynamicQuantizeLSTM) takes i8 or u8 as input 1, got f32");
  EXPECT_EQ(failure(w, x),
            "malformed: node 'n' (DynamicQuantizeLSTM) takes one number for each direction or for "
            "each of its columns as input 8, so a rank of 1 or 2, got 3");
}

TEST(DomainErrors, QuantisedEmbeddings) {
  const std::pair<std::vector<DimSpec>, int> ids{{"b", "s"}, i32}, table{{9, 4}, u8}, row{{4}, u8},
      scale{{}, f32}, zero{{}, u8};
  Inputs inputs{ids, ids, table, table, table, row, row, left_out};
  inputs.insert(inputs.end(), 5, scale);
  inputs.insert(inputs.end(), 5, zero);
  EXPECT_EQ(runtime_node("QEmbedLayerNormalization", inputs).failure(), "read");
  inputs[3] = {{9, 4}, f32};
  EXPECT_EQ(runtime_node("QEmbedLayerNormalization", inputs).failure(),
            "malformed: node 'n' (QEmbedLayerNormalization) takes i8 or u8 as input 3, got f32");
}

TEST(DomainErrors, Channels) {
  const std::pair<std::vector<DimSpec>, int> x{{"n", "c", "h"}, f32}, four{{4}, f32};
  auto groups = one_node("GroupNormalization", {x, four, four});
  groups.node.integer("num_groups", 3);
  EXPECT_EQ(groups.failure(),
            "malformed: node 'n' (GroupNormalization) has num_groups = 3, which does not divide "
            "the 4 channels of input 0");
  auto none = one_node("GroupNormalization", {x, four, four});
  none.node.integer("num_groups", 0);
  EXPECT_EQ(none.failure(),
            "malformed: node 'n' (GroupNormalization) has num_groups = 0; expected at least 1");
  auto depth = one_node("DepthToSpace", {{{"n", 4, "h", "w"}, f32}});
  depth.node.integer("blocksize", 3);
  EXPECT_EQ(depth.failure(),
            "malformed: node 'n' (DepthToSpace) has blocksize = 3, which takes a multiple of 9 as "
            "dim 1 of input 0, got 4");
  auto space = one_node("SpaceToDepth", {{{"n", 4, "h", 8}, f32}});
  space.node.integer("blocksize", 3);
  EXPECT_EQ(space.failure(),
            "malformed: node 'n' (SpaceToDepth) has blocksize = 3, which takes a multiple of 3 as "
            "dim 3 of input 0, got 8");
}

TEST(DomainErrors, Resampling) {
  const std::pair<std::vector<DimSpec>, int> x{{"n", 3, "h", "w"}, f32}, two{{2}, f32};
  auto twice = one_node("Resize", {x, left_out, two});
  twice.node.integers("axes", {2, -2});
  EXPECT_EQ(twice.failure(), "malformed: node 'n' (Resize) has axis 2 twice in axes");
  auto sizes = one_node("Resize", {x, left_out, left_out, {{2}, i64}});
  EXPECT_EQ(sizes.failure(), "malformed: node 'n' (Resize) has 2 sizes for 4 axes");
  auto policy = one_node("Resize", {x, left_out, left_out, {{4}, i64}});
  policy.node.string("keep_aspect_ratio_policy", "smaller");
  EXPECT_EQ(policy.failure(),
            "malformed: node 'n' (Resize) takes 'stretch', 'not_larger' or 'not_smaller' as "
            "attribute 'keep_aspect_ratio_policy', got 'smaller'");
  auto nearest = one_node("Resize", {x, left_out, {{4}, f32}});
  nearest.node.integer("antialias", 1);
  EXPECT_EQ(nearest.failure(),
            "unsupported: node 'n' (Resize) has antialias = 1 with mode = 'nearest'");
  const std::pair<std::vector<DimSpec>, int> boxes{{"r", 4}, f32}, images{{"r"}, i64};
  auto fewer = one_node("RoiAlign", {x, boxes, images});
  fewer.node.integer("sampling_ratio", -1);
  EXPECT_EQ(fewer.failure(),
            "malformed: node 'n' (RoiAlign) has sampling_ratio = -1; expected from 0 to 32768");
  auto none = one_node("RoiAlign", {x, boxes, images});
  none.node.integer("sampling_ratio", 2).integer("output_width", 0);
  EXPECT_EQ(none.failure(),
            "malformed: node 'n' (RoiAlign) has output_width = 0; expected from 1 to 32768");
  auto pool = one_node("MaxRoiPool", {x, boxes});
  pool.node.integers("pooled_shape", {2, 2});
  EXPECT_EQ(pool.failure(),
            "malformed: node 'n' (MaxRoiPool) takes an image's number and 4 edges for each box as "
            "input 1 (rois), got 4");
  auto shape = one_node("MaxRoiPool", {x, {{"r", 5}, f32}});
  shape.node.integers("pooled_shape", {2, 0});
  EXPECT_EQ(shape.failure(),
            "malformed: node 'n' (MaxRoiPool) takes 2 numbers from 1 to 32768 as attribute "
            "pooled_shape");
  auto distances = runtime_node("CDist", {{{"m", 3}, f32}, {{"n", 3}, f32}});
  distances.node.string("metric", "cosine");
  EXPECT_EQ(distances.failure(),
            "unsupported: node 'n' (CDist) has the metric 'cosine'; Anydim supports 'sqeuclidean' "
            "and 'euclidean'");
  EXPECT_EQ(one_node("AffineGrid", {{{"n", 2, 2}, f32}, {{4}, i64}}).failure(),
            "malformed: node 'n' (AffineGrid) takes matrices of 2 by 3 or 3 by 4 as input 0 "
            "(theta)");
  EXPECT_EQ(one_node("AffineGrid", {{{"n", 2, 3}, f32}, {{5}, i64}}).failure(),
            "malformed: node 'n' (AffineGrid) takes 4 elements as input 1 (size), got 5");
}

// Shapes decide which branch is taken; the other one's rank does not matter. Where they do not, the
// node is named.
TEST(DomainErrors, BranchesOfDifferentRanks) {
  const auto model = [](const DimSpec& first) {
    ModelBuilder builder(17);
    builder.input("x", f32, {first, "n"}).output("y");
    builder.integers("zero", {1}, {0}).integers("one", {1}, {1});
    builder.node("Shape", {"x"}, {"shape"});
    builder.node("Gather", {"shape", "zero"}, {"rows"});
    builder.node("Equal", {"rows", "one"}, {"is_row"});
    NodeBuilder node = builder.node("If", {"is_row"}, {"y"}).name("squeezed");
    for (const std::string name : {"then_branch", "else_branch"}) {
      auto& attribute = *node.proto.add_attribute();
      attribute.set_name(name);
      attribute.set_type(onnx::AttributeProto::GRAPH);
      auto& graph = *attribute.mutable_g();
      auto& inner = *graph.add_node();
      inner.set_op_type(name == "then_branch" ? "Squeeze" : "Identity");
      inner.add_input("x");
      if (name == "then_branch") inner.add_input("zero");
      inner.add_output(name + "_y");
      graph.add_output()->set_name(name + "_y");
    }
    return builder;
  };
  const auto rank = [](const ModelBuilder& builder) {
    ir::Module module = builder.read();
    ir::infer_types(module);
    return module.functions[0].tensor_type(module.functions[0].body.results[0]).rank();
  };
  EXPECT_EQ(rank(model(1)), 1);
  EXPECT_EQ(rank(model(3)), 2);
  EXPECT_EQ(rank(model("m")), 2);  // of which a call with one row drops the first
}

TEST(DomainErrors, Experts) {
  const Inputs good{
      {{"n", 3}, f32}, {{"n", 4}, f32}, {{4, 2, 3}, f32}, {{4, 2}, f32}, {{4, 3, 2}, f32}};
  auto many = runtime_node("MoE", good);
  many.node.integer("k", 5);
  EXPECT_EQ(many.failure(),
            "malformed: node 'n' (MoE) has k = 5; expected 1 to 4, one for each column of input 1");
  auto fewer = runtime_node("MoE", good);
  fewer.node.integer("k", 2).integer("use_sparse_mixer", 1);
  EXPECT_EQ(fewer.failure(), "unsupported: node 'n' (MoE) has use_sparse_mixer = 1");
  auto swiglu = runtime_node("MoE", good);
  swiglu.node.integer("k", 2).string("activation_type", "swiglu");
  EXPECT_EQ(swiglu.failure(),
            "malformed: node 'n' (MoE) has swiglu_fusion = 0 without an input 6 "
            "(fc3_experts_weights)");
  Inputs other = good;
  other[2].first = {3, 2, 3};
  EXPECT_EQ(runtime_node("MoE", other).failure(),
            "malformed: node 'n' (MoE) has 3 experts in input 2, but 4 columns in input 1");
  const Inputs packed{{{"n", 4}, f32}, {{"n", 4}, f32}, {{4, 2, 2}, u8}, {{4, 2}, f32},
                      {{4, 2}, f32},   {{4, 4, 1}, u8}, {{4, 4}, f32}};
  auto narrow = runtime_node("QMoE", packed);
  narrow.node.integer("expert_weight_bits", 3);
  EXPECT_EQ(narrow.failure(),
            "unsupported: node 'n' (QMoE) has weights of 3 bits; Anydim supports 2, 4 and 8");
  auto reals = runtime_node("QMoE", packed);
  reals.node.string("quant_type", "fp4");
  EXPECT_EQ(reals.failure(),
            "unsupported: node 'n' (QMoE) has quant_type = 'fp4'; Anydim supports 'int'");
}

TEST(DomainErrors, SectionsOfPositions) {
  const auto with = [](std::vector<std::int64_t> sections, std::vector<DimSpec> positions) {
    auto one = runtime_node(
        "MRotaryEmbedding",
        {{{"b", 2, "s", 8}, f32}, {std::move(positions), i64}, {{9, 4}, f32}, {{9, 4}, f32}});
    one.node.integers("mrope_section", std::move(sections));
    return one.failure();
  };
  EXPECT_EQ(with({2, 1, 1}, {3, "b", "s"}), "read");
  EXPECT_EQ(with({2, 2, 1}, {3, "b", "s"}),
            "malformed: node 'n' (MRotaryEmbedding) has mrope_section = 2, 2, 1; expected three "
            "numbers that add up to the 4 columns of cos_cache");
  EXPECT_EQ(with({2, 1, 1}, {2, "b", "s"}),
            "malformed: node 'n' (MRotaryEmbedding) takes positions of 3 kinds as input 1, got 2");
  auto window = runtime_node("CausalConvWithState", {{{"b", 2, "s"}, f32}, {{2, 1, 4}, f32}});
  window.node.integer("state_window", 2);
  EXPECT_EQ(window.failure(), "unsupported: node 'n' (CausalConvWithState) has state_window = 2");
}

}  // namespace
}  // namespace anydim::frontends
