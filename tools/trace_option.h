// --trace FILE: what the command's calls did over time, as a file for Perfetto.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tools/command.h"

namespace anydim::tools {

struct TraceOptions {
  std::string file;
  std::int64_t events = runtime::Timeline::default_events;
};
void add_trace_options(CLI::App& command, TraceOptions& options);

// Carries `work` out with options that record from the compilation on, and writes the file, also
// where the work throws. Without a file it only carries it out. Throws Error{Write} before the work
// where the file's folder does not let it be written.
void traced(const TraceOptions& trace, const CompileOptions& options,
            const std::function<void(const CompileOptions&)>& work);

}  // namespace anydim::tools
