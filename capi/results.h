// Results behind their handles.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "capi/handles.h"
#include "ir/tensor.h"

namespace anydim::capi {

struct ResultsObject {
  std::shared_ptr<const std::vector<std::string>> names;  // not the model, whose weights would stay
  std::vector<ir::Tensor> tensors;
};

template <>
struct HandleTraits<anydim_results> : HandleOf<HandleKind::Results, ResultsObject> {};

}  // namespace anydim::capi
