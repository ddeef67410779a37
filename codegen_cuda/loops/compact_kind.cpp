// Compactions: `compact threads=THREADS items=POINTS split=BLOCKS`. A warp votes on 32 neighbouring
// points at a time, `items` times a tile; what a point's number is among the chosen follows from
// the votes, the warps before and the tiles before. With `split`, blocks share the points after a
// launch that finds how many each block's part has. Places are the same whatever the timing.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "codegen_cuda/occupancy.h"
#include "codegen_cuda/rows/row_parts.h"
#include "codegen_cuda/scalars/scalar_writer.h"
#include "codegen_cuda/work.h"
#include "ir/schedule_fields.h"

namespace anydim::codegen_cuda {

namespace {

using ir::CompactForm;

struct CompactSchedule {
  std::int64_t threads = 256, items = 8, split = 1;

  static constexpr auto fields() {
    return std::tuple{ir::ScheduleField{"threads", &CompactSchedule::threads},
                      ir::ScheduleField{"items", &CompactSchedule::items},
                      ir::ScheduleField{"split", &CompactSchedule::split}};
  }
  static CompactSchedule from(const ir::Schedule& schedule) {
    return ir::read_fields<CompactSchedule>(schedule);
  }
  ir::Schedule schedule() const { return ir::write_fields("compact", *this); }
};

class CompactWriter {
 public:
  CompactWriter(KernelWriter& kernel, const CompactForm& form, const CompactSchedule& fields)
      : kernel_(kernel), form_(form), fields_(fields), warps_(fields.threads / 32) {}

  // How many chosen points each part has, to the workspace.
  ir::DeviceLaunch write_totals() {
    return entry("compact_totals", [&](CodeScope& scope, CodeScope& part) {
      const std::string mine = kernel_.fresh("mine");
      part.line("long long {} = 0;", mine);
      kernel_.block(part,
                    counting_loop(parts_.wide, parts_.point, parts_.first + " + threadIdx.x",
                                  parts_.last, std::to_string(fields_.threads)),
                    [&](CodeScope& at) { at.line("{} += {};", mine, chosen(at)); });
      const std::string total = summed(scope, part, mine);
      part.line("if (threadIdx.x == 0) ((long long*)workspace)[{}] = {};", parts_.part, total);
      part.line("__syncthreads();  // shared sums are free for the next part");
    });
  }

  // The chosen points of each part to their places, and 0 to the places that none takes.
  ir::DeviceLaunch write_places() {
    return entry("compact", [&](CodeScope& scope, CodeScope& part) {
      kernel_.use("compaction");
      const std::string found = kernel_.fresh("found"), tile = kernel_.fresh("tile"),
                        turn = kernel_.fresh("turn"), shared = kernel_.fresh("shared");
      std::string all = found;
      // Two sets, used in turn: a warp may be a tile ahead of one that still reads.
      scope.line("__shared__ int {}[2][{}];", shared, warps_);
      if (fields_.split == 1) part.line("long long {} = 0;", found);
      else all = add_parts(scope, part, found);
      part.line("int {} = 0;", turn);
      kernel_.block(part,
                    counting_loop(parts_.wide, tile, parts_.first, parts_.last,
                                  std::to_string(fields_.threads * fields_.items)),
                    [&](CodeScope& at) {
                      write_tile(at, tile, fmt::format("{}[{}++ & 1]", shared, turn), found);
                    });
      if (form_.count >= 0) {
        part.line("if ({} == {} && threadIdx.x == 0) {}[0] = {};", parts_.part, fields_.split - 1,
                  output(form_.count), all);
      }
      if (form_.positions >= 0) {
        part.line("clear_places<{}>({}, (long long){}, {}, {});", fields_.threads,
                  output(form_.positions), parts_.first, all, parts_.last);
      }
      part.line("__syncthreads();  // shared counts are free for the next part");
    });
  }

