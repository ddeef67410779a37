// rcp, sqrt, rsqrt, ex2, lg2, sin, cos, tanh, copysign, testp. Approximate forms give the correctly
// rounded result, which lies within the hardware's error bound; tests must not compare their last
// bits with hardware.
#include <cmath>
#include <limits>
#include <numbers>
#include <tuple>

#include "tests/ptx/lanes.h"
#include "tests/ptx/opcodes.h"

namespace anydim::ptx {
namespace {

template <class T>
T flushed(T value) {
  return std::fabs(value) < std::numeric_limits<T>::min() ? std::copysign(T{0}, value) : value;
}

// f on doubles, rounded once to T.
template <class T, bool ftz, auto f>
T apply(T value) {
  if constexpr (ftz) value = flushed(value);
  auto result = static_cast<T>(f(static_cast<double>(value)));
  if constexpr (ftz) result = flushed(result);
  return result != result ? std::numeric_limits<T>::quiet_NaN() : result;
}

template <auto f>
void decode_function(Decoder& decoder) {
  const Type type = decoder.take_type();
  if (type != Type::f32 && type != Type::f64) {
    decoder.instruction.slot[0] = decoder.destination(0, type);
    decoder.instruction.slot[1] = decoder.source(1, type);
    decoder.instruction.execute = half_arithmetic(decoder, type);
    return;
  }
  const bool ftz = decoder.take("ftz");
  const std::string_view rounding = decoder.take_any({"approx", "rn", "rz", "rm", "rp", "full"});
  if (rounding.empty()) decoder.unknown("it lacks .approx or a rounding");
  decoder.instruction.slot[0] = decoder.destination(0, type);
  decoder.instruction.slot[1] = decoder.source(1, type);
  if (rounding == "rz" || rounding == "rm" || rounding == "rp") {
    if (ftz) decoder.instruction.flags = 1;
    std::tie(decoder.instruction.execute, decoder.instruction.detail) =
        directed_arithmetic(decoder.text().opcode, type, rounding);
  } else if (type == Type::f64) {
    decoder.instruction.execute = unary<double, double, apply<double, false, f>>;
  } else if (ftz) {
    decoder.instruction.execute = unary<float, float, apply<float, true, f>>;
  } else {
    decoder.instruction.execute = unary<float, float, apply<float, false, f>>;
  }
}

template <class T>
T copy_sign(T sign, T magnitude) {
  return std::copysign(magnitude, sign);
}

template <class T, auto test>
Outcome execute_test(Warp& warp, const Instruction& instruction, LaneMask mask) {
  const auto* a = warp.lanes<Stored<T>>(instruction.slot[1]);
  LaneMask result = 0;
  for_each_lane(mask, [&](int lane) {
    result |= static_cast<LaneMask>(test(get_lane<T>(a[lane])) ? 1 : 0) << lane;
  });
  warp.set_predicate(instruction.slot[0], mask, result);
  return Outcome::Next;
}

template <class T>
Execute pick_test(std::string_view name) {
  if (name == "finite") return execute_test<T, [](T a) { return std::isfinite(a); }>;
  if (name == "infinite") return execute_test<T, [](T a) { return std::isinf(a); }>;
  if (name == "number") return execute_test<T, [](T a) { return !std::isnan(a); }>;
  if (name == "notanumber") return execute_test<T, [](T a) { return std::isnan(a); }>;
  if (name == "normal") return execute_test<T, [](T a) { return std::isnormal(a); }>;
  return execute_test<T, [](T a) { return std::fpclassify(a) == FP_SUBNORMAL; }>;
}

}  // namespace

void add_real_function_opcodes(OpcodeTable& table) {
  table["rcp"] = decode_function<[](double a) { return 1 / a; }>;
  table["sqrt"] = decode_function<[](double a) { return std::sqrt(a); }>;
  table["rsqrt"] = decode_function<[](double a) { return 1 / std::sqrt(a); }>;
  table["ex2"] = decode_function<[](double a) { return std::exp2(a); }>;
  table["lg2"] = decode_function<[](double a) { return std::log2(a); }>;
  table["sin"] = decode_function<[](double a) { return std::sin(a); }>;
  table["cos"] = decode_function<[](double a) { return std::cos(a); }>;
  table["tanh"] = decode_function<[](double a) { return std::tanh(a); }>;
  table["copysign"] = [](Decoder& decoder) {
    const Type type = decoder.take_type();
    decoder.instruction.slot[0] = decoder.destination(0, type);
    decoder.instruction.slot[1] = decoder.source(1, type);
    decoder.instruction.slot[2] = decoder.source(2, type);
    decoder.instruction.execute = type == Type::f32
                                      ? binary<float, float, float, copy_sign<float>>
                                      : binary<double, double, double, copy_sign<double>>;
  };
  table["testp"] = [](Decoder& decoder) {
    const std::string_view name =
        decoder.take_any({"finite", "infinite", "number", "notanumber", "normal", "subnormal"});
    if (name.empty()) decoder.unknown("it names no class of numbers");
    const Type type = decoder.take_type();
    decoder.instruction.slot[0] = decoder.destination(0, Type::pred);
    decoder.instruction.slot[1] = decoder.source(1, type);
    decoder.instruction.execute =
        type == Type::f32 ? pick_test<float>(name) : pick_test<double>(name);
  };
}

}  // namespace anydim::ptx
