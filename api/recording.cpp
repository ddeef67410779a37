#include "api/recording.h"

#include "api/sample_inputs.h"
#include "tuner/text_hash.h"

namespace anydim {

tuner::Trace trace_of(const Model& model) {
  std::vector<std::string> inputs;
  for (const InputInfo& input : model.inputs()) inputs.push_back(to_string(input));
  return {std::move(inputs), shape_of(model).symbol_names()};
}

std::vector<std::int64_t> traced_values(const tuner::ModelShape& model, const std::vector<ir::Tensor>& inputs) {
  std::vector<std::int64_t> values;
  for (const std::string& symbol : model.symbol_names()) {
    const auto value = [&] {
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const std::vector<ir::Dim>& dims = model.inputs[i].dims;
        for (std::size_t d = 0; d < dims.size(); ++d)
          if (dims[d].kind() == ir::Dim::Kind::Symbol && dims[d].leaf().symbol == symbol) return inputs[i].dims()[d];
      }
      return std::int64_t{0};
    };
    values.push_back(value());
  }
  return values;
}

CallTracer::CallTracer(const Model& model) : shape_(shape_of(model)) {
  const ir::Program& program = program_of(model)->program();
  if (tuner::shapes_decide_launches(program)) return;
  for (const ir::Program::Kernel& kernel : program.kernels) regions_.push_back(tuner::text_hash(kernel.region.identity));
}

void CallTracer::add(tuner::TraceRecorder& recorder, const std::vector<ir::Tensor>& inputs, std::int64_t rows,
                     const runtime::Context* context) const {
  tuner::TracedLaunches launches;
  if (needs_launches() && context != nullptr)
    for (const runtime::LaunchRecord& launch : context->launches())
      ++launches[{regions_.at(static_cast<std::size_t>(launch.kernel)), launch.keys}];
  recorder.add(traced_values(shape_, inputs), rows, launches);
}

}  // namespace anydim
