// Models from memory: the same as from files.
#include "api/load.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "ir/error.h"
#include "ir/text/print.h"

namespace anydim {
namespace {

std::string bytes_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

ir::Module load(std::string_view bytes,
                const std::optional<std::filesystem::path>& folder = std::nullopt) {
  return load_model_bytes(std::as_bytes(std::span(bytes)), folder);
}

std::string refusal(std::string_view bytes) {
  try {
    static_cast<void>(load(bytes));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Malformed);
    return error.what();
  }
  return "taken";
}

TEST(LoadBytes, ATextIsTheModuleOfItsFile) {
  const std::filesystem::path file = "../../docs/examples/dense.anydim";
  EXPECT_EQ(ir::print(load(bytes_of(file))), ir::print(load_model(file)));
}

#ifdef ANYDIM_ONNX
TEST(LoadBytes, AnOnnxModelIsTheModuleOfItsFile) {
  const std::filesystem::path file = "../models/tiny_bert.onnx";
  EXPECT_EQ(ir::print(load(bytes_of(file))), ir::print(load_model(file)));
}

TEST(LoadBytes, WeightsBesideAModelNeedItsFolder) {
  const std::string_view text =
      "fn @main(%x: Tensor[(2), f32]) {\n  %w = constant(f32 (2) @file(\"w.bin\", 0, 8))\n  %y = "
      "add(%x, %w)\n  return %y\n}\n";
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / "load_bytes_test";
  std::filesystem::create_directory(folder);
  std::ofstream(folder / "w.bin", std::ios::binary) << std::string(8, '\0');
  EXPECT_EQ(load(text, folder).functions.size(), 1u);
  EXPECT_NE(refusal(text).find("the model was read from memory, without a folder to look in"),
            std::string::npos)
      << refusal(text);
}
#endif

TEST(LoadBytes, WhatIsNoModelIsRefused) {
  EXPECT_EQ(refusal("fn @main(").substr(0, 12), "the model:1:");
#ifdef ANYDIM_ONNX
  EXPECT_NE(refusal(""), "taken");
  EXPECT_NE(refusal(std::string_view("\x08\x01\x00garbage", 10)), "taken");
#endif
}

}  // namespace
}  // namespace anydim
