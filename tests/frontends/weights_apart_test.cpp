// Models whose large weights stay in their file until they are read.
#include "frontends/onnx/weights_apart.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "frontends/onnx.h"
#include "tests/frontends/model_builder.h"

namespace anydim::frontends {
namespace {

namespace fs = std::filesystem;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// y = x * large + small, with `count` elements in large, whose raw data are 0, 1, 2, ...
ModelBuilder scaled(std::int64_t count) {
  ModelBuilder builder;
  builder.input("x", f32, {count}).output("y");
  std::string data(static_cast<std::size_t>(count) * 4, '\0');
  for (std::int64_t i = 0; i < count; ++i) {
    const auto number = static_cast<float>(i);
    std::memcpy(data.data() + i * 4, &number, 4);
  }
  builder.initialiser("large", f32, {count}).set_raw_data(data);
  builder.initialiser("small", f32, {}).set_raw_data(std::string(4, '\0'));
  builder.node("Mul", {"x", "large"}, {"scaled"});
  builder.node("Add", {"scaled", "small"}, {"y"});
  return builder;
}

class ModelOnDisk : public testing::Test {
 protected:
  ModelOnDisk() {
    std::string pattern = (fs::path(testing::TempDir()) / "anydim_weights_XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    file_ = folder_ / "m.onnx";
  }
  ~ModelOnDisk() override { fs::remove_all(folder_); }
  void write(const std::string& bytes) const {
    std::ofstream(file_, std::ios::binary | std::ios::trunc) << bytes;
  }
  static const ir::Tensor& large(const ir::Module& module) {
    return std::get<ir::Tensor>(module.functions[0].body.bindings[0].attributes.at("value"));
  }

  fs::path folder_, file_;
};

TEST(LeaveWeights, TakesOnlyTheBytesOfLargeInitialisersOut) {
  const std::string whole = scaled(100).model.SerializeAsString();
  const auto left = leave_weights(bytes_of(whole), 100);
  ASSERT_TRUE(left);
  ASSERT_EQ(left->weights.size(), 1u);
  const Extent place = left->weights.at(0);
  EXPECT_EQ(place.length, 400u);
  onnx::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(left->model));
  EXPECT_FALSE(model.graph().initializer(0).has_raw_data());
  model.mutable_graph()->mutable_initializer(0)->set_raw_data(
      whole.substr(place.offset, place.length));
  EXPECT_EQ(model.SerializeAsString(), whole);
}

TEST(LeaveWeights, CountsInitialisersOverAllPartsOfAGraph) {
  const std::string whole = scaled(100).model.SerializeAsString();
  const auto left = leave_weights(bytes_of(whole + whole), 100);  // protobuf joins the two
  ASSERT_TRUE(left);
  ASSERT_EQ(left->weights.size(), 2u);
  EXPECT_EQ(left->weights.at(2).offset, left->weights.at(0).offset + whole.size());
}

// A field with a length: its tag, the contents' size as a varint, the contents.
std::string field(int number, const std::string& contents) {
  std::string text(1, static_cast<char>(number << 3 | 2));
  for (std::size_t rest = contents.size();; rest >>= 7) {
    text += static_cast<char>(rest > 127 ? (rest & 127) | 128 : rest);
    if (rest <= 127) return text + contents;
  }
}

TEST(LeaveWeights, LeavesATensorWithItsDataTwiceToTheParser) {
  const std::string tensor = scaled(100).model.graph().initializer(0).SerializeAsString();
  const std::string model =
      field(onnx::ModelProto::kGraphFieldNumber,
            field(onnx::GraphProto::kInitializerFieldNumber, tensor + tensor));
  const auto left = leave_weights(bytes_of(model), 100);
  ASSERT_TRUE(left);
  EXPECT_TRUE(left->weights.empty());
  EXPECT_EQ(left->model, model);
}

TEST(LeaveWeights, AcceptsAnyBytes) {
  const std::string whole = scaled(50).model.SerializeAsString();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const auto left = leave_weights(bytes_of(whole).first(length), 100);
    onnx::ModelProto model;
    const bool parses = model.ParseFromArray(whole.data(), static_cast<int>(length));
    if (!left) EXPECT_FALSE(parses) << length;
    else EXPECT_EQ(onnx::ModelProto().ParseFromString(left->model), parses) << length;
  }
}

TEST_F(ModelOnDisk, ReadsWeightsWhenTheyAreLookedAt) {
  write(scaled(50'000).model.SerializeAsString());
  const ir::Module module = read_onnx(file_);
  EXPECT_TRUE(large(module).is_sourced());
  EXPECT_EQ(large(module).opened().as<float>()[49'999], 49'999.0F);
  fs::remove(file_);  // another name, or none, is no other file
  EXPECT_EQ(large(module).as<float>()[3], 3.0F);
}

TEST_F(ModelOnDisk, SaysThatTheFileWasChanged) {
  write(scaled(50'000).model.SerializeAsString());
  const ir::Module module = read_onnx(file_);
  write("short");
  try {
    large(module).opened();
    FAIL() << "the weights were read";
  } catch (const Error& error) {
    EXPECT_EQ(describe(error),
              "malformed: model '" + file_.string() +
                  "' was changed while it was in use: expected the contents that were loaded; load "
                  "it again, and replace models by renaming a new file over the old one");
  }
}

TEST_F(ModelOnDisk, RefusesWeightsOfTheWrongSizeAtOnce) {
  ModelBuilder builder = scaled(50'000);
  builder.model.mutable_graph()->mutable_initializer(0)->set_dims(0, 50'001);
  write(builder.model.SerializeAsString());
  try {
    read_onnx(file_);
    FAIL() << "the model was read";
  } catch (const Error& error) {
    EXPECT_EQ(describe(error),
              "malformed: initialiser 'large' is f32 [50001], which needs 200004 bytes, but its "
              "raw_data has 200000");
  }
}

}  // namespace
}  // namespace anydim::frontends
