#include "api/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "api/recording.h"
#include "api/specialize.h"
#include "ir/error.h"
#include "ir/shapes/bind.h"
#include "passes/hide_rows.h"
#include "passes/remove_padding.h"
#include "runtime/tick_clock.h"

namespace anydim {

namespace {

std::vector<runtime::RowVector> vectors_of(const passes::PackedModule& packed,
                                           std::size_t own_inputs) {
  const passes::PackingPlan& plan = packed.plan;
  const std::vector<ir::ValueId>& parameters = packed.module.functions.at(0).body.parameters;
  std::vector<runtime::RowVector> vectors;
  for (std::size_t i = own_inputs; i < parameters.size(); ++i) {
    const ir::ValueId id = parameters[i];
    vectors.push_back(id == plan.rows        ? runtime::RowVector::Rows
                      : id == plan.offsets   ? runtime::RowVector::Offsets
                      : id == plan.positions ? runtime::RowVector::Positions
                      : id == plan.sequences ? runtime::RowVector::Sequences
                      : id == plan.steps     ? runtime::RowVector::Steps
                      : id == plan.work      ? runtime::RowVector::Work
                                             : runtime::RowVector::Places);
  }
  return vectors;
}

runtime::Packing packing_of(const passes::PackedModule& packed, std::size_t own_inputs) {
  const passes::PackingPlan& plan = packed.plan;
  const std::vector<ir::ValueId>& parameters = packed.module.functions.at(0).body.parameters;
  runtime::Packing packing{.question = plan.question,
                           .kept = plan.kept,
                           .kept_entry = plan.kept_entry,
                           .hidden_entry = plan.hidden_entry,
                           .first_rows = plan.first_rows,
                           .leading_rows = plan.leading_rows,
                           .counts_hidden_picks = plan.counts_hidden_picks,
                           .ranges_of_kept_rows = plan.ranges_of_kept_rows};
  const auto position = [&](ir::ValueId parameter) {
    return static_cast<std::size_t>(std::ranges::find(parameters, parameter) - parameters.begin());
  };
  packing.mask = position(plan.mask);
  for (const ir::ValueId input : plan.limited_inputs)
    packing.limited_inputs.push_back(position(input));
  packing.input_limit = plan.input_limit;
  packing.vectors = vectors_of(packed, own_inputs);
  return packing;
}

std::int64_t bytes_in(const std::vector<ir::Tensor>& tensors) {
  std::int64_t bytes = 0;
  for (const ir::Tensor& tensor : tensors) bytes += static_cast<std::int64_t>(tensor.byte_size());
  return bytes;
}

ir::SymbolInfo range_of(const ir::Dim& dim, const ir::SymbolTable& symbols) {
  const ir::SymbolInfo* found =
      dim.kind() == ir::Dim::Kind::Symbol ? symbols.find(dim.leaf().symbol) : nullptr;
  return found == nullptr ? ir::SymbolInfo{} : *found;
}

passes::PackedForm packed_form(const CompileOptions& options) {
  return options.masked_rows == MaskedRows::Zero ? passes::PackedForm::Zeroed
                                                 : passes::PackedForm::Exact;
}

passes::AppendingModule appended_in_place(ir::Module module) {
  passes::AppendingModule appending = passes::append_in_place(std::move(module));
  if (appending.appended.empty())
    throw Error(ErrorKind::Unsupported,
                "append_in_place was asked for, but no result of the model is one of its inputs "
                "with something appended to it");
  return appending;
}

}  // namespace

passes::AppendingModule appending_module(ir::Module module, const CompileOptions& options) {
  narrow_dims(module, options.dims);
  take_dims_as_equal(module);
  return appended_in_place(module_at_fork(std::move(module), options));
}

ir::Module module_of_rows(ir::Module module, Rows rows, const CompileOptions& options) {
  narrow_dims(module, options.dims);
  take_dims_as_equal(module);
  passes::PackingResult result = passes::remove_padding(
      module_at_fork(std::move(module), options),
      rows == Rows::Ragged ? passes::PackedForm::Ragged : packed_form(options));
  if (!result.packed)
    throw Error(ErrorKind::Unsupported, "the model stays padded: {}", result.reason);
  return std::move(result.packed->module);
}

std::shared_ptr<const Model> Model::compile(ir::Module module, const CompileOptions& options) {
  return compile(make_target(options), std::move(module), options);
}

std::shared_ptr<const Model> Model::compile(CompileTarget target, ir::Module module,
                                            const CompileOptions& options) {
  return make(std::move(target), std::move(module), options);
}

std::shared_ptr<Model> Model::make(CompileTarget target, ir::Module module,
                                   const CompileOptions& options) {
  std::shared_ptr<Model> model(new Model);
  model->options_ = options;
  if (options.timeline == nullptr) model->options_.timeline = std::make_shared<runtime::Timeline>();
  model->target_ = std::move(target);
  narrow_dims(module, options.dims);
  model->options_.dims.clear();
  model->options_.cancellation = nullptr;  // what is compiled later belongs to other calls
  const DeclaredResults::Hints said = DeclaredResults::hints_of(module.functions.at(0));
  if (options.unify_dims) model->equal_dims_ = take_dims_as_equal(module, &model->general_module_);
  model->module_ = module_at_fork(std::move(module), options);
  const ir::Function& entry = model->module_.functions.at(0);
  model->declared_results_ = std::make_unique<DeclaredResults>(said, entry);
  model->inputs_ = inputs_of(entry);
  model->symbols_ = entry.symbols;
  model->output_names_ = entry.result_names;
  model->outputs_ = outputs_of(entry);
  passes::PackingResult result =
      options.append_in_place
          ? passes::PackingResult{.reason = "results are appended to inputs in place"}
          : passes::remove_padding(model->module_, packed_form(options));
  passes::HideOptions hiding = passes::hiding_like(result);
  hiding.results = options.masked_rows == MaskedRows::Zero;
  model->hiding_ = std::make_shared<const passes::HideOptions>(std::move(hiding));
  if (options.masked_rows == MaskedRows::Zero) {
    model->hidden_rows_kept_because_ = passes::hide_rows(model->module_, {.results = true}).reason;
    if (const std::string& reason = model->hidden_rows_kept_because_;
        !reason.empty() && options.warn)
      options.warn(fmt::format(
          "masked rows of results are not zero but as the model computes them: {}", reason));
  }
  if (options.append_in_place) model->append_in_place();
  if (!result.packed) {
    model->padded_because_ = std::move(result.reason);
    static_cast<void>(model->padded(options.cancellation));
    return model;
  }
  model->packing_ = packing_of(*result.packed, model->inputs_.size());
  model->packed_ = compile_for(model->target_, std::move(result.packed->module),
                               model->options_for(options.cancellation));
  return model;
}

std::shared_ptr<const Model> Model::general(
    std::shared_ptr<const Cancellation> cancellation) const {
  const std::lock_guard lock(mutex_);
  if (general_ != nullptr) return general_;
  internal_check(!equal_dims_.empty(), "a model of all calls has no other for some");
  CompileOptions options = options_for(std::move(cancellation));
  options.unify_dims = false;
  options.append_in_place = false;
  // Its regions have names of their own.
  std::erase_if(options.policies,
                [](const PolicyChoice& choice) { return !choice.region.empty(); });
  const std::shared_ptr<Model> general = make(target_, general_module_, options);
  general->calls_ = calls_;
  general_module_ = {};
  general_ = general;
  return general_;
}

void Model::append_in_place() {
  if (target_.device != nullptr && target_.device->has_memory())
    throw Error(ErrorKind::Unsupported,
                "append_in_place is for the CPU: results are not appended in a GPU's memory");
  passes::AppendingModule appending = appended_in_place(std::move(module_));
  module_ = std::move(appending.module);
  std::vector<std::int64_t> longest;
  for (const passes::AppendedResult& one : appending.appended)
    longest.push_back(ir::bounds(outputs_[one.output].dims[one.axis], symbols_).high);
  appending_ = std::make_shared<const Appending>(
      Appending{inputs_, outputs_, std::move(appending.appended), std::move(longest)});
}

CompileOptions Model::options_for(std::shared_ptr<const Cancellation> cancellation) const {
  CompileOptions options = options_;
  options.cancellation = std::move(cancellation);
  return options;
}

std::vector<std::shared_ptr<const runtime::Executable>> Model::compiled() const {
  std::vector<std::shared_ptr<const runtime::Executable>> executables;
  if (packed_ != nullptr) executables.push_back(packed_);
  const std::lock_guard lock(mutex_);
  if (padded_ != nullptr) executables.push_back(padded_);
  if (ragged_ != nullptr) executables.push_back(ragged_->executable);
  return executables;
}

std::shared_ptr<const Model> Model::compiled_general() const {
  const std::lock_guard lock(mutex_);
  return general_;
}

std::shared_ptr<const runtime::Executable> Model::padded(
    std::shared_ptr<const Cancellation> cancellation) const {
  const std::lock_guard lock(mutex_);
  if (padded_ == nullptr) {
    padded_ = compile_for(target_, passes::hide_rows(module_, *hiding_).module,
                          options_for(std::move(cancellation)));
  }
  if (ragged_ != nullptr) module_ = {};
  return padded_;
}

std::shared_ptr<const RaggedProgram> Model::ragged(
    std::shared_ptr<const Cancellation> cancellation) const {
  const std::lock_guard lock(mutex_);
  if (ragged_ != nullptr) return ragged_;
  const auto refused = [](const std::string& reason) {
    return Error(ErrorKind::Unsupported, "the model does not take ragged input: {}", reason);
  };
  passes::PackingResult result = passes::remove_padding(module_, passes::PackedForm::Ragged);
  if (!result.packed) throw refused(result.reason);
  const passes::PackingPlan& plan = result.packed->plan;
  const ir::Function& entry = result.packed->module.functions.at(0);
  auto ragged = std::make_shared<RaggedProgram>();
  ragged->inputs = inputs_of(entry);
  ragged->inputs.resize(plan.ragged_inputs.size());
  ragged->outputs = outputs_of(entry);
  ragged->input_rows = plan.ragged_inputs;
  ragged->output_rows = plan.ragged_results;
  ragged->vectors = vectors_of(*result.packed, ragged->inputs.size());
  ragged->first_rows = plan.first_rows;
  ragged->texts = range_of(plan.batch, entry.symbols);
  ragged->length = range_of(plan.sequence, entry.symbols);
  ragged->executable =
      compile_for(target_, std::move(result.packed->module), options_for(std::move(cancellation)));
  if (padded_ != nullptr) module_ = {};
  ragged_ = std::move(ragged);
  return ragged_;
}

runtime::BatchRule Model::batch_rule(std::int64_t tokens) const {
  return {.tokens = tokens,
          .counted = packing_ ? runtime::CountedTokens::Useful : runtime::CountedTokens::Padded};
}

void Model::retune() const {
  if (packed_ != nullptr) anydim::retune(*packed_, target_, options_);
  const std::lock_guard lock(mutex_);
  if (padded_ != nullptr) anydim::retune(*padded_, target_, options_);
  if (ragged_ != nullptr) anydim::retune(*ragged_->executable, target_, options_);
  if (general_ != nullptr) general_->retune();
}

bool Model::has_device_memory() const { return compiled().front()->device().has_memory(); }

ir::Tensor Model::device_tensor(ir::DType dtype, std::vector<std::int64_t> dims, void* address,
                                std::shared_ptr<const void> owner) const {
  return compiled().front()->device().foreign(dtype, std::move(dims), address, std::move(owner));
}

void Model::complete(const Cancellation* cancellation) const {
  for (const auto& executable : compiled()) executable->kernels().complete(cancellation);
  if (const auto general = compiled_general()) general->complete(cancellation);
}

ModelContext::ModelContext(std::shared_ptr<const Model> model)
    : model_(std::move(model)), counters_(model_->calls_.enter()),
      timeline_(model_->options_.timeline) {}

void Model::check_shapes(const std::vector<ir::Tensor>& inputs) const {
  if (inputs.size() != inputs_.size()) return;
  ir::Function described;
  described.symbols = symbols_;
  std::vector<ir::InputShape> shapes;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i].any_shape) continue;
    described.body.parameters.push_back(
        described.add_value(inputs_[i].name, ir::TensorType{inputs_[i].dtype, inputs_[i].dims}));
    shapes.push_back({inputs[i].dtype(), inputs[i].dims()});
  }
  ir::bind_symbols(described, shapes);
}

