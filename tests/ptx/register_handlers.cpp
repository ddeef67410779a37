// setmaxnreg: passes registers among the warps of a block.
#include <algorithm>

#include <fmt/format.h>

#include "tests/ptx/execution.h"
#include "tests/ptx/opcodes.h"
#include "tests/ptx/units/register_pool.h"

namespace anydim::ptx {

namespace {

struct BlockRegisters {
  bool made = false;
  RegisterPool pool;
};

Outcome run_setmaxnreg(Warp& warp, const Instruction& instruction, LaneMask mask);

int largest_request(const Execution& execution) {
  std::int64_t largest = 0;
  for (const Instruction& instruction : execution.program.instructions) {
    if (instruction.execute == run_setmaxnreg) largest = std::max(largest, instruction.immediate);
  }
  return static_cast<int>(largest);
}

RegisterPool& pool_of(Warp& warp) {
  auto& registers = warp.block.extension<BlockRegisters>();
  if (registers.made) return registers.pool;
  const Function& entry = warp.execution.entry;
  const auto threads =
      static_cast<int>(entry.maximum_threads[0] * std::max(entry.maximum_threads[1], 1u) *
                       std::max(entry.maximum_threads[2], 1u));
  if (threads == 0 || entry.minimum_blocks == 0) {
    warp.stop(
        FindingKind::InvalidUse, -1,
        "setmaxnreg in a kernel without __launch_bounds__(threads, blocks): ptxas ignores it");
  }
  registers.pool = RegisterPool(
      static_cast<int>(warp.block.warps.size()),
      registers_at_launch(threads, entry.minimum_blocks, largest_request(warp.execution)));
  registers.made = true;
  return registers.pool;
}

Outcome run_setmaxnreg(Warp& warp, const Instruction& instruction, LaneMask) {
  RegisterPool& pool = pool_of(warp);
  const auto count = static_cast<int>(instruction.immediate);
  const bool increase = instruction.flags != 0;
  const std::string wrong =
      increase ? pool.check_acquire(warp.index, count) : pool.release(warp.index, count);
  if (!wrong.empty()) warp.stop(FindingKind::InvalidUse, -1, wrong);
  if (!increase) {
    warp.execution.notify();
  } else if (!pool.try_acquire(warp.index, count)) {
    return warp.block_on(
        fmt::format("setmaxnreg.inc to {} registers from {}, of which {} more are free for each "
                    "thread of a warp",
                    count, pool.held(warp.index), pool.available()));
  }
  ++warp.execution.effects;
  return Outcome::Next;
}

void decode_setmaxnreg(Decoder& decoder) {
  decoder.instruction.flags = decoder.take_any({"inc", "dec"}) == "inc" ? 1 : 0;
  decoder.demand("sync");
  decoder.demand("aligned");
  decoder.demand("u32");
  decoder.instruction.immediate = decoder.constant(0);
  decoder.instruction.aligned = true;
  decoder.instruction.execute = run_setmaxnreg;
}

}  // namespace

void add_register_opcodes(OpcodeTable& table) { table["setmaxnreg"] = decode_setmaxnreg; }

}  // namespace anydim::ptx
