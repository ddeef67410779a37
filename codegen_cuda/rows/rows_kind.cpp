#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "codegen_cuda/form_facts.h"
#include "codegen_cuda/rows/row_passes.h"
#include "codegen_cuda/rows/row_stages.h"
#include "codegen_cuda/rows/rows_cost.h"
#include "codegen_cuda/work.h"
#include "ir/dims/affine.h"

namespace anydim::codegen_cuda {

namespace {

using ir::RowForm;

// A thread spends at most so many on the values that it keeps.
constexpr std::int64_t registers_of_row = 32;

// One reduction and its results, no second pass over the row.
bool is_one_pass(const RowForm& form) {
  const auto passes = std::count_if(form.stages.begin(), form.stages.end(),
                                    [](const ir::RowStage& stage) { return !stage.per_row; });
  return passes == 1 && !form.stages.front().per_row && form.stages.front().stores.empty();
}

// Accesses that run along the variable by ones, less those that stride along it.
int contiguity(const PlanInputs& inputs, const RowForm& form, const ir::DimLeaf& variable) {
  int balance = 0;
  const auto count = [&](const std::vector<Dim>& index, ir::ValueId buffer) {
    const Dim offset =
        ir::linear_offset(index, inputs.region.body.tensor_type(buffer).dims, inputs.form.symbols);
    if (!offset.mentions(variable)) return;
    const auto along = ir::affine_in(offset, variable);
    balance += along && along->stride.is_constant(1) ? 1 : -1;
  };
  const ir::Block& body = inputs.region.body.body;
  for (const ir::RowStage& stage : form.stages) {
    if (stage.per_row) continue;
    for (const ir::ScalarStep& step : stage.program.steps) {
      if (const auto* load = std::get_if<ir::step::Load>(&step.kind))
        count(load->index, body.parameters.at(static_cast<std::size_t>(load->buffer)));
    }
    for (const ir::Store& store : stage.stores)
      count(store.index, body.results.at(static_cast<std::size_t>(store.output)));
  }
  return balance;
}

class RowsKind : public KindOf<RowForm> {
 public:
  std::string_view name() const override { return "rows"; }
  bool takes_segments() const override { return true; }
  // Rows rather than the elements of one.
  static bool lie_side_by_side(const PlanInputs& inputs, const RowForm& form) {
    return !form.outer.empty() && contiguity(inputs, form, form.outer.back().variable) >
                                      contiguity(inputs, form, form.inner.back().variable);
  }

  std::vector<ir::Schedule> candidates(const PlanInputs& inputs,
                                       const ir::Bucket& bucket) const override {
    const auto& form = form_of(inputs);
    KernelWriter sizes(inputs, bucket, "");
    // A segment's length is not known; it is taken for a text's.
    constexpr std::int64_t typical_segment = 512;
    const std::int64_t longest =
        form.segments
            ? typical_segment
            : sizes.interval_of(ir::simplify(ir::points_of(form.inner), sizes.symbols())).high;
    const std::int64_t most_rows =
        sizes.interval_of(ir::simplify(ir::points_of(form.outer), sizes.symbols())).high;
    const std::int64_t vector =
        form.segments ? 1 : row_vector_width(sizes.symbols(), form, vector_elements(inputs));
    const std::int64_t kept = std::max<std::int64_t>(1, inputs.facts->kept_registers);

    std::vector<ir::Schedule> schedules;
    const auto add = [&](const RowsSchedule& fields) {
      const ir::Schedule schedule = fields.schedule();
      if (std::find(schedules.begin(), schedules.end(), schedule) == schedules.end())
        schedules.push_back(schedule);
    };
    // Items where the row fits the registers of its threads.
    const auto items = [&](std::int64_t threads, std::int64_t width) {
      if (form.segments || longest > threads * registers_of_row) return std::int64_t{0};
      const std::int64_t count = (longest + threads * width - 1) / (threads * width);
      // 1024 threads have 64 registers each.
      const std::int64_t budget = threads >= 1024 ? registers_of_row / 2 : registers_of_row;
      return count * width * kept <= budget ? std::max<std::int64_t>(count, 1) : 0;
    };
    if (lie_side_by_side(inputs, form)) {
      add({.threads = longest >= 64 ? 8 : 1, .across = 1, .vector = 1, .items = 0, .split = 1});
    }
    // As many lanes as the row has vectors for.
    std::int64_t fitting = vector;
    while (fitting > 1 && longest < 32 * fitting) fitting /= 2;
    if (longest <= longest_of_warp)
      add({.threads = 32, .across = 0, .vector = fitting, .items = items(32, fitting), .split = 1});
    if (longest > 256) {
      for (const std::int64_t threads :
           {std::int64_t{128}, std::int64_t{256}, std::int64_t{1024}}) {
        if (threads > 128 && longest < threads * 4) continue;
        add({.threads = threads,
             .across = 0,
             .vector = fitting,
             .items = items(threads, fitting),
             .split = 1});
      }
    }
    constexpr std::int64_t worth_splitting = 1 << 15;
    if (is_one_pass(form) && !form.segments && longest >= worth_splitting &&
        most_rows <= inputs.target.multiprocessors / 2) {
      const std::int64_t blocks = std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(
          2, 2 * inputs.target.multiprocessors / std::max<std::int64_t>(most_rows, 1))));
      add({.threads = 256,
           .across = 0,
           .vector = fitting,
           .items = 0,
           .split = std::min<std::int64_t>(blocks, 256)});
    }
    if (schedules.empty()) add({.threads = 32, .across = 0, .vector = 1, .items = 0, .split = 1});
    return schedules;
  }

