// What a compiled model says of itself, as Python's own values; anydim/_model.py gives them their
// classes. With the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include <map>
#include <string>
#include <vector>

#include "python/src/engine.h"

namespace anydim::python {

using Shapes = std::map<std::string, std::vector<std::int64_t>>;

// (name, dtype, dims) of each; a dim is an int, or an expression over symbols as text.
nanobind::list inputs_of(const Engine& engine);
nanobind::list outputs_of(const Engine& engine);
// Names to (low, high, multiple, reason).
nanobind::dict symbols_of(const Engine& engine);
nanobind::dict statistics_of(const Engine& engine);
nanobind::dict ceiling_of(const Engine& engine, const Shapes& shapes);
// Interruptible, as is everything long.
nanobind::dict explanation_of(Engine& engine, const Shapes& shapes, int repeat);

}  // namespace anydim::python
