// Element types without a DType: integers of 4 and 2 bits, floats of 8 and 4. Numbers are those of
// ml_dtypes 0.6.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "frontends/onnx/element_type.h"
#include "frontends/onnx/tensor.h"
#include "ir/reference/evaluate.h"
#include "ir/shapes/infer.h"
#include "ir/text/print.h"
#include "tests/frontends/model_builder.h"

namespace anydim::frontends {
namespace {

constexpr int e4m3fn = 17, e4m3fnuz = 18, e5m2 = 19, e5m2fnuz = 20, u4 = 21, i4 = 22, e2m1 = 23,
              e8m0 = 24, u2 = 25, i2 = 26, i8 = onnx::TensorProto::INT8;
constexpr double nan = std::numeric_limits<double>::quiet_NaN(),
                 inf = std::numeric_limits<double>::infinity();

std::vector<double> numbers_of(const ir::Tensor& tensor) {
  std::vector<double> numbers;
  for (std::int64_t i = 0; i < tensor.elements(); ++i) numbers.push_back(tensor.real_at(i));
  return numbers;
}

// Equal numbers, and zeros of equal signs.
void expect_numbers(const std::vector<double>& got, const std::vector<double>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    SCOPED_TRACE(i);
    if (std::isnan(wanted[i])) {
      EXPECT_TRUE(std::isnan(got[i])) << got[i];
      continue;
    }
    EXPECT_EQ(got[i], wanted[i]);
    EXPECT_EQ(std::signbit(got[i]), std::signbit(wanted[i]));
  }
}

ir::Tensor take(int type, const std::vector<std::int64_t>& dims, const std::string& raw) {
  onnx::TensorProto proto;
  proto.set_name("w");
  proto.set_data_type(type);
  proto.mutable_dims()->Add(dims.begin(), dims.end());
  proto.set_raw_data(raw);
  ExternalData external(std::nullopt);
  return take_tensor(proto, "initialiser 'w'", external);
}

std::string failure(int type, const std::vector<std::int64_t>& dims, const std::string& raw,
                    const std::vector<std::int32_t>& field = {}) {
  onnx::TensorProto proto;
  proto.set_name("w");
  proto.set_data_type(type);
  proto.mutable_dims()->Add(dims.begin(), dims.end());
  if (!raw.empty()) proto.set_raw_data(raw);
  for (const std::int32_t byte : field) proto.add_int32_data(byte);
  ExternalData external(std::nullopt);
  try {
    return ir::print(take_tensor(proto, "initialiser 'w'", external));
  } catch (const Error& error) {
    return describe(error);
  }
}

TEST(NarrowTypes, IntegersAreUnpackedFromTheLowestBits) {
  EXPECT_EQ(ir::print(take(i4, {3}, "\x78\x0f")), "i8 (3) [-8, 7, -1]");
  EXPECT_EQ(ir::print(take(u4, {2, 2}, "\x78\x0f")), "u8 (2, 2) [8, 7, 15, 0]");
  EXPECT_EQ(ir::print(take(i2, {5}, "\x36\x01")), "i8 (5) [-2, 1, -1, 0, 1]");
  EXPECT_EQ(ir::print(take(u2, {5}, "\x36\x01")), "u8 (5) [2, 1, 3, 0, 1]");
  EXPECT_EQ(take(i4, {3, 0}, "").elements(), 0);
  EXPECT_EQ(failure(i4, {3}, "", {0x78, 0x0f}), "i8 (3) [-8, 7, -1]");
}

TEST(NarrowTypes, EveryFloatPattern) {
  const std::string patterns("\x00\x01\x07\x08\x38\x7b\x7c\x7e\x7f\x80\x81\xc5\xff", 13);
  const auto numbers = [&](int type) { return numbers_of(take(type, {13}, patterns)); };
  expect_numbers(numbers(e4m3fn), {0, 0.001953125, 0.013671875, 0.015625, 1, 352, 384, 448, nan,
                                   -0.0, -0.001953125, -3.25, nan});
  expect_numbers(numbers(e4m3fnuz), {0, 0.0009765625, 0.0068359375, 0.0078125, 0.5, 176, 192, 224,
                                     240, nan, -0.0009765625, -1.625, -240});
  expect_numbers(numbers(e5m2), {0, 0x1p-16, 0x1.cp-14, 0x1p-13, 0.5, 57344, inf, nan, nan, -0.0,
                                 -0x1p-16, -5, nan});
  expect_numbers(numbers(e5m2fnuz), {0, 0x1p-17, 0x1.cp-15, 0x1p-14, 0.25, 28672, 32768, 49152,
                                     57344, nan, -0x1p-17, -2.5, -57344});
  expect_numbers(numbers(e8m0), {0x1p-127, 0x1p-126, 0x1p-120, 0x1p-119, 0x1p-71, 0.0625, 0.125,
                                 0.5, 1, 2, 4, 0x1p70, nan});
  expect_numbers(numbers_of(take(e2m1, {4}, "\x10\xf7")), {0, 0.5, 6, -6});
}

TEST(NarrowTypes, WhatIsWrongWithATensor) {
  EXPECT_EQ(failure(i4, {3}, "123"),
            "malformed: initialiser 'w' is INT4 [3], which needs 2 bytes, but its raw_data has 3");
  EXPECT_EQ(
      failure(i4, {3}, "", {1}),
      "malformed: initialiser 'w' is INT4 [3], which needs 2 bytes, but its int32_data has 1");
  EXPECT_EQ(failure(u2, {2}, "", {256}),
            "malformed: initialiser 'w' is UINT2, but element 0 of its int32_data has the value "
            "256; expected a byte");
  EXPECT_EQ(failure(u4, {(1LL << 62) + 1}, "1"),
            "malformed: initialiser 'w' is UINT4 [4611686018427387905], which needs "
            "2305843009213693953 bytes, but its raw_data has 1");
  EXPECT_EQ(
      failure(e4m3fn, {1LL << 62}, "1"),
      "malformed: tensor 'w' has the dims [4611686018427387904], whose size overflows 64 bits");
}

TEST(NarrowTypes, FilesBesideTheModelArePacked) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "anydim_narrow_types";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "weights.bin", std::ios::binary) << "..\x78\x0f";
  onnx::TensorProto proto;
  proto.set_name("w");
  proto.set_data_type(i4);
  proto.add_dims(3);
  proto.set_data_location(onnx::TensorProto::EXTERNAL);
  for (const auto& [key, value] : {std::pair{"location", "weights.bin"}, {"offset", "2"}}) {
    auto* entry = proto.add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  }
  ExternalData external(folder);
  EXPECT_EQ(ir::print(take_tensor(proto, "initialiser 'w'", external)), "i8 (3) [-8, 7, -1]");
  std::filesystem::remove_all(folder);
}

