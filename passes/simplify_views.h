#pragma once

#include "passes/pass.h"

namespace anydim::passes {

// Views in their simplest form, by what they do to dims and whatever ops an exporter wrote them
// with:
// - a chain of reshapes and transposes that in the end only moves whole dims becomes one
//   transpose (or its operand), as torch's `reshape(b * h, s, d)`, transpose, reshape back does;
// - a reshape of a reshape becomes one reshape, and so does a concat of concats along its axis;
// - gather_elements from data that is one row, broadcast along every axis but the gathered one,
//   becomes a gather from that row;
// - scatter_nd that writes an update to every place of the data, each to its own, is the updates.
void simplify_views(ir::Module& module, PassContext& context);

}  // namespace anydim::passes
