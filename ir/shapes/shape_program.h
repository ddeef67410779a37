// All dim expressions available at one point of a program, evaluated together.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ir/dims/dim.h"

namespace anydim::ir {

struct ShapeProgram {
  std::vector<DimLeaf> leaves;   // inputs, in order
  std::vector<Dim> expressions;  // outputs, in order; mention only these leaves
};

// Straight-line code for a small register machine: common subexpressions once, checked 64-bit
// arithmetic. Made once, run per call. Sums are exact in 128 bits and fail where the result leaves
// 64; a product also fails where all but its last factor leave 64. Of select and broadcast only the
// chosen operand may fail the expression.
class ShapeInterpreter {
 public:
  explicit ShapeInterpreter(const ShapeProgram& program);
  // leaves.size() values in, expressions.size() values out. Returns -1, or the index of the first
  // expression that overflowed or divided by zero (values from there on are not set).
  std::int32_t run(std::span<const std::int64_t> leaves, std::span<std::int64_t> values) const;

 private:
  struct Instruction {
    Dim::Kind kind{};
    Comparison comparison{};
    std::int32_t a = -1, b = -1, c = -1,
                 d = -1;  // registers; leaf: its position; sum: first term and number of terms
    std::int64_t constant = 0;  // of a constant or a sum
  };
  struct Term {
    std::int64_t coefficient = 1;
    std::int32_t first = 0, count = 0;  // of factors_
  };
  struct Register {  // trivial: a run sets those that it reads, and no others
    std::int64_t value;
    bool failed;
  };

  std::int32_t add(const ShapeProgram& program, const Dim& dim, std::map<Dim, std::int32_t>& known);
  Register execute(const Instruction& instruction, std::span<const std::int64_t> leaves,
                   const Register* registers) const;
  Register sum(const Instruction& instruction, const Register* registers) const;

  std::vector<Instruction> instructions_;  // instruction i sets register i
  std::vector<Term> terms_;
  std::vector<std::int32_t> factors_;  // registers
  std::vector<std::int32_t> outputs_;  // registers
  std::vector<std::int32_t> ready_;    // instructions to run before output i is known
};

}  // namespace anydim::ir
