#include "frontends/onnx.h"

#include "frontends/external_data.h"
#include "frontends/file_mapping.h"
#include "frontends/onnx/functions.h"
#include "frontends/onnx/graph.h"
#include "frontends/onnx/parse.h"
#include "frontends/onnx/unsupported.h"
#include "frontends/sizes.h"
#include "ir/error.h"

namespace anydim::frontends {

namespace {

ir::Module import_model(onnx::ModelProto model, const std::optional<std::filesystem::path>& folder) {
  if (!model.has_graph()) throw Error(ErrorKind::Malformed, "the model has no graph");
  const Opsets opsets = opsets_of(model);
  inline_functions(model);
  ExternalData external(folder);
  ir::Module module;
  module.functions.push_back(import_graph(*model.mutable_graph(), opsets, external));
  return module;
}

}  // namespace

ir::Module read_onnx(const std::filesystem::path& file) {
  // The mapping goes as soon as the messages are parsed: what the module keeps of them was moved or lies in other files.
  onnx::ModelProto model = parse_model(map_file(file)->bytes(), "model " + quoted_name(file.string()));
  return import_model(std::move(model), file.parent_path());
}

ir::Module read_onnx(std::span<const std::byte> bytes, const std::optional<std::filesystem::path>& folder) {
  return import_model(parse_model(bytes, "the model"), folder);
}

}  // namespace anydim::frontends
