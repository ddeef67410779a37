// Calls that are prepared as a whole and replayed: of programs in which the host decides nothing
// but sizes, knows all of them in one stage, and fetches none from the GPU.
//
// A call is prepared for a capacity (runtime/cuda_capacity.h): addresses, parameters and tensor
// maps are fixed, and kernels read actual extents from the argument buffer. The first call of a
// capacity launches on the stream, the second captures a graph; later ones, and all smaller sizes
// with the same kernels, replay it. Inputs and results in device memory are used where they lie:
// the launches that name them are told other addresses, in the graph too. Those that a launch has
// fixed, and those that are not aligned for kernels, are copied from and to places of the session's
// own. A call waits once, at its end, or not at all.
#pragma once

#include <map>
#include <optional>
#include <set>

#include "ir/shapes/shape_program.h"
#include "runtime/cuda_capacity.h"
#include "runtime/cuda_launch_queue.h"

namespace anydim::runtime::cuda {

class ReplayedSession : public DeviceSession {
 public:
  // Whether programs like this one are replayed; runtime/cuda_stepped_session.h runs any.
  static bool takes(const ir::Program& program);

  ReplayedSession(std::shared_ptr<DeviceContext> context, const Executable& executable);
  ~ReplayedSession() override;

  void begin(const std::vector<ir::Tensor>& inputs, const StreamCall* call) override;
  void place(std::size_t, std::span<const std::int64_t> slots) override {
    queue_.note_symbols(slots);
  }
  void launch(const LaunchWork& work) override;
  ir::Tensor element(std::int32_t buffer, ir::DType dtype, std::int64_t element) override;
  std::vector<ir::Tensor> finish(std::span<const std::int64_t> slots) override;
  void break_off() noexcept override { queue_.break_off(); }
  void collect(bool wait) override { queue_.collect(wait); }
  Frames& frames() override;
  void observe(LaunchObserver observer) override { queue_.observe(std::move(observer)); }
  void read(const void* address, std::span<std::byte> to) override { queue_.read(address, to); }
  void record(bool wanted) override { queue_.record(wanted); }
  const std::vector<LaunchTiming>& timings() const override { return queue_.timings(); }
  CallMemory memory() const override { return last_ == nullptr ? CallMemory() : last_->memory; }

  // Issues the launches of the last call again on another stream, for measuring: no copies, the
  // same inputs and sizes. Until the next call of this session.
  void enqueue_last(Stream stream);
  // Where the last call's buffers lie, by position among Code::buffers.
  const std::vector<Address>& last_addresses() const;
  const std::shared_ptr<DeviceContext>& context() const { return queue_.context(); }

 private:
  struct LaunchOf {
    std::uint32_t step = 0, launch = 0;
    auto operator<=>(const LaunchOf&) const = default;
  };
  // An input or a result that no launch has fixed, and where launches name it.
  struct MovableBuffer {
    struct Use {
      LaunchOf launch;
      std::size_t position = 0;  // among the region's buffers
    };
    std::int32_t buffer = 0;
    std::int32_t input = -1, output = -1;  // of Code::inputs or outputs: one is not -1
    std::vector<Use> uses{};
  };
  struct PreparedCall {
    explicit PreparedCall(std::shared_ptr<DeviceContext> context) : context(std::move(context)) {}
    ~PreparedCall() { drop_graph(); }
    void drop_graph() noexcept;
    std::shared_ptr<DeviceContext> context;
    std::vector<std::int64_t> slots;  // at the capacity
    std::vector<Address> homes;       // of Code::buffers: the session's own places
    std::vector<Address> addresses;   // where they are now
    std::vector<MovableBuffer> movable;
    std::vector<ArgumentBuffer::Input> inputs;
    std::vector<LaunchQueue::Step> steps;
    CallMemory memory;
    bool used = false, cannot_capture = false;
    Graph captured = nullptr;  // names the launches of `graph`
    GraphExecutable graph = nullptr;
    std::uint64_t last_use = 0;
  };
  using CallKey = std::vector<std::int64_t>;  // leaves at the capacity, then the kernels

  CallKey key_of(std::span<const std::int64_t> leaves) const;
  std::optional<std::vector<std::int64_t>> slots_at_capacity(
      std::span<const std::int64_t> slots) const;
  bool serves(const PreparedCall& call, std::span<const std::int64_t> slots) const;
  PreparedCall* find(const CallKey& key, std::span<const std::int64_t> slots);
  PreparedCall& prepared_for(std::span<const std::int64_t> slots);
  PreparedCall& make(CallKey key, std::vector<std::int64_t> slots);
  CudaKernel::Sizes sizes_at(std::span<const std::int64_t> slots,
                             const LaunchQueue::Launch& launch) const;
  void place_inputs(PreparedCall& call);
  void place_activations(PreparedCall& call);
  void note_move(bool moved);
  void find_movable(PreparedCall& call) const;
  void bind(PreparedCall& call, std::span<const std::int64_t> slots);
  Address place_of(const PreparedCall& call, const MovableBuffer& movable,
                   std::span<const std::int64_t> slots);
  void move(PreparedCall& call, const MovableBuffer& movable, Address address);
  void copy_in(const PreparedCall& call);
  void update_graph(PreparedCall& call);
  void run(PreparedCall& call);
  void capture(PreparedCall& call);
  PreparedCall& last() const;

  const Executable& executable_;
  const ir::Program& program_;
  CapacityPlan capacity_;
  LaunchQueue queue_;
  MemoryBudget budget_;
  StreamMemory activations_;                         // outputs behind them
  std::vector<Address> constants_;                   // by buffer; 0 elsewhere
  std::vector<std::size_t> symbol_slots_;            // of the symbols bound from inputs
  std::optional<ir::ShapeInterpreter> input_bytes_;  // over those

  std::vector<const ir::Bucket*> buckets_;  // of the launches of the call at work
  std::set<LaunchOf> moved_;                // that the graph at work has not been told of
  std::map<CallKey, std::unique_ptr<PreparedCall>> calls_;
  PreparedCall* last_ = nullptr;  // of calls_
  std::uint64_t clock_ = 0;
};

}  // namespace anydim::runtime::cuda
