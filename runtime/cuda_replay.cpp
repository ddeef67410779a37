// Whole calls of a CudaSession: prepared for a capacity, captured, replayed.
#include <algorithm>
#include <utility>

#include "ir/error.h"
#include "runtime/cuda_session.h"
#include "runtime/executable.h"
#include "runtime/kernel_store.h"

namespace anydim::runtime::cuda {

namespace {

constexpr std::size_t most_prepared_calls = 64;

std::size_t index_of(std::int32_t position) { return static_cast<std::size_t>(position); }

}  // namespace

CudaSession::CallKey CudaSession::key_of(std::span<const std::int64_t> leaves) const {
  CallKey key(leaves.begin(), leaves.end());
  for (const Waiting& waiting : waiting_) key.push_back(static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(waiting.kernel.get())));
  return key;
}

// Nothing where the sizes have no value there: a graph for the very sizes of the call serves then.
std::optional<std::vector<std::int64_t>> CudaSession::slots_at_capacity(std::span<const std::int64_t> slots) const {
  const std::size_t leaves = program_.leaf_symbols.size();
  std::vector<std::int64_t> limits(leaves, ir::default_symbol_maximum);
  for (const Waiting& waiting : waiting_) {
    const ir::Program::Launch& launch = *waiting.launch;
    const ir::Bucket& bucket = *waiting.bucket;
    for (std::size_t k = 0; k < std::min(launch.keys.size(), bucket.intervals.size()); ++k) {
      // A key that is a symbol itself: past the bucket's edge another kernel would be chosen.
      const std::size_t slot = index_of(launch.keys[k]);
      if (slot < leaves && bucket.intervals[k].high >= slots[slot]) limits[slot] = std::min(limits[slot], bucket.intervals[k].high);
    }
  }
  std::vector<std::int64_t> at_capacity(slots.begin(), slots.end());
  std::ranges::copy(capacity_.leaves_at_capacity(slots, limits), at_capacity.begin());
  if (program_.stages.empty()) return at_capacity;
  const ir::Program::Stage& stage = program_.stages[0];
  std::vector<std::int64_t> values;
  for (const ir::Program::Slot leaf : stage.leaves) values.push_back(at_capacity[index_of(leaf)]);
  const std::span<std::int64_t> results(at_capacity.data() + stage.first, stage.shapes.expressions.size());
  if (executable_.interpreter(0).run(values, results) >= 0) return std::nullopt;
  if (!capacity_.holds(at_capacity, slots)) return std::nullopt;
  return at_capacity;
}

bool CudaSession::serves(const PreparedCall& call, std::span<const std::int64_t> slots) const {
  if (!capacity_.holds(call.slots, slots)) return false;
  if (call.grids_grow) return true;
  // Grids that may shrink as sizes grow are looked at one by one.
  std::vector<std::int64_t> extents;
  for (const Waiting& waiting : waiting_) {
    const CudaKernel& kernel = kernel_of(*waiting.kernel);
    if (kernel.grids_grow()) continue;
    extents.clear();
    for (const ir::Program::Slot slot : waiting.launch->extents) extents.push_back(call.slots[index_of(slot)]);
    const CudaKernel::Sizes there = kernel.sizes(extents), here = kernel.sizes(extents_of(*waiting.launch, waiting.row));
    if (here.workspace_bytes > there.workspace_bytes) return false;
    for (std::size_t i = 0; i < here.grids.size(); ++i) {
      for (std::size_t axis = 0; axis < 3; ++axis)
        if (here.grids[i][axis] > there.grids[i][axis]) return false;
    }
  }
  return true;
}

CudaSession::PreparedCall* CudaSession::find_call(const CallKey& key) {
  const auto found = calls_.find(key);
  if (found == calls_.end()) return nullptr;
  found->second->last_use = ++clock_;
  return found->second.get();
}

CudaSession::PreparedCall& CudaSession::prepared_for(std::span<const std::int64_t> slots) {
  const std::size_t leaves = program_.leaf_symbols.size();
  if (const auto capacity = slots_at_capacity(slots)) {
    CallKey key = key_of(std::span(*capacity).first(leaves));
    if (PreparedCall* known = find_call(key); known != nullptr && serves(*known, slots)) return *known;
    if (!calls_.contains(key)) {
      try {
        PreparedCall& made = make_call(key, *capacity);
        if (serves(made, slots)) return made;
      } catch (const Error& error) {
        // The capacity asks for more than there is; the call itself may fit.
        if (error.kind() == ErrorKind::Internal) throw;
        budget_.reset();
      }
    }
  }
  CallKey key = key_of(slots.first(leaves));
  if (PreparedCall* known = find_call(key); known != nullptr && serves(*known, slots)) return *known;
  return make_call(std::move(key), {slots.begin(), slots.end()});
}

