// Maps: `map vector=ELEMENTS threads=THREADS blocks=BLOCKS`. A thread computes `vector`
// neighbouring points at a time; the grid has at most `blocks` blocks a multiprocessor and strides
// over what is left.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "codegen_cuda/form_facts.h"
#include "codegen_cuda/instruction_count.h"
#include "codegen_cuda/loops/map_part.h"
#include "codegen_cuda/occupancy.h"
#include "codegen_cuda/work.h"
#include "ir/schedule_fields.h"

namespace anydim::codegen_cuda {

namespace {

struct MapSchedule {
  std::int64_t vector = 1, threads = 256, blocks = 8;

  static constexpr auto fields() {
    return std::tuple{ir::ScheduleField{"vector", &MapSchedule::vector},
                      ir::ScheduleField{"threads", &MapSchedule::threads},
                      ir::ScheduleField{"blocks", &MapSchedule::blocks}};
  }
  static MapSchedule from(const ir::Schedule& schedule) {
    return ir::read_fields<MapSchedule>(schedule);
  }
  ir::Schedule schedule() const { return ir::write_fields("map", *this); }
};

class MapKind : public KindOf<ir::MapForm> {
 public:
  std::string_view name() const override { return "map"; }

  std::vector<ir::Schedule> candidates(const PlanInputs& inputs, const ir::Bucket&) const override {
    const auto schedule = [](std::int64_t vector, std::int64_t threads) {
      return MapSchedule{.vector = vector, .threads = threads, .blocks = 2048 / threads}.schedule();
    };
    const std::int64_t widest = vector_elements(inputs);
    std::vector<ir::Schedule> schedules{schedule(widest, 256)};
    if (widest > 1) schedules.push_back(schedule(1, 256));
    if (widest > 2) schedules.push_back(schedule(widest / 2, 128));
    return schedules;
  }

  double estimate(const PlanInputs& inputs, const ir::Schedule& schedule,
                  std::span<const std::int64_t> keys) const override {
    return launch_seconds(inputs.target, work_of(inputs, MapSchedule::from(schedule), keys));
  }

  LaunchCycles cycles(const PlanInputs& inputs, const ir::Schedule& schedule,
                      std::span<const std::int64_t> keys) const override {
    return launch_cycles(inputs.target, work_of(inputs, MapSchedule::from(schedule), keys));
  }

  static StreamingWork work_of(const PlanInputs& inputs, const MapSchedule& schedule,
                               std::span<const std::int64_t> keys) {
    const auto& form = form_of(inputs);
    const auto threads = static_cast<double>(schedule.threads);
    const double resident = static_cast<double>(
                     std::min(schedule.blocks, streaming_blocks(inputs.target, schedule.threads))),
                 at_most = resident * inputs.target.multiprocessors;
    double points = 0, blocks = 0, instructions = 0, start = 0, cached = 0;
    for (std::size_t i = 0; i < form.parts.size(); ++i) {
      const ir::MapPart& part = form.parts[i];
      const std::int64_t width = vector_width(part, schedule.vector, inputs.form.symbols);
      const KernelCount count =
          count_kernel(inputs.facts->placed.at(i),
                       {.outer = 0,
                        .width = width,
                        .lanes = part.space.empty() ? ir::DimLeaf{} : part.space.back().variable});
      const double part_points = points_at(inputs, part.space, keys),
                   vectors = std::ceil(part_points / static_cast<double>(width)),
                   turns = std::ceil(vectors / threads);
      // Counted on machine code: whether a vector is whole, and what the points behind the last
      // whole one need.
      constexpr double is_whole = 4, rest = 10, warp = 32;
      const bool ends = ir::divisor(ir::points_of(part.space), inputs.form.symbols) % width != 0;
      instructions +=
          std::ceil(vectors / warp) * warp *
          ((ends ? is_whole + rest : 0) + (count.sections.empty() ? 0 : count.sections[0].vector));
      start += count.block;
      points += part_points;
      blocks = std::max(blocks, turns);
      const std::vector<double> extents = extents_at(inputs, part.space, keys);
      for (const AccessCount& access : count.accesses)
        cached += turns * access.bytes *
                  touched(part.space, extents, access.loops, part_points / std::max(turns, 1.0));
    }
    blocks = std::min(blocks, at_most);
    return {.blocks = blocks,
            .threads = threads,
            .resident = resident,
            .bytes = traffic_bytes(inputs, points),
            .clocks = instructions + blocks * threads * start,
            .cached = cached};
  }

  std::optional<std::string> misfit(const PlanInputs&, const ir::Schedule& chosen) const override {
    const MapSchedule schedule = MapSchedule::from(chosen);
    if (auto reason = threads_misfit(schedule.threads)) return reason;
    const std::int64_t vector = schedule.vector;
    if (vector < 1 || vector > 16 || (vector & (vector - 1)) != 0)
      return "a vector has 1, 2, 4, 8 or 16 elements";
    return std::nullopt;
  }

  EmittedKernel emit(const PlanInputs& inputs, const ir::Bucket& bucket, const ir::Schedule& chosen,
                     bool) const override {
    const auto& form = form_of(inputs);
    const MapSchedule schedule = MapSchedule::from(chosen);
    const auto threads = static_cast<int>(schedule.threads);
    KernelWriter kernel(inputs, bucket, fmt::format("// {}\n", to_string(chosen)));
    CodeScope& entry = kernel.begin_entry({.name = "map", .threads = threads, .dependent = true});
    Dim blocks(1);
    for (std::size_t i = 0; i < form.parts.size(); ++i) {
      const ir::MapPart& part = form.parts[i];
      if (form.parts.size() > 1) entry.line("// Part {} of {}", i + 1, form.parts.size());
      blocks = ir::max(blocks, write_map_part(kernel, entry, part, schedule.vector, threads));
    }
    kernel.end_entry();
    const Dim most(schedule.blocks * inputs.target.multiprocessors);
    ir::DeviceLaunch launch{
        .entry = "map", .grid = {ir::min(blocks, most), Dim(1), Dim(1)}, .block = {threads, 1, 1}};
    launch.dependent = inputs.target.has_dependent_launch();
    return kernel.finish({std::move(launch)});
  }
};

}  // namespace

std::unique_ptr<KernelKind> make_map_kind() { return std::make_unique<MapKind>(); }

}  // namespace anydim::codegen_cuda
