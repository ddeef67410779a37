#include "api/model.h"

#include <algorithm>
#include <utility>

#include "api/specialize.h"
#include "passes/remove_padding.h"

namespace anydim {

namespace {

runtime::Packing packing_of(const passes::PackedModule& packed, std::size_t own_inputs) {
  const passes::PackingPlan& plan = packed.plan;
  const std::vector<ir::ValueId>& parameters = packed.module.functions.at(0).body.parameters;
  runtime::Packing packing{.kept = plan.kept, .first_rows = plan.first_rows};
  packing.mask = static_cast<std::size_t>(std::ranges::find(parameters, plan.mask) - parameters.begin());
  for (std::size_t i = own_inputs; i < parameters.size(); ++i) {
    const ir::ValueId id = parameters[i];
    packing.vectors.push_back(id == plan.rows        ? runtime::RowVector::Rows
                              : id == plan.offsets   ? runtime::RowVector::Offsets
                              : id == plan.positions ? runtime::RowVector::Positions
                              : id == plan.sequences ? runtime::RowVector::Sequences
                                                     : runtime::RowVector::Places);
  }
  return packing;
}

}  // namespace

std::shared_ptr<const Model> Model::compile(ir::Module module, const CompileOptions& options) {
  std::shared_ptr<Model> model(new Model);
  model->options_ = options;
  model->target_ = make_target(options);
  narrow_dims(module, options.dims);
  model->options_.dims.clear();
  model->module_ = recognise_composites(std::move(module), options);
  const ir::Function& entry = model->module_.functions.at(0);
  model->inputs_ = inputs_of(entry);
  model->output_names_ = entry.result_names;
  passes::PackingResult result = passes::remove_padding(model->module_, options.masked_rows == MaskedRows::Zero);
  if (options.device == DeviceKind::Cuda) result = {.reason = "kernels over packed rows are not generated for CUDA"};
  if (!result.packed) {
    model->padded_because_ = std::move(result.reason);
    static_cast<void>(model->padded());
    return model;
  }
  model->packing_ = packing_of(*result.packed, model->inputs_.size());
  model->packed_ = compile_for(model->target_, std::move(result.packed->module), model->options_);
  return model;
}

std::shared_ptr<const runtime::Executable> Model::padded() const {
  const std::lock_guard lock(mutex_);
  if (padded_ == nullptr) padded_ = compile_for(target_, std::exchange(module_, {}), options_);
  return padded_;
}

runtime::BatchRule Model::batch_rule(std::int64_t tokens) const {
  return {.tokens = tokens, .counted = packing_ ? runtime::CountedTokens::Useful : runtime::CountedTokens::Padded};
}

void Model::retune() const {
  if (packed_ != nullptr) anydim::retune(*packed_, target_, options_);
  const std::lock_guard lock(mutex_);
  if (padded_ != nullptr) anydim::retune(*padded_, target_, options_);
}

void Model::complete() const {
  if (packed_ != nullptr) packed_->kernels().complete();
  const std::lock_guard lock(mutex_);
  if (padded_ != nullptr) padded_->kernels().complete();
}

std::vector<ir::Tensor> ModelContext::run(const std::vector<ir::Tensor>& inputs) {
  packed_rows_.reset();
  if (model_->packing()) {
    if (const auto packed = runtime::pack_inputs(*model_->packing(), inputs)) {
      if (!packed_) packed_.emplace(model_->packed());
      std::vector<ir::Tensor> outputs = packed_->run(packed->tensors);
      packed_rows_ = packed->tokens;
      return outputs;
    }
  }
  if (!padded_) padded_.emplace(model_->padded());
  return padded_->run(inputs);
}

}  // namespace anydim
