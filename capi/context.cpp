// Contexts, their calls, and results and traces that come of them.

#include <mutex>
#include <optional>

#include "api/recording.h"
#include "capi/answers.h"
#include "capi/buffers.h"
#include "capi/cache.h"
#include "capi/functions.h"
#include "capi/model.h"
#include "capi/options.h"
#include "capi/results.h"

namespace anydim::capi {

struct ContextObject {
  explicit ContextObject(std::shared_ptr<const ModelObject> of)
      : model(std::move(of)), context(model->model()) {}
  const std::shared_ptr<const ModelObject> model;
  std::shared_ptr<const Cancellation> cancellation;
  std::shared_ptr<CacheObject> cache;  // null: none
  ModelContext context;
  std::mutex at_work;  // of everything but `model`
};

struct TraceObject {
  explicit TraceObject(std::shared_ptr<const ModelObject> of) : model(std::move(of)) {
    recorder = std::make_shared<tuner::TraceRecorder>(trace_of(*model->model()));
  }
  const std::shared_ptr<const ModelObject> model;
  std::shared_ptr<tuner::TraceRecorder> recorder;
};

template <>
struct HandleTraits<anydim_context> : HandleOf<HandleKind::Context, ContextObject> {};
template <>
struct HandleTraits<anydim_trace> : HandleOf<HandleKind::Trace, TraceObject> {};

namespace {

// A context while one function uses it.
class Busy {
 public:
  explicit Busy(const anydim_context* context)
      : object_(object_of(context)), lock_(object_->at_work, std::try_to_lock) {
    if (!lock_.owns_lock())
      throw Error(
          ErrorKind::CommandLine,
          "the context is at work on another thread: give each thread a context of its own");
  }
  ContextObject* operator->() const { return object_.get(); }
  ContextObject& operator*() const { return *object_; }

