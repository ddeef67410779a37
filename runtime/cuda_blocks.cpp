// Branches and loops on a GPU. The host carries them out; values that outlive a block are counted references to device memory, taken and freed in the stream's order.
#include <algorithm>
#include <utility>

#include "ir/error.h"
#include "runtime/cuda_session.h"

namespace anydim::runtime::cuda {

namespace {

std::size_t index_of(std::int32_t position) { return static_cast<std::size_t>(position); }

}  // namespace

// Its row of the plan block. In a loop a launch comes again: what used the row before has to be done with it.
std::size_t CudaSession::position_of(const ir::Program::Launch* launch) {
  if (straight_) {
    internal_check(position_ < launches_.size() && launches_[position_] == launch, "launches come in the program's order");
    return position_++;
  }
  const auto found = std::ranges::find(launches_, launch);
  internal_check(found != launches_.end(), "a launch is one of the program's");
  const auto position = static_cast<std::size_t>(found - launches_.begin());
  if (std::ranges::any_of(waiting_, [&](const Waiting& waiting) { return waiting.position == position; })) settle();
  position_ = launches_.size();
  return position;
}

// Until all launches so far are done and their checks tested: rows of the plan block, addresses and memory may change then.
void CudaSession::settle() {
  if (!inputs_copied_) copy_in(placed_inputs_);
  if (waiting_.empty()) return;
  flush(addresses_);
  test_errors();
  issued_.clear();
}

void CudaSession::step(const ir::Code::Instruction& instruction, std::span<std::int64_t> slots) {
  settle();
  if (const auto* move = std::get_if<ir::Code::MoveBuffers>(&instruction)) return move_buffers(*move);
  if (std::holds_alternative<ir::Code::Enter>(instruction)) return marks_.push_back(budget_.used().arena);
  if (const auto* leave = std::get_if<ir::Code::Leave>(&instruction)) return leave_block(*leave);
  if (const auto* allocate = std::get_if<ir::Code::Allocate>(&instruction))
    return put(allocate->buffer, take(slots[index_of(program_.buffers[index_of(allocate->buffer)].bytes)]));
  if (const auto* store = std::get_if<ir::Code::StoreScalar>(&instruction)) return store_scalar(*store);
  if (const auto* appended = std::get_if<ir::Code::Append>(&instruction)) return append(*appended, slots);
  DeviceSession::step(instruction, slots);
}

std::shared_ptr<StreamMemory> CudaSession::take(std::int64_t bytes) {
  constexpr std::int64_t least = 16;  // an empty value has a place too
  const std::int64_t taken = bytes < 0 ? bytes : std::max(bytes, least);
  budget_.spend(&CallMemory::pool, taken);
  std::shared_ptr<StreamMemory> memory(new StreamMemory(context_, stream_.handle), [this, taken](StreamMemory* done) {
    budget_.give_back(&CallMemory::pool, taken);
    delete done;
  });
  memory->reserve(static_cast<std::size_t>(taken), "values of branches and loops");
  return memory;
}

void CudaSession::put(std::int32_t buffer, std::shared_ptr<StreamMemory> memory) {
  addresses_[index_of(buffer)] = memory == nullptr ? 0 : memory->address();
  owners_[index_of(buffer)] = std::move(memory);
}

void CudaSession::forget_values() {
  for (std::size_t buffer = 0; buffer < owners_.size(); ++buffer)
    if (owners_[buffer] != nullptr) put(static_cast<std::int32_t>(buffer), nullptr);
  marks_.clear();
}

void CudaSession::move_buffers(const ir::Code::MoveBuffers& move) {
  std::vector<std::pair<Address, std::shared_ptr<StreamMemory>>> moved;
  for (const auto& [to, from] : move.copies) moved.emplace_back(addresses_[index_of(from)], owners_[index_of(from)]);
  for (std::size_t i = 0; i < moved.size(); ++i) {
    const std::size_t to = index_of(move.copies[i].first);
    addresses_[to] = moved[i].first;
    owners_[to] = std::move(moved[i].second);
  }
}

void CudaSession::leave_block(const ir::Code::Leave& leave) {
  for (const std::int32_t buffer : leave.dropped) put(buffer, nullptr);
  budget_.give_back(&CallMemory::arena, budget_.used().arena - marks_.back());
  marks_.pop_back();
}

void CudaSession::store_scalar(const ir::Code::StoreScalar& store) {
  ir::Tensor scalar(store.dtype, {});
  scalar.set_integer(0, slots_[index_of(store.slot)]);
  in_flight_ = true;
  context_->check(driver_.copy_to_device(addresses_[index_of(store.buffer)], scalar.bytes().data(), scalar.bytes().size(), stream_.handle),
                  "copying a loop's counter to the GPU");
  synchronize();
}

void CudaSession::append(const ir::Code::Append& append, std::span<std::int64_t> slots) {
  const std::int64_t needed = appended_bytes(append, slots), bytes = slots[index_of(append.bytes)], count = slots[index_of(append.counter)];
  const auto copy = [&](Address to, Address from, std::int64_t size) {
    if (size == 0) return;
    in_flight_ = true;
    context_->check(driver_.copy_on_device(to, from, static_cast<std::size_t>(size), stream_.handle), "copying a scanned value on the GPU");
  };
  const std::shared_ptr<StreamMemory>& target = owners_[index_of(append.to)];
  const auto held = target == nullptr ? 0 : static_cast<std::int64_t>(target->bytes());
  if (count == 0 || needed > held) {
    std::shared_ptr<StreamMemory> larger = take(appended_room(append, slots, needed, held));
    if (count > 0) copy(larger->address(), target->address(), bytes * count);
    put(append.to, std::move(larger));
  }
  copy(addresses_[index_of(append.to)] + static_cast<Address>(bytes * count), addresses_[index_of(append.from)], bytes);
}

}  // namespace anydim::runtime::cuda
