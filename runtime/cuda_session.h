// One context's calls on a GPU: a stream, memory on the device in one piece a stage, and graphs of whole calls.
//
// A call copies one plan block (for every launch a row: its error slot and its extents) and the inputs to the device, launches, and copies outputs and
// error slots back; it waits once, at its end, and before that only where a size or a condition must be fetched from the device. A program without
// such fetches, branches and calls is prepared as a whole, for a capacity (runtime/cuda_capacity.h): every address and parameter is fixed, extents are
// read from the plan block. The first call of a capacity launches on the stream, the second captures a graph, later ones and all smaller sizes with
// the same kernels replay it. Any other program is carried out as the host walks through it (runtime/frames.h), in the order of the stream; it also
// waits where its launches have used up the rows of the plan block.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ir/shape_program.h"
#include "runtime/cuda_capacity.h"
#include "runtime/cuda_kernel.h"
#include "runtime/cuda_memory.h"
#include "runtime/device.h"
#include "runtime/frame_memory.h"
#include "runtime/frame_stack.h"
#include "runtime/frames.h"

namespace anydim::runtime::cuda {

class CudaSession : public DeviceSession, private FrameMemory {
 public:
  CudaSession(std::shared_ptr<DeviceContext> context, const Executable& executable);
  ~CudaSession() override;

  void begin(const std::vector<ir::Tensor>& inputs) override;
  void place(std::size_t stage, std::span<const std::int64_t> slots) override;
  void launch(const LaunchWork& work) override;
  ir::Tensor element(std::int32_t buffer, ir::DType dtype, std::int64_t element) override;
  std::vector<ir::Tensor> finish(std::span<const std::int64_t> slots) override;
  Frames& frames() override;
  void record(bool wanted) override { recording_ = wanted; }
  const std::vector<LaunchTiming>& timings() const override { return timings_; }
  CallMemory memory() const override { return memory_; }

  // Issues the launches of the last call once more on another stream, for measuring: no copies, the same inputs and sizes. Until the next call of this session,
  // and only for programs that are prepared as a whole (Error{Unsupported} else).
  void enqueue_last(Stream stream);
  // Where the last call's buffers lie, by position among Program::buffers.
  const std::vector<Address>& last_addresses() const;
  const std::shared_ptr<DeviceContext>& context() const { return context_; }

 private:
  struct OwnStream {  // owns the stream; first member, so that memory freed in its order goes before it
    OwnStream(std::shared_ptr<DeviceContext> context);
    ~OwnStream();
    std::shared_ptr<DeviceContext> context;
    Stream handle = nullptr;
  };
  struct InputPlace {
    std::int32_t input = 0;  // of Program::inputs
    std::int32_t buffer = 0;
    std::size_t offset = 0;  // in the call block
  };
  // One launch of the call at work, not yet issued.
  struct Waiting {
    const ir::Program::Launch* launch = nullptr;
    std::shared_ptr<const LoadedKernel> kernel;
    const ir::Bucket* bucket = nullptr;  // of its row of the dispatch table
    std::size_t row = 0;                 // of the plan block
  };
  struct Step {
    const CudaKernel* kernel = nullptr;
    const ir::Program::Launch* launch = nullptr;
    std::size_t row = 0;
    std::int64_t blocks = 0;
    std::vector<PreparedLaunch> launches;
  };
  struct PreparedCall {
    PreparedCall(std::shared_ptr<DeviceContext> context) : context(std::move(context)) {}
    ~PreparedCall();
    std::shared_ptr<DeviceContext> context;
    std::vector<std::int64_t> slots;  // at the capacity
    std::vector<std::shared_ptr<const LoadedKernel>> kernels;
    std::vector<Address> addresses;  // of Program::buffers
    std::vector<InputPlace> inputs;
    std::vector<Step> steps;
    CallMemory memory;
    bool grids_grow = true;
    bool used = false;
    bool cannot_capture = false;
    GraphExecutable graph = nullptr;
    std::uint64_t last_use = 0;
  };
  using CallKey = std::vector<std::int64_t>;  // leaves at the capacity, then the kernels

