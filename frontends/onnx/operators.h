// The table of ONNX operators (frontends/onnx_ops.def) as data.
#pragma once

#include <span>
#include <string_view>

#include "ir/type.h"

namespace anydim::frontends {

class Node;

inline constexpr int first_opset = 1;
inline constexpr int last_opset = 21;

// Sets of element types. Lists: any, and sequences and optionals beside tensors.
enum class Elements { Any, Number, Real, Integer, Boolean, Lists };

struct Operator {
  std::string_view name;
  int first_opset;
  int last_opset;
  int minimum_inputs;
  int maximum_inputs;   // -1: any number
  int maximum_outputs;  // -1: any number
  Elements elements;    // of the first input
  void (*import)(Node&);
};

std::span<const Operator> all_operators();
// Null where the table has no row for the name and opset.
const Operator* find_operator(std::string_view name, int opset);

bool contains(Elements elements, ir::DType dtype);
std::string_view name_of(Elements elements);

}  // namespace anydim::frontends
