// Which files a model may take its weights from.
#include "frontends/external_data.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "frontends/onnx.h"
#include "frontends/open_beneath.h"
#include "tests/frontends/model_builder.h"

namespace anydim::frontends {
namespace {

namespace fs = std::filesystem;

class ExternalDataTest : public testing::Test {
 protected:
  ExternalDataTest() {
    std::string pattern = (fs::path(testing::TempDir()) / "anydim_external_XXXXXX").string();
    root_ = ::mkdtemp(pattern.data());
    folder_ = root_ / "model";
    fs::create_directories(folder_ / "data");
    write(folder_ / "weights.bin", 64);
    write(folder_ / "data" / "inner.bin", 64);
    write(root_ / "outside.bin", 64);
  }
  ~ExternalDataTest() override { fs::remove_all(root_); }

  // Bytes 0, 1, 2, ...
  static void write(const fs::path& file, std::size_t size) {
    std::string bytes(size, '\0');
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i);
    std::ofstream(file, std::ios::binary) << bytes;
  }

  std::string load(const ExternalLocation& location, std::vector<std::int64_t> dims = {2}) {
    ExternalData external(folder_);
    try {
      tensor_ = external.load("w", ir::DType::F32, std::move(dims), location);
    } catch (const Error& error) {
      return describe(error);
    }
    return "loaded";
  }

  fs::path root_;
  fs::path folder_;
  ir::Tensor tensor_;
};

std::string refused(const std::string& file, const std::string& reason) {
  return "malformed: tensor 'w' has its data in the file '" + file + "'" + reason;
}

TEST_F(ExternalDataTest, TensorsAreMappedAndShareOneMapping) {
  ExternalData external(folder_);
  const ir::Tensor first = external.load("a", ir::DType::F32, {2}, {"weights.bin", 0, 8});
  const ir::Tensor second = external.load("b", ir::DType::U8, {4}, {"weights.bin", 13, {}});
  EXPECT_EQ(second.bytes().data() - first.bytes().data(), 13);
  EXPECT_EQ(first.owner(), second.owner());
  EXPECT_EQ(second.integer_at(0), 13);
  EXPECT_EQ(second.origin(), (ir::TensorOrigin{"weights.bin", 13, 4, {}}));
}

TEST_F(ExternalDataTest, DataOutlivesReaderAndFile) {
  EXPECT_EQ(load({"weights.bin", 4, 8}), "loaded");
  fs::remove(folder_ / "weights.bin");
  EXPECT_EQ(std::to_integer<int>(tensor_.bytes()[0]), 4);
}

TEST_F(ExternalDataTest, OnlyWhatIsNotAlignedToItsElementsIsCopied) {
  EXPECT_EQ(load({"weights.bin", 3, 8}), "loaded");
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor_.bytes().data()) % 4, 0u);
  EXPECT_EQ(std::to_integer<int>(tensor_.bytes()[7]), 10);
}

TEST_F(ExternalDataTest, FilesInSubfoldersAndLinksThatStayInside) {
  EXPECT_EQ(load({"data/inner.bin", 0, 8}), "loaded");
  EXPECT_EQ(load({"./data//inner.bin", 0, 8}), "loaded");
  fs::create_symlink("data/inner.bin", folder_ / "link.bin");
  EXPECT_EQ(load({"link.bin", 0, 8}), "loaded");
}

TEST_F(ExternalDataTest, MissingFile) {
  EXPECT_EQ(load({"model.safetensors", 0, 8}),
            refused("model.safetensors", ", which is missing: expected it at '" +
                                             (folder_ / "model.safetensors").string() +
                                             "', beside the model"));
}

TEST_F(ExternalDataTest, PathsOutOfTheFolder) {
  EXPECT_EQ(
      load({"/etc/passwd", 0, 8}),
      refused("/etc/passwd", ", an absolute path; only files inside the model's folder are read"));
  EXPECT_EQ(load({"../outside.bin", 0, 8}),
            refused("../outside.bin",
                    ", a path with '..'; only files inside the model's folder are read"));
  EXPECT_EQ(load({"data/../weights.bin", 0, 8}),
            refused("data/../weights.bin",
                    ", a path with '..'; only files inside the model's folder are read"));
  EXPECT_EQ(load({std::string("weights.bin\0x", 13), 0, 8}),
            refused("weights.bin\\x00x", ", whose name holds a zero byte"));
}