  const CudaKernel& kernel_of(const LoadedKernel& kernel) const;
  // The row's extents, and its error slot, as the host holds them.
  std::span<std::int64_t> extents_of(const ir::Program::Launch& launch, std::size_t row) const;
  ir::KernelError& error_of(std::size_t row) const;
  std::size_t next_row();
  void place_inputs(std::span<const std::int64_t> bytes, std::vector<InputPlace>& inputs, std::vector<Address>& addresses);
  void place_whole(std::span<const std::int64_t> slots, std::vector<Address>& addresses);
  void reserve_workspace(std::int64_t bytes);
  void note_move(bool moved);
  PreparedLaunch::Places places_of(const Waiting& waiting, std::span<const Address> buffers) const;
  Address address_of(std::int32_t buffer);

  void copy_in(const std::vector<InputPlace>& inputs);
  void copy_rows_in();
  void flush();
  void issue(std::vector<Step>& steps, bool capturing, Stream stream);
  void prove(Step& step, Stream stream);
  void start_recording(std::size_t steps);
  void finish_recording(const std::vector<Step>& steps);
  std::vector<ir::Tensor> copy_out(std::span<const std::int64_t> slots, const std::function<Address(std::int32_t)>& address);
  void synchronize();
  void test_errors();
  std::string call_text() const;

  // FrameMemory: in the stream's order.
  std::shared_ptr<std::byte> take(std::size_t bytes) override;
  void copy_rows(std::byte* to, std::size_t stride, const std::byte* from, std::size_t bytes, std::size_t rows) override;
  void write(std::byte* to, std::span<const std::byte> number) override;

  PreparedCall& prepared_for(std::span<const std::int64_t> slots);
  PreparedCall* find_call(const CallKey& key);
  PreparedCall& make_call(CallKey key, std::vector<std::int64_t> slots);
  bool serves(const PreparedCall& call, std::span<const std::int64_t> slots) const;
  CallKey key_of(std::span<const std::int64_t> leaves) const;
  std::optional<std::vector<std::int64_t>> slots_at_capacity(std::span<const std::int64_t> slots) const;
  void run_whole(PreparedCall& call);
  void capture(PreparedCall& call);

  std::shared_ptr<DeviceContext> context_;
  const Driver& driver_;
  const Executable& executable_;
  const ir::Program& program_;
  OwnStream stream_;

  // Of the program, for good.
  std::size_t rows_ = 0;  // of the plan block
  std::size_t row_bytes_ = 0;
  std::size_t plan_bytes_ = 0;
  std::vector<InputPlace> wanted_inputs_;
  std::optional<ir::ShapeInterpreter> input_bytes_;  // over the symbols bound from inputs
  std::vector<std::size_t> symbol_slots_;
  bool whole_ = false;  // prepared and replayed as a whole
  bool checked_ = false;
  CapacityPlan capacity_;

  // Memory.
  StreamMemory call_block_, workspace_;
  StreamMemory activations_;   // of whole calls, outputs behind them
  FrameStack outputs_memory_;  // of other calls
  PinnedBlock plan_;           // as on the device, with small inputs behind it
  PinnedBlock errors_;         // as they come back; behind them that of a kernel on trial
  BlockPoolOf<PinnedBlock> output_blocks_;
  TensorMapCache maps_;

  // Of the call at work.
  const std::vector<ir::Tensor>* inputs_ = nullptr;
  std::vector<std::int64_t> leaves_;       // the entry's first slots
  std::vector<Waiting> waiting_, issued_;  // issued: since rows were last tested
  std::size_t row_ = 0;                    // that is free
  std::size_t copied_rows_ = 0;            // from the first on, that the device has
  std::vector<Address> constants_;         // by buffer of the entry; 0 elsewhere
  std::vector<InputPlace> placed_inputs_;
  bool in_flight_ = false;  // the stream may still read host memory
  bool inputs_copied_ = false;
  MemoryBudget budget_;
  CallMemory memory_;
  Frames frames_;
  bool recording_ = false;
  std::vector<LaunchTiming> timings_;
  std::vector<Event> events_;  // two a step

  PreparedCall& last_call() const;

  std::map<CallKey, std::unique_ptr<PreparedCall>> calls_;
  PreparedCall* last_ = nullptr;  // of calls_
  std::uint64_t clock_ = 0;
};

}  // namespace anydim::runtime::cuda
