#include "api/result_places.h"

#include <fmt/format.h>

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

}  // namespace

void check_places(std::span<const ResultPlace> places, const std::vector<std::string>& names,
                  const std::vector<ir::Tensor>& inputs) {
  if (places.size() > names.size())
    throw Error(ErrorKind::Inputs,
                fmt::format("{} places for results were given, and the model has {} results",
                            places.size(), names.size()));
  for (std::size_t i = 0; i < places.size(); ++i) {
    const ResultPlace& place = places[i];
    if (!place.given()) continue;
    const std::string name = ir::printable(names[i]);
    if (const auto wanted = place.room
                                ? place.bytes.size()
                                : static_cast<std::size_t>(ir::byte_count(place.dtype, place.dims));
        place.bytes.size() != wanted)
      throw Error(
          ErrorKind::Inputs,
          fmt::format("the place of result '{}' is {}, which takes {} bytes, and has {}", name,
                      ir::shape_text(place.dtype, place.dims), wanted, place.bytes.size()));
    if (std::ranges::any_of(
            inputs, [&](const ir::Tensor& input) { return overlap(input.bytes(), place.bytes); }))
      throw Error(
          ErrorKind::Inputs,
          fmt::format(
              "the place of result '{}' shares memory with an input: expected memory of its own",
              name));
    for (std::size_t other = 0; other < i; ++other)
      if (overlap(places[other].bytes, place.bytes))
        throw Error(
            ErrorKind::Inputs,
            fmt::format(
                "the places of results '{}' and '{}' share memory: expected memory of their own",
                ir::printable(names[other]), name));
  }
}

std::vector<std::span<std::byte>> bytes_of(std::span<const ResultPlace> places) {
  std::vector<std::span<std::byte>> bytes;
  for (const ResultPlace& place : places) bytes.push_back(place.bytes);
  return bytes;
}

void settle(std::vector<ir::Tensor>& results, std::span<const ResultPlace> places,
            const std::vector<std::string>& names) {
  for (std::size_t i = 0; i < places.size(); ++i) {
    const ResultPlace& place = places[i];
    if (!place.given()) continue;
    ir::Tensor& result = results.at(i);
    if (place.room && result.bytes().size() > place.bytes.size()) continue;
    if (result.dtype() != place.dtype || (!place.room && result.dims() != place.dims))
      throw Error(
          ErrorKind::Inputs,
          fmt::format("result '{}' is {} in this call, and the place for it {}",
                      ir::printable(names[i]), ir::shape_text(result.dtype(), result.dims()),
                      ir::shape_text(place.dtype, place.dims)));
    if (result.bytes().data() != place.bytes.data())
      std::ranges::copy(result.bytes(), place.bytes.begin());
    result =
        ir::Tensor(place.dtype, result.dims(), place.bytes.first(result.bytes().size()), nullptr);
  }
}

}  // namespace anydim
