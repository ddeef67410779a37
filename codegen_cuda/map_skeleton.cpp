// Maps: `map vector=ELEMENTS threads=THREADS blocks=BLOCKS`. A thread computes `vector` neighbouring points at a time; the grid has at most `blocks`
// blocks a multiprocessor and strides over what is left.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "codegen_cuda/linear_space.h"
#include "codegen_cuda/tile_transpose.h"
#include "codegen_cuda/vector_lanes.h"
#include "codegen_cuda/work.h"

namespace anydim::codegen_cuda {

namespace {

using ir::Dim;

std::vector<std::int32_t> roots_of(const ir::MapPart& part) {
  std::vector<std::int32_t> roots;
  for (const ir::Store& store : part.stores) roots.push_back(store.step);
  return roots;
}

class MapSkeleton : public Skeleton {
 public:
  std::string_view name() const override { return "map"; }
  bool accepts(const PlanInputs& inputs) const override { return std::holds_alternative<ir::MapForm>(inputs.form.skeleton); }

  std::vector<ir::Schedule> candidates(const PlanInputs& inputs, const ir::Bucket&) const override {
    const auto schedule = [](std::int64_t vector, std::int64_t threads) {
      return ir::Schedule{.name = "map", .fields = {{"vector", vector}, {"threads", threads}, {"blocks", 2048 / threads}}};
    };
    const std::int64_t widest = vector_elements(inputs);
    std::vector<ir::Schedule> schedules{schedule(widest, 256)};
    if (widest > 1) schedules.push_back(schedule(1, 256));
    if (widest > 2) schedules.push_back(schedule(widest / 2, 128));
    return schedules;
  }

  double estimate(const PlanInputs& inputs, const ir::Schedule& schedule, std::span<const std::int64_t> keys) const override {
    const auto& form = std::get<ir::MapForm>(inputs.form.skeleton);
    const auto vector = static_cast<double>(schedule.field("vector")), threads = static_cast<double>(schedule.field("threads"));
    double points = 0, clocks = 0;
    for (const ir::MapPart& part : form.parts) {
      const double part_points = points_at(inputs, part.space, keys);
      // Finding a vector's place costs a division or two.
      constexpr double place = 24;
      clocks += part_points * (point_clocks(part.program) + place / vector);
      points += part_points;
    }
    const double resident = static_cast<double>(schedule.field("blocks"));
    const double blocks = std::ceil(points / (vector * threads));
    return launch_seconds(inputs.target, std::min(blocks, resident * inputs.target.multiprocessors), threads, resident,
                          traffic_bytes(inputs, points), clocks);
  }

  std::vector<std::vector<std::int64_t>> key_edges(const PlanInputs& inputs) const override {
    return {inputs.region.keys.size(), std::vector<std::int64_t>{}};
  }

  std::optional<std::string> misfit(const PlanInputs&, const ir::Schedule& schedule) const override {
    const std::int64_t threads = schedule.field("threads"), vector = schedule.field("vector");
    if (threads < 32 || threads > 1024 || threads % 32 != 0) return "a block has 32 to 1024 threads, in whole warps";
    if (vector < 1 || vector > 16 || (vector & (vector - 1)) != 0) return "a vector has 1, 2, 4, 8 or 16 elements";
    return std::nullopt;
  }

  EmittedKernel emit(const PlanInputs& inputs, const ir::Bucket& bucket, const ir::Schedule& schedule, bool) const override {
    const auto& form = std::get<ir::MapForm>(inputs.form.skeleton);
    const auto threads = static_cast<int>(schedule.field("threads"));
    KernelWriter kernel(inputs, bucket, fmt::format("// {}\n", to_string(schedule)));
    CodeScope& entry = kernel.begin_entry({.name = "map", .threads = threads, .dependent = true});
    Dim blocks(1);
    for (std::size_t i = 0; i < form.parts.size(); ++i) {
      const ir::MapPart& part = form.parts[i];
      if (form.parts.size() > 1) entry.line(fmt::format("// Part {} of {}", i + 1, form.parts.size()));
      const auto transpose = find_transpose(kernel, part, threads);
      const Dim wanted = transpose ? write_transpose(kernel, entry, part, *transpose, threads)
                                   : write_part(kernel, entry, part, schedule.field("vector"), threads);
      blocks = ir::max(blocks, wanted);
    }
    kernel.end_entry();
    const Dim most(schedule.field("blocks") * inputs.target.multiprocessors);
    ir::DeviceLaunch launch{.entry = "map", .grid = {ir::min(blocks, most), Dim(1), Dim(1)}, .block = {threads, 1, 1}};
    launch.dependent = inputs.target.has_dependent_launch();
    return {.source = kernel.finish(), .launches = {launch}};
  }

 private:
  // Blocks that the part keeps busy, each with a vector a thread.
  static Dim write_part(KernelWriter& kernel, CodeScope& entry, const ir::MapPart& part, std::int64_t wanted_width, int threads) {
    const ir::Iteration none{"$one", Dim(1)};
    const ir::Iteration run = part.space.empty() ? none : part.space.back();
    const bool flat = part.space.size() <= 1;
    const std::int64_t multiple = ir::divisor(run.extent, kernel.symbols());
    std::int64_t width = wanted_width;
    while (!flat && width > 1 && multiple % width != 0) width /= 2;
    const bool whole = multiple % width == 0;
    std::vector<ir::Iteration> vectors(part.space.begin(), part.space.end());
    if (vectors.empty()) vectors.push_back(none);
    // The last loop counts vectors.
    const std::string vector_symbol = run.symbol + ".vector";
    vectors.back() = {vector_symbol, ir::simplify(ir::ceil_div(run.extent, width), kernel.symbols())};
    const LinearSpace space = linear_space(kernel, vectors);
    write_grid_stride(kernel, entry, space, threads, [&](CodeScope& at) {
      const IndexVariable vector = *at.find(vector_symbol);
      IndexVariable first = vector;
      if (width > 1) first = name_index(kernel, at, Dim::symbol(vector_symbol) * width, run.symbol);
      at.define(run.symbol, first);
      const auto points = [&](CodeScope& scope, std::int64_t lanes, const IndexVariable& start) {
        ScalarWriter program(kernel, part.program, scope, roots_of(part));
        VectorLanes range(kernel, scope, {.symbol = run.symbol, .extent = run.extent, .width = static_cast<int>(lanes), .first = start});
        range.load(program);
        for (const ir::Store& store : part.stores) range.store(program, store);
        range.finish();
      };
      if (whole || width == 1) {
        points(at, width, first);
        return;
      }
      const std::string end = write_index(kernel, at, run.extent);
      kernel.block(at, fmt::format("if ({} + {} <= {})", first.name, width, end), [&](CodeScope& inside) { points(inside, width, first); });
      const std::string counter = kernel.fresh(first.name);
      kernel.block(at, fmt::format("else for ({0} {1} = {2}; {1} < {3}; ++{1})", index_type(first.wide), counter, first.name, end),
                   [&](CodeScope& inside) { points(inside, 1, {counter, first.wide}); });
    });
    return ir::ceil_div(space.points, threads);
  }
};

}  // namespace

std::unique_ptr<Skeleton> make_map_skeleton() { return std::make_unique<MapSkeleton>(); }

}  // namespace anydim::codegen_cuda
