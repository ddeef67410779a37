#include "tests/ptx/units/matrix_rows.h"

#include <gtest/gtest.h>

#include "tests/ptx/units/fragment.h"

namespace anydim::ptx {
namespace {

MatrixRows numbered() {
  MatrixRows rows{};
  for (int row = 0; row < 8; ++row) {
    for (int column = 0; column < 8; ++column)
      rows[row][column] = static_cast<std::uint16_t>(8 * row + column);
  }
  return rows;
}

TEST(MatrixRows, LanesHoldPairsOfARow) {
  const LaneValues lanes = distribute_matrix(numbered(), false);
  for (std::uint32_t lane = 0; lane < 32; ++lane)
    EXPECT_EQ(lanes[lane], (2 * lane + 1) << 16 | 2 * lane);
}

TEST(MatrixRows, TransposedLanesHoldPairsOfAColumn) {
  const LaneValues lanes = distribute_matrix(numbered(), true);
  // Lane 6: column 1, rows 4 and 5.
  EXPECT_EQ(lanes[6], (8u * 5 + 1) << 16 | (8u * 4 + 1));
}

TEST(MatrixRows, StoringReversesLoading) {
  for (const bool transposed : {false, true})
    EXPECT_EQ(collect_matrix(distribute_matrix(numbered(), transposed), transposed), numbered());
}

TEST(MatrixRows, RowAddresses) {
  EXPECT_EQ(row_address_lane(0, 0), 0);
  EXPECT_EQ(row_address_lane(3, 7), 31);
}

// ldmatrix.x4 of row-major A (matrices: rows 0-7, rows 8-15, then the same of columns 8-15) gives
// mma's operand A, plain; .trans of row-major V (k x n) gives operand B.
TEST(MatrixRows, AgreesWithMmaOperands) {
  for (int lane = 0; lane < 32; ++lane) {
    for (int part = 0; part < 2; ++part) {
      for (int matrix = 0; matrix < 4; ++matrix) {
        const MatrixElement at = matrix_element(lane, part, false);
        const Coordinates expected = operand_a_element(ElementFormat::BF16, lane, matrix, part);
        EXPECT_EQ(at.row + 8 * (matrix % 2), expected.row);
        EXPECT_EQ(at.column + 8 * (matrix / 2), expected.column);
      }
      const MatrixElement at = matrix_element(lane, part, true);
      const Coordinates expected = operand_b_element(ElementFormat::BF16, lane, 0, part);
      EXPECT_EQ(at.row, expected.row);
      EXPECT_EQ(at.column, expected.column);
    }
  }
}

}  // namespace
}  // namespace anydim::ptx
