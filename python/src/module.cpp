// The extension anydim._anydim: what anydim/_model.py is written over.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "python/src/cache.h"
#include "python/src/device_array.h"
#include "python/src/errors.h"
#include "python/src/interpreter.h"
#include "python/src/model.h"
#include "python/src/model_facts.h"
#include "python/src/tuning.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace anydim::python {

namespace {

constexpr const char* run_text = R"(Calls the model: a dict of all results, by name.

inputs: arrays by name, of the dtypes and ranks that `inputs` says: NumPy's, or any that DLPack can hand over, with device="cuda" also the GPU's. Those that are C-contiguous, aligned and of this machine's byte
    order are read where they lie, others are copied. They must not change until the call ends.
out: arrays by name that results are written to: C-contiguous, writable, of the result's dtype and shape, and without memory in common with an input or each other. After an
    error their contents are unspecified.
cache: what the model appends to, made by its `cache`: inputs and results are then all but those, which stay in it. After an error it is as it was.
arrays: what results that are not in `out` come as: "numpy", "torch" or "dlpack" (objects with __dlpack__). Each is the caller's own and writable; nothing is copied. NumPy has bfloat16 where ml_dtypes is installed, else its bits as uint16.
stream: with device="cuda", a CUDA stream (its address, torch.cuda.Stream, cupy.cuda.Stream): the call comes behind what is on it, and what is put there later behind the call. Results that
    are not NumPy's stay on the GPU, and `run` returns while the call is under way; what fails then is raised by the next call or by `synchronize`.
cancellation: ends the call where it asks for it, as Ctrl-C does: between two launches.

Raises InputError where arrays do not fit or a check of the model's fails, ResourceError where memory is short; the model can be called again after either.)";

constexpr const char* run_ragged_text =
    R"(Calls the model over texts laid end to end, without padding and without a mask.

ids: arrays by name, of shape (tokens, ..) in place of (batch, sequence, ..), for every input but the mask; or the one array where there is one.
offsets: int64 of shape (texts + 1): text t has the rows offsets[t] to offsets[t + 1] - 1.
out, arrays, stream, cancellation: as in `run`. Results with rows have those of the texts, end to end; the others are as `run` gives them.

The first call compiles. Raises UnsupportedError with the op or result for which the model takes no such input.)";

void add_cancellation(nb::module_& module) {
  nb::class_<Cancellation>(module, "Cancellation",
                           "A request to end calls that were given it, made on another thread.")
      .def("__init__", [](Cancellation* self) { new (self) Cancellation(signal_raised); })
      .def("cancel", &Cancellation::cancel,
           "Ends them between two launches: they raise CancelledError.");
}

void add_model(nb::module_& module) {
  nb::class_<CompiledModel>(module, "CompiledModel", nb::is_weak_referenceable(),
                            "A compiled model; anydim.Model adds to it.")
      .def(nb::init<nb::object, const std::optional<std::string>&, const Words&, int>(), "source"_a,
           "folder"_a.none(), "options"_a, "level"_a)
      .def("run", &CompiledModel::run, "inputs"_a, "out"_a = nb::none(), nb::kw_only(),
           "cache"_a = nb::none(), "arrays"_a = "numpy", "stream"_a = nb::none(),
           "cancellation"_a = nb::none(), run_text)
      .def(
          "cache", [](const CompiledModel& model) { return new Cache(*model.engine()); },
          "An empty `Cache` for `run`. Raises UnsupportedError where the model was compiled "
          "without append_in_place.")
      .def("run_ragged", &CompiledModel::run_ragged, "ids"_a, "offsets"_a, "out"_a = nb::none(),
           nb::kw_only(), "arrays"_a = "numpy", "stream"_a = nb::none(),
           "cancellation"_a = nb::none(), run_ragged_text)
      .def("synchronize", &CompiledModel::synchronize,
           "Waits for calls on streams. Raises what the first that failed came to.")
      .def("retune", &CompiledModel::retune,
           "Reads the tuning database again and swaps its choices in behind running calls: none of "
           "them waits.")
      .def("_start_timeline",
           [](const CompiledModel& model, std::int64_t events) {
             model.engine()->model().timeline().start(events);
           })
      .def("_stop_timeline",
           [](const CompiledModel& model) { model.engine()->model().timeline().stop(); })
      .def("_write_timeline",
           [](const CompiledModel& model, const std::string& file) {
             write_timeline(file, model.engine()->model().timeline());
           })
      .def("close", &CompiledModel::close,
           "Ends the model's threads, once calls that are under way have ended. Results stay.")
      .def_prop_ro("closed", &CompiledModel::closed, "Whether close() was called.")
      .def("_inputs", [](const CompiledModel& model) { return inputs_of(*model.engine()); })
      .def("_outputs", [](const CompiledModel& model) { return outputs_of(*model.engine()); })
      .def("_symbols", [](const CompiledModel& model) { return symbols_of(*model.engine()); })
      .def("_stats", [](const CompiledModel& model) { return statistics_of(*model.engine()); })
      .def("_memory_ceiling",
           [](const CompiledModel& model, const Shapes& shapes) {
             return ceiling_of(*model.engine(), shapes);
           })
      .def("_explain", [](const CompiledModel& model, const Shapes& shapes,
                          int repeat) { return explanation_of(*model.engine(), shapes, repeat); })
      .def("_padded_because",
           [](const CompiledModel& model) { return model.engine()->model().padded_because(); })
      .def("_hidden_rows_kept_because", [](const CompiledModel& model) {
        return model.engine()->model().hidden_rows_kept_because();
      });
}

}  // namespace

}  // namespace anydim::python

NB_MODULE(_anydim, module) {
  nb::set_leak_warnings(false);
  module.attr("__version__") = ANYDIM_VERSION;
  anydim::python::translate_errors();
  module.def("end_calls", &anydim::python::end_calls,
             "Ends the calls that are under way; none begins any more.");
  anydim::python::add_cancellation(module);
  anydim::python::add_device_array(module);
  anydim::python::add_cache(module);
  anydim::python::add_model(module);
  module.def("tune", &anydim::python::tune_model, "source"_a, "folder"_a.none(), "options"_a,
             "settings"_a, "lengths"_a, "shapes"_a, "worker"_a, "progress"_a.none(), "level"_a);
  module.def("record_call", &anydim::python::record_call, "folder"_a, "inputs"_a);
  module.def("serve_tuning", &anydim::python::serve_tuning);
}
