#include "tests/ptx/units/matrix_rows.h"

namespace anydim::ptx {

LaneValues distribute_matrix(const MatrixRows& rows, bool transposed) {
  LaneValues registers{};
  for (int lane = 0; lane < 32; ++lane) {
    for (int part = 0; part < 2; ++part) {
      const MatrixElement at = matrix_element(lane, part, transposed);
      registers[lane] |= static_cast<std::uint32_t>(rows[at.row][at.column]) << (16 * part);
    }
  }
  return registers;
}

MatrixRows collect_matrix(const LaneValues& registers, bool transposed) {
  MatrixRows rows{};
  for (int lane = 0; lane < 32; ++lane) {
    for (int part = 0; part < 2; ++part) {
      const MatrixElement at = matrix_element(lane, part, transposed);
      rows[at.row][at.column] = static_cast<std::uint16_t>(registers[lane] >> (16 * part));
    }
  }
  return rows;
}

}  // namespace anydim::ptx
