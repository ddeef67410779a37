// Sorts: `sort threads=THREADS items=ENTRIES`. A block sorts a tile of threads * items entries in
// shared memory. Rows that are longer are merged by one launch for each doubling of the runs that
// the bucket may need, of two entries in turn: each leaves the number of the next one where that
// one looks for it. A launch that the actual rows do not need does nothing, and the last that they
// do need writes the result. Equal keys keep their order in every merge.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "codegen_cuda/scalars/linear_space.h"
#include "codegen_cuda/scalars/scalar_writer.h"
#include "codegen_cuda/work.h"
#include "ir/schedule_fields.h"

namespace anydim::codegen_cuda {

namespace {

using ir::SortForm;

// Threads that share a multiprocessor, with as many registers as that leaves; without this bound
// the assembler spills some to fit more threads.
constexpr int most_threads = 1024;

struct SortSchedule {
  std::int64_t threads = 256, items = 8;

  static constexpr auto fields() {
    return std::tuple{ir::ScheduleField{"threads", &SortSchedule::threads},
                      ir::ScheduleField{"items", &SortSchedule::items}};
  }
  static SortSchedule from(const ir::Schedule& schedule) {
    return ir::read_fields<SortSchedule>(schedule);
  }
  ir::Schedule schedule() const { return ir::write_fields("sort", *this); }

  std::int64_t tile() const { return threads * items; }
};

ir::DType key_dtype(const SortForm& form) {
  return form.program.steps.at(static_cast<std::size_t>(form.key)).dtype;
}

// What is sorted: numbers alone where several keys are compared, which are computed at each
// comparison; else numbers with their key.
struct SortEntry {
  bool keyed = false, wide = false;
  std::string type, number;  // of an entry, and of its number
  std::int64_t bytes = 0;
};
SortEntry entry_of(const SortForm& form, bool wide_numbers) {
  SortEntry entry{
      .keyed = form.depth.empty(), .wide = wide_numbers, .type = {}, .number = {}, .bytes = 0};
  if (entry.keyed) {
    entry.wide = wide_numbers || ir::size_of(key_dtype(form)) == 8;
    entry.type = entry.wide ? "Entry64" : "Entry32";
  }
  entry.number = index_type(entry.wide);
  if (!entry.keyed) entry.type = entry.number;
  entry.bytes = (entry.wide ? 8 : 4) * (entry.keyed ? 2 : 1);
  return entry;
}

// Merging counts to twice a run, and a grid's tiles beyond the row.
bool wide_numbers(std::int64_t longest) { return longest > std::int64_t{1} << 29; }

class SortWriter {
 public:
  // Merges count from 0.
  enum class Kind : unsigned char { Tiles, EvenMerge, OddMerge };

  SortWriter(KernelWriter& kernel, const SortForm& form, const SortSchedule& fields)
      : kernel_(kernel), form_(form), fields_(fields), items_(form.item.extent) {
    entry_ = entry_of(form, wide_numbers(longest()));
    kernel.use("sorting");
  }

  std::int64_t longest() const { return kernel_.interval_of(items_).high; }
  Dim workspace_bytes() const {
    if (longest() <= fields_.tile()) return {};
    return linear_space(kernel_, form_.outer).points * items_ * (2 * entry_.bytes) + turns_bytes;
  }

  ir::DeviceLaunch write_tiles() {
    return entry(Kind::Tiles, [&](CodeScope& row) {
      const std::string count = kernel_.fresh("count"), local = kernel_.fresh("i");
      row.line(
          "const int {count} = {points} - {first} < {tile} ? (int)({points} - {first}) : {tile};",
          fmt::arg("count", count), fmt::arg("points", points_), fmt::arg("first", first_),
          fmt::arg("tile", fields_.tile()));
      each(row, local, count, [&](CodeScope& at) {
        const std::string number = fmt::format("{} + {}", first_, local);
        if (!entry_.keyed) {
          at.line("{}[{}] = {};", entries_, local, number);
          return;
        }
        const std::string item = kernel_.fresh("item");
        at.line("const {} {} = {};", entry_.number, item, number);
        const std::string value = key(at, item);
        at.line("{}[{}] = {{{}, {}}};", entries_, local, value, item);
      });
      row.line("__syncthreads();");
      row.line(
          "const {type}* {sorted} = sort_tile<{items}>({entries}, {other}, {count}, {before});",
          fmt::arg("type", entry_.type), fmt::arg("sorted", sorted_),
          fmt::arg("items", fields_.items), fmt::arg("entries", entries_),
          fmt::arg("other", other_), fmt::arg("count", count), fmt::arg("before", before_));
      write_run(row, local, count, number(fields_.tile()),
                longest() <= fields_.tile() ? "" : runs(0));
    });
  }

