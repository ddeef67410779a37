// The processor that kernels are made for.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace anydim::codegen_cpu {

// Instruction sets that kernels are made for. Each includes the ones before it.
enum class Level {
  Baseline,  // "x86-64": SSE2
  Avx2,      // "avx2": AVX2, FMA, F16C, BMI, BMI2
  Avx512,    // "avx512": F, BW, DQ, VL
};

std::string_view name_of(Level level);
std::optional<Level> level_named(std::string_view name);

struct Target {
  Level level = Level::Baseline;
  bool avx512_bf16 = false;      // dot products of bf16 pairs
  int vector_bytes() const;      // widest register: 16, 32 or 64
  int vector_registers() const;  // 16, or 32 with AVX-512
  bool fused_multiply_add() const { return level != Level::Baseline; }
  int lanes(int element_bytes) const { return vector_bytes() / element_bytes; }
  std::string name() const;            // part of a kernel's key, e.g. "x86-64 avx512 avx512bf16"
  std::string llvm_processor() const;  // LLVM's processor name
  std::string llvm_features() const;   // LLVM's feature string, beyond the processor's
};

// What this processor and operating system offer. `forced`: at most this level; Error{Resource} where the processor lacks it.
Target detect_target(std::optional<Level> forced = std::nullopt);

}  // namespace anydim::codegen_cpu