  double estimate(const PlanInputs& inputs, const ir::Schedule& schedule,
                  std::span<const std::int64_t> keys) const override {
    const double seconds =
        launch_seconds(inputs.target, rows_work(inputs, RowsSchedule::from(schedule), keys));
    constexpr double second_launch = 1.5e-6;
    return RowsSchedule::from(schedule).split > 1 ? seconds + second_launch : seconds;
  }

  LaunchCycles cycles(const PlanInputs& inputs, const ir::Schedule& schedule,
                      std::span<const std::int64_t> keys) const override {
    return launch_cycles(inputs.target, rows_work(inputs, RowsSchedule::from(schedule), keys));
  }

  std::vector<std::vector<std::int64_t>> key_edges(const PlanInputs& inputs) const override {
    // The second key, where there is one, is the length of a row: other lengths suit other groups
    // of threads.
    std::vector<std::vector<std::int64_t>> edges(inputs.region.keys.size());
    const auto& form = form_of(inputs);
    for (std::size_t i = 0; i < inputs.region.keys.size(); ++i) {
      const bool of_row =
          std::any_of(form.inner.begin(), form.inner.end(), [&](const ir::Iteration& loop) {
            const auto leaves = inputs.region.keys[i].leaves();
            return std::any_of(leaves.begin(), leaves.end(),
                               [&](const ir::DimLeaf& leaf) { return loop.extent.mentions(leaf); });
          });
      if (of_row) edges[i] = {longest_of_warp + 1, 4 * longest_of_warp + 1};
    }
    return edges;
  }

  std::optional<std::string> misfit(const PlanInputs& inputs,
                                    const ir::Schedule& schedule) const override {
    const auto& form = form_of(inputs);
    const RowsSchedule fields = RowsSchedule::from(schedule);
    if (fields.across != 0 ? fields.threads < 1 || fields.threads > 32 || form.outer.empty()
                           : threads_misfit(fields.threads).has_value()) {
      return "a row has 32 to 1024 threads in whole warps, or across rows 1 to 32";
    }
    if (fields.split > 1 && (!is_one_pass(form) || form.segments))
      return "only a row of one reduction is split between blocks";
    if (form.segments && (fields.items > 0 || fields.vector > 1))
      return "a segment has any length and may start anywhere";
    return std::nullopt;
  }

  EmittedKernel emit(const PlanInputs& inputs, const ir::Bucket& bucket,
                     const ir::Schedule& schedule, bool) const override {
    const auto& given = form_of(inputs);
    const RowsSchedule fields = RowsSchedule::from(schedule);
    const RowForm form = fields.items > 0 ? with_kept_loads(given) : without_scratch(given);
    KernelWriter kernel(inputs, bucket, fmt::format("// {}\n", to_string(schedule)));
    Emission emission{
        .kernel = kernel, .form = form, .fields = fields, .launches = {}, .workspace = Dim(0)};
    if (fields.across != 0) write_across(emission);
    else if (fields.split > 1) write_split(emission);
    else write_rows(emission);
    for (ir::DeviceLaunch& launch : emission.launches)
      launch.dependent = inputs.target.has_dependent_launch();
    return kernel.finish(std::move(emission.launches), emission.workspace);
  }

 private:
  struct Emission {
    KernelWriter& kernel;
    const RowForm& form;
    RowsSchedule fields;
    std::vector<ir::DeviceLaunch> launches;
    Dim workspace;
  };

