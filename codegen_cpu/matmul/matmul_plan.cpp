// Which matmul schedules to consider, and what they cost.
#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "codegen_cpu/kernel_kind.h"
#include "codegen_cpu/matmul/matmul_cost.h"
#include "codegen_cpu/matmul/matmul_operands.h"
#include "codegen_cpu/matmul/matmul_schedule.h"
#include "codegen_cpu/matmul/windowed_rows.h"
#include "codegen_cpu/work_estimate.h"
#include "ir/error.h"

namespace anydim::codegen_cpu {

namespace {

const ir::MatmulForm& form_of(const PlanInputs& inputs) {
  return std::get<ir::MatmulForm>(inputs.form.kind);
}

MatmulExtents extents_at(const PlanInputs& inputs, std::span<const std::int64_t> keys) {
  const ir::MatmulForm& form = form_of(inputs);
  return {.batch = extent_at(inputs, ir::points_of(form.batch), keys),
          .rows = extent_at(inputs, form.m.extent, keys),
          .columns = extent_at(inputs, form.n.extent, keys),
          .depth = extent_at(inputs, form.k.extent, keys)};
}

// Shapes of micro-kernels, as rows and vectors. Accumulators, one vector of the right operand each
// and a broadcast value fill the registers.
struct Shape {
  std::int64_t rows, vectors;
  bool tiles = false, unpack = false;
};
std::vector<Shape> shapes_of(const Target& target, const Product& product) {
  if (product.in_tiles(target)) {
    // In tiles, then vectors for few rows. Two by two tiles of results load each operand's tile
    // half as often as they multiply it.
    const std::int64_t panel_vectors = panel_columns(product) / target.lanes(sizeof(float));
    std::vector<Shape> shapes{
        {32, 2 * panel_vectors, true}, {16, 4 * panel_vectors, true}, {16, panel_vectors, true}};
    Target without = target;
    without.amx = false;
    for (const Shape& shape : shapes_of(without, product)) shapes.push_back(shape);
    return shapes;
  }
  if (product.right == ir::DType::BF16 && !target.avx512_bf16) {
    // Each vector of the right operand and the broadcast one are taken apart into two.
    if (target.level == Level::Avx512) return {{6, 3}, {7, 3}, {12, 2}, {4, 4}};
    return {{4, 2}, {5, 2}};
  }
  if (product.sums_blocks()) {
    // Sums of a block beside those of all blocks; then those that multiply what was unpacked.
    std::vector<Shape> shapes = {{3, 2}, {2, 2}};
    if (target.level == Level::Avx512) shapes = {{4, 3}, {2, 4}, {6, 2}};
    if (product.rounded()) return shapes;
    for (Shape shape : shapes_of(target, Product::of(product.sum))) {
      shape.unpack = true;
      shapes.push_back(shape);
    }
    return shapes;
  }
  switch (target.level) {
    case Level::Avx512: return {{8, 3}, {9, 3}, {6, 4}, {12, 2}, {14, 2}};
    case Level::Avx2: return {{6, 2}, {2, 4}};
    case Level::Baseline: return {{6, 2}, {2, 4}};
  }
  internal_error("a level is one of three");
}

MatmulCost cost_model(const PlanInputs& inputs) {
  const ir::MatmulForm& form = form_of(inputs);
  const LikelyOperands operands = likely_operands(inputs.target, inputs.region, form);
  const bool packed = !operands.left_in_place && operands.weight;
  return MatmulCost(inputs.target, form, operands,
                    packed ? inputs.left_reuse.of(form, inputs.form.symbols) : SharedRows());
}

// A size that stands for the bucket: where it has no upper end, one that fills every level of
// blocking.
std::int64_t typical(const ir::BucketInterval& interval) {
  constexpr std::int64_t large = 2048;
  const std::int64_t least = std::max<std::int64_t>(interval.size_from(1), 1);
  const double low = static_cast<double>(least);
  const double high = static_cast<double>(
      std::clamp<std::int64_t>(interval.high, 1, std::max<std::int64_t>(least, large)));
  return std::llround(std::sqrt(low * std::max(low, high)));
}

// What is varied, beside the micro-kernel's shape. Blocks of rows are multiples of its rows, blocks
// of columns of its columns; 0: all.
struct Variations {
  std::vector<Shape> shapes;
  std::vector<std::int64_t> whole_row_blocks, row_blocks, column_groups, splits;
};

// The likely shapes, and every other whose accumulators, operands and broadcast value fill at most
// the registers there are, and whose columns fill panels or are filled by them.
std::vector<Shape> all_shapes(const Target& target, const Product& product, std::int64_t lanes) {
  const std::int64_t registers = target.level == Level::Avx512 ? 32 : 16,
                     panel = panel_columns(product);
  const std::int64_t parts =
      (product.right == ir::DType::BF16 && !target.avx512_bf16) || product.scaled()
          ? 2
          : 1;  // that an operand's vector is taken apart into
  std::vector<Shape> shapes = shapes_of(target, product);
  for (const std::int64_t vectors : {1, 2, 3, 4}) {
    const std::int64_t columns = vectors * lanes, group = std::max(columns, panel);
    if (group % columns != 0 || group % panel != 0) continue;
    for (const std::int64_t rows : {2, 3, 4, 5, 6, 8, 9, 10, 12, 14, 16, 20, 24}) {
      const std::int64_t accumulators = rows * vectors * (product.sums_blocks() ? 2 : 1);
      if (accumulators + parts * (vectors + 1) <= registers && 3 * accumulators >= registers)
        shapes.push_back({rows, vectors});
    }
  }
  return shapes;
}

// That the bucket's keys allow.
ir::Interval rows_of(const PlanInputs& inputs, const ir::Bucket& bucket) {
  std::vector<std::int64_t> low, high;
  for (const ir::BucketInterval& interval : bucket.intervals) {
    low.push_back(interval.low);
    high.push_back(interval.high);
  }
  const ir::Dim& rows = form_of(inputs).m.extent;
  return {extent_at(inputs, rows, low), extent_at(inputs, rows, high)};
}

struct Sizes {
  MatmulExtents typical_extents;
  std::int64_t most_rows = 1, fewest_batches = 1;
};
Sizes sizes_of(const PlanInputs& inputs, const ir::Bucket& bucket) {
  std::vector<std::int64_t> keys, most, least;
  for (std::size_t i = 0; i < inputs.region.keys.size(); ++i) {
    const ir::BucketInterval interval = bucket.of_key(i);
    keys.push_back(typical(interval));
    most.push_back(std::max<std::int64_t>(interval.high, 1));
    least.push_back(std::max<std::int64_t>(interval.low, 1));
  }
  return {extents_at(inputs, keys), std::max<std::int64_t>(extents_at(inputs, most).rows, 1),
          std::max<std::int64_t>(extents_at(inputs, least).batch, 1)};
}

std::vector<MatmulSchedule> vary(const PlanInputs& inputs, const Sizes& sizes,
                                 const Variations& variations) {
  const ir::MatmulForm& form = form_of(inputs);
  const std::int64_t most_rows = sizes.most_rows;
  const std::int64_t lanes =
      inputs.target.lanes(static_cast<int>(ir::size_of(compute_dtype(form.accumulate))));
  const LikelyOperands operands = likely_operands(inputs.target, inputs.region, form);
  const std::int64_t panel = panel_columns(operands.product);

  std::vector<MatmulSchedule> found;
  const auto add = [&](const MatmulSchedule& schedule) {
    if (std::ranges::find(found, schedule) == found.end()) found.push_back(schedule);
  };
  for (const Shape& shape : variations.shapes) {
    MatmulSchedule schedule;
    schedule.tiles = shape.tiles;
    schedule.unpack = shape.unpack;
    schedule.rows = shape.tiles ? (most_rows > tile_rows ? shape.rows : tile_rows)
                                : std::min(shape.rows, most_rows);
    schedule.columns = shape.vectors * lanes;
    if (schedule.columns > panel &&
        schedule.columns >= ceiling(sizes.typical_extents.columns, panel) * panel * 2)
      schedule.columns = panel;
    const std::int64_t group = std::max(schedule.columns, panel);
    if (!form.rows.empty()) {
      for (const std::int64_t blocks : variations.whole_row_blocks) {
        for (const std::int64_t split : variations.splits) {
          schedule.block_rows = schedule.rows * blocks;
          schedule.block_columns = 0;
          schedule.order = MatmulSchedule::Order::RowsOuter;
          schedule.split = split;
          add(schedule);
        }
      }
      continue;
    }
    for (const std::int64_t blocks : variations.row_blocks) {
      const std::int64_t block_rows = blocks * schedule.rows;
      if (block_rows >= most_rows && block_rows != 0) continue;
      // What is packed is packed in blocks: scratch memory must not grow with the operands.
      if (block_rows == 0 && !operands.left_in_place && most_rows > 24 * schedule.rows) continue;
      for (const std::int64_t groups : variations.column_groups) {
        if (groups == 0 && !operands.weight) continue;
        schedule.block_rows = block_rows;
        schedule.block_columns = groups * group;
        schedule.order = block_rows == 0 ? MatmulSchedule::Order::ColumnsOuter
                                         : MatmulSchedule::Order::RowsOuter;
        for (const std::int64_t split : variations.splits) {
          schedule.split = split;
          if (split == 1 || (block_rows != 0 && groups == 0)) add(schedule);
        }
      }
    }
  }
  return found;
}

// The schedules that cost least on so many threads, and with `every_kernel` the best of every other
// micro-kernel: of a bucket's own sizes, or where code must be small, it may be the better one.
std::vector<ir::Schedule> best_of(const std::vector<MatmulSchedule>& found, const Sizes& sizes,
                                  const MatmulCost& cost, int threads, bool every_kernel) {
  std::vector<std::pair<double, std::size_t>> ranked;  // equal costs keep the order of `found`
  for (std::size_t i = 0; i < found.size(); ++i) ranked.emplace_back(0, i);
  // Where there are several products, one alone is ranked, too: then rows and columns must give
  // every thread its work.
  MatmulExtents alone = sizes.typical_extents;
  alone.batch = std::min<std::int64_t>(alone.batch, sizes.fewest_batches);
  for (const MatmulExtents& extents : {sizes.typical_extents, alone}) {
    std::vector<double> seconds;
    for (const MatmulSchedule& schedule : found)
      seconds.push_back(cost.seconds(schedule, extents, threads) +
                        joining_seconds(MatmulCost::tasks(schedule, extents), threads) +
                        cost.seconds(schedule, extents, 1) / threads);
    const double least = std::max(*std::ranges::min_element(seconds), 1e-12);
    for (std::size_t i = 0; i < found.size(); ++i) ranked[i].first += seconds[i] / least;
    if (alone.batch == sizes.typical_extents.batch) break;
  }
  std::sort(ranked.begin(), ranked.end());
  constexpr std::size_t most_candidates = 12;
  std::vector<ir::Schedule> schedules;
  std::set<std::pair<std::int64_t, std::int64_t>> shapes;
  for (const auto& [seconds, i] : ranked) {
    const bool fresh = shapes.insert({found[i].rows, found[i].columns}).second;
    if ((fresh && every_kernel) || schedules.size() < most_candidates)
      schedules.push_back(found[i].schedule());
  }
  return schedules;
}

}  // namespace

ir::LoopForm prepared(const Target& target, const ir::Region& region, ir::LoopForm form) {
  if (auto* matmul = std::get_if<ir::MatmulForm>(&form.kind))
    *matmul = with_weight_on_the_right(target, region, std::move(*matmul), form.symbols);
  return form;
}

namespace {

class MatmulKind final : public KindOf<ir::MatmulForm> {
 public:
  std::vector<ir::Schedule> candidates(const PlanInputs& inputs,
                                       const ir::Bucket& bucket) const override {
    const Sizes sizes = sizes_of(inputs, bucket);
    const Product product =
        likely_operands(inputs.target, inputs.region, form_of(inputs.form)).product;
    const MatmulCost cost = cost_model(inputs);
    constexpr int few = 2;
    // Among equals, blocks that two threads share evenly at every size.
    const std::vector<MatmulSchedule> found = vary(inputs, sizes,
                                                   {.shapes = shapes_of(inputs.target, product),
                                                    .whole_row_blocks = {1, 2, 4, 8},
                                                    .row_blocks = {0, 2, 4, 12, 24},
                                                    .column_groups = {1, 4, 0},
                                                    .splits = {2, 1, 4}});
    std::vector<ir::Schedule> schedules = best_of(found, sizes, cost, few, true);
    if (inputs.threads <= few) return schedules;
    // More threads want more tasks: of fewer rows and columns, down to one micro-kernel's.
    const std::int64_t lanes = inputs.target.lanes(static_cast<int>(ir::size_of(product.sum)));
    const std::vector<MatmulSchedule> finer =
        vary(inputs, sizes,
             {.shapes = product.in_tiles(inputs.target) ? shapes_of(inputs.target, product)
                                                        : all_shapes(inputs.target, product, lanes),
              .whole_row_blocks = {1, 2, 4},
              .row_blocks = {0, 1, 2, 4, 12},
              .column_groups = {1, 2, 4, 0},
              .splits = {inputs.threads, 1}});
    return ir::joined(std::move(schedules), best_of(finer, sizes, cost, inputs.threads, false));
  }

