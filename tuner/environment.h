// What a measurement holds for, besides the region.
#pragma once

#include <string>

namespace anydim::tuner {

// Measurements of different environments never mix.
struct Environment {
  std::string device;  // "AMD EPYC 9B14", "GPU sm_90a of 132 multiprocessors and 141 GB"
  std::string target;  // ir::Backend::target()
  std::string driver;  // empty; older versions kept a GPU's measurements apart by its driver
  // ir::Backend::generator(): hash of its sources, name and version of its compiler
  std::string generator;
  std::string precision;  // "f32", "bf16", "f16", "int8"
  int threads = 1;        // of the host, that launches use; 1 for a GPU
  bool operator==(const Environment&) const = default;
};

}  // namespace anydim::tuner
