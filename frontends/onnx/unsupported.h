// Everything in a model that Anydim cannot compile, said at once.
#pragma once

#include <cstdint>
#include <string_view>

#include "frontends/onnx/operators.h"

namespace onnx {
class GraphProto;
class ModelProto;
class OperatorSetIdProto;
}  // namespace onnx

namespace anydim::frontends {

// The versions of the domains that the model names. Throws Error{Unsupported} where that of the
// standard domain is outside first_opset..last_opset, Error{Malformed} where it names two.
Opsets opsets_of(const onnx::ModelProto& model);

int version_of(const onnx::OperatorSetIdProto& import);

// Throws Error{Unsupported} where that version of the standard domain, which `user` names, is
// outside first_opset..last_opset.
void check_opset(std::string_view user, std::int64_t opset);

// Of a model whose functions are in place: throws Error{Malformed} where it uses the standard
// domain and names no version of it.
void check_standard_named(const onnx::ModelProto& model, const Opsets& opsets);

// Throws Error{Unsupported} listing every operator that the tables of frontends lack, with the
// number of its nodes and the first one's name.
void refuse_unsupported(const onnx::GraphProto& graph, const Opsets& opsets);

}  // namespace anydim::frontends