  std::vector<ir::Schedule> space(const PlanInputs& inputs,
                                  const ir::Bucket& bucket) const override {
    const Product product =
        likely_operands(inputs.target, inputs.region, form_of(inputs.form)).product;
    const std::int64_t lanes = inputs.target.lanes(static_cast<int>(ir::size_of(product.sum)));
    std::vector<ir::Schedule> schedules;
    for (const MatmulSchedule& found : vary(inputs, sizes_of(inputs, bucket),
                                            {.shapes = all_shapes(inputs.target, product, lanes),
                                             .whole_row_blocks = {1, 2, 3, 4, 6, 8, 12, 16},
                                             .row_blocks = {0, 2, 4, 8, 12, 24, 48},
                                             .column_groups = {1, 2, 4, 8, 0},
                                             .splits = {1, 2, 4}})) {
      schedules.push_back(found.schedule());
    }
    return schedules;
  }

  double estimate(const PlanInputs& inputs, const ir::Schedule& schedule,
                  std::span<const std::int64_t> extents) const override {
    const auto matmul = MatmulSchedule::from(schedule);
    const MatmulExtents sizes = extents_at(inputs, extents);
    return shared_seconds(inputs, cost_model(inputs).seconds(matmul, sizes, inputs.threads),
                          MatmulCost::tasks(matmul, sizes));
  }

