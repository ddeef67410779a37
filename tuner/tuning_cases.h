// What a measuring process does for the tuner: holds one model with sampled calls, and tries
// schedules of its regions.
#pragma once

#include <cstdio>
#include <functional>
#include <iosfwd>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "tuner/measure.h"
#include "tuner/region_bench.h"

namespace anydim::tuner {

// What a process is told of the model that it measures.
struct PrepareCase {
  ModelFile model;
  OptionWords options;
  std::vector<Call> calls{};  // the first small
};

struct PreparedModel {
  std::shared_ptr<const runtime::Executable> program;  // made with keep_originals
  std::vector<std::vector<ir::Tensor>> calls;          // inputs of the executable, one a call
};
using Prepare = std::function<PreparedModel(const PrepareCase&)>;

class TuningCases {
 public:
  explicit TuningCases(Prepare prepare) : prepare_(std::move(prepare)) {}

  // Until the end of `in` (cases.h). For a process of its own: it limits its memory and ends where
  // a kernel touches what it may not.
  void serve(std::istream& in, std::FILE* out);

 private:
  // A case by its "kind". Throws what it throws, and Error{Malformed} for another kind.
  nlohmann::ordered_json run(const nlohmann::json& wanted, const std::function<void()>& compiled);
  // "tune_prepare":
  // "model" {"file", "anonymous", "folder"}, "options" [[NAME, VALUE], ..], "calls" [{"values",
  // "lengths", "inputs"}, ..] (workload.h), "memory_bytes" (most address space of this process, 0:
  // no limit). Returns what each call launches: "launches" [[[kernel, key, ..], ..], ..],
  // "rooflines" of the same shape, and "regions", a hash of each one's identity.
  nlohmann::ordered_json prepare(const nlohmann::json& wanted);
  // "tune_candidate": "kernel", "schedule", "points" [{"call", "keys"}, ..], "repetitions",
  // "hopeless", "ahead" (candidates to begin to compile, as this one). Returns "outcome", "detail",
  // "resources", "points".
  nlohmann::ordered_json measure(const nlohmann::json& wanted,
                                 const std::function<void()>& compiled);
  // "tune_in_calls": "candidates" [{"kernel", "schedule", "points"}, ..], of a kernel one. Returns
  // "trials", each as of "tune_candidate".
  nlohmann::ordered_json measure_in_calls(const nlohmann::json& wanted,
                                          const std::function<void()>& compiled);
  RegionBench& bench();

  Prepare prepare_;
  std::unique_ptr<RegionBench> bench_;
};

}  // namespace anydim::tuner
