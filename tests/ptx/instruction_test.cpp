// Each instruction against the same computation on the host, on random and on extreme operands.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "ir/tensor.h"
#include "tests/ptx/fixture.h"

namespace anydim::ptx {
namespace {

using testing::download;
using testing::kernel_text;
using testing::Parameters;
using testing::upload;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;

constexpr std::size_t lanes = 256;

enum class Operands { Integers, Singles, Doubles, Halves };

std::vector<u64> operands(Operands kind, u32 seed) {
  std::mt19937_64 random(seed);
  std::vector<u64> result(lanes);
  const u64 extremes[] = {0,
                          1,
                          2,
                          31,
                          32,
                          33,
                          63,
                          64,
                          0x7f,
                          0x80,
                          0xff,
                          0x7fff,
                          0x8000,
                          0xffff,
                          0x7fff'ffff,
                          0x8000'0000,
                          0xffff'ffff,
                          0x7fff'ffff'ffff'ffff,
                          0x8000'0000'0000'0000,
                          ~u64{0}};
  const float singles[] = {0.0F,  -0.0F,    1,         -1,    0.5F,      2.5F,    3.5F,
                           -2.5F, 1e-40F,   -1e-40F,   1e30F, 3e9F,      -3e9F,   255.5F,
                           65520, INFINITY, -INFINITY, NAN,   0x1p-126F, 0x1p-24F};
  for (std::size_t i = 0; i < lanes; ++i) {
    const u64 bits = random();
    const float single = static_cast<float>(static_cast<s64>(bits)) * 0x1p-61F;
    const float chosen = i % 5 == 4   ? singles[random() % std::size(singles)]
                         : i % 2 == 0 ? single
                                      : single * 1000;
    switch (kind) {
      case Operands::Integers:
        result[i] = i % 3 == 2 ? extremes[random() % std::size(extremes)] : bits >> random() % 64;
        break;
      case Operands::Singles: result[i] = std::bit_cast<u32>(chosen); break;
      case Operands::Doubles:
        result[i] = std::bit_cast<u64>(static_cast<double>(chosen) * (1 + 0x1p-40));
        break;
      case Operands::Halves: result[i] = bits & 0xffff'ffff; break;
    }
  }
  return result;
}

// Runs the instruction on every lane's operands: %r0..2, %rd0..2, %f0..2, %fd0..2, %h0..2 all hold
// them, as wide as they are. The result is taken from register `result`.
std::vector<u64> run(const std::string& instruction, const std::string& result,
                     const std::vector<u64>& a, const std::vector<u64>& b,
                     const std::vector<u64>& c) {
  std::string body = "mul.wide.u32 %rd10, %t, 8;\n";
  for (const char* i : {"0", "1", "2"}) {
    const std::string n = i;
    body += "add.s64 %rd11, p" + n + ", %rd10;\nld.global.u64 %rd" + n +
            ", [%rd11];\ncvt.u32.u64 %r" + n + ", %rd" + n + ";\nmov.b32 %f" + n + ", %r" + n +
            ";\nmov.b64 %fd" + n + ", %rd" + n + ";\ncvt.u16.u64 %h" + n + ", %rd" + n +
            ";\nsetp.ne.u32 %q" + n + ", %r" + n + ", 0;\n";
  }
  body += instruction + "\nadd.s64 %rd12, p3, %rd10;\n";
  const char kind = result[1];
  if (kind == 'q') body += "selp.u64 %rd13, 1, 0, " + result + ";\n";
  else if (kind == 'f' && result[2] == 'd') body += "mov.b64 %rd13, " + result + ";\n";
  else if (kind == 'f') body += "mov.b32 %r30, " + result + ";\ncvt.u64.u32 %rd13, %r30;\n";
  else if (kind == 'h') body += "cvt.u64.u16 %rd13, " + result + ";\n";
  else if (result.starts_with("%rd")) body += "mov.u64 %rd13, " + result + ";\n";
  else body += "cvt.u64.u32 %rd13, " + result + ";\n";
  body += "st.global.u64 [%rd12], %rd13;\n";
  Machine machine({});
  const DeviceAddress out = machine.allocate(lanes * 8);
  const Report report = machine.launch(
      parse_ptx(kernel_text(body, 4)), "test",
      {.grid = {1, 1, 1}, .block = {lanes, 1, 1}, .cluster = {1, 1, 1}, .shared_bytes = 0},
      Parameters()
          .add(upload(machine, a))
          .add(upload(machine, b))
          .add(upload(machine, c))
          .add(out)
          .bytes());
  EXPECT_TRUE(report.ok()) << report.text();
  return download<u64>(machine, out, lanes);
}

using Host = std::function<u64(u64, u64, u64)>;

void expect(const std::string& instruction, const std::string& result, Operands kind,
            const Host& host, bool any_nan = true) {
  const std::vector<u64> a = operands(kind, 1), b = operands(kind, 2), c = operands(kind, 3);
  const std::vector<u64> got = run(instruction, result, a, b, c);
  const bool is_single = result[1] == 'f' && result[2] != 'd',
             is_double = result.starts_with("%fd");
  for (std::size_t i = 0; i < lanes; ++i) {
    const u64 wanted = host(a[i], b[i], c[i]);
    if (any_nan && is_single && std::isnan(std::bit_cast<float>(static_cast<u32>(wanted))) &&
        std::isnan(std::bit_cast<float>(static_cast<u32>(got[i]))))
      continue;
    if (any_nan && is_double && std::isnan(std::bit_cast<double>(wanted)) &&
        std::isnan(std::bit_cast<double>(got[i])))
      continue;
    ASSERT_EQ(got[i], wanted) << instruction << " lane " << i << std::hex << " a=" << a[i]
                              << " b=" << b[i] << " c=" << c[i];
  }
}

float single(u64 bits) { return std::bit_cast<float>(static_cast<u32>(bits)); }
u64 bits(float value) { return std::bit_cast<u32>(value); }
double real(u64 value) { return std::bit_cast<double>(value); }
u64 bits(double value) { return std::bit_cast<u64>(value); }
u64 unsigned_32(s64 value) { return static_cast<u32>(value); }
u64 unsigned_16(s64 value) { return static_cast<u16>(value); }

TEST(Instruction, integer_arithmetic) {
  const Operands k = Operands::Integers;
  expect("add.s32 %r3, %r0, %r1;", "%r3", k,
         [](u64 a, u64 b, u64) { return u64{static_cast<u32>(a + b)}; });
  expect("add.s64 %rd3, %rd0, -7;", "%rd3", k, [](u64 a, u64, u64) { return a - 7; });
  expect("add.s16 %h3, %h0, %h1;", "%h3", k,
         [](u64 a, u64 b, u64) { return u64{static_cast<u16>(a + b)}; });
  expect("sub.u32 %r3, %r0, %r1;", "%r3", k,
         [](u64 a, u64 b, u64) { return u64{static_cast<u32>(a - b)}; });
  expect("mul.lo.s32 %r3, %r0, %r1;", "%r3", k,
         [](u64 a, u64 b, u64) { return u64{static_cast<u32>(a * b)}; });
  expect("mul.hi.s32 %r3, %r0, %r1;", "%r3", k, [](u64 a, u64 b, u64) {
    return unsigned_32((s64{static_cast<s32>(a)} * static_cast<s32>(b)) >> 32);
  });
  expect("mul.hi.u64 %rd3, %rd0, %rd1;", "%rd3", k, [](u64 a, u64 b, u64) {
    return static_cast<u64>((static_cast<unsigned __int128>(a) * b) >> 64);
  });
  expect("mul.wide.s32 %rd3, %r0, %r1;", "%rd3", k, [](u64 a, u64 b, u64) {
    return static_cast<u64>(s64{static_cast<s32>(a)} * static_cast<s32>(b));
  });
  expect("mul.wide.u16 %r3, %h0, %h1;", "%r3", k, [](u64 a, u64 b, u64) {
    return u64{u32{static_cast<u16>(a)} * u32{static_cast<u16>(b)}};
  });
  expect("mad.lo.s32 %r3, %r0, %r1, %r2;", "%r3", k,
         [](u64 a, u64 b, u64 c) { return u64{static_cast<u32>(a * b + c)}; });
  expect("mad.wide.u32 %rd3, %r0, %r1, %rd2;", "%rd3", k, [](u64 a, u64 b, u64 c) {
    return u64{static_cast<u32>(a)} * u64{static_cast<u32>(b)} + c;
  });
  expect("dp2a.lo.u32.u32 %r3, %r0, %r1, %r2;", "%r3", k, [](u64 a, u64 b, u64 c) {
    return u64{
        static_cast<u32>((a & 0xffff) * (b & 0xff) + (a >> 16 & 0xffff) * (b >> 8 & 0xff) + c)};
  });
  expect("dp2a.hi.s32.u32 %r3, %r0, %r1, %r2;", "%r3", k, [](u64 a, u64 b, u64 c) {
    return unsigned_32(static_cast<s16>(a) * s64{static_cast<u32>(b >> 16 & 0xff)} +
                       static_cast<s16>(a >> 16) * s64{static_cast<u32>(b >> 24 & 0xff)} +
                       s64{static_cast<s32>(c)});
  });
  expect("dp2a.lo.u32.s32 %r3, %r0, %r1, %r2;", "%r3", k, [](u64 a, u64 b, u64 c) {
    return unsigned_32(s64{static_cast<u16>(a)} * static_cast<std::int8_t>(b) +
                       s64{static_cast<u16>(a >> 16)} * static_cast<std::int8_t>(b >> 8) +
                       s64{static_cast<s32>(c)});
  });
  expect("div.s32 %r3, %r0, 7;", "%r3", k,
         [](u64 a, u64, u64) { return unsigned_32(static_cast<s32>(a) / 7); });
  expect("div.u64 %rd3, %rd0, 10;", "%rd3", k, [](u64 a, u64, u64) { return a / 10; });
  expect("rem.s64 %rd3, %rd0, 13;", "%rd3", k,
         [](u64 a, u64, u64) { return static_cast<u64>(static_cast<s64>(a) % 13); });
  expect("rem.u32 %r3, %r0, 13;", "%r3", k,
         [](u64 a, u64, u64) { return u64{static_cast<u32>(a) % 13}; });
  expect("min.s32 %r3, %r0, %r1;", "%r3", k, [](u64 a, u64 b, u64) {
    return unsigned_32(std::min(static_cast<s32>(a), static_cast<s32>(b)));
  });
  expect("max.u16 %h3, %h0, %h1;", "%h3", k,
         [](u64 a, u64 b, u64) { return u64{std::max(static_cast<u16>(a), static_cast<u16>(b))}; });
  expect("abs.s32 %r3, %r0;", "%r3", k,
         [](u64 a, u64, u64) { return unsigned_32(std::abs(s64{static_cast<s32>(a)})); });
  expect("neg.s64 %rd3, %rd0;", "%rd3", k, [](u64 a, u64, u64) { return 0 - a; });
  expect("add.sat.s32 %r3, %r0, %r1;", "%r3", k, [](u64 a, u64 b, u64) {
    return unsigned_32(
        std::clamp<s64>(s64{static_cast<s32>(a)} + static_cast<s32>(b), INT32_MIN, INT32_MAX));
  });
}

TEST(Instruction, bits) {
  const Operands k = Operands::Integers;
  expect("and.b32 %r3, %r0, %r1;", "%r3", k,
         [](u64 a, u64 b, u64) { return u64{static_cast<u32>(a & b)}; });
  expect("or.b64 %rd3, %rd0, %rd1;", "%rd3", k, [](u64 a, u64 b, u64) { return a | b; });
  expect("xor.b16 %h3, %h0, %h1;", "%h3", k,
         [](u64 a, u64 b, u64) { return u64{static_cast<u16>(a ^ b)}; });
  expect("not.b32 %r3, %r0;", "%r3", k, [](u64 a, u64, u64) { return u64{~static_cast<u32>(a)}; });
  expect("shl.b32 %r3, %r0, %r1;", "%r3", k, [](u64 a, u64 b, u64) {
    return static_cast<u32>(b) > 31 ? 0 : u64{static_cast<u32>(a) << static_cast<u32>(b)};
  });
  expect("shr.u64 %rd3, %rd0, %r1;", "%rd3", k,
         [](u64 a, u64 b, u64) { return static_cast<u32>(b) > 63 ? 0 : a >> static_cast<u32>(b); });
  expect("shr.s32 %r3, %r0, %r1;", "%r3", k, [](u64 a, u64 b, u64) {
    return unsigned_32(static_cast<s32>(a) >> std::min(static_cast<u32>(b), 31U));
  });
  expect("shf.l.wrap.b32 %r3, %r0, %r1, %r2;", "%r3", k, [](u64 a, u64 b, u64 c) {
    const u64 both = u64{static_cast<u32>(b)} << 32 | static_cast<u32>(a);
    return (both << (c & 31)) >> 32;
  });
  expect("shf.r.clamp.b32 %r3, %r0, %r1, %r2;", "%r3", k, [](u64 a, u64 b, u64 c) {
    const u64 both = u64{static_cast<u32>(b)} << 32 | static_cast<u32>(a);
    return u64{static_cast<u32>(both >> std::min(static_cast<u32>(c), 32U))};
  });
  expect("lop3.b32 %r3, %r0, %r1, %r2, 0xca;", "%r3", k,
         [](u64 a, u64 b, u64 c) { return u64{static_cast<u32>((a & b) | (~a & c))}; });
  expect("prmt.b32 %r3, %r0, %r1, 0x5140;", "%r3", k, [](u64 a, u64 b, u64) {
    return (a & 0xff) | (b & 0xff) << 8 | (a >> 8 & 0xff) << 16 | (b >> 8 & 0xff) << 24;
  });
  expect("prmt.b32 %r3, %r0, %r1, 0xb000;", "%r3", k, [](u64 a, u64, u64) {
    return (a & 0xff) * 0x10101 | ((a >> 31 & 1) != 0 ? 0xff00'0000U : 0U);
  });
  expect("bfe.u32 %r3, %r0, 5, 9;", "%r3", k,
         [](u64 a, u64, u64) { return static_cast<u32>(a) >> 5 & 0x1ff; });
  expect("bfe.s32 %r3, %r0, 24, 8;", "%r3", k,
         [](u64 a, u64, u64) { return unsigned_32(static_cast<s32>(a) >> 24); });
  expect("bfe.s64 %rd3, %rd0, 60, 10;", "%rd3", k,
         [](u64 a, u64, u64) { return static_cast<u64>(static_cast<s64>(a) >> 60); });
  expect("bfi.b32 %r3, %r0, %r1, 8, 4;", "%r3", k, [](u64 a, u64 b, u64) {
    return u64{static_cast<u32>((b & ~u64{0xf00}) | (a & 0xf) << 8)};
  });
  expect("bfind.u32 %r3, %r0;", "%r3", k, [](u64 a, u64, u64) {
    return u64{static_cast<u32>(31 - std::countl_zero(static_cast<u32>(a)))};
  });
  expect("bfind.shiftamt.s32 %r3, %r0;", "%r3", k, [](u64 a, u64, u64) {
    const u32 x = static_cast<s32>(a) < 0 ? ~static_cast<u32>(a) : static_cast<u32>(a);
    return x == 0 ? u64{0xffff'ffff} : static_cast<u64>(std::countl_zero(x));
  });
  expect("popc.b64 %r3, %rd0;", "%r3", k,
         [](u64 a, u64, u64) { return static_cast<u64>(std::popcount(a)); });
  expect("clz.b32 %r3, %r0;", "%r3", k,
         [](u64 a, u64, u64) { return static_cast<u64>(std::countl_zero(static_cast<u32>(a))); });
  expect("brev.b32 %r3, %r0; brev.b32 %r3, %r3;", "%r3", k,
         [](u64 a, u64, u64) { return u64{static_cast<u32>(a)}; });
  expect("brev.b32 %r3, 6;", "%r3", k, [](u64, u64, u64) { return u64{0x6000'0000}; });
}

TEST(Instruction, single_arithmetic) {
  const Operands k = Operands::Singles;
  expect("add.f32 %f3, %f0, %f1;", "%f3", k,
         [](u64 a, u64 b, u64) { return bits(single(a) + single(b)); });
  expect("sub.rn.f32 %f3, %f0, %f1;", "%f3", k,
         [](u64 a, u64 b, u64) { return bits(single(a) - single(b)); });
  expect("mul.f32 %f3, %f0, 0f40490FDB;", "%f3", k,
         [](u64 a, u64, u64) { return bits(single(a) * std::bit_cast<float>(0x40490FDBU)); });
  expect("fma.rn.f32 %f3, %f0, %f1, %f2;", "%f3", k,
         [](u64 a, u64 b, u64 c) { return bits(std::fma(single(a), single(b), single(c))); });
  expect("div.rn.f32 %f3, %f0, %f1;", "%f3", k,
         [](u64 a, u64 b, u64) { return bits(single(a) / single(b)); });
  expect("sqrt.rn.f32 %f3, %f0;", "%f3", k,
         [](u64 a, u64, u64) { return bits(std::sqrt(single(a))); });
  expect("rcp.rn.f32 %f3, %f0;", "%f3", k, [](u64 a, u64, u64) { return bits(1 / single(a)); });
  expect("neg.f32 %f3, %f0;", "%f3", k, [](u64 a, u64, u64) { return bits(-single(a)); });
  expect("abs.ftz.f32 %f3, %f0;", "%f3", k, [](u64 a, u64, u64) {
    return bits(std::fabs(single(a)) < 0x1p-126F ? 0.0F : std::fabs(single(a)));
  });
  expect("add.ftz.sat.f32 %f3, %f0, 0f00000000;", "%f3", k, [](u64 a, u64, u64) {
    const float x = single(a);
    return bits(x > 0x1p-127F ? std::min(x < 0x1p-126F ? 0.0F : x, 1.0F) : 0.0F);
  });
  expect("min.f32 %f3, %f0, %f1;", "%f3", k, [](u64 a, u64 b, u64) {
    const float x = single(a), y = single(b);
    if (x == 0 && y == 0) return bits(std::signbit(x) ? x : y);
    return bits(std::fmin(x, y));
  });
  expect("max.NaN.f32 %f3, %f0, %f1;", "%f3", k, [](u64 a, u64 b, u64) {
    const float x = single(a), y = single(b);
    if (std::isnan(x) || std::isnan(y)) return bits(NAN);
    if (x == 0 && y == 0) return bits(std::signbit(x) ? y : x);
    return bits(std::fmax(x, y));
  });
  expect("copysign.f32 %f3, %f0, %f1;", "%f3", k,
         [](u64 a, u64 b, u64) { return bits(std::copysign(single(b), single(a))); });
  expect("testp.subnormal.f32 %q3, %f0;", "%q3", k,
         [](u64 a, u64, u64) { return u64{std::fpclassify(single(a)) == FP_SUBNORMAL}; });
}

TEST(Instruction, directed_rounding) {
  const Operands k = Operands::Singles;
  // Sums and products of singles in double are exact enough to say which neighbour is wanted.
  const auto directed = [](double exact, bool up) {
    auto near = static_cast<float>(exact);
    if (std::isnan(exact) || std::isinf(exact) || static_cast<double>(near) == exact)
      return bits(near);
    if (up && static_cast<double>(near) < exact) near = std::nextafterf(near, INFINITY);
    if (!up && static_cast<double>(near) > exact) near = std::nextafterf(near, -INFINITY);
    return bits(near);
  };
  expect("mul.rp.f32 %f3, %f0, %f1;", "%f3", k, [&](u64 a, u64 b, u64) {
    return directed(static_cast<double>(single(a)) * static_cast<double>(single(b)), true);
  });
  expect("mul.rm.f32 %f3, %f0, %f1;", "%f3", k, [&](u64 a, u64 b, u64) {
    return directed(static_cast<double>(single(a)) * static_cast<double>(single(b)), false);
  });
  expect("mul.rz.f32 %f3, %f0, %f1;", "%f3", k, [&](u64 a, u64 b, u64) {
    const double exact = static_cast<double>(single(a)) * static_cast<double>(single(b));
    return directed(exact, exact < 0);
  });
}

TEST(Instruction, double_arithmetic) {
  const Operands k = Operands::Doubles;
  expect("add.f64 %fd3, %fd0, %fd1;", "%fd3", k,
         [](u64 a, u64 b, u64) { return bits(real(a) + real(b)); });
  expect("fma.rn.f64 %fd3, %fd0, %fd1, %fd2;", "%fd3", k,
         [](u64 a, u64 b, u64 c) { return bits(std::fma(real(a), real(b), real(c))); });
  expect("div.rn.f64 %fd3, %fd0, %fd1;", "%fd3", k,
         [](u64 a, u64 b, u64) { return bits(real(a) / real(b)); });
  expect("sqrt.rn.f64 %fd3, %fd0;", "%fd3", k,
         [](u64 a, u64, u64) { return bits(std::sqrt(real(a))); });
  expect("mul.f64 %fd3, %fd0, 0d4000000000000000;", "%fd3", k,
         [](u64 a, u64, u64) { return bits(real(a) * 2); });
}

TEST(Instruction, functions_within_a_few_units) {
  const std::vector<u64> a = operands(Operands::Singles, 7);
  const std::vector<std::pair<std::string, double (*)(double)>> functions = {
      {"ex2.approx.ftz.f32", [](double x) { return std::exp2(x); }},
      {"lg2.approx.f32", [](double x) { return std::log2(x); }},
      {"sin.approx.f32", [](double x) { return std::sin(x); }},
      {"cos.approx.ftz.f32", [](double x) { return std::cos(x); }},
      {"tanh.approx.f32", [](double x) { return std::tanh(x); }},
      {"rsqrt.approx.f32", [](double x) { return 1 / std::sqrt(x); }},
      {"rcp.approx.ftz.f32", [](double x) { return 1 / x; }},
  };
  for (const auto& [name, function] : functions) {
    const std::vector<u64> got = run(name + " %f3, %f0;", "%f3", a, a, a);
    for (std::size_t i = 0; i < lanes; ++i) {
      const float x = single(a[i]);
      if (std::fpclassify(x) == FP_SUBNORMAL) continue;
      const auto wanted = static_cast<float>(function(static_cast<double>(x)));
      if (std::isnan(wanted) || std::fpclassify(wanted) == FP_SUBNORMAL) continue;
      if (std::isinf(wanted)) EXPECT_EQ(single(got[i]), wanted) << name << " " << x;
      else EXPECT_NEAR(single(got[i]), wanted, std::fabs(wanted) * 1e-6F) << name << " " << x;
    }
  }
}

TEST(Instruction, conversions) {
  expect("cvt.s64.s32 %rd3, %r0;", "%rd3", Operands::Integers,
         [](u64 a, u64, u64) { return static_cast<u64>(s64{static_cast<s32>(a)}); });
  expect("cvt.u32.u8 %r3, %r0;", "%r3", Operands::Integers,
         [](u64 a, u64, u64) { return a & 0xff; });
  expect("cvt.s32.s8 %r3, %r0;", "%r3", Operands::Integers,
         [](u64 a, u64, u64) { return unsigned_32(static_cast<std::int8_t>(a)); });
  expect("cvt.sat.u8.s32 %r3, %r0;", "%r3", Operands::Integers,
         [](u64 a, u64, u64) { return static_cast<u64>(std::clamp(static_cast<s32>(a), 0, 255)); });
  expect("cvt.sat.s16.s64 %h3, %rd0;", "%h3", Operands::Integers, [](u64 a, u64, u64) {
    return unsigned_16(std::clamp<s64>(static_cast<s64>(a), -32768, 32767));
  });
  expect("cvt.rn.f32.s32 %f3, %r0;", "%f3", Operands::Integers,
         [](u64 a, u64, u64) { return bits(static_cast<float>(static_cast<s32>(a))); });
  expect("cvt.rn.f32.u64 %f3, %rd0;", "%f3", Operands::Integers,
         [](u64 a, u64, u64) { return bits(static_cast<float>(a)); });
  expect("cvt.rz.f32.u32 %f3, %r0;", "%f3", Operands::Integers, [](u64 a, u64, u64) {
    const auto exact = static_cast<double>(static_cast<u32>(a));
    const auto near = static_cast<float>(exact);
    return bits(static_cast<double>(near) > exact ? std::nextafterf(near, 0) : near);
  });
  expect("cvt.rn.f64.s64 %fd3, %rd0;", "%fd3", Operands::Integers,
         [](u64 a, u64, u64) { return bits(static_cast<double>(static_cast<s64>(a))); });
  expect("cvt.rzi.s32.f32 %r3, %f0;", "%r3", Operands::Singles, [](u64 a, u64, u64) {
    const auto x = static_cast<double>(single(a));
    return std::isnan(x)
               ? 0
               : unsigned_32(static_cast<s64>(std::clamp(std::trunc(x), -0x1p31, 0x1p31 - 1)));
  });
  expect("cvt.rni.u32.f32 %r3, %f0;", "%r3", Operands::Singles, [](u64 a, u64, u64) {
    const auto x = static_cast<double>(single(a));
    return std::isnan(x) ? 0 : static_cast<u64>(std::clamp(std::nearbyint(x), 0.0, 0x1p32 - 1));
  });
  expect("cvt.rpi.f32.f32 %f3, %f0;", "%f3", Operands::Singles,
         [](u64 a, u64, u64) { return bits(std::ceil(single(a))); });
  expect("cvt.sat.f32.f32 %f3, %f0;", "%f3", Operands::Singles,
         [](u64 a, u64, u64) { return bits(single(a) > 0 ? std::min(single(a), 1.0F) : 0.0F); });
  expect("cvt.rn.f32.f64 %f3, %fd0;", "%f3", Operands::Doubles,
         [](u64 a, u64, u64) { return bits(static_cast<float>(real(a))); });
  expect("cvt.f64.f32 %fd3, %f0;", "%fd3", Operands::Singles,
         [](u64 a, u64, u64) { return bits(static_cast<double>(single(a))); });
}

TEST(Instruction, halves) {
  const auto half_or_nan = [](u16 value) {
    return std::isnan(ir::half_to_float(value)) ? u64{0x7fff} : u64{value};
  };
  const auto bfloat_or_nan = [](u16 value) {
    return std::isnan(ir::bfloat16_to_float(value)) ? u64{0x7fff} : u64{value};
  };
  expect("cvt.rn.f16.f32 %h3, %f0;", "%h3", Operands::Singles,
         [&](u64 a, u64, u64) { return half_or_nan(ir::float_to_half(single(a))); });
  expect("cvt.rn.bf16.f32 %h3, %f0;", "%h3", Operands::Singles,
         [&](u64 a, u64, u64) { return bfloat_or_nan(ir::float_to_bfloat16(single(a))); });
  expect("cvt.rz.bf16.f32 %h3, %f0;", "%h3", Operands::Singles,
         [&](u64 a, u64, u64) { return bfloat_or_nan(static_cast<u16>(a >> 16)); });
  expect("cvt.f32.f16 %f3, %h0;", "%f3", Operands::Halves,
         [](u64 a, u64, u64) { return bits(ir::half_to_float(static_cast<u16>(a))); });
  expect("cvt.f32.bf16 %f3, %h0;", "%f3", Operands::Halves,
         [](u64 a, u64, u64) { return bits(ir::bfloat16_to_float(static_cast<u16>(a))); });
  // The first source becomes the upper half.
  expect("cvt.rn.bf16x2.f32 %r3, %f0, %f1;", "%r3", Operands::Singles, [&](u64 a, u64 b, u64) {
    return bfloat_or_nan(ir::float_to_bfloat16(single(a))) << 16 |
           bfloat_or_nan(ir::float_to_bfloat16(single(b)));
  });
  expect("cvt.rn.f16x2.f32 %r3, %f0, %f1;", "%r3", Operands::Singles, [&](u64 a, u64 b, u64) {
    return half_or_nan(ir::float_to_half(single(a))) << 16 |
           half_or_nan(ir::float_to_half(single(b)));
  });
  expect("cvt.rn.relu.f16x2.f32 %r3, %f0, %f1;", "%r3", Operands::Singles, [&](u64 a, u64 b, u64) {
    const auto positive = [&](float x) {
      return std::isnan(x) ? u64{0x7fff} : half_or_nan(ir::float_to_half(x > 0 ? x : 0.0F));
    };
    return positive(single(a)) << 16 | positive(single(b));
  });
  expect("cvt.rna.tf32.f32 %r3, %f0;", "%r3", Operands::Singles, [](u64 a, u64, u64) {
    const auto x = static_cast<u32>(a);
    if (std::isnan(single(a))) return u64{0x7fff'ffff};
    return std::isinf(single(a)) ? u64{x} : u64{(x + 0x1000) & ~0x1fffU};
  });
  // Sums of halves are exact in double, which is rounded once.
  expect("add.f16 %h3, %h0, %h1;", "%h3", Operands::Halves, [&](u64 a, u64 b, u64) {
    return half_or_nan(ir::float_to_half(ir::half_to_float(static_cast<u16>(a)) +
                                         ir::half_to_float(static_cast<u16>(b))));
  });
  expect("mul.bf16x2 %r3, %r0, %r1;", "%r3", Operands::Halves, [&](u64 a, u64 b, u64) {
    const auto product = [&](int shift) {
      return bfloat_or_nan(
          ir::float_to_bfloat16(ir::bfloat16_to_float(static_cast<u16>(a >> shift)) *
                                ir::bfloat16_to_float(static_cast<u16>(b >> shift))));
    };
    return product(16) << 16 | product(0);
  });
  expect("neg.bf16x2 %r3, %r0;", "%r3", Operands::Halves,
         [](u64 a, u64, u64) { return a ^ 0x8000'8000; });
  expect("max.f16x2 %r3, %r0, %r1;", "%r3", Operands::Halves, [&](u64 a, u64 b, u64) {
    const auto greater = [&](int shift) -> u64 {
      const auto x = static_cast<u16>(a >> shift), y = static_cast<u16>(b >> shift);
      const float p = ir::half_to_float(x), q = ir::half_to_float(y);
      if (std::isnan(p) && std::isnan(q)) return 0x7fff;
      if (std::isnan(p) || std::isnan(q)) return std::isnan(p) ? y : x;
      if (p == q) return std::signbit(p) ? y : x;
      return p > q ? x : y;
    };
    return greater(16) << 16 | greater(0);
  });
}

TEST(Instruction, fma_of_halves_rounds_once) {
  // 1 + 2^-10 squared plus a tiny addend: rounding to single first would lose the addend.
  const auto at = [](float x) { return u64{ir::float_to_half(x)}; };
  const std::vector<u64> a(lanes, at(1 + 0x1p-10F)), b(lanes, at(1 + 0x1p-1F)),
      c(lanes, at(0x1p-24F));
  // half way between two halves but for the addend
  const double exact = (1 + 0x1p-10) * 1.5 + 0x1p-24;
  EXPECT_GT(exact, 1.5 + 0x1p-9 - 0x1p-11);
  EXPECT_EQ(run("fma.rn.f16 %h3, %h0, %h1, %h2;", "%h3", a, b, c)[0], at(1.5F + 0x1p-9F));
}

TEST(Instruction, comparisons_and_selections) {
  const auto f = [](bool value) { return u64{value}; };
  expect("setp.lt.s32 %q3, %r0, %r1;", "%q3", Operands::Integers,
         [&](u64 a, u64 b, u64) { return f(static_cast<s32>(a) < static_cast<s32>(b)); });
  expect("setp.hi.u32 %q3, %r0, %r1;", "%q3", Operands::Integers,
         [&](u64 a, u64 b, u64) { return f(static_cast<u32>(a) > static_cast<u32>(b)); });
  expect("setp.ge.s16 %q3, %h0, 3;", "%q3", Operands::Integers,
         [&](u64 a, u64, u64) { return f(static_cast<s16>(a) >= 3); });
  expect("setp.ne.b64 %q3, %rd0, %rd1;", "%q3", Operands::Integers,
         [&](u64 a, u64 b, u64) { return f(a != b); });
  expect("setp.eq.and.u32 %q4|%q3, %r0, %r0, %q1;", "%q3", Operands::Integers,
         [&](u64, u64, u64) { return f(false); });
  expect("setp.lt.or.u32 %q3, %r0, %r1, !%q2;", "%q3", Operands::Integers,
         [&](u64 a, u64 b, u64 c) {
           return f(static_cast<u32>(a) < static_cast<u32>(b) || static_cast<u32>(c) == 0);
         });
  expect("setp.ltu.f32 %q3, %f0, %f1;", "%q3", Operands::Singles,
         [&](u64 a, u64 b, u64) { return f(!(single(a) >= single(b))); });
  expect("setp.ne.f32 %q3, %f0, %f1;", "%q3", Operands::Singles,
         [&](u64 a, u64 b, u64) { return f(single(a) < single(b) || single(a) > single(b)); });
  expect("setp.num.f32 %q3, %f0, %f1;", "%q3", Operands::Singles,
         [&](u64 a, u64 b, u64) { return f(!std::isnan(single(a)) && !std::isnan(single(b))); });
  expect("setp.gt.bf16 %q3, %h0, %h1;", "%q3", Operands::Halves, [&](u64 a, u64 b, u64) {
    return f(ir::bfloat16_to_float(static_cast<u16>(a)) >
             ir::bfloat16_to_float(static_cast<u16>(b)));
  });
  expect("set.le.u32.s32 %r3, %r0, %r1;", "%r3", Operands::Integers, [](u64 a, u64 b, u64) {
    return static_cast<s32>(a) <= static_cast<s32>(b) ? u64{0xffff'ffff} : 0;
  });
  expect("selp.b64 %rd3, %rd0, %rd1, %q2;", "%rd3", Operands::Integers,
         [](u64 a, u64 b, u64 c) { return static_cast<u32>(c) != 0 ? a : b; });
  expect("xor.pred %q3, %q0, %q1; not.pred %q3, %q3;", "%q3", Operands::Integers,
         [&](u64 a, u64 b, u64) {
           return f((static_cast<u32>(a) != 0) == (static_cast<u32>(b) != 0));
         });
  expect("slct.s32.s32 %r3, %r0, %r1, %r2;", "%r3", Operands::Integers, [](u64 a, u64 b, u64 c) {
    return u64{static_cast<u32>(static_cast<s32>(c) >= 0 ? a : b)};
  });
}

TEST(Instruction, vector_moves) {
  expect("mov.b64 {%r4, %r5}, %rd0; mov.b64 %rd3, {%r5, %r4};", "%rd3", Operands::Integers,
         [](u64 a, u64, u64) { return a >> 32 | a << 32; });
  expect("mov.b32 {%h4, %h5}, %r0; mov.b32 %r3, {%h5, %h5};", "%r3", Operands::Integers,
         [](u64 a, u64, u64) { return (static_cast<u32>(a) >> 16) * u64{0x10001}; });
  expect("mov.b64 {_, %r4}, %rd0; cvt.u64.u32 %rd3, %r4;", "%rd3", Operands::Integers,
         [](u64 a, u64, u64) { return a >> 32; });
}

}  // namespace
}  // namespace anydim::ptx
