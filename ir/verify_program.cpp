#include "ir/verify_program.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>
#include <variant>

#include "ir/verify_buffers.h"

namespace anydim::ir {

namespace {

class ProgramVerifier {
 public:
  explicit ProgramVerifier(const Program& program) : program_(program) {}

  std::optional<ProgramFlaw> run() {
    try {
      shared();
      for (std::size_t i = 0; i < program_.functions.size(); ++i) {
        at_.function = i;
        at_.instruction.reset();
        function(program_.functions[i]);
      }
      return std::nullopt;
    } catch (const std::string& message) {
      at_.message = message;
      return at_;
    }
  }

 private:
  static void expect_position(std::int64_t position, std::size_t count, std::string_view what) {
    if (position < 0 || static_cast<std::size_t>(position) >= count)
      throw fmt::format("expected one of {} {}, got {}", count, what, position);
  }
  static void expect_count(std::size_t got, std::size_t wanted, std::string_view what) {
    if (got != wanted) throw fmt::format("expected {} {}, got {}", wanted, what, got);
  }

  void shared() const {
    if (program_.functions.empty()) throw std::string("expected a function, got none");
    for (const Program::Constant& constant : program_.constants)
      if (constant.layout) {
        expect_position(constant.region, program_.kernels.size(), "kernels");
        expect_position(constant.parameter,
                        kernel(constant.region).region.body.body.parameters.size(), "parameters");
      }
    for (const Program::Kernel& one : program_.kernels)
      for (const DispatchTable::Entry& entry : one.table.entries) {
        expect_count(entry.bucket.intervals.size(), one.region.keys.size(), "keys of a bucket");
        if (entry.kernel)
          expect_count(entry.kernel->intervals.size(), one.region.keys.size(), "keys of a bucket");
      }
    for (const Program::Stage& stage : program_.stages)
      expect_count(stage.leaves.size(), stage.shapes.leaves.size(), "leaves of a stage");
  }

  const Program::Kernel& kernel(std::int32_t position) const {
    return program_.kernels[static_cast<std::size_t>(position)];
  }

  void function(const Code& code) {
    code_ = &code;
    for (const Code::Input& input : code.inputs) optional_buffer(input.buffer);
    for (const Code::Output& output : code.outputs) {
      optional_buffer(output.buffer);
      slots(output.dims), slots(output.ones);
    }
    for (const Code::Buffer& placed : code.buffers) place(placed);
    for (std::size_t i = 0; i < code.instructions.size(); ++i) {
      at_.instruction = i;
      std::visit([this](const auto& one) { verify(one); }, code.instructions[i]);
    }
    const SlotExpressions sizes(program_, code);
    for (std::size_t i = 0; i < code.instructions.size(); ++i) {
      at_.instruction = i;
      const auto within = [&](const auto& one) {
        if constexpr (requires { sizes.overrun(one); })
          if (auto overrun = sizes.overrun(one)) throw *std::move(overrun);
      };
      std::visit(within, code.instructions[i]);
    }
    at_.instruction.reset();
    for (const Code::Output& output : code.outputs)
      if (auto overrun = sizes.overrun(output)) throw *std::move(overrun);
  }

  void place(const Code::Buffer& placed) const {
    using Place = Code::Buffer::Place;
    if (placed.place == Place::Input) expect_position(placed.index, code_->inputs.size(), "inputs");
    if (placed.place == Place::Constant)
      expect_position(placed.index, program_.constants.size(), "constants");
    if (placed.place == Place::Output)
      expect_position(placed.index, code_->outputs.size(), "outputs");
    if (placed.place == Place::Arena || placed.place == Place::Output)
      expect_position(placed.segment, program_.stages.size(), "stages");
    if (placed.place == Place::Arena) slot(placed.offset);
    if (placed.place == Place::Arena || placed.place == Place::Output) slot(placed.bytes);
    else optional_slot(placed.bytes);
  }

  void slot(Code::Slot slot) const {
    expect_position(slot, static_cast<std::size_t>(code_->slots), "slots");
  }
  void optional_slot(Code::Slot slot) const {
    if (slot != -1) this->slot(slot);
  }
  void slots(const std::vector<Code::Slot>& all) const {
    for (const Code::Slot one : all) slot(one);
  }
  void buffer(std::int32_t buffer) const {
    expect_position(buffer, code_->buffers.size(), "buffers");
  }
  void optional_buffer(std::int32_t buffer) const {
    if (buffer != -1) this->buffer(buffer);
  }
  void buffers(const std::vector<std::int32_t>& all) const {
    for (const std::int32_t one : all) buffer(one);
  }
  void arguments(const std::vector<Code::Argument>& all) const {
    for (const Code::Argument& one : all) argument(one);
  }
  void argument(const Code::Argument& one) const {
    buffer(one.buffer);
    slots(one.dims);
  }
  void opened(const std::vector<Code::Opened>& all) const {
    for (const Code::Opened& one : all) slot(one.slot);
  }
  // A jump may go behind the last instruction.
  void target(std::int32_t target) const {
    expect_position(target, code_->instructions.size() + 1, "instructions");
  }
  const Code& callee(std::int32_t function) const {
    expect_position(function, program_.functions.size(), "functions");
    return program_.functions[static_cast<std::size_t>(function)];
  }

