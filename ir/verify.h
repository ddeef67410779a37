// Checks that a module is well formed: run on what was parsed and after every pass.
#pragma once

#include <string>

#include "ir/error.h"
#include "ir/module.h"

namespace anydim::ir {

struct VerifyOptions {
  ErrorKind kind = ErrorKind::Internal;  // Malformed where the module comes from the user
  bool types_inferred = false;           // every value must have a type
  std::string stage;  // who made the module, e.g. "after pass fuse"; begins the message
};

// Throws Error{options.kind} for the first of: names given twice; ids out of range; values assigned
// twice, used before their definition or outside their block; wrong numbers of operands, results,
// blocks, dims; attributes missing, unknown or of the wrong kind; undeclared symbols in types and
// dims; callees that are not there or don't take what they are given (numbers, dtypes, ranks; for
// regions dims under the substitution of the region's symbols); blocks whose results don't match;
// stale identities of regions. The message is "STAGE: function @main, relu 'Relu_3' (%y): what is
// wrong".
void verify(const Module& module, const VerifyOptions& options = {});

}  // namespace anydim::ir
