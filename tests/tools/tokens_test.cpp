#include "tools/tokens.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/runtime/temporary_folder.h"

namespace anydim::tools {
namespace {

class TokensTest : public testing::Test {
 protected:
  std::filesystem::path file() const { return folder_.path() / "tokens.jsonl"; }
  std::string refusal(const std::string& text) const {
    std::ofstream(file()) << text;
    try {
      read_tokens(file());
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Malformed);
      const std::string message = error.what(), start = file().string() + ":";
      EXPECT_TRUE(message.starts_with(start)) << message;
      return message.substr(start.size());
    }
    ADD_FAILURE() << "accepted: " << text;
    return {};
  }

  test::TemporaryFolder folder_;
};

TEST_F(TokensTest, ListsAreRead) {
  std::ofstream(file()) << "[101, 7592, 102]\n\n[0]\n";
  EXPECT_EQ(read_tokens(file()), (std::vector<Text>{{101, 7592, 102}, {0}}));
}

TEST_F(TokensTest, MalformedLinesAreNamed) {
  EXPECT_EQ(refusal("[1, 2]\n[1, \"2\"]\n"), "2: \"2\" is no token id");
  EXPECT_EQ(refusal("[1, 2]\n\n[1, 2.5]\n"), "3: 2.5 is no token id");
  EXPECT_EQ(refusal("[-4]\n"), "1: -4 is no token id");
  EXPECT_EQ(refusal("[9223372036854775808]\n"), "1: 9223372036854775808 is no token id");
  EXPECT_EQ(refusal("[]\n"), "1: a text has at least one token");
  EXPECT_EQ(refusal("[1, 2\n"), "1: expected a JSON list of token ids, e.g. [101, 7592, 102]");
  EXPECT_EQ(refusal("{\"a\": 1}\n"), "1: expected a JSON list of token ids, e.g. [101, 7592, 102]");
  EXPECT_EQ(refusal("\n \n"), " there is no text in it");
  std::filesystem::remove(file());
  EXPECT_THROW(read_tokens(file()), Error);
}

TEST(BatchInputs, ArePadded) {
  const std::vector<Text> texts{{7, 8, 9}, {5}};
  EXPECT_EQ(lengths_of(texts), (std::vector<std::int64_t>{3, 1}));
  const NamedTensors inputs = batch_inputs(texts, {.texts = {1, 0}, .longest = 3, .useful = 4});
  EXPECT_TRUE(inputs.at("input_ids")
                  .same_bits(ir::Tensor::of<int>(ir::DType::I64, {2, 3}, {5, 0, 0, 7, 8, 9})));
  EXPECT_TRUE(inputs.at("attention_mask")
                  .same_bits(ir::Tensor::of<int>(ir::DType::I64, {2, 3}, {1, 0, 0, 1, 1, 1})));
  EXPECT_TRUE(inputs.at("token_type_ids").same_bits(ir::Tensor(ir::DType::I64, {2, 3})));
}

TEST(BatchInputs, LieEndToEndWhereRagged) {
  const std::vector<Text> texts{{7, 8, 9}, {5}};
  const RaggedInputs inputs = ragged_inputs(texts, {.texts = {1, 0}, .longest = 3, .useful = 4});
  EXPECT_TRUE(inputs.tensors.at("input_ids")
                  .same_bits(ir::Tensor::of<int>(ir::DType::I64, {4}, {5, 7, 8, 9})));
  EXPECT_TRUE(inputs.tensors.at("token_type_ids").same_bits(ir::Tensor(ir::DType::I64, {4})));
  EXPECT_TRUE(inputs.offsets.same_bits(ir::Tensor::of<int>(ir::DType::I64, {3}, {0, 1, 4})));
}

}  // namespace
}  // namespace anydim::tools