class Packed : public ir::TensorSource {
 public:
  void read(std::span<std::byte> to) const override {
    ASSERT_EQ(to.size(), 2U);
    std::memcpy(to.data(), "\x78\x0f", 2);
  }
};

TEST(NarrowTypes, WeightsThatAreReadLater) {
  onnx::TensorProto proto;
  proto.set_name("w");
  proto.set_data_type(u4);
  proto.add_dims(3);
  const ir::Tensor later =
      tensor_apart(proto, "initialiser 'w'", 2, std::make_shared<const Packed>());
  EXPECT_TRUE(later.is_sourced());
  EXPECT_EQ(ir::print(later), "u8 (3) [8, 7, 15]");
}

// x [n] through nodes that `add` makes of it into "y", in f32.
std::vector<double> run(const std::vector<double>& x, const std::function<void(ModelBuilder&)>& add,
                        int opset = 25) {
  ModelBuilder builder(opset);
  builder.input("x", f32, {"n"}).output("y", f32);
  add(builder);
  ir::Module module = builder.read();
  ir::infer_types(module);
  const std::vector<std::int64_t> dims{static_cast<std::int64_t>(x.size())};
  return numbers_of(
      ir::evaluate(module, module.functions[0], {ir::Tensor::of(ir::DType::F32, dims, x)})[0]);
}

std::vector<double> there_and_back(const std::vector<double>& x, int type, bool saturate = true) {
  return run(x, [&](ModelBuilder& builder) {
    builder.node("Cast", {"x"}, {"a"}).integer("to", type).integer("saturate", saturate ? 1 : 0);
    builder.node("Cast", {"a"}, {"y"}).integer("to", f32);
  });
}

