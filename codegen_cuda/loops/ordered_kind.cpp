// Ordered forms: a launch a stage, or two.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "codegen_cuda/loops/ordered_stages.h"
#include "codegen_cuda/occupancy.h"
#include "codegen_cuda/work.h"

namespace anydim::codegen_cuda {

namespace {

using ir::OrderedForm;
using ir::OrderedStage;

class OrderedKernel : public KindOf<OrderedForm> {
 public:
  std::string_view name() const override { return "ordered"; }

  std::vector<ir::Schedule> candidates(const PlanInputs& inputs,
                                       const ir::Bucket& bucket) const override {
    const auto& form = form_of(inputs);
    KernelWriter sizes(inputs, bucket, "");
    const auto most = [&](const std::vector<ir::Iteration>& loops) {
      return sizes.interval_of(ir::simplify(ir::points_of(loops), sizes.symbols())).high;
    };
    const std::int64_t rows = most(form.outer);
    OrderedSchedule plain{.vector = vector_elements(inputs)};
    std::vector<ir::Schedule> schedules{plain.schedule()};
    const auto add = [&](const OrderedSchedule& fields) {
      const ir::Schedule schedule = fields.schedule();
      if (std::find(schedules.begin(), schedules.end(), schedule) == schedules.end())
        schedules.push_back(schedule);
    };
    for (const OrderedStage& stage : form.stages) {
      const OrderedKind kind = kind_of(form, stage);
      OrderedSchedule fields = plain;
      if (kind == OrderedKind::Scan) {
        const std::int64_t longest = most(stage.inner);
        fields.threads = 64;
        fields.items = 1;
        add(fields);
        fields.items = 0;
        add(fields);
        constexpr std::int64_t worth_splitting = 1 << 14;
        if (longest >= worth_splitting && rows <= inputs.target.multiprocessors) {
          fields = plain;
          fields.split = std::clamp<std::int64_t>(
              inputs.target.multiprocessors / std::max<std::int64_t>(rows, 1), 2, 64);
          add(fields);
        }
      }
      if (kind == OrderedKind::Owned) {
        // More owners than a few waves of threads only look at all updates again.
        const std::int64_t most_threads = std::int64_t{4} *
                                          inputs.target.threads_per_multiprocessor *
                                          inputs.target.multiprocessors;
        for (const std::int64_t owners : {std::int64_t{32}, std::int64_t{1024}}) {
          if (owners > 32 && rows > most_threads / owners) continue;
          fields.owners = owners;
          add(fields);
        }
      }
    }
    return schedules;
  }

  double estimate(const PlanInputs& inputs, const ir::Schedule& schedule,
                  std::span<const std::int64_t> keys) const override {
    const auto& form = form_of(inputs);
    const OrderedSchedule fields = OrderedSchedule::from(schedule);
    const auto threads = static_cast<double>(fields.threads);
    const double rows = points_at(inputs, form.outer, keys);
    const auto resident = static_cast<double>(streaming_blocks(inputs.target, fields.threads));
    constexpr double loaded = 400, loaded_near = 60;  // clocks that one thread waits for memory,
                                                      // and for what the nearest cache has
    double seconds = 0;
    for (const OrderedStage& stage : form.stages) {
      const double inner = points_at(inputs, stage.inner, keys), points = rows * inner,
                   clocks = point_clocks(stage.program);
      const double bytes = traffic_bytes(inputs, points);
      // A chain of `steps` that wait for each other takes its time however many others there are.
      const auto launch = [&](double blocks, double work, double steps, double wait) {
        seconds +=
            std::max(launch_seconds(inputs.target, {.blocks = std::max(1.0, std::ceil(blocks)),
                                                    .threads = threads,
                                                    .resident = resident,
                                                    .bytes = bytes,
                                                    .clocks = work}),
                     2e-6 + steps * wait / inputs.target.clock);
      };
      switch (kind_of(form, stage)) {
        case OrderedKind::Points:
          launch(points / (threads * static_cast<double>(fields.vector)), points * clocks, 1,
                 loaded);
          break;
        case OrderedKind::Scan: {
          if (fields.items == 0) {
            launch(rows / threads, points * clocks, inner, loaded / 4);
            break;
          }
          const auto split = static_cast<double>(fields.split),
                     items = static_cast<double>(fields.items);
          const double tiles = std::ceil(inner / split / (threads * items));
          // of a tile: five exchanges in a warp, a barrier, the other warps' totals
          constexpr double exchange = 160;
          if (split > 1) launch(rows * split, points * clocks, tiles, loaded_near);
          launch(rows * split, points * 2 * clocks + rows * split * tiles * threads * exchange,
                 tiles, loaded + exchange);
          break;
        }
        case OrderedKind::Owned: {
          const auto owners = static_cast<double>(fields.owners);
          if (fields.owners == 1) launch(rows / threads, points * clocks, inner, loaded);
          // Each owner looks at all, and makes its share, whose accesses wait for one another.
          else
            launch(rows * owners / threads, points * owners * 8 + points * clocks,
                   inner / 8 + inner / owners * 4, loaded_near);
          break;
        }
        case OrderedKind::Serial: launch(rows / threads, points * clocks, inner, loaded); break;
      }
    }
    return seconds;
  }

  std::optional<std::string> misfit(const PlanInputs&,
                                    const ir::Schedule& schedule) const override {
    const OrderedSchedule fields = OrderedSchedule::from(schedule);
    if (auto reason = threads_misfit(fields.threads)) return reason;
    if (fields.items < 0 || fields.items > 16) return "a thread takes at most 16 points of a tile";
    if (fields.split < 1 || fields.split > 1024) return "1 to 1024 blocks share a row";
    if (fields.split > 1 && fields.items == 0) return "a row of one thread is not split";
    if (fields.owners < 1 || fields.owners > 65536 || (fields.owners & (fields.owners - 1)) != 0)
      return "owners are a power of two, at most 65536";
    if (fields.vector < 1 || fields.vector > 16 || (fields.vector & (fields.vector - 1)) != 0)
      return "a vector has 1, 2, 4, 8 or 16 elements";
    return std::nullopt;
  }

  EmittedKernel emit(const PlanInputs& inputs, const ir::Bucket& bucket,
                     const ir::Schedule& schedule, bool) const override {
    const auto& form = form_of(inputs);
    const OrderedSchedule fields = OrderedSchedule::from(schedule);
    KernelWriter kernel(inputs, bucket, fmt::format("// {}\n", to_string(schedule)));
    OrderedWorkspace workspace;
    std::vector<ir::DeviceLaunch> launches;
    for (std::size_t i = 0; i < form.stages.size(); ++i) {
      const std::string stem =
          form.stages.size() == 1 ? "ordered" : fmt::format("ordered{}", i + 1);
      for (ir::DeviceLaunch& launch :
           write_ordered_stage(kernel, form, form.stages[i], fields, stem, workspace)) {
        launch.dependent = inputs.target.has_dependent_launch();
        launches.push_back(std::move(launch));
      }
    }
    return kernel.finish(std::move(launches), workspace.bytes);
  }
};

}  // namespace

std::unique_ptr<KernelKind> make_ordered_kind() { return std::make_unique<OrderedKernel>(); }

}  // namespace anydim::codegen_cuda
