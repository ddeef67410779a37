#include "tests/ptx/units/fragment.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "ir/error.h"
#include "ir/tensor.h"

namespace anydim::ptx {

int element_bits(ElementFormat format) {
  switch (format) {
    case ElementFormat::F16:
    case ElementFormat::BF16: return 16;
    case ElementFormat::TF32: return 32;
    case ElementFormat::S8:
    case ElementFormat::U8: return 8;
  }
  internal_error("an element format");
}

double element_value(ElementFormat format, std::uint32_t bits) {
  switch (format) {
    case ElementFormat::F16: return ir::half_to_float(static_cast<std::uint16_t>(bits));
    case ElementFormat::BF16: return ir::bfloat16_to_float(static_cast<std::uint16_t>(bits));
    case ElementFormat::TF32: return std::bit_cast<float>(bits & ~std::uint32_t{0x1fff});
    case ElementFormat::S8: return static_cast<std::int8_t>(bits);
    case ElementFormat::U8: return static_cast<std::uint8_t>(bits);
  }
  internal_error("an element format");
}

Coordinates operand_a_element(ElementFormat format, int lane, int reg, int part) {
  const int parts = 32 / element_bits(format);
  return {lane / 4 + 8 * (reg & 1), lane % 4 * parts + part + 4 * parts * (reg >> 1)};
}

Coordinates operand_b_element(ElementFormat format, int lane, int reg, int part) {
  const int parts = 32 / element_bits(format);
  return {lane % 4 * parts + part + 4 * parts * reg, lane / 4};
}

Coordinates accumulator_element(int thread, int index) {
  const int lane = thread % 32;
  return {16 * (thread / 32) + lane / 4 + 8 * ((index >> 1) & 1),
          8 * (index >> 2) + 2 * (lane & 3) + (index & 1)};
}

namespace {

// Row `row` of A x B, each element summed from k = 0 up.
std::vector<double> row_of_product(std::span<const double> a, std::span<const double> b, int row,
                                   int columns, int k) {
  std::vector<double> sums(columns, 0.0);
  for (int i = 0; i < k; ++i) {
    const double left = a[std::size_t(row) * k + i];
    const double* right = b.data() + std::size_t(i) * columns;
    for (int column = 0; column < columns; ++column) sums[column] += left * right[column];
  }
  return sums;
}

// Bits behind the binary point that are kept of what is added, where the largest is in [1, 4).
constexpr int kept_bits = 25;
// A number is 2^exponent times one in [1, 2); no sum in f32 has a lower exponent than the least.
constexpr int least_exponent = -300, not_finite = 1000;

int exponent_of(double value) {
  if (!std::isfinite(value)) return 2 * not_finite;
  return value == 0 ? -not_finite : std::ilogb(value);
}

// Cut off; what is added fits 32 bits, but for what is not finite.
double aligned(double value) {
  return static_cast<std::int32_t>(std::clamp(value, -0x1p30, 0x1p30));
}

float toward_zero(double value) {
  const float nearest = static_cast<float>(value);
  const bool farther = std::isfinite(nearest) && std::abs(double{nearest}) > std::abs(value);
  return farther ? std::nextafter(nearest, 0.0F) : nearest;
}

// The values of one operand as a matrix; `element` says where a lane's parts belong.
template <typename Element>
std::vector<double> gather(const WarpRegisters& registers, ElementFormat format, int rows,
                           int columns, Element element) {
  const int bits = element_bits(format);
  const std::uint32_t mask = bits == 32 ? ~std::uint32_t{0} : (std::uint32_t{1} << bits) - 1;
  std::vector<double> matrix(std::size_t(rows) * columns);
  for (int lane = 0; lane < 32; ++lane) {
    for (int reg = 0; reg < registers.count; ++reg) {
      for (int part = 0; part < 32 / bits; ++part) {
        const Coordinates at = element(format, lane, reg, part);
        matrix[std::size_t(at.row) * columns + at.column] =
            element_value(format, (registers.at(lane, reg) >> (part * bits)) & mask);
      }
    }
  }
  return matrix;
}

}  // namespace

void multiply_accumulate(std::span<const double> a, std::span<const double> b,
                         std::span<float> accumulators, int rows, int columns, int k) {
  std::vector<int> left(a.size()), right(b.size());
  std::ranges::transform(a, left.begin(), exponent_of);
  std::ranges::transform(b, right.begin(), exponent_of);
  std::vector<int> most(columns);
  std::vector<double> scale(columns), sums(columns);
  for (int row = 0; row < rows; ++row) {
    float* const targets = accumulators.data() + std::size_t(row) * columns;
    for (int column = 0; column < columns; ++column) most[column] = exponent_of(targets[column]);
    for (int i = 0; i < k; ++i) {
      const int own = left[std::size_t(row) * k + i];
      const int* others = right.data() + std::size_t(i) * columns;
      for (int column = 0; column < columns; ++column)
        most[column] = std::max(most[column], own + others[column]);
    }
    for (int column = 0; column < columns; ++column) {
      // A sum of nothing but zeros has no exponent.
      scale[column] = std::ldexp(1.0, kept_bits - std::max(most[column], least_exponent));
      sums[column] = aligned(targets[column] * scale[column]);
    }
    for (int i = 0; i < k; ++i) {
      const double own = a[std::size_t(row) * k + i];
      const double* others = b.data() + std::size_t(i) * columns;
      for (int column = 0; column < columns; ++column)
        sums[column] += aligned(own * others[column] * scale[column]);
    }
    for (int column = 0; column < columns; ++column)
      targets[column] =
          most[column] >= not_finite
              ? static_cast<float>(row_of_product(a, b, row, columns, k)[column] + targets[column])
              : toward_zero(sums[column] / scale[column]);
  }
}

void multiply_accumulate(std::span<const double> a, std::span<const double> b,
                         std::span<std::int32_t> accumulators, int rows, int columns, int k,
                         bool saturate) {
  using Limits = std::numeric_limits<std::int32_t>;
  for (int row = 0; row < rows; ++row) {
    const std::vector<double> sums = row_of_product(a, b, row, columns, k);
    for (int column = 0; column < columns; ++column) {
      std::int32_t& target = accumulators[std::size_t(row) * columns + column];
      const std::int64_t sum = static_cast<std::int64_t>(sums[column]) + target;
      target = static_cast<std::int32_t>(
          saturate ? std::clamp<std::int64_t>(sum, Limits::min(), Limits::max()) : sum);
    }
  }
}

int operand_a_registers(const MmaShape& shape) {
  return 16 * shape.k * element_bits(shape.a) / (32 * 32);
}
int operand_b_registers(const MmaShape& shape) {
  return 8 * shape.k * element_bits(shape.b) / (32 * 32);
}
int accumulator_registers(const MmaShape& shape) {
  return shape.accumulator == AccumulatorFormat::F16 ? 2 : 4;
}

WarpRegisters mma_sync(const MmaShape& shape, const WarpRegisters& a, const WarpRegisters& b,
                       const WarpRegisters& c) {
  internal_check(a.count == operand_a_registers(shape), "mma.sync: registers of A");
  internal_check(b.count == operand_b_registers(shape), "mma.sync: registers of B");
  internal_check(c.count == accumulator_registers(shape), "mma.sync: registers of C");
  const std::vector<double> left = gather(a, shape.a, 16, shape.k, operand_a_element);
  const std::vector<double> right = gather(b, shape.b, shape.k, 8, operand_b_element);
  WarpRegisters d(c.count);
  const auto each = [&](auto visit) {
    for (int lane = 0; lane < 32; ++lane) {
      for (int index = 0; index < 4; ++index) {
        const Coordinates at = accumulator_element(lane, index);
        visit(lane, index, std::size_t(at.row) * 8 + at.column);
      }
    }
  };
  switch (shape.accumulator) {
    case AccumulatorFormat::F32: {
      std::vector<float> sums(16 * 8);
      each([&](int lane, int index, std::size_t at) {
        sums[at] = std::bit_cast<float>(c.at(lane, index));
      });
      multiply_accumulate(left, right, sums, 16, 8, shape.k);
      each([&](int lane, int index, std::size_t at) {
        d.at(lane, index) = std::bit_cast<std::uint32_t>(sums[at]);
      });
      break;
    }
    case AccumulatorFormat::F16: {
      std::vector<float> sums(16 * 8);
      each([&](int lane, int index, std::size_t at) {
        sums[at] = ir::half_to_float(
            static_cast<std::uint16_t>(c.at(lane, index / 2) >> (index % 2 * 16)));
      });
      multiply_accumulate(left, right, sums, 16, 8, shape.k);
      each([&](int lane, int index, std::size_t at) {
        d.at(lane, index / 2) |= static_cast<std::uint32_t>(ir::float_to_half(sums[at]))
                                 << (index % 2 * 16);
      });
      break;
    }
    case AccumulatorFormat::S32: {
      std::vector<std::int32_t> sums(16 * 8);
      each([&](int lane, int index, std::size_t at) {
        sums[at] = static_cast<std::int32_t>(c.at(lane, index));
      });
      multiply_accumulate(left, right, sums, 16, 8, shape.k, shape.saturate);
      each([&](int lane, int index, std::size_t at) {
        d.at(lane, index) = static_cast<std::uint32_t>(sums[at]);
      });
      break;
    }
  }
  return d;
}

}  // namespace anydim::ptx
