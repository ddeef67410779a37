// A failing graph made small.
#pragma once

#include <functional>

#include "tests/support/random_graph.h"

namespace anydim::tests {

// Drops calls, results, bindings and parameters, puts a parameter in place of a binding, and an
// operand in place of a result, as long as `fails` still holds; it is asked for graphs that the
// reference evaluator accepts only, and holds for `graph`. Functions besides @main go where nothing
// calls them any more.
RandomGraph reduce(RandomGraph graph, const std::function<bool(const RandomGraph&)>& fails);

}  // namespace anydim::tests
