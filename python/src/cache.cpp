#include "python/src/cache.h"

#include <nanobind/stl/string_view.h>

#include "python/src/arrays.h"
#include "python/src/interpreter.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace anydim::python {

Cache::Use::Use(Cache& cache) : cache_(cache), lock_(cache.at_work_, std::try_to_lock) {
  if (!lock_.owns_lock())
    throw Error(ErrorKind::CommandLine,
                "the cache is at work in a call on another thread: give each call one of its own");
}

nb::object Cache::get(std::string_view name, std::string_view arrays) {
  const UnderWay under_way;
  need_numpy();
  const Framework framework = parse_framework(arrays);
  return array_of(Use(*this)->tensor(name), framework);
}

void Cache::set(std::string_view name, nb::handle array) {
  const UnderWay under_way;
  need_numpy();
  const GivenArray given = tensor_of(array, {"the start of", name});
  Use(*this)->set(name, given.tensor);
}

void add_cache(nb::module_& module) {
  nb::class_<Cache>(
      module, "Cache",
      "What a model appends to from call to call, as a decoder's keys and values, held in memory "
      "with room for more. Made by `Model.cache`; several may grow beside each other.")
      .def_prop_ro("length", &Cache::length, "How much has been appended: the most of all.")
      .def_prop_ro("nbytes", &Cache::bytes, "Memory held, room included.")
      .def("reserve", &Cache::reserve, "length"_a,
           "The next call takes memory for so much. Without it the cache doubles where it is full.")
      .def("truncate", &Cache::truncate, "length"_a,
           "Forgets all beyond ``length``: drafts that were rejected, or 0 for a new sequence.")
      .def("get", &Cache::get, "name"_a, nb::kw_only(), "arrays"_a = "numpy",
           "A copy of what has been appended, by the name of the model's input or result.")
      .def("set", &Cache::set, "name"_a, "array"_a,
           "Takes a copy of ``array`` in place of what is there.");
}

}  // namespace anydim::python
