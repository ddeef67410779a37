// Operators on the GPU against cuBLASLt: device time alone, from replayed graphs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/compile.h"
#include "api/options.h"
#include "ir/type.h"

namespace anydim {

struct GpuSample {
  double median = 0, least = 0, most = 0;  // seconds of one call
};

// Engines side by side: medians of their calls, taken in turn.
struct GpuComparison {
  GpuSample ours;
  GpuSample heuristic,
      best;  // the library's first choice, and the fastest of its algorithms; 0 where not asked for
};

// x[m, k] * w[k, n] + bias[n]. A program of `copies` products over weights, inputs and outputs of
// their own (as a model's layers have) is captured with as many launches; engines take turns, one
// replay each.
struct GpuMatmul {
  std::int64_t m = 0, n = 0, k = 0;
  ir::DType dtype = ir::DType::BF16;
  int copies = 12;
};
struct GpuMatmulTimes {
  std::string schedule;  // ours
  GpuComparison ring;    // each product's weight another copy
  // one product again and again: what fits the L2 cache is there. Where asked for
  GpuComparison warm;
  GpuComparison cold;  // one product alone after memory larger than the L2 cache was written,
                       // events included. Where asked for
  int algorithms = 0;  // that the library offered and that ran
  // It is the largest between elements of the first and the last copy and what they must be, and
  // between all their elements and the library's (api/gpu_check.h).
  double largest_difference = 0;
};
struct GpuBenchOptions {
  bool library = true;          // compare with cuBLASLt
  std::string library_path{};   // empty: where the loader finds it, or what the device uses
  bool cache_extremes = false;  // warm and cold
  // most to choose from, by repetitions of their own that are not among those reported
  int algorithms = 100;
  int repetitions = 31;
};
// The program that is timed, of all shapes with its n and k.
std::string matmul_program(const GpuMatmul& shape);
// All shapes have one n and k; one program serves them. Throws Error{Resource} without GPU, NVRTC
// or (where asked for) cuBLASLt.
std::vector<GpuMatmulTimes> time_matmul(const CompileTarget& target,
                                        const std::vector<GpuMatmul>& shapes,
                                        const CompileOptions& options,
                                        const GpuBenchOptions& bench);

// Why cuBLASLt is not there; empty: it is. Throws what is wrong with the GPU.
std::string library_missing(const CompileTarget& target, const std::string& path);

// What products of queries and keys are multiplied by, over 1 / sqrt(head): operands are drawn from
// [-1/16, 1/16), and scores are to differ as much as a model's.
double attention_scale(std::int64_t head);

// softmax(attention_scale q k^T) v over [batch, heads, length, head]; with `lengths` over sequences
// of those lengths laid end to end, [rows, heads * head] each operand, and batch and length say
// nothing.
struct GpuAttention {
  std::int64_t batch = 0, heads = 0, length = 0, head = 0;
  ir::DType dtype = ir::DType::BF16;
  std::vector<std::int64_t> lengths{};
};
// The program that is timed; of equal lengths one for all shapes with its head.
std::string attention_program(const GpuAttention& shape);
struct GpuAttentionTimes {
  std::string schedule;
  GpuSample ours;
  double largest_difference = 0;  // of some rows and what they must be (api/gpu_check.h)
};
std::vector<GpuAttentionTimes> time_attention(const CompileTarget& target,
                                              const std::vector<GpuAttention>& shapes,
                                              const CompileOptions& options, int repetitions);

// A module's call on inputs, all of it but the copies from and to the host.
GpuSample time_call(runtime::Context& context, const std::vector<ir::Tensor>& inputs,
                    int repetitions);

}  // namespace anydim
