#include "codegen_cpu/matmul/matmul_schedule.h"

#include <algorithm>

namespace anydim::codegen_cpu {

bool whole_groups(const ir::Dim& columns, std::int64_t group, std::int64_t panel) {
  const auto known = columns.constant();
  return group <= panel || (known && ceiling(*known, panel) * panel % group == 0);
}

namespace {

// Row extents beyond this many are covered by an argument instead of being tried one by one.
constexpr std::int64_t most_tried = 4096;

// `block` 0: all of it.
ir::Dim blocks_of(const ir::Dim& extent, const ir::Dim& block) {
  return block.is_constant(0) ? ir::min(extent, 1) : ir::ceil_div(extent, block);
}

}  // namespace

ir::Dim MatmulSchedule::block_units(const ir::Dim& units, const ir::Dim& unit) const {
  return block_rows == 0 ? units : ir::max(ir::floor_div(block_rows, unit), 1);
}

ir::Dim MatmulSchedule::row_blocks(const ir::Dim& units, const ir::Dim& unit) const {
  const ir::Dim blocks = blocks_of(units, block_rows == 0 ? ir::Dim(0) : block_units(units, unit));
  return split == 1 ? blocks : ir::min(ir::ceil_div(blocks, split) * split, units);
}

std::int64_t MatmulSchedule::row_blocks(std::int64_t rows_of_form) const {
  const std::int64_t blocks =
      block_rows == 0 ? std::min<std::int64_t>(rows_of_form, 1) : ceiling(rows_of_form, block_rows);
  return std::min(ceiling(blocks, split) * split, rows_of_form);
}

std::int64_t MatmulSchedule::fewest_rows(ir::Interval extent) const {
  const std::int64_t low = std::max<std::int64_t>(extent.low, 1);
  const std::int64_t blocks = row_blocks(low);
  // Among larger extents, the first with one more round of blocks has the smallest.
  const std::int64_t next =
      block_rows == 0 ? low : std::max(low, ceiling(blocks, split) * split * block_rows + 1);
  return std::max<std::int64_t>(
      1, std::min(low / blocks, next <= extent.high ? next / row_blocks(next) : low));
}

ir::Dim MatmulSchedule::column_blocks(const ir::MatmulForm& form) const {
  return blocks_of(form.n.extent, block_columns);
}

std::set<std::int64_t> MatmulSchedule::row_counts(ir::Interval extent) const {
  std::set<std::int64_t> counts;
  const auto share = [](std::int64_t total, std::int64_t parts, const auto& use) {
    use(total / parts);
    use(ceiling(total, parts));
  };
  const auto task = [&](std::int64_t task_rows) {
    share(task_rows, ceiling(task_rows, rows), [&](std::int64_t count) { counts.insert(count); });
  };
  const std::int64_t low = std::max<std::int64_t>(extent.low, 1);
  extent.high = std::max(extent.high, low);  // an extent of 0 has a micro-kernel that nothing calls
  const std::int64_t tried = std::min(extent.high, low + most_tried);
  for (std::int64_t total = low; total <= tried; ++total) {
    if (static_cast<std::int64_t>(counts.size()) == rows) return counts;
    share(total, row_blocks(total), task);
  }
  if (tried >= extent.high) return counts;
  if (block_rows == 0) {
    // Every count occurs for some extent as far as this function knows.
    for (std::int64_t count = 1; count <= rows; ++count) counts.insert(count);
    return counts;
  }
  // Where an extent has t blocks before they are rounded up by at most split - 1, a task has at
  // least block_rows (t - 1) / (t + split - 1) rows.
  const std::int64_t blocks = ceiling(tried, block_rows);
  for (std::int64_t task_rows =
           std::max<std::int64_t>(1, block_rows * (blocks - 1) / (blocks + split - 1));
       task_rows <= block_rows; ++task_rows) {
    task(task_rows);
  }
  return counts;
}

}  // namespace anydim::codegen_cpu