  // Runs become runs of twice the length.
  ir::DeviceLaunch write_merge(Kind kind) {
    const int source = kind == Kind::OddMerge ? 1 : 0;
    return entry(kind, [&](CodeScope& row) {
      const std::string from = kernel_.fresh("from"), count = kernel_.fresh("count"),
                        local = kernel_.fresh("i");
      row.line("const {}* {} = {};", entry_.type, from, runs(source));
      row.line(
          "const int {count} = merge_runs<{tile}, {items}>({from}, {points}, {first}, {run}, "
          "{entries}, {other}, {before});",
          fmt::arg("count", count), fmt::arg("tile", fields_.tile()),
          fmt::arg("items", fields_.items), fmt::arg("from", from), fmt::arg("points", points_),
          fmt::arg("first", first_), fmt::arg("run", run_), fmt::arg("entries", entries_),
          fmt::arg("other", other_), fmt::arg("before", before_));
      row.line("const {}* {} = {};", entry_.type, sorted_, other_);
      write_run(row, local, count, "2 * " + run_, runs(1 - source));
    });
  }

 private:
  // One block a tile of a row, over all rows.
  ir::DeviceLaunch entry(Kind kind, const std::function<void(CodeScope&)>& body) {
    const std::string name = kind == Kind::Tiles       ? "sort"
                             : kind == Kind::EvenMerge ? "merge_even"
                                                       : "merge_odd";
    const auto threads = static_cast<int>(fields_.threads);
    CodeScope& scope = kernel_.begin_entry({.name = name,
                                            .threads = threads,
                                            .blocks = most_threads / threads,
                                            .tensor_maps = 0,
                                            .dependent = true});
    const LinearSpace rows = linear_space(kernel_, form_.outer);
    const std::string of_row = kernel_.fresh("tiles"), work = kernel_.fresh("work");
    rows_ = kernel_.fresh("rows");
    points_ = kernel_.fresh("points");
    first_ = kernel_.fresh("first");
    row_ = kernel_.fresh("row");
    before_ = kernel_.fresh("before");
    entries_ = kernel_.fresh("entries");
    other_ = kernel_.fresh("other");
    sorted_ = kernel_.fresh("sorted");
    run_ = kernel_.fresh("run");
    scope.line("__shared__ {type} {entries}[{tile}], {other}[{tile}];",
               fmt::arg("type", entry_.type), fmt::arg("entries", entries_),
               fmt::arg("other", other_), fmt::arg("tile", fields_.tile()));
    scope.line("const long long {} = {};", rows_, bare(write_index(kernel_, scope, rows.points)));
    scope.line("const {} {} = {};", entry_.number, points_,
               bare(write_index(kernel_, scope, items_)));
    // Turns count merges from 0; that of an even merge and that of an odd one lie in front of the
    // runs.
    const std::string turns = "((long long*)workspace)",
                      first_thread = "if (blockIdx.x == 0 && threadIdx.x == 0) ";
    if (kind != Kind::Tiles) {
      const int source = kind == Kind::OddMerge ? 1 : 0;
      const std::string turn = kernel_.fresh("turn");
      scope.line("const long long {} = {}[{}];", turn, turns, source);
      scope.line("{}{}[{}] = {} + 1;", first_thread, turns, 1 - source, turn);
      scope.line(
          "if ({} <= (long long){} << {}) return;  // launched for a capacity above these rows",
          points_, fields_.tile(), turn);
      scope.line("const {} {} = {} << {};", entry_.number, run_, number(fields_.tile()), turn);
    } else if (longest() > fields_.tile()) {
      scope.line("{}{}[0] = 0;", first_thread, turns);
    }
    scope.line("const long long {0} = ({1} + {2}) / {3};", of_row, points_, fields_.tile() - 1,
               fields_.tile());
    if (entry_.keyed)
      scope.line("const auto {0} = []({1} a, {1} b) {{ return a.key < b.key; }};", before_,
                 entry_.type);
    kernel_.block(scope,
                  fmt::format("for (long long {0} = blockIdx.x; {0} < {1} * {2}; {0} += gridDim.x)",
                              work, rows_, of_row),
                  [&](CodeScope& at) {
                    at.line("const long long {} = {} / {};", row_, work, of_row);
                    at.line("const {type} {first} = ({type})({work} % {tiles}) * {tile};",
                            fmt::arg("type", entry_.number), fmt::arg("first", first_),
                            fmt::arg("work", work), fmt::arg("tiles", of_row),
                            fmt::arg("tile", fields_.tile()));
                    define_point(kernel_, at, rows, {row_, true});
                    if (!entry_.keyed) compare_keys(at);
                    body(at);
                  });
    kernel_.end_entry();
    const Dim most((2048 / fields_.threads) * kernel_.target().multiprocessors);
    const Dim blocks = ir::min(rows.points * ir::ceil_div(items_, fields_.tile()), most);
    return {.entry = name,
            .grid = {blocks, Dim(1), Dim(1)},
            .block = {threads, 1, 1},
            .dependent = kernel_.target().has_dependent_launch()};
  }

