#include "tools/call_inputs.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "api/npy.h"

namespace anydim::tools {

NamedTensors read_inputs(const std::vector<std::string>& arguments) {
  std::map<std::string, std::filesystem::path> files;
  for (const std::string& argument : arguments) {
    const std::size_t equals = argument.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == argument.size()) {
      throw Error(ErrorKind::CommandLine, "--input {} is not NAME=FILE.npy or NAME=FILE.pb",
                  argument);
    }
    const std::string name = argument.substr(0, equals);
    if (!files.emplace(name, argument.substr(equals + 1)).second) {
      throw Error(ErrorKind::CommandLine, "--input gives '{}' twice", name);
    }
  }
  NamedTensors tensors;
  for (const auto& [name, file] : files)
    tensors.emplace(name, file.extension() == ".pb" ? load_onnx_tensor(file) : read_npy(file));
  return tensors;
}

void add_shape_option(CLI::App& command, std::vector<std::string>& shapes) {
  command.add_option("--shape", shapes, "extents of an input: NAME=2x7 (repeatable)")
      ->allow_extra_args(false);
}

void add_call_options(CLI::App& command, CallOptions& options) {
  add_shape_option(command, options.shapes);
  command
      .add_option(
          "--input", options.inputs,
          "an input's numbers: NAME=FILE.npy, or FILE.pb with an ONNX TensorProto (repeatable)")
      ->allow_extra_args(false);
}

GivenCall::GivenCall(const CallOptions& options, const ir::Module& module, std::string_view command)
    : command_(command), given_(read_inputs(options.inputs)), samples_(module) {
  for (const std::string& shape : options.shapes) shapes_.push_back(parse_input_shape(shape));
  const std::vector<InputInfo> inputs = inputs_of(module.functions.at(0));
  for (const auto& [name, tensor] : given_) {
    if (std::ranges::any_of(shapes_, [&](const InputShape& shape) { return shape.input == name; }))
      throw Error(ErrorKind::CommandLine, "'{}' is given by --shape and by --input: leave one out",
                  ir::printable(name));
    const auto input = std::ranges::find(inputs, name, &InputInfo::name);
    const bool known =
        input != inputs.end() && !input->any_shape && input->dims.size() == tensor.dims().size();
    if (known) shapes_.push_back({name, {tensor.dims().begin(), tensor.dims().end()}});
  }
  ir::Module checked = module;  // names, ranks and contradictions, with messages
  fix_shapes(checked, shapes_);
}

std::map<std::string, std::int64_t> GivenCall::symbols(const std::vector<InputInfo>& inputs) const {
  std::map<std::string, std::int64_t> symbols;
  for (const InputShape& shape : shapes_) {
    for (const InputInfo& input : inputs) {
      for (std::size_t i = 0;
           input.name == shape.input && i < std::min(input.dims.size(), shape.dims.size()); ++i) {
        if (shape.dims[i] && input.dims[i].kind() == ir::Dim::Kind::Symbol)
          symbols.emplace(input.dims[i].leaf().symbol, *shape.dims[i]);
      }
    }
  }
  return symbols;
}

std::vector<std::vector<std::int64_t>> GivenCall::extents(
    const std::vector<InputInfo>& inputs) const {
  const std::map<std::string, std::int64_t> known = symbols(inputs);
  std::vector<std::vector<std::int64_t>> extents;
  for (const InputInfo& input : inputs) {
    std::vector<std::int64_t>& dims = extents.emplace_back();
    const auto shape = std::ranges::find(shapes_, input.name, &InputShape::input);
    for (const ir::Dim& dim : input.dims) {
      if (shape != shapes_.end() && shape->dims.at(dims.size())) {
        dims.push_back(*shape->dims[dims.size()]);
        continue;
      }
      dims.push_back(dim.evaluate([&](const ir::DimLeaf& leaf) {
        const auto found = known.find(leaf.symbol);
        if (found == known.end()) {
          throw Error(ErrorKind::CommandLine,
                      "{} needs a number for '{}' of input {}; give it with --shape {}=...",
                      command_, leaf.symbol, to_string(input), input.name);
        }
        return found->second;
      }));
    }
  }
  return extents;
}

const Model& GivenCall::serving(const Model& model) const {
  return model.equal_dims().hold(extents(model.inputs())) ? model : *model.general();
}

std::vector<std::vector<std::int64_t>> GivenCall::extents(const Model& model) const {
  return extents(serving(model).inputs());
}

std::vector<ir::Tensor> GivenCall::tensors(const Model& served) const {
  const Model& model = serving(served);
  static_cast<void>(extents(model.inputs()));  // which names what is missing
  const std::map<std::string, std::int64_t> known = symbols(model.inputs());
  tuner::Call call;
  for (const std::string& symbol : shape_of(model).symbol_names())
    call.values.push_back(known.at(symbol));
  std::vector<ir::Tensor> made = samples_.make(model, call);
  NamedTensors named = given_;
  for (std::size_t i = 0; i < made.size(); ++i)
    named.emplace(model.inputs()[i].name, std::move(made[i]));
  return arrange_inputs(model.inputs(), named);
}

}  // namespace anydim::tools
