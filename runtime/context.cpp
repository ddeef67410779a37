#include "runtime/context.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ir/error.h"
#include "runtime/code_memory.h"
#include "runtime/nvtx.h"

namespace anydim::runtime {

namespace {

// Frames lie in memory of this program, not on the thread's stack; without an end a recursion would
// take all of it.
constexpr std::size_t deepest_call = 200'000;

std::size_t index_of(std::int32_t position) { return static_cast<std::size_t>(position); }

}  // namespace

Context::Context(std::shared_ptr<const Executable> executable)
    : executable_(std::move(executable)), program_(executable_->program()),
      slots_(index_of(program_.entry().slots)),
      session_(executable_->device().open_session(*executable_)),
      watching_(executable_->device().watching()), timeline_(executable_->timeline()) {}

void Context::record_launches(bool wanted) {
  recording_ = wanted;
  session_->record(wanted);
}

std::vector<ir::Tensor> Context::run(const std::vector<ir::Tensor>& inputs,
                                     std::span<const std::span<std::byte>> places,
                                     const StreamCall* call) {
  const NvtxRange range(watching_, "anydim call");
  refresh_tables();
  timeline_.refresh();
  inputs_ = &inputs;
  records_.clear();
  exact_.clear();
  callers_.clear();
  frame_ = {.code = &program_.entry()};
  slots_.resize(index_of(program_.entry().slots));
  executable_->input_binding().bind(inputs, slots_);
  std::vector<ir::Tensor> outputs = run_on_session(inputs, places, call);
  const std::vector<LaunchTiming>& timings = session_->timings();
  for (std::size_t i = 0; i < records_.size(); ++i) {
    records_[i].tasks = timings[i].tasks;
    records_[i].seconds = timings[i].seconds;
  }
  return outputs;
}

std::vector<ir::Tensor> Context::run_on_session(const std::vector<ir::Tensor>& inputs,
                                                std::span<const std::span<std::byte>> places,
                                                const StreamCall* call) {
  try {
    session_->begin(inputs, call);
    if (!places.empty()) session_->offer(places);
    run_code();
    return session_->finish(slots_at_work());
  } catch (...) {
    session_->break_off();
    throw;
  }
}

void Context::refresh_tables() {
  const std::uint64_t version = executable_->kernels().version();
  if (tables_ != nullptr && version == tables_version_) return;
  std::shared_ptr<const KernelTables> before =
      std::exchange(tables_, executable_->kernels().tables());
  if (before != nullptr) executable_->kernels().give_back(std::move(before));
  tables_version_ = version;
  notes_.clear();
}

void Context::run_code() {
  for (;;) {
    check_cancelled(cancellation_.get());
    const std::vector<ir::Code::Instruction>& instructions = frame_.code->instructions;
    if (frame_.position < instructions.size()) {
      std::visit([this](const auto& one) { execute(one); }, instructions[frame_.position++]);
    } else if (callers_.empty()) {
      return;
    } else {
      leave();
    }
  }
}

// ---- Stages ----

void Context::execute(const ir::Code::RunStage& run) {
  const auto stage = index_of(run.stage);
  if (!program_.stages[stage].shapes.expressions.empty()) fill_slots(stage);
  test_checks(program_.stages[stage]);
  session_->place(stage, slots_at_work());
}

void Context::fill_slots(std::size_t index) {
  const ir::Program::Stage& stage = program_.stages[index];
  leaves_.resize(stage.leaves.size());
  for (std::size_t i = 0; i < leaves_.size(); ++i) leaves_[i] = slot(stage.leaves[i]);
  const std::span<std::int64_t> values(&slot(stage.first), stage.shapes.expressions.size());
  std::int32_t failed = -1;
  if (const LoadedShapes* native = tables_->shapes[index].get()) {
    call_generated(native->entry, leaves_.data(), values.data(), &failed);
  } else {
    failed = executable_->interpreter(index).run(leaves_, values);
  }
  if (failed < 0) return;
  std::string where;
  const auto name_of = [&](ir::ValueId tensor) { return "%" + stage.tensors.at(tensor); };
  const ir::Dim& size = stage.shapes.expressions[index_of(failed)];
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    const ir::DimLeaf& leaf = stage.shapes.leaves[i];
    if (!size.mentions(leaf)) continue;
    const std::string name = leaf.is_symbol()
                                 ? leaf.symbol
                                 : ir::Dim::value(leaf.value, leaf.element).to_string(name_of);
    where += fmt::format("{}{} = {}", where.empty() ? "" : ", ", name, leaves_[i]);
  }
  throw Error(ErrorKind::Inputs,
              "the size {} has no 64-bit value (it overflows or divides by zero) for {}",
              size.to_string(name_of), where);
}

