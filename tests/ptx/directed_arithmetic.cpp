// Arithmetic rounded towards zero, down or up. This file is compiled so that the rounding mode
// counts (see CMakeLists.txt).
#include <cfenv>
#include <cmath>
#include <limits>

#include "tests/ptx/lanes.h"
#include "tests/ptx/opcodes.h"

namespace anydim::ptx {
namespace {

template <class T>
T compute(std::string_view opcode, T a, T b, T c) {
  if (opcode == "add") return a + b;
  if (opcode == "sub") return a - b;
  if (opcode == "mul") return a * b;
  if (opcode == "div") return a / b;
  if (opcode == "sqrt") return std::sqrt(a);
  if (opcode == "rcp") return T{1} / a;
  return std::fma(a, b, c);
}

struct Directed {
  std::string opcode;
  int mode = FE_TONEAREST;
};

template <class T>
T flush(T value) {
  return std::fabs(value) < std::numeric_limits<T>::min() ? std::copysign(T{0}, value) : value;
}

template <class T>
Outcome execute_directed(Warp& warp, const Instruction& instruction, LaneMask mask) {
  const auto& directed = instruction.get<Directed>();
  const bool ftz = (instruction.flags & 1) != 0, sat = (instruction.flags & 2) != 0;
  auto* out = warp.lanes<Stored<T>>(instruction.slot[0]);
  const auto* a = warp.lanes<Stored<T>>(instruction.slot[1]);
  const auto* b =
      warp.lanes<Stored<T>>(instruction.slot[2] < 0 ? instruction.slot[1] : instruction.slot[2]);
  const auto* c =
      warp.lanes<Stored<T>>(instruction.slot[3] < 0 ? instruction.slot[1] : instruction.slot[3]);
  const int before = std::fegetround();
  std::fesetround(directed.mode);
  for_each_lane(mask, [&](int lane) {
    T x = get_lane<T>(a[lane]), y = get_lane<T>(b[lane]), z = get_lane<T>(c[lane]);
    if (ftz) x = flush(x), y = flush(y), z = flush(z);
    T result = compute<T>(directed.opcode, x, y, z);
    if (ftz) result = flush(result);
    if (sat) result = result > 0 ? (result < 1 ? result : T{1}) : T{0};
    out[lane] = put_lane<T>(result);
  });
  std::fesetround(before);
  return Outcome::Next;
}

}  // namespace

std::pair<Execute, std::shared_ptr<const void>> directed_arithmetic(std::string_view opcode,
                                                                    Type type,
                                                                    std::string_view rounding) {
  auto directed = std::make_shared<Directed>();
  directed->opcode = opcode;
  directed->mode = rounding == "rz" ? FE_TOWARDZERO : rounding == "rm" ? FE_DOWNWARD : FE_UPWARD;
  return {type == Type::f32 ? execute_directed<float> : execute_directed<double>, directed};
}

}  // namespace anydim::ptx