  void verify(const Code::RunStage& run) const {
    expect_position(run.stage, program_.stages.size(), "stages");
    const Program::Stage& stage = program_.stages[static_cast<std::size_t>(run.stage)];
    slots(stage.leaves);
    if (!stage.shapes.expressions.empty()) {
      slot(stage.first);
      slot(stage.first + static_cast<Code::Slot>(stage.shapes.expressions.size()) - 1);
    }
    for (const Program::Check& check : stage.checks) {
      slot(check.left);
      optional_slot(check.right);
    }
    optional_slot(stage.arena_bytes);
  }
  void verify(const Code::Launch& launch) const {
    expect_position(launch.kernel, program_.kernels.size(), "kernels");
    const Region& region = kernel(launch.kernel).region;
    buffers(launch.buffers);
    slots(launch.extents);
    slots(launch.keys);
    expect_count(launch.buffers.size(),
                 region.body.body.parameters.size() + region.body.body.results.size(),
                 "buffers of a launch");
    expect_count(launch.extents.size(), region.body.symbols.names().size(), "extents of a launch");
    expect_count(launch.keys.size(), region.keys.size(), "keys of a launch");
  }
  void verify(const Code::Fetch& fetch) const {
    buffer(fetch.buffer), slot(fetch.slot);
    if (fetch.element < 0) throw fmt::format("expected an element, got {}", fetch.element);
  }
  void verify(const Code::Assert& check) const {
    slot(check.slot);
    for (const Code::Assert::Shown& shown : check.shown) {
      buffer(shown.buffer);
      slots(shown.dims);
    }
  }
  void verify(const Code::Jump& jump) const { target(jump.target); }
  void verify(const Code::JumpIfZero& jump) const { slot(jump.slot), target(jump.target); }
  void verify(const Code::Iterate& head) const {
    slot(head.counter);
    optional_slot(head.trips);
    optional_slot(head.condition);
    target(head.target);
  }
  void verify(const Code::Next& next) const { slot(next.counter), target(next.target); }
  void verify(const Code::SetSlots& set) const {
    for (const auto& [to, from] : set.copies) slot(to), slot(from);
  }
  void verify(const Code::MoveBuffers& move) const {
    for (const auto& [to, from] : move.copies) buffer(to), buffer(from);
  }
  void verify(const Code::Enter&) const {}
  void verify(const Code::Leave& leave) const { buffers(leave.dropped); }
  void verify(const Code::Allocate& allocate) const {
    buffer(allocate.buffer);
    if (allocate.element_of < 0) return;
    buffer(allocate.element_of);
    slot(allocate.counter), slot(allocate.expected);
  }
  void verify(const Code::StoreScalar& store) const { buffer(store.buffer), slot(store.slot); }
  void verify(const Code::Append& append) const {
    buffer(append.to), buffer(append.from);
    slot(append.counter), slot(append.bytes);
    optional_slot(append.expected);
    slots(append.dims), slots(append.first);
  }
  void verify(const Code::Call& call) const {
    const Code& function = callee(call.function);
    buffers(call.arguments), buffers(call.results);
    opened(call.opened);
    for (const auto& [to, from] : call.leaves) {
      expect_position(to, static_cast<std::size_t>(function.slots), "slots of the function");
      slot(from);
    }
  }
  void verify(const Code::MakeFunction& make) const {
    callee(make.function);
    buffer(make.to);
    arguments(make.arguments);
  }
  void verify(const Code::CallValue& call) const {
    buffer(call.value), buffers(call.results);
    arguments(call.arguments);
    opened(call.opened);
  }
  void verify(const Code::MakeList& make) const { buffer(make.to), arguments(make.elements); }
  void verify(const Code::ListInsert& insert) const {
    buffer(insert.to), buffer(insert.list);
    argument(insert.element);
    optional_slot(insert.position);
  }
  void verify(const Code::ListErase& erase) const {
    buffer(erase.to), buffer(erase.list);
    optional_slot(erase.position);
  }
  void verify(const Code::ListAt& at) const {
    buffer(at.to), buffer(at.list);
    optional_slot(at.position);
    opened(at.opened);
  }
  void verify(const Code::ListLength& length) const { buffer(length.list), slot(length.slot); }
  void verify(const Code::ListConcat& concat) const {
    buffer(concat.to), buffer(concat.list);
    opened(concat.opened);
  }

  const Program& program_;
  const Code* code_ = nullptr;
  ProgramFlaw at_;
};

}  // namespace

std::optional<ProgramFlaw> verify_program(const Program& program) {
  return ProgramVerifier(program).run();
}

}  // namespace anydim::ir