void ModelContext::record(std::shared_ptr<tuner::TraceRecorder> recorder) {
  recorder_ = std::move(recorder);
  tracer_ = recorder_ == nullptr ? nullptr : std::make_shared<const CallTracer>(*model_);
}

std::vector<ir::Tensor> ModelContext::run(const std::vector<ir::Tensor>& inputs,
                                          std::span<const ResultPlace> places,
                                          std::optional<DeviceStream> stream) {
  if (!model_->equal_dims().hold(inputs)) return run_generally(inputs, places, stream);
  return model_->appending() == nullptr ? run_as_given(inputs, places, stream)
                                        : run_with_copies(inputs, places);
}

std::vector<ir::Tensor> ModelContext::run(KvCache& cache, const std::vector<ir::Tensor>& inputs,
                                          std::span<const ResultPlace> places) {
  cache.require_of(*model_);
  std::vector<ResultPlace> all;
  if (!places.empty()) {
    for (std::size_t o = 0, next = 0; o < model_->output_names().size(); ++o) {
      const bool is_kept = model_->appending()->keeps_output(o);
      all.push_back(is_kept || next == places.size() ? ResultPlace{} : places[next++]);
    }
  }
  const std::vector<ir::Tensor> given = cache.begin(inputs);
  std::vector<ir::Tensor> results = run_as_given(given, all, std::nullopt);
  cache.keep(results);
  return results;
}

