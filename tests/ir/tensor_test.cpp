#include "ir/tensor.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <random>

#include "ir/error.h"

namespace anydim::ir {
namespace {

// The value a half's bits stand for, straight from the definition.
double half_by_definition(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int mantissa = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31)
    return mantissa != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(Half, EveryPatternWidensByDefinitionAndComesBack) {
  for (int i = 0; i < 65536; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const double expected = half_by_definition(bits);
    const float got = half_to_float(bits);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(got)) << i;
      EXPECT_TRUE(std::isnan(half_to_float(float_to_half(got)))) << i;
      continue;
    }
    EXPECT_EQ(static_cast<double>(got), expected) << i;
    EXPECT_EQ(std::signbit(got), std::signbit(expected)) << i;
    EXPECT_EQ(float_to_half(got), bits) << i;
  }
}

// Around the middle between each pair of neighbours: below goes down, above goes up, the middle
// goes to the even pattern.
TEST(Half, RoundsToNearestEvenBetweenAllNeighbours) {
  for (int i = 0; i < 0x7c00; ++i) {
    const auto low = static_cast<std::uint16_t>(i);
    const auto high = static_cast<std::uint16_t>(i + 1);
    const double high_value = i + 1 == 0x7c00 ? 65536.0 : half_by_definition(high);
    const auto middle = static_cast<float>((half_by_definition(low) + high_value) / 2);
    EXPECT_EQ(float_to_half(middle), i % 2 == 0 ? low : high) << i;
    EXPECT_EQ(float_to_half(std::nextafter(middle, 0.0f)), low) << i;
    EXPECT_EQ(float_to_half(std::nextafter(middle, 1e9f)), high) << i;
    EXPECT_EQ(float_to_half(-middle), float_to_half(middle) | 0x8000) << i;
  }
}

TEST(BFloat16, WidensExactlyAndRoundsToNearestEven) {
  for (int i = 0; i < 65536; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float value = bfloat16_to_float(bits);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(bfloat16_to_float(float_to_bfloat16(value)))) << i;
      continue;
    }
    EXPECT_EQ(float_to_bfloat16(value), bits) << i;
    if ((i & 0x7fff) >= 0x7f80) continue;
    const std::uint32_t wide = static_cast<std::uint32_t>(i) << 16;
    const auto next = static_cast<std::uint16_t>(i + 1);
    EXPECT_EQ(float_to_bfloat16(std::bit_cast<float>(wide | 0x7fffu)), bits) << i;
    EXPECT_EQ(float_to_bfloat16(std::bit_cast<float>(wide | 0x8000u)), i % 2 == 0 ? bits : next)
        << i;
    EXPECT_EQ(float_to_bfloat16(std::bit_cast<float>(wide | 0x8001u)), next) << i;
  }
  EXPECT_TRUE(std::isnan(bfloat16_to_float(float_to_bfloat16(std::bit_cast<float>(0x7f800001u)))));
}

TEST(Tensor, DoublesRoundOnceIntoNarrowFloats) {
  Tensor half(DType::F16, {1});
  // Just above the middle of 1 and the next half; as a float it would land on the middle and then
  // go to even.
  half.set_real(0, 1 + std::ldexp(1.0, -11) + std::ldexp(1.0, -40));
  EXPECT_EQ(half.real_at(0), 1 + std::ldexp(1.0, -10));
  half.set_real(0, 1e300);
  EXPECT_EQ(half.real_at(0), std::numeric_limits<double>::infinity());
  half.set_real(0, -1e-300);
  EXPECT_EQ(half.as<std::uint16_t>()[0], 0x8000);
  half.set_real(0, std::nan(""));
  EXPECT_TRUE(std::isnan(half.real_at(0)));

  Tensor brain(DType::BF16, {1});
  brain.set_real(0, 1 + std::ldexp(1.0, -8) + std::ldexp(1.0, -45));
  EXPECT_EQ(brain.real_at(0), 1 + std::ldexp(1.0, -7));
  brain.set_integer(0, (std::int64_t{1} << 62) + (std::int64_t{1} << 54) + 1);
  EXPECT_EQ(brain.real_at(0), std::ldexp(1.0, 62) + std::ldexp(1.0, 55));
}

TEST(Tensor, ElementsOfEveryDType) {
  for (int i = 0; i <= static_cast<int>(DType::Bool); ++i) {
    const auto dtype = static_cast<DType>(i);
    SCOPED_TRACE(std::string(name_of(dtype)));
    EXPECT_EQ(dtype_named(name_of(dtype)), dtype);
    Tensor tensor(dtype, {2, 2});
    EXPECT_EQ(tensor.bytes().size(), 4 * size_of(dtype));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.bytes().data()) % 64, 0u);
    EXPECT_EQ(tensor.integer_at(3), 0);
    tensor.set_integer(1, 1);
    tensor.set_real(2, 1.0);
    EXPECT_EQ(tensor.integer_at(1), 1);
    EXPECT_EQ(tensor.real_at(2), 1.0);
    if (is_signed(dtype)) {
      tensor.set_real(0, -2.0);
      EXPECT_EQ(tensor.integer_at(0), -2);
    }
    EXPECT_THROW(tensor.real_at(4), Error);
  }
}

