// Dtypes and tensors between the caller's structs and the library's.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "api/inputs.h"
#include "api/model.h"
#include "api/result_places.h"
#include "capi/anydim.h"
#include "ir/tensor.h"

namespace anydim::capi {

anydim_dtype dtype_of(ir::DType dtype);
std::optional<ir::DType> dtype_from(anydim_dtype dtype);

// Which of a call's buffers are on a model's device.
struct OnDevice {
  const Model* model = nullptr;
  const std::uint8_t* flags = nullptr;  // by buffer; null: none is
  bool has(std::size_t buffer) const { return flags != nullptr && flags[buffer] != 0; }
};

// The caller's inputs in the order of `wanted`, which read the caller's memory. Throws
// Error{CommandLine} for a pointer that is NULL or a dtype that there is not, Error{Inputs} for an
// input that is unknown, missing or there twice, another dtype or rank, another size than its dims
// take, an address that is not aligned to an element, and a bool other than 0 and 1 on the host;
// as Model::device_tensor for one on the device.
std::vector<ir::Tensor> tensors_of(std::span<const anydim_input> inputs,
                                   const std::vector<InputInfo>& wanted, const OnDevice& on = {});

// Places for the results that the caller wants, in the order of `results`, and which output each
// belongs to. Throws Error{CommandLine} and Error{Inputs} as tensors_of does.
struct WantedOutputs {
  std::vector<ResultPlace> places{};
  std::vector<std::optional<std::size_t>> outputs{};  // by result; nothing: not wanted
};
WantedOutputs places_of(std::span<const anydim_output> outputs,
                        const std::vector<InputInfo>& results, const OnDevice& on = {});

// Sets size and dims of all outputs. Throws Error{Inputs} where a result is larger than its buffer.
void report_outputs(const std::vector<ir::Tensor>& results, const WantedOutputs& wanted,
                    std::span<anydim_output> outputs);

}  // namespace anydim::capi
