// A compiled model as its users call it: over packed rows where that is proven to give the same,
// padded otherwise.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api/compile.h"
#include "api/declared_results.h"
#include "api/equal_dims.h"
#include "api/inputs.h"
#include "api/kv_cache.h"
#include "api/ragged.h"
#include "api/result_places.h"
#include "api/statistics.h"
#include "runtime/batcher.h"
#include "runtime/packing.h"
#include "runtime/timeline.h"

namespace anydim::tuner {
class TraceRecorder;
}
namespace anydim::passes {
struct HideOptions;
}

namespace anydim {

class CallTracer;

// Shared between threads; each calls it through a ModelContext of its own.
class Model {
 public:
  // Throws what compile() throws.
  static std::shared_ptr<const Model> compile(ir::Module module,
                                              const CompileOptions& options = {});
  // For a code generator and device of the caller's.
  static std::shared_ptr<const Model> compile(CompileTarget target, ir::Module module,
                                              const CompileOptions& options = {});

  // Dims as the model is compiled for: see equal_dims().
  const std::vector<InputInfo>& inputs() const { return inputs_; }
  const ir::SymbolTable& symbols() const { return symbols_; }  // of the inputs' dims
  const std::vector<std::string>& output_names() const { return output_names_; }
  // Element types and dims as inference has them, which may be expressions, or unbacked where only
  // the run tells.
  const std::vector<InputInfo>& outputs() const { return outputs_; }
  // Why calls are not packed: the op, mask or result that stands in the way; empty where they are.
  const std::string& padded_because() const { return padded_because_; }
  // Why hidden rows of results are as the model computes them though the options ask for zeros;
  // empty where they are zeros, or were not asked for.
  const std::string& hidden_rows_kept_because() const { return hidden_rows_kept_because_; }

  // Dims of inputs that only ought to be equal and are taken to be: that is faster, and lets more
  // be proven. Calls in which they are not are another model's, general().
  const EqualDims& equal_dims() const { return equal_dims_; }
  // Without equal_dims(), and without appending(); compiled when a call first needs it. Its calls
  // are counted here. Throws what compile() throws.
  std::shared_ptr<const Model> general(
      std::shared_ptr<const Cancellation> cancellation = nullptr) const;

  // Results that are appended to inputs where those lie, in a KvCache; null: the options did not
  // ask for it.
  const std::shared_ptr<const Appending>& appending() const { return appending_; }

  const std::optional<runtime::Packing>& packing() const { return packing_; }
  const std::shared_ptr<const runtime::Executable>& packed() const {
    return packed_;
  }  // null: not packed
  // Compiled when a call first needs it, where calls are packed: for a mask that says of no row, or
  // of no first row that is read, that it takes part, for entries other than 0 and 1, and for
  // inputs beyond the limit on which the proof rests.
  // `cancellation`: of the compilation; null: none.
  std::shared_ptr<const runtime::Executable> padded(
      std::shared_ptr<const Cancellation> cancellation = nullptr) const;
  // The model over texts laid end to end, compiled when first asked for. Throws Error{Unsupported}
  // with the op or result that stands in the way.
  std::shared_ptr<const RaggedProgram> ragged(
      std::shared_ptr<const Cancellation> cancellation = nullptr) const;
  // Batches of at most so many tokens, of those that a call computes: useful ones where calls are
  // packed, padded ones elsewhere.
  runtime::BatchRule batch_rule(std::int64_t tokens) const;
  // Reads the tuning database of the options again and swaps its tables in behind running calls.
  // Throws as compile() does for a database; then nothing changes.
  void retune() const;
  // That it was compiled with.
  const CompileOptions& options() const { return options_; }
  // Waits until every kernel of what has been compiled is there. Throws Error{Cancelled}.
  void complete(const Cancellation* cancellation = nullptr) const;
  // Calls of all contexts, kernels and memory up to now. Any thread, while calls go on.
  ModelStatistics statistics() const;
  // Off until it is started: from then on calls, their launches and kernels that come to be are
  // recorded. Any thread, while calls go on (api/timeline_file.h writes it).
  runtime::Timeline& timeline() const { return *options_.timeline; }
  // Whether the model's device has memory of its own: a GPU.
  bool has_device_memory() const;
  // A tensor over a caller's memory on the model's device, for inputs and places of results; as
  // runtime::Device::foreign.
  ir::Tensor device_tensor(ir::DType dtype, std::vector<std::int64_t> dims, void* address,
                           std::shared_ptr<const void> owner = nullptr) const;
  // Extents of every input, by name. Throws Error{Inputs} as a call would.
  MemoryCeiling memory_ceiling(
      const std::map<std::string, std::vector<std::int64_t>>& shapes) const;

 private:
  friend class ModelContext;
  Model() = default;
  static std::shared_ptr<Model> make(CompileTarget target, ir::Module module,
                                     const CompileOptions& options);
  void append_in_place();
  // Throws Error{Inputs} with the reason for what a dim must be, where inputs do not fit the model:
  // programs know numbers alone (passes/fix_dims.cpp).
  void check_shapes(const std::vector<ir::Tensor>& inputs) const;
  CompileOptions options_for(std::shared_ptr<const Cancellation> cancellation) const;
  std::vector<std::shared_ptr<const runtime::Executable>> compiled() const;  // so far
  std::shared_ptr<const Model> compiled_general() const;                     // null: not yet

