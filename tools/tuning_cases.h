// What a measuring worker does for the tuner: holds one model with sampled calls, and tries schedules of its regions.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "api/anydim.h"

namespace anydim::tools {

class TuningCases {
 public:
  TuningCases();
  ~TuningCases();

  // "model" (a file), "outputs" [NAME, ..] (all where absent), "calls" [{"values", "lengths", "inputs"}, ..] (tuner/workload.h; the first small), "memory_bytes" (most address space of this process, 0: no limit). Returns what each call launches:
  // "launches" [[[kernel, key, ..], ..], ..], and "regions", a hash of each one's identity.
  nlohmann::ordered_json prepare(const nlohmann::json& wanted, const CompileTarget& target, CompileOptions options);
  // "kernel", "schedule", "points" [{"call", "keys"}, ..], "repetitions", "hopeless". Returns "outcome", "detail", "resources", "points".
  nlohmann::ordered_json measure(const nlohmann::json& wanted, const std::function<void()>& compiled);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace anydim::tools