std::vector<ir::Tensor> ModelContext::run_generally(const std::vector<ir::Tensor>& inputs,
                                                    std::span<const ResultPlace> places,
                                                    const std::optional<DeviceStream>& stream) {
  packed_rows_.reset();
  collect(false);
  if (general_ == nullptr)
    general_ = std::make_unique<ModelContext>(model_->general(cancellation_));
  general_->cancel_by(cancellation_);
  std::vector<ir::Tensor> results = general_->run(inputs, places, stream);
  packed_rows_ = general_->packed_rows();
  return results;
}

// As if nothing were appended in place: what is appended to is copied into a cache, and the results
// are copied out of it.
std::vector<ir::Tensor> ModelContext::run_with_copies(const std::vector<ir::Tensor>& inputs,
                                                      std::span<const ResultPlace> places) {
  check_places(places, model_->output_names(), inputs);
  CachedCall call = cached_call(*model_, inputs);
  std::vector<ir::Tensor> others = run(call.cache, call.inputs);
  std::vector<ir::Tensor> results;
  const std::vector<std::string>& names = model_->output_names();
  for (std::size_t o = 0, next = 0; o < names.size(); ++o) {
    const bool is_kept = model_->appending()->keeps_output(o);
    results.push_back(is_kept ? call.cache.tensor(names[o]) : std::move(others[next++]));
  }
  settle(results, places, names);
  return results;
}

