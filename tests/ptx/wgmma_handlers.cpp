// wgmma.fence, mma_async, commit_group, wait_group: decoding.
#include <bit>
#include <charconv>

#include <fmt/format.h>

#include "tests/ptx/element_formats.h"
#include "tests/ptx/opcodes.h"
#include "tests/ptx/wgmma.h"

namespace anydim::ptx {

namespace {

struct WgmmaDetail {
  WgmmaOperands operands;  // all but what is read at issue
  std::int32_t a = -1;     // descriptor, -1 where A comes from registers
  std::int32_t b = -1;
  std::int32_t accumulate = -1;
  bool accumulate_negated = false;
};

std::uint64_t uniform(Warp& warp, std::int32_t offset) {
  const std::uint64_t* values = warp.lanes<std::uint64_t>(offset);
  for (int lane = 1; lane < 32; ++lane) {
    if (values[lane] != values[0]) {
      warp.stop(FindingKind::InvalidUse, lane,
                fmt::format("a wgmma descriptor differs between lanes: {:#x} and {:#x}", values[0],
                            values[lane]));
    }
  }
  return values[0];
}

Outcome run_mma_async(Warp& warp, const Instruction& instruction, LaneMask mask) {
  if (mask != ~LaneMask{0})
    warp.stop(FindingKind::Divergence, -1, fmt::format("only lanes {:#010x} run wgmma", mask));
  const auto& detail = instruction.get<WgmmaDetail>();
  WgmmaOperands operands = detail.operands;
  if (detail.a >= 0) operands.a = uniform(warp, detail.a);
  operands.b = uniform(warp, detail.b);
  const LaneMask accumulate = detail.accumulate_negated ? ~warp.predicate(detail.accumulate)
                                                        : warp.predicate(detail.accumulate);
  if (accumulate != 0 && accumulate != ~LaneMask{0})
    warp.stop(FindingKind::InvalidUse, -1, "wgmma's scale-d differs between lanes");
  operands.accumulate = accumulate != 0;
  issue_wgmma(warp, instruction, std::move(operands));
  return Outcome::Next;
}

Outcome run_fence(Warp& warp, const Instruction&, LaneMask) {
  wgmma_fence(warp);
  return Outcome::Next;
}

Outcome run_commit(Warp& warp, const Instruction&, LaneMask) {
  wgmma_commit(warp);
  return Outcome::Next;
}

Outcome run_wait(Warp& warp, const Instruction& instruction, LaneMask) {
  wgmma_wait(warp, static_cast<std::uint32_t>(instruction.immediate));
  return Outcome::Next;
}

// m64nNkK
void take_shape(Decoder& decoder, WgmmaShape& shape) {
  const std::string shape_text(decoder.first_modifier());
  const std::size_t n = shape_text.find('n'), k = shape_text.find('k');
  if (!shape_text.starts_with("m64n") || k == std::string::npos)
    decoder.unknown("a wgmma shape is m64nNkK");
  std::from_chars(shape_text.data() + n + 1, shape_text.data() + k, shape.n);
  std::from_chars(shape_text.data() + k + 1, shape_text.data() + shape_text.size(), shape.k);
  decoder.demand(shape_text);
  if (shape.n % 8 != 0 || shape.n < 8 || shape.n > 256)
    decoder.unknown("n is a multiple of 8 within 8..256");
}

double sign(Decoder& decoder, std::size_t index) {
  const std::int64_t value = decoder.constant(index);
  if (value != 1 && value != -1) decoder.unknown("wgmma's scales are 1 or -1");
  return static_cast<double>(value);
}

Major major(Decoder& decoder, std::size_t index) {
  return decoder.constant(index) != 0 ? Major::MN : Major::K;
}

void decode_mma_async(Decoder& decoder) {
  auto detail = std::make_shared<WgmmaDetail>();
  WgmmaOperands& operands = detail->operands;
  WgmmaShape& shape = operands.shape;
  take_shape(decoder, shape);
  if (decoder.take_type() != Type::f32) decoder.unknown("wgmma accumulates in f32 here");
  const Type a = decoder.take_type();
  const auto format = element_format(a);
  if (!format || decoder.take_type() != a || *format == ElementFormat::S8 ||
      *format == ElementFormat::U8)
    decoder.unknown("wgmma of these types");
  shape.format = *format;
  const bool halves = element_bits(shape.format) == 16;
  if (shape.k * element_bits(shape.format) != 256) decoder.unknown("wgmma's k spans 256 bits");
  operands.accumulators = decoder.destinations(0, Type::f32);
  if (operands.accumulators.size() != static_cast<std::size_t>(shape.n / 2))
    decoder.unknown("it takes n / 2 accumulators");
  const bool from_registers = decoder.operand(1).kind == OperandText::Kind::Vector;
  if (from_registers) operands.a_registers = decoder.sources(1, Type::b32);
  else detail->a = decoder.source(1, Type::b64);
  if (from_registers && operands.a_registers.size() != 4) decoder.unknown("A is four registers");
  detail->b = decoder.source(2, Type::b64);
  detail->accumulate = decoder.predicate(decoder.operand(3), detail->accumulate_negated);
  shape.a_scale = sign(decoder, 4);
  shape.b_scale = sign(decoder, 5);
  std::size_t next = 6;
  if (halves && !from_registers) shape.a_major = major(decoder, next++);
  if (halves) shape.b_major = major(decoder, next++);
  if (decoder.operands() != next) decoder.unknown("it has too many operands");
  decoder.instruction.detail = std::move(detail);
  decoder.instruction.may_touch_in_flight = true;
  decoder.instruction.execute = run_mma_async;
}

void decode_wgmma(Decoder& decoder) {
  decoder.demand("sync");
  decoder.demand("aligned");
  decoder.instruction.aligned = true;
  if (decoder.take("mma_async")) {
    decode_mma_async(decoder);
  } else if (decoder.take("fence")) {
    decoder.instruction.execute = run_fence;
  } else if (decoder.take("commit_group")) {
    decoder.instruction.execute = run_commit;
  } else if (decoder.take("wait_group")) {
    decoder.instruction.immediate = decoder.constant(0);
    decoder.instruction.execute = run_wait;
  } else {
    decoder.unknown("this operation of wgmma");
  }
}

}  // namespace

void add_wgmma_opcodes(OpcodeTable& table) { table["wgmma"] = decode_wgmma; }

}  // namespace anydim::ptx
