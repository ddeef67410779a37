#include "runtime/cuda_replayed_session.h"

#include <algorithm>
#include <utility>

#include "ir/error.h"
#include "runtime/executable.h"

namespace anydim::runtime::cuda {

namespace {

using Place = ir::Code::Buffer::Place;

constexpr std::size_t most_prepared_calls = 64;

std::size_t index_of(std::int32_t position) { return static_cast<std::size_t>(position); }

// Fetches from inputs read host memory; any other waits for the device.
bool fetches_from_device(const ir::Program& program) {
  return std::ranges::any_of(
      program.entry().instructions, [&](const ir::Code::Instruction& instruction) {
        const auto* fetch = std::get_if<ir::Code::Fetch>(&instruction);
        return fetch != nullptr &&
               program.entry().buffers[index_of(fetch->buffer)].place != Place::Input;
      });
}

}  // namespace

bool ReplayedSession::takes(const ir::Program& program) {
  return is_straight(program) && program.stages.size() <= 1 && !fetches_from_device(program);
}

void ReplayedSession::PreparedCall::drop_graph() noexcept {
  if ((graph == nullptr && captured == nullptr) || !context->enter_quietly()) return;
  if (graph != nullptr) context->driver().graph_executable_destroy(std::exchange(graph, nullptr));
  if (captured != nullptr) context->driver().graph_destroy(std::exchange(captured, nullptr));
}

ReplayedSession::ReplayedSession(std::shared_ptr<DeviceContext> context,
                                 const Executable& executable)
    : executable_(executable), program_(executable.program()), capacity_(program_),
      queue_(std::move(context), program_), budget_(executable.memory_limit()),
      activations_(queue_.context(), queue_.stream()), constants_(program_.entry().buffers.size()) {
  ir::ShapeProgram sizes;
  for (std::size_t slot = 0; slot < program_.entry().leaf_symbols.size(); ++slot) {
    if (program_.entry().leaf_symbols[slot].empty()) continue;
    sizes.leaves.push_back({.symbol = program_.entry().leaf_symbols[slot]});
    symbol_slots_.push_back(slot);
  }
  for (const ArgumentBuffer::Input& read : queue_.read_inputs()) {
    const ir::Code::Input& input = program_.entry().inputs[index_of(read.input)];
    sizes.expressions.push_back(ir::product(input.dims) *
                                static_cast<std::int64_t>(ir::size_of(input.dtype)));
  }
  input_bytes_.emplace(sizes);
  for (std::size_t b = 0; b < program_.entry().buffers.size(); ++b) {
    const ir::Code::Buffer& buffer = program_.entry().buffers[b];
    if (buffer.place == Place::Constant)
      constants_[b] =
          reinterpret_cast<Address>(executable.constant_addresses()[index_of(buffer.index)]);
  }
}

ReplayedSession::~ReplayedSession() { queue_.stop(); }

// ---- The call, as the virtual machine tells it ----

void ReplayedSession::begin(const std::vector<ir::Tensor>& inputs, const StreamCall* call) {
  queue_.begin(inputs, call, most_calls_under_way);
  buckets_.clear();
  last_ = nullptr;
}

void ReplayedSession::launch(const LaunchWork& work) {
  queue_.add(work);
  buckets_.push_back(work.bucket);
}

ir::Tensor ReplayedSession::element(std::int32_t buffer, ir::DType dtype, std::int64_t element) {
  return queue_.input_element(program_.entry().buffers[index_of(buffer)], dtype, element);
}

Frames& ReplayedSession::frames() { internal_error("a call that is replayed has launches only"); }

std::vector<ir::Tensor> ReplayedSession::finish(std::span<const std::int64_t> slots) {
  PreparedCall& call = prepared_for(slots);
  bind(call, slots);
  run(call);
  last_ = &call;
  return queue_.finish(slots,
                       [&](std::int32_t buffer) { return call.addresses[index_of(buffer)]; });
}

ReplayedSession::PreparedCall& ReplayedSession::last() const {
  internal_check(last_ != nullptr, "a call has ended before");
  return *last_;
}

void ReplayedSession::enqueue_last(Stream stream) { queue_.enqueue(last().steps, stream); }

const std::vector<Address>& ReplayedSession::last_addresses() const { return last().addresses; }

// ---- Which prepared call serves ----

ReplayedSession::CallKey ReplayedSession::key_of(std::span<const std::int64_t> leaves) const {
  CallKey key(leaves.begin(), leaves.end());
  for (const LaunchQueue::Launch& launch : queue_.waiting())
    key.push_back(static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(launch.loaded.get())));
  return key;
}