std::vector<ir::Tensor> ModelContext::run_as_given(const std::vector<ir::Tensor>& inputs,
                                                   std::span<const ResultPlace> places,
                                                   const std::optional<DeviceStream>& stream) {
  std::vector<ir::Tensor> outputs;
  const CallBegun begun = begin(inputs);
  try {
    collect(false);
    check_places(places, model_->output_names_, inputs);
    outputs = call(begun, places, stream_call(places, stream));
  } catch (...) {
    fail(begun);
    throw;
  }
  if (model_->appending() == nullptr)
    model_->declared_results_->check(model_->inputs_, inputs, outputs, model_->options_.warn);
  if (recorder_ == nullptr) return outputs;
  // The padded program that stands in for a packed one has regions of its own, which are not tuned.
  const bool packed = packed_rows_.has_value();
  const runtime::Context* context = packed ? &*packed_ : model_->packing() ? nullptr : &*padded_;
  tracer_->add(*recorder_, inputs, packed_rows_.value_or(0), context);
  return outputs;
}

runtime::Context& ModelContext::serving(
    std::optional<runtime::Context>& context,
    const std::shared_ptr<const runtime::Executable>& executable) {
  if (!context) context.emplace(executable);
  context->cancel_by(cancellation_);
  context->record_launches(tracer_ != nullptr && tracer_->needs_launches());
  return *context;
}

ModelContext::CallBegun ModelContext::begin(const std::vector<ir::Tensor>& inputs) {
  packed_rows_.reset();
  timeline_.refresh();
  return {runtime::clock_ticks(), inputs};
}

// Calls of every program of this context: the next may be of another one.
void ModelContext::collect(bool wait) {
  for (std::optional<runtime::Context>* context : {&packed_, &padded_, &ragged_})
    if (*context) (*context)->collect(wait);
  if (general_ != nullptr) general_->collect(wait);
}

// What packing reads lies on the host.
bool ModelContext::packs(const std::vector<ir::Tensor>& inputs) const {
  if (!model_->packing()) return false;
  const auto on_host = [&](std::size_t input) {
    return input >= inputs.size() || runtime::device_memory_of(inputs[input]) == nullptr;
  };
  return on_host(model_->packing()->mask) &&
         std::ranges::all_of(model_->packing()->limited_inputs, on_host);
}

