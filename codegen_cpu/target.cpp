#include "codegen_cpu/target.h"

#include <cpuid.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "ir/error.h"

namespace anydim::codegen_cpu {

namespace {

// Which register files the operating system saves at a switch of threads (XCR0).
std::uint64_t saved_state() {
  std::uint32_t low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (std::uint64_t{high} << 32) | low;
}

// Linux keeps the tile registers' 8 KB of state from a process that has not asked for them.
bool may_use_tiles() {
  constexpr long request_permission = 0x1023,
                 tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
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

namespace {

constexpr NamedTarget all_targets[] = {
    {"x86-64", {.level = Level::Baseline}},
    {"avx2", {.level = Level::Avx2}},
    {"avxvnni", {.level = Level::Avx2, .byte_dots = true}},
    {"avx512", {.level = Level::Avx512}},
    {"avx512vnni", {.level = Level::Avx512, .byte_dots = true}},
    {"avx512bf16", {.level = Level::Avx512, .avx512_bf16 = true, .byte_dots = true}},
    {"amx", {.level = Level::Avx512, .avx512_bf16 = true, .byte_dots = true, .amx = true}},
};

bool includes(const Target& more, const Target& less) {
  return more.level >= less.level && more.avx512_bf16 >= less.avx512_bf16 &&
         more.byte_dots >= less.byte_dots && more.amx >= less.amx;
}

}  // namespace

std::span<const NamedTarget> named_targets() { return all_targets; }

std::string_view level_name(const Target& target) {
  std::string_view name = all_targets[0].name;
  for (const NamedTarget& known : all_targets)
    if (includes(target, known.target)) name = known.name;
  return name;
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
  if (byte_dots) name += " vnni";
  if (amx) name += " amx";
  return name;
}

std::string Target::llvm_processor() const {
  return level == Level::Baseline ? "x86-64" : "x86-64-v3";
}

std::string Target::llvm_features() const {
  std::vector<std::string_view> features;
  // Without evex512 LLVM takes 512-bit registers away from processors other than its default.
  if (level == Level::Avx512)
    features = {"+evex512", "+avx512f", "+avx512bw", "+avx512dq", "+avx512vl"};
  if (avx512_bf16) features.emplace_back("+avx512bf16");
  if (byte_dots) features.emplace_back(level == Level::Avx512 ? "+avx512vnni" : "+avxvnni");
  if (amx) features.insert(features.end(), {"+amx-tile", "+amx-bf16", "+amx-int8"});
  return fmt::format("{}", fmt::join(features, ","));
}

namespace {

struct Processor {
  Target best;
  bool avx_vnni = false;  // dot products of bytes without AVX-512, which not every processor with
                          // those of AVX-512 has
};

Processor detect_processor() {
  Processor processor;
  Target& target = processor.best;
  std::uint32_t a = 0, b = 0, c = 0, d = 0;
  __get_cpuid(1, &a, &b, &c, &d);
  const bool has_state = bit(c, 27);
  const bool fma = bit(c, 12), f16c = bit(c, 29), avx = bit(c, 28), movbe = bit(c, 22);
  const std::uint64_t state = has_state ? saved_state() : 0;
  __get_cpuid_count(7, 0, &a, &b, &c, &d);
  const bool avx2 =
      avx && bit(b, 5) && bit(b, 3) && bit(b, 8) && fma && f16c && movbe && (state & 0x6) == 0x6;
  const bool avx512 =
      avx2 && bit(b, 16) && bit(b, 17) && bit(b, 30) && bit(b, 31) && (state & 0xe6) == 0xe6;
  const bool avx512_vnni = bit(c, 11);
  // bf16, tiles, bytes
  const bool tiles = bit(d, 22) && bit(d, 24) && bit(d, 25) && (state & 0x60000) == 0x60000;
  a = 0;
  __get_cpuid_count(7, 1, &a, &b, &c, &d);
  processor.avx_vnni = avx2 && bit(a, 4);
  if (avx512) {
    target.level = Level::Avx512;
    target.byte_dots = avx512_vnni;
    target.avx512_bf16 = bit(a, 5) && target.byte_dots;
    target.amx = target.avx512_bf16 && tiles && may_use_tiles();
  } else if (avx2) {
    target.level = Level::Avx2;
    target.byte_dots = processor.avx_vnni;
  }
  return processor;
}

bool offers(const Processor& processor, const Target& target) {
  return includes(processor.best, target) &&
         (processor.avx_vnni || !(target.level == Level::Avx2 && target.byte_dots));
}

}  // namespace

Target detect_target(std::string_view most) {
  const Processor processor = detect_processor();
  if (most.empty()) return processor.best;
  const auto wanted = std::find_if(std::begin(all_targets), std::end(all_targets),
                                   [&](const NamedTarget& named) { return named.name == most; });
  if (wanted == std::end(all_targets))
    throw Error(ErrorKind::CommandLine,
                "unknown processor level {}: it is one of x86-64, avx2, avxvnni, "
                "avx512, avx512vnni, avx512bf16 and amx",
                most);
  if (!offers(processor, wanted->target))
    throw Error(ErrorKind::Resource, "this processor offers {}, not {}: ask for a lower level",
                level_name(processor.best), most);
  return wanted->target;
}

}  // namespace anydim::codegen_cpu