  std::string number(std::int64_t value) const {
    return std::to_string(value) + (entry_.wide ? "ll" : "");
  }

  void each(CodeScope& row, const std::string& local, const std::string& count,
            const std::function<void(CodeScope&)>& body) {
    kernel_.block(
        row, counting_loop(false, local, "threadIdx.x", count, std::to_string(fields_.threads)),
        body);
  }

  // Where the row's runs lie: in one of two arrays of the workspace in turn.
  std::string runs(int array) const {
    const std::string before = array == 0 ? row_ : fmt::format("({} + {})", rows_, row_);
    return fmt::format("({}*)((char*)workspace + {}) + {} * {}", entry_.type, turns_bytes, before,
                       points_);
  }

  std::string key(CodeScope& at, const std::string& item) {
    at.define(form_.item.variable, {item, entry_.wide});
    ScalarWriter program(kernel_, form_.program, at, {form_.key});
    return fmt::format("{}sort_key({})", form_.descending ? "~" : "", program.value(at, form_.key));
  }

  // Numbers by the first of their keys that differ.
  void compare_keys(CodeScope& row) {
    const LinearSpace depth = linear_space(kernel_, form_.depth);
    const bool wide = counter_is_wide(kernel_, depth.points);
    const std::string point = kernel_.fresh("point"), order = kernel_.fresh("order"),
                      type = ir::size_of(key_dtype(form_)) == 8 ? "unsigned long long" : "unsigned";
    const std::string points = bare(write_index(kernel_, row, depth.points));
    write_lambda(
        row, before_, fmt::format("const {0} a, const {0} b", entry_.number),
        [&](CodeScope& inside) {
          inside.line("int {} = 0;", order);
          kernel_.block(
              inside,
              fmt::format("for ({type} {point} = 0; {point} < {points} && {order} == 0; ++{point})",
                          fmt::arg("type", index_type(wide)), fmt::arg("point", point),
                          fmt::arg("points", points), fmt::arg("order", order)),
              [&](CodeScope& at) {
                define_point(kernel_, at, depth, {point, wide});
                const std::string keys[] = {kernel_.fresh("key_a"), kernel_.fresh("key_b")};
                for (const int side : {0, 1}) {
                  at.line("{} {};", type, keys[side]);
                  kernel_.block(at, "", [&](CodeScope& one) {
                    const std::string value = key(one, side == 0 ? "a" : "b");
                    one.line("{} = {};", keys[side], value);
                  });
                }
                at.line("{0} = {1} < {2} ? -1 : {1} > {2};", order, keys[0], keys[1]);
              });
          inside.line("return {} < 0;", order);
        });
  }

