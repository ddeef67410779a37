// Damaged models: reading ends with a model, Error{Malformed} or Error{Unsupported}, and nothing
// else.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <random>

#include "tests/frontends/model_builder.h"

namespace anydim::frontends {
namespace {

std::string file_bytes(const char* file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void expect_orderly(const std::string& bytes, const std::string& how) {
  const std::string outcome = failure_of(bytes);
  EXPECT_TRUE(outcome == "read" || outcome.starts_with("malformed: ") ||
              outcome.starts_with("unsupported: "))
      << how << ": " << outcome;
}

TEST(HostileBytes, TruncatedAnywhere) {
  const std::string model = file_bytes("../models/tiny_bert.onnx");
  ASSERT_GT(model.size(), 100000u);
  for (std::size_t length = 1; length < model.size(); length += 997) {
    const std::string outcome = failure_of(model.substr(0, length));
    EXPECT_TRUE(outcome.starts_with("malformed: ")) << length << ": " << outcome;
  }
}

TEST(HostileBytes, FlippedBytes) {
  const std::string model = file_bytes("../models/tiny_bert.onnx");
  // Most bytes are weights, where a change means nothing: half of the flips go to the nodes, which
  // come first.
  const std::size_t graph_part = model.rfind("LayerNormalization");
  ASSERT_NE(graph_part, std::string::npos);
  std::mt19937_64 random(20260117);
  for (int round = 0; round < 600; ++round) {
    std::string damaged = model;
    const int flips = 1 + static_cast<int>(random() % 8);
    for (int i = 0; i < flips; ++i) {
      const std::size_t range = round % 2 == 0 ? graph_part : model.size();
      damaged[random() % range] = static_cast<char>(random());
    }
    expect_orderly(damaged, "round " + std::to_string(round));
  }
}

TEST(HostileBytes, FlippedBytesOfASmallModel) {
  ModelBuilder builder;
  builder.input("x", f32, {"n", 4})
      .reals("w", {4, 2}, {1, 2, 3, 4, 5, 6, 7, 8})
      .integers("axes", {1}, {0})
      .output("y", f32);
  builder.node("Gemm", {"x", "w"}, {"g"}).real("alpha", 0.5f).integer("transB", 0);
  builder.node("Unsqueeze", {"g", "axes"}, {"u"});
  builder.node("Concat", {"u", "u"}, {"c"}).integer("axis", -1);
  builder.node("Constant", {}, {"k"}).integers("value_ints", {-1, 2});
  builder.node("Reshape", {"c", "k"}, {"r"});
  builder.node("ReduceMean", {"r"}, {"y"}).integers("axes", {-1}).integer("keepdims", 0);
  const std::string model = builder.bytes();
  ASSERT_EQ(failure_of(model), "read");
  for (std::size_t place = 0; place < model.size(); ++place) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = model;
      damaged[place] = static_cast<char>(damaged[place] ^ (1 << bit));
      expect_orderly(damaged, "byte " + std::to_string(place) + ", bit " + std::to_string(bit));
    }
  }
}

// Names are repeated in what a node becomes; a model of a few hundred kilobytes must not become
// gigabytes.
TEST(HostileBytes, LongNamesAreNotMultiplied) {
  const std::string long_name(100000, 'n');
  ModelBuilder builder(13);
  builder.input("x", f32, {4}).output("y");
  builder.node("Max", std::vector<std::string>(20000, "x"), {"y"}).name(long_name);
  std::vector<std::string> parts{long_name};
  for (int i = 0; i < 20000; ++i) parts.push_back("p" + std::to_string(i));
  builder.node("Split", {"x"}, parts);
  const ir::Module module = builder.read();
  std::size_t bytes = 0;
  for (const auto& binding : module.functions[0].body.bindings) bytes += binding.source.size();
  for (const auto& value : module.functions[0].values) bytes += value.name.size();
  EXPECT_LT(bytes, 20'000'000u);
}

TEST(HostileBytes, ManyNamesThatLeadToOneSymbolAreReadQuickly) {
  ModelBuilder builder;
  std::vector<DimSpec> dims;
  for (int i = 0; i < 50000; ++i) dims.emplace_back(std::string(64, 'd') + std::to_string(i));
  builder.input("x", f32, dims).output("x");
  EXPECT_EQ(builder.read().functions[0].symbols.names().size(), 50000u);
}

}  // namespace
}  // namespace anydim::frontends
