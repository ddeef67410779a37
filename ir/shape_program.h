// All dim expressions available at one point of a program, evaluated together.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/dim.h"

namespace anydim::ir {

struct ShapeProgram {
  std::vector<DimLeaf> leaves;      // inputs, in order
  std::vector<Dim> expressions;     // outputs, in order; mention only these leaves
};

// Straight-line code for a small register machine: common subexpressions once, checked 64-bit arithmetic. Made once, run per call.
class ShapeInterpreter {
 public:
  explicit ShapeInterpreter(const ShapeProgram& program);
  // leaves.size() values in, expressions.size() values out. Returns -1, or the index of the first expression that overflowed
  // or divided by zero (values from there on are not set).
  std::int32_t run(std::span<const std::int64_t> leaves, std::span<std::int64_t> values) const;

 private:
  struct Instruction {
    Dim::Kind kind;                  // Sum stands for add and multiply, told apart by `multiply`
    bool multiply = false;
    Comparison comparison{};
    std::int32_t a = -1, b = -1, c = -1, d = -1;   // registers
    std::int64_t constant = 0;
    std::int32_t expression = -1;    // first expression that needs it, for the failure report
  };
  std::vector<Instruction> instructions_;
  std::vector<std::int32_t> outputs_;
  std::size_t leaf_count_ = 0;
};

}  // namespace anydim::ir
