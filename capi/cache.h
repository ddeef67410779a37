// Caches behind their handles.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "api/kv_cache.h"
#include "capi/handles.h"

namespace anydim::capi {

struct CacheObject {
  explicit CacheObject(const Model& model);
  KvCache cache;
  std::mutex at_work;  // of `cache`
  // of calls with the cache
  const std::vector<InputInfo> inputs, outputs;
  const std::shared_ptr<const std::vector<std::string>> output_names;
};

// A cache while one function uses it. Throws Error{CommandLine} where another does.
class BusyCache {
 public:
  explicit BusyCache(std::shared_ptr<CacheObject> object);
  KvCache& operator*() const { return object_->cache; }
  KvCache* operator->() const { return &object_->cache; }

 private:
  std::shared_ptr<CacheObject> object_;
  std::unique_lock<std::mutex> lock_;
};

template <>
struct HandleTraits<anydim_cache> : HandleOf<HandleKind::Cache, CacheObject> {};

}  // namespace anydim::capi
