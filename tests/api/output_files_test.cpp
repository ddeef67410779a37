#include "api/output_files.h"

#include <gtest/gtest.h>

#include <fstream>

#include "api/npy.h"
#include "tests/runtime/temporary_folder.h"

namespace anydim {
namespace {

namespace fs = std::filesystem;

const std::vector<ir::Tensor>& two_tensors() {
  static const std::vector<ir::Tensor> tensors{ir::Tensor::of<int>(ir::DType::I64, {2}, {1, 2}),
                                               ir::Tensor(ir::DType::F32, {0, 3})};
  return tensors;
}

TEST(OutputFiles, NamesAreSafe) {
  EXPECT_EQ(output_file_name("last_hidden_state"), "last_hidden_state.npy");
  EXPECT_EQ(output_file_name("/a b/../c:0"), "_a_b_.._c_0.npy");
  EXPECT_EQ(output_file_name(""), ".npy");
}

TEST(OutputFiles, SharedNamesAreRefused) {
  check_output_names({"a/b", "a_c"});
  try {
    check_output_names({"x", "a/b", "a_b"});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::CommandLine);
    EXPECT_STREQ(error.what(),
                 "outputs 'a/b' and 'a_b' would both be written to a_b.npy; choose one of them "
                 "with --outputs");
  }
}

TEST(OutputFiles, AreWrittenWhole) {
  const test::TemporaryFolder folder;
  const auto paths = write_outputs(folder.path() / "made" / "here", {"a", "b:0"}, two_tensors());
  ASSERT_EQ(paths.size(), 2u);
  EXPECT_EQ(paths[1].filename(), "b_0.npy");
  EXPECT_TRUE(read_npy(paths[0]).same_bits(two_tensors()[0]));
  EXPECT_TRUE(read_npy(paths[1]).same_bits(two_tensors()[1]));
  EXPECT_EQ(std::distance(fs::directory_iterator(paths[0].parent_path()), {}), 2);
}

TEST(OutputFiles, FolderThatCannotBeMadeIsAnError) {
  const test::TemporaryFolder folder;
  std::ofstream(folder.path() / "file") << "x";
  const fs::path target = folder.path() / "file" / "outputs";
  try {
    write_outputs(target, {"a", "b"}, two_tensors());
    FAIL() << "written";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Write);
    EXPECT_EQ(std::string(error.what()), target.string() + ": cannot be written (Not a directory)");
  }
}

TEST(OutputFiles, FailureLeavesNothingBehind) {
  const test::TemporaryFolder folder;
  fs::create_directory(folder.path() / "b.npy");
  EXPECT_THROW(write_outputs(folder.path(), {"z", "b"}, two_tensors()), Error);
  for (const auto& entry : fs::directory_iterator(folder.path()))
    EXPECT_FALSE(entry.path().string().ends_with(".partial"));
}

}  // namespace
}  // namespace anydim