 private:
  ir::DeviceLaunch entry(const std::string& name,
                         const std::function<void(CodeScope&, CodeScope&)>& body) {
    CodeScope& scope = kernel_.begin_entry(
        {.name = name, .threads = static_cast<int>(fields_.threads), .dependent = true});
    parts_ = row_parts(kernel_, {}, form_.space, fields_.split, fields_.threads * fields_.items);
    write_row_parts(kernel_, scope, parts_, [&](CodeScope& part) { body(scope, part); });
    kernel_.end_entry();
    return {.entry = name,
            .grid = {grid_of(kernel_, parts_, fields_.threads), Dim(1), Dim(1)},
            .block = {static_cast<std::int32_t>(fields_.threads), 1, 1},
            .dependent = kernel_.target().has_dependent_launch()};
  }

  std::string output(std::int32_t position) const {
    return kernel_.output(static_cast<std::size_t>(position));
  }

  // Whether the point that `at` defines the counter of is chosen.
  std::string chosen(CodeScope& at) {
    define_point(kernel_, at, parts_.inner, {parts_.point, parts_.wide});
    return ScalarWriter(kernel_, form_.program, at, {form_.selected}).value(at, form_.selected);
  }

  std::string summed(CodeScope& scope, CodeScope& part, const std::string& value) {
    kernel_.use("reductions");
    const std::string shared = kernel_.fresh_numbered("sums"),
                      total = kernel_.fresh_numbered("total");
    scope.line("__shared__ long long {}[{}];", shared, warps_);
    part.line(
        "const long long {} = reduce_block<{}>({}, 0ll, {}, [](long long a, long long "
        "b) {{ return a + b; }});",
        total, warps_, value, shared);
    return total;
  }

  // `found`: what the parts before have; the name of what all have.
  std::string add_parts(CodeScope& scope, CodeScope& part, const std::string& found) {
    const std::string before = kernel_.fresh("before"), every = kernel_.fresh("every"),
                      other = kernel_.fresh("other");
    part.line("long long {} = 0, {} = 0;", before, every);
    kernel_.block(part,
                  counting_loop(false, other, "threadIdx.x", std::to_string(fields_.split),
                                std::to_string(fields_.threads)),
                  [&](CodeScope& at) {
                    const std::string total = kernel_.fresh("of_part");
                    at.line("const long long {} = ((const long long*)workspace)[{}];", total,
                            other);
                    at.line("{} += {};", every, total);
                    at.line("if ({} < {}) {} += {};", other, parts_.part, before, total);
                  });
    const std::string all = summed(scope, part, every);
    part.line("long long {} = {};", found, summed(scope, part, before));
    return all;
  }

  void write_tile(CodeScope& at, const std::string& tile, const std::string& shared,
                  const std::string& found) {
    const std::string votes = kernel_.fresh("votes"), of_warp = kernel_.fresh("of_warp"),
                      total = kernel_.fresh("of_tile"), place = kernel_.fresh("place"),
                      item = kernel_.fresh("item"), is_chosen = kernel_.fresh("is_chosen");
    const auto for_items = [&](const std::function<void(CodeScope&)>& body) {
      kernel_.block(
          at,
          fmt::format("#pragma unroll\nfor (int {0} = 0; {0} < {1}; ++{0})", item, fields_.items),
          [&](CodeScope& one) {
            one.line(
                "const {} {} = {} + (int)threadIdx.x / 32 * {} + {} * 32 + (int)threadIdx.x % 32;",
                index_type(parts_.wide), parts_.point, tile, 32 * fields_.items, item);
            body(one);
          });
    };
    at.line("unsigned {}[{}];", votes, fields_.items);
    at.line("int {} = 0;", of_warp);
    for_items([&](CodeScope& one) {
      one.line("bool {} = false;", is_chosen);
      kernel_.block(one, fmt::format("if ({} < {})", parts_.point, parts_.last),
                    [&](CodeScope& inside) { inside.line("{} = {};", is_chosen, chosen(inside)); });
      one.line("{}[{}] = __ballot_sync(0xffffffffu, {});", votes, item, is_chosen);
      one.line("{} += __popc({}[{}]);", of_warp, votes, item);
    });
    at.line("int {};", total);
    at.line("long long {} = {} + count_before<{}>({}, {}, {});", place, found, warps_, of_warp,
            shared, total);
    at.line("{} += {};", found, total);
    if (form_.positions < 0) return;
    for_items([&](CodeScope& one) {
      const std::string mine = fmt::format("{}[{}]", votes, item);
      one.line(
          "if ({0} >> threadIdx.x % 32 & 1) {1}[{2} + __popc({0} & ((1u << threadIdx.x % 32) - "
          "1))] = {3};",
          mine, output(form_.positions), place, parts_.point);
      one.line("{} += __popc({});", place, mine);
    });
  }

