// Arithmetic of f16, bf16 and pairs of them: computed in double and rounded once.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "tests/ptx/half.h"
#include "tests/ptx/lanes.h"
#include "tests/ptx/opcodes.h"

namespace anydim::ptx {
namespace {

double least(double a, double b, bool keeps_nan) {
  if (std::isnan(a) || std::isnan(b))
    return keeps_nan || (std::isnan(a) && std::isnan(b)) ? std::nan("") : std::isnan(a) ? b : a;
  if (a == b) return std::signbit(a) ? a : b;
  return std::min(a, b);
}

struct Computation {
  double (*compute)(double, double, double) = nullptr;
  bool relu = false, sat = false;
};

template <class Format>
std::uint16_t compute_one(const Computation& computation, std::uint32_t a, std::uint32_t b,
                          std::uint32_t c) {
  double result = computation.compute(Format::widen(static_cast<std::uint16_t>(a)),
                                      Format::widen(static_cast<std::uint16_t>(b)),
                                      Format::widen(static_cast<std::uint16_t>(c)));
  if (computation.relu && result < 0) result = 0;
  if (computation.sat) result = result > 0 ? std::min(result, 1.0) : 0;
  return Format::narrow(result);
}

template <class Format, bool is_pair>
Outcome execute_half(Warp& warp, const Instruction& instruction, LaneMask mask) {
  const auto& computation = instruction.get<Computation>();
  auto* out = warp.lanes<std::uint32_t>(instruction.slot[0]);
  const auto* a = warp.lanes<std::uint32_t>(instruction.slot[1]);
  const auto* b = warp.lanes<std::uint32_t>(instruction.slot[2] < 0 ? instruction.slot[1]
                                                                    : instruction.slot[2]);
  const auto* c = warp.lanes<std::uint32_t>(instruction.slot[3] < 0 ? instruction.slot[1]
                                                                    : instruction.slot[3]);
  for_each_lane(mask, [&](int lane) {
    const std::uint32_t low = compute_one<Format>(computation, a[lane], b[lane], c[lane]);
    const std::uint32_t high =
        is_pair ? compute_one<Format>(computation, a[lane] >> 16, b[lane] >> 16, c[lane] >> 16)
                : 0U;
    out[lane] = high << 16 | low;
  });
  return Outcome::Next;
}

// The sign bit alone: NaNs keep their bits.
template <bool negates>
Outcome execute_sign(Warp& warp, const Instruction& instruction, LaneMask mask) {
  auto* out = warp.lanes<std::uint32_t>(instruction.slot[0]);
  const auto* a = warp.lanes<std::uint32_t>(instruction.slot[1]);
  const auto signs = static_cast<std::uint32_t>(instruction.immediate);
  for_each_lane(mask, [&](int lane) { out[lane] = negates ? a[lane] ^ signs : a[lane] & ~signs; });
  return Outcome::Next;
}

using Function = double (*)(double, double, double);

Function function_of(std::string_view opcode, bool keeps_nan) {
  if (opcode == "add") return [](double a, double b, double) { return a + b; };
  if (opcode == "sub") return [](double a, double b, double) { return a - b; };
  if (opcode == "mul") return [](double a, double b, double) { return a * b; };
  if (opcode == "fma") return [](double a, double b, double c) { return a * b + c; };
  if (opcode == "min")
    return keeps_nan ? Function([](double a, double b, double) { return least(a, b, true); })
                     : Function([](double a, double b, double) { return least(a, b, false); });
  if (opcode == "max")
    return keeps_nan ? Function([](double a, double b, double) { return -least(-a, -b, true); })
                     : Function([](double a, double b, double) { return -least(-a, -b, false); });
  if (opcode == "ex2") return [](double a, double, double) { return std::exp2(a); };
  if (opcode == "tanh") return [](double a, double, double) { return std::tanh(a); };
  return nullptr;
}

}  // namespace

Execute half_arithmetic(Decoder& decoder, Type type) {
  const std::string& opcode = decoder.text().opcode;
  const bool is_pair = type == Type::f16x2 || type == Type::bf16x2;
  const bool is_half = type == Type::f16 || type == Type::f16x2;
  decoder.take_any({"rn", "approx"});
  decoder.take("ftz");  // denormals of f16 are kept: no result that a test may rely on differs
  if (opcode == "neg" || opcode == "abs") {
    decoder.instruction.immediate = is_pair ? 0x8000'8000 : 0x8000;
    return opcode == "neg" ? execute_sign<true> : execute_sign<false>;
  }
  Computation computation;
  computation.relu = decoder.take("relu");
  computation.sat = decoder.take("sat");
  computation.compute = function_of(opcode, decoder.take("NaN"));
  if (computation.compute == nullptr || type == Type::tf32)
    decoder.unknown("not with a 16-bit type");
  decoder.instruction.detail = std::make_shared<Computation>(computation);
  if (is_half) return is_pair ? execute_half<HalfFormat, true> : execute_half<HalfFormat, false>;
  return is_pair ? execute_half<BfloatFormat, true> : execute_half<BfloatFormat, false>;
}

}  // namespace anydim::ptx
