// Ranges of steps hold what the evaluator computes at every point of their operands' ranges, in
// every dtype.
#include "ir/loops/value_range.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ir/loops/scalar_program.h"
#include "ir/ops.h"
#include "ir/reference/evaluate.h"

namespace anydim::ir {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

ScalarStep applied(Op op, DType dtype, std::size_t operands) {
  ScalarStep step{dtype, step::Apply{op}};
  for (std::size_t i = 0; i < operands; ++i) step.operands.push_back(static_cast<std::int32_t>(i));
  return step;
}

ValueRange range_of(Op op, DType dtype, const std::vector<OperandRange>& operands) {
  return range_of_step(applied(op, dtype, operands.size()), operands, SymbolTable{});
}

TEST(ValueRange, IntegersThatMayWrapMayBeAnything) {
  const OperandRange byte{{100, 200, false}, DType::U8};
  EXPECT_EQ(range_of(Op::add, DType::U8, {byte, byte}), every_value(DType::U8));
  EXPECT_EQ(range_of(Op::sub, DType::U8, {byte, {{0, 100, false}, DType::U8}}),
            (ValueRange{0, 200, false}));
  const OperandRange large{{0, 0x1p40, false}, DType::I64};
  EXPECT_EQ(range_of(Op::mul, DType::I64, {large, large}), every_value(DType::I64));
  EXPECT_EQ(range_of(Op::cast, DType::I32, {large}), every_value(DType::I32));
  EXPECT_EQ(range_of(Op::cast, DType::I64, {byte}), byte.range);
}

TEST(ValueRange, BitsOfAnotherDtypeMayBeAnything) {
  EXPECT_EQ(range_of(Op::bitcast, DType::I32, {{{0, 1, false}, DType::F32}}),
            every_value(DType::I32));
  EXPECT_EQ(range_of(Op::bitcast, DType::F32, {{{0, 1, false}, DType::I32}}),
            every_value(DType::F32));
}

TEST(ValueRange, InfinitiesTimesZeroMayBeAnything) {
  const OperandRange zero_to_one{{0, 1, false}, DType::F32},
      unbounded{{1, infinity, false}, DType::F32};
  EXPECT_EQ(range_of(Op::mul, DType::F32, {zero_to_one, unbounded}), every_value(DType::F32));
  EXPECT_EQ(range_of(Op::div, DType::F32, {unbounded, zero_to_one}), every_value(DType::F32));
  EXPECT_EQ(range_of(Op::add, DType::F32, {unbounded, unbounded}),
            (ValueRange{2, infinity, false}));
}

TEST(ValueRange, RoundsAsTheDtypeDoes) {
  const OperandRange tiny{{0, 1e-9, false}, DType::F32};
  EXPECT_EQ(range_of(Op::cast, DType::F16, {tiny}), (ValueRange{0, 0, false}));
  const OperandRange much{{1e8, 1e8, false}, DType::F32}, one{{0, 1, false}, DType::F32};
  EXPECT_EQ(range_of(Op::add, DType::F32, {much, one}), much.range);
}

// Points of the operands' ranges, by the evaluator.
TEST(ValueRange, HoldsEveryPoint) {
  const std::vector<std::pair<double, double>> reals{
      {-3, 4}, {0, 2.5}, {0.5, 0.75}, {-8, -0.5}, {1, 1}};
  const std::vector<std::pair<double, double>> integers{{0, 1}, {2, 100}, {1, 7}};
  std::size_t points = 0;
  for (const DType dtype : {DType::F64, DType::F32, DType::F16, DType::BF16, DType::I64, DType::I8,
                            DType::U8, DType::U64}) {
    const auto& intervals = is_float(dtype) ? reals : integers;
    for (const OpInfo& op : all_ops()) {
      if (!op.has(traits::elementwise) || op.op == Op::cast || op.op == Op::bitcast ||
          op.op == Op::where || op.has(traits::logical))
        continue;
      const bool of_integers = op.text.starts_with("bit_") || op.text.starts_with("shift_");
      const bool of_both = op.minimum_operands == 2 || op.op == Op::abs || op.op == Op::neg ||
                           op.op == Op::sign || op.op == Op::relu;
      if (is_float(dtype) ? of_integers : !of_integers && !of_both) continue;
      const auto count = static_cast<std::size_t>(op.minimum_operands);
      for (const auto& a : intervals) {
        for (const auto& b : intervals) {
          const ScalarStep step =
              applied(op.op, op.has(traits::compares) ? DType::Bool : dtype, count);
          std::vector<OperandRange> operands{{{a.first, a.second, false}, dtype}};
          if (count == 2) operands.push_back({{b.first, b.second, false}, dtype});
          const ValueRange range = range_of_step(step, operands, SymbolTable{});
          for (int i = 0; i <= 6; ++i) {
            for (int j = 0; j <= (count == 2 ? 6 : 0); ++j) {
              std::vector<Tensor> numbers(count, Tensor(dtype, {}));
              const double values[] = {a.first + (a.second - a.first) * i / 6,
                                       b.first + (b.second - b.first) * j / 6};
              for (std::size_t n = 0; n < count; ++n) {
                numbers[n] = Tensor(dtype, {});
                if (is_float(dtype)) numbers[n].set_real(0, values[n]);
                else numbers[n].set_integer(0, static_cast<std::int64_t>(values[n]));
              }
              const auto result = apply_elementwise(scalar_op(step), dtype, numbers);
              if (!result) continue;
              const bool is_unsigned = result->dtype() == DType::U64;
              const double value =
                  is_float(result->dtype()) ? result->real_at(0)
                  : is_unsigned
                      ? static_cast<double>(static_cast<std::uint64_t>(result->integer_at(0)))
                      : static_cast<double>(result->integer_at(0));
              const bool holds =
                  std::isnan(value) ? range.nan : value >= range.low && value <= range.high;
              EXPECT_TRUE(holds) << op.text << " of " << values[0] << ", " << values[1] << " in "
                                 << name_of(dtype) << " is " << value << ", not in [" << range.low
                                 << ", " << range.high << "]";
              ++points;
            }
          }
        }
      }
    }
  }
  EXPECT_GT(points, 50000u);
}

}  // namespace
}  // namespace anydim::ir
