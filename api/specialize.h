// A loaded module made narrower before it is compiled.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/options.h"
#include "ir/module.h"
#include "ir/tensor.h"

namespace anydim {

// An input's extents; an absent one stays as the model has it.
struct InputShape {
  std::string input;
  std::vector<std::optional<std::int64_t>> dims;
};
// "NAME=2x?x7"; "NAME=" for rank 0. Throws Error{CommandLine}.
InputShape parse_input_shape(std::string_view text);

// Narrows symbols of the entry function. Throws Error{CommandLine} naming the symbols that there
// are, or the range that is empty.
void narrow_dims(ir::Module& module, const std::vector<DimRange>& ranges);
// Replaces the symbols of these inputs' dims by numbers throughout the entry function. Throws
// Error{CommandLine} for an unknown input or another rank, Error{Inputs} where a number contradicts
// the model or another shape.
void fix_shapes(ir::Module& module, const std::vector<InputShape>& shapes);
// The same for the shapes of a call's inputs, in the order of the entry's parameters. Throws
// Error{Inputs} where they don't fit, as the call would.
void fix_shapes(ir::Module& module, const std::vector<ir::Tensor>& inputs);
// Parameters of the entry that nothing reads and whose dims are constants take any shape, as they
// do in a program (runtime/input_binding.h): they get that of these inputs.
void release_unread(ir::Module& module, const std::vector<ir::Tensor>& inputs);

}  // namespace anydim
