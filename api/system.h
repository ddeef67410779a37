// What this build and this machine offer.
#pragma once

#include <string>
#include <vector>

#include "api/options.h"

namespace anydim {

struct Finding {
  std::string name;      // e.g. "code generator"
  std::string value;     // one line
  bool missing = false;  // something that running models needs
};

std::string processor_name();  // e.g. "AMD EPYC 9B14"; "unknown" where the system doesn't say

// Processor, threads, memory, code generator, readers, cache folder, limits. Compiles and runs one
// tiny program where it can. Never throws for what is missing.
std::vector<Finding> examine_system(const CompileOptions& options);

}  // namespace anydim
