// The processor that kernels are made for.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace anydim::codegen_cpu {

// Vector instructions that kernels are made for. Each includes the ones before it.
enum class Level {
  Baseline,  // "x86-64": SSE2
  Avx2,      // "avx2": AVX2, FMA, F16C, BMI, BMI2
  Avx512,    // "avx512": F, BW, DQ, VL
};

std::string_view name_of(Level level);

// A cache has such lines on every x86-64 processor.
inline constexpr std::int64_t line_bytes = 64;

struct Target {
  Level level = Level::Baseline;
  bool avx512_bf16 = false;  // dot products of bf16 pairs
  bool byte_dots = false;    // dot products of four bytes, u8 by i8, in the widest registers (VNNI)
  bool amx = false;          // products of tiles of bf16 pairs and of bytes
  int vector_bytes() const;  // widest register: 16, 32 or 64
  int vector_registers() const;  // 16, or 32 with AVX-512
  bool fused_multiply_add() const { return level != Level::Baseline; }
  int lanes(int element_bytes) const { return vector_bytes() / element_bytes; }
  std::string name() const;            // part of a kernel's key, e.g. "x86-64 avx512 avx512bf16"
  std::string llvm_processor() const;  // LLVM's processor name
  std::string llvm_features() const;   // LLVM's feature string, beyond the processor's
};

// What kernels can be made for, from the least to the most: "x86-64", "avx2", "avxvnni", "avx512",
// "avx512vnni", "avx512bf16", "amx". Each includes the ones before it, but for "avxvnni", which
// only some processors with AVX-512 include.
struct NamedTarget {
  std::string_view name;
  Target target;
};
std::span<const NamedTarget> named_targets();
// The name of all that `target` has.
std::string_view level_name(const Target& target);

// What this processor and operating system offer. For tile registers the system is asked, once a
// process. `most`: a named target, which is what comes back; Error{CommandLine} for another name,
// Error{Resource} where the processor lacks it.
Target detect_target(std::string_view most = {});

}  // namespace anydim::codegen_cpu