  // Nearly all of it are micro-kernels, one for every number of rows.
  double code_size(const PlanInputs& inputs, const ir::Bucket& bucket,
                   const ir::Schedule& schedule) const override {
    const auto matmul = MatmulSchedule::from(schedule);
    constexpr double around = 300, of_kernel = 30, of_row = 4, of_vector = 3;
    if (matmul.tiles) return around;
    const int lanes = inputs.target.lanes(
        static_cast<int>(ir::size_of(compute_dtype(form_of(inputs.form).accumulate))));
    const auto vectors = static_cast<double>(matmul.columns / lanes);
    double size = around;
    for (const std::int64_t rows : matmul.row_counts(rows_of(inputs, bucket)))
      size += of_kernel + static_cast<double>(rows) * (of_row + of_vector * vectors);
    return size;
  }

  std::vector<std::vector<std::int64_t>> key_edges(const PlanInputs& inputs) const override {
    // One row is a matrix-vector product, bound by memory; few rows fit one micro-kernel; from some
    // hundreds on, rows are blocked for caches.
    const ir::MatmulForm& form = form_of(inputs.form);
    std::vector<std::vector<std::int64_t>> edges;
    for (const ir::Dim& key : inputs.region.keys) {
      edges.emplace_back();
      if (key == form.m.extent) edges.back() = {2, 7, 33, 257};
      // Columns that are packed as they come: few panels must be shared among threads by rows, many
      // are packed once for all rows.
      else if (key == form.n.extent && !likely_operands(inputs.target, inputs.region, form).weight)
        edges.back() = {65, 257, 1025};
    }
    return edges;
  }

