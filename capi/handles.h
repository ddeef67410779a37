// Handles: tokens for objects of the library that a caller may use wrongly without harm. A token is
// never an address. It names a place in the registry, the kind of object, and which of the objects
// that were there in turn, so that one released is told apart from the one that came after it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "capi/anydim.h"

namespace anydim::capi {

enum class HandleKind : std::uint8_t {
  Status = 1,
  Options,
  Cancellation,
  Model,
  Context,
  Results,
  Trace,
  Cache
};
std::string_view name_of(HandleKind kind);  // "model"

// The only global of the library: handles are all that a caller of C has. Any thread.
class Registry {
 public:
  static Registry& get();

  // Throws Error{Resource} beyond 2^24 handles at once.
  std::uintptr_t add(HandleKind kind, std::shared_ptr<void> object);
  // Null: not of a live object of the kind.
  std::shared_ptr<void> find(std::uintptr_t token, HandleKind kind) const;
  // The object, which goes with the last that holds it; null as find().
  std::shared_ptr<void> remove(std::uintptr_t token, HandleKind kind);
  std::size_t alive() const;
  // Lets go of everything, so that no worker thread is left.
  void clear();

 private:
  struct Place {
    std::uint32_t generation = 0;
    HandleKind kind{};
    std::shared_ptr<void> object;  // null: free
  };
  const Place* place_of(std::uintptr_t token, HandleKind kind) const;  // with mutex_ held

  mutable std::mutex mutex_;  // of what is below
  std::vector<Place> places_;
  std::vector<std::uint32_t> free_;
  std::size_t alive_ = 0;
};

// Throws Error{CommandLine}: why the token is no live handle of the kind, for argument `argument`.
[[noreturn]] void refuse_handle(std::uintptr_t token, HandleKind kind, std::string_view argument);

// What stands behind each type of handle: a specialisation, which is a HandleOf.
template <typename Handle>
struct HandleTraits;
template <HandleKind kind_of_handle, typename ObjectOfHandle>
struct HandleOf {
  using Object = ObjectOfHandle;
  static constexpr HandleKind kind = kind_of_handle;
};

template <typename Handle>
std::uintptr_t token_of(const Handle* handle) {
  return reinterpret_cast<std::uintptr_t>(handle);
}

template <typename Handle>
Handle* make_handle(std::shared_ptr<typename HandleTraits<Handle>::Object> object) {
  return reinterpret_cast<Handle*>(
      Registry::get().add(HandleTraits<Handle>::kind, std::move(object)));
}

// Throws Error{CommandLine}.
template <typename Handle>
std::shared_ptr<typename HandleTraits<Handle>::Object> object_of(const Handle* handle) {
  std::shared_ptr<void> object = Registry::get().find(token_of(handle), HandleTraits<Handle>::kind);
  if (object == nullptr)
    refuse_handle(token_of(handle), HandleTraits<Handle>::kind,
                  name_of(HandleTraits<Handle>::kind));
  return std::static_pointer_cast<typename HandleTraits<Handle>::Object>(std::move(object));
}

// The same for an argument that may be NULL.
template <typename Handle>
std::shared_ptr<typename HandleTraits<Handle>::Object> optional_object_of(const Handle* handle) {
  return handle == nullptr ? nullptr : object_of(handle);
}

// NULL is nothing to release. Throws Error{CommandLine}.
template <typename Handle>
void release_handle(Handle* handle) {
  if (handle != nullptr &&
      Registry::get().remove(token_of(handle), HandleTraits<Handle>::kind) == nullptr)
    refuse_handle(token_of(handle), HandleTraits<Handle>::kind,
                  name_of(HandleTraits<Handle>::kind));
}

}  // namespace anydim::capi
