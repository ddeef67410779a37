#include "codegen_cuda/target.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "ir/error.h"

namespace anydim::codegen_cuda {

namespace {

// Measured on an H200 (4.3 of 4.9 TB/s) and an H100 (3.0 of 3.35 TB/s).
constexpr double reached_by_copies = 0.89;

constexpr std::int64_t kib = 1024, mib = 1024 * kib, gib = 1024 * mib;

// Data sheets: multiprocessors, caches, clocks, dense 16-bit rates. Bandwidth is what copies reach,
// about nine tenths of the sheet's.
std::vector<CudaTarget> parts() {
  const auto part = [](const char* name, const char* architecture, int multiprocessors,
                       std::int64_t shared, int threads, int blocks, std::int64_t l2, int memory,
                       double bandwidth, double clock, double flops) {
    return CudaTarget{.name = name,
                      .architecture = architecture,
                      .multiprocessors = multiprocessors,
                      .shared_per_multiprocessor = shared * kib,
                      .shared_per_block = (shared - 1) * kib,
                      .threads_per_multiprocessor = threads,
                      .blocks_per_multiprocessor = blocks,
                      .l2_bytes = l2 * mib,
                      .memory_gb = memory,
                      .memory_bandwidth = bandwidth,
                      .clock = clock,
                      .tensor_flops = flops};
  };
  return {
      part("a100", "sm_80", 108, 164, 2048, 32, 40, 40, 1.4e12, 1.41e9, 2048),
      part("a30", "sm_80", 56, 164, 2048, 32, 24, 24, 0.84e12, 1.44e9, 2048),
      part("rtx3090", "sm_86", 82, 100, 1536, 16, 6, 24, 0.85e12, 1.70e9, 512),
      part("a10", "sm_86", 72, 100, 1536, 16, 6, 24, 0.54e12, 1.70e9, 1024),
      part("orin", "sm_87", 16, 164, 1536, 16, 4, 32, 0.18e12, 1.30e9, 2048),
      part("rtx4090", "sm_89", 128, 100, 1536, 24, 72, 24, 0.92e12, 2.52e9, 512),
      part("l40s", "sm_89", 142, 100, 1536, 24, 96, 48, 0.78e12, 2.52e9, 1024),
      part("l4", "sm_89", 58, 100, 1536, 24, 48, 24, 0.27e12, 2.04e9, 1024),
      part("h200", "sm_90a", 132, 228, 2048, 32, 50, 141, 4.3e12, 1.75e9, 4096),
      part("h100", "sm_90a", 132, 228, 2048, 32, 50, 80, 3.0e12, 1.75e9, 4096),
      part("h100-pcie", "sm_90a", 114, 228, 2048, 32, 50, 80, 1.8e12, 1.62e9, 4096),
      part("b200", "sm_100", 148, 228, 2048, 32, 126, 180, 7.0e12, 1.85e9,
           4096),  // with mma.sync; tcgen05 would double it
      part("rtx5090", "sm_120", 170, 100, 1536, 24, 96, 32, 1.6e12, 2.41e9, 512),
  };
}

std::string lower(std::string_view text) {
  std::string result;
  for (const char c : text)
    result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

// What a driver tells of memory is some per cent less than what the part is sold with, and differs
// between drivers.
int memory_sold(const std::vector<CudaTarget>& known, const DeviceDescription& device) {
  constexpr double most_missing = 0.12;
  const double told = static_cast<double>(device.memory_bytes) / static_cast<double>(gib);
  for (const CudaTarget& part : known) {
    if (part.capability() == device.capability && told <= part.memory_gb &&
        told >= (1 - most_missing) * part.memory_gb)
      return part.memory_gb;
  }
  return static_cast<int>(std::lround(told));
}

}  // namespace

int CudaTarget::capability() const {
  int number = 0;
  for (const char c : architecture) {
    if (c >= '0' && c <= '9') number = number * 10 + (c - '0');
  }
  return number;
}

std::optional<CudaTarget> target_named(std::string_view name) {
  const std::vector<CudaTarget> known = parts();
  for (const CudaTarget& part : known) {
    if (part.name == name || part.architecture == name) return part;
  }
  // sm_90 without its own instructions runs on the same part.
  for (const CudaTarget& part : known) {
    if (part.architecture == std::string(name) + "a") {
      CudaTarget plain = part;
      plain.architecture = name;
      return plain;
    }
  }
  return std::nullopt;
}

std::vector<std::string> target_names() {
  std::vector<std::string> names;
  for (const CudaTarget& part : parts()) names.push_back(part.name);
  return names;
}

CudaTarget target_of(const DeviceDescription& device) {
  if (device.capability < 80) {
    throw Error(ErrorKind::Resource,
                "the GPU {} has compute capability {}.{}, and kernels need 8.0 or newer",
                device.driver_name, device.capability / 10, device.capability % 10);
  }
  const std::vector<CudaTarget> known = parts();
  const std::string driver_name = lower(device.driver_name);
  const auto distance = [&](const CudaTarget& part) {
    std::string name = part.name;
    std::ranges::replace(name, '-', ' ');
    if (driver_name.find(name) != std::string::npos && part.capability() == device.capability)
      return -static_cast<int>(name.size());
    return std::abs(part.capability() - device.capability) * 1000 +
           std::abs(part.multiprocessors - device.multiprocessors);
  };
  CudaTarget target = *std::min_element(
      known.begin(), known.end(),
      [&](const CudaTarget& a, const CudaTarget& b) { return distance(a) < distance(b); });
  if (target.capability() != device.capability) {
    // PTX of an architecture runs on every later one.
    int newest = 0;
    for (const CudaTarget& part : known)
      if (part.capability() <= device.capability) newest = std::max(newest, part.capability());
    target.architecture = fmt::format("compute_{}", newest);
  }
  target.name = driver_name;
  target.multiprocessors = device.multiprocessors;
  target.shared_per_multiprocessor = device.shared_per_multiprocessor;
  target.shared_per_block = device.shared_per_block;
  target.l2_bytes = device.l2_bytes;
  if (device.memory_bytes > 0) target.memory_gb = memory_sold(known, device);
  if (device.threads_per_multiprocessor > 0)
    target.threads_per_multiprocessor = device.threads_per_multiprocessor;
  if (device.blocks_per_multiprocessor > 0)
    target.blocks_per_multiprocessor = device.blocks_per_multiprocessor;
  if (device.registers_per_multiprocessor > 0)
    target.registers_per_multiprocessor = device.registers_per_multiprocessor;
  if (device.memory_bandwidth > 0)
    target.memory_bandwidth = reached_by_copies * device.memory_bandwidth;
  return target;
}

std::string part_text(const CudaTarget& target) {
  return fmt::format("GPU {} of {} multiprocessors and {} GB", target.architecture,
                     target.multiprocessors, target.memory_gb);
}

}  // namespace anydim::codegen_cuda