std::vector<ir::Tensor> ModelContext::call(const CallBegun& begun,
                                           std::span<const ResultPlace> places,
                                           const std::optional<runtime::StreamCall>& on) {
  const runtime::StreamCall* stream_call = on ? &*on : nullptr;
  const std::vector<ir::Tensor>& inputs = begun.inputs;
  const std::int64_t given = model_->packing() ? inputs.at(model_->packing()->mask).elements() : 0;
  if (packs(inputs)) {
    if (const auto packed = runtime::pack_inputs(*model_->packing(), inputs)) {
      std::vector<ir::Tensor> outputs =
          serving(packed_, model_->packed()).run(packed->tensors, bytes_of(places), stream_call);
      if (runtime::settles(*model_->packing(), outputs)) {
        settle(outputs, places, model_->output_names_);
        packed_rows_ = packed->tokens;
        count(CallWay::Packed, begun, packed_, given, outputs);
        return outputs;
      }
    }
  }
  runtime::Context& padded = serving(padded_, model_->padded(cancellation_));
  std::vector<ir::Tensor> outputs;
  try {
    outputs = padded.run(inputs, bytes_of(places), stream_call);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::Inputs) model_->check_shapes(inputs);
    throw;
  }
  settle(outputs, places, model_->output_names_);
  count(CallWay::Padded, begun, padded_, given, outputs);
  return outputs;
}

void ModelContext::count(CallWay way, const CallBegun& begun,
                         const std::optional<runtime::Context>& context, std::int64_t tokens_given,
                         const std::vector<ir::Tensor>& outputs) {
  const runtime::CallMemory memory = context->memory();
  const CountedCall call{.way = way,
                         .ticks = runtime::clock_ticks() - begun.ticks,
                         .tokens_given = tokens_given,
                         .tokens_computed = packed_rows_.value_or(tokens_given),
                         .tokens_useful = packed_rows_.value_or(0),
                         .held_bytes = memory.arena + memory.pool + memory.scratch};
  counters_->add(call);
  if (!timeline_.on()) return;
  std::uint32_t& note = way_notes_.at(static_cast<std::size_t>(way));
  if (note == 0) {
    static constexpr std::array names{"packed call", "padded call", "ragged call"};
    note = timeline_.timeline().note({names.at(static_cast<std::size_t>(way))});
  }
  timeline_.add({.kind = runtime::TimelineKind::Call,
                 .note = note,
                 .thread = runtime::this_thread(),
                 .begun = begun.ticks,
                 .ticks = call.ticks,
                 .values = {call.tokens_given, call.tokens_computed, call.tokens_useful,
                            bytes_in(begun.inputs), bytes_in(outputs)}});
}

void ModelContext::fail(const CallBegun& begun) {
  counters_->add_failure();
  if (!timeline_.on()) return;
  timeline_.add({.kind = runtime::TimelineKind::Call,
                 .note = timeline_.timeline().note({"failed call"}),
                 .thread = runtime::this_thread(),
                 .begun = begun.ticks,
                 .ticks = runtime::clock_ticks() - begun.ticks,
                 .values = {0, 0, 0, bytes_in(begun.inputs), 0, 1}});
}

std::vector<ir::Tensor> ModelContext::run_ragged(const std::vector<ir::Tensor>& inputs,
                                                 const ir::Tensor& offsets,
                                                 std::span<const ResultPlace> places,
                                                 std::optional<DeviceStream> stream) {
  const CallBegun begun = begin(inputs);
  try {
    collect(false);
    const auto ragged = model_->ragged(cancellation_);
    const std::vector<ir::Tensor> call = ragged_call(*ragged, inputs, offsets);
    if (!ragged_) ragged_.emplace(ragged->executable);
    ragged_->cancel_by(cancellation_);
    check_places(places, model_->output_names_, call);
    const auto on = stream_call(places, stream);
    std::vector<ir::Tensor> outputs = ragged_->run(call, bytes_of(places), on ? &*on : nullptr);
    settle(outputs, places, model_->output_names_);
    packed_rows_ = offsets.integer_at(offsets.elements() - 1);
    count(CallWay::Ragged, begun, ragged_, *packed_rows_, outputs);
    return outputs;
  } catch (...) {
    fail(begun);
    throw;
  }
}

}  // namespace anydim
