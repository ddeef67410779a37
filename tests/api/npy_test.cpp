#include "api/npy.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "tests/runtime/temporary_folder.h"

namespace anydim {
namespace {

using ir::DType;
using ir::Tensor;

class NpyTest : public testing::Test {
 protected:
  std::filesystem::path file() const { return folder_.path() / "tensor.npy"; }
  void write(const std::string& bytes) const { std::ofstream(file(), std::ios::binary) << bytes; }
  // A file of version 1.0 with this header and these data bytes.
  void write(const std::string& header, std::size_t data_bytes) const {
    write(std::string("\x93NUMPY\1\0", 8) + static_cast<char>(header.size()) + '\0' + header +
          std::string(data_bytes, '\1'));
  }
  std::string refusal() const {
    try {
      read_npy(file());
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Malformed);
      const std::string message = error.what(), start = file().string() + ": ";
      EXPECT_TRUE(message.starts_with(start)) << message;
      return message.substr(start.size());
    }
    ADD_FAILURE() << "accepted";
    return {};
  }

  test::TemporaryFolder folder_;
};

TEST_F(NpyTest, EveryElementTypeComesBack) {
  for (const DType dtype :
       {DType::F64, DType::F32, DType::F16, DType::I64, DType::I32, DType::I16, DType::I8,
        DType::U64, DType::U32, DType::U16, DType::U8, DType::Bool}) {
    for (const std::vector<std::int64_t>& dims :
         std::vector<std::vector<std::int64_t>>{{}, {3}, {2, 3}, {0, 4}, {1, 2, 3, 4}}) {
      Tensor tensor(dtype, dims);
      for (std::int64_t i = 0; i < tensor.elements(); ++i)
        tensor.set_integer(i, dtype == DType::Bool ? i % 2 : i);
      const std::string header = npy_header(tensor);
      EXPECT_EQ(header.size() % 64, 0u);
      write(header + std::string(reinterpret_cast<const char*>(tensor.bytes().data()),
                                 tensor.bytes().size()));
      EXPECT_TRUE(read_npy(file()).same_bits(tensor)) << ir::name_of(dtype);
    }
  }
}

TEST_F(NpyTest, BfloatsAreWrittenAsTheirBits) {
  EXPECT_NE(npy_header(Tensor(DType::BF16, {2})).find("'<u2'"), std::string::npos);
}

TEST_F(NpyTest, FortranOrderIsConverted) {
  const Tensor wanted = Tensor::of<int>(DType::I8, {2, 3}, {1, 2, 3, 4, 5, 6});
  write(std::string("\x93NUMPY\1\0", 8) + '\x3b' + '\0' +
        "{'descr': '|i1', 'fortran_order': True, 'shape': (2, 3), }\n" + "\1\4\2\5\3\6");
  EXPECT_TRUE(read_npy(file()).same_bits(wanted));
}

TEST_F(NpyTest, LongHeadersOfLaterVersionsAreRead) {
  const std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': (2,)}";
  for (const char version : {'\2', '\3'}) {
    write(std::string("\x93NUMPY", 6) + version + '\0' + static_cast<char>(header.size()) +
          std::string(3, '\0') + header + "ab");
    EXPECT_EQ(read_npy(file()).integer_at(1), 'b');
  }
}

TEST_F(NpyTest, WhatIsNoTensorIsRefused) {
  EXPECT_EQ(refusal(), "there is no such file");
  write("");
  EXPECT_EQ(refusal(), "this is no .npy file");
  write("\x93NUMP");
  EXPECT_EQ(refusal(), "this is no .npy file");
  write(std::string("\x93NUMPY\7\0", 8) + "rest");
  EXPECT_EQ(refusal(), ".npy version 7.0 is not known; 1.0 to 3.0 are");
  write(std::string("\x93NUMPY\1\0", 8));
  EXPECT_EQ(refusal(), "its header is truncated or too long");
  write(std::string("\x93NUMPY\2\0", 8) + "\xff\xff\xff\xff");
  EXPECT_EQ(refusal(), "its header is truncated or too long");
  write(std::string("\x93NUMPY\1\0", 8) + '\x40' + '\0' + "{'descr'");
  EXPECT_EQ(refusal(), "its header is truncated");
  const std::string form = "its header is not {'descr': ..., 'fortran_order': ..., 'shape': ...}";
  for (const char* header :
       {"", "{}", "[]", "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': ()}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2)",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': ()} x",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1 2)}",
        "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}"}) {
    write(header, 4);
    EXPECT_EQ(refusal(), form) << header;
  }
}

TEST_F(NpyTest, OtherElementTypesAreRefused) {
  for (const char* description : {">f4", "<c8", "|O", "<U5", "<M8[s]"}) {
    write("{'descr': '" + std::string(description) + "', 'fortran_order': False, 'shape': ()}", 4);
    EXPECT_EQ(refusal(),
              "element type '" + std::string(description) +
                  "' is not known; known are little-endian f2, f4, f8, i1 to i8, u1 to u8 and b1");
  }
}

TEST_F(NpyTest, SizesMustFit) {
  write("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}", 23);
  EXPECT_EQ(refusal(), "shape (2, 3) of '<f4' needs 24 bytes, but the file holds 23");
  write("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}", 25);
  EXPECT_EQ(refusal(), "shape (2, 3) of '<f4' needs 24 bytes, but the file holds 25");
  write("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", 4);
  EXPECT_EQ(refusal(),
            "shape (4294967296, 4294967296) of '<f4' needs too many bytes, but the file holds 4");
}

TEST_F(NpyTest, TruthValuesAreZeroOrOne) {
  write("{'descr': '|b1', 'fortran_order': False, 'shape': (2,)}", 2);
  EXPECT_EQ(read_npy(file()).integer_at(0), 1);
  std::string bytes = "{'descr': '|b1', 'fortran_order': False, 'shape': (1,)}";
  write(std::string("\x93NUMPY\1\0", 8) + static_cast<char>(bytes.size()) + '\0' + bytes + '\7');
  EXPECT_EQ(refusal(), "a bool is 0 or 1, but the file holds 7");
}

}  // namespace
}  // namespace anydim
