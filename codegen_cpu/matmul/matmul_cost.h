// A model of a matmul's time, fitted to measurements (see the constants in matmul_cost.cpp).
#pragma once

#include <cstdint>

#include "codegen_cpu/matmul/matmul_operands.h"
#include "codegen_cpu/matmul/matmul_schedule.h"
#include "codegen_cpu/matmul/windowed_rows.h"
#include "codegen_cpu/target.h"

namespace anydim::codegen_cpu {

// Lines that lie `stride` bytes apart share a set of the first-level cache (64 sets of 64 bytes, 8
// ways) where the stride is a multiple of all sets' bytes, or of a large part of them. Rows that
// fit, beside the right operand's panels.
double rows_without_conflict(std::int64_t stride);

struct MatmulExtents {
  std::int64_t batch = 1, rows = 0, columns = 0, depth = 0;
};

class MatmulCost {
 public:
  // `shared`: of the left operand where it is packed.
  MatmulCost(const Target& target, const ir::MatmulForm& form, const LikelyOperands& operands,
             const SharedRows& shared);
  static double tasks(const MatmulSchedule& schedule, const MatmulExtents& extents);
  // What the busiest of so many threads computes in one launch.
  double seconds(const MatmulSchedule& schedule, const MatmulExtents& extents, int threads) const;

 private:
  double task_cycles(const MatmulSchedule& schedule, const MatmulExtents& extents, double task_rows,
                     double task_columns, int threads) const;
  double pack_rows_cycles(const MatmulSchedule& schedule, double task_rows, double steps) const;

  std::int64_t lanes_, panel_;
  double gates_;            // products that each result is made of
  double step_depths_;      // depths in a step
  double left_bytes_;       // of a step of a row, as it is packed
  double result_bytes_;     // of a result
  double step_bytes_;       // of a step of a column
  double multiply_cycles_;  // of a step of a vector
  // In a step, of a vector of the right operand and of a broadcast one of the left.
  double unpack_right_cycles_, unpack_left_cycles_;
  double epilogue_cycles_;   // of a vector's epilogue
  double conflicting_rows_;  // more of them than this, read in place, put each other's lines out of
                             // the first-level cache
  SharedRows shared_;
  bool left_in_place_, left_panels_, weight_, turned_results_;
};

}  // namespace anydim::codegen_cpu
