#include "codegen_cpu/target.h"

#include <cpuid.h>
#include <fmt/format.h>

#include <cstdint>

#include "ir/error.h"

namespace anydim::codegen_cpu {

namespace {

// Which register files the operating system saves at a switch of threads (XCR0).
std::uint64_t saved_state() {
  std::uint32_t low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (std::uint64_t{high} << 32) | low;
}

constexpr bool bit(std::uint32_t word, int position) { return ((word >> position) & 1u) != 0; }

}  // namespace

std::string_view name_of(Level level) {
  switch (level) {
    case Level::Baseline: return "x86-64";
    case Level::Avx2: return "avx2";
    case Level::Avx512: return "avx512";
  }
  internal_error("a level is one of three");
}

std::optional<Level> level_named(std::string_view name) {
  for (const Level level : {Level::Baseline, Level::Avx2, Level::Avx512}) {
    if (name == name_of(level)) return level;
  }
  return std::nullopt;
}

int Target::vector_bytes() const {
  switch (level) {
    case Level::Baseline: return 16;
    case Level::Avx2: return 32;
    case Level::Avx512: return 64;
  }
  internal_error("a level is one of three");
}

int Target::vector_registers() const { return level == Level::Avx512 ? 32 : 16; }

std::string Target::name() const {
  std::string name = "x86-64";
  if (level != Level::Baseline) name += fmt::format(" {}", name_of(level));
  if (avx512_bf16) name += " avx512bf16";
  return name;
}

std::string Target::llvm_processor() const { return level == Level::Baseline ? "x86-64" : "x86-64-v3"; }

std::string Target::llvm_features() const {
  if (level != Level::Avx512) return "";
  // Without evex512 LLVM takes 512-bit registers away from processors other than its default.
  return avx512_bf16 ? "+evex512,+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx512bf16" : "+evex512,+avx512f,+avx512bw,+avx512dq,+avx512vl";
}

Target detect_target(std::optional<Level> forced) {
  Target target;
  std::uint32_t a = 0, b = 0, c = 0, d = 0;
  __get_cpuid(1, &a, &b, &c, &d);
  const bool has_state = bit(c, 27);
  const bool fma = bit(c, 12), f16c = bit(c, 29), avx = bit(c, 28), movbe = bit(c, 22);
  const std::uint64_t state = has_state ? saved_state() : 0;
  __get_cpuid_count(7, 0, &a, &b, &c, &d);
  const bool avx2 = avx && bit(b, 5) && bit(b, 3) && bit(b, 8) && fma && f16c && movbe && (state & 0x6) == 0x6;
  const bool avx512 = avx2 && bit(b, 16) && bit(b, 17) && bit(b, 30) && bit(b, 31) && (state & 0xe6) == 0xe6;
  if (avx512) {
    target.level = Level::Avx512;
    __get_cpuid_count(7, 1, &a, &b, &c, &d);
    target.avx512_bf16 = bit(a, 5);
  } else if (avx2) {
    target.level = Level::Avx2;
  }
  if (forced && *forced != target.level) {
    if (*forced > target.level) {
      throw Error(ErrorKind::Resource,
                  fmt::format("this processor offers {}, not {}: ask for a lower level", name_of(target.level), name_of(*forced)));
    }
    target = Target{.level = *forced};
  }
  return target;
}

}  // namespace anydim::codegen_cpu