void Context::test_checks(const ir::Program::Stage& stage) const {
  for (const ir::Program::Check& check : stage.checks) {
    const std::int64_t left = slot(check.left), right = slot(check.right);
    if (!ir::holds(check.relation, left, right))
      throw Error(ErrorKind::Inputs, ir::violation(check.relation, check.what, left, right));
  }
}

// ---- Launches ----

Context::Pick Context::pick(std::int32_t kernel) {
  const auto& loaded = tables_->kernels[index_of(kernel)];
  const auto lookup = [&] {
    return static_cast<std::int32_t>(tables_->dispatch->lookups[index_of(kernel)].find(keys_));
  };
  ExactKernels& exact = executable_->kernels().exact();
  if (exact.covers(kernel) && !keys_.empty()) {
    const auto bucket = [&]() -> const ir::DispatchTable::Entry& {
      return tables_->entry(kernel, lookup());
    };
    if (auto own = exact.find(kernel, keys_, bucket)) {
      exact_.push_back(own);
      const auto general = static_cast<std::int32_t>(loaded.size() - 1);
      return {general, general, &own->loaded, &own->entry.bucket, std::move(own)};
    }
  }
  const std::int32_t met = lookup();
  std::int32_t used = met;
  if (loaded[index_of(met)] == nullptr) {
    tables_->want(kernel, met);
    used = static_cast<std::int32_t>(loaded.size() - 1);
  }
  return {met, used, &loaded[index_of(used)], &tables_->entry(kernel, used).bucket};
}

void Context::execute(const ir::Code::Launch& launch) {
  extents_.resize(launch.extents.size());
  for (std::size_t i = 0; i < extents_.size(); ++i) extents_[i] = slot(launch.extents[i]);
  keys_.resize(launch.keys.size());
  for (std::size_t i = 0; i < keys_.size(); ++i) keys_[i] = slot(launch.keys[i]);
  Pick picked = pick(launch.kernel);
  const NvtxRange range(
      watching_,
      watching_ == nullptr ? "" : program_.kernels[index_of(launch.kernel)].region.name.c_str());
  LaunchWork work{&launch, picked.kernel, picked.bucket, extents_};
  if (substitute_)
    if (const auto* other = substitute_(work)) work.kernel = other;
  if (timeline_.on()) {
    const std::uint64_t begun = clock_ticks();
    session_->launch(work);
    put_on_timeline(launch, picked, begun);
  } else {
    session_->launch(work);
  }
  if (recording_)
    records_.push_back({.kernel = launch.kernel,
                        .met = picked.met,
                        .used = picked.used,
                        .origin = (*picked.kernel)->origin,
                        .extents = extents_,
                        .keys = keys_,
                        .bytes = bytes_of(launch),
                        .source = &launch.source,
                        .exact = std::move(picked.exact)});
}

std::int64_t Context::bytes_of(const ir::Code::Launch& launch) const {
  using Place = ir::Code::Buffer::Place;
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < launch.buffers.size(); ++i) {
    const ir::Code::Buffer& buffer = frame_.code->buffers[index_of(launch.buffers[i])];
    if (buffer.place == Place::Constant)
      bytes += std::ssize(program_.constants[index_of(buffer.index)].tensor.bytes());
    else if (buffer.bytes >= 0) bytes += slot(buffer.bytes);
    else if (buffer.place == Place::Input && frame_.code == &program_.entry())
      bytes += static_cast<std::int64_t>((*inputs_)[index_of(buffer.index)].byte_size());
    else bytes += bytes_in_region(launch, i);
  }
  return bytes;
}

