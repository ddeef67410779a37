// Calls of any program, of those too that branch, call functions or fetch sizes from the GPU:
// carried out as the host walks through them, in the order of the stream.
//
// Buffers are those of the functions at work (runtime/frames.h). The host waits where a size or a
// condition is fetched, where the launches have used up the rows of arguments, and at the end.
#pragma once

#include "runtime/cuda_launch_queue.h"
#include "runtime/frame_memory.h"
#include "runtime/frame_stack.h"
#include "runtime/frames.h"

namespace anydim::runtime::cuda {

class SteppedSession : public DeviceSession, private FrameMemory {
 public:
  SteppedSession(std::shared_ptr<DeviceContext> context, const Executable& executable);

  void begin(const std::vector<ir::Tensor>& inputs, const StreamCall* call) override;
  void place(std::size_t stage, std::span<const std::int64_t> slots) override;
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
  CallMemory memory() const override { return budget_.most(); }

 private:
  // FrameMemory: in the stream's order.
  std::shared_ptr<std::byte> take(std::size_t bytes) override;
  void copy_rows(std::byte* to, std::size_t stride, const std::byte* from, std::size_t bytes,
                 std::size_t rows) override;
  void write(std::byte* to, std::span<const std::byte> number) override;

  void flush();
  void make_row();

  const Executable& executable_;
  const ir::Program& program_;
  LaunchQueue queue_;
  MemoryBudget budget_;
  std::vector<ArgumentBuffer::Input> inputs_;  // of the call at work
  FrameStack outputs_memory_;
  Frames frames_;
};

}  // namespace anydim::runtime::cuda
