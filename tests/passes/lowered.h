// Texts lowered to programs, for the tests of what lowering gives.
#pragma once

#include <string>

#include "ir/text/parse.h"
#include "passes/lower.h"
#include "tests/support/table_backend.h"

namespace anydim::tests {

inline ir::Program lowered(const std::string& text, const TableBackend& backend = {}) {
  ir::Module module = ir::parse(text);
  passes::PipelineOptions options;
  options.verify = true;
  passes::PassContext context{options, &backend};
  passes::run_passes(module, context);
  return passes::lower(module, context);
}

}  // namespace anydim::tests
