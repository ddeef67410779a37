// The functions that turn one node into bindings, import_NAME for each importer that
// frontends/onnx_ops.def and onnx_domain_ops.def name, a file a family of operators. Each reads the
// node's operands and attributes, emits bindings and gives the outputs; what a row already states
// (counts of inputs and outputs, element types of the first input) has been checked.
#pragma once

#include "frontends/onnx/node.h"

namespace anydim::frontends {

// What real numbers of a type are computed in where 16 bits are too few.
inline ir::DType computed_in(ir::DType dtype) {
  return dtype == ir::DType::F64 ? ir::DType::F64 : ir::DType::F32;
}

#define ANYDIM_ONNX_OP(name, first, last, fewest_inputs, most_inputs, most_outputs, elements, \
                       importer, ...)                                                         \
  void import_##importer(Node& node __VA_OPT__(, ir::Op op));
#define ANYDIM_ONNX_DOMAIN_OP(domain, ...) ANYDIM_ONNX_OP(__VA_ARGS__)
#include "frontends/onnx_domain_ops.def"
#include "frontends/onnx_ops.def"
#undef ANYDIM_ONNX_DOMAIN_OP
#undef ANYDIM_ONNX_OP

}  // namespace anydim::frontends
