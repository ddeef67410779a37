#include "api/timeline_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "ir/error.h"
#include "tuner/json.h"
#include "tuner/text_file.h"

namespace anydim {

namespace {

using runtime::TimelineEvent;
using runtime::TimelineKind;
using runtime::TimelineNote;

std::string_view category_of(TimelineKind kind) {
  switch (kind) {
    case TimelineKind::Call: return "call";
    case TimelineKind::Launch: return "launch";
    case TimelineKind::Compile: return "compile";
    case TimelineKind::CacheRead: return "cache";
    case TimelineKind::Stage: return "stage";
  }
  return {};
}

class TimelineText {
 public:
  explicit TimelineText(const runtime::Timeline::Recording& recording) : recording_(recording) {
    for (const TimelineNote& note : recording.notes) {
      Note& text = notes_.emplace_back();
      text.name = tuner::quoted_json(note.name);
      for (const auto& [name, value] : note.facts)
        fmt::format_to(std::back_inserter(text.facts), ",{}:{}", tuner::quoted_json(name),
                       tuner::quoted_json(value));
      for (const std::string& symbol : note.symbols)
        text.symbols.push_back(tuner::quoted_json(symbol));
    }
  }

  std::string text() {
    put(R"({{"displayTimeUnit":"ns","otherData":{{"recorder":"anydim","events":{},"lost_events":{}}},"traceEvents":[)",
        recording_.events.size(), recording_.lost);
    put(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":"anydim, {} events lost"}}}})",
        process_, recording_.lost);
    for (const auto& [thread, name] : recording_.threads)
      put(",\n{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":{}}"
          "}}}",
          process_, thread, tuner::quoted_json(name));
    for (const TimelineEvent& event : recording_.events) add(event);
    put("]}}\n");
    return std::move(text_);
  }

 private:
  struct Note {
    std::string name, facts;  // as JSON; facts each begin with a comma
    std::vector<std::string> symbols;
  };

  template <typename... Parts>
  void put(fmt::format_string<Parts...> format, Parts&&... parts) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Parts>(parts)...);
  }

  double microseconds(std::uint64_t ticks) const {
    return 1e6 * recording_.seconds_a_tick * static_cast<double>(ticks);
  }

  void add(const TimelineEvent& event) {
    const Note& note = notes_.at(event.note);
    // What began before start() is shown from there on.
    const std::uint64_t begun = std::max(event.begun, recording_.begun);
    const std::uint64_t end = std::max(event.begun + event.ticks, begun);
    put(",\n{{\"ph\":\"X\",\"name\":{},\"cat\":\"{}\",\"pid\":{},\"tid\":{},\"ts\":{:.3f},\"dur\":{"
        ":.3f},\"args\":{{",
        note.name, category_of(event.kind), process_, event.thread,
        microseconds(begun - recording_.begun), microseconds(end - begun));
    const auto& values = event.values;
    switch (event.kind) {
      case TimelineKind::Call:
        put(R"("rows_given":{},"rows_computed":{},"rows_left_out":{},"rows_useful":{},"input_bytes":{},"output_bytes":{},"failed":{})",
            values[0], values[1], values[0] - values[1], values[2], values[3], values[4],
            values[5] != 0);
        break;
      case TimelineKind::Launch:
        put(R"("bytes":{},"kernel_missing":{},"symbols":{{)", values[1], values[0] != 0);
        for (std::size_t i = 0;
             i < std::min(note.symbols.size(), values.size() - TimelineEvent::first_extent); ++i)
          put("{}{}:{}", i == 0 ? "" : ",", note.symbols[i],
              values[i + TimelineEvent::first_extent]);
        put("}}");
        break;
      case TimelineKind::Compile:
        put(R"("code_bytes":{},"background":{})", values[0],
            recording_.threads.contains(event.thread));
        break;
      case TimelineKind::CacheRead:
        put(R"("code_bytes":{},"kernel cache":"had it")", values[0]);
        break;
      case TimelineKind::Stage: break;  // has no facts either
    }
    put("{}}}}}", note.facts);
  }

  const runtime::Timeline::Recording& recording_;
  const int process_ = getpid();
  std::vector<Note> notes_;
  std::string text_;
};

}  // namespace

std::string timeline_json(const runtime::Timeline::Recording& recording) {
  return TimelineText(recording).text();
}

void write_timeline(const std::filesystem::path& file, const runtime::Timeline& timeline) {
  if (timeline.version() == 0)
    throw Error(ErrorKind::CommandLine, "no timeline was started, so that there is none to write");
  tuner::write_text_file(file, timeline_json(timeline.read()));
}

}  // namespace anydim
