// Calls that a model is expected to serve, and the values of its regions' bucket keys that come of
// them.
//
// Whole batches are sampled through the batcher that serves calls, so that sizes occur together as
// they really do; the program's own shape expressions then tell every launch's keys.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/program.h"
#include "ir/shapes/bind.h"
#include "ir/shapes/shape_program.h"
#include "runtime/batcher.h"
#include "runtime/packing.h"
#include "tuner/distribution.h"
#include "tuner/refined_latencies.h"
#include "tuner/trace.h"

namespace anydim::tuner {

struct ModelInput {
  std::string name;
  ir::DType dtype = ir::DType::F32;
  std::vector<ir::Dim> dims;
};

// A model as its callers see it. packing: its calls are served by a program over packed rows.
struct ModelShape {
  std::vector<ModelInput> inputs;
  ir::SymbolTable symbols;  // of the inputs' dims, with their ranges
  std::optional<runtime::Packing> packing{};
  std::vector<std::string> symbol_names() const;  // in order of appearance
};

// A launch that a service met, in calls of equal sizes.
struct FoundLaunch {
  std::string region;  // text_hash of its identity
  std::vector<std::int64_t> keys;
  double times = 1;  // in one call
};

struct Call {
  std::vector<std::int64_t> values;     // of the model's symbols
  std::vector<std::int64_t> lengths{};  // rows of each sequence that take part; empty: all
  double weight = 1;
  std::string inputs{};              // folder of a recorded call's inputs; empty: they are made up
  std::vector<FoundLaunch> found{};  // where a trace tells; for models whose values decide sizes
};
// What a worker is told of a call: values, lengths, inputs. call_of throws what nlohmann::json
// throws.
nlohmann::json to_json(const Call& call);
Call call_of(const nlohmann::json& said);

struct Workload {
  std::vector<Call> calls;
  std::string text;  // what it was made of: equal texts, equal workloads
};

// At least `samples` calls (an observed list of lengths is batched whole, several times if need
// be). The model's symbols are those of a batch: how many texts, and the longest (with one symbol,
// the rows of all texts). Seed 0 takes observed lengths as they stand. Throws Error{Inputs} for
// lengths outside the symbols' ranges, naming both, and Error{CommandLine} for a model of other
// symbols, whose calls only a trace can tell.
Workload sample_workload(const ModelShape& model, const Distribution& distribution,
                         const runtime::BatchRule& rule, std::size_t samples, std::uint64_t seed);
// Every bin of the trace is a call with its share as weight. Throws Error{Malformed} where the
// trace is of another model, Error{Inputs} as above.
Workload traced_workload(const ModelShape& model, const Trace& trace);

// What a launch would look at.
struct LaunchKeys {
  std::int32_t kernel = 0;
  std::vector<std::int64_t> keys;
  double roofline_seconds =
      0;             // what arithmetic and memory allow at least (tuner/roofline.h); 0: not known
  double times = 1;  // how often a call does this; not whole where it is the mean of several calls
};

// False where control flow or values that kernels compute decide sizes: then only a run tells what
// is launched.
bool shapes_decide_launches(const ir::Program& program);
// Whether a call looks at values on its way, so that what it launches may depend on what its inputs
// hold.
bool values_decide_launches(const ir::Program& program);

// By which traces and workers know regions: text_hash of each kernel's identity, in the order of
// Program::kernels.
std::vector<std::string> region_fingerprints(const ir::Program& program);

// Evaluates a program's sizes without running it.
class ShapeWalk {
 public:
  // `program`: one whose launches its shapes decide; it outlives this.
  explicit ShapeWalk(const ir::Program& program);
  // The launches of a call of the model whose program this is. Throws Error{Inputs} where the call
  // does not fit the model.
  std::vector<LaunchKeys> launches(const ModelShape& model, const Call& call) const;

 private:
  const ir::Program& program_;
  ir::Function signature_;
  std::vector<ir::ShapeInterpreter> interpreters_;
};

// Points at which a region is measured.
struct RegionPoints {
  std::int32_t kernel = 0;                        // in Program::kernels
  std::vector<std::vector<std::int64_t>> points;  // values of its keys; distinct, ascending
  std::vector<double> weights;  // expected launches in one call of the model; every launch counts
                                // at the point nearest to it
  std::vector<std::size_t> calls;  // a call of `representatives` that has the point
  KeyWeights sizes;  // all keys that calls have, the points among them; near ones are one where
                     // there are very many
};
struct KeyPoints {
  // positions in Workload::calls, by the work of the call, ascending
  std::vector<std::size_t> representatives;
  std::vector<RegionPoints> regions;  // one a kernel of the program that calls launch
};
// At most `most` representative calls: all where there are no more, else the least and the
// greatest, and between them what splits the workload's work evenly. `launches` and `work` (any
// measure): one a call. Only the first `runnable` calls can be made; the others tell what is met,
// and how often.
KeyPoints choose_points(const Workload& workload, std::span<const std::vector<LaunchKeys>> launches,
                        std::span<const double> work, std::size_t most,
                        std::size_t runnable = std::numeric_limits<std::size_t>::max());

}  // namespace anydim::tuner
