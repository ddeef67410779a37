// What anydim.Cache is.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <mutex>
#include <string_view>

#include "python/src/engine.h"

namespace anydim::python {

// Any thread, one at a time: Error{CommandLine} where it is at work in a call.
class Cache {
 public:
  // Throws what KvCache throws.
  explicit Cache(const Engine& engine) : cache_(engine.model()) {}

  // While a call or a method works with it.
  class Use {
   public:
    explicit Use(Cache& cache);
    KvCache& operator*() const { return cache_.cache_; }
    KvCache* operator->() const { return &cache_.cache_; }

   private:
    Cache& cache_;
    std::unique_lock<std::mutex> lock_;
  };

  std::int64_t length() { return Use(*this)->length(); }
  std::int64_t bytes() { return Use(*this)->bytes(); }
  void reserve(std::int64_t length) { Use(*this)->reserve(length); }
  void truncate(std::int64_t length) { Use(*this)->truncate(length); }
  nanobind::object get(std::string_view name, std::string_view arrays);
  void set(std::string_view name, nanobind::handle array);

 private:
  KvCache cache_;
  std::mutex at_work_;
};

void add_cache(nanobind::module_& module);

}  // namespace anydim::python
