#include "api/recording.h"

#include "api/sample_inputs.h"

namespace anydim {

tuner::Trace trace_of(const Model& model) { return trace_of(model.inputs(), shape_of(model)); }

tuner::Trace trace_of(const std::vector<InputInfo>& inputs, const tuner::ModelShape& shape) {
  std::vector<std::string> texts;
  for (const InputInfo& input : inputs) texts.push_back(to_string(input));
  return {std::move(texts), shape.symbol_names()};
}

std::vector<std::int64_t> traced_values(const std::vector<std::string>& symbols,
                                        const std::vector<InputInfo>& inputs,
                                        const std::vector<ir::Tensor>& given) {
  std::vector<std::int64_t> values;
  for (const std::string& symbol : symbols)
    values.push_back(extent_of(ir::Dim::symbol(symbol), inputs, given).value_or(0));
  return values;
}

CallTracer::CallTracer(const Model& model)
    : inputs_(model.inputs()), symbols_(shape_of(model).symbol_names()) {
  const ir::Program& program = program_of(model)->program();
  if (!tuner::shapes_decide_launches(program)) regions_ = tuner::region_fingerprints(program);
}

void CallTracer::add(tuner::TraceRecorder& recorder, const std::vector<ir::Tensor>& inputs,
                     std::int64_t rows, const runtime::Context* context) const {
  tuner::TracedLaunches launches;
  if (needs_launches() && context != nullptr)
    for (const runtime::LaunchRecord& launch : context->launches())
      ++launches[{regions_.at(static_cast<std::size_t>(launch.kernel)), launch.keys}];
  recorder.add(traced_values(symbols_, inputs_, inputs), rows, launches);
}

}  // namespace anydim