  KernelWriter& kernel_;
  const CompactForm& form_;
  const CompactSchedule& fields_;
  std::int64_t warps_;
  RowParts parts_;
};

class CompactKind : public KindOf<CompactForm> {
 public:
  std::string_view name() const override { return "compact"; }

  std::vector<ir::Schedule> candidates(const PlanInputs& inputs,
                                       const ir::Bucket& bucket) const override {
    const auto& form = form_of(inputs);
    KernelWriter sizes(inputs, bucket, "");
    const std::int64_t most =
        sizes.interval_of(ir::simplify(linear_space(sizes, form.space).points, sizes.symbols()))
            .high;
    std::vector<ir::Schedule> schedules{CompactSchedule{}.schedule()};
    constexpr std::int64_t small = 1024, worth_splitting = 1 << 13;
    if (most <= small) schedules.push_back(CompactSchedule{.threads = 64, .items = 1}.schedule());
    if (most >= worth_splitting) {
      const std::int64_t blocks = inputs.target.multiprocessors;
      schedules.push_back(
          CompactSchedule{.items = 4, .split = std::clamp<std::int64_t>(blocks, 2, most_parts)}
              .schedule());
      schedules.push_back(
          CompactSchedule{.split = std::clamp<std::int64_t>(blocks * 4, 2, most_parts)}.schedule());
    }
    return schedules;
  }

  double estimate(const PlanInputs& inputs, const ir::Schedule& schedule,
                  std::span<const std::int64_t> keys) const override {
    const auto& form = form_of(inputs);
    const CompactSchedule fields = CompactSchedule::from(schedule);
    const double points = points_at(inputs, form.space, keys), clocks = point_clocks(form.program);
    const auto threads = static_cast<double>(fields.threads),
               split = static_cast<double>(fields.split);
    const double bytes = traffic_bytes(inputs, points);
    const auto resident = static_cast<double>(streaming_blocks(inputs.target, fields.threads));
    const double tiles = std::ceil(points / split / (threads * static_cast<double>(fields.items)));
    // A part's tiles come one after the other: each waits for memory and for the other warps'
    // counts.
    constexpr double loaded = 400, exchange = 100;
    const auto launch = [&](double of_point, double of_tile) {
      return std::max(launch_seconds(inputs.target, {.blocks = split,
                                                     .threads = threads,
                                                     .resident = resident,
                                                     .bytes = bytes,
                                                     .clocks = points * of_point}),
                      2e-6 + tiles * of_tile / inputs.target.clock);
    };
    const double places = launch(clocks + 6, loaded + exchange);
    return fields.split > 1 ? launch(clocks, loaded) + places : places;
  }

  std::optional<std::string> misfit(const PlanInputs&,
                                    const ir::Schedule& schedule) const override {
    const CompactSchedule fields = CompactSchedule::from(schedule);
    if (auto reason = threads_misfit(fields.threads)) return reason;
    if (fields.items < 1 || fields.items > 16) return "a thread takes 1 to 16 points of a tile";
    if (fields.split < 1 || fields.split > most_parts)
      return fmt::format("1 to {} blocks share the points", most_parts);
    return std::nullopt;
  }

  EmittedKernel emit(const PlanInputs& inputs, const ir::Bucket& bucket,
                     const ir::Schedule& schedule, bool) const override {
    const auto& form = form_of(inputs);
    const CompactSchedule fields = CompactSchedule::from(schedule);
    KernelWriter kernel(inputs, bucket, fmt::format("// {}\n", to_string(schedule)));
    CompactWriter writer(kernel, form, fields);
    std::vector<ir::DeviceLaunch> launches;
    if (fields.split > 1) launches.push_back(writer.write_totals());
    launches.push_back(writer.write_places());
    return kernel.finish(std::move(launches), Dim(fields.split > 1 ? fields.split * 8 : 0));
  }

 private:
  static constexpr std::int64_t most_parts = 1024;
};

}  // namespace

std::unique_ptr<KernelKind> make_compact_kind() { return std::make_unique<CompactKind>(); }

}  // namespace anydim::codegen_cuda