TEST(NarrowTypes, FloatsRoundToTheNearestHalvesToEven) {
  const std::vector<double> x{0.1, -0.3, 17, 19, -0.0, 1e-3, -2e-3, 232, 250, 470, -1e5, inf, nan};
  expect_numbers(there_and_back(x, e4m3fn), {0.1015625, -0.3125, 16, 20, -0.0, 0.001953125,
                                             -0.001953125, 224, 256, 448, -448, 448, nan});
  expect_numbers(there_and_back(x, e4m3fn, false), {0.1015625, -0.3125, 16, 20, -0.0, 0.001953125,
                                                    -0.001953125, 224, 256, nan, nan, nan, nan});
  expect_numbers(there_and_back(x, e4m3fnuz), {0.1015625, -0.3125, 16, 20, 0, 0.0009765625,
                                               -0.001953125, 224, 240, 240, -240, 240, nan});
  expect_numbers(there_and_back(x, e4m3fnuz, false), {0.1015625, -0.3125, 16, 20, 0, 0.0009765625,
                                                      -0.001953125, 224, nan, nan, nan, nan, nan});
  expect_numbers(there_and_back(x, e5m2), {0.09375, -0.3125, 16, 20, -0.0, 0.0009765625,
                                           -0.001953125, 224, 256, 448, -57344, 57344, nan});
  expect_numbers(there_and_back(x, e5m2, false), {0.09375, -0.3125, 16, 20, -0.0, 0.0009765625,
                                                  -0.001953125, 224, 256, 448, -inf, inf, nan});
  expect_numbers(there_and_back(x, e5m2fnuz, false), {0.09375, -0.3125, 16, 20, 0, 0.0009765625,
                                                      -0.001953125, 224, 256, 448, nan, nan, nan});
  expect_numbers(there_and_back({0.1, -0.3, 17, -0.0, 0.25, 0.75, 2.5, 5, -inf}, e2m1),
                 {0, -0.5, 6, -0.0, 0, 1, 2, 4, -6});
}

TEST(NarrowTypes, IntegersKeepTheirLowestBits) {
  const std::vector<double> x{-9, -8, 7, 8, 21, -1.5};
  expect_numbers(there_and_back(x, i4), {7, -8, 7, -8, 5, -1});
  expect_numbers(there_and_back(x, u4), {7, 8, 7, 8, 5, 15});
  expect_numbers(there_and_back(x, i2), {-1, 0, -1, 0, 1, -1});
  expect_numbers(there_and_back(x, u2), {3, 0, 3, 0, 1, 3});
}

TEST(NarrowTypes, QuantisationEndsWhereTheTypeDoes) {
  const auto quantised = [](int type, bool has_zero, bool through_a_view) {
    return run({-9, -2.25, 0.3, 3.7, 100}, [&](ModelBuilder& builder) {
      builder.reals("s", {}, {0.5});
      std::vector<std::string> parameters{"x", "s"};
      if (has_zero) {
        builder.initialiser("stored", type, {1}).set_raw_data("\x01");
        builder.integers("shape", {0}, {});
        if (through_a_view) builder.node("Reshape", {"stored", "shape"}, {"z"});
        parameters.emplace_back(through_a_view ? "z" : "stored");
      }
      NodeBuilder node = builder.node("QuantizeLinear", parameters, {"q"}).integer("axis", 0);
      if (!has_zero) node.integer("output_dtype", type);
      parameters.front() = "q";
      builder.node("DequantizeLinear", parameters, {"y"}).integer("axis", 0);
    });
  };
  expect_numbers(quantised(i4, true, false), {-4.5, -2, 0.5, 3, 3});
  expect_numbers(quantised(i4, true, true), {-4.5, -2, 0.5, 3, 3});
  expect_numbers(quantised(u4, true, false), {-0.5, -0.5, 0.5, 3.5, 7});
  expect_numbers(quantised(u2, false, false), {0, 0, 0.5, 1.5, 1.5});
  expect_numbers(quantised(e4m3fn, false, false), {-9, -2.25, 0.3125, 3.75, 96});
}