  static Dim limited(const KernelWriter& kernel, const Dim& blocks, std::int64_t a_multiprocessor) {
    return ir::min(blocks, Dim(a_multiprocessor * kernel.target().multiprocessors));
  }

  // The rows of this segment, where there are any.
  static void write_segment(KernelWriter& kernel, CodeScope& row, const RowForm& form,
                            RowStagePlan& plan) {
    if (!form.segments) return;
    const std::string offsets = kernel.buffer(static_cast<std::size_t>(form.segments->offsets));
    const std::string number = write_index(kernel, row, form.outer.front().index());
    const std::string rows = write_index(kernel, row, form.inner.front().extent);
    const bool wide = counter_is_wide(kernel, form.inner.front().extent);
    plan.first = kernel.fresh("segment_first");
    plan.last = kernel.fresh("segment_last");
    for (const auto& [name, place] :
         {std::pair(plan.first, number), std::pair(plan.last, number + " + 1")}) {
      row.line("const {} {} = {}segment_bound({}, {}, {});", index_type(wide), name,
               wide ? "" : "(int)", offsets, place, rows);
    }
  }

  static void check_segments(KernelWriter& kernel, CodeScope& entry, const RowForm& form) {
    if (!form.segments) return;
    kernel.use("report");
    kernel.use("segments");
    entry.line("check_offsets(error, {}, {}, {}, {});", form.segments->check,
               kernel.buffer(static_cast<std::size_t>(form.segments->offsets)),
               bare(write_index(kernel, entry, form.segments->count)),
               bare(write_index(kernel, entry, form.inner.front().extent)));
  }

  // Blocks of a grid; one at least where offsets are to be looked at.
  static Dim blocks_for(const RowForm& form, const Dim& blocks) {
    return form.segments ? ir::max(blocks, Dim(1)) : blocks;
  }

  // A warp or a block a row.
  static void write_rows(Emission& emission) {
    KernelWriter& kernel = emission.kernel;
    const auto threads = static_cast<int>(emission.fields.threads);
    const bool warps = threads == 32;
    const int together = warps ? rows_of_block : 1;
    CodeScope& entry = kernel.begin_entry({.name = "rows",
                                           .threads = threads * together,
                                           .kept = kept_values(kernel.inputs(), emission.fields),
                                           .dependent = true});
    RowGroup group{.kind = warps ? RowGroup::Kind::Warp : RowGroup::Kind::Block,
                   .threads = threads};
    group.thread = kernel.fresh("thread");
    group.stores_row = group.thread + " == 0";
    entry.line("const int {} = threadIdx.x % {};", group.thread, threads);
    check_segments(kernel, entry, emission.form);
    const LinearSpace rows = linear_space(kernel, emission.form.outer);
    const bool wide = counter_is_wide(kernel, rows.points);
    const std::string count = kernel.fresh("rows"), row = kernel.fresh("row");
    entry.line("const {} {} = {};", index_type(wide), count,
               bare(write_index(kernel, entry, rows.points)));
    const std::string first =
        warps ? fmt::format("blockIdx.x * {} + threadIdx.x / 32", rows_of_block) : "blockIdx.x";
    kernel.block(entry,
                 counting_loop(wide, row, first, count,
                               warps ? fmt::format("gridDim.x * {}", together) : "gridDim.x"),
                 [&](CodeScope& at) {
                   define_point(kernel, at, rows, {row, wide});
                   RowStagePlan plan{.form = emission.form,
                                     .group = group,
                                     .vector = static_cast<int>(emission.fields.vector),
                                     .items = static_cast<int>(emission.fields.items),
                                     .first = {},
                                     .last = {}};
                   write_segment(kernel, at, emission.form, plan);
                   write_row_stages(kernel, entry, at, plan);
                   if (!warps)
                     at.line("__syncthreads();  // shared sums are free for the next row");
                 });
    kernel.end_entry();
    emission.launches.push_back(
        {.entry = "rows",
         .grid = {limited(kernel, blocks_for(emission.form, ir::ceil_div(rows.points, together)),
                          most_blocks(emission.fields)),
                  Dim(1), Dim(1)},
         .block = {threads * together, 1, 1}});
  }

