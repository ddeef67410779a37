#include "tests/ptx/wgmma.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>

namespace anydim::ptx {

namespace {

constexpr int warps_of_group = 4;
constexpr int warp_rows = 16;

struct InFlight {
  std::uint32_t group = 0;
  std::vector<std::int32_t> accumulators;
  std::vector<std::int32_t> operand;  // A, where it comes from registers
};

struct WarpWgmma {
  bool made = false;
  Actor actor;  // reads shared memory; its clock is the group's number
  QueueId queue = 0;
  std::uint32_t open = 0;  // number of the group that the next commit closes
  bool fenced = false;     // wgmma.fence since the last commit
  std::size_t issued = 0;
  std::vector<InFlight> in_flight;
};

// What the warps of a warpgroup have issued so far: all must issue the same.
struct Issue {
  std::int32_t line = 0;
  std::uint64_t a = 0, b = 0;
  friend bool operator==(const Issue&, const Issue&) = default;
};

struct BlockWgmma {
  std::vector<WarpWgmma> warps;
  std::vector<std::vector<Issue>> groups;
};

WarpWgmma& state_of(Warp& warp) {
  auto& block = warp.block.extension<BlockWgmma>();
  block.warps.resize(warp.block.warps.size());
  block.groups.resize(warp.block.warps.size() / warps_of_group);
  WarpWgmma& state = block.warps[static_cast<std::size_t>(warp.index)];
  if (state.made) return state;
  if (static_cast<std::size_t>(warp.index / warps_of_group) >= block.groups.size()) {
    warp.stop(FindingKind::InvalidUse, -1, "wgmma in a warp that has no whole warpgroup around it");
  }
  state.made = true;
  state.actor = warp.execution.new_actor(
      warp.block, 1,
      fmt::format("wgmma of block ({}, {}, {}) warp {}", warp.block.index[0], warp.block.index[1],
                  warp.block.index[2], warp.index));
  state.queue = warp.execution.agenda.new_queue();
  state.open = ++warp.execution.actor_clock(state.actor);
  return state;
}

// All four warps issue the same instructions with the same descriptors, in the same order.
void check_warpgroup(Warp& warp, WarpWgmma& state, const Issue& issue) {
  auto& issues = warp.block.extension<BlockWgmma>()
                     .groups[static_cast<std::size_t>(warp.index / warps_of_group)];
  if (state.issued == issues.size()) issues.push_back(issue);
  if (issues[state.issued] != issue) {
    warp.stop(FindingKind::Divergence, -1,
              fmt::format("the warps of a warpgroup differ in their wgmma number {}: line {} with "
                          "descriptors {:#x}, {:#x} and line {} with {:#x}, {:#x}",
                          state.issued, issues[state.issued].line, issues[state.issued].a,
                          issues[state.issued].b, issue.line, issue.a, issue.b));
  }
  ++state.issued;
}

bool meet(const std::vector<std::int32_t>& a, const std::vector<std::int32_t>& b) {
  return std::find_first_of(a.begin(), a.end(), b.begin(), b.end()) != a.end();
}

// Accumulators may be those of unfinished work if they are the same, one for one; A's registers may
// be anything but accumulators.
void check_registers(Warp& warp, const WarpWgmma& state, const WgmmaOperands& operands) {
  for (const InFlight& flight : state.in_flight) {
    if (flight.accumulators != operands.accumulators &&
        meet(flight.accumulators, operands.accumulators)) {
      warp.report(FindingKind::RegisterInFlight, -1,
                  "wgmma's accumulators overlap those of unfinished wgmma of another shape");
    }
    if (meet(flight.accumulators, operands.a_registers)) {
      warp.report(FindingKind::RegisterInFlight, -1,
                  "wgmma takes its A from accumulators of unfinished wgmma");
    }
    if (meet(flight.operand, operands.accumulators)) {
      warp.report(FindingKind::RegisterInFlight, -1,
                  "wgmma's accumulators are the A registers of unfinished wgmma");
    }
  }
}

void mark_in_flight(Warp& warp, const InFlight& flight) {
  for (const auto* registers : {&flight.accumulators, &flight.operand}) {
    for (const std::int32_t offset : *registers)
      warp.registers_in_flight.try_emplace(offset, "wgmma");
  }
}

struct Work {
  WgmmaOperands operands;
  std::shared_ptr<AsyncAuthor> author;
  std::int32_t warp = 0;
  std::vector<double> a, b;  // 16 x k, k x n
};

// Reads `extent` rows (of A or columns of B, from `first` on) by chunks of 16 bytes, which are
// contiguous in the operand's major direction.
template <class Put>
void read_operand(Execution& execution, const Work& work, Block& block, std::uint64_t word,
                  Major major, int first, int extent, Put put) {
  const WgmmaShape& shape = work.operands.shape;
  const WgmmaDescriptor descriptor = decode_wgmma_descriptor(word);
  const int bytes = element_bits(shape.format) / 8;
  const int chunk = 16 / bytes;
  const Agent& agent = work.author->agent;
  const int mn_step = major == Major::K ? 1 : chunk;
  const int k_step = major == Major::K ? chunk : 1;
  for (int mn = 0; mn < extent; mn += mn_step) {
    for (int k = 0; k < shape.k; k += k_step) {
      const std::uint32_t address =
          wgmma_element_address(descriptor, major, shape.format, first + mn, k);
      const std::byte* data =
          execution.access(AccessKind::Read, Space::Shared, address, 16, 16, agent, block);
      for (int i = 0; i < chunk; ++i) {
        std::uint32_t bits = 0;
        std::memcpy(&bits, data + i * bytes, static_cast<std::size_t>(bytes));
        const double value = element_value(shape.format, bits);
        if (major == Major::K) put(mn, k + i, value);
        else put(mn + i, k, value);
      }
    }
  }
}

void read_a_registers(Warp& warp, Work& work) {
  const WgmmaShape& shape = work.operands.shape;
  const int bits = element_bits(shape.format);
  const std::uint32_t mask = bits == 32 ? ~std::uint32_t{0} : (std::uint32_t{1} << bits) - 1;
  for (int reg = 0; reg < static_cast<int>(work.operands.a_registers.size()); ++reg) {
    const std::uint32_t* values =
        warp.lanes<std::uint32_t>(work.operands.a_registers[static_cast<std::size_t>(reg)]);
    for (int lane = 0; lane < 32; ++lane) {
      for (int part = 0; part < 32 / bits; ++part) {
        const Coordinates at = operand_a_element(shape.format, lane, reg, part);
        work.a[static_cast<std::size_t>(at.row * shape.k + at.column)] =
            shape.a_scale * element_value(shape.format, values[lane] >> (part * bits) & mask);
      }
    }
  }
}

void read_operands(Execution& execution, Work& work) {
  Block& block = *work.author->block;
  const WgmmaShape& shape = work.operands.shape;
  work.a.assign(static_cast<std::size_t>(warp_rows * shape.k), 0);
  work.b.assign(static_cast<std::size_t>(shape.n * shape.k), 0);
  if (work.operands.a_registers.empty()) {
    const int first = work.warp % warps_of_group * warp_rows;
    read_operand(execution, work, block, work.operands.a, shape.a_major, first, warp_rows,
                 [&](int row, int k, double value) {
                   work.a[static_cast<std::size_t>(row * shape.k + k)] = shape.a_scale * value;
                 });
  } else {
    read_a_registers(*block.warps[static_cast<std::size_t>(work.warp)], work);
  }
  read_operand(execution, work, block, work.operands.b, shape.b_major, 0, shape.n,
               [&](int column, int k, double value) {
                 work.b[static_cast<std::size_t>(k * shape.n + column)] = shape.b_scale * value;
               });
}

void write_results(Work& work) {
  Block& block = *work.author->block;
  Warp& warp = *block.warps[static_cast<std::size_t>(work.warp)];
  const int n = work.operands.shape.n;
  const auto each = [&](auto visit) {
    for (int index = 0; index < n / 2; ++index) {
      std::uint32_t* values =
          warp.lanes<std::uint32_t>(work.operands.accumulators[static_cast<std::size_t>(index)]);
      for (int lane = 0; lane < 32; ++lane) {
        const Coordinates at = accumulator_element(lane, index);
        visit(values[lane], static_cast<std::size_t>(at.row * n + at.column));
      }
    }
  };
  std::vector<float> sums(static_cast<std::size_t>(warp_rows * n), 0.0F);
  if (work.operands.accumulate)
    each([&](std::uint32_t value, std::size_t at) { sums[at] = std::bit_cast<float>(value); });
  multiply_accumulate(work.a, work.b, sums, warp_rows, n, work.operands.shape.k);
  each([&](std::uint32_t& value, std::size_t at) {
    value = std::bit_cast<std::uint32_t>(sums[at]);
  });
}

}  // namespace

void issue_wgmma(Warp& warp, const Instruction& instruction, WgmmaOperands operands) {
  WarpWgmma& state = state_of(warp);
  check_warpgroup(warp, state,
                  {instruction.line, operands.a_registers.empty() ? operands.a : 0, operands.b});
  // Stricter than PTX, which lets a group follow another on the same accumulators without a fence:
  // every group begins with one.
  if (!state.fenced)
    warp.report(FindingKind::RegisterInFlight, -1, "a group of wgmma begins without wgmma.fence");
  for (const std::uint64_t word :
       {operands.a_registers.empty() ? operands.a : operands.b, operands.b}) {
    const WgmmaDescriptor descriptor = decode_wgmma_descriptor(word);
    if (descriptor.base_offset != 0)
      warp.stop(FindingKind::InvalidUse, -1,
                fmt::format("wgmma descriptor {:#x}: its base offset isn't 0", word));
  }
  auto work = std::make_shared<Work>();
  work->author = warp.async_author_of_lanes(warp.live, state.actor, 0, state.open);
  work->warp = warp.index;
  check_registers(warp, state, operands);
  state.in_flight.push_back({.group = state.open,
                             .accumulators = operands.accumulators,
                             .operand = operands.a_registers});
  mark_in_flight(warp, state.in_flight.back());
  work->operands = std::move(operands);
  Execution& execution = warp.execution;
  execution.agenda.issue({.queue = state.queue,
                          .number = state.open,
                          .in_order = true,
                          .read = [&execution, work] { read_operands(execution, *work); },
                          .write = [work] { write_results(*work); },
                          .block = &warp.block,
                          .unfinished = "the block ended before its wgmma was waited for"});
}

void wgmma_fence(Warp& warp) { state_of(warp).fenced = true; }

void wgmma_commit(Warp& warp) {
  WarpWgmma& state = state_of(warp);
  state.fenced = false;
  state.open = ++warp.execution.actor_clock(state.actor);
}

void wgmma_wait(Warp& warp, std::uint32_t newest) {
  WarpWgmma& state = state_of(warp);
  const std::uint32_t closed = state.open - 1;
  if (closed <= newest) return;
  const std::uint32_t covered = closed - newest;
  warp.execution.agenda.force(state.queue, covered);
  Knowledge done;
  done.add(state.actor, 0, covered);
  warp.acquire(warp.live, done);
  std::erase_if(state.in_flight, [&](const InFlight& flight) { return flight.group <= covered; });
  warp.registers_in_flight.clear();
  for (const InFlight& flight : state.in_flight) mark_in_flight(warp, flight);
}

}  // namespace anydim::ptx