  // The tile that lies sorted in shared memory: to the result where `run` covers a row, else to
  // `runs`, which is empty where all rows are covered.
  void write_run(CodeScope& row, const std::string& local, const std::string& count,
                 const std::string& run, const std::string& runs) {
    const auto store_result = [&](CodeScope& inside) {
      each(inside, local, count, [&](CodeScope& at) {
        const std::string rank = kernel_.fresh("rank");
        at.line("const {} {} = {} + {};", entry_.number, rank, first_, local);
        at.define(form_.rank.variable, {rank, entry_.wide});
        const auto output = static_cast<std::size_t>(form_.output);
        const std::vector<Dim>& dims = kernel_.output_type(output).dims;
        const std::string offset = bare(write_offset(
            kernel_, at, ir::linear_offset(form_.index, dims, kernel_.symbols()), dims));
        const std::string wanted =
            form_.rank.extent == items_
                ? ""
                : fmt::format("if ({} < {}) ", rank,
                              bare(write_index(kernel_, at, form_.rank.extent)));
        at.line("{}{}[{}] = number_of({}[{}]);", wanted, kernel_.output(output), offset, sorted_,
                local);
      });
    };
    if (runs.empty()) {
      store_result(row);
    } else {
      kernel_.block(row, fmt::format("if ({} <= {})", points_, run), store_result);
      kernel_.block(row, "else", [&](CodeScope& inside) {
        const std::string to = kernel_.fresh("to");
        inside.line("{}* {} = {} + {};", entry_.type, to, runs, first_);
        each(inside, local, count,
             [&](CodeScope& at) { at.line("{0}[{1}] = {2}[{1}];", to, local, sorted_); });
      });
    }
    row.line("__syncthreads();  // the tile's place is free for the next");
  }

  KernelWriter& kernel_;
  const SortForm& form_;
  const SortSchedule& fields_;
  Dim items_;
  SortEntry entry_;
  static constexpr std::int64_t turns_bytes = 16;
  std::string rows_, points_, first_, row_, before_, entries_, other_, sorted_, run_;
};

// Bytes of an entry in any bucket.
std::int64_t widest_entry(const PlanInputs& inputs) {
  const auto& form = std::get<SortForm>(inputs.form.kind);
  return entry_of(form, wide_numbers(ir::bounds(form.item.extent, inputs.form.symbols).high)).bytes;
}

std::int64_t longest_row(const PlanInputs& inputs, const ir::Bucket& bucket) {
  const auto& form = std::get<SortForm>(inputs.form.kind);
  return KernelWriter(inputs, bucket, "").interval_of(form.item.extent).high;
}

class SortKind : public KindOf<SortForm> {
 public:
  std::string_view name() const override { return "sort"; }

  std::vector<ir::Schedule> candidates(const PlanInputs& inputs,
                                       const ir::Bucket& bucket) const override {
    const std::int64_t longest = longest_row(inputs, bucket);
    // A thread that computes keys at each comparison holds less, so that there are more of them.
    const bool keyed = form_of(inputs).depth.empty();
    const std::int64_t items = keyed && widest_entry(inputs) <= 8 ? 8 : 4;
    std::vector<ir::Schedule> schedules{SortSchedule{.items = items}.schedule()};
    for (const SortSchedule& fields : {SortSchedule{32, 4}, SortSchedule{128, 4}}) {
      if (longest <= fields.tile()) schedules.push_back(fields.schedule());
    }
    return schedules;
  }

