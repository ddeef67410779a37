#include "api/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <sstream>

#include "api/append.h"
#include "ir/dims/symbols.h"
#include "tuner/launch_work.h"

namespace anydim {

namespace {

using Clock = std::chrono::steady_clock;

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string kernel_origin(const runtime::LaunchRecord& record) {
  if (record.exact != nullptr) return "for these sizes alone";
  if (record.used != record.met) return "general: the bucket's kernel is not compiled yet";
  return record.origin == runtime::KernelOrigin::Cache ? "from the cache"
                                                       : "compiled now: the cache lacked it";
}

std::vector<std::string> warnings_of(const ir::KernelResources& resources) {
  std::vector<std::string> warnings;
  if (resources.spills > 0)
    warnings.push_back(fmt::format("{} bytes of registers are spilled", resources.spills));
  std::istringstream remarks(resources.remarks);
  for (std::string line; std::getline(remarks, line);) warnings.push_back(line);
  return warnings;
}

LaunchExplanation explain_launch(const runtime::Executable& executable,
                                 const runtime::KernelTables& tables,
                                 const runtime::LaunchRecord& record) {
  const ir::Program::Kernel& kernel =
      executable.program().kernels[static_cast<std::size_t>(record.kernel)];
  const auto used = static_cast<std::size_t>(record.used);
  const runtime::LoadedKernel* loaded =
      record.exact != nullptr ? record.exact->loaded.get()
                              : tables.kernels[static_cast<std::size_t>(record.kernel)][used].get();
  const ir::DispatchTable::Entry& entry =
      record.exact != nullptr ? record.exact->entry : tables.entry(record.kernel, record.used);
  LaunchExplanation launch;
  launch.region = kernel.region.name;
  launch.source = *record.source;
  const std::vector<std::string>& symbols = kernel.region.body.symbols.names();
  for (std::size_t i = 0; i < record.extents.size(); ++i)
    launch.dims.emplace_back(symbols[i], record.extents[i]);
  for (std::size_t i = 0; i < record.keys.size(); ++i)
    launch.keys.emplace_back(kernel.region.keys[i].to_string(), record.keys[i]);
  launch.bucket = to_string(entry.bucket);
  launch.schedule = to_string(entry.schedule);
  launch.chosen = name_of(entry.origin);
  launch.kernel = kernel_origin(record);
  launch.tasks = record.tasks;
  if (loaded != nullptr) {
    launch.code_bytes = loaded->resources.code_bytes;
    launch.warnings = warnings_of(loaded->resources);
  }
  launch.estimated_seconds = executable.backend().estimate(
      kernel.region, entry.schedule, record.keys, executable.pool().threads());
  return launch;
}

TableRow row_of(const runtime::Executable& executable, std::size_t kernel,
                const ir::DispatchTable::Entry& entry) {
  return {.region = executable.program().kernels[kernel].region.name,
          .bucket = to_string(entry.bucket),
          .schedule = to_string(entry.schedule),
          .intervals = entry.bucket.intervals,
          .chosen = std::string(name_of(entry.origin)),
          .expected_seconds = entry.estimated_seconds};
}

void add_roofline(CallExplanation& call, runtime::Context& context,
                  const std::vector<ir::Tensor>& inputs) {
  call.limits = tuner::measure_limits(context.executable().pool());
  tuner::LaunchWorks works(context.executable().program());
  works.watch(context, inputs);
  for (std::size_t i = 0; i < call.launches.size() && i < context.launches().size(); ++i) {
    const runtime::LaunchRecord& record = context.launches()[i];
    call.launches[i].work = works.at(record.kernel, record.keys);
    call.launches[i].roofline_seconds =
        tuner::roofline_seconds(call.launches[i].work, *call.limits);
  }
}

// The shortest of some calls, so that what else the machine does is not in it.
void add_times(CallExplanation& call, runtime::Context& context,
               const std::vector<ir::Tensor>& inputs, int repeat) {
  runtime::Timeline* timeline = context.executable().timeline().get();
  if (timeline == nullptr) return;
  for (int turn = 0; turn < repeat; ++turn) {
    timeline->start();
    const std::uint64_t begun = runtime::clock_ticks();
    context.run(inputs);
    const std::uint64_t ended = runtime::clock_ticks();
    timeline->stop();
    runtime::Timeline::Recording recording = timeline->read();
    std::erase_if(recording.events,
                  [](const auto& event) { return event.kind != runtime::TimelineKind::Launch; });
    const double seconds = recording.seconds_a_tick * static_cast<double>(ended - begun);
    if (recording.events.size() != call.launches.size() ||
        (call.shown_seconds > 0 && seconds >= call.shown_seconds))
      continue;
    call.shown_seconds = seconds;
    for (std::size_t i = 0; i < call.launches.size(); ++i) {
      call.launches[i].begun_seconds =
          recording.seconds_a_tick * static_cast<double>(recording.events[i].begun - begun);
      call.launches[i].lasted_seconds =
          recording.seconds_a_tick * static_cast<double>(recording.events[i].ticks);
    }
  }
}

}  // namespace

std::vector<TableRow> table_rows(const runtime::Executable& executable) {
  std::vector<TableRow> rows;
  const auto tables = executable.kernels().tables();
  for (std::size_t k = 0; k < tables->dispatch->tables.size(); ++k)
    for (const ir::DispatchTable::Entry& entry : tables->dispatch->tables[k].entries)
      rows.push_back(row_of(executable, k, entry));
  return rows;
}

std::vector<TableRow> exact_rows(const runtime::Executable& executable) {
  std::vector<TableRow> rows;
  for (const auto& [kernel, exact] : executable.kernels().exact().list())
    rows.push_back(row_of(executable, static_cast<std::size_t>(kernel), exact->entry));
  return rows;
}

std::map<std::string, std::int64_t> count_by_choice(const std::vector<TableRow>& rows) {
  std::map<std::string, std::int64_t> counts;
  for (const TableRow& row : rows) ++counts[row.chosen];
  return counts;
}

std::string listed(const std::vector<std::pair<std::string, std::int64_t>>& values) {
  std::string text;
  for (const auto& [name, value] : values)
    append(text, "{}{} = {}", text.empty() ? "" : ", ", name, value);
  return text.empty() ? "none" : text;
}

CallExplanation explain_call(runtime::Context& context, const std::vector<ir::Tensor>& inputs,
                             int repeat, ExplanationDepth depth) {
  const runtime::Executable& executable = context.executable();
  const ir::Program& program = executable.program();
  context.run(inputs);
  executable.kernels().complete();  // kernels for these sizes alone, where the policy asks for them

  CallExplanation call;
  std::vector<double> calls;
  std::vector<std::vector<double>> launches;
  for (int turn = 0; turn < repeat; ++turn) {
    context.record_launches(false);
    const auto begin = Clock::now();
    context.run(inputs);
    calls.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    context.record_launches(true);
    context.run(inputs);
    launches.resize(context.launches().size());
    for (std::size_t i = 0; i < launches.size(); ++i)
      launches[i].push_back(context.launches()[i].seconds);
  }
  context.record_launches(false);
  call.call_seconds = median(calls);
  for (std::size_t i = 0; i < context.launches().size(); ++i) {
    call.launches.push_back(explain_launch(executable, context.tables(), context.launches()[i]));
    call.launches.back().measured_seconds = median(launches[i]);
  }

  for (std::size_t slot = 0; slot < program.entry().leaf_symbols.size(); ++slot) {
    if (!program.entry().leaf_symbols[slot].empty())
      call.symbols.emplace_back(program.entry().leaf_symbols[slot], context.slots()[slot]);
  }
  for (const ir::Code::Instruction& instruction : program.entry().instructions) {
    call.fetches += std::holds_alternative<ir::Code::Fetch>(instruction) ? 1 : 0;
  }
  call.stages = static_cast<std::int64_t>(program.stages.size());
  call.memory = context.memory();
  call.constant_bytes = executable.constant_bytes();
  call.arena_ceiling = program.unbounded.empty() ? program.arena_ceiling.to_string()
                                                 : "unbounded: " + program.unbounded;
  const std::int64_t largest = ir::bounds(program.arena_ceiling, program.entry().symbols).high;
  if (program.unbounded.empty() && largest != std::numeric_limits<std::int64_t>::max())
    call.arena_ceiling_bytes = largest;
  call.kernels = executable.kernels().progress();
  call.tables = table_rows(executable);
  call.exact = exact_rows(executable);
  if (depth == ExplanationDepth::Deep) {
    add_times(call, context, inputs, repeat);
    add_roofline(call, context, inputs);
  }
  return call;
}

}  // namespace anydim
