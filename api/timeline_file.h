// A model's timeline as a file of Chrome's trace events in JSON, which Perfetto's page
// (ui.perfetto.dev), its trace_processor and chrome://tracing open.
//
// Perfetto's own protobuf would be smaller, but needs its schema, can be read by its tools alone
// and shows no more of what is recorded here.
#pragma once

#include <filesystem>
#include <string>

#include "runtime/timeline.h"

namespace anydim {

// One object: "traceEvents", each with "ph", "name", "cat" (call, launch, compile, cache or stage),
// "ts" and "dur" in microseconds since start(), "pid", "tid" and "args"; and "otherData" with how
// many events are there ("events") and were lost ("lost_events").
std::string timeline_json(const runtime::Timeline::Recording& recording);

// What was recorded up to now. Throws Error{CommandLine} where nothing was ever started,
// Error{Write}.
void write_timeline(const std::filesystem::path& file, const runtime::Timeline& timeline);

}  // namespace anydim
