// libm entry points that kernels call through their arguments: a kernel blob has no unresolved symbols. Used where a vectorised
// implementation isn't worth its code: f64 functions and rarely used f32 ones.
#pragma once

namespace anydim::ir {

struct HostFunctions {
  // In this order; kernels index the struct as an array of pointers. One operand: double -> double.
  double (*exp)(double);
  double (*log)(double);
  double (*sin)(double);
  double (*cos)(double);
  double (*tan)(double);
  double (*asin)(double);
  double (*acos)(double);
  double (*atan)(double);
  double (*sinh)(double);
  double (*cosh)(double);
  double (*asinh)(double);
  double (*acosh)(double);
  double (*atanh)(double);
  double (*tanh)(double);
  double (*erf)(double);
  // Two operands.
  double (*pow)(double, double);
  double (*fmod)(double, double);
};

HostFunctions host_functions();  // this process's libm

}  // namespace anydim::ir
