// mma.sync, ldmatrix, stmatrix and movmatrix: the whole warp at once.
#include <fmt/format.h>

#include "tests/ptx/element_formats.h"
#include "tests/ptx/execution.h"
#include "tests/ptx/opcodes.h"
#include "tests/ptx/units/fragment.h"
#include "tests/ptx/units/matrix_rows.h"

namespace anydim::ptx {

namespace {

constexpr LaneMask whole_warp = ~LaneMask{0};

void need_whole_warp(Warp& warp, LaneMask mask) {
  if (mask != whole_warp) {
    warp.stop(
        FindingKind::Divergence, -1,
        fmt::format("only lanes {:#010x} run an instruction that takes the whole warp", mask));
  }
}

struct MmaDetail {
  MmaShape shape;
  std::vector<std::int32_t> d, a, b, c;
};

WarpRegisters gather(Warp& warp, const std::vector<std::int32_t>& offsets) {
  WarpRegisters registers(static_cast<int>(offsets.size()));
  for (int reg = 0; reg < registers.count; ++reg) {
    const std::uint32_t* values = warp.lanes<std::uint32_t>(offsets[reg]);
    for (int lane = 0; lane < 32; ++lane) registers.at(lane, reg) = values[lane];
  }
  return registers;
}

void scatter(Warp& warp, const std::vector<std::int32_t>& offsets, const WarpRegisters& registers) {
  for (int reg = 0; reg < registers.count; ++reg) {
    std::uint32_t* values = warp.lanes<std::uint32_t>(offsets[reg]);
    for (int lane = 0; lane < 32; ++lane) values[lane] = registers.at(lane, reg);
  }
}

Outcome run_mma(Warp& warp, const Instruction& instruction, LaneMask mask) {
  need_whole_warp(warp, mask);
  const auto& mma = instruction.get<MmaDetail>();
  scatter(warp, mma.d,
          mma_sync(mma.shape, gather(warp, mma.a), gather(warp, mma.b), gather(warp, mma.c)));
  return Outcome::Next;
}

int k_of_shape(Decoder& decoder) {
  const std::string_view shape = decoder.take_any({"m16n8k4", "m16n8k8", "m16n8k16", "m16n8k32"});
  if (shape.empty()) decoder.unknown("the interpreter knows mma of m16n8k4, k8, k16 and k32");
  return shape.size() == 7 ? shape[6] - '0' : (shape[6] - '0') * 10 + (shape[7] - '0');
}

void decode_mma(Decoder& decoder) {
  decoder.demand("sync");
  decoder.demand("aligned");
  auto detail = std::make_shared<MmaDetail>();
  MmaShape& shape = detail->shape;
  shape.k = k_of_shape(decoder);
  decoder.demand("row");
  decoder.demand("col");
  shape.saturate = decoder.take("satfinite");
  const Type result = decoder.take_type();
  const Type left = decoder.take_type();
  const Type right = decoder.take_type();
  const Type addend = decoder.take_type();
  const auto format = element_format(left);
  if (!format || result != addend || !element_format(right)) decoder.unknown("mma of these types");
  shape.a = *format;
  shape.b = *element_format(right);
  const int bits = element_bits(shape.a);
  const bool integers = bits == 8;
  if (bits != element_bits(shape.b) || (!integers && left != right) || shape.k * bits < 128 ||
      shape.k * bits > 256) {
    decoder.unknown("mma of these types and this shape");
  }
  if (result == Type::f32 && !integers) shape.accumulator = AccumulatorFormat::F32;
  else if (result == Type::f16 && left == Type::f16) shape.accumulator = AccumulatorFormat::F16;
  else if (result == Type::s32 && integers) shape.accumulator = AccumulatorFormat::S32;
  else decoder.unknown("mma with this accumulator");
  const Type stored = result == Type::f16 ? Type::b32 : result;
  detail->d = decoder.destinations(0, stored);
  detail->a = decoder.sources(1, Type::b32);
  detail->b = decoder.sources(2, Type::b32);
  detail->c = decoder.sources(3, stored);
  const auto count = [](int registers) { return static_cast<std::size_t>(registers); };
  if (detail->a.size() != count(operand_a_registers(shape)) ||
      detail->b.size() != count(operand_b_registers(shape)) ||
      detail->c.size() != count(accumulator_registers(shape)) ||
      detail->d.size() != detail->c.size()) {
    decoder.unknown("the number of registers doesn't fit the shape");
  }
  decoder.instruction.detail = std::move(detail);
  decoder.instruction.aligned = true;
  decoder.instruction.execute = run_mma;
}

struct RowsDetail {
  Space space = Space::Shared;
  AddressOperand address;
  std::vector<std::int32_t> registers;
  bool transposed = false;
};

std::byte* row_pointer(Warp& warp, const RowsDetail& rows, AccessKind kind, int matrix, int row) {
  const int lane = row_address_lane(matrix, row);
  return warp.access(kind, rows.space, warp.address(rows.address, lane), matrix_row_bytes,
                     matrix_row_bytes, lane);
}

Outcome run_ldmatrix(Warp& warp, const Instruction& instruction, LaneMask mask) {
  need_whole_warp(warp, mask);
  const auto& detail = instruction.get<RowsDetail>();
  std::vector<LaneValues> loaded;  // first all reads: a destination may be the address register
  for (int matrix = 0; matrix < static_cast<int>(detail.registers.size()); ++matrix) {
    MatrixRows rows;
    for (int row = 0; row < 8; ++row)
      std::memcpy(rows[row].data(), row_pointer(warp, detail, AccessKind::Read, matrix, row),
                  matrix_row_bytes);
    loaded.push_back(distribute_matrix(rows, detail.transposed));
  }
  for (std::size_t matrix = 0; matrix < loaded.size(); ++matrix) {
    std::copy(loaded[matrix].begin(), loaded[matrix].end(),
              warp.lanes<std::uint32_t>(detail.registers[matrix]));
  }
  return Outcome::Next;
}

Outcome run_stmatrix(Warp& warp, const Instruction& instruction, LaneMask mask) {
  need_whole_warp(warp, mask);
  const auto& detail = instruction.get<RowsDetail>();
  for (int matrix = 0; matrix < static_cast<int>(detail.registers.size()); ++matrix) {
    LaneValues values;
    std::copy_n(warp.lanes<std::uint32_t>(detail.registers[matrix]), 32, values.begin());
    const MatrixRows rows = collect_matrix(values, detail.transposed);
    for (int row = 0; row < 8; ++row)
      std::memcpy(row_pointer(warp, detail, AccessKind::Write, matrix, row), rows[row].data(),
                  matrix_row_bytes);
  }
  return Outcome::Next;
}

void decode_rows(Decoder& decoder, bool load) {
  decoder.demand("sync");
  decoder.demand("aligned");
  decoder.demand("m8n8");
  decoder.demand("b16");
  auto detail = std::make_shared<RowsDetail>();
  const std::string_view count = decoder.take_any({"x1", "x2", "x4"});
  if (count.empty()) decoder.unknown("how many matrices: x1, x2 or x4");
  detail->transposed = decoder.take("trans");
  detail->space = decoder.take_space(Space::Generic);
  detail->address = decoder.address(load ? 1 : 0, detail->space);
  detail->registers = load ? decoder.destinations(0, Type::b32) : decoder.sources(1, Type::b32);
  if (detail->registers.size() != static_cast<std::size_t>(count[1] - '0'))
    decoder.unknown("one register for each matrix is needed");
  decoder.instruction.detail = std::move(detail);
  decoder.instruction.aligned = true;
  decoder.instruction.execute = load ? run_ldmatrix : run_stmatrix;
}

Outcome run_movmatrix(Warp& warp, const Instruction& instruction, LaneMask mask) {
  need_whole_warp(warp, mask);
  LaneValues values;
  std::copy_n(warp.lanes<std::uint32_t>(instruction.slot[1]), 32, values.begin());
  const LaneValues moved = distribute_matrix(collect_matrix(values, false), true);
  std::copy(moved.begin(), moved.end(), warp.lanes<std::uint32_t>(instruction.slot[0]));
  return Outcome::Next;
}

void decode_movmatrix(Decoder& decoder) {
  for (const char* modifier : {"sync", "aligned", "m8n8", "trans", "b16"}) decoder.demand(modifier);
  decoder.instruction.slot[0] = decoder.destination(0, Type::b32);
  decoder.instruction.slot[1] = decoder.source(1, Type::b32);
  decoder.instruction.aligned = true;
  decoder.instruction.execute = run_movmatrix;
}

}  // namespace

std::optional<ElementFormat> element_format(Type type) {
  switch (type) {
    case Type::f16: return ElementFormat::F16;
    case Type::bf16: return ElementFormat::BF16;
    case Type::tf32: return ElementFormat::TF32;
    case Type::s8: return ElementFormat::S8;
    case Type::u8: return ElementFormat::U8;
    default: return std::nullopt;
  }
}

void add_matrix_opcodes(OpcodeTable& table) {
  table["mma"] = decode_mma;
  table["ldmatrix"] = [](Decoder& decoder) { decode_rows(decoder, true); };
  table["stmatrix"] = [](Decoder& decoder) { decode_rows(decoder, false); };
  table["movmatrix"] = decode_movmatrix;
}

}  // namespace anydim::ptx
