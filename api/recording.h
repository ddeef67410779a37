// The sizes of a model's calls, for tuning by what a service really met.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/model.h"
#include "runtime/context.h"
#include "tuner/trace.h"
#include "tuner/workload.h"

namespace anydim {

// An empty trace of this model, for tuner::TraceRecorder and ModelContext::record.
tuner::Trace trace_of(const Model& model);
tuner::Trace trace_of(const std::vector<InputInfo>& inputs, const tuner::ModelShape& shape);
// Values of the trace's `symbols` in a call. `given` in the order of `inputs`.
std::vector<std::int64_t> traced_values(const std::vector<std::string>& symbols,
                                        const std::vector<InputInfo>& inputs,
                                        const std::vector<ir::Tensor>& given);

// Calls of one model for its trace: their sizes, and of a program whose launches these do not tell,
// what it launched.
class CallTracer {
 public:
  explicit CallTracer(const Model& model);
  bool needs_launches() const {
    return !regions_.empty();
  }  // contexts of the model's program record them then
  // `rows`: that took part, of packed calls; of others 0. `context`: that served the call; null
  // where another program than program_of(model) did.
  void add(tuner::TraceRecorder& recorder, const std::vector<ir::Tensor>& inputs, std::int64_t rows,
           const runtime::Context* context) const;

 private:
  std::vector<InputInfo> inputs_;
  std::vector<std::string> symbols_;
  std::vector<std::string> regions_;  // fingerprints; none where sizes tell what is launched
};

}  // namespace anydim
