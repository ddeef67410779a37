// What is drawn at random: how it is spread, and what it depends on.
#include <gtest/gtest.h>

#include <cmath>

#include "ir/random_seed.h"
#include "ir/reference/evaluate.h"
#include "tests/frontends/model_builder.h"

namespace anydim::frontends {
namespace {

constexpr std::int64_t many = 20'000;

ir::Tensor real(std::vector<std::int64_t> dims, const std::vector<double>& values) {
  return ir::Tensor::of(ir::DType::F32, std::move(dims), values);
}
ir::Tensor filled(double value) { return real({many}, std::vector<double>(many, value)); }

// The results of a call whose last parameter is the seed.
std::vector<ir::Tensor> draw(const ir::Module& module, std::vector<ir::Tensor> inputs,
                             std::int64_t seed) {
  const ir::Function& function = module.functions[0];
  EXPECT_EQ(function.values[function.body.parameters.back()].name, ir::random_seed_parameter);
  inputs.push_back(ir::Tensor::of(ir::DType::I64, {}, std::vector<std::int64_t>{seed}));
  return ir::evaluate(module, function, inputs);
}

double mean(const ir::Tensor& tensor) {
  double sum = 0;
  for (std::int64_t i = 0; i < tensor.elements(); ++i) sum += tensor.real_at(i);
  return sum / static_cast<double>(tensor.elements());
}
double variance(const ir::Tensor& tensor) {
  const double middle = mean(tensor);
  double sum = 0;
  for (std::int64_t i = 0; i < tensor.elements(); ++i)
    sum += std::pow(tensor.real_at(i) - middle, 2);
  return sum / static_cast<double>(tensor.elements());
}

TEST(OnnxRandom, UniformAndNormalNumbers) {
  ModelBuilder builder;
  builder.input("x", f32, {"n"}).output("u").output("z").output("again");
  builder.node("RandomUniformLike", {"x"}, {"u"}).real("low", -1).real("high", 3);
  builder.node("RandomNormalLike", {"x"}, {"z"}).real("mean", 2).real("scale", 0.5F);
  builder.node("RandomUniformLike", {"x"}, {"again"}).integer("dtype", f64);
  const ir::Module module = builder.read();
  const auto drawn = draw(module, {filled(0)}, 7);
  EXPECT_NEAR(mean(drawn[0]), 1, 0.05);
  EXPECT_NEAR(variance(drawn[0]), 16.0 / 12, 0.05);
  EXPECT_NEAR(mean(drawn[1]), 2, 0.02);
  EXPECT_NEAR(variance(drawn[1]), 0.25, 0.01);
  EXPECT_EQ(drawn[2].dtype(), ir::DType::F64);
  double product = 0;  // what two nodes draw is independent
  for (std::int64_t i = 0; i < many; ++i)
    product += (drawn[0].real_at(i) - 1) * (drawn[2].real_at(i) - 0.5) / many;
  EXPECT_NEAR(product, 0, 0.02);
  EXPECT_TRUE(draw(module, {filled(0)}, 7)[1].same_bits(drawn[1]));
  EXPECT_FALSE(draw(module, {filled(0)}, 8)[1].same_bits(drawn[1]));
}

TEST(OnnxRandom, SeedsOfNodes) {
  const auto drawn = [](float seed) {
    ModelBuilder builder;
    builder.output("u").output("z");
    builder.node("RandomUniform", {}, {"u"}).integers("shape", {2, 3}).real("seed", seed);
    builder.node("RandomNormal", {}, {"z"}).integers("shape", {4}).real("seed", seed);
    const ir::Module module = builder.read();
    EXPECT_TRUE(module.functions[0].body.parameters.empty());
    return ir::evaluate(module, module.functions[0], {});
  };
  EXPECT_EQ(drawn(1)[0].dims(), (std::vector<std::int64_t>{2, 3}));
  EXPECT_TRUE(drawn(1)[1].same_bits(drawn(1)[1]));
  EXPECT_FALSE(drawn(1)[1].same_bits(drawn(2)[1]));
}

TEST(OnnxRandom, Choices) {
  ModelBuilder builder;
  builder.input("p", f32, {"n"}).input("logits", f32, {"b", 3}).output("hit").output("chosen");
  builder.node("Bernoulli", {"p"}, {"hit"}).integer("dtype", i64);
  builder.node("Multinomial", {"logits"}, {"chosen"}).integer("sample_size", many);
  const std::vector<double> odds{0.1, 0.2, 0.7, 0.5, 0.5, 0};
  std::vector<double> logits;
  for (const double one : odds) logits.push_back(std::log(one));
  const auto drawn = draw(builder.read(), {filled(0.3), real({2, 3}, logits)}, 3);
  EXPECT_NEAR(mean(drawn[0]), 0.3, 0.02);
  ASSERT_EQ(drawn[1].dims(), (std::vector<std::int64_t>{2, many}));
  for (std::int64_t row = 0; row < 2; ++row) {
    for (std::int64_t choice = 0; choice < 3; ++choice) {
      std::int64_t count = 0;
      for (std::int64_t i = 0; i < many; ++i)
        count += drawn[1].integer_at(row * many + i) == choice ? 1 : 0;
      EXPECT_NEAR(static_cast<double>(count) / many,
                  odds[static_cast<std::size_t>(row * 3 + choice)], 0.02);
    }
  }
}

TEST(OnnxRandom, DropoutThatTrains) {
  ModelBuilder builder;
  builder.input("x", f32, {"n"}).input("ratio", f32, {}).input("train", boolean, {});
  builder.output("y").output("kept").node("Dropout", {"x", "ratio", "train"}, {"y", "kept"});
  const ir::Module module = builder.read();
  for (const std::int64_t trains : {0, 1}) {
    const auto drawn =
        draw(module,
             {filled(3), real({}, {0.25}),
              ir::Tensor::of(ir::DType::Bool, {}, std::vector<std::int64_t>{trains})},
             5);
    EXPECT_NEAR(mean(drawn[1]), trains != 0 ? 0.75 : 1, 0.02);
    for (std::int64_t i = 0; i < many; ++i)
      ASSERT_EQ(drawn[0].real_at(i),
                drawn[1].integer_at(i) == 0 ? 0 : static_cast<float>(trains != 0 ? 4 : 3));
  }
}

TEST(OnnxRandom, EachRoundOfALoopDrawsItsOwn) {
  ModelBuilder builder;
  builder.input("rounds", i64, {}).output("all");
  auto loop = builder.node("Loop", {"rounds", ""}, {"all"});
  auto& attribute = *loop.proto.add_attribute();
  attribute.set_name("body");
  attribute.set_type(onnx::AttributeProto::GRAPH);
  ModelBuilder body;
  body.input("i", i64, {}).input("on", boolean, {}).output("on").output("u");
  body.node("RandomUniform", {}, {"u"}).integers("shape", {2});
  *attribute.mutable_g() = body.model.graph();
  const ir::Module module = builder.read();
  const ir::Tensor rounds = ir::Tensor::of(ir::DType::I64, {}, std::vector<std::int64_t>{3});
  const ir::Tensor all = draw(module, {rounds}, 1)[0];
  ASSERT_EQ(all.dims(), (std::vector<std::int64_t>{3, 2}));
  for (std::int64_t i = 0; i < 6; ++i)
    for (std::int64_t j = 0; j < i; ++j) EXPECT_NE(all.real_at(i), all.real_at(j));
}

TEST(OnnxRandom, BadAttributes) {
  ModelBuilder integers;
  integers.output("u")
      .node("RandomUniform", {}, {"u"})
      .integers("shape", {2})
      .integer("dtype", i64);
  EXPECT_EQ(integers.failure(),
            "malformed: node 'RandomUniform #0' (RandomUniform) gives real numbers, got dtype i64");
  ModelBuilder negative;
  negative.output("u").node("RandomNormal", {}, {"u"}).integers("shape", {2, -1});
  EXPECT_EQ(negative.failure(),
            "malformed: node 'RandomNormal #0' (RandomNormal) has the dim -1 in attribute 'shape'");
  ModelBuilder none;
  none.input("x", f32, {"b", 3})
      .output("y")
      .node("Multinomial", {"x"}, {"y"})
      .integer("sample_size", 0);
  EXPECT_EQ(none.failure(),
            "malformed: node 'Multinomial #0' (Multinomial) has sample_size = 0, expected at least "
            "1");
}

}  // namespace
}  // namespace anydim::frontends
