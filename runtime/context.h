// One thread's place to run an executable: the virtual machine with its table of sizes, and a
// session of the device that holds its memory.
//
// A context keeps the memory of the largest shape it has met and no more. It is used by one thread
// at a time; results are the caller's and may be dropped on any thread, their memory then serves
// later calls.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/backend.h"
#include "ir/cancellation.h"
#include "ir/shapes/bind.h"
#include "ir/tensor.h"
#include "runtime/device.h"
#include "runtime/executable.h"
#include "runtime/frames.h"
#include "runtime/timeline.h"

namespace anydim::runtime {

// What one launch did; kept only where asked for.
struct LaunchRecord {
  std::int32_t kernel = 0;  // in Program::kernels
  std::int32_t met = 0;     // entry of its table that the keys belong to
  // entry whose kernel ran: `met`, or the general one while `met` isn't there
  std::int32_t used = 0;
  KernelOrigin origin = KernelOrigin::Compiled;
  std::vector<std::int64_t> extents;  // of the region's symbols
  std::vector<std::int64_t> keys;     // what dispatch looked at
  // of the buffers that it reads and writes, those of the caller's constants and inputs too
  std::int64_t bytes = 0;
  std::int64_t tasks = 0;  // 0: nothing to do, not launched
  double seconds = 0;
  const std::string* source = nullptr;  // nodes it came from; lives as long as the executable
  // the kernel for these keys alone that ran (the policy `exact`), else null
  std::shared_ptr<const ExactKernel> exact{};
};

class Context {
 public:
  explicit Context(std::shared_ptr<const Executable> executable);

  // Inputs in the order of the entry's Code::inputs; they are read where they lie. Outputs in the
  // order of its Code::outputs. Throws Error{Inputs} where inputs don't fit or a check fails,
  // Error{Resource} over the memory limit or out of memory; the context can be used again after
  // either. Throws Error{Internal} where a device is lost, then and in every later call. `places`:
  // DeviceSession::offer; `call`: DeviceSession::begin.
  std::vector<ir::Tensor> run(const std::vector<ir::Tensor>& inputs,
                              std::span<const std::span<std::byte>> places = {},
                              const StreamCall* call = nullptr);
  // DeviceSession::collect.
  void collect(bool wait) { session_->collect(wait); }

  // Calls of run() ask it before each instruction and throw Error{Cancelled}; null: no longer.
  void cancel_by(std::shared_ptr<const Cancellation> cancellation) {
    cancellation_ = std::move(cancellation);
  }

  void record_launches(bool wanted);
  const std::vector<LaunchRecord>& launches() const {
    return records_;
  }  // of the last call, where recorded
  const KernelTables& tables() const { return *tables_; }  // that the last call used
  // What runs in a launch's place; null: its own kernel. One that it names was made of the same
  // region. From the next launch on; empty: every launch runs its own.
  using LaunchSubstitute =
      std::function<const std::shared_ptr<const LoadedKernel>*(const LaunchWork& work)>;
  void substitute(LaunchSubstitute substitute) { substitute_ = std::move(substitute); }
  CallMemory memory() const { return session_->memory(); }
  // Values of the slots after the last call (Code::Slot), for explaining it.
  const std::vector<std::int64_t>& slots() const { return slots_; }
  const Executable& executable() const { return *executable_; }
  DeviceSession& session() { return *session_; }  // for devices' own measurements

 private:
  struct Pick {
    std::int32_t met = 0, used = 0;
    const std::shared_ptr<const LoadedKernel>* kernel = nullptr;
    const ir::Bucket* bucket = nullptr;  // that the kernel was chosen for
    std::shared_ptr<const ExactKernel> exact{};
  };
  // One function at work.
  struct Frame {
    const ir::Code* code = nullptr;
    std::size_t position = 0;  // of the instruction that follows
    std::size_t slots = 0;     // first in slots_
  };

  std::vector<ir::Tensor> run_on_session(const std::vector<ir::Tensor>& inputs,
                                         std::span<const std::span<std::byte>> places,
                                         const StreamCall* call);
  void refresh_tables();
  void run_code();
  void execute(const ir::Code::RunStage& run);
  void execute(const ir::Code::Launch& launch);
  void execute(const ir::Code::Fetch& fetch);
  void execute(const ir::Code::Assert& check);
  void execute(const ir::Code::Jump& jump);
  void execute(const ir::Code::JumpIfZero& jump);
  void execute(const ir::Code::Iterate& head);
  void execute(const ir::Code::Next& next);
  void execute(const ir::Code::SetSlots& set);
  void execute(const ir::Code::Call& call);
  void execute(const ir::Code::CallValue& call);
  template <typename Other>
  void execute(const Other&) {  // what only the device's side knows
    session_->frames().step(frame_.code->instructions[frame_.position - 1], slots_at_work());
  }
  void enter(const std::string& source, const ir::Code& callee);
  void leave();
  ir::SymbolValues symbols_of(const ir::Code& callee, std::int32_t function,
                              const std::vector<std::vector<std::int64_t>>& dims) const;
  std::int64_t& slot(ir::Code::Slot position) {
    return slots_[frame_.slots + static_cast<std::size_t>(position)];
  }
  std::int64_t slot(ir::Code::Slot position) const {
    return slots_[frame_.slots + static_cast<std::size_t>(position)];
  }
  std::span<std::int64_t> slots_at_work() {
    return {slots_.data() + frame_.slots, static_cast<std::size_t>(frame_.code->slots)};
  }
  void fill_slots(std::size_t stage);
  void test_checks(const ir::Program::Stage& stage) const;
  Pick pick(std::int32_t kernel);
  std::int64_t bytes_of(const ir::Code::Launch& launch) const;
  std::int64_t bytes_in_region(const ir::Code::Launch& launch, std::size_t operand) const;
  std::uint32_t note_of(const ir::Code::Launch& launch, const Pick& picked);
  void put_on_timeline(const ir::Code::Launch& launch, const Pick& picked, std::uint64_t begun);

  std::shared_ptr<const Executable> executable_;
  const ir::Program& program_;
  std::shared_ptr<const KernelTables> tables_;
  std::uint64_t tables_version_ = 0;

  std::vector<std::int64_t> slots_;  // of all frames, the entry's first
  Frame frame_;                      // at work
  std::vector<Frame> callers_;
  std::vector<std::int64_t> copied_;                       // of a parallel copy at work
  std::vector<std::int64_t> leaves_, extents_, keys_;      // of the instruction at work
  std::vector<std::shared_ptr<const ExactKernel>> exact_;  // of the call at work
  std::unique_ptr<DeviceSession> session_;
  std::shared_ptr<const Cancellation> cancellation_;
  LaunchSubstitute substitute_;
  bool recording_ = false;
  std::vector<LaunchRecord> records_;
  const NvtxTool* watching_;
  TimelineWriter timeline_;
  struct KnownNote {
    std::int32_t row = -1;  // of tables_
    std::uint32_t note = 0;
  };
  std::unordered_map<const ir::Code::Launch*, KnownNote> notes_;
  const std::vector<ir::Tensor>* inputs_ = nullptr;  // of the call at work
};

}  // namespace anydim::runtime
