#include "api/inputs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <random>
#include <set>

#include "ir/error.h"
#include "ir/printable.h"
#include "ir/random_seed.h"
#include "ir/shapes/bind.h"
#include "runtime/input_binding.h"

namespace anydim {

namespace {

std::string listed(const std::vector<InputInfo>& inputs) {
  std::vector<std::string> texts;
  for (const InputInfo& input : inputs) texts.push_back(to_string(input));
  return texts.empty() ? "none" : fmt::format("{}", fmt::join(texts, "; "));
}

void collect_read(const ir::Block& block, std::set<ir::ValueId>& read) {
  for (const ir::Binding& binding : block.bindings) {
    read.insert(binding.operands.begin(), binding.operands.end());
    for (const ir::Dim& dim : binding.dims)
      for (const ir::DimLeaf& leaf : dim.leaves())
        if (!leaf.is_symbol()) read.insert(leaf.value);
    for (const ir::Block& inner : binding.blocks) collect_read(inner, read);
  }
  read.insert(block.results.begin(), block.results.end());
}

ir::Tensor drawn_seed() {
  thread_local std::mt19937_64 generator(std::random_device{}());
  return ir::Tensor::of(ir::DType::I64, {}, std::vector{static_cast<std::int64_t>(generator())});
}

}  // namespace

std::vector<InputInfo> inputs_of(const ir::Program& program) {
  std::vector<InputInfo> inputs;
  for (const ir::Code::Input& input : program.entry().inputs)
    inputs.push_back({input.name, input.dtype, input.dims, runtime::takes_any_shape(input)});
  return inputs;
}

std::vector<InputInfo> inputs_of(const ir::Function& function) {
  std::vector<InputInfo> inputs;
  std::set<ir::ValueId> read;
  collect_read(function.body, read);
  for (const ir::ValueId id : function.body.parameters) {
    const ir::TensorType& type = function.tensor_type(id);
    inputs.push_back({function.values[id].name, type.dtype, type.dims,
                      !read.contains(id) && runtime::are_constants(type.dims)});
  }
  return inputs;
}

std::vector<InputInfo> outputs_of(const ir::Function& function) {
  std::vector<InputInfo> outputs;
  for (std::size_t i = 0; i < function.body.results.size(); ++i) {
    const ir::Type& type = function.values[function.body.results[i]].type;
    if (type.is_tensor())
      outputs.push_back({function.result_names[i], type.tensor.dtype, type.tensor.dims});
  }
  return outputs;
}

std::string to_string(const InputInfo& input) {
  std::vector<std::string> dims;
  for (const ir::Dim& dim : input.dims) dims.push_back(dim.to_string());
  return fmt::format("{}: {} ({})", input.name, ir::name_of(input.dtype), fmt::join(dims, ", "));
}

std::optional<std::int64_t> extent_of(const ir::Dim& dim, const std::vector<InputInfo>& inputs,
                                      const std::vector<ir::Tensor>& given) {
  if (const auto constant = dim.constant()) return constant;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto at = std::ranges::find(inputs[i].dims, dim);
    if (at != inputs[i].dims.end())
      return given[i].dims().at(static_cast<std::size_t>(at - inputs[i].dims.begin()));
  }
  return std::nullopt;
}

std::vector<ir::Tensor> arrange_inputs(const std::vector<InputInfo>& wanted,
                                       const NamedTensors& given) {
  for (const auto& [name, tensor] : given) {
    if (std::ranges::none_of(wanted, [&](const InputInfo& input) { return input.name == name; })) {
      throw Error(ErrorKind::Inputs, "the model has no input '{}'; its inputs are {}",
                  ir::printable(name), listed(wanted));
    }
  }
  std::vector<ir::Tensor> arranged;
  for (const InputInfo& input : wanted) {
    const auto found = given.find(input.name);
    if (found == given.end() && input.name == ir::random_seed_parameter) {
      arranged.push_back(drawn_seed());
      continue;
    }
    if (found == given.end())
      throw Error(ErrorKind::Inputs, "input '{}' is missing; the model's inputs are {}",
                  ir::printable(input.name), listed(wanted));
    ir::Tensor tensor = found->second;
    if (input.dtype == ir::DType::BF16 && tensor.dtype() == ir::DType::U16) {
      tensor = ir::Tensor(ir::DType::BF16, tensor.dims(), tensor.bytes(), tensor.owner());
    }
    if (tensor.dtype() != input.dtype || (tensor.rank() != input.dims.size() && !input.any_shape)) {
      throw Error(ErrorKind::Inputs, "input '{}' does not fit: expected {}, got {}",
                  ir::printable(input.name), to_string(input).substr(input.name.size() + 2),
                  ir::shape_text(tensor.dtype(), tensor.dims()));
    }
    arranged.push_back(std::move(tensor));
  }
  return arranged;
}

}  // namespace anydim
