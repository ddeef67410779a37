#include "capi/cache.h"

#include <utility>

#include "capi/answers.h"
#include "capi/buffers.h"
#include "capi/functions.h"
#include "capi/model.h"
#include "capi/results.h"
#include "ir/error.h"

namespace anydim::capi {

namespace {

std::vector<std::string> names_of(const std::vector<InputInfo>& infos) {
  std::vector<std::string> names;
  for (const InputInfo& info : infos) names.push_back(info.name);
  return names;
}

// KvCache comes first, which refuses a model without one.
const Appending& appending_of(const Model& model) { return *model.appending(); }

}  // namespace

CacheObject::CacheObject(const Model& model)
    : cache(model), inputs(appending_of(model).inputs_beside()),
      outputs(appending_of(model).outputs_beside()),
      output_names(std::make_shared<const std::vector<std::string>>(names_of(outputs))) {}

BusyCache::BusyCache(std::shared_ptr<CacheObject> object)
    : object_(std::move(object)), lock_(object_->at_work, std::try_to_lock) {
  if (!lock_.owns_lock())
    throw Error(ErrorKind::CommandLine,
                "the cache is at work on another thread: give each call one of its own");
}

anydim_status* cache_create(const anydim_model* model, anydim_cache** cache) noexcept {
  return guarded("cache_create", [&] {
    give_handle(cache, "cache",
                [&] { return std::make_shared<CacheObject>(*object_of(model)->model()); });
  });
}

anydim_status* cache_release(anydim_cache* cache) noexcept {
  return guarded("cache_release", [&] { release_handle(cache); });
}

anydim_status* cache_length(const anydim_cache* cache, std::int64_t* length) noexcept {
  return guarded("cache_length", [&] {
    const BusyCache busy(object_of(cache));
    require_pointer(length, "length");
    *length = busy->length();
  });
}

anydim_status* cache_reserve(anydim_cache* cache, std::int64_t length) noexcept {
  return guarded("cache_reserve", [&] { BusyCache(object_of(cache))->reserve(length); });
}

anydim_status* cache_truncate(anydim_cache* cache, std::int64_t length) noexcept {
  return guarded("cache_truncate", [&] { BusyCache(object_of(cache))->truncate(length); });
}

anydim_status* cache_read(const anydim_cache* cache, const char* name,
                          anydim_results** results) noexcept {
  return guarded("cache_read", [&] {
    const BusyCache busy(object_of(cache));
    require_pointer(name, "name");
    give_handle(results, "results", [&] {
      return std::make_shared<ResultsObject>(
          std::make_shared<const std::vector<std::string>>(1, name),
          std::vector<ir::Tensor>{busy->tensor(name)});
    });
  });
}

anydim_status* cache_write(anydim_cache* cache, const anydim_input* tensor) noexcept {
  return guarded("cache_write", [&] {
    const BusyCache busy(object_of(cache));
    require_pointer(tensor, "tensor");
    require_pointer(tensor->name, "tensor->name");
    InputInfo wanted = busy->info(tensor->name);
    wanted.name = tensor->name;
    busy->set(tensor->name, tensors_of({tensor, 1}, {std::move(wanted)}).front());
  });
}

}  // namespace anydim::capi
