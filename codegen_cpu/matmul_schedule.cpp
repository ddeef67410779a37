#include "codegen_cpu/matmul_schedule.h"

#include <algorithm>

namespace anydim::codegen_cpu {

namespace {

// Row extents beyond this many are covered by an argument instead of being tried one by one.
constexpr std::int64_t most_tried = 4096;

std::int64_t ceiling(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

ir::Dim blocks_of(const ir::Dim& extent, std::int64_t block) { return block == 0 ? ir::min(extent, 1) : ir::ceil_div(extent, block); }

}  // namespace

MatmulSchedule MatmulSchedule::from(const ir::Schedule& schedule) {
  MatmulSchedule result;
  result.rows = schedule.field("rows");
  result.columns = schedule.field("columns");
  result.block_rows = schedule.field("block_rows");
  result.block_columns = schedule.field("block_columns");
  result.order = schedule.field("order") == 0 ? Order::ColumnsOuter : Order::RowsOuter;
  return result;
}

ir::Schedule MatmulSchedule::schedule() const {
  return {.name = "matmul",
          .fields = {{"rows", rows},
                     {"columns", columns},
                     {"block_rows", block_rows},
                     {"block_columns", block_columns},
                     {"order", order == Order::ColumnsOuter ? 0 : 1}}};
}

ir::Dim MatmulSchedule::row_blocks(const ir::MatmulForm& form) const { return blocks_of(form.m.extent, block_rows); }
ir::Dim MatmulSchedule::column_blocks(const ir::MatmulForm& form) const { return blocks_of(form.n.extent, block_columns); }

std::set<std::int64_t> MatmulSchedule::row_counts(ir::Interval extent) const {
  std::set<std::int64_t> counts;
  const auto split = [](std::int64_t total, std::int64_t most, const auto& use) {
    const std::int64_t parts = ceiling(total, most);
    use(total / parts);
    use(ceiling(total, parts));
  };
  const auto task = [&](std::int64_t task_rows) { split(task_rows, rows, [&](std::int64_t count) { counts.insert(count); }); };
  const std::int64_t low = std::max<std::int64_t>(extent.low, 1);
  const std::int64_t tried = std::min(extent.high, low + most_tried);
  for (std::int64_t total = low; total <= tried; ++total) {
    if (static_cast<std::int64_t>(counts.size()) == rows) return counts;
    split(total, block_rows == 0 ? total : block_rows, task);
  }
  if (tried >= extent.high) return counts;
  if (block_rows == 0) {
    // Every count occurs for some extent as far as this function knows.
    for (std::int64_t count = 1; count <= rows; ++count) counts.insert(count);
    return counts;
  }
  // A task of an extent with t blocks has at least block_rows - block_rows / t rows.
  const std::int64_t blocks = ceiling(tried, block_rows);
  for (std::int64_t task_rows = std::max<std::int64_t>(1, block_rows - block_rows / blocks - 1); task_rows <= block_rows; ++task_rows)
    task(task_rows);
  return counts;
}

}  // namespace anydim::codegen_cpu