// Nothing where the sizes have no value there: a graph for the very sizes of the call serves then.
std::optional<std::vector<std::int64_t>> ReplayedSession::slots_at_capacity(
    std::span<const std::int64_t> slots) const {
  const std::size_t leaves = program_.entry().leaf_symbols.size();
  std::vector<std::int64_t> limits(leaves, ir::default_symbol_maximum);
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const std::vector<ir::Code::Slot>& keys = queue_.waiting()[i].launch->keys;
    const std::vector<ir::BucketInterval>& intervals = buckets_[i]->intervals;
    for (std::size_t k = 0; k < std::min(keys.size(), intervals.size()); ++k) {
      // A key that is a symbol itself: past the bucket's edge another kernel would be chosen.
      const std::size_t slot = index_of(keys[k]);
      if (slot < leaves && intervals[k].high >= slots[slot])
        limits[slot] = std::min(limits[slot], intervals[k].high);
    }
  }
  std::vector<std::int64_t> at_capacity(slots.begin(), slots.end());
  std::ranges::copy(capacity_.leaves_at_capacity(slots, limits), at_capacity.begin());
  if (program_.stages.empty()) return at_capacity;
  const ir::Program::Stage& stage = program_.stages[0];
  std::vector<std::int64_t> values;
  for (const ir::Code::Slot leaf : stage.leaves) values.push_back(at_capacity[index_of(leaf)]);
  const std::span<std::int64_t> results(at_capacity.data() + stage.first,
                                        stage.shapes.expressions.size());
  if (executable_.interpreter(0).run(values, results) >= 0) return std::nullopt;
  if (!capacity_.holds(at_capacity, slots)) return std::nullopt;
  return at_capacity;
}

CudaKernel::Sizes ReplayedSession::sizes_at(std::span<const std::int64_t> slots,
                                            const LaunchQueue::Launch& launch) const {
  std::vector<std::int64_t> extents;
  for (const ir::Code::Slot slot : launch.launch->extents) extents.push_back(slots[index_of(slot)]);
  return launch.kernel().sizes(extents);
}

bool ReplayedSession::serves(const PreparedCall& call, std::span<const std::int64_t> slots) const {
  if (!capacity_.holds(call.slots, slots)) return false;
  // Grids that may shrink as sizes grow are looked at one by one.
  return std::ranges::all_of(queue_.waiting(), [&](const LaunchQueue::Launch& launch) {
    if (launch.kernel().grids_grow()) return true;
    const CudaKernel::Sizes there = sizes_at(call.slots, launch), here = sizes_at(slots, launch);
    if (here.workspace_bytes > there.workspace_bytes) return false;
    for (std::size_t i = 0; i < here.grids.size(); ++i) {
      for (std::size_t axis = 0; axis < 3; ++axis)
        if (here.grids[i][axis] > there.grids[i][axis]) return false;
    }
    return true;
  });
}

ReplayedSession::PreparedCall* ReplayedSession::find(const CallKey& key,
                                                     std::span<const std::int64_t> slots) {
  const auto found = calls_.find(key);
  if (found == calls_.end() || !serves(*found->second, slots)) return nullptr;
  found->second->last_use = ++clock_;
  return found->second.get();
}

ReplayedSession::PreparedCall& ReplayedSession::prepared_for(std::span<const std::int64_t> slots) {
  const std::size_t leaves = program_.entry().leaf_symbols.size();
  if (const auto capacity = slots_at_capacity(slots)) {
    CallKey key = key_of(std::span(*capacity).first(leaves));
    if (PreparedCall* known = find(key, slots); known != nullptr) return *known;
    if (!calls_.contains(key)) {
      try {
        PreparedCall& made = make(key, *capacity);
        if (serves(made, slots)) return made;
      } catch (const Error& error) {
        // The capacity asks for more than there is; the call itself may fit.
        if (error.kind() == ErrorKind::Internal) throw;
      }
    }
  }
  CallKey key = key_of(slots.first(leaves));
  if (PreparedCall* known = find(key, slots); known != nullptr) return *known;
  return make(std::move(key), {slots.begin(), slots.end()});
}

