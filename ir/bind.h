// Symbols of a function from the shapes of a call's inputs, and the messages where they don't fit. The evaluator and the runtime share
// them: a runtime that checks by compiled code comes here for the message when its check fails.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>

#include "ir/module.h"

namespace anydim::ir {

using SymbolValues = std::map<std::string, std::int64_t, std::less<>>;

struct InputShape {
  DType dtype = DType::F32;
  std::span<const std::int64_t> dims;
};

// Checks count, dtypes, ranks, dims, ranges and multiples of the inputs against the function's parameters, in their order. Throws
// Error{Inputs} naming input, dimension, symbol, expected and got, with the reason where inference narrowed the range.
SymbolValues bind_symbols(const Function& function, std::span<const InputShape> inputs);
SymbolValues bind_symbols(const Function& function, std::span<const Tensor> inputs);

// Messages of checks that fail at run time; each is one sentence that starts with the node, as ir::describe gives it.
std::string index_out_of_range(const std::string& node, std::int64_t index, std::int64_t axis, std::int64_t extent);
std::string division_by_zero(const std::string& node);
// A value's dimension that a check_shape demands: `expected` holds where `demanded` is evaluated.
std::string shape_check_failed(const Function& function, const Binding& check, std::size_t dimension, std::int64_t expected,
                               std::int64_t got);
std::string shape_text(DType dtype, std::span<const std::int64_t> dims);  // "f32 (2, 3)"

}  // namespace anydim::ir
