// Loop variables taken apart: the program over digits says what it said before, at every point.
#include "ir/loops/digits.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>

namespace anydim::ir {
namespace {

const DimLeaf variable = loop_leaf(LoopRole::Contracted);

ScalarProgram load_at(std::vector<Dim> index) {
  ScalarProgram program;
  program.steps.push_back({DType::F32, step::Load{0, std::move(index)}});
  return program;
}

const std::vector<Dim>& index_of(const ScalarProgram& program) {
  return program.steps[0].as<step::Load>().index;
}

SymbolTable symbols_below(const Dim& extent) {
  SymbolTable symbols;
  SymbolInfo width;
  width.high = 100;
  symbols.declare("w", width);
  SymbolInfo info;
  info.below = extent;
  symbols.declare(variable, info);
  return symbols;
}

Digits taken_apart(const ScalarProgram& program, const Dim& extent, SymbolTable& symbols) {
  std::int64_t made = 0;
  const auto fresh = [&] { return loop_leaf(LoopRole::Made, made++); };
  return split({variable, extent}, digit_extents(program, variable, symbols), fresh, symbols);
}

TEST(Digits, OfAConstantDepth) {
  const Dim k = Dim::of(variable);
  const ScalarProgram program =
      load_at({floor_div(k, 6), mod(floor_div(k, 3), 2) + 5, 2 * mod(k, 3) - 1});
  SymbolTable symbols = symbols_below(24);
  EXPECT_EQ(digit_extents(program, variable, symbols), (std::vector<Dim>{3, 6}));
  const Digits digits = taken_apart(program, 24, symbols);
  ASSERT_EQ(digits.digits.size(), 3u);
  EXPECT_EQ(digits.digits[0].extent, Dim(4));
  EXPECT_EQ(digits.digits[1].extent, Dim(2));
  EXPECT_EQ(digits.digits[2].extent, Dim(3));
  const ScalarProgram over = over_digits(program, digits, symbols);
  EXPECT_EQ(index_of(over)[0], digits.digits[0].index());
  EXPECT_EQ(index_of(over)[1], digits.digits[1].index() + 5);
  EXPECT_EQ(index_of(over)[2], 2 * digits.digits[2].index() - 1);
}

// An extent of which nothing says that it is more than 0; what else mentions the variable, in every
// form of a dim.
TEST(Digits, OfAnUnknownExtent) {
  const Dim n = Dim::of(variable), w = Dim::symbol("w"), rows = floor_div(n, w),
            columns = mod(n, w);
  const std::vector<Dim> index{2 * rows + 1,
                               columns * columns,
                               min(columns, 3),
                               max(rows, n),
                               n + 7,
                               select(Comparison::Less, columns, 2, rows, columns),
                               floor_div(n, 2 * w),
                               mod(columns, 4)};
  const ScalarProgram program = load_at(index);
  SymbolTable symbols = symbols_below(w * 5);
  ScalarProgram plain = load_at({rows, columns});
  ASSERT_EQ(digit_extents(plain, variable, symbols), std::vector<Dim>{w});
  const Digits digits = taken_apart(plain, w * 5, symbols);
  const ScalarProgram over = over_digits(program, digits, symbols);
  for (const std::int64_t width : {1, 3, 8}) {
    for (std::int64_t at = 0; at < 5 * width; ++at) {
      const auto value = [&](const DimLeaf& leaf) -> std::int64_t {
        if (leaf.is_symbol()) return width;
        if (leaf == variable) return at;
        return leaf == digits.digits[0].variable ? at / width : at % width;
      };
      for (std::size_t i = 0; i < index.size(); ++i)
        EXPECT_EQ(index_of(over)[i].evaluate(value), index[i].evaluate(value)) << i;
    }
  }
}

TEST(Digits, WhereThereAreNone) {
  const Dim k = Dim::of(variable);
  const SymbolTable symbols = symbols_below(24);
  EXPECT_TRUE(digit_extents(load_at({k, 2 * k + 1}), variable, symbols).empty());
  // Two extents of which neither divides the other.
  EXPECT_TRUE(digit_extents(load_at({mod(k, 4), mod(k, 6)}), variable, symbols).empty());
}

}  // namespace
}  // namespace anydim::ir
