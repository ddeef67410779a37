// Tensors of the ONNX schema: every way to store one, and everything that can be wrong with one.
#include "frontends/onnx_tensor.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "frontends/onnx/tensor.h"
#include "ir/text/print.h"
#include "tests/frontends/model_builder.h"

namespace anydim::frontends {
namespace {

onnx::TensorProto tensor(int type, const std::vector<std::int64_t>& dims) {
  onnx::TensorProto proto;
  proto.set_name("w");
  proto.set_data_type(type);
  proto.mutable_dims()->Add(dims.begin(), dims.end());
  return proto;
}

ir::Tensor take(onnx::TensorProto proto) {
  ExternalData external(std::nullopt);
  return take_tensor(proto, "initialiser 'w'", external);
}

std::string failure(const onnx::TensorProto& proto) {
  try {
    return ir::print(take(proto));
  } catch (const Error& error) {
    return describe(error);
  }
}

TEST(OnnxTensor, TypedFields) {
  auto reals = tensor(f32, {2});
  reals.add_float_data(1.5f);
  reals.add_float_data(-2);
  EXPECT_EQ(ir::print(take(reals)), "f32 (2) [1.5, -2]");
  auto doubles = tensor(f64, {1});
  doubles.add_double_data(0.1);
  EXPECT_EQ(take(doubles).real_at(0), 0.1);
  auto longs = tensor(i64, {1, 2});
  longs.add_int64_data(-1);
  longs.add_int64_data(1LL << 40);
  EXPECT_EQ(ir::print(take(longs)), "i64 (1, 2) [-1, 1099511627776]");
  auto unsigned_longs = tensor(onnx::TensorProto::UINT64, {});
  unsigned_longs.add_uint64_data(7);
  EXPECT_EQ(ir::print(take(unsigned_longs)), "u64 () [7]");
  auto unsigned_ints = tensor(onnx::TensorProto::UINT32, {});
  unsigned_ints.add_uint64_data(4294967295u);
  EXPECT_EQ(ir::print(take(unsigned_ints)), "u32 () [4294967295]");
  for (const int type : {int{onnx::TensorProto::INT8}, int{onnx::TensorProto::INT16},
                         int{onnx::TensorProto::INT32}}) {
    auto small = tensor(type, {2});
    small.add_int32_data(-5);
    small.add_int32_data(100);
    EXPECT_EQ(take(small).integer_at(0), -5);
    EXPECT_EQ(take(small).integer_at(1), 100);
  }
  auto half = tensor(f16, {1});
  half.add_int32_data(0x3e00);
  EXPECT_EQ(take(half).real_at(0), 1.5);
  auto bfloat = tensor(onnx::TensorProto::BFLOAT16, {1});
  bfloat.add_int32_data(0xbf80);
  EXPECT_EQ(take(bfloat).real_at(0), -1);
  auto flags = tensor(boolean, {2});
  flags.add_int32_data(1);
  flags.add_int32_data(0);
  EXPECT_EQ(ir::print(take(flags)), "bool (2) [true, false]");
}

TEST(OnnxTensor, RawDataIsMovedNotCopied) {
  auto proto = tensor(f32, {64});
  proto.mutable_raw_data()->assign(256, '\0');
  const void* before = proto.raw_data().data();
  ExternalData external(std::nullopt);
  const ir::Tensor moved = take_tensor(proto, "w", external);
  EXPECT_EQ(static_cast<const void*>(moved.bytes().data()), before);
  auto typed = tensor(f32, {64});
  typed.mutable_float_data()->Resize(64, 1);
  const void* field = typed.float_data().data();
  EXPECT_EQ(static_cast<const void*>(take_tensor(typed, "w", external).bytes().data()), field);
}

TEST(OnnxTensor, EmptyTensorsNeedNoData) {
  const ir::Tensor empty = take(tensor(f32, {3, 0, 1LL << 62, 1LL << 62}));
  EXPECT_EQ(empty.bytes().size(), 0u);
}

TEST(OnnxTensor, DimsAndDataDisagree) {
  auto raw = tensor(f32, {2, 3});
  raw.set_raw_data("12345678");
  EXPECT_EQ(
      failure(raw),
      "malformed: initialiser 'w' is f32 [2, 3], which needs 24 bytes, but its raw_data has 8");
  auto typed = tensor(i64, {2});
  typed.add_int64_data(1);
  EXPECT_EQ(
      failure(typed),
      "malformed: initialiser 'w' is i64 [2], which needs 2 elements, but its int64_data has 1");
  EXPECT_EQ(
      failure(tensor(f32, {})),
      "malformed: initialiser 'w' is f32 [], which needs 1 elements, but its float_data has 0");
  auto field = tensor(f32, {1});
  field.add_int32_data(1);
  EXPECT_EQ(
      failure(field),
      "malformed: initialiser 'w' is f32 [1], which needs 1 elements, but its float_data has 0");
  auto both = tensor(f32, {1});
  both.add_float_data(1);
  both.set_raw_data("1234");
  EXPECT_EQ(failure(both),
            "malformed: initialiser 'w' has its data in more than one field; expected one");
}

TEST(OnnxTensor, HostileDims) {
  EXPECT_EQ(failure(tensor(f32, {2, -1})),
            "malformed: tensor 'w' has the dims [2, -1]; a dim cannot be negative");
  EXPECT_EQ(failure(tensor(f32, {1LL << 40, 1LL << 40})),
            "malformed: tensor 'w' has the dims [1099511627776, 1099511627776], whose size "
            "overflows 64 bits");
  EXPECT_EQ(failure(tensor(f32, {1LL << 60})),
            "malformed: initialiser 'w' is f32 [1152921504606846976], which needs "
            "1152921504606846976 elements, but its float_data has 0");
}

TEST(OnnxTensor, ElementTypes) {
  EXPECT_EQ(failure(tensor(0, {})), "malformed: initialiser 'w' has no element type");
  EXPECT_EQ(
      failure(tensor(-4, {})),
      "malformed: initialiser 'w' has the element type number -4, which ONNX does not define");
  EXPECT_EQ(
      failure(tensor(onnx::TensorProto::COMPLEX64, {})),
      "unsupported: initialiser 'w' has the element type COMPLEX64, which Anydim does not support");
  EXPECT_EQ(failure(tensor(28, {})),
            "unsupported: initialiser 'w' has the element type FLOAT6E3M2, which Anydim does not "
            "support");
  auto segment = tensor(f32, {});
  segment.mutable_segment()->set_begin(1);
  EXPECT_EQ(failure(segment),
            "malformed: initialiser 'w' is one segment of a larger tensor; expected a whole one");
}

TEST(OnnxTensor, ValuesThatTheElementTypeCannotHold) {
  auto byte = tensor(u8, {2});
  byte.add_int32_data(1);
  byte.add_int32_data(300);
  EXPECT_EQ(failure(byte), "malformed: initialiser 'w' is u8, but element 1 has the value 300");
  auto flag = tensor(boolean, {1});
  flag.set_raw_data("\x02");
  EXPECT_EQ(failure(flag),
            "malformed: initialiser 'w' is bool, but element 0 has the value 2: expected 0 or 1");
}

TEST(OnnxTensor, ExternalEntries) {
  auto proto = tensor(f32, {1});
  proto.set_data_location(onnx::TensorProto::EXTERNAL);
  const auto add = [&](const char* key, const char* value) {
    auto* entry = proto.add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  };
  EXPECT_EQ(failure(proto), "malformed: tensor 'w' names no data file");
  add("location", "weights.bin");
  EXPECT_EQ(failure(proto),
            "malformed: tensor 'w' has its data in the file 'weights.bin', but the model was read "
            "from memory, without a folder to look in");
  add("offset", "12x");
  EXPECT_EQ(
      failure(proto),
      "malformed: initialiser 'w' has external data with the offset '12x': expected an integer");
  proto.mutable_external_data(1)->set_key("location");
  EXPECT_EQ(failure(proto),
            "malformed: initialiser 'w' gives the key 'location' of its external data twice");
  proto.set_raw_data("1234");
  EXPECT_EQ(failure(proto),
            "malformed: initialiser 'w' has data both inside the model and in another file");
}

TEST(OnnxTensor, Files) {
  const auto file = std::filesystem::path(testing::TempDir()) / "anydim_tensor_test.pb";
  auto proto = tensor(i64, {2});
  proto.add_int64_data(3);
  proto.add_int64_data(4);
  std::ofstream(file) << proto.SerializeAsString();
  EXPECT_EQ(ir::print(read_onnx_tensor(file)), "i64 (2) [3, 4]");
  std::ofstream(file) << "not a tensor";
  const auto failure_of_file = [](const std::filesystem::path& path) {
    try {
      read_onnx_tensor(path);
    } catch (const Error& error) {
      return describe(error);
    }
    return std::string("read");
  };
  EXPECT_EQ(failure_of_file(file), "malformed: tensor file '" + file.string() +
                                       "' is not an ONNX tensor: its 12 bytes are truncated, "
                                       "damaged, nested too deeply or of another format");
  std::filesystem::remove(file);
  EXPECT_EQ(failure_of_file(file),
            "malformed: cannot open '" + file.string() + "': No such file or directory");
  EXPECT_EQ(failure_of_file("/dev/null"), "malformed: '/dev/null' is not a regular file");
}

}  // namespace
}  // namespace anydim::frontends