  double estimate(const PlanInputs& inputs, const ir::Schedule& schedule,
                  std::span<const std::int64_t> keys) const override {
    const auto& form = form_of(inputs);
    const SortSchedule fields = SortSchedule::from(schedule);
    const SortEntry entry = entry_of(form, false);
    const double rows = points_at(inputs, form.outer, keys),
                 items = points_at(inputs, std::span(&form.item, 1), keys);
    const auto threads = static_cast<double>(fields.threads),
               tile = static_cast<double>(fields.tile()), own = static_cast<double>(fields.items);
    const double points = rows * items, clocks = point_clocks(form.program);
    const double depth = form.depth.empty() ? 1 : points_at(inputs, form.depth, keys);
    // Most comparisons of slices are decided early.
    const double comparison = entry.keyed ? 12 : 12 + 2 * clocks * std::min(depth, 2.0);
    const double blocks = rows * std::ceil(items / tile),
                 resident = std::min(most_threads / threads,
                                     200e3 / (2 * tile * static_cast<double>(entry.bytes)));
    const double merges = std::log2(std::clamp(items / own, 1.0, threads));
    // Threads of a block wait for each other; all do the work of a full tile's turns.
    const double per_merge = own + std::log2(tile);
    constexpr double turn = 60;  // of a step that reads shared memory
    double seconds = std::max(
        launch_seconds(
            inputs.target,
            {.blocks = blocks,
             .threads = threads,
             .resident = resident,
             .bytes = traffic_bytes(inputs, points) + points * entry.bytes,
             .clocks = blocks * threads * (own * own / 4 + merges * per_merge) * comparison}),
        2e-6 + merges * per_merge * turn / inputs.target.clock);
    for (double run = tile; run < items; run *= 2) {
      constexpr double loaded = 500;  // of a step of the search in memory
      seconds += std::max(
          launch_seconds(inputs.target, {.blocks = blocks,
                                         .threads = threads,
                                         .resident = resident,
                                         .bytes = points * 2 * static_cast<double>(entry.bytes),
                                         .clocks = blocks * threads *
                                                   (per_merge + 2 * std::log2(run)) * comparison}),
          2e-6 + (2 * std::log2(run) * loaded + per_merge * turn) / inputs.target.clock);
    }
    return seconds;
  }

  // Where a smaller block no longer holds a row, and where a row is no longer sorted in one piece.
  std::vector<std::vector<std::int64_t>> key_edges(const PlanInputs& inputs) const override {
    std::vector<std::vector<std::int64_t>> edges;
    for (const Dim& key : inputs.region.keys) {
      const bool is_item = key == form_of(inputs).item.extent;
      edges.push_back(is_item ? std::vector<std::int64_t>{129, 513, 2049}
                              : std::vector<std::int64_t>{});
    }
    return edges;
  }

  std::optional<std::string> misfit(const PlanInputs& inputs,
                                    const ir::Schedule& schedule) const override {
    const SortSchedule fields = SortSchedule::from(schedule);
    if (auto reason = threads_misfit(fields.threads)) return reason;
    if (fields.items < 1 || fields.items > 16 || (fields.items & (fields.items - 1)) != 0 ||
        (fields.threads & (fields.threads - 1)) != 0)
      return "threads and the entries of each are powers of two, at most 16 entries";
    constexpr std::int64_t most = 48 << 10;  // static shared memory of a block
    if (2 * fields.tile() * widest_entry(inputs) > most)
      return fmt::format("a tile has at most {} entries", most / 2 / widest_entry(inputs));
    return std::nullopt;
  }

  EmittedKernel emit(const PlanInputs& inputs, const ir::Bucket& bucket,
                     const ir::Schedule& schedule, bool) const override {
    const auto& form = form_of(inputs);
    const SortSchedule fields = SortSchedule::from(schedule);
    KernelWriter kernel(inputs, bucket, fmt::format("// {}\n", to_string(schedule)));
    SortWriter writer(kernel, form, fields);
    std::vector<ir::DeviceLaunch> launches{writer.write_tiles()};
    if (const std::int64_t longest = writer.longest(); longest > fields.tile()) {
      const ir::DeviceLaunch even = writer.write_merge(SortWriter::Kind::EvenMerge),
                             odd = writer.write_merge(SortWriter::Kind::OddMerge);
      const Dim items = form.item.extent;
      for (std::int64_t run = fields.tile(); run < longest;
           run = run <= longest / 2 ? 2 * run : longest) {
        ir::DeviceLaunch launch = launches.size() % 2 == 1 ? even : odd;
        launch.grid[0] =
            launch.grid[0] *
            ir::min(Dim(1), ir::floor_div(items, run + 1));  // none where rows are not longer
        launches.push_back(std::move(launch));
      }
    }
    return kernel.finish(std::move(launches), writer.workspace_bytes());
  }
};

}  // namespace

std::unique_ptr<KernelKind> make_sort_kind() { return std::make_unique<SortKind>(); }

}  // namespace anydim::codegen_cuda
