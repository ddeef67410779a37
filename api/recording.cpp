#include "api/recording.h"

#include "api/sample_inputs.h"

namespace anydim {

tuner::Trace trace_of(const Model& model) {
  std::vector<std::string> inputs;
  for (const InputInfo& input : model.inputs()) inputs.push_back(to_string(input));
  return {std::move(inputs), shape_of(model).symbol_names()};
}

std::vector<std::int64_t> traced_values(const Model& model, const std::vector<ir::Tensor>& inputs) {
  std::vector<std::int64_t> values;
  for (const std::string& symbol : shape_of(model).symbol_names()) {
    const auto value = [&] {
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const std::vector<ir::Dim>& dims = model.inputs()[i].dims;
        for (std::size_t d = 0; d < dims.size(); ++d)
          if (dims[d].kind() == ir::Dim::Kind::Symbol && dims[d].leaf().symbol == symbol) return inputs[i].dims()[d];
      }
      return std::int64_t{0};
    };
    values.push_back(value());
  }
  return values;
}

}  // namespace anydim
