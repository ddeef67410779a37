// The extension anydim._anydim: what anydim/_model.py is written over.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "python/src/errors.h"
#include "python/src/interpreter.h"
#include "python/src/model.h"
#include "python/src/model_facts.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace anydim::python {

namespace {

void add_cancellation(nb::module_& module) {
  nb::class_<Cancellation>(module, "Cancellation", "A request to end calls that were given it, made on another thread.")
      .def("__init__", [](Cancellation* self) { new (self) Cancellation(signal_raised); })
      .def("cancel", &Cancellation::cancel, "Ends them between two launches: they raise CancelledError.");
}

void add_model(nb::module_& module) {
  nb::class_<CompiledModel>(module, "CompiledModel", nb::is_weak_referenceable(), "A compiled model; anydim.Model adds to it.")
      .def(nb::init<nb::object, const std::optional<std::string>&, const Words&, int>(), "source"_a, "folder"_a.none(), "options"_a,
           "level"_a)
      .def("run", &CompiledModel::run, "inputs"_a, "out"_a = nb::none(), nb::kw_only(), "arrays"_a = "numpy", "cancellation"_a = nb::none())
      .def("run_ragged", &CompiledModel::run_ragged, "ids"_a, "offsets"_a, "out"_a = nb::none(), nb::kw_only(), "arrays"_a = "numpy",
           "cancellation"_a = nb::none())
      .def("close", &CompiledModel::close)
      .def_prop_ro("closed", &CompiledModel::closed)
      .def("_inputs", [](const CompiledModel& model) { return inputs_of(*model.engine()); })
      .def("_outputs", [](const CompiledModel& model) { return outputs_of(*model.engine()); })
      .def("_symbols", [](const CompiledModel& model) { return symbols_of(*model.engine()); })
      .def("_stats", [](const CompiledModel& model) { return statistics_of(*model.engine()); })
      .def("_memory_ceiling", [](const CompiledModel& model, const Shapes& shapes) { return ceiling_of(*model.engine(), shapes); })
      .def("_explain",
           [](const CompiledModel& model, const Shapes& shapes, int repeat) { return explanation_of(*model.engine(), shapes, repeat); })
      .def("_padded_because", [](const CompiledModel& model) { return model.engine()->model().padded_because(); })
      .def("_hidden_rows_kept_because", [](const CompiledModel& model) { return model.engine()->model().hidden_rows_kept_because(); });
}

}  // namespace

}  // namespace anydim::python

NB_MODULE(_anydim, module) {
  nb::set_leak_warnings(false);
  module.attr("__version__") = ANYDIM_VERSION;
  anydim::python::translate_errors();
  module.def("end_calls", &anydim::python::end_calls, "Ends the calls that are under way; none begins any more.");
  anydim::python::add_cancellation(module);
  anydim::python::add_model(module);
}
