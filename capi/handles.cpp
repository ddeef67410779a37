#include "capi/handles.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "ir/error.h"

namespace anydim::capi {

static_assert(sizeof(std::uintptr_t) == 8, "a token needs 64 bits: generation, place and kind");

namespace {

// From the lowest bit: kind, place, generation.
constexpr int kind_bits = 8, place_bits = 24;
constexpr std::uint32_t most_places = std::uint32_t{1} << place_bits;

std::uintptr_t token_for(std::uint32_t place, std::uint32_t generation, HandleKind kind) {
  return (std::uintptr_t{generation} << (kind_bits + place_bits)) |
         (std::uintptr_t{place} << kind_bits) | static_cast<std::uintptr_t>(kind);
}
HandleKind kind_in(std::uintptr_t token) {
  return static_cast<HandleKind>(token & ((1U << kind_bits) - 1));
}
std::uint32_t place_in(std::uintptr_t token) {
  return static_cast<std::uint32_t>(token >> kind_bits) & (most_places - 1);
}
std::uint32_t generation_in(std::uintptr_t token) {
  return static_cast<std::uint32_t>(token >> (kind_bits + place_bits));
}

}  // namespace

std::string_view name_of(HandleKind kind) {
  switch (kind) {
    case HandleKind::Status: return "status";
    case HandleKind::Options: return "options";
    case HandleKind::Cancellation: return "cancellation";
    case HandleKind::Model: return "model";
    case HandleKind::Context: return "context";
    case HandleKind::Results: return "results";
    case HandleKind::Trace: return "trace";
    case HandleKind::Cache: return "cache";
  }
  return {};
}

// Never destroyed: threads may still hold handles while the process ends.
Registry& Registry::get() {
  static Registry& registry = *new Registry;
  return registry;
}

std::uintptr_t Registry::add(HandleKind kind, std::shared_ptr<void> object) {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) {
    if (places_.size() == most_places)
      throw Error(ErrorKind::Resource,
                  "{} handles are alive, the most there can be: release those that are done with",
                  most_places);
    if (free_.capacity() <= places_.size())
      free_.reserve(2 * places_.size() + 16);  // so that remove() needs no memory
    places_.emplace_back();
    free_.push_back(static_cast<std::uint32_t>(places_.size() - 1));
  }
  const std::uint32_t index = free_.back();
  free_.pop_back();
  Place& place = places_[index];
  place.kind = kind;
  place.object = std::move(object);
  ++alive_;
  return token_for(index, place.generation, kind);
}

const Registry::Place* Registry::place_of(std::uintptr_t token, HandleKind kind) const {
  if (kind_in(token) != kind || place_in(token) >= places_.size()) return nullptr;
  const Place& place = places_[place_in(token)];
  return place.object != nullptr && place.generation == generation_in(token) && place.kind == kind
             ? &place
             : nullptr;
}

std::shared_ptr<void> Registry::find(std::uintptr_t token, HandleKind kind) const {
  const std::lock_guard lock(mutex_);
  const Place* place = place_of(token, kind);
  return place == nullptr ? nullptr : place->object;
}

std::shared_ptr<void> Registry::remove(std::uintptr_t token, HandleKind kind) {
  const std::lock_guard lock(mutex_);
  if (place_of(token, kind) == nullptr) return nullptr;
  const std::uint32_t index = place_in(token);
  Place& place = places_[index];
  std::shared_ptr<void> object = std::exchange(place.object, nullptr);
  --alive_;
  // A place whose generations are used up stays empty, so that no token ever comes back.
  if (place.generation++ != std::numeric_limits<std::uint32_t>::max()) free_.push_back(index);
  return object;
}

std::size_t Registry::alive() const {
  const std::lock_guard lock(mutex_);
  return alive_;
}

void Registry::clear() {
  std::vector<std::shared_ptr<void>> objects;  // go without the lock: models wait for kernels at
                                               // work, whose warnings may take time
  const std::lock_guard lock(mutex_);
  objects.reserve(alive_);
  for (Place& place : places_)
    if (place.object != nullptr) objects.push_back(std::exchange(place.object, nullptr));
  alive_ = 0;
}

void refuse_handle(std::uintptr_t token, HandleKind kind, std::string_view argument) {
  if (token == 0)
    throw Error(ErrorKind::CommandLine, "argument '{}' is NULL: expected a handle of the library",
                argument);
  if (kind_in(token) == kind)
    throw Error(ErrorKind::CommandLine,
                "argument '{}' is no handle that is alive: it was released, or is no handle of "
                "this library",
                argument);
  const std::string_view other = name_of(kind_in(token));
  throw Error(ErrorKind::CommandLine, "argument '{}' is {}: expected a handle of that kind",
              argument,
              other.empty() ? std::string("no handle of this library")
                            : fmt::format("a handle of kind {}", other));
}

}  // namespace anydim::capi
