// What a measurement holds for, besides the region.
#pragma once

#include <string>

namespace anydim::tuner {

// Measurements of different environments never mix.
struct Environment {
  std::string device;  // model of the processor or GPU, e.g. "AMD EPYC 9B14"
  std::string target;  // ir::Backend::target()
  std::string driver;  // version of the GPU's driver; empty on the CPU
  // ir::Backend::generator(): hash of its sources, name and version of its compiler
  std::string generator;
  std::string precision;  // "f32", "bf16", "f16", "int8"
  int threads = 1;        // that launches use
  bool operator==(const Environment&) const = default;
};

}  // namespace anydim::tuner
