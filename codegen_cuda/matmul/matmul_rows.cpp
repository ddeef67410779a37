#include "codegen_cuda/matmul/matmul_rows.h"

#include <fmt/format.h>

#include <set>

#include "codegen_cuda/rows/row_stages.h"
#include "ir/error.h"

namespace anydim::codegen_cuda {

namespace {

using ir::Dim;
using ir::DType;

constexpr int width = 4;        // neighbouring columns of a thread
constexpr int launch_rows = 4;  // rows, and warps, of a block of the launch that runs stages

// The values' row in shared memory: of elements; rows start aligned and in different banks.
std::int64_t pitch_in_block(const ir::MatmulForm& form) {
  return (form.n.extent.constant().value() + width - 1) / width * width + width;
}

std::int64_t rounded(std::int64_t bytes) { return (bytes + 15) / 16 * 16; }

// Rows that a slot keeps in a block: all of them for the epilogue's value, one a warp for what a
// stage keeps for the next.
std::int64_t slot_rows(std::size_t slot, std::int64_t block_rows, std::int64_t threads) {
  return slot == 0 ? block_rows : threads / 32;
}

Dim all_rows(const ir::MatmulForm& form) {
  Dim count = form.m.extent;
  for (const ir::Iteration& iteration : form.batch) count = count * iteration.extent;
  return count;
}

std::string slot_name(std::size_t slot) { return fmt::format("kept_rows{}", slot); }

constexpr const char* thread_of_warp = "const int thread_of_warp = (int)(threadIdx.x % 32);";

}  // namespace

std::int64_t block_rows_bytes(const ir::MatmulForm& form, std::int64_t block_rows,
                              std::int64_t threads) {
  std::int64_t bytes = 0;
  for (std::size_t slot = 0; slot < form.scratch.size(); ++slot)
    bytes += rounded(slot_rows(slot, block_rows, threads) * pitch_in_block(form) *
                     static_cast<std::int64_t>(ir::size_of(form.scratch[slot])));
  return bytes;
}

std::int64_t cluster_rows_bytes(const ir::MatmulForm& form, std::int64_t block_rows,
                                std::int64_t block_columns) {
  std::int64_t bytes = rounded(form.accumulators * block_rows * 4);
  for (const ir::DType dtype : form.scratch)
    bytes += rounded(block_rows * (block_columns + width) *
                     static_cast<std::int64_t>(ir::size_of(dtype)));
  return bytes;
}

std::int64_t blocks_across(const ir::MatmulForm& form, std::int64_t block_columns) {
  return (form.n.extent.constant().value() + block_columns - 1) / block_columns;
}

bool cluster_holds_rows(const ir::MatmulForm& form, std::int64_t block_columns) {
  constexpr std::int64_t most_blocks = 8;  // of a portable cluster
  if (form.rows.empty() || !form.n.extent.is_constant()) return false;
  const std::int64_t blocks = blocks_across(form, block_columns);
  if (blocks < 2 || blocks > most_blocks) return false;
  for (const ir::RowStage& stage : form.rows) {
    for (const ir::RowStage::Reduction& reduction : stage.reductions) {
      if (reduction.dtype != DType::F32) return false;
    }
  }
  return true;
}

void MatmulRows::begin_block(CodeScope& entry, std::int64_t offset) {
  for (std::size_t slot = 0; slot < form_.scratch.size(); ++slot) {
    const std::string type = storage_type(form_.scratch[slot]);
    entry.line(fmt::format("{0}* {1} = reinterpret_cast<{0}*>(shared + {2});", type,
                           slot_name(slot), offset));
    offset += rounded(slot_rows(slot, block_rows_, threads_) * pitch_in_block(form_) *
                      static_cast<std::int64_t>(ir::size_of(form_.scratch[slot])));
  }
}

KeptRows MatmulRows::kept_in_block(const TilePlace& place) const {
  return {.pointer = slot_name(0),
          .row = fmt::format("{{}} - {}", place.first_row.name),
          .pitch = std::to_string(pitch_in_block(form_)),
          .aligned = true};
}

void MatmulRows::finish_block(CodeScope& entry, const MatmulNames& names, const TilePlace& place) {
  entry.line("__syncthreads();  // every row is whole");
  entry.line(thread_of_warp);
  write_row_count(entry, names, place);
  write_rows(entry, place, [&](CodeScope& row) {
    std::vector<std::string> slots;
    for (std::size_t slot = 0; slot < form_.scratch.size(); ++slot)
      slots.push_back(fmt::format("({} + {} * {})", slot_name(slot),
                                  slot == 0 ? "row_of_block" : "(int)(threadIdx.x / 32)",
                                  pitch_in_block(form_)));
    write_stages(row, names.columns.name, slots);
  });
}

void MatmulRows::write_row_count(CodeScope& entry, const MatmulNames& names,
                                 const TilePlace& place) {
  entry.line(fmt::format("const int rows_of_block = {0} - {1} < {2} ? (int)({0} - {1}) : {2};",
                         names.rows.name, place.first_row.name, block_rows_));
}

void MatmulRows::write_rows(CodeScope& entry, const TilePlace& place,
                            const std::function<void(CodeScope&)>& body) {
  entry.line("#pragma unroll 1");
  const std::string loop = fmt::format(
      "for (int row_of_block = (int)(threadIdx.x / 32); row_of_block < rows_of_block; row_of_block "
      "+= {})",
      threads_ / 32);
  kernel_.block(entry, loop, [&](CodeScope& row) {
    row.define(form_.m.variable,
               write_variable(row, kernel_, to_string(form_.m.variable), place.first_row.wide,
                              fmt::format("{} + row_of_block", place.first_row.name)));
    body(row);
  });
}

void MatmulRows::begin_cluster(CodeScope& entry, std::int64_t offset, std::int64_t block_columns) {
  for (std::size_t slot = 0; slot < form_.scratch.size(); ++slot) {
    const std::string type = storage_type(form_.scratch[slot]);
    entry.line(fmt::format("{0}* {1} = reinterpret_cast<{0}*>(shared + {2});", type,
                           slot_name(slot), offset));
    offset += rounded(block_rows_ * (block_columns + width) *
                      static_cast<std::int64_t>(ir::size_of(form_.scratch[slot])));
  }
  entry.line("// Of this block's columns, for each Accumulated slot and row.");
  entry.line(fmt::format("float* partial_rows = reinterpret_cast<float*>(shared + {});", offset));
}

KeptRows MatmulRows::kept_in_cluster(const TilePlace& place, std::int64_t block_columns) const {
  return {.pointer = fmt::format("{} - {}", slot_name(0), place.first_column.name),
          .row = fmt::format("{{}} - {}", place.first_row.name),
          .pitch = std::to_string(block_columns + width),
          .aligned = true};
}

void MatmulRows::finish_cluster(CodeScope& entry, const MatmulNames& names, const TilePlace& place,
                                std::int64_t blocks, std::int64_t block_columns) {
  kernel_.use("cluster");
  entry.line("__syncthreads();  // the block's part of every row is there");
  entry.line(thread_of_warp);
  write_row_count(entry, names, place);
  const std::string end = kernel_.fresh("end_column");
  const std::string& begin = place.first_column.name;
  const Columns columns{.begin = begin,
                        .end = end,
                        .most = block_columns,
                        .all = ir::divisor(form_.n.extent, kernel_.symbols()) % block_columns == 0};
  if (!columns.all) {
    entry.line(fmt::format("const {0} {1} = {2} - {3} < {4} ? {2} : {3} + {4};",
                           index_type(place.first_column.wide), end, names.columns.name, begin,
                           block_columns));
  }
  std::set<std::size_t> known;  // Accumulated slots
  const auto partial = [&](std::size_t slot) {
    return fmt::format("partial_rows + {} + row_of_block",
                       slot * static_cast<std::size_t>(block_rows_));
  };
  for (const ir::RowStage& stage : form_.rows) {
    write_rows(entry, place, [&](CodeScope& row) {
      std::vector<std::string> slots, accumulated(static_cast<std::size_t>(form_.accumulators));
      for (std::size_t slot = 0; slot < form_.scratch.size(); ++slot)
        slots.push_back(fmt::format("({} - {} + row_of_block * {})", slot_name(slot), begin,
                                    block_columns + width));
      for (const ir::ScalarStep& step : stage.program.steps) {
        const auto* result = std::get_if<ir::step::Accumulated>(&step.kind);
        if (!result) continue;
        const auto slot = static_cast<std::size_t>(result->slot);
        if (!known.contains(slot) || !accumulated[slot].empty()) continue;
        accumulated[slot] = kernel_.fresh("of_row");
        row.line(fmt::format("float {} = remote_value({}, 0);", accumulated[slot], partial(slot)));
        row.line("#pragma unroll");
        row.line(fmt::format("for (int other = 1; other < {}; ++other) {} = {};", blocks,
                             accumulated[slot],
                             combined(kernel_, reduction_of(slot), accumulated[slot],
                                      fmt::format("remote_value({}, other)", partial(slot)))));
      }
      const std::string writes_row = fmt::format("{} == 0 && thread_of_warp == 0", begin);
      const std::vector<std::string> reduced =
          write_stage(row, stage, columns, slots, accumulated, writes_row);
      for (std::size_t i = 0; i < reduced.size(); ++i) {
        row.line(fmt::format("if (thread_of_warp == 0) *({}) = {};",
                             partial(static_cast<std::size_t>(stage.reductions[i].slot)),
                             reduced[i]));
      }
    });
    for (const ir::RowStage::Reduction& reduction : stage.reductions)
      known.insert(static_cast<std::size_t>(reduction.slot));
    if (!stage.reductions.empty()) entry.line("synchronise_cluster();");
  }
  entry.line("synchronise_cluster();  // a block's partial results are read by others until here");
}

const ir::RowStage::Reduction& MatmulRows::reduction_of(std::size_t slot) const {
  for (const ir::RowStage& stage : form_.rows) {
    for (const ir::RowStage::Reduction& reduction : stage.reductions) {
      if (static_cast<std::size_t>(reduction.slot) == slot) return reduction;
    }
  }
  internal_error("an Accumulated slot is the result of a reduction");
}

Dim MatmulRows::slot_offset(std::size_t slot) const {
  Dim offset = 0;
  for (std::size_t i = 0; i < slot; ++i)
    offset = offset + ir::ceil_div(all_rows(form_) * form_.n.extent *
                                       static_cast<std::int64_t>(ir::size_of(form_.scratch[i])),
                                   256) *
                          256;
  return offset;
}

Dim MatmulRows::workspace_bytes() const { return slot_offset(form_.scratch.size()); }

KeptRows MatmulRows::kept_in_workspace(CodeScope& entry, const MatmulNames& names,
                                       const TilePlace& place) {
  const std::string type = storage_type(form_.scratch.front());
  entry.line(fmt::format("{0}* {1} = reinterpret_cast<{0}*>(workspace);", type, slot_name(0)));
  return {.pointer = slot_name(0),
          .row = form_.batch.empty()
                     ? "(long long){}"
                     : fmt::format("(long long){} * {} + {{}}", place.point, names.rows.name),
          .pitch = names.columns.name,
          .aligned = true};
}

ir::DeviceLaunch MatmulRows::write_launch() {
  const bool dependent = kernel_.target().has_dependent_launch();
  CodeScope& entry = kernel_.begin_entry({.name = "finish_rows",
                                          .threads = launch_rows * 32,
                                          .blocks = 0,
                                          .tensor_maps = 0,
                                          .dependent = dependent});
  const IndexVariable columns = name_index(kernel_, entry, form_.n.extent, "columns");
  const IndexVariable number =
      write_variable(entry, kernel_, "row_number", true,
                     fmt::format("(long long)blockIdx.x * {} + threadIdx.x / 32", launch_rows));
  entry.line(fmt::format("if ({} >= {}) return;", number.name,
                         write_index(kernel_, entry, all_rows(form_))));
  entry.line(thread_of_warp);
  kernel_.use("index");
  std::string rest = number.name;
  const auto split = [&](const ir::Iteration& iteration, bool last) {
    const std::string extent = "(long long)" + write_index(kernel_, entry, iteration.extent);
    const bool wide = !kernel_.fits_int(iteration.extent);
    const std::string value = last ? rest : fmt::format("remainder({}, {})", rest, extent);
    entry.define(iteration.variable,
                 write_variable(entry, kernel_, to_string(iteration.variable), wide,
                                fmt::format("({})({})", index_type(wide), value)));
    if (!last)
      rest = write_variable(entry, kernel_, "rest", true,
                            fmt::format("quotient({}, {})", rest, extent))
                 .name;
  };
  split(form_.m, form_.batch.empty());
  for (std::size_t i = form_.batch.size(); i > 0; --i) split(form_.batch[i - 1], i == 1);
  std::vector<std::string> slots;
  for (std::size_t slot = 0; slot < form_.scratch.size(); ++slot) {
    const std::string type = storage_type(form_.scratch[slot]);
    entry.line(
        fmt::format("{0}* {1} = reinterpret_cast<{0}*>(static_cast<unsigned char*>(workspace) + "
                    "{2}) + {3} * {4};",
                    type, slot_name(slot), write_index(kernel_, entry, slot_offset(slot)),
                    number.name, columns.name));
    slots.push_back(slot_name(slot));
  }
  write_stages(entry, columns.name, slots);
  kernel_.end_entry();
  return {.entry = "finish_rows",
          .grid = {ir::ceil_div(all_rows(form_), launch_rows), 1, 1},
          .block = {launch_rows * 32, 1, 1},
          .dependent = dependent};
}

MatmulRows::Columns MatmulRows::all_columns(const std::string& columns) const {
  return {.begin = "0",
          .end = columns,
          .most = form_.n.extent.constant(),
          .all = form_.n.extent.is_constant()};
}

void MatmulRows::write_stages(CodeScope& row, const std::string& columns,
                              const std::vector<std::string>& slots) {
  std::vector<std::string> accumulated(static_cast<std::size_t>(form_.accumulators));
  for (const ir::RowStage& stage : form_.rows) {
    const std::vector<std::string> reduced =
        write_stage(row, stage, all_columns(columns), slots, accumulated, "thread_of_warp == 0");
    for (std::size_t i = 0; i < reduced.size(); ++i)
      accumulated[static_cast<std::size_t>(stage.reductions[i].slot)] = reduced[i];
  }
}

std::vector<std::string> MatmulRows::write_stage(CodeScope& row, const ir::RowStage& stage,
                                                 const Columns& columns,
                                                 const std::vector<std::string>& slots,
                                                 const std::vector<std::string>& accumulated,
                                                 const std::string& writes_row) {
  const auto provide = [&](ScalarWriter& writer) {
    for (std::size_t slot = 0; slot < accumulated.size(); ++slot) {
      if (!accumulated[slot].empty())
        writer.set_accumulated(static_cast<std::int32_t>(slot), accumulated[slot], row);
    }
  };
  const bool wide = !fits_with(kernel_, form_.n.extent, 1024);
  const bool whole = ir::divisor(form_.n.extent, kernel_.symbols()) % width == 0;
  if (stage.per_row) {
    kernel_.block(row, fmt::format("if ({})", writes_row), [&](CodeScope& once) {
      std::vector<std::int32_t> roots;
      for (const ir::Store& store : stage.stores) roots.push_back(store.step);
      ScalarWriter writer(kernel_, stage.program, once, roots);
      provide(writer);
      for (const ir::Store& store : stage.stores) writer.store(once, store);
    });
    return {};
  }
  LaneProgram program{
      .program = stage.program, .roots = {}, .stores = stage.stores, .at_point = {}};
  std::vector<std::string> partial;
  for (const ir::RowStage::Reduction& reduction : stage.reductions) {
    partial.push_back(kernel_.fresh("partial"));
    row.line(fmt::format("{} {} = {};", value_type(reduction.dtype), partial.back(),
                         neutral(reduction)));
    program.roots.push_back(reduction.step);
  }
  for (const ir::RowStage::Keep& keep : stage.keeps) program.roots.push_back(keep.step);

  CodeScope loop(&row);
  const IndexVariable first{.name = kernel_.fresh("first"), .wide = wide};
  std::vector<std::string> values(form_.scratch.size());
  for (const ir::ScalarStep& step : stage.program.steps) {
    const auto* element = std::get_if<ir::step::Scratch>(&step.kind);
    if (!element) continue;
    const auto slot = static_cast<std::size_t>(element->slot);
    if (!values[slot].empty()) continue;
    if (!whole) {
      values[slot] = fmt::format("{}[{} + {{}}]", slots[slot], first.name);
      continue;
    }
    const std::string name = kernel_.fresh("kept");
    loop.line(fmt::format("{} {}[{}];", storage_type(form_.scratch[slot]), name, width));
    loop.line(fmt::format("load_vector({}, {} + {});", name, slots[slot], first.name));
    values[slot] = name + "[{}]";
  }
  program.at_point = [&](ScalarWriter& writer, CodeScope& point, const std::string& lane) {
    provide(writer);
    for (std::size_t slot = 0; slot < values.size(); ++slot) {
      if (values[slot].empty()) continue;
      writer.set_scratch(
          static_cast<std::int32_t>(slot),
          widened(kernel_, form_.scratch[slot], fmt::format(fmt::runtime(values[slot]), lane)),
          point);
    }
    for (std::size_t i = 0; i < stage.reductions.size(); ++i) {
      const ir::RowStage::Reduction& reduction = stage.reductions[i];
      std::string value = writer.value(point, reduction.step);
      if (writer.dtype(reduction.step) != reduction.dtype)
        value = converted(kernel_, writer.dtype(reduction.step), reduction.dtype, value);
      point.line(
          fmt::format("{} = {};", partial[i], combined(kernel_, reduction, partial[i], value)));
    }
    for (const ir::RowStage::Keep& keep : stage.keeps) {
      const auto slot = static_cast<std::size_t>(keep.slot);
      point.line(
          fmt::format("{}[{} + {}] = {};", slots[slot], first.name, lane,
                      narrowed(kernel_, form_.scratch[slot], writer.value(point, keep.step))));
    }
  };
  write_lanes(kernel_, loop,
              {.variable = form_.n.variable,
               .extent = form_.n.extent,
               .width = width,
               .first = first,
               .may_end = true},
              program);
  // Few known turns are written out: their loads then do not wait for each other.
  constexpr std::int64_t most_turns = 8, turn_columns = 32 * width;
  const std::int64_t turns = columns.most ? (*columns.most + turn_columns - 1) / turn_columns : 0;
  if (turns == 0 || turns > most_turns) {
    row.line(fmt::format("for ({0} {1} = {5} + thread_of_warp * {2}; {1} < {3}; {1} += {4}) {{",
                         index_type(wide), first.name, width, columns.end, turn_columns,
                         columns.begin));
    row.append(loop.text());
    row.line("}");
  } else {
    const std::string turn = kernel_.fresh("turn");
    row.line("#pragma unroll");
    row.line(fmt::format("for (int {0} = 0; {0} < {1}; ++{0}) {{", turn, turns));
    row.line(fmt::format("  const {} {} = {} + ({} * 32 + thread_of_warp) * {};", index_type(wide),
                         first.name, columns.begin, turn, width));
    if (!columns.all) row.line(fmt::format("  if ({} >= {}) break;", first.name, columns.end));
    else if (*columns.most % turn_columns != 0)
      row.line(fmt::format("  if (({} * 32 + thread_of_warp) * {} >= {}) break;", turn, width,
                           *columns.most));
    row.append(loop.text());
    row.line("}");
  }
  for (std::size_t i = 0; i < stage.reductions.size(); ++i) {
    const ir::RowStage::Reduction& reduction = stage.reductions[i];
    const std::string other = fmt::format("({})__shfl_xor_sync(0xffffffffu, {}, distance)",
                                          value_type(reduction.dtype), partial[i]);
    row.line("#pragma unroll");
    row.line(fmt::format("for (int distance = 16; distance > 0; distance /= 2) {} = {};",
                         partial[i], combined(kernel_, reduction, partial[i], other)));
  }
  return partial;
}

}  // namespace anydim::codegen_cuda