TEST(Tensor, FloatsTruncateAndSaturateIntoIntegers) {
  Tensor bytes(DType::I8, {4});
  bytes.set_real(0, -1.9);
  bytes.set_real(1, 1e9);
  bytes.set_real(2, -1e9);
  bytes.set_real(3, std::nan(""));
  EXPECT_EQ(bytes.integer_at(0), -1);
  EXPECT_EQ(bytes.integer_at(1), 127);
  EXPECT_EQ(bytes.integer_at(2), -128);
  EXPECT_EQ(bytes.integer_at(3), 0);
  Tensor wide(DType::F64, {3});
  wide.set_real(0, 1e30);
  wide.set_real(1, -1e30);
  wide.set_real(2, -0.5);
  EXPECT_EQ(wide.integer_at(0), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(wide.integer_at(1), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(wide.integer_at(2), 0);
  Tensor large(DType::U64, {1});
  large.set_integer(0, -1);
  EXPECT_EQ(large.real_at(0), 18446744073709551615.0);
}

TEST(Tensor, SharesForeignBytes) {
  auto owner = std::make_shared<std::vector<std::int32_t>>(std::vector<std::int32_t>{1, 2, 3});
  const std::span<const std::byte> bytes = std::as_bytes(std::span(*owner));
  const Tensor tensor(DType::I32, {3}, bytes, owner);
  EXPECT_EQ(tensor.integer_at(2), 3);
  EXPECT_TRUE(tensor.same_bits(Tensor::of<int>(DType::I32, {3}, {1, 2, 3})));
  EXPECT_FALSE(tensor.same_bits(Tensor::of<int>(DType::I32, {3, 1}, {1, 2, 3})));
  EXPECT_FALSE(tensor.same_bits(Tensor::of<int>(DType::I32, {3}, {1, 2, 4})));
  Tensor copy = tensor;
  EXPECT_THROW(copy.mutable_bytes(), Error);
  EXPECT_THROW(Tensor(DType::I64, {3}, bytes, owner), Error);
}

std::string shape_error(DType dtype, const std::vector<std::int64_t>& dims) {
  try {
    byte_count(dtype, dims);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Inputs);
    return error.what();
  }
  return "no error";
}

TEST(Shape, SizesAreChecked) {
  EXPECT_EQ(element_count({}), 1);
  EXPECT_EQ(element_count({3, 0}), 0);
  EXPECT_EQ(element_count({std::int64_t{1} << 40, std::int64_t{1} << 40, 0}), 0);
  EXPECT_EQ(byte_count(DType::F32, {2, 3}), 24);
  EXPECT_EQ(shape_error(DType::F32, {2, -3}), "shape (2, -3) has a negative dim");
  EXPECT_EQ(shape_error(DType::Bool, {4294967296, 4294967296}),
            "shape (4294967296, 4294967296) has more elements than 64 bits can count");
  EXPECT_EQ(shape_error(DType::F64, {4611686018427387904}),
            "a f64 tensor of shape (4611686018427387904) has more bytes than 64 bits can count");
}

// Gives 0, 1, 2, ... and counts how often it was asked.
class Counting : public TensorSource {
 public:
  explicit Counting(int& reads) : reads_(reads) {}
  void read(std::span<std::byte> to) const override {
    ++reads_;
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<std::byte>(i);
  }

 private:
  int& reads_;
};

TEST(Tensor, OfASourceIsReadWhenItIsNeeded) {
  int reads = 0;
  const Tensor tensor(DType::U8, {2, 3}, std::make_shared<Counting>(reads));
  EXPECT_EQ(tensor.byte_size(), 6u);
  EXPECT_EQ(tensor.elements(), 6);
  const Tensor copy = tensor;
  EXPECT_TRUE(copy.shares(tensor));
  EXPECT_EQ(reads, 0);
  {
    const Tensor opened = tensor.opened(), again = copy.opened();
    EXPECT_FALSE(opened.is_sourced());
    EXPECT_EQ(opened.integer_at(5), 5);
    EXPECT_EQ(opened.bytes().data(), again.bytes().data());
    EXPECT_EQ(reads, 1);
  }
  EXPECT_EQ(tensor.opened().integer_at(4), 4);
  EXPECT_EQ(reads, 2);
  EXPECT_EQ(copy.integer_at(3), 3);  // stays from here on
  EXPECT_EQ(tensor.opened().bytes().data(), copy.bytes().data());
  EXPECT_EQ(reads, 3);
  std::vector<std::byte> apart(6);
  tensor.copy_to(apart);
  EXPECT_EQ(apart[5], std::byte{5});
  EXPECT_TRUE(tensor.same_bits(Tensor::of<int>(DType::U8, {2, 3}, {0, 1, 2, 3, 4, 5})));
}

TEST(Tensor, OverForeignMemoryIsWritten) {
  auto memory = std::make_shared<std::vector<std::byte>>(8);
  Tensor tensor = Tensor::over(DType::I32, {2}, *memory, memory);
  tensor.set_integer(1, 7);
  EXPECT_EQ((*memory)[4], std::byte{7});
  EXPECT_EQ(tensor.integer_at(1), 7);
}

}  // namespace
}  // namespace anydim::ir
