// One context's calls on a GPU: a stream, memory on the device in one piece a stage, and graphs of whole calls.
//
// A call copies one plan block (error slots and the extents of every launch) and the inputs to the device, launches, and copies outputs and error
// slots back; it waits once, at its end, and before that only where a size must be fetched from the device. A program without such fetches is
// prepared as a whole, for a capacity (runtime/cuda_capacity.h): every address and parameter is fixed, extents are read from the plan block. The
// first call of a capacity launches on the stream, the second captures a graph, later ones and all smaller sizes with the same kernels replay it.
// A program with branches or loops is carried out step by step (cuda_blocks.cpp): the host decides, and waits for the device where a block begins or ends.
#pragma once

#include <cstdint>
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

namespace anydim::runtime::cuda {

class CudaSession : public DeviceSession {
 public:
  CudaSession(std::shared_ptr<DeviceContext> context, const Executable& executable);
  ~CudaSession() override;

  void begin(const std::vector<ir::Tensor>& inputs) override;
  void place(std::size_t stage, std::span<const std::int64_t> slots) override;
  void launch(const LaunchWork& work) override;
  std::int64_t fetch(const ir::Program::Fetch& fetch) override;
  std::vector<ir::Tensor> finish(std::span<const std::int64_t> slots) override;
  void step(const ir::Code::Instruction& instruction, std::span<std::int64_t> slots) override;
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
    std::size_t position = 0;            // among the program's launches
  };
  struct Step {
    const CudaKernel* kernel = nullptr;
    std::size_t position = 0;
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
  std::span<const std::int64_t> extents_of(std::size_t position) const;
  void place_inputs(std::span<const std::int64_t> bytes, std::vector<InputPlace>& inputs, std::vector<Address>& addresses);
  void place_stage(std::size_t stage, std::span<const std::int64_t> slots, std::vector<Address>& addresses);
  void reserve_workspace(std::int64_t bytes);
  void note_move(bool moved);
  PreparedLaunch::Places places_of(const Waiting& waiting, const std::vector<Address>& addresses, std::vector<Address>& buffers) const;

  void copy_in(const std::vector<InputPlace>& inputs);
  void copy_plan(std::size_t bytes);
  void flush(const std::vector<Address>& addresses);
  void issue(std::vector<Step>& steps, bool capturing, Stream stream);
  void start_recording(std::size_t steps);
  void finish_recording(const std::vector<Step>& steps);
  std::vector<ir::Tensor> copy_out(std::span<const std::int64_t> slots, const std::vector<Address>& addresses);
  void synchronize();
  void test_errors();
  std::string call_text() const;

  // ---- Branches and loops
  std::size_t position_of(const ir::Program::Launch* launch);
  void settle();
  std::shared_ptr<StreamMemory> take(std::int64_t bytes);
  void put(std::int32_t buffer, std::shared_ptr<StreamMemory> memory);
  void forget_values();
  void move_buffers(const ir::Code::MoveBuffers& move);
  void leave_block(const ir::Code::Leave& leave);
  void store_scalar(const ir::Code::StoreScalar& store);
  void append(const ir::Code::Append& append, std::span<std::int64_t> slots);

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
  std::vector<const ir::Program::Launch*> launches_;
  std::vector<std::size_t> extents_at_;  // in the plan block, by position
  std::size_t plan_bytes_ = 0;
  std::vector<InputPlace> wanted_inputs_;
  std::optional<ir::ShapeInterpreter> input_bytes_;  // over the symbols bound from inputs
  std::vector<std::size_t> symbol_slots_;
  bool straight_ = false;  // without branches and loops
  bool whole_ = false;     // prepared and replayed as a whole
  bool checked_ = false;
  CapacityPlan capacity_;

  // Memory.
  StreamMemory call_block_, workspace_;
  std::vector<StreamMemory> stages_;
  PinnedBlock plan_;    // as on the device, with small inputs behind it
  PinnedBlock errors_;  // as they come back
  BlockPoolOf<PinnedBlock> output_blocks_;
  TensorMapCache maps_;

  // Of the call at work.
  const std::vector<ir::Tensor>* inputs_ = nullptr;
  std::span<const std::int64_t> slots_;
  std::vector<Waiting> waiting_, issued_;
  std::size_t position_ = 0;
  std::vector<Address> addresses_;
  std::vector<InputPlace> placed_inputs_;
  bool in_flight_ = false;  // the stream may still read host memory
  bool inputs_copied_ = false;
  MemoryBudget budget_;
  CallMemory memory_;
  std::vector<std::shared_ptr<StreamMemory>> owners_;  // of the pool's values, by buffer; null where something else keeps the memory
  std::vector<std::int64_t> marks_;                    // arena bytes before each block at work
  bool recording_ = false;
  std::vector<LaunchTiming> timings_;
  std::vector<Event> events_;  // two a step

  PreparedCall& last_call() const;

  std::map<CallKey, std::unique_ptr<PreparedCall>> calls_;
  PreparedCall* last_ = nullptr;  // of calls_
  std::uint64_t clock_ = 0;
};

}  // namespace anydim::runtime::cuda
