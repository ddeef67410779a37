// One case of the GPU campaign: a JSON object in, a JSON object out.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "api/anydim.h"
#include "bench/campaign/worker/raw_kernel.h"
#include "bench/campaign/worker/schedule_choice.h"

namespace anydim::campaign {

struct RawTarget {
  std::string architecture{};  // as NVRTC names it; empty: the device's own
  RawCode code = RawCode::Cubin;
};

// Kinds of case ("kind"):
//   empty        a one-element program runs
//   program      "text" (or "model", a file) with "inputs" {NAME: {"dims", "below" | "ramp" |
//                "lengths" | "times" | "whole" (T: random numbers in [-T/16, T/16), whole ones in
//                [-T, T))}}, run "passes" times (3: on the stream, captured, replayed); the results
//                are compared with the reference evaluator, or with "expected" {NAME: file.npy},
//                within "tolerance", unless "compare" is false; "sizes" [{"inputs", "expected",
//                "sampled"}, ..] are timed too, and before that compared with the files
//                EXPECTED.N.npy of result N, at "sampled" (8) rows of those that take part;
//                "record": these files are written instead; "packed": over the rows that the mask
//                shows (an input with "lengths", of each sequence), the others' results being 0
//   matmul       "n", "k", "m" [..]: seconds of one product; "cublas": beside cuBLASLt, if it is
//                there; "cache_extremes": with all in the L2 cache and with nothing there, too
//   attention    "shapes" [[batch, heads, length, head], ..], "ragged" [{"heads", "head",
//                "lengths" [..]}, ..] over sequences laid end to end
//                These two compare some elements with what they must be, and all with cuBLASLt's,
//                within "tolerance" (0.02). Differences are relative to the largest number that is
//                wanted.
//   schedules    "n", "k", "m" [..], "top": the schedules that the cost model ranks best at any of
//                the sizes
//   raw          "source" (a file), "launch" {"entry", "block", "grid", "cluster", "shared_bytes",
//                "maps"}, "inputs" and "outputs" [{"dtype", "dims"}, ..]; operands and results are
//                written to "folder" as NAME.inN.npy and NAME.outN.npy; the results must be those
//                of the same name in the folder "expected", bit for bit
//   estimates    what the cost model says of "products" (bench/campaign/worker/estimates.h), and
//                its "constants"
//   information  device, driver and what else there is; "architecture" where it was told
// Where the target's device is a bench::NoDevice (bench/no_device.h), kernels are compiled and
// nothing is run: the result says how many "entries" the tables have, how many were "compiled" now
// and how many "failed".
// Every kind takes "schedule" (a filter, schedule_choice.h; where nothing fits it the result
// says "absent"), "avoid" [filters of schedules that no region may get], "checked" (kernels that
// check), "policy", "dtype" and "constants" {NAME: value} of the cost models
// (codegen_cuda/cost_constants.def).
class CampaignCases {
 public:
  // `make`: the target, with checked kernels or not. `raw`: what run_raw_kernel is told.
  using MakeTarget = std::function<CompileTarget(bool checked)>;
  CampaignCases(CompileOptions options, MakeTarget make, RawTarget raw = {});
  ~CampaignCases();
  // Throws what the case throws; Error{Internal} after a fault of the GPU.
  nlohmann::ordered_json run(const nlohmann::json& wanted);

 private:
  CompileTarget target_for(const nlohmann::json& wanted, std::shared_ptr<ChosenSchedules>& chosen);
  CompileOptions options_for(const nlohmann::json& wanted) const;
  nlohmann::ordered_json run_program(const nlohmann::json& wanted);
  nlohmann::ordered_json run_matmul(const nlohmann::json& wanted);
  nlohmann::ordered_json run_attention(const nlohmann::json& wanted);
  nlohmann::ordered_json rank_schedules(const nlohmann::json& wanted);
  nlohmann::ordered_json compile_alone(const nlohmann::json& wanted);
  nlohmann::ordered_json run_raw(const nlohmann::json& wanted);
  nlohmann::ordered_json information();

  CompileOptions options_;
  MakeTarget make_;
  RawTarget raw_;
  std::map<bool, CompileTarget> targets_;  // by checked; one process keeps one context
};

}  // namespace anydim::campaign