// ---- Preparing ----

ReplayedSession::PreparedCall& ReplayedSession::make(CallKey key, std::vector<std::int64_t> slots) {
  auto call = std::make_unique<PreparedCall>(queue_.context());
  call->slots = std::move(slots);
  call->addresses = constants_;
  std::vector<CudaKernel::Sizes> sizes;
  for (const LaunchQueue::Launch& launch : queue_.waiting())
    sizes.push_back(sizes_at(call->slots, launch));

  // All memory first: parameters hold addresses.
  budget_.reset();
  place_inputs(*call);
  place_activations(*call);
  note_move(queue_.reserve_workspace(sizes, budget_));
  call->memory = budget_.used();
  call->steps =
      queue_.prepare(sizes, [&](std::int32_t buffer) { return call->addresses[index_of(buffer)]; });
  call->homes = call->addresses;
  find_movable(*call);

  if (calls_.size() >= most_prepared_calls) {
    queue_.settle();
    calls_.erase(std::ranges::min_element(
        calls_, {}, [](const auto& entry) { return entry.second->last_use; }));
  }
  call->last_use = ++clock_;
  return *(calls_[std::move(key)] = std::move(call));
}

// Captured graphs and prepared parameters hold addresses.
void ReplayedSession::note_move(bool moved) {
  if (!moved) return;
  queue_.settle();
  calls_.clear();
}

void ReplayedSession::place_inputs(PreparedCall& call) {
  call.inputs = queue_.read_inputs();
  std::vector<std::int64_t> symbols, bytes(call.inputs.size());
  for (const std::size_t slot : symbol_slots_) symbols.push_back(call.slots[slot]);
  if (input_bytes_->run(symbols, bytes) >= 0)
    throw Error(ErrorKind::Inputs, "an input's size in bytes has no 64-bit value");
  note_move(queue_.arguments().place(call.inputs, bytes));
  for (const ArgumentBuffer::Input& input : call.inputs)
    call.addresses[index_of(input.buffer)] = queue_.arguments().address(input);
}

// The arena segment of the one stage, and outputs behind it.
void ReplayedSession::place_activations(PreparedCall& call) {
  const Executable::StageLayout& layout = executable_.stage_layouts()[0];
  const auto slot = [&](ir::Code::Slot position) { return call.slots[index_of(position)]; };
  std::size_t offset = 0;
  if (!program_.stages.empty() && program_.stages[0].arena_bytes >= 0) {
    const std::int64_t bytes = slot(program_.stages[0].arena_bytes);
    budget_.spend(&CallMemory::arena, bytes);
    offset = aligned(static_cast<std::size_t>(bytes));
  }
  std::vector<std::pair<std::int32_t, std::size_t>> outputs;
  for (const std::int32_t o : layout.outputs) {
    const std::int32_t buffer = program_.entry().outputs[index_of(o)].buffer;
    const std::int64_t bytes = slot(program_.entry().buffers[index_of(buffer)].bytes);
    budget_.spend(&CallMemory::outputs, bytes);
    outputs.emplace_back(buffer, offset);
    offset += aligned(static_cast<std::size_t>(bytes));
  }
  note_move(activations_.reserve(offset, "activations and outputs"));
  for (const std::int32_t b : layout.buffers)
    call.addresses[index_of(b)] =
        activations_.address() +
        static_cast<Address>(slot(program_.entry().buffers[index_of(b)].offset));
  for (const auto& [buffer, at] : outputs)
    call.addresses[index_of(buffer)] = activations_.address() + at;
}

// ---- Where inputs and results lie ----