  std::optional<ir::PackedLayout> packed_layout(const PlanInputs& inputs,
                                                std::size_t parameter) const override {
    const ir::MatmulForm& form = form_of(inputs.form);
    const MatmulOperands operands =
        matmul_operands(inputs.target, inputs.region, form, inputs.form.symbols);
    if (const BlockScales* held = operands.of_blocks(parameter))
      return codegen_cpu::packed_layout(weight_of(*held, operands.weight->columns),
                                        Product::of(ir::DType::F32));
    if (!operands.weight || static_cast<std::size_t>(operands.weight->buffer) != parameter)
      return std::nullopt;
    return codegen_cpu::packed_layout(*operands.weight, operands.product);
  }

  ir::Tensor pack(const PlanInputs& inputs, std::size_t parameter, const ir::PackedLayout& layout,
                  const ir::Tensor& weight, const ir::Backend::Allocate& allocate) const override {
    const MatmulOperands operands =
        matmul_operands(inputs.target, inputs.region, form_of(inputs.form), inputs.form.symbols);
    if (operands.of_blocks(parameter) != nullptr)
      return pack_weight(layout, Product::of(ir::DType::F32), weight, allocate);
    return pack_weight(layout, operands.product, weight, allocate, operands.weight->in_4_bits);
  }

  bool gates(const PlanInputs& inputs) const override {
    const ir::MatmulForm& form = form_of(inputs.form);
    const Product product = likely_operands(inputs.target, inputs.region, form).product;
    const auto columns = form.n.extent.constant();
    if (!form.gate || !columns || product.sums_blocks()) return false;
    // Panels that gates leave empty are multiplied as full ones are.
    const std::int64_t panel = panel_columns(product), gates = form.gates();
    return 4 * gates * ceiling(*columns, panel) <= 5 * ceiling(gates * *columns, panel);
  }

  std::vector<std::size_t> overwritable(const PlanInputs& inputs) const override {
    return overwritable_parameters(inputs.region, form_of(inputs.form), inputs.form.symbols);
  }
};

}  // namespace

std::unique_ptr<KernelKind> make_matmul_kind() { return std::make_unique<MatmulKind>(); }

}  // namespace anydim::codegen_cpu
