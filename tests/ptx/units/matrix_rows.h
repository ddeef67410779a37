// ldmatrix and stmatrix: 8 x 8 matrices of 16-bit elements between shared memory and the registers
// of one warp.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace anydim::ptx {

inline constexpr int matrix_row_bytes = 16;

// Matrix `matrix`'s row `row` is addressed by this lane.
constexpr int row_address_lane(int matrix, int row) { return 8 * matrix + row; }

// Element `part` (0 low, 1 high) of a lane's register: row lane / 4, column 2 (lane % 4) + part;
// rows and columns exchanged when `transposed`.
struct MatrixElement {
  int row = 0;
  int column = 0;
};
constexpr MatrixElement matrix_element(int lane, int part, bool transposed) {
  const MatrixElement plain{lane / 4, 2 * (lane % 4) + part};
  return transposed ? MatrixElement{plain.column, plain.row} : plain;
}

// [row][column] as the rows lie in memory
using MatrixRows = std::array<std::array<std::uint16_t, 8>, 8>;
using LaneValues = std::array<std::uint32_t, 32>;

// One matrix as the 32 registers that ldmatrix gives, and back as stmatrix writes it.
LaneValues distribute_matrix(const MatrixRows& rows, bool transposed);
MatrixRows collect_matrix(const LaneValues& registers, bool transposed);

}  // namespace anydim::ptx
