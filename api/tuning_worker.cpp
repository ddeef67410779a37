#include "api/tuning_worker.h"

#include <cstdio>
#include <iostream>

#include "api/model.h"
#include "api/option_text.h"
#include "api/recorded_calls.h"
#include "api/sample_inputs.h"
#include "api/tune_model.h"

namespace anydim {

tuner::PreparedModel prepare_for_tuning(
    const tuner::PrepareCase& told,
    const std::function<CompileTarget(const CompileOptions&)>& make) {
  CompileOptions options;
  for (const auto& [name, value] : told.options) set_option(options, name, value);
  options.keep_originals = true;
  options.background = false;
  ir::Module module = load_model(told.model);
  const SampleInputs inputs(module);
  const auto model = Model::compile(make(options), std::move(module), options);
  tuner::PreparedModel prepared{.program = program_of(*model), .calls = {}};
  for (const tuner::Call& call : told.calls)
    prepared.calls.push_back(for_program(*model, call.inputs.empty()
                                                     ? inputs.make(*model, call)
                                                     : read_call(call.inputs, model->inputs())));
  return prepared;
}

void serve_tuning(const std::function<CompileTarget(const CompileOptions&)>& make) {
  tuner::TuningCases([&](const tuner::PrepareCase& told) {
    return prepare_for_tuning(told, make);
  }).serve(std::cin, stdout);
}

}  // namespace anydim
