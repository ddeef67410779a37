#include "frontends/onnx.h"

#include "frontends/external_data.h"
#include "frontends/file_mapping.h"
#include "frontends/onnx/functions.h"
#include "frontends/onnx/graph.h"
#include "frontends/onnx/node_order.h"
#include "frontends/onnx/parse.h"
#include "frontends/onnx/unsupported.h"
#include "frontends/onnx/weights_apart.h"
#include "frontends/sizes.h"
#include "ir/error.h"

namespace anydim::frontends {

namespace {

ir::Module import_model(onnx::ModelProto model, const std::optional<std::filesystem::path>& folder,
                        const WeightsApart& weights = {}) {
  if (!model.has_graph()) throw Error(ErrorKind::Malformed, "the model has no graph");
  Opsets opsets = opsets_of(model);
  inline_functions(model, opsets);
  check_standard_named(model, opsets);
  order_nodes(*model.mutable_graph());
  ExternalData external(folder);
  ir::Module module;
  module.functions.push_back(import_graph(*model.mutable_graph(), opsets, external, weights));
  return module;
}

}  // namespace

ir::Module read_onnx(const std::filesystem::path& file) {
  const std::string name = "model " + quoted_name(file.string());
  WeightsApart weights{.file = std::make_shared<const ModelFile>(open_file(file), name),
                       .places = {}};
  onnx::ModelProto model;
  {
    // The mapping goes as soon as the messages are parsed: what the module keeps of them was moved,
    // is read later or lies in other files.
    const FileMapping mapping(weights.file->descriptor(), file);
    if (auto left = leave_weights(mapping.bytes()); left && !left->weights.empty()) {
      model = parse_model(std::as_bytes(std::span(left->model)), name);
      weights.places = std::move(left->weights);
    } else {
      model = parse_model(mapping.bytes(), name);
    }
  }
  return import_model(std::move(model), file.parent_path(), weights);
}

ir::Module read_onnx(std::span<const std::byte> bytes,
                     const std::optional<std::filesystem::path>& folder) {
  return import_model(parse_model(bytes, "the model"), folder);
}

}  // namespace anydim::frontends
