// The ONNX reader: a model becomes a module whose entry is @main.
//
// Graph inputs become parameters, initialisers constant bindings, outputs named results. Opsets 1
// to 28 of the ai.onnx domain; which ops: frontends/onnx_ops.def, of other domains
// frontends/onnx_domain_ops.def. Values are given element types only: ops that decide shapes come
// out as their dynamic twins. A named dim becomes a symbol of the same name (characters outside
// [A-Za-z0-9_] become '_'), a dim without name or value an unbacked symbol, and values other than
// parameters have no type until inference. Binding::source is the node's name ("Add #12" where it
// has none).
//
// Errors: Error{Malformed} where the bytes are no model or contradict themselves,
// Error{Unsupported} where the model is fine but uses what Anydim does not compile; both name the
// node or tensor. No input makes the reader crash, or allocate more than a small multiple of the
// input's own size.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>

#include "ir/module.h"

namespace anydim::frontends {

// Reads a file; data files beside it are mapped into memory, not copied
// (frontends/external_data.h), and stay mapped as long as a tensor of the module refers to them.
ir::Module read_onnx(const std::filesystem::path& file);

// Reads bytes, which are not needed afterwards. Data files are looked for in `folder`; without one,
// a model that needs any is refused.
ir::Module read_onnx(std::span<const std::byte> bytes,
                     const std::optional<std::filesystem::path>& folder = std::nullopt);

}  // namespace anydim::frontends