CudaSession::PreparedCall& CudaSession::make_call(CallKey key, std::vector<std::int64_t> slots) {
  auto call = std::make_unique<PreparedCall>(context_);
  call->slots = std::move(slots);
  call->addresses = constants_;
  std::vector<std::int64_t> symbols, bytes(wanted_inputs_.size());
  for (const std::size_t slot : symbol_slots_) symbols.push_back(call->slots[slot]);
  if (input_bytes_->run(symbols, bytes) >= 0) throw Error(ErrorKind::Inputs, "an input's size in bytes has no 64-bit value");

  // All memory first: parameters hold addresses.
  std::vector<CudaKernel::Sizes> sizes;
  std::vector<std::int64_t> extents;
  std::int64_t workspace = 0;
  for (const Waiting& waiting : waiting_) {
    extents.clear();
    for (const ir::Program::Slot slot : waiting.launch->extents) extents.push_back(call->slots[index_of(slot)]);
    const CudaKernel& kernel = kernel_of(*waiting.kernel);
    sizes.push_back(kernel.sizes(extents));
    workspace = std::max(workspace, sizes.back().workspace_bytes);
    call->grids_grow = call->grids_grow && kernel.grids_grow();
    call->kernels.push_back(waiting.kernel);
  }
  budget_.reset();
  place_inputs(bytes, call->inputs, call->addresses);
  place_whole(call->slots, call->addresses);
  reserve_workspace(workspace);
  call->memory = budget_.used();

  std::vector<Address> buffers;
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    const CudaKernel& kernel = kernel_of(*waiting_[i].kernel);
    Step& step = call->steps.emplace_back(Step{&kernel, waiting_[i].launch, waiting_[i].row, CudaKernel::blocks(sizes[i]), {}});
    buffers.clear();
    for (const std::int32_t buffer : waiting_[i].launch->buffers) buffers.push_back(call->addresses[index_of(buffer)]);
    step.launches = prepare(kernel, sizes[i], places_of(waiting_[i], buffers), maps_);
  }
  if (calls_.size() >= most_prepared_calls) {
    calls_.erase(std::ranges::min_element(calls_, {}, [](const auto& entry) { return entry.second->last_use; }));
  }
  call->last_use = ++clock_;
  return *(calls_[std::move(key)] = std::move(call));
}

void CudaSession::run_whole(PreparedCall& call) {
  if (recording_) {
    copy_in(call.inputs);
    issue(call.steps, false, stream_.handle);
    return;
  }
  if (call.used && call.graph == nullptr && !call.cannot_capture) capture(call);
  copy_in(call.inputs);
  if (call.graph != nullptr) {
    const Result result = driver_.graph_launch(call.graph, stream_.handle);
    if (result != success) context_->fail(result, call_text());
  } else {
    issue(call.steps, false, stream_.handle);
  }
  call.used = true;
}

CudaSession::PreparedCall& CudaSession::last_call() const {
  if (last_ == nullptr) throw Error(ErrorKind::Unsupported, "only a call that fetches no size from the GPU can be issued once more");
  return *last_;
}

void CudaSession::enqueue_last(Stream stream) { issue(last_call().steps, true, stream); }

const std::vector<Address>& CudaSession::last_addresses() const { return last_call().addresses; }

// Where that fails and the context lives, launching one by one serves as before.
void CudaSession::capture(PreparedCall& call) {
  call.cannot_capture = true;
  context_->check(driver_.capture_begin(stream_.handle, capture_thread_local), "capturing a graph");
  bool whole = true;
  try {
    issue(call.steps, true, stream_.handle);
  } catch (const Error&) {
    whole = false;
  }
  Graph graph = nullptr;
  whole = driver_.capture_end(stream_.handle, &graph) == success && whole;
  if (whole && driver_.graph_instantiate(&call.graph, graph, 0) != success) call.graph = nullptr;
  if (graph != nullptr) driver_.graph_destroy(graph);
  context_->enter();
  if (call.graph == nullptr) return;
  call.cannot_capture = false;
}

}  // namespace anydim::runtime::cuda