// Buffers of what a function was given do not say their size; the region's types do.
std::int64_t Context::bytes_in_region(const ir::Code::Launch& launch, std::size_t operand) const {
  const ir::Region& region = program_.kernels[index_of(launch.kernel)].region;
  const ir::Block& body = region.body.body;
  const ir::TensorType& type = region.body.tensor_type(
      operand < body.parameters.size() ? body.parameters[operand]
                                       : body.results.at(operand - body.parameters.size()));
  std::vector<std::int64_t> dims;
  for (const ir::Dim& dim : type.dims) dims.push_back(value_in_region(dim, region, extents_));
  return ir::byte_count(type.dtype, dims);
}

std::uint32_t Context::note_of(const ir::Code::Launch& launch, const Pick& picked) {
  KnownNote& known = notes_[&launch];
  if (picked.exact == nullptr && known.row == picked.used) return known.note;
  const ir::Region& region = program_.kernels[index_of(launch.kernel)].region;
  const ir::DispatchTable::Entry& entry =
      picked.exact != nullptr ? picked.exact->entry : tables_->entry(launch.kernel, picked.used);
  known.row = picked.exact == nullptr ? picked.used : -1;
  known.note = timeline_.timeline().note({.name = region.name,
                                          .facts = {{"bucket", to_string(entry.bucket)},
                                                    {"schedule", to_string(entry.schedule)},
                                                    {"chosen", std::string(name_of(entry.origin))},
                                                    {"source", launch.source}},
                                          .symbols = region.body.symbols.names()});
  return known.note;
}

void Context::put_on_timeline(const ir::Code::Launch& launch, const Pick& picked,
                              std::uint64_t begun) {
  TimelineEvent event{.kind = TimelineKind::Launch,
                      .thread = this_thread(),
                      .begun = begun,
                      .ticks = clock_ticks() - begun};
  event.note = note_of(launch, picked);
  event.values[0] = picked.used != picked.met ? 1 : 0;
  event.values[1] = bytes_of(launch);
  const std::size_t room = event.values.size() - TimelineEvent::first_extent;
  std::copy_n(extents_.begin(), std::min(extents_.size(), room),
              event.values.begin() + TimelineEvent::first_extent);
  timeline_.add(event);
}

void Context::execute(const ir::Code::Fetch& fetch) { slot(fetch.slot) = session_->fetch(fetch); }

void Context::execute(const ir::Code::Assert& check) {
  if (slot(check.slot) != 0) return;
  std::vector<ir::ShownTensor> shown;
  for (const ir::Code::Assert::Shown& tensor : check.shown) {
    std::vector<std::int64_t> dims;
    for (const ir::Code::Slot dim : tensor.dims) dims.push_back(slot(dim));
    const std::int64_t elements = std::min(ir::element_count(dims), ir::shown_elements);
    ir::ShownTensor& one = shown.emplace_back(tensor.name, tensor.dtype, std::move(dims));
    for (std::int64_t i = 0; i < elements; ++i)
      one.first.push_back(session_->element(tensor.buffer, tensor.dtype, i));
  }
  throw Error(ErrorKind::Inputs, ir::assertion_failed(check.source, check.message, shown));
}

// ---- Jumps ----

void Context::execute(const ir::Code::Jump& jump) { frame_.position = index_of(jump.target); }

void Context::execute(const ir::Code::JumpIfZero& jump) {
  if (slot(jump.slot) == 0) frame_.position = index_of(jump.target);
}

void Context::execute(const ir::Code::Iterate& head) {
  const bool goes_on = (head.trips < 0 || slot(head.counter) < slot(head.trips)) &&
                       (head.condition < 0 || slot(head.condition) != 0);
  if (!goes_on) frame_.position = index_of(head.target);
}

