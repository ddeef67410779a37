// What a measuring worker does for the tuner: holds one model with sampled calls, and tries schedules of its regions.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "api/anydim.h"

namespace anydim::tools {

class TuningCases {
 public:
  // `make`: the target, asked for once.
  TuningCases(CompileOptions options, std::function<CompileTarget()> make);
  ~TuningCases();

  // A case by its "kind". Throws what it throws, and Error{Malformed} for another kind.
  nlohmann::ordered_json run(const nlohmann::json& wanted, const std::function<void()>& compiled);

 private:
  // "tune_prepare":
  // "model" (a file), "outputs" [NAME, ..] (all where absent), "calls" [{"values", "lengths", "inputs"}, ..] (tuner/workload.h; the first small), "memory_bytes" (most address space of this process, 0: no limit). Returns what each call launches:
  // "launches" [[[kernel, key, ..], ..], ..], and "regions", a hash of each one's identity.
  nlohmann::ordered_json prepare(const nlohmann::json& wanted);
  // "tune_candidate": "kernel", "schedule", "points" [{"call", "keys"}, ..], "repetitions", "hopeless". Returns "outcome", "detail", "resources", "points".
  nlohmann::ordered_json measure(const nlohmann::json& wanted, const std::function<void()>& compiled);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace anydim::tools