void ReplayedSession::find_movable(PreparedCall& call) const {
  std::vector<MovableBuffer> candidates;
  std::vector<std::int32_t> known(program_.entry().buffers.size(), -1);  // among the candidates
  const auto add = [&](const MovableBuffer& one) {
    if (known[index_of(one.buffer)] >= 0) return;
    known[index_of(one.buffer)] = static_cast<std::int32_t>(candidates.size());
    candidates.push_back(one);
  };
  for (const ArgumentBuffer::Input& input : call.inputs)
    add({.buffer = input.buffer, .input = input.input});
  for (const std::int32_t output : executable_.stage_layouts()[0].outputs)
    add({.buffer = program_.entry().outputs[index_of(output)].buffer, .output = output});
  std::vector<bool> fixed(candidates.size());
  for (std::uint32_t s = 0; s < call.steps.size(); ++s) {
    const LaunchQueue::Step& step = call.steps[s];
    const std::vector<std::int32_t>& buffers = step.of.launch->buffers;
    for (std::size_t position = 0; position < buffers.size(); ++position) {
      const std::int32_t candidate = known[index_of(buffers[position])];
      if (candidate < 0) continue;
      for (std::uint32_t l = 0; l < step.launches.size(); ++l) {
        if (step.launches[l].fixes(static_cast<std::int32_t>(position)))
          fixed[index_of(candidate)] = true;
        candidates[index_of(candidate)].uses.push_back({{s, l}, position});
      }
    }
  }
  for (std::size_t i = 0; i < candidates.size(); ++i)
    if (!fixed[i]) call.movable.push_back(std::move(candidates[i]));
}

void ReplayedSession::bind(PreparedCall& call, std::span<const std::int64_t> slots) {
  for (const MovableBuffer& one : call.movable) move(call, one, place_of(call, one, slots));
  update_graph(call);
}

Address ReplayedSession::place_of(const PreparedCall& call, const MovableBuffer& movable,
                                  std::span<const std::int64_t> slots) {
  Address given = 0;
  if (movable.output >= 0) {
    given = queue_.room_for(index_of(movable.output), slots);
  } else if (const TensorMemory* memory = queue_.given(movable.input)) {
    given = memory->place() % kernel_alignment == 0 ? memory->place() : 0;
  }
  return given != 0 ? given : call.homes[index_of(movable.buffer)];
}

void ReplayedSession::move(PreparedCall& call, const MovableBuffer& movable, Address address) {
  if (std::exchange(call.addresses[index_of(movable.buffer)], address) == address) return;
  for (const MovableBuffer::Use& use : movable.uses) {
    call.steps[use.launch.step].move(use.launch.launch, use.position, address);
    moved_.insert(use.launch);
  }
}

// Where the driver does not take a change, launching one by one serves.
void ReplayedSession::update_graph(PreparedCall& call) {
  for (const LaunchOf& one : std::exchange(moved_, {})) {
    if (call.graph == nullptr) return;
    const Result result =
        call.steps[one.step].launches[one.launch].update(queue_.context()->driver(), call.graph);
    if (result == success) continue;
    if (ends_context(result)) queue_.check(result, "changing addresses of a graph");
    queue_.settle();
    call.drop_graph();
    call.cannot_capture = true;
  }
}

// Inputs in device memory that launches read at the session's places.
void ReplayedSession::copy_in(const PreparedCall& call) {
  for (const ArgumentBuffer::Input& input : call.inputs)
    if (const TensorMemory* memory = queue_.given(input.input))
      queue_.copy(call.addresses[index_of(input.buffer)], memory->place(), memory->bytes());
}

// ---- Running ----

void ReplayedSession::run(PreparedCall& call) {
  const bool launch_apart = queue_.apart();
  if (!launch_apart && call.used && call.graph == nullptr && !call.cannot_capture) capture(call);
  queue_.send(call.inputs);
  copy_in(call);
  if (launch_apart || call.graph == nullptr) {
    queue_.issue(call.steps);
  } else {
    queue_.check(queue_.context()->driver().graph_launch(call.graph, queue_.stream()), {});
  }
  call.used = call.used || !launch_apart;
}

// Where that fails and the context lives, launching one by one serves as before.
void ReplayedSession::capture(PreparedCall& call) {
  const DeviceContext& context = *queue_.context();
  const Driver& driver = context.driver();
  call.cannot_capture = true;
  context.check(driver.capture_begin(queue_.stream(), capture_thread_local), "capturing a graph");
  bool whole = true;
  try {
    queue_.capture(call.steps);
  } catch (const Error&) {
    whole = false;
  }
  whole = driver.capture_end(queue_.stream(), &call.captured) == success && whole;
  if (!whole || driver.graph_instantiate(&call.graph, call.captured, 0) != success)
    call.graph = nullptr;
  if (call.graph == nullptr) call.drop_graph();
  context.enter();
  call.cannot_capture = call.graph == nullptr;
}

}  // namespace anydim::runtime::cuda