TEST(NarrowTypes, RowsThatAreGatheredCountFromZeroOrFromTheirZeroPoints) {
  const auto gathered = [](bool has_zero) {
    return run({1, 0, 1}, [&](ModelBuilder& builder) {
      builder.node("Cast", {"x"}, {"i"}).integer("to", i64);
      builder.initialiser("w", i4, {2, 2}).set_raw_data("\x1f\x8e");
      builder.reals("s", {2, 1}, {0.5, 2});
      std::vector<std::string> operands{"w", "i", "s"};
      if (has_zero) {
        builder.initialiser("z", i4, {2, 1}).set_raw_data("\x31");
        operands.emplace_back("z");
      }
      builder.node("GatherBlockQuantized", operands, {"y"})
          .domain("com.microsoft")
          .integer("block_size", 16);
    });
  };
  expect_numbers(gathered(false), {-4, -16, -0.5, 0.5, -4, -16});
  expect_numbers(gathered(true), {-10, -22, -1, 0, -10, -22});
}

TEST(NarrowTypes, LikeAConstantAndAWholeByteAgain) {
  const auto y = run({-9, 7.9, 8}, [](ModelBuilder& builder) {
    builder.node("Constant", {}, {"c"}).tensor("value", i4, {}).set_raw_data("\x01");
    builder.node("CastLike", {"x", "c"}, {"a"});
    builder.node("Cast", {"a"}, {"b"}).integer("to", i8);
    // b is of whole bytes: what is made like it ends at 127.
    builder.reals("s", {}, {1});
    builder.node("Cast", {"b"}, {"back"}).integer("to", f32);
    builder.reals("k", {}, {100});
    builder.node("Mul", {"back", "k"}, {"large"});
    builder.node("CastLike", {"large", "b"}, {"bytes"});
    builder.node("Cast", {"bytes"}, {"y"}).integer("to", f32);
  });
  expect_numbers(y, {127, 127, -128});
}

TEST(NarrowTypes, WhereTheyAreRefused) {
  const auto refused = [](int type) {
    ModelBuilder builder(25);
    builder.input("x", f32, {"n"}).output("y");
    builder.node("Cast", {"x"}, {"y"}).integer("to", type);
    return builder.failure();
  };
  EXPECT_EQ(refused(i4),
            "unsupported: the graph's output 'y' has the element type INT4, in which Anydim gives "
            "no results; cast it in the model");
  EXPECT_EQ(refused(e8m0),
            "unsupported: node 'Cast #0' (Cast) makes FLOAT8E8M0; Anydim reads tensors of it and "
            "makes none");
  EXPECT_EQ(refused(27),
            "unsupported: attribute 'to' of node 'Cast #0' (Cast) has the element type FLOAT6E2M3, "
            "which Anydim does not support");
  ModelBuilder bits(26);
  bits.input("x", i4, {"n"}).output("y");
  bits.node("BitCast", {"x"}, {"y"}).integer("to", u8);
  EXPECT_EQ(bits.failure(),
            "unsupported: node 'BitCast #0' (BitCast) reads the bits of INT4 as u8; Anydim does so "
            "for types of whole bytes that it computes with");
  ModelBuilder halves(23);
  halves.input("x", f16, {"n"}).reals("s", {}, {1}).output("y");
  halves.node("DequantizeLinear", {"x", "s"}, {"y"});
  EXPECT_EQ(halves.failure(),
            "malformed: node 'DequantizeLinear #0' (DequantizeLinear) takes integers or floats of "
            "at most 8 bits as input 0, got f16");
}

TEST(NarrowTypes, InputsAreTakenAsTheyAreHeld) {
  ModelBuilder builder(25);
  builder.input("x", i4, {"n"}).output("y", f32);
  builder.node("Cast", {"x"}, {"y"}).integer("to", f32);
  ir::Module module = builder.read();
  ir::infer_types(module);
  EXPECT_EQ(ir::print(ir::evaluate(module, module.functions[0], {take(i4, {3}, "\x78\x0f")})[0]),
            "f32 (3) [-8, 7, -1]");
}

}  // namespace
}  // namespace anydim::frontends
