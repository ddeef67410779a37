#include "runtime/cpu_device.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "ir/error.h"
#include "runtime/constant_memory.h"
#include "runtime/cpu_launch_bench.h"
#include "runtime/executable.h"
#include "runtime/frames.h"
#include "runtime/memory.h"

namespace anydim::runtime {

namespace {

using Place = ir::Code::Buffer::Place;

std::size_t index_of(std::int32_t position) { return static_cast<std::size_t>(position); }

class CpuConstants : public ConstantStore {
 public:
  ir::Tensor allocate(ir::DType dtype, std::vector<std::int64_t> dims) override {
    return memory_.allocate(dtype, std::move(dims));
  }
  void* keep(ir::Tensor& tensor) override {
    return const_cast<std::byte*>(tensor.bytes().data());  // kernels read it only
  }

 private:
  ConstantMemory memory_;
};

class CpuSession : public DeviceSession {
 public:
  CpuSession(const Executable& executable, std::unique_ptr<FrameMemory> memory)
      : executable_(executable), program_(executable.program()),
        output_blocks_(program_.entry().outputs.size()), outputs_(program_.entry().outputs.size()),
        budget_(executable.memory_limit()), memory_(std::move(memory)),
        frames_(executable, *memory_, budget_) {}

  void begin(const std::vector<ir::Tensor>& inputs, const StreamCall* call) override {
    if (call != nullptr)
      throw Error(ErrorKind::Inputs,
                  "a call of a model that runs on the CPU was given a stream or a place on a "
                  "device: expected neither");
    seat_.emplace(executable_.pool());
    budget_.reset();
    timings_.clear();
    std::ranges::fill(outputs_, nullptr);
    inputs_ = &inputs;
    offered_ = {};
    frames_.begin();
    for (std::size_t i = 0; i < program_.entry().inputs.size(); ++i)
      if (program_.entry().inputs[i].buffer >= 0)
        frames_.lend(program_.entry().inputs[i].buffer, inputs[i].bytes().data());
  }

  void offer(std::span<const std::span<std::byte>> places) override { offered_ = places; }

  void place(std::size_t index, std::span<const std::int64_t> slots) override {
    frames_.place(index, slots);
    for (const std::int32_t o : executable_.stage_layouts()[index].outputs) {
      const std::int32_t b = program_.entry().outputs[index_of(o)].buffer;
      const std::int64_t bytes = slots[index_of(program_.entry().buffers[index_of(b)].bytes)];
      budget_.spend(&CallMemory::outputs, bytes);
      outputs_[index_of(o)] = output_memory(o, static_cast<std::size_t>(bytes));
      frames_.lend(b, outputs_[index_of(o)].get());
    }
  }

  void launch(const LaunchWork& work) override {
    using Clock = std::chrono::steady_clock;
    const auto begin = recording_ ? Clock::now() : Clock::time_point();
    const std::int64_t tasks = run(work);
    if (recording_)
      timings_.push_back({tasks, std::chrono::duration<double>(Clock::now() - begin).count()});
  }

  ir::Tensor element(std::int32_t buffer, ir::DType dtype, std::int64_t element) override {
    const std::size_t size = ir::size_of(dtype);
    return {dtype,
            {},
            {frames_.address(buffer) + static_cast<std::size_t>(element) * size, size},
            nullptr};
  }

  std::vector<ir::Tensor> finish(std::span<const std::int64_t> slots) override {
    std::vector<ir::Tensor> outputs;
    outputs.reserve(program_.entry().outputs.size());
    for (const ir::Code::Output& output : program_.entry().outputs)
      outputs.push_back(output_tensor(output, slots));
    std::ranges::fill(outputs_, nullptr);  // the caller's from here on
    frames_.end();
    seat_.reset();
    return outputs;
  }

  void break_off() noexcept override { seat_.reset(); }

  Frames& frames() override { return frames_; }

  void observe(LaunchObserver observer) override { observer_ = std::move(observer); }
  void read(const void* address, std::span<std::byte> to) override {
    std::copy_n(static_cast<const std::byte*>(address), to.size(), to.begin());
  }
  void record(bool wanted) override { recording_ = wanted; }
  const std::vector<LaunchTiming>& timings() const override { return timings_; }
  CallMemory memory() const override { return budget_.most(); }

 private:
  std::shared_ptr<std::byte> output_memory(std::int32_t output, std::size_t bytes) {
    if (const std::size_t o = index_of(output);
        o < offered_.size() && offered_[o].data() != nullptr && offered_[o].size() >= bytes)
      return {std::shared_ptr<std::byte>(), offered_[o].data()};
    return memory_->apart() ? memory_->take(bytes) : output_blocks_.take(bytes);
  }

