// Models behind their handles, with the texts that answers about them point to.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/model.h"
#include "capi/status.h"

namespace anydim::capi {

// An input or result as anydim_tensor_info shows it.
class DescribedTensor {
 public:
  DescribedTensor(const InputInfo& info, bool rows);
  DescribedTensor(DescribedTensor&&) = default;
  DescribedTensor& operator=(DescribedTensor&&) = default;
  // Points into this object.
  anydim_tensor_info info() const;

 private:
  std::string name_;
  anydim_dtype dtype_;
  bool any_shape_, rows_;
  std::vector<std::string> dims_;
  // of dims_, whose strings stay where they are when the vector moves
  std::vector<const char*> texts_;
  std::vector<std::int64_t> extents_;
};

class ModelObject {
 public:
  explicit ModelObject(std::shared_ptr<const Model> model);

  const std::shared_ptr<const Model>& model() const { return model_; }
  const std::vector<DescribedTensor>& inputs() const { return inputs_; }
  const std::vector<DescribedTensor>& outputs() const { return outputs_; }
  // Names of the results, in their order.
  const std::shared_ptr<const std::vector<std::string>>& output_names() const {
    return output_names_;
  }
  struct Symbol {
    std::string name;
    ir::SymbolInfo info;
  };
  const std::vector<Symbol>& symbols() const { return symbols_; }

  struct Ragged {
    std::vector<DescribedTensor> inputs, outputs;
  };
  // Throws as Model::ragged.
  const Ragged& ragged() const;
  // The same text each time, valid as long as this object.
  const char* keep(const std::string& text) const;

 private:
  std::shared_ptr<const Model> model_;
  std::vector<DescribedTensor> inputs_, outputs_;
  std::shared_ptr<const std::vector<std::string>> output_names_;
  std::vector<Symbol> symbols_;
  mutable std::mutex mutex_;  // of what is below
  mutable std::optional<Ragged> ragged_;
  mutable std::set<std::string> texts_;
};

template <>
struct HandleTraits<anydim_model> : HandleOf<HandleKind::Model, ModelObject> {};

}  // namespace anydim::capi