TEST_F(ExternalDataTest, LinksOutOfTheFolder) {
  fs::create_symlink("../outside.bin", folder_ / "relative.bin");
  fs::create_symlink(root_ / "outside.bin", folder_ / "absolute.bin");
  fs::create_directory_symlink(root_, folder_ / "up");
  EXPECT_EQ(load({"relative.bin", 0, 8}),
            refused("relative.bin", ", a link that leaves the model's folder"));
  EXPECT_EQ(load({"absolute.bin", 0, 8}),
            refused("absolute.bin", ", a link that leaves the model's folder"));
  EXPECT_EQ(load({"up/outside.bin", 0, 8}),
            refused("up/outside.bin", ", a link that leaves the model's folder"));
}

TEST_F(ExternalDataTest, HardLinks) {
  fs::create_hard_link(root_ / "outside.bin", folder_ / "hard.bin");
  EXPECT_EQ(
      load({"hard.bin", 0, 8}),
      refused("hard.bin",
              ", which has 2 hard links; it may belong to another folder, so copy it instead"));
}

TEST_F(ExternalDataTest, WhatIsNoRegularFile) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(load({"pipe", 0, 8}), refused("pipe", ", which is not a regular file"));
  EXPECT_EQ(load({"data", 0, 8}), refused("data", ", which is not a regular file"));
}

TEST_F(ExternalDataTest, OffsetsAndLengths) {
  EXPECT_EQ(load({"weights.bin", -4, 8}), refused("weights.bin", " at the negative offset -4"));
  EXPECT_EQ(load({"weights.bin", 0, -8}),
            refused("weights.bin", ", -8 bytes by the model, but f32 [2] needs 8"));
  EXPECT_EQ(load({"weights.bin", 0, 12}),
            refused("weights.bin", ", 12 bytes by the model, but f32 [2] needs 8"));
  EXPECT_EQ(load({"weights.bin", 60, 8}),
            refused("weights.bin", ", 8 bytes from offset 60, but the file ends at 64"));
  EXPECT_EQ(load({"weights.bin", 0, {}}, {17}),
            refused("weights.bin", ", 68 bytes from offset 0, but the file ends at 64"));
  EXPECT_EQ(
      load({"weights.bin", INT64_MAX, {}}),
      refused("weights.bin", ", 8 bytes from offset 9223372036854775807, but the file ends at 64"));
  write(folder_ / "empty.bin", 0);
  EXPECT_EQ(load({"empty.bin", 0, {}}),
            refused("empty.bin", ", 8 bytes from offset 0, but the file ends at 0"));
  EXPECT_EQ(load({"empty.bin", 0, {}}, {0}), "loaded");
}

// What kernels without openat2 do: no link is followed, wherever it leads.
TEST_F(ExternalDataTest, WalkWithoutOpenat2) {
  fs::create_symlink("weights.bin", folder_ / "link.bin");
  fs::create_directory_symlink("data", folder_ / "linked");
  const FileDescriptor folder(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  EXPECT_TRUE(open_without_links(folder, "weights.bin"));
  EXPECT_TRUE(open_without_links(folder, "data/inner.bin"));
  EXPECT_TRUE(open_without_links(folder, "./data//inner.bin"));
  EXPECT_FALSE(open_without_links(folder, "link.bin"));
  EXPECT_EQ(errno, ELOOP);
  EXPECT_FALSE(open_without_links(folder, "linked/inner.bin"));
  EXPECT_EQ(errno, ENOTDIR);
  EXPECT_FALSE(open_without_links(folder, "absent/inner.bin"));
  EXPECT_EQ(errno, ENOENT);
}

TEST_F(ExternalDataTest, AModelTakesItsWeightsFromBesideItself) {
  ModelBuilder builder;
  builder.input("x", f32, {2}).output("y");
  auto& weights = builder.initialiser("w", f32, {2});
  weights.set_data_location(onnx::TensorProto::EXTERNAL);
  const auto add = [&](const char* key, const char* value) {
    auto* entry = weights.add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  };
  add("location", "data/inner.bin");
  add("offset", "16");
  add("length", "8");
  builder.node("Add", {"x", "w"}, {"y"});
  std::ofstream(folder_ / "model.onnx", std::ios::binary) << builder.bytes();
  const ir::Module module = read_onnx(folder_ / "model.onnx");
  const ir::Tensor& tensor = ir::tensor_attribute(module.functions[0].body.bindings[0], "value");
  EXPECT_EQ(tensor.origin(), (ir::TensorOrigin{"data/inner.bin", 16, 8, {}}));
  EXPECT_EQ(std::to_integer<int>(tensor.bytes()[0]), 16);
}

}  // namespace
}  // namespace anydim::frontends
