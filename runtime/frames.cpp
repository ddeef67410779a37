#include "runtime/frames.h"

#include <utility>

#include "ir/error.h"

namespace anydim::runtime {

namespace {

using Place = ir::Code::Buffer::Place;

std::size_t index_of(std::int32_t position) { return static_cast<std::size_t>(position); }

}  // namespace

Frames::Frames(const Executable& executable, FrameMemory& memory, MemoryBudget& budget)
    : executable_(executable), program_(executable.program()), memory_(memory), budget_(budget),
      arena_(memory), segments_(program_.stages.size()), pool_(memory) {}

Frames::~Frames() { end(); }

void Frames::begin() {
  end();
  counted_ = 0;
  open(program_.entry());
}

void Frames::end() {
  for (Value& value : values_) pool_.drop(value);
  for (Value& value : moved_) pool_.drop(value);
  values_.clear();
  moved_.clear();
  callers_.clear();
  marks_.clear();
  arena_.clear();
  pool_.end_call();
}

// ---- Frames ----

// A frame's buffers come after all others; constants have their place from the start.
void Frames::open(const ir::Code& code) {
  frame_ = {
      .code = &code, .values = values_.size(), .marks = marks_.size(), .memory = arena_.mark()};
  values_.resize(frame_.values + code.buffers.size());
  for (std::size_t b = 0; b < code.buffers.size(); ++b) {
    const ir::Code::Buffer& buffer = code.buffers[b];
    if (buffer.place == Place::Constant)
      values_[frame_.values + b] = {
          static_cast<std::byte*>(executable_.constant_addresses()[index_of(buffer.index)]),
          pool_.whole_call()};
  }
}

void Frames::enter(const ir::Code& callee, std::int32_t function_value,
                   std::span<const std::int32_t> arguments) {
  const std::size_t caller = frame_.values;
  // What a function value keeps stays alive until the callee has references of its own.
  const Object* kept = function_value < 0 ? nullptr : &object(function_value);
  budget_.spend(&CallMemory::pool,
                static_cast<std::int64_t>(callee.buffers.size() * sizeof(Value)));
  callers_.push_back(frame_);
  open(callee);
  std::size_t parameter = 0;
  const auto give = [&](const Value& given) {
    const std::int32_t buffer = callee.inputs[parameter++].buffer;
    if (buffer >= 0) put(buffer, pool_.share(given));
  };
  if (kept != nullptr)
    for (const Object::Element& element : kept->elements) give(element.value);
  for (const std::int32_t argument : arguments) give(Value(values_[caller + index_of(argument)]));
}

void Frames::leave(std::span<const std::int64_t> slots, std::span<const std::int32_t> results) {
  moved_.clear();
  for (const ir::Code::Output& output : frame_.code->outputs) {
    auto bytes = static_cast<std::int64_t>(ir::size_of(output.dtype));
    for (const ir::Code::Slot dim : output.dims) bytes *= slots[index_of(dim)];
    moved_.push_back(owned(value(output.buffer), bytes));
  }
  for (std::size_t b = frame_.values; b < values_.size(); ++b) pool_.drop(values_[b]);
  values_.resize(frame_.values);
  marks_.resize(frame_.marks);
  release(frame_.memory);
  budget_.give_back(&CallMemory::pool,
                    static_cast<std::int64_t>(frame_.code->buffers.size() * sizeof(Value)));
  frame_ = callers_.back();
  callers_.pop_back();
  for (std::size_t i = 0; i < results.size(); ++i) put(results[i], std::exchange(moved_[i], {}));
  count_pool();
}

// ---- Planned memory ----

void Frames::place(std::size_t index, std::span<const std::int64_t> slots) {
  const ir::Program::Stage& stage = program_.stages[index];
  if (stage.arena_bytes >= 0) {
    const std::int64_t bytes = slots[index_of(stage.arena_bytes)];
    budget_.spend(&CallMemory::arena, bytes);
    segments_[index] = arena_.take(static_cast<std::size_t>(bytes));
  }
  for (const std::int32_t b : executable_.stage_layouts()[index].buffers) {
    const ir::Code::Buffer& buffer = frame_.code->buffers[index_of(b)];
    value(b) = {segments_[index_of(buffer.segment)] + slots[index_of(buffer.offset)], nullptr};
  }
}

void Frames::release(const FrameStack::Mark& mark) {
  const std::size_t before = arena_.taken();
  arena_.release(mark);
  budget_.give_back(&CallMemory::arena, static_cast<std::int64_t>(before - arena_.taken()));
}

// ---- Pool ----

Value Frames::take(std::int64_t bytes) {
  if (bytes < 0) budget_.spend(&CallMemory::pool, bytes);  // refused there
  count_pool();
  budget_.spend(&CallMemory::pool,
                static_cast<std::int64_t>(ValuePool::rounded(static_cast<std::size_t>(bytes))));
  Value taken = pool_.take(static_cast<std::size_t>(bytes));
  counted_ = pool_.used();
  return taken;
}

// What was dropped since is given back.
void Frames::count_pool() {
  budget_.give_back(&CallMemory::pool,
                    static_cast<std::int64_t>(counted_) - static_cast<std::int64_t>(pool_.used()));
  counted_ = pool_.used();
}

Value Frames::owned(const Value& value, std::int64_t bytes) {
  if (value.owner != nullptr) return pool_.share(value);
  Value copy = take(bytes);
  if (bytes > 0) memory_.copy(copy.data, value.data, static_cast<std::size_t>(bytes));
  return copy;
}

void Frames::put(std::int32_t buffer, Value reference) {
  Value& place = value(buffer);
  pool_.drop(place);
  place = reference;
}

// ---- Instructions ----

void Frames::step(const ir::Code::Instruction& instruction, std::span<std::int64_t> slots) {
  slots_ = slots;
  std::visit(
      [this](const auto& one) {
        if constexpr (requires { step(one); }) step(one);
        else
          internal_error(
              "the virtual machine carries out every instruction that only moves numbers");
      },
      instruction);
}

void Frames::step(const ir::Code::MoveBuffers& move) {
  moved_.clear();
  for (const auto& [to, from] : move.copies) moved_.push_back(pool_.share(value(from)));
  for (std::size_t i = 0; i < move.copies.size(); ++i)
    put(move.copies[i].first, std::exchange(moved_[i], {}));
}

void Frames::step(const ir::Code::Enter&) { marks_.push_back(arena_.mark()); }

void Frames::step(const ir::Code::Leave& leave) {
  for (const std::int32_t buffer : leave.dropped) pool_.drop(value(buffer));
  release(marks_.back());
  marks_.pop_back();
}

void Frames::step(const ir::Code::Allocate& allocate) {
  pool_.drop(value(allocate.buffer));
  const std::int64_t bytes = slot(frame_.code->buffers[index_of(allocate.buffer)].bytes);
  const auto place = allocate.element_of < 0 ? std::nullopt : place_of_element(allocate, bytes);
  value(allocate.buffer) = place ? *place : take(bytes);
}

std::optional<Value> Frames::place_of_element(const ir::Code::Allocate& allocate,
                                              std::int64_t bytes) {
  const std::int64_t count = slot(allocate.counter), expected = slot(allocate.expected);
  std::int64_t all = 0;
  if (bytes <= 0 || bytes % ValuePool::alignment != 0 || count < 0 || count >= expected ||
      __builtin_mul_overflow(bytes, expected, &all))
    return std::nullopt;
  if (count == 0) put(allocate.element_of, take(all));
  const Value& list = value(allocate.element_of);
  if (pool_.room(list) < static_cast<std::size_t>(all)) return std::nullopt;
  return Value{list.data + bytes * count, pool_.share(list).owner};
}

void Frames::step(const ir::Code::StoreScalar& store) {
  ir::Tensor scalar(store.dtype, {});
  scalar.set_integer(0, slot(store.slot));
  memory_.write(address(store.buffer), scalar.bytes());
}

void Frames::step(const ir::Code::Append& append) {
  const std::int64_t needed = appended_bytes(append, slots_), bytes = slot(append.bytes),
                     count = slot(append.counter);
  const Value &target = value(append.to), &element = value(append.from);
  if (target.owner != nullptr && element.owner == target.owner &&
      element.data == target.data + bytes * count)
    return;
  const auto held = static_cast<std::int64_t>(pool_.room(target));
  if (count == 0 || needed > held) {
    Value larger = take(appended_room(append, slots_, needed, held));
    if (count > 0) memory_.copy(larger.data, target.data, static_cast<std::size_t>(bytes * count));
    put(append.to, larger);
  }
  if (bytes > 0)
    memory_.copy(address(append.to) + bytes * count, address(append.from),
                 static_cast<std::size_t>(bytes));
}

}  // namespace anydim::runtime
