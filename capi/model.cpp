#include "capi/model.h"

#include "capi/buffers.h"

namespace anydim::capi {

namespace {

std::vector<DescribedTensor> described(const std::vector<InputInfo>& infos,
                                       const std::vector<bool>& rows = {}) {
  std::vector<DescribedTensor> tensors;
  tensors.reserve(infos.size());
  for (std::size_t i = 0; i < infos.size(); ++i)
    tensors.emplace_back(infos[i], i < rows.size() && rows[i]);
  return tensors;
}

}  // namespace

DescribedTensor::DescribedTensor(const InputInfo& info, bool rows)
    : name_(info.name), dtype_(dtype_of(info.dtype)), any_shape_(info.any_shape), rows_(rows) {
  for (const ir::Dim& dim : info.dims) {
    dims_.push_back(dim.to_string());
    extents_.push_back(dim.constant().value_or(-1));
  }
  for (const std::string& text : dims_) texts_.push_back(text.c_str());
}

anydim_tensor_info DescribedTensor::info() const {
  return {.struct_size = sizeof(anydim_tensor_info),
          .name = name_.c_str(),
          .dims = texts_.data(),
          .extents = extents_.data(),
          .rank = static_cast<std::uint32_t>(dims_.size()),
          .dtype = dtype_,
          .any_shape = any_shape_ ? 1U : 0U,
          .rows = rows_ ? 1U : 0U};
}

ModelObject::ModelObject(std::shared_ptr<const Model> model)
    : model_(std::move(model)), inputs_(described(model_->inputs())),
      outputs_(described(model_->outputs())),
      output_names_(std::make_shared<const std::vector<std::string>>(model_->output_names())) {
  internal_check(outputs_.size() == output_names_->size(),
                 "results of a compiled model are tensors");
  std::set<ir::DimLeaf> leaves;
  for (const auto* infos : {&model_->inputs(), &model_->outputs()})
    for (const InputInfo& info : *infos)
      for (const ir::Dim& dim : info.dims) dim.collect_leaves(leaves);
  for (const std::string& name : model_->symbols().names())
    if (leaves.contains({.symbol = name}))
      symbols_.push_back({name, *model_->symbols().find(name)});
}

const ModelObject::Ragged& ModelObject::ragged() const {
  const std::shared_ptr<const RaggedProgram> program = model_->ragged();
  const std::lock_guard lock(mutex_);
  if (!ragged_)
    ragged_ = {described(program->inputs, program->input_rows),
               described(program->outputs, program->output_rows)};
  return *ragged_;
}

const char* ModelObject::keep(const std::string& text) const {
  const std::lock_guard lock(mutex_);
  return texts_.insert(text).first->c_str();
}

}  // namespace anydim::capi
