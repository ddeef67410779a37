// Infers the types of every value of a module from its parameters.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/shapes/shape_rule.h"

namespace anydim::ir {

// A precondition that ranges neither prove nor refute: to be checked at run time.
struct Requirement {
  Precondition precondition;
  std::string source;        // "add '/bert/Add_1' (%y)"
  ValueId value = no_value;  // the first result of the binding that demands it, which the check
                             // must precede; none for a bind
  // A call's operand and the axis of it that must be what the callee's parameter says; else -1.
  std::int32_t argument = -1;
  std::int32_t axis = -1;
};

struct FunctionInference {
  std::vector<ShapeData> shape_data;      // indexed by ValueId
  std::vector<Requirement> requirements;  // in program order, each precondition once in every block
                                          // that relies on it and those around it
  std::map<std::string, Dim> named_elements;  // symbols that extents which are elements of tensors
                                              // were bound to
};

// A type that the module declares of a value (Value::declared) is proven, and nothing comes of it;
// refuted, an Error{Malformed} that names both types and the node, or for a hint a warning; or
// neither: then the value has the declared type, and a check_shape after its binding holds it to
// that when it runs. Extents inside of lists, tuples and functions are not demanded, nor is a `?`.
struct InferenceResult {
  std::vector<FunctionInference> functions;  // as Module::functions
  std::vector<FunctionInference> regions;    // as Module::regions
  std::vector<std::string> warnings;         // hints that are wrong
};

// Writes the type of every value that is not a parameter of a function or region (block parameters
// included) and narrows the ranges of parameter symbols where code that always runs demands it,
// keeping the reason. A dim that leaves its scope (join of branches, loop carry, result of a call)
// becomes a fresh unbacked symbol. Recursive functions need declared result types. A sealed region
// whose types change is sealed anew. Throws what shape rules throw, and Error{Malformed} with the
// operands' types where a precondition is provably false.
InferenceResult infer_types(Module& module);

// Terms and operands of a size that others are computed from; a larger one is bound to a symbol.
inline constexpr std::uint32_t largest_carried_size = 120;

// Shape rules follow numbers through vectors; shapes and paddings that exporters turn about as
// small matrices are computed: what an op gives that moves a few integers, all of them known or
// expressions. `result` is its type by the shape rule.
struct MovedElements {
  std::optional<Tensor> numbers;  // where all of them are known
  ShapeData elements;
};
MovedElements moved_elements(const Function& function, const Binding& binding,
                             const TensorType& result, std::span<const OperandFacts> facts);
// Dims that are all constants, as numbers.
std::vector<std::int64_t> constant_extents(const std::vector<Dim>& dims);

}  // namespace anydim::ir
