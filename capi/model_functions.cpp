#include <algorithm>
#include <cstdlib>

#include "api/load.h"
#include "api/timeline_file.h"
#include "capi/answers.h"
#include "capi/functions.h"
#include "capi/model.h"
#include "capi/options.h"
#include "ir/printable.h"

namespace anydim::capi {

namespace {

// Models have threads that compile beside the calls; these end before what they use does.
// Registered once there is a model, so that it runs before the destructors of what compiling one
// has set up.
void clear_at_exit() {
  static const int registered = std::atexit([] { Registry::get().clear(); });
  static_cast<void>(registered);
}

template <typename Load>
void load_model(const anydim_options* options, anydim_cancellation* cancellation,
                anydim_model** model, Load&& load) {
  give_handle(model, "model", [&] {
    const CompileOptions compile = compile_options(options, cancellation);
    auto object = std::make_shared<ModelObject>(Model::compile(load(), compile));
    clear_at_exit();
    return object;
  });
}

void give_count(std::size_t wanted, std::size_t* count) {
  require_pointer(count, "count");
  *count = wanted;
}

void give_info(const std::vector<DescribedTensor>& tensors, std::size_t index,
               std::string_view what, anydim_tensor_info* info) {
  require_answer(info, "info");
  give_answer(thing_at(tensors, index, what).info(), info);
}

void give_reason(const anydim_model* model, const std::string& (Model::*text)() const,
                 const char** reason) {
  const auto object = object_of(model);
  require_pointer(reason, "reason");
  *reason = object->keep(((*object->model()).*text)());
}

}  // namespace

anydim_status* model_load_file(const char* file, const anydim_options* options,
                               anydim_cancellation* cancellation, anydim_model** model) noexcept {
  return guarded("model_load_file", [&] {
    load_model(options, cancellation, model, [&] {
      require_pointer(file, "file");
      return anydim::load_model(file);
    });
  });
}

anydim_status* model_load_memory(const void* bytes, std::size_t size, const char* folder,
                                 const anydim_options* options, anydim_cancellation* cancellation,
                                 anydim_model** model) noexcept {
  return guarded("model_load_memory", [&] {
    load_model(options, cancellation, model, [&] {
      require_pointer(bytes, "bytes");
      return load_model_bytes(
          {static_cast<const std::byte*>(bytes), size},
          folder == nullptr ? std::nullopt : std::optional<std::filesystem::path>(folder));
    });
  });
}

anydim_status* model_release(anydim_model* model) noexcept {
  return guarded("model_release", [&] { release_handle(model); });
}

anydim_status* model_input_count(const anydim_model* model, std::size_t* count) noexcept {
  return guarded("model_input_count",
                 [&] { give_count(object_of(model)->inputs().size(), count); });
}

anydim_status* model_input(const anydim_model* model, std::size_t index,
                           anydim_tensor_info* info) noexcept {
  return guarded("model_input",
                 [&] { give_info(object_of(model)->inputs(), index, "inputs", info); });
}

anydim_status* model_output_count(const anydim_model* model, std::size_t* count) noexcept {
  return guarded("model_output_count",
                 [&] { give_count(object_of(model)->outputs().size(), count); });
}

anydim_status* model_output(const anydim_model* model, std::size_t index,
                            anydim_tensor_info* info) noexcept {
  return guarded("model_output",
                 [&] { give_info(object_of(model)->outputs(), index, "results", info); });
}

anydim_status* model_symbol_count(const anydim_model* model, std::size_t* count) noexcept {
  return guarded("model_symbol_count",
                 [&] { give_count(object_of(model)->symbols().size(), count); });
}

anydim_status* model_symbol(const anydim_model* model, std::size_t index,
                            anydim_symbol_info* info) noexcept {
  return guarded("model_symbol", [&] {
    const auto object = object_of(model);
    require_answer(info, "info");
    const ModelObject::Symbol& symbol = thing_at(object->symbols(), index, "symbols");
    give_answer(anydim_symbol_info{.struct_size = sizeof(anydim_symbol_info),
                                   .name = symbol.name.c_str(),
                                   .reason = symbol.info.reason.c_str(),
                                   .low = symbol.info.low,
                                   .high = symbol.info.high,
                                   .multiple = symbol.info.multiple},
                info);
  });
}

anydim_status* model_padded_because(const anydim_model* model, const char** reason) noexcept {
  return guarded("model_padded_because",
                 [&] { give_reason(model, &Model::padded_because, reason); });
}

anydim_status* model_hidden_rows_kept_because(const anydim_model* model,
                                              const char** reason) noexcept {
  return guarded("model_hidden_rows_kept_because",
                 [&] { give_reason(model, &Model::hidden_rows_kept_because, reason); });
}

anydim_status* model_complete(const anydim_model* model,
                              anydim_cancellation* cancellation) noexcept {
  return guarded("model_complete", [&] {
    const auto object = object_of(model);
    object->model()->complete(optional_object_of(cancellation).get());
  });
}

anydim_status* model_statistics(const anydim_model* model, anydim_statistics* statistics) noexcept {
  return guarded("model_statistics", [&] {
    const auto object = object_of(model);
    require_answer(statistics, "statistics");
    const ModelStatistics now = object->model()->statistics();
    give_answer(anydim_statistics{.struct_size = sizeof(anydim_statistics),
                                  .calls = now.calls.calls,
                                  .failed = now.calls.failed,
                                  .packed = now.calls.packed,
                                  .padded = now.calls.padded,
                                  .ragged = now.calls.ragged,
                                  .tokens_given = now.calls.tokens_given,
                                  .tokens_computed = now.calls.tokens_computed,
                                  .tokens_useful = now.calls.tokens_useful,
                                  .kernels = now.kernels.entries,
                                  .kernels_from_cache = now.kernels.from_cache,
                                  .kernels_compiled = now.kernels.compiled,
                                  .kernels_failed = now.kernels.failed,
                                  .kernels_pending = now.kernels.pending,
                                  .compiler_calls = now.kernels.compiler_calls,
                                  .constant_bytes = now.memory.constant_bytes,
                                  .code_bytes = now.memory.code_bytes,
                                  .held_bytes = now.memory.held_bytes,
                                  .seconds = now.calls.seconds,
                                  .latency_p50 = now.calls.latency.p50,
                                  .latency_p90 = now.calls.latency.p90,
                                  .latency_p99 = now.calls.latency.p99,
                                  .latency_p999 = now.calls.latency.p999,
                                  .latency_most = now.calls.latency.most},
                statistics);
  });
}

anydim_status* model_memory_ceiling(const anydim_model* model, const anydim_shape* shapes,
                                    std::size_t count, anydim_memory_ceiling* ceiling) noexcept {
  return guarded("model_memory_ceiling", [&] {
    const auto object = object_of(model);
    require_answer(ceiling, "ceiling");
    if (count > 0) require_pointer(shapes, "shapes");
    std::map<std::string, std::vector<std::int64_t>> extents;
    for (const anydim_shape& shape : std::span(shapes, count)) {
      require_pointer(shape.name, "shapes[].name");
      if (shape.rank > 0) require_pointer(shape.dims, "shapes[].dims");
      if (!extents.emplace(shape.name, std::vector(shape.dims, shape.dims + shape.rank)).second)
        throw Error(ErrorKind::Inputs, "the shape of input '{}' is there twice",
                    ir::printable(shape.name));
    }
    const MemoryCeiling found = object->model()->memory_ceiling(extents);
    give_answer(anydim_memory_ceiling{.struct_size = sizeof(anydim_memory_ceiling),
                                      .arena_bytes = found.arena_bytes.value_or(-1),
                                      .constant_bytes = found.constant_bytes,
                                      .unbounded_because = object->keep(found.unbounded_because)},
                ceiling);
  });
}

anydim_status* model_prepare_ragged(const anydim_model* model,
                                    anydim_cancellation* cancellation) noexcept {
  return guarded("model_prepare_ragged", [&] {
    const auto object = object_of(model);
    static_cast<void>(object->model()->ragged(optional_object_of(cancellation)));
  });
}

anydim_status* model_ragged_input_count(const anydim_model* model, std::size_t* count) noexcept {
  return guarded("model_ragged_input_count",
                 [&] { give_count(object_of(model)->ragged().inputs.size(), count); });
}

anydim_status* model_ragged_input(const anydim_model* model, std::size_t index,
                                  anydim_tensor_info* info) noexcept {
  return guarded("model_ragged_input", [&] {
    give_info(object_of(model)->ragged().inputs, index, "ragged inputs", info);
  });
}

anydim_status* model_ragged_output(const anydim_model* model, std::size_t index,
                                   anydim_tensor_info* info) noexcept {
  return guarded("model_ragged_output",
                 [&] { give_info(object_of(model)->ragged().outputs, index, "results", info); });
}

anydim_status* model_timeline_start(const anydim_model* model, std::size_t events) noexcept {
  return guarded("model_timeline_start", [&] {
    // A number that no timeline has stays one when it is narrowed.
    const std::size_t most = runtime::Timeline::most_events + 1;
    object_of(model)->model()->timeline().start(
        events == 0 ? runtime::Timeline::default_events
                    : static_cast<std::int64_t>(std::min(events, most)));
  });
}

anydim_status* model_timeline_stop(const anydim_model* model) noexcept {
  return guarded("model_timeline_stop", [&] { object_of(model)->model()->timeline().stop(); });
}

anydim_status* model_timeline_write(const anydim_model* model, const char* file) noexcept {
  return guarded("model_timeline_write", [&] {
    const auto object = object_of(model);
    require_pointer(file, "file");
    write_timeline(file, object->model()->timeline());
  });
}

}  // namespace anydim::capi
