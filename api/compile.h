// From a module to something that runs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/options.h"
#include "ir/module.h"
#include "runtime/context.h"
#include "runtime/executable.h"

namespace anydim {

// Compiles for this machine's CPU: narrows, keeps the outputs asked for, runs the passes, lowers, packs weights and brings in one kernel for each
// region. Runs through runtime::Context; one executable serves any number of them. Throws any kind of Error.
std::shared_ptr<const runtime::Executable> compile(ir::Module module, const CompileOptions& options = {});

// The module after passes: all of the pipeline where `passes` is empty, else these alone, in this order. Throws Error{CommandLine} for an
// unknown pass.
ir::Module optimize(ir::Module module, const std::vector<std::string>& passes, const CompileOptions& options = {});

struct PassInfo {
  std::string name;
  std::string summary;  // why it stands there
};
std::vector<PassInfo> pipeline_passes();  // in order

}  // namespace anydim