 private:
  std::shared_ptr<ContextObject> object_;
  std::unique_lock<std::mutex> lock_;
};

// The caller's offsets, read where they lie.
using Offsets = std::span<const std::int64_t>;
ir::Tensor offsets_tensor(Offsets offsets) {
  require_pointer(offsets.data(), "offsets");
  const auto count = static_cast<std::int64_t>(offsets.size());
  return {ir::DType::I64, {count}, std::as_bytes(offsets), nullptr};
}

// What a call is told beside its inputs and outputs.
struct Way {
  std::optional<Offsets> offsets{};
  std::optional<DeviceStream> stream{};
  const std::uint8_t* inputs_on_device = nullptr;
  const std::uint8_t* outputs_on_device = nullptr;
};

Way way_of(const anydim_stream_call* call) {
  require_answer(call, "call");
  Way way{.stream = DeviceStream{call->stream},
          .inputs_on_device = call->inputs_on_device,
          .outputs_on_device = call->outputs_on_device};
  if (call->offsets != nullptr) way.offsets = Offsets(call->offsets, call->offset_count);
  return way;
}

// Calls on texts laid end to end, and on streams, have nothing that is appended to.
bool appends(const ContextObject& object, const Way& way) {
  return object.cache != nullptr && !way.offsets && !way.stream;
}

std::vector<ir::Tensor> run_model(ContextObject& object, std::span<const anydim_input> inputs,
                                  const Way& way, std::span<const ResultPlace> places) {
  const Model& model = *object.model->model();
  const OnDevice on{&model, way.inputs_on_device};
  if (appends(object, way))
    return object.context.run(*BusyCache(object.cache), tensors_of(inputs, object.cache->inputs),
                              places);
  if (!way.offsets)
    return object.context.run(tensors_of(inputs, model.inputs(), on), places, way.stream);
  const ir::Tensor rows = offsets_tensor(*way.offsets);
  return object.context.run_ragged(
      tensors_of(inputs, model.ragged(object.cancellation)->inputs, on), rows, places, way.stream);
}

void run_into(anydim_context* context, std::span<const anydim_input> inputs, const Way& way,
              std::span<anydim_output> outputs) {
  const Busy busy(context);
  const Model& model = *busy->model->model();
  WantedOutputs wanted = places_of(outputs,
                                   appends(*busy, way) ? busy->cache->outputs
                                   : way.offsets       ? model.ragged(busy->cancellation)->outputs
                                                       : model.outputs(),
                                   {&model, way.outputs_on_device});
  // A result that nobody wants is waited for by nobody.
  if (way.stream)
    for (std::size_t r = 0; r < wanted.places.size(); ++r)
      if (!wanted.outputs[r]) wanted.places[r] = ResultPlace::on_device();
  report_outputs(run_model(*busy, inputs, way, wanted.places), wanted, outputs);
}

bool lies_in(const ir::Tensor& tensor, std::span<const anydim_input> inputs) {
  if (runtime::device_memory_of(tensor) != nullptr) return false;
  const auto place = reinterpret_cast<std::uintptr_t>(tensor.bytes().data());
  return std::ranges::any_of(inputs, [&](const anydim_input& input) {
    const auto begin = reinterpret_cast<std::uintptr_t>(input.data);
    return place >= begin && place - begin < input.size;
  });
}

ir::Tensor copied(const ir::Tensor& tensor) {
  ir::Tensor copy(tensor.dtype(), tensor.dims());
  std::ranges::copy(tensor.bytes(), copy.mutable_bytes().begin());
  return copy;
}

void run_owned(anydim_context* context, std::span<const anydim_input> inputs, const Way& way,
               anydim_results** results) {
  give_handle(results, "results", [&] {
    const Busy busy(context);
    std::vector<ResultPlace> places;
    if (way.stream)
      places.resize(busy->model->model()->output_names().size(), ResultPlace::on_device());
    std::vector<ir::Tensor> tensors = run_model(*busy, inputs, way, places);
    // An input that is a result as it is would go with the caller's buffer.
    for (ir::Tensor& tensor : tensors)
      if (lies_in(tensor, inputs)) tensor = copied(tensor);
    return std::make_shared<ResultsObject>(
        appends(*busy, way) ? busy->cache->output_names : busy->model->output_names(),
        std::move(tensors));
  });
}

void require_same_model(bool same, std::string_view what) {
  if (!same)
    throw Error(
        ErrorKind::CommandLine,
        "the {} was made of another model than the context: make one of the context's model", what);
}

}  // namespace

anydim_status* context_create(const anydim_model* model, anydim_context** context) noexcept {
  return guarded("context_create", [&] {
    give_handle(context, "context",
                [&] { return std::make_shared<ContextObject>(object_of(model)); });
  });
}

anydim_status* context_release(anydim_context* context) noexcept {
  return guarded("context_release", [&] { release_handle(context); });
}

anydim_status* context_set_cancellation(anydim_context* context,
                                        anydim_cancellation* cancellation) noexcept {
  return guarded("context_set_cancellation", [&] {
    const Busy busy(context);
    busy->cancellation = optional_object_of(cancellation);
    busy->context.cancel_by(busy->cancellation);
  });
}

anydim_status* context_set_trace(anydim_context* context, anydim_trace* trace) noexcept {
  return guarded("context_set_trace", [&] {
    const Busy busy(context);
    const auto object = optional_object_of(trace);
    require_same_model(object == nullptr || object->model->model() == busy->model->model(),
                       "trace");
    busy->context.record(object == nullptr ? nullptr : object->recorder);
  });
}

anydim_status* context_set_cache(anydim_context* context, anydim_cache* cache) noexcept {
  return guarded("context_set_cache", [&] {
    const Busy busy(context);
    std::shared_ptr<CacheObject> object = optional_object_of(cache);
    require_same_model(object == nullptr || object->cache.is_of(*busy->model->model()), "cache");
    busy->cache = std::move(object);
  });
}

anydim_status* context_run(anydim_context* context, const anydim_input* inputs,
                           std::size_t input_count, anydim_output* outputs,
                           std::size_t output_count) noexcept {
  return guarded("context_run",
                 [&] { run_into(context, {inputs, input_count}, {}, {outputs, output_count}); });
}

anydim_status* context_run_owned(anydim_context* context, const anydim_input* inputs,
                                 std::size_t input_count, anydim_results** results) noexcept {
  return guarded("context_run_owned",
                 [&] { run_owned(context, {inputs, input_count}, {}, results); });
}

anydim_status* context_run_ragged(anydim_context* context, const anydim_input* inputs,
                                  std::size_t input_count, const std::int64_t* offsets,
                                  std::size_t offset_count, anydim_output* outputs,
                                  std::size_t output_count) noexcept {
  return guarded("context_run_ragged", [&] {
    run_into(context, {inputs, input_count}, {.offsets = Offsets(offsets, offset_count)},
             {outputs, output_count});
  });
}

anydim_status* context_run_ragged_owned(anydim_context* context, const anydim_input* inputs,
                                        std::size_t input_count, const std::int64_t* offsets,
                                        std::size_t offset_count,
                                        anydim_results** results) noexcept {
  return guarded("context_run_ragged_owned", [&] {
    run_owned(context, {inputs, input_count}, {.offsets = Offsets(offsets, offset_count)}, results);
  });
}

anydim_status* context_run_on_stream(anydim_context* context, const anydim_stream_call* call,
                                     const anydim_input* inputs, std::size_t input_count,
                                     anydim_output* outputs, std::size_t output_count) noexcept {
  return guarded("context_run_on_stream", [&] {
    run_into(context, {inputs, input_count}, way_of(call), {outputs, output_count});
  });
}

anydim_status* context_run_on_stream_owned(anydim_context* context, const anydim_stream_call* call,
                                           const anydim_input* inputs, std::size_t input_count,
                                           anydim_results** results) noexcept {
  return guarded("context_run_on_stream_owned",
                 [&] { run_owned(context, {inputs, input_count}, way_of(call), results); });
}

anydim_status* context_synchronize(anydim_context* context) noexcept {
  return guarded("context_synchronize", [&] {
    const Busy busy(context);
    busy->context.synchronize();
  });
}

anydim_status* context_packed_rows(const anydim_context* context, std::int64_t* rows) noexcept {
  return guarded("context_packed_rows", [&] {
    const Busy busy(context);
    require_pointer(rows, "rows");
    *rows = busy->context.packed_rows().value_or(-1);
  });
}

anydim_status* results_count(const anydim_results* results, std::size_t* count) noexcept {
  return guarded("results_count", [&] {
    const auto object = object_of(results);
    require_pointer(count, "count");
    *count = object->tensors.size();
  });
}

anydim_status* results_device(const anydim_results* results, std::size_t index,
                              std::int32_t* device) noexcept {
  return guarded("results_device", [&] {
    const auto object = object_of(results);
    require_pointer(device, "device");
    const auto* memory = runtime::device_memory_of(thing_at(object->tensors, index, "results"));
    *device = memory == nullptr ? -1 : memory->device();
  });
}

anydim_status* results_tensor(const anydim_results* results, std::size_t index,
                              anydim_tensor* tensor) noexcept {
  return guarded("results_tensor", [&] {
    const auto object = object_of(results);
    require_answer(tensor, "tensor");
    const ir::Tensor& found = thing_at(object->tensors, index, "results");
    const auto* memory = runtime::device_memory_of(found);
    give_answer(anydim_tensor{.struct_size = sizeof(anydim_tensor),
                              .name = object->names->at(index).c_str(),
                              .dims = found.dims().data(),
                              .data = memory == nullptr ? found.bytes().data() : memory->address(),
                              .size = found.byte_size(),
                              .rank = static_cast<std::uint32_t>(found.rank()),
                              .dtype = dtype_of(found.dtype())},
                tensor);
  });
}

anydim_status* results_release(anydim_results* results) noexcept {
  return guarded("results_release", [&] { release_handle(results); });
}

anydim_status* trace_create(const anydim_model* model, anydim_trace** trace) noexcept {
  return guarded("trace_create", [&] {
    give_handle(trace, "trace", [&] { return std::make_shared<TraceObject>(object_of(model)); });
  });
}

anydim_status* trace_write(anydim_trace* trace, const char* file) noexcept {
  return guarded("trace_write", [&] {
    const auto object = object_of(trace);
    require_pointer(file, "file");
    const tuner::Trace taken = object->recorder->take();
    try {
      tuner::record_trace(file, taken);
    } catch (...) {
      object->recorder->merge(taken);
      throw;
    }
  });
}

anydim_status* trace_release(anydim_trace* trace) noexcept {
  return guarded("trace_release", [&] { release_handle(trace); });
}

}  // namespace anydim::capi