  // 32 neighbouring rows a block, several threads each.
  static void write_across(Emission& emission) {
    KernelWriter& kernel = emission.kernel;
    const auto threads = static_cast<int>(emission.fields.threads);
    CodeScope& entry =
        kernel.begin_entry({.name = "rows", .threads = threads * 32, .dependent = true});
    RowGroup group{.kind = RowGroup::Kind::Column, .threads = threads};
    group.thread = kernel.fresh("thread");
    const std::string exists = kernel.fresh("exists"), column = kernel.fresh("column");
    group.stores_row = fmt::format("{} && {} == 0", exists, group.thread);
    group.stores_point = exists;
    entry.line("const int {} = threadIdx.x / 32, {} = threadIdx.x % 32;", group.thread, column);
    check_segments(kernel, entry, emission.form);
    const LinearSpace rows = linear_space(kernel, emission.form.outer);
    const bool wide = counter_is_wide(kernel, rows.points);
    const std::string count = kernel.fresh("rows"), first = kernel.fresh("first"),
                      row = kernel.fresh("row");
    entry.line("const {} {} = {};", index_type(wide), count,
               bare(write_index(kernel, entry, rows.points)));
    kernel.block(entry,
                 fmt::format("for ({0} {1} = blockIdx.x * 32; {1} < {2}; {1} += gridDim.x * 32)",
                             index_type(wide), first, count),
                 [&](CodeScope& at) {
                   at.line("// Lanes past the last row repeat it and write nothing.");
                   at.line("const bool {} = {} + {} < {};", exists, first, column, count);
                   at.line("const {} {} = {} ? {} + {} : {} - 1;", index_type(wide), row, exists,
                           first, column, count);
                   define_point(kernel, at, rows, {row, wide});
                   RowStagePlan plan{.form = emission.form,
                                     .group = group,
                                     .vector = 1,
                                     .items = 0,
                                     .first = {},
                                     .last = {}};
                   write_segment(kernel, at, emission.form, plan);
                   write_row_stages(kernel, entry, at, plan);
                   at.line("__syncthreads();  // shared sums are free for the next rows");
                 });
    kernel.end_entry();
    emission.launches.push_back(
        {.entry = "rows",
         .grid = {limited(kernel, blocks_for(emission.form, ir::ceil_div(rows.points, 32)),
                          most_blocks(emission.fields)),
                  Dim(1), Dim(1)},
         .block = {threads * 32, 1, 1}});
  }

  // Several blocks a row; their parts lie in the workspace, 8 bytes each, and a warp a row puts
  // them together.
  static void write_split(Emission& emission) {
    write_parts(emission);
    write_whole(emission);
    emission.workspace =
        ir::points_of(emission.form.outer) * (emission.fields.split * slots_of(emission) * 8);
  }

  static std::int64_t slots_of(const Emission& emission) {
    return static_cast<std::int64_t>(emission.form.stages.front().reductions.size());
  }

  // A part of a row's reduction in the workspace.
  static std::string partial_of(const Emission& emission, std::size_t reduction,
                                const std::string& row, const std::string& part) {
    return fmt::format("*({}*)((char*)workspace + 8 * (({} * {}ll + {}) * {} + {}))",
                       value_type(emission.form.stages.front().reductions[reduction].dtype), row,
                       emission.fields.split, part, slots_of(emission), reduction);
  }

  // Begins an entry whose blocks have a row, or a part of one, at a time.
  struct SplitEntry {
    CodeScope& entry;
    RowGroup group;
    LinearSpace rows;
    std::string count;  // of rows
  };
  static SplitEntry begin_split(Emission& emission, const char* name, RowGroup group) {
    KernelWriter& kernel = emission.kernel;
    LinearSpace rows = linear_space(kernel, emission.form.outer);
    CodeScope& entry =
        kernel.begin_entry({.name = name, .threads = group.threads, .dependent = true});
    group.thread = kernel.fresh("thread");
    entry.line("const int {} = threadIdx.x;", group.thread);
    std::string count = kernel.fresh("rows");
    entry.line("const long long {} = {};", count, bare(write_index(kernel, entry, rows.points)));
    return {entry, std::move(group), std::move(rows), std::move(count)};
  }

