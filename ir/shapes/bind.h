// Symbols of a function from the shapes of a call's inputs, and the messages where they don't fit.
// The evaluator and the runtime share them: a runtime that checks by compiled code comes here for
// the message when its check fails.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "ir/module.h"

namespace anydim::ir {

using SymbolValues = std::map<std::string, std::int64_t, std::less<>>;

struct InputShape {
  DType dtype = DType::F32;
  std::span<const std::int64_t> dims;
};

// Checks count, dtypes, ranks, dims, ranges and multiples of the inputs against the function's
// parameters, in their order. Throws Error{Inputs} naming input, dimension, symbol, expected and
// got, with the reason where inference narrowed the range.
SymbolValues bind_symbols(const Function& function, std::span<const InputShape> inputs);
SymbolValues bind_symbols(const Function& function, std::span<const Tensor> inputs);

// Messages of what kernels find out as they run. `what`: "gather index", or the op; `node`: its
// source in quotes, or %name of a result where it has none.
std::string node_name(const Function& function, const Binding& binding);
std::string index_out_of_range(const std::string& what, const std::string& node, std::int64_t index,
                               std::int64_t extent);
std::string division_by_zero(const std::string& what, const std::string& node);
std::string offsets_misfit(const std::string& what, const std::string& node, std::int64_t rows,
                           std::int64_t first);
std::string work_misfit(const std::string& what, const std::string& node, std::int64_t sequences,
                        std::int64_t place);
// A dimension that a check_shape demands, as violation() takes it: "check_shape '/f' (%y):
// dimension 0 (n) of parameter %p of @f".
std::string shape_check_text(const Function& function, const Binding& check, std::size_t dimension);
// What a bind binds, likewise: "bind '/count': c bound to %k".
std::string bind_text(const Function& function, const Binding& bind);
// A tensor in the message of a failed assert, with up to `shown_elements` elements from the first
// on, each a tensor of rank 0.
inline constexpr std::int64_t shown_elements = 8;
struct ShownTensor {
  std::string name;
  DType dtype = DType::F32;
  std::vector<std::int64_t> dims;
  std::vector<Tensor> first{};
};
std::string assertion_failed(const std::string& node, const std::string& message,
                             std::span<const ShownTensor> shown);
// `dims` without those whose element of `ones` is 1, as Op::drop_ones leaves them. Throws
// Error{Inputs}, which names the output, where one of these is not 1.
std::vector<std::int64_t> without_ones(std::string_view output, std::span<const std::int64_t> dims,
                                       std::span<const std::int64_t> ones);
std::string shape_text(DType dtype, std::span<const std::int64_t> dims);  // "f32 (2, 3)"

}  // namespace anydim::ir
