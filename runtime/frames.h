// The buffers of the functions at work: where each lies, and what instructions beside launches do
// with them. Addresses are the device's; nothing here reads them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/program.h"
#include "runtime/device.h"
#include "runtime/executable.h"
#include "runtime/frame_memory.h"
#include "runtime/frame_stack.h"
#include "runtime/value_pool.h"

namespace anydim::runtime {

class Frames {
 public:
  // Memory is counted in `budget`; both outlive this.
  Frames(const Executable& executable, FrameMemory& memory, MemoryBudget& budget);
  ~Frames();
  Frames(const Frames&) = delete;
  Frames& operator=(const Frames&) = delete;

  void begin();  // the entry's frame, whatever came of the call before
  void end();    // of the call: nothing in it is needed any more

  std::byte* address(std::int32_t buffer) { return value(buffer).data; }
  // Memory that lasts the whole call.
  void lend(std::int32_t buffer, const std::byte* data) {
    value(buffer) = {const_cast<std::byte*>(data), pool_.whole_call()};
  }
  // The segment of a stage that ran, and the addresses of its buffers.
  void place(std::size_t stage, std::span<const std::int64_t> slots);

  // A call: the callee's parameters are what function value `function_value` (a buffer; -1: none)
  // keeps, then the caller's buffers `arguments`.
  void enter(const ir::Code& callee, std::int32_t function_value,
             std::span<const std::int32_t> arguments);
  // Its end: the callee's outputs become the caller's buffers `results`; `slots` are the callee's.
  void leave(std::span<const std::int64_t> slots, std::span<const std::int32_t> results);
  const ir::Code& code() const { return *frame_.code; }  // of the function at work
  bool in_call() const { return !callers_.empty(); }
  const Object& object(std::int32_t buffer) const;

  // Every instruction that handles buffers and is not named elsewhere here; sets the slots that it
  // opens. `slots` are those of the function at work.
  void step(const ir::Code::Instruction& instruction, std::span<std::int64_t> slots);

 private:
  // frames.cpp
  void step(const ir::Code::MoveBuffers& move);
  void step(const ir::Code::Enter& enter);
  void step(const ir::Code::Leave& leave);
  void step(const ir::Code::Allocate& allocate);
  void step(const ir::Code::StoreScalar& store);
  void step(const ir::Code::Append& append);
  // frames_lists.cpp
  void step(const ir::Code::MakeFunction& make);
  void step(const ir::Code::MakeList& make);
  void step(const ir::Code::ListInsert& insert);
  void step(const ir::Code::ListErase& erase);
  void step(const ir::Code::ListAt& at);
  void step(const ir::Code::ListLength& length);
  void step(const ir::Code::ListConcat& concat);

  struct Frame {
    const ir::Code* code = nullptr;
    std::size_t values = 0;     // first in values_
    std::size_t marks = 0;      // how many of marks_ are older
    FrameStack::Mark memory{};  // of the arena, when it was called
  };
  Value& value(std::int32_t buffer) {
    return values_[frame_.values + static_cast<std::size_t>(buffer)];
  }
  const Value& value(std::int32_t buffer) const {
    return values_[frame_.values + static_cast<std::size_t>(buffer)];
  }
  std::int64_t& slot(ir::Code::Slot position) { return slots_[static_cast<std::size_t>(position)]; }
  void open(const ir::Code& code);
  void put(std::int32_t buffer, Value reference);  // takes the reference over
  Value take(std::int64_t bytes);                  // of the pool
  // Where an element of so many bytes lies in its scanned result; nowhere where that has no place
  // for it that kernels may write to.
  std::optional<Value> place_of_element(const ir::Code::Allocate& allocate, std::int64_t bytes);
  void count_pool();
  void release(const FrameStack::Mark& mark);
  Value owned(const Value& value, std::int64_t bytes);  // a reference that may outlive the frame: a
                                                        // copy where the memory is borrowed
  Object::Element keep(const ir::Code::Argument& argument);
  static std::int64_t position_in(std::int64_t position, std::int64_t count,
                                  const std::string& source);

  const Executable& executable_;
  const ir::Program& program_;
  FrameMemory& memory_;
  MemoryBudget& budget_;
  std::vector<Value> values_;  // of all frames
  Frame frame_;                // at work
  std::vector<Frame> callers_;
  std::vector<FrameStack::Mark> marks_;  // of the blocks at work
  std::vector<Value> moved_;             // of a parallel copy at work
  std::span<std::int64_t> slots_;
  FrameStack arena_;
  std::vector<std::byte*> segments_;  // of the arena, by stage, as last placed
  ValuePool pool_;
  std::size_t counted_ = 0;  // bytes of the pool in the budget
};

}  // namespace anydim::runtime