  static void write_parts(Emission& emission) {
    KernelWriter& kernel = emission.kernel;
    const RowForm& form = emission.form;
    const auto& reductions = form.stages.front().reductions;
    const std::int64_t split = emission.fields.split;
    const auto threads = static_cast<int>(emission.fields.threads);
    const auto [entry, group, rows, count] =
        begin_split(emission, "parts", {.kind = RowGroup::Kind::Block, .threads = threads});
    const std::string work = kernel.fresh("work"), part = kernel.fresh("part"),
                      row = kernel.fresh("row");
    kernel.block(
        entry,
        fmt::format("for (long long {0} = blockIdx.x; {0} < {1} * {2}; {0} += gridDim.x)", work,
                    count, split),
        [&](CodeScope& at) {
          at.line("const long long {} = {} / {}, {} = {} % {};", row, work, split, part, work,
                  split);
          define_point(kernel, at, rows, {row, true});
          RowForm passes = form;
          std::erase_if(passes.stages, [](const ir::RowStage& stage) { return stage.per_row; });
          RowStagePlan plan{.form = passes,
                            .group = group,
                            .vector = static_cast<int>(emission.fields.vector),
                            .items = 0,
                            .first = {},
                            .last = {}};
          write_share(kernel, at, plan, split, part);
          const std::vector<std::string> values = write_row_stages(kernel, entry, at, plan);
          kernel.block(at, fmt::format("if ({} == 0)", group.thread), [&](CodeScope& one) {
            for (std::size_t i = 0; i < reductions.size(); ++i) {
              one.line("{} = {};", partial_of(emission, i, row, part),
                       values.at(static_cast<std::size_t>(reductions[i].slot)));
            }
          });
          at.line("__syncthreads();  // shared sums are free for the next part");
        });
    kernel.end_entry();
    emission.launches.push_back(
        {.entry = "parts",
         .grid = {limited(kernel, rows.points * split, most_blocks(emission.fields)), Dim(1),
                  Dim(1)},
         .block = {threads, 1, 1}});
  }

  // The vectors of a row that a part has.
  static void write_share(KernelWriter& kernel, CodeScope& at, RowStagePlan& plan,
                          std::int64_t split, const std::string& part) {
    const Dim vectors =
        ir::simplify(ir::floor_div(ir::points_of(plan.form.inner), plan.vector), kernel.symbols());
    const std::string share = kernel.fresh("share"), all = kernel.fresh("all");
    plan.first = kernel.fresh("first");
    plan.last = kernel.fresh("last");
    at.line("const long long {} = {}, {} = ({} + {}) / {};", all, write_index(kernel, at, vectors),
            share, all, split - 1, split);
    at.line("const long long {} = {} * {}, {} = {} + {} < {} ? {} + {} : {};", plan.first, part,
            share, plan.last, plan.first, share, all, plan.first, share, all);
  }

  static void write_whole(Emission& emission) {
    KernelWriter& kernel = emission.kernel;
    const RowForm& form = emission.form;
    const auto& reductions = form.stages.front().reductions;
    auto [entry, group, rows, count] =
        begin_split(emission, "whole", {.kind = RowGroup::Kind::Warp, .threads = 32});
    group.stores_row = group.thread + " == 0";
    const std::string row = kernel.fresh("row");
    kernel.block(
        entry,
        fmt::format("for (long long {0} = blockIdx.x; {0} < {1}; {0} += gridDim.x)", row, count),
        [&](CodeScope& at) {
          define_point(kernel, at, rows, {row, true});
          std::vector<std::string> values(static_cast<std::size_t>(form.accumulators));
          for (std::size_t i = 0; i < reductions.size(); ++i) {
            const auto& reduction = reductions[i];
            const std::string partial = kernel.fresh("partial"), part = kernel.fresh("part"),
                              value = kernel.fresh("reduced");
            at.line("{} {} = {};", value_type(reduction.dtype), partial, neutral(reduction));
            kernel.block(at,
                         fmt::format("for (int {0} = {1}; {0} < {2}; {0} += 32)", part,
                                     group.thread, emission.fields.split),
                         [&](CodeScope& turn) {
                           turn.line("{} = {};", partial,
                                     combined(kernel, reduction, partial,
                                              partial_of(emission, i, row, part)));
                         });
            at.line("const {} {} = {};", value_type(reduction.dtype), value,
                    reduced(kernel, entry, group, reduction, partial));
            values.at(static_cast<std::size_t>(reduction.slot)) = value;
          }
          const RowStagePlan plan{.form = form,
                                  .group = group,
                                  .vector = static_cast<int>(emission.fields.vector),
                                  .items = 0,
                                  .first = {},
                                  .last = {}};
          write_row_results(kernel, at, plan, values);
        });
    kernel.end_entry();
    emission.launches.push_back({.entry = "whole",
                                 .grid = {limited(kernel, rows.points, 16), Dim(1), Dim(1)},
                                 .block = {32, 1, 1}});
  }
};

}  // namespace

std::unique_ptr<KernelKind> make_rows_kind() { return std::make_unique<RowsKind>(); }

}  // namespace anydim::codegen_cuda
