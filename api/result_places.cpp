#include "api/result_places.h"

#include <algorithm>
#include <functional>

#include "ir/error.h"
#include "ir/printable.h"
#include "ir/shapes/bind.h"

namespace anydim {

namespace {

bool overlap(std::span<const std::byte> one, std::span<const std::byte> other) {
  const std::less<const std::byte*> before;
  return !one.empty() && !other.empty() && before(one.data(), other.data() + other.size()) &&
         before(other.data(), one.data() + one.size());
}

// Where a tensor's bytes lie: addresses of the host and of devices are apart.
std::span<const std::byte> range_of(const ir::Tensor& tensor) {
  if (const runtime::DeviceMemory* memory = runtime::device_memory_of(tensor))
    return {static_cast<const std::byte*>(memory->address()), memory->bytes()};
  return tensor.bytes();
}

}  // namespace

ResultPlace ResultPlace::on_device() { return {.device = true}; }

ResultPlace ResultPlace::on_device(const ir::Tensor& tensor, bool room) {
  const runtime::DeviceMemory* memory = runtime::device_memory_of(tensor);
  if (memory == nullptr)
    throw Error(ErrorKind::Inputs,
                "a place on the device was given as a tensor {} in host memory: "
                "expected one of Model::device_tensor()",
                ir::shape_text(tensor.dtype(), tensor.dims()));
  return {.dtype = tensor.dtype(),
          .dims = tensor.dims(),
          .bytes = {static_cast<std::byte*>(memory->address()), memory->bytes()},
          .room = room,
          .device = true};
}

void check_places(std::span<const ResultPlace> places, const std::vector<std::string>& names,
                  const std::vector<ir::Tensor>& inputs) {
  if (places.size() > names.size())
    throw Error(ErrorKind::Inputs, "{} places for results were given, and the model has {} results",
                places.size(), names.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    const ResultPlace& place = places[i];
    if (!place.given()) continue;
    const std::string name = ir::printable(names[i]);
    if (const auto wanted = place.room
                                ? place.bytes.size()
                                : static_cast<std::size_t>(ir::byte_count(place.dtype, place.dims));
        place.bytes.size() != wanted)
      throw Error(ErrorKind::Inputs,
                  "the place of result '{}' is {}, which takes {} bytes, and has {}", name,
                  ir::shape_text(place.dtype, place.dims), wanted, place.bytes.size());
    if (std::ranges::any_of(
            inputs, [&](const ir::Tensor& input) { return overlap(range_of(input), place.bytes); }))
      throw Error(
          ErrorKind::Inputs,
          "the place of result '{}' shares memory with an input: expected memory of its own", name);
    for (std::size_t other = 0; other < i; ++other)
      if (overlap(places[other].bytes, place.bytes))
        throw Error(
            ErrorKind::Inputs,
            "the places of results '{}' and '{}' share memory: expected memory of their own",
            ir::printable(names[other]), name);
  }
}

std::vector<std::span<std::byte>> bytes_of(std::span<const ResultPlace> places) {
  std::vector<std::span<std::byte>> bytes;
  for (const ResultPlace& place : places)
    bytes.push_back(place.device ? std::span<std::byte>() : place.bytes);
  return bytes;
}

std::optional<runtime::StreamCall> stream_call(std::span<const ResultPlace> places,
                                               const std::optional<DeviceStream>& stream) {
  using Kind = runtime::StreamCall::Place::Kind;
  if (!stream && std::ranges::none_of(places, &ResultPlace::device)) return std::nullopt;
  runtime::StreamCall call{.stream = stream};
  for (const ResultPlace& place : places)
    call.results.push_back({.kind = !place.device   ? Kind::Host
                                    : place.given() ? Kind::Given
                                                    : Kind::Owned,
                            .address = place.bytes.data(),
                            .bytes = place.bytes.size()});
  return call;
}

void settle(std::vector<ir::Tensor>& results, std::span<const ResultPlace> places,
            const std::vector<std::string>& names) {
  for (std::size_t i = 0; i < places.size(); ++i) {
    const ResultPlace& place = places[i];
    if (!place.given()) continue;
    ir::Tensor& result = results.at(i);
    if (place.room && result.byte_size() > place.bytes.size()) continue;
    if (result.dtype() != place.dtype || (!place.room && result.dims() != place.dims))
      throw Error(ErrorKind::Inputs, "result '{}' is {} in this call, and the place for it {}",
                  ir::printable(names[i]), ir::shape_text(result.dtype(), result.dims()),
                  ir::shape_text(place.dtype, place.dims));
    if (place.device) continue;
    if (result.bytes().data() != place.bytes.data())
      std::ranges::copy(result.bytes(), place.bytes.begin());
    result =
        ir::Tensor(place.dtype, result.dims(), place.bytes.first(result.bytes().size()), nullptr);
  }
}

}  // namespace anydim