  std::byte* scratch_for(std::int64_t stride) {
    std::int64_t all = 0;
    if (__builtin_mul_overflow(stride, std::int64_t{executable_.pool().threads()}, &all))
      throw Error(ErrorKind::Resource,
                  "scratch memory of {} bytes for each thread is too large to count", stride);
    if (const std::int64_t before = budget_.used().scratch; all > before)
      budget_.spend(&CallMemory::scratch, all - before);
    return scratch_.reserve(static_cast<std::size_t>(all));
  }

  std::int64_t run(const LaunchWork& work) {
    const CpuCode& code = static_cast<const CpuKernel&>(*(*work.kernel)->device).code;
    CpuCode::Sizes sizes;
    if (!code.measure(work.extents, sizes))
      throw Error(ErrorKind::Inputs, "the work of {} is too large to count for these inputs",
                  work.launch->source);
    if (sizes.tasks <= 0) return 0;
    arguments_.resize(work.launch->buffers.size());
    for (std::size_t i = 0; i < arguments_.size(); ++i)
      arguments_[i] = frames_.address(work.launch->buffers[i]);
    if (observer_) observer_(work, arguments_);
    std::byte* scratch = sizes.scratch_stride > 0 ? scratch_for(sizes.scratch_stride) : nullptr;
    ir::KernelError error;
    const ir::KernelCall call{arguments_.data(), work.extents.data(), &error,
                              &executable_.host_functions()};
    code.run(*seat_, call, sizes, scratch);
    if (error.check >= 0) report_check(program_, *work.launch, work.extents, error);
    return sizes.tasks;
  }

  ir::Tensor output_tensor(const ir::Code::Output& output, std::span<const std::int64_t> slots) {
    const ir::Code::Buffer& buffer = program_.entry().buffers[index_of(output.buffer)];
    const std::vector<std::int64_t> dims = output_dims(output, slots);
    const auto bytes = static_cast<std::size_t>(ir::byte_count(output.dtype, dims));
    const auto shared = [&](const std::byte* data, std::shared_ptr<const void> owner) {
      return ir::Tensor(output.dtype, dims, {data, bytes}, std::move(owner));
    };
    switch (buffer.place) {
      case Place::Output: {
        const std::shared_ptr<std::byte>& block = outputs_[index_of(buffer.index)];
        return shared(block.get(), block);
      }
      case Place::Constant: {
        const ir::Tensor& constant = program_.constants[index_of(buffer.index)].tensor;
        return shared(constant.bytes().data(), constant.owner());
      }
      case Place::Input: {
        const ir::Tensor& input = (*inputs_)[index_of(buffer.index)];
        return shared(input.bytes().data(), input.owner());
      }
      case Place::Arena:
      case Place::Pool: break;
    }
    ir::Tensor copy(output.dtype, dims);
    const std::span<std::byte> target = copy.mutable_bytes();
    std::copy_n(frames_.address(output.buffer), target.size(), target.begin());
    return copy;
  }

  const Executable& executable_;
  const ir::Program& program_;
  std::optional<WorkerPool::Seat> seat_;             // of the call at work
  std::vector<void*> arguments_;                     // of the launch at work
  const std::vector<ir::Tensor>* inputs_ = nullptr;  // of the call at work
  GrowingMemory scratch_;
  BlockPool output_blocks_;
  // of the call at work, where allocated here or offered
  std::vector<std::shared_ptr<std::byte>> outputs_;
  std::span<const std::span<std::byte>> offered_;  // for the call at work
  MemoryBudget budget_;
  std::unique_ptr<FrameMemory> memory_;
  Frames frames_;
  bool recording_ = false;
  LaunchObserver observer_;
  std::vector<LaunchTiming> timings_;
};

class CpuDevice : public Device {
 public:
  explicit CpuDevice(std::function<std::unique_ptr<FrameMemory>()> memory)
      : memory_(std::move(memory)) {}

  std::shared_ptr<const DeviceKernel> load(const ir::Region& region,
                                           const ir::DispatchTable::Entry&,
                                           const ir::CompiledKernel& kernel,
                                           std::optional<KernelTrial>) override {
    return std::make_shared<const CpuKernel>(region, kernel);
  }
  std::unique_ptr<ConstantStore> constants() override { return std::make_unique<CpuConstants>(); }
  std::unique_ptr<DeviceSession> open_session(const Executable& executable) override {
    return std::make_unique<CpuSession>(executable,
                                        memory_ ? memory_() : std::make_unique<HostFrameMemory>());
  }
  std::unique_ptr<LaunchBench> open_bench(const Executable& executable) override {
    return make_cpu_launch_bench(executable);
  }

 private:
  std::function<std::unique_ptr<FrameMemory>()> memory_;
};

}  // namespace

std::shared_ptr<Device> make_cpu_device(std::function<std::unique_ptr<FrameMemory>()> memory) {
  return std::make_shared<CpuDevice>(std::move(memory));
}

}  // namespace anydim::runtime
