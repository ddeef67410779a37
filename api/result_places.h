// Results in memory that the caller chose, on the host or on the model's device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/tensor.h"
#include "runtime/device.h"

namespace anydim {

using runtime::DeviceStream;

// Where a result is to lie, row-major; without bytes' data: wherever it likes, on the host unless
// it is said to stay on the device. What it holds after a call that threw is not said.
struct ResultPlace {
  ir::DType dtype = ir::DType::F32;
  std::vector<std::int64_t> dims{};
  std::span<std::byte> bytes{};
  bool room = false;    // as many bytes as the result may take: its extents are the call's, and
                        // `dims` is not read
  bool device = false;  // on the model's device: `bytes` are addresses there
  bool given() const { return bytes.data() != nullptr; }

  // Memory of the model's on its device, which a later call may have once the result's last tensor
  // is dropped (runtime::StreamCall).
  static ResultPlace on_device();
  // Memory of the caller's there, as Model::device_tensor() made a tensor of. `room`: see above.
  static ResultPlace on_device(const ir::Tensor& tensor, bool room = false);
};

// Throws Error{Inputs} for more places than results, and for a place of other bytes than its shape
// has, or that shares memory with an input or another place, on the host or on the device.
void check_places(std::span<const ResultPlace> places, const std::vector<std::string>& names,
                  const std::vector<ir::Tensor>& inputs);
// For runtime::Context::run: places on the host, and what is said of a stream and the device;
// nothing where neither is asked for.
std::vector<std::span<std::byte>> bytes_of(std::span<const ResultPlace> places);
std::optional<runtime::StreamCall> stream_call(std::span<const ResultPlace> places,
                                               const std::optional<DeviceStream>& stream);
// Copies results that do not lie in their place yet; they are there then, and the tensors share it.
// Throws Error{Inputs} where a place's dtype or dims are not the result's. A result for which there
// is too little room stays where it is.
void settle(std::vector<ir::Tensor>& results, std::span<const ResultPlace> places,
            const std::vector<std::string>& names);

}  // namespace anydim
