#include "api/declared_results.h"

#include <fmt/format.h>

#include <optional>

#include "ir/dims/symbols.h"
#include "ir/printable.h"
#include "ir/shapes/bind.h"
#include "ir/text/print.h"

namespace anydim {

namespace {

bool may_differ(const ir::TensorType& said, const ir::TensorType& found,
                const ir::SymbolTable& symbols) {
  if (said.rank() != found.rank()) return false;  // inference has warned
  for (std::size_t axis = 0; axis < said.rank(); ++axis)
    if (!ir::is_any_extent(said.dims[axis]) &&
        ir::prove_equal(said.dims[axis], found.dims[axis], symbols) == ir::Proof::Unknown)
      return true;
  return false;
}

}  // namespace

DeclaredResults::Hints DeclaredResults::hints_of(const ir::Function& entry) {
  Hints hints;
  for (std::size_t result = 0; result < entry.result_names.size(); ++result) {
    const ir::Value& value = entry.values[entry.body.results.at(result)];
    if (value.declared == ir::Value::Declared::Hint && value.type.is_tensor())
      hints.emplace(entry.result_names[result], value.type.tensor);
  }
  return hints;
}

DeclaredResults::DeclaredResults(const Hints& said, const ir::Function& found) {
  for (std::size_t result = 0; result < found.result_names.size(); ++result) {
    const auto hint = said.find(found.result_names[result]);
    const ir::Type& type = found.values[found.body.results.at(result)].type;
    if (hint == said.end() || !type.is_tensor()) continue;
    if (may_differ(hint->second, type.tensor, found.symbols))
      said_.push_back({result, hint->first, hint->second});
  }
  warned_ = std::make_unique<std::atomic<bool>[]>(said_.size());
}

void DeclaredResults::check(const std::vector<InputInfo>& inputs,
                            const std::vector<ir::Tensor>& given,
                            const std::vector<ir::Tensor>& results,
                            const std::function<void(const std::string&)>& warn) const {
  for (std::size_t i = 0; i < said_.size(); ++i) {
    const auto& [result, name, type] = said_[i];
    const ir::Tensor& got = results.at(result);
    for (std::size_t axis = 0; axis < type.rank(); ++axis) {
      const std::optional<std::int64_t> wanted = extent_of(type.dims[axis], inputs, given);
      if (!wanted || *wanted == got.dims().at(axis)) continue;
      if (!warned_[i].exchange(true) && warn)
        warn(
            fmt::format("the model declares its output {} as {}, and this call gives it {}: dim {} "
                        "was expected to be {}, got {}",
                        ir::printable(name), ir::print(type),
                        ir::shape_text(got.dtype(), got.dims()), axis, *wanted, got.dims()[axis]));
      break;
    }
  }
}

}  // namespace anydim
