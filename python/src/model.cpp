#include "python/src/model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "python/src/device_array.h"
#include "python/src/interpreter.h"
#include "python/src/names.h"

namespace nb = nanobind;

namespace anydim::python {

namespace {

nb::object interned(const std::string& name) {
  PyObject* text =
      PyUnicode_DecodeUTF8(name.data(), static_cast<Py_ssize_t>(name.size()), "surrogateescape");
  if (text == nullptr) throw nb::python_error();
  PyUnicode_InternInPlace(&text);
  return nb::steal(text);
}

}  // namespace

struct CompiledModel::Given {
  std::vector<ir::Tensor> tensors;
  std::vector<nb::object> kept;
};

struct CompiledModel::Places {
  std::vector<ResultPlace> places;
  std::vector<nb::object> arrays;  // by result; null where none was given
};

// How a call takes and gives arrays.
struct CompiledModel::Way {
  Framework framework;
  std::optional<DeviceStream> stream;  // that was named
  OnDevice device;

  // Arrays on the device are ordered by the default stream where none is named.
  std::optional<DeviceStream> of_call() const {
    return device.met ? std::optional(device.stream) : stream;
  }
  bool leaves_results() const { return stream && framework != Framework::Numpy; }
};

CompiledModel::Way CompiledModel::way_of(const Engine& engine, std::string_view arrays,
                                         nb::handle stream) {
  Way way{.framework = parse_framework(arrays), .stream = stream_of(stream), .device = {}};
  way.device = {
      .model = &engine.model(),
      .stream = way.stream.value_or(DeviceStream{reinterpret_cast<void*>(default_stream)})};
  return way;
}

CompiledModel::CompiledModel(nb::object source, const std::optional<std::string>& folder,
                             const Words& options, int level) {
  const UnderWay under_way;
  std::function<ir::Module()> load;
  if (PyBytes_Check(source.ptr())) {
    const std::span<const char> bytes(PyBytes_AS_STRING(source.ptr()),
                                      static_cast<std::size_t>(PyBytes_GET_SIZE(source.ptr())));
    load = [bytes, folder] { return load_model_bytes(std::as_bytes(bytes), folder); };
  } else {
    load = [path = name_from(source, "models")] { return load_model(path); };
  }
  engine_ = Engine::compile(load, options, level);
  const Model& model = engine_->model();
  signature_ = Signature(model.inputs(), model.outputs());
  if (model.appending() != nullptr)
    beside_cache_ =
        Signature(model.appending()->inputs_beside(), model.appending()->outputs_beside());
}

CompiledModel::Signature::Signature(std::vector<InputInfo> wanted,
                                    const std::vector<InputInfo>& given)
    : inputs(std::move(wanted)) {
  for (const InputInfo& input : inputs) input_names.push_back(interned(input.name));
  for (const InputInfo& output : given) {
    outputs.push_back(output.name);
    output_names.push_back(interned(output.name));
  }
}

void CompiledModel::retune() {
  const UnderWay under_way;
  const std::shared_ptr<Engine> engine = this->engine();
  {
    const nb::gil_scoped_release released;
    engine->model().retune();
  }
  engine->warnings().issue(1);
}

CompiledModel::~CompiledModel() { close(); }

void CompiledModel::close() {
  if (engine_ == nullptr) return;
  std::shared_ptr<Engine> last = std::move(engine_);
  if (!last->made_here()) {
    // Its threads are not in this process: to wait for them would never end.
    new std::shared_ptr<Engine>(std::move(last));
    return;
  }
  if (interpreter_ends()) return;
  const nb::gil_scoped_release released;
  last.reset();  // a call that is under way keeps it until its end
}

std::shared_ptr<Engine> CompiledModel::engine() const {
  if (engine_ == nullptr) throw CallError("ClosedError", "the model was closed: compile it again");
  if (!engine_->made_here())
    throw CallError("ForkedError",
                    "the model was made in the parent of this process, whose threads a fork does "
                    "not bring along: compile it in the child, or start the child by 'spawn' or "
                    "'forkserver' (multiprocessing.set_start_method)");
  return engine_;
}

CompiledModel::Given CompiledModel::gather(Engine& engine, const std::vector<InputInfo>& wanted,
                                           const Names& names, nb::handle mapping,
                                           OnDevice& device) {
  const nb::object given = dict_of(mapping, "inputs");
  Given inputs;
  inputs.tensors.reserve(wanted.size());
  inputs.kept.reserve(wanted.size());
  bool fits = PyDict_Size(given.ptr()) == static_cast<Py_ssize_t>(wanted.size());
  for (std::size_t i = 0; fits && i < wanted.size(); ++i) {
    PyObject* found = PyDict_GetItemWithError(given.ptr(), names[i].ptr());
    fits = found != nullptr;
    if (!fits) break;
    // which code of its library's may drop from the dict
    const nb::object array = nb::borrow(found);
    GivenArray one = tensor_of(array, {"input", wanted[i].name}, &device);
    if (one.copied) engine.count_copied_input();
    fits = one.tensor.dtype() == wanted[i].dtype &&
           (one.tensor.rank() == wanted[i].dims.size() || wanted[i].any_shape);
    inputs.tensors.push_back(std::move(one.tensor));
    inputs.kept.push_back(std::move(one.kept));
  }
  if (fits) return inputs;
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  inputs = {};
  NamedTensors named;
  for (const auto& [name, array] : named_arrays(given, "inputs")) {
    GivenArray one = tensor_of(array, {"input", name}, &device);
    if (one.copied) engine.count_copied_input();
    named[name] = std::move(one.tensor);
    inputs.kept.push_back(std::move(one.kept));
  }
  inputs.tensors = arrange_inputs(wanted, named);
  return inputs;
}

CompiledModel::Places CompiledModel::places_of(const std::vector<std::string>& names,
                                               nb::handle out, Way& way) {
  Places result;
  const std::size_t count = names.size();
  if (way.leaves_results()) result.places.resize(count, ResultPlace::on_device());
  if (out.is_none()) return result;
  const auto given = named_arrays(dict_of(out, "arrays to write to"), "results");
  result.places.resize(count);
  result.arrays.resize(count);
  for (const auto& [name, array] : given) {
    const auto at = std::ranges::find(names, name);
    if (at == names.end())
      throw Error(ErrorKind::Inputs, "the model has no result '{}' to write; its results are {}",
                  name, fmt::join(names, ", "));
    const auto i = static_cast<std::size_t>(at - names.begin());
    GivenPlace place = place_of(array, {"the place of result", name}, &way.device);
    result.places[i] = {.dtype = place.dtype,
                        .dims = std::move(place.dims),
                        .bytes = {place.data, place.bytes},
                        .device = place.on_device};
    result.arrays[i] = std::move(place.kept);
  }
  return result;
}

void CompiledModel::synchronize() {
  const UnderWay under_way;
  const std::shared_ptr<Engine> engine = this->engine();
  engine->synchronize();
}

nb::object CompiledModel::results_of(const Names& names, std::vector<ir::Tensor> results,
                                     const Places& places, const Way& way) {
  nb::object dict = nb::steal(PyDict_New());
  if (!dict.is_valid()) throw nb::python_error();
  for (std::size_t i = 0; i < results.size(); ++i) {
    const bool placed = i < places.arrays.size() && places.arrays[i].is_valid();
    const bool on_device = runtime::device_memory_of(results[i]) != nullptr;
    const nb::object array =
        placed      ? places.arrays[i]
        : on_device ? device_array_of(std::move(results[i]), *way.of_call(), way.framework)
                    : array_of(std::move(results[i]), way.framework);
    if (PyDict_SetItem(dict.ptr(), names[i].ptr(), array.ptr()) < 0) throw nb::python_error();
  }
  return dict;
}

nb::object CompiledModel::run(nb::handle inputs, nb::handle out, Cache* cache,
                              std::string_view arrays, nb::handle stream,
                              std::shared_ptr<Cancellation> cancellation) {
  const UnderWay under_way;
  const std::shared_ptr<Engine> engine = this->engine();
  Way way = way_of(*engine, arrays, stream);
  need_numpy();
  std::optional<Cache::Use> used;
  if (cache != nullptr) {
    used.emplace(*cache);
    (*used)->require_of(engine->model());
  }
  const Signature& call = used ? beside_cache_ : signature_;
  const Given given = gather(*engine, call.inputs, call.input_names, inputs, way.device);
  const Places places = places_of(call.outputs, out, way);
  std::vector<ir::Tensor> results = engine->call(
      [&](ModelContext& context) {
        return used ? context.run(**used, given.tensors, places.places)
                    : context.run(given.tensors, places.places, way.of_call());
      },
      std::move(cancellation));
  engine->warnings().issue(1);
  return results_of(call.output_names, std::move(results), places, way);
}

nb::object CompiledModel::run_ragged(nb::handle ids, nb::handle offsets, nb::handle out,
                                     std::string_view arrays, nb::handle stream,
                                     std::shared_ptr<Cancellation> cancellation) {
  const UnderWay under_way;
  const std::shared_ptr<Engine> engine = this->engine();
  Way way = way_of(*engine, arrays, stream);
  need_numpy();
  const std::vector<InputInfo>& wanted = engine->ragged()->inputs;
  Names names;
  for (const InputInfo& input : wanted) names.push_back(interned(input.name));
  nb::object mapping = nb::borrow(ids);
  if (wanted.size() == 1 && !PyDict_Check(ids.ptr()) &&
      !PyObject_HasAttrString(ids.ptr(), "keys")) {
    mapping = nb::steal(PyDict_New());
    if (!mapping.is_valid() || PyDict_SetItem(mapping.ptr(), names[0].ptr(), ids.ptr()) < 0)
      throw nb::python_error();
  }
  const Given given = gather(*engine, wanted, names, mapping, way.device);
  const GivenArray ends = tensor_of(offsets, {"offsets"});
  const Places places = places_of(signature_.outputs, out, way);
  std::vector<ir::Tensor> results = engine->call(
      [&](ModelContext& context) {
        return context.run_ragged(given.tensors, ends.tensor, places.places, way.of_call());
      },
      std::move(cancellation));
  engine->warnings().issue(1);
  return results_of(signature_.output_names, std::move(results), places, way);
}

}  // namespace anydim::python