  std::vector<InputInfo> inputs_, outputs_;
  ir::SymbolTable symbols_;
  std::vector<std::string> output_names_;
  std::string padded_because_, hidden_rows_kept_because_;
  std::unique_ptr<const DeclaredResults> declared_results_;
  EqualDims equal_dims_;
  std::shared_ptr<const Appending> appending_;
  std::optional<runtime::Packing> packing_;
  std::shared_ptr<const passes::HideOptions> hiding_;  // of the padded program
  std::shared_ptr<const runtime::Executable> packed_;
  CompileOptions options_;
  CompileTarget target_;
  CallRegister calls_;
  mutable std::mutex mutex_;   // of what is below
  mutable ir::Module module_;  // empty once nothing more can be compiled of it
  mutable std::shared_ptr<const runtime::Executable> padded_;
  mutable std::shared_ptr<const RaggedProgram> ragged_;
  mutable ir::Module general_module_;  // empty where there is no other, or it is compiled
  mutable std::shared_ptr<const Model> general_;
};

// One thread's place to call a model.
class ModelContext {
 public:
  explicit ModelContext(std::shared_ptr<const Model> model);

  // Inputs in the order of Model::inputs(), places in that of Model::output_names(); fewer leave
  // the rest wherever they like. Results of places are computed there where the program allows it,
  // and have no owner. Throws as runtime::Context::run, check_places and settle do.
  // `stream`: the call comes behind what is on it and before what is put there later; where every
  // result stays on the device, run() returns while the call is still under way. What fails in such
  // a call later is thrown by the next one of this context, or by synchronize(). Nothing: run()
  // waits for the call, and work on tensors of the device has ended before. A mask or a limited
  // input in device memory makes the call padded, since packing reads it on the host.
  std::vector<ir::Tensor> run(const std::vector<ir::Tensor>& inputs,
                              std::span<const ResultPlace> places = {},
                              std::optional<DeviceStream> stream = std::nullopt);
  // A call that appends to `cache`, which is of this model: inputs, places and results are those of
  // run() but for what is appended to, which stays in the cache; equal_dims() must hold. After a
  // call that throws the cache is as it was. Throws as run() does.
  std::vector<ir::Tensor> run(KvCache& cache, const std::vector<ir::Tensor>& inputs,
                              std::span<const ResultPlace> places = {});
  // Texts end to end: inputs as Model::ragged()->inputs, offsets (texts + 1) as i64. Results with
  // rows hold those of the texts, end to end; the others are as run() gives them. Throws what
  // ragged() and ragged_call() throw.
  std::vector<ir::Tensor> run_ragged(const std::vector<ir::Tensor>& inputs,
                                     const ir::Tensor& offsets,
                                     std::span<const ResultPlace> places = {},
                                     std::optional<DeviceStream> stream = std::nullopt);
  // Waits for all calls under way. Throws what the first that failed came to.
  void synchronize() { collect(true); }
  // The sizes of every call of run() that succeeds from here on, but for those of Model::general(),
  // are added to the recorder's trace (api/recording.h), which other contexts may share; null: no
  // longer.
  void record(std::shared_ptr<tuner::TraceRecorder> recorder);
  // Calls and what they compile first throw Error{Cancelled} where it asks for it; null: no longer.
  void cancel_by(std::shared_ptr<const Cancellation> cancellation) {
    cancellation_ = std::move(cancellation);
  }
  // Rows that the last call computed of each sequence's: those that take part where it was packed
  // or ragged, nothing where it was not.
  std::optional<std::int64_t> packed_rows() const { return packed_rows_; }

 private:
  struct CallBegun {
    std::uint64_t ticks = 0;
    const std::vector<ir::Tensor>& inputs;
  };
  std::vector<ir::Tensor> run_as_given(const std::vector<ir::Tensor>& inputs,
                                       std::span<const ResultPlace> places,
                                       const std::optional<DeviceStream>& stream);
  std::vector<ir::Tensor> run_generally(const std::vector<ir::Tensor>& inputs,
                                        std::span<const ResultPlace> places,
                                        const std::optional<DeviceStream>& stream);
  std::vector<ir::Tensor> run_with_copies(const std::vector<ir::Tensor>& inputs,
                                          std::span<const ResultPlace> places);
  CallBegun begin(const std::vector<ir::Tensor>& inputs);
  void collect(bool wait);
  bool packs(const std::vector<ir::Tensor>& inputs) const;
  std::vector<ir::Tensor> call(const CallBegun& begun, std::span<const ResultPlace> places,
                               const std::optional<runtime::StreamCall>& on);
  void count(CallWay way, const CallBegun& begun, const std::optional<runtime::Context>& context,
             std::int64_t tokens_given, const std::vector<ir::Tensor>& outputs);
  void fail(const CallBegun& begun);
  runtime::Context& serving(std::optional<runtime::Context>& context,
                            const std::shared_ptr<const runtime::Executable>& executable);

  std::shared_ptr<const Model> model_;
  std::optional<runtime::Context> packed_, padded_, ragged_;
  std::unique_ptr<ModelContext> general_;  // null: no call has needed it yet
  std::shared_ptr<CallCounters> counters_;
  std::shared_ptr<const Cancellation> cancellation_;
  std::shared_ptr<tuner::TraceRecorder> recorder_;
  std::shared_ptr<const CallTracer> tracer_;  // null without a recorder
  std::optional<std::int64_t> packed_rows_;
  runtime::TimelineWriter timeline_;
  std::array<std::uint32_t, 3> way_notes_{};  // by CallWay; 0: not asked for yet
};

// The module over the rows that a mask lets take part, as Model::compile() has it compiled: from
// module_at_fork(), after options.dims. Throws Error{Unsupported} with the reason where the model
// stays padded.
enum class Rows { Packed, Ragged };
ir::Module module_of_rows(ir::Module module, Rows rows, const CompileOptions& options);

// The module whose results are appended to inputs in place, as Model::compile() has it compiled
// for options.append_in_place. Throws Error{Unsupported} where there is no such result.
passes::AppendingModule appending_module(ir::Module module, const CompileOptions& options);

}  // namespace anydim
