// The GPU that kernels are generated for: what candidates, cost models and limits depend on.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace anydim::codegen_cuda {

// What the cost models count with that no data sheet says.
struct CostConstants {
#define ANYDIM_COST(name, value, what) double name = value;
#include "codegen_cuda/cost_constants.def"
#undef ANYDIM_COST
  bool operator==(const CostConstants&) const = default;
};

// Device functions (device/NAME.cuh) in place of those that are built in.
struct ReplacedText {
  std::map<std::string, std::string, std::less<>> pieces;  // by name
  std::string identity;                                    // of their names and text
};

struct CudaTarget {
  std::string name;  // part, e.g. "h200"; for people and for the cost model, no kernel depends on
                     // it but through what follows
  std::string architecture;  // as NVRTC names it: "sm_80", "sm_90a", "sm_100", ...; "compute_100"
                             // for a part that is not known: its driver gets PTX
  int multiprocessors = 0;
  std::int64_t shared_per_multiprocessor = 0;  // bytes
  std::int64_t shared_per_block = 0;  // bytes of dynamic shared memory that one block may ask for
  int threads_per_multiprocessor = 2048;
  int blocks_per_multiprocessor = 32;
  std::int64_t registers_per_multiprocessor = 65536;
  std::int64_t l2_bytes = 0;
  int memory_gb = 0;            // as the part is sold; drivers tell somewhat less
  double memory_bandwidth = 0;  // bytes a second, as measured copies reach it
  double clock = 0;             // Hz, sustained
  // 16-bit multiplications and additions with f32 sums, per clock and multiprocessor
  double tensor_flops = 0;

  // Not of the part: products of f32 numbers may be computed on TF32 tensor cores, whose operands
  // keep 10 bits of the fraction.
  bool tf32 = false;
  CostConstants costs{};
  std::shared_ptr<const ReplacedText> replaced{};  // null: device functions are those built in

  int capability() const;  // 80, 90, 100: the digits of `architecture`
  bool wants_ptx() const { return architecture.starts_with("compute_"); }
  bool has_wgmma() const {
    return architecture == "sm_90a";
  }  // warpgroup matrix products, register reallocation
  bool has_dependent_launch() const { return capability() >= 90; }
  bool operator==(const CudaTarget&) const = default;
};

// Parts by name ("a100", "h100", "h200", "l40s", "rtx4090", "b200", ...), and the most common part
// of an architecture ("sm_80": a100).
std::optional<CudaTarget> target_named(std::string_view name);
std::vector<std::string> target_names();

// A device as the driver describes it; clocks and rates under load, which no driver tells, come
// from the known part closest to it. Units as above; `driver_name` as cuDeviceGetName. What is 0 is
// taken from the known part too.
struct DeviceDescription {
  std::string driver_name;
  int capability = 0;
  int multiprocessors = 0;
  std::int64_t shared_per_multiprocessor = 0, shared_per_block = 0, l2_bytes = 0;
  int threads_per_multiprocessor = 0, blocks_per_multiprocessor = 0;
  std::int64_t registers_per_multiprocessor = 0, memory_bytes = 0;
  double memory_bandwidth = 0;  // as clock and width of the memory give it; copies reach less
};
// Throws Error{Resource} for a device older than capability 80.
CudaTarget target_of(const DeviceDescription& device);

// What times of kernels hold for, besides Backend::target(): "GPU sm_90a of 132 multiprocessors and
// 141 GB". The same for a part by its name and as its driver describes it, whatever that calls it.
std::string part_text(const CudaTarget& target);

}  // namespace anydim::codegen_cuda
