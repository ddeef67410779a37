// Scalar steps whose value is known as an index expression or a truth value, computed while a
// program is built.
#pragma once

#include <optional>
#include <span>
#include <variant>

#include "ir/dims/symbols.h"
#include "ir/loops/loop_form.h"

namespace anydim::ir {

// The i64 value of a step as a dim: extents and integer constants.
std::optional<Dim> known_integer(const ScalarStep& step);
// Whether a divisor is known not to be 0.
bool is_never_zero(const ScalarStep& step, const SymbolTable& symbols);
// The truth value of a bool constant.
std::optional<bool> known_bool(const ScalarStep& step);

// What an elementwise op on known operands is: a dim (an i64 result), a truth value, a float, or
// one of the operands as it is.
struct Forwarded {
  std::size_t operand;
};
using Simplified = std::variant<std::monostate, Dim, bool, double, Forwarded>;
// `operands` are the steps it reads; `to` is the result's dtype.
Simplified simplify_step(Op op, DType to, std::span<const ScalarStep* const> operands,
                         const SymbolTable& symbols);

}  // namespace anydim::ir
