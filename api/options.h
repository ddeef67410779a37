// What a caller may ask of compile().
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/cancellation.h"
#include "ir/type.h"
#include "runtime/kernel_cache.h"
#include "runtime/timeline.h"

namespace anydim {

// NAME=LOW:HIGH[:MULTIPLE] narrows the range of a symbol of the entry function.
struct DimRange {
  std::string symbol;
  std::int64_t low = 0;
  std::int64_t high = 0;
  std::int64_t multiple = 1;
};
DimRange parse_dim_range(std::string_view text);  // throws Error{CommandLine}

using ir::Policy;
using ir::PolicyChoice;
// "bucketed" for every region, "matmul_3=symbolic" for one; throws Error{CommandLine}.
PolicyChoice parse_policy(std::string_view text);

enum class DeviceKind { Cpu, Cuda };
DeviceKind parse_device(std::string_view text);  // "cpu", "cuda"; throws Error{CommandLine}

// What operands of matmul and attention are rounded to; sums are f32. I8: products with weights are
// of 8-bit integers (passes/quantise_products.h), summed exactly, and operands of attention are
// bf16.
// "f32", "bf16", "f16", "int8"; throws Error{CommandLine}
ir::DType parse_precision(std::string_view text);
std::string_view precision_name(ir::DType precision);

// Rows of results that a mask hides.
enum class MaskedRows {
  Keep,  // as the model computes them
  Zero,  // zeros, which allows them not to be computed
};
MaskedRows parse_masked_rows(std::string_view text);  // "keep", "zero"; throws Error{CommandLine}

enum class F32Products {
  Exact,  // matmuls of f32 numbers on ordinary arithmetic
  Tf32,   // CUDA: on tensor cores, their operands rounded to 10 bits of fraction, sums in f32
};
// "exact", "tf32"; throws Error{CommandLine}
F32Products parse_f32_products(std::string_view text);

struct CompileOptions {
  DeviceKind device = DeviceKind::Cpu;
  F32Products f32_products = F32Products::Exact;
  ir::DType precision = ir::DType::F32;  // parse_precision
  std::vector<DimRange> dims{};
  std::vector<std::string> outputs{};    // names; empty: all that the model has
  std::vector<PolicyChoice> policies{};  // later ones win, and any wins over the module's
  int threads = 0;                       // 0: as many as this process may run at once
  bool checked_kernels = false;  // CUDA: forms whose waits are bounded and that trap saying where
  std::optional<std::string> cpu_level{};  // "x86-64", "avx2", "avxvnni", "avx512", "avx512vnni",
                                           // "avx512bf16", "amx"; absent: the best there is
  std::optional<std::filesystem::path> cache_folder{};  // absent: runtime::default_cache_folder()
  std::optional<std::filesystem::path>
      database{};                  // tuning database; absent: the cost model alone chooses kernels
  bool database_optional = false;  // one that is missing or cannot be read is no error
  bool keep_kernels = true;        // false: no cache on disk
  std::optional<std::int64_t> memory_limit{};  // bytes of one call
  // of Model (api/model.h); compile() leaves them as the module has them
  MaskedRows masked_rows = MaskedRows::Keep;
  bool unify_dims = true;  // take dims of inputs to be equal that ought to be: api/equal_dims.h
  bool append_in_place =
      false;                    // results that are an input with something appended: api/kv_cache.h
  bool keep_originals = false;  // constants stay readable as the model has them, for checking
                                // kernels against the reference
  bool background = true;       // the rest of the tables is compiled beside the calls
  // refuse a program whose sizes are not all constants (passes/require_static.h)
  bool static_only = false;
  std::vector<std::string> skipped_passes{};
  runtime::Warning warn{};
  std::shared_ptr<runtime::Timeline> timeline{};  // that Model records in, from compilation on
                                                  // where it is on already; null: one of its own
  // of the call that compiles, which throws Error{Cancelled}
  std::shared_ptr<const Cancellation> cancellation{};
};

// Throws Error{CommandLine} where the options ask for what their device does not have.
void require_device_has(const CompileOptions& options);
void require_device_serves(DeviceKind device, const std::vector<PolicyChoice>& policies);

int available_threads();  // processors that this process may use
int most_threads();       // that a model may compute with
// That compute: from 1 to most_threads(). Throws Error{CommandLine} where more are asked for.
int thread_count(const CompileOptions& options);

}  // namespace anydim