void Context::execute(const ir::Code::Next& next) {
  ++slot(next.counter);
  frame_.position = index_of(next.target);
}

void Context::execute(const ir::Code::SetSlots& set) {
  copied_.clear();
  for (const auto& [to, from] : set.copies) copied_.push_back(slot(from));
  for (std::size_t i = 0; i < copied_.size(); ++i) slot(set.copies[i].first) = copied_[i];
}

// ---- Calls ----

// The callee's slots come after all others.
void Context::enter(const std::string& source, const ir::Code& callee) {
  if (callers_.size() >= deepest_call)
    throw Error(ErrorKind::Resource, "{}: calls nest more than {} deep", source, deepest_call);
  callers_.push_back(frame_);
  frame_ = {.code = &callee, .position = 0, .slots = frame_.slots + index_of(frame_.code->slots)};
  slots_.resize(frame_.slots + index_of(callee.slots));
}

void Context::execute(const ir::Code::Call& call) {
  const ir::Code& callee = program_.functions[index_of(call.function)];
  session_->frames().enter(callee, -1, call.arguments);
  enter(call.source, callee);
  const std::size_t caller = callers_.back().slots;
  for (const auto& [theirs, ours] : call.leaves) slot(theirs) = slots_[caller + index_of(ours)];
}

void Context::execute(const ir::Code::CallValue& call) {
  Frames& frames = session_->frames();
  const Object& called = frames.object(call.value);
  const std::int32_t function = called.function;
  const ir::Code& callee = program_.functions[index_of(function)];
  std::vector<std::int32_t> arguments;
  std::vector<std::vector<std::int64_t>> given;  // dims, of what the function value keeps first
  for (const Object::Element& kept : called.elements) given.push_back(kept.dims);
  for (const ir::Code::Argument& argument : call.arguments) {
    arguments.push_back(argument.buffer);
    std::vector<std::int64_t>& dims = given.emplace_back();
    for (const ir::Code::Slot dim : argument.dims) dims.push_back(slot(dim));
  }
  const ir::SymbolValues symbols = symbols_of(callee, function, given);
  frames.enter(callee, call.value, arguments);
  enter(call.source, callee);
  for (std::size_t s = 0; s < callee.leaf_symbols.size(); ++s) {
    const auto found = symbols.find(callee.leaf_symbols[s]);
    if (found != symbols.end()) slot(static_cast<ir::Code::Slot>(s)) = found->second;
  }
}

// What the function's parameters say of the arguments' extents.
ir::SymbolValues Context::symbols_of(const ir::Code& callee, std::int32_t function,
                                     const std::vector<std::vector<std::int64_t>>& dims) const {
  std::vector<ir::InputShape> shapes;
  for (std::size_t i = 0; i < callee.inputs.size(); ++i)
    if (callee.inputs[i].type.kind == ir::Type::Kind::Unknown)
      shapes.push_back({callee.inputs[i].dtype, dims[i]});
  return ir::bind_symbols(executable_->signature(index_of(function)), shapes);
}

void Context::leave() {
  const Frame& caller = callers_.back();
  const ir::Code::Instruction& call = caller.code->instructions[caller.position - 1];
  const auto* direct = std::get_if<ir::Code::Call>(&call);
  const auto& opened =
      direct != nullptr ? direct->opened : std::get<ir::Code::CallValue>(call).opened;
  const auto& results =
      direct != nullptr ? direct->results : std::get<ir::Code::CallValue>(call).results;
  for (const ir::Code::Opened& extent : opened) {
    const ir::Code::Output& output = frame_.code->outputs[index_of(extent.result)];
    slots_[caller.slots + index_of(extent.slot)] = slot(output.dims[index_of(extent.axis)]);
  }
  session_->frames().leave(slots_at_work(), results);
  frame_ = caller;
  callers_.pop_back();
  slots_.resize(frame_.slots + index_of(frame_.code->slots));
}

}  // namespace anydim::runtime
