#include "tools/trace_option.h"

#include <CLI/CLI.hpp>
#include <memory>

#include "api/output_files.h"

namespace anydim::tools {

void add_trace_options(CLI::App& command, TraceOptions& options) {
  command.add_option(
      "--trace", options.file,
      "file for Perfetto (ui.perfetto.dev): calls, launches and compilations over time");
  command
      .add_option("--trace-events", options.events,
                  "newest events that --trace keeps, of 128 bytes each")
      ->check(CLI::Range(std::int64_t{1}, runtime::Timeline::most_events))
      ->capture_default_str();
}

void traced(const TraceOptions& trace, const CompileOptions& options,
            const std::function<void(const CompileOptions&)>& work) {
  if (trace.file.empty()) {
    work(options);
    return;
  }
  require_writable(trace.file);
  CompileOptions recording = options;
  recording.timeline = std::make_shared<runtime::Timeline>();
  recording.timeline->start(trace.events);
  try {
    work(recording);
  } catch (...) {
    write_timeline(trace.file, *recording.timeline);
    throw;
  }
  write_timeline(trace.file, *recording.timeline);
}

}  // namespace anydim::tools
