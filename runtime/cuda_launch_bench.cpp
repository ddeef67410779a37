#include "runtime/cuda_launch_bench.h"

#include <algorithm>
#include <utility>

#include "runtime/cuda_device_memory.h"
#include "runtime/cuda_launch_queue.h"
#include "runtime/cuda_timer.h"

namespace anydim::runtime::cuda {

namespace {

constexpr std::size_t guard_bytes = std::size_t{64} << 10;  // on either side
constexpr unsigned char pattern = 0xa5, poisoned = 0xff;

// Copies and fills that are done when they return.
class Copies {
 public:
  explicit Copies(std::shared_ptr<DeviceContext> context)
      : context_(std::move(context)), stream_(context_) {}

  const std::shared_ptr<DeviceContext>& context() const { return context_; }
  void fill(Address to, unsigned char value, std::size_t bytes) {
    if (bytes > 0) finish(context_->driver().fill_bytes(to, value, bytes, stream_.handle()));
  }
  void copy(Address to, Address from, std::size_t bytes) {
    if (bytes > 0) finish(context_->driver().copy_on_device(to, from, bytes, stream_.handle()));
  }
  void read(Address from, std::span<std::byte> to) {
    if (!to.empty())
      finish(context_->driver().copy_to_host(to.data(), from, to.size(), stream_.handle()));
  }

 private:
  void finish(Result issued) {
    constexpr std::string_view doing = "moving data of a launch that is tried";
    context_->check(issued, doing);
    context_->check(context_->driver().stream_synchronize(stream_.handle()), doing);
  }

  std::shared_ptr<DeviceContext> context_;
  TimedStream stream_;
};

class GuardedBlock : public TrialMemory {
 public:
  GuardedBlock(std::shared_ptr<Copies> copies, std::size_t bytes)
      : copies_(std::move(copies)), bytes_(bytes),
        block_(copies_->context(), bytes + 2 * guard_bytes, "data of a launch that is tried") {
    copies_->fill(place(0), pattern, block_.bytes());
    poison();
  }
  void* address() const override { return block_.data() + guard_bytes; }
  std::size_t bytes() const override { return bytes_; }
  void poison() override { copies_->fill(place(guard_bytes), poisoned, bytes_); }
  void copy_from(const void* address) override {
    copies_->copy(place(guard_bytes), reinterpret_cast<Address>(address), bytes_);
  }
  bool unharmed() const override {
    return whole(0, guard_bytes) &&
           whole(guard_bytes + bytes_, block_.bytes() - guard_bytes - bytes_);
  }
  ir::Tensor tensor(ir::DType dtype, std::vector<std::int64_t> dims) const override {
    ir::Tensor copy(dtype, std::move(dims));
    copies_->read(place(guard_bytes), copy.mutable_bytes());
    return copy;
  }

 private:
  Address place(std::size_t offset) const {
    return reinterpret_cast<Address>(block_.data() + offset);
  }
  bool whole(std::size_t offset, std::size_t bytes) const {
    std::vector<std::byte> band(bytes);
    copies_->read(place(offset), band);
    return std::ranges::all_of(band, [](std::byte byte) { return byte == std::byte{pattern}; });
  }

  std::shared_ptr<Copies> copies_;
  std::size_t bytes_;
  DeviceBlock block_;
};

// A kernel's launches, ready to be issued any number of times, on a queue of their own: what is
// prepared holds addresses of its workspace and of its rows of arguments.
class ReadyLaunches {
 public:
  ReadyLaunches(const std::shared_ptr<DeviceContext>& context, const ir::Program& program,
                const LaunchBench::Kernel& kernel, std::span<const TrialLaunch> launches)
      : queue_(context, program) {
    queue_.begin(no_inputs_, nullptr, 1);
    queue_.arguments().place({}, {});
    const auto& code = static_cast<const CudaKernel&>(*kernel->device);
    std::vector<CudaKernel::Sizes> sizes;
    for (const TrialLaunch& launch : launches) sizes.push_back(code.sizes(launch.extents));
    MemoryBudget budget(std::nullopt);
    queue_.reserve_workspace(sizes, budget);
    for (std::size_t i = 0; i < launches.size(); ++i) {
      queue_.add({.launch = launches[i].launch, .kernel = &kernel, .extents = launches[i].extents});
      std::vector<Address> buffers;
      for (void* const buffer : launches[i].buffers)
        buffers.push_back(reinterpret_cast<Address>(buffer));
      steps_.push_back(queue_.prepare(queue_.waiting().back(), sizes[i], std::move(buffers)));
    }
    queue_.send({});
  }

  void run() {
    queue_.issue(steps_);
    queue_.wait();
  }
  // Before they are issued on another stream: their arguments have arrived.
  void wait() { queue_.wait(); }
  void enqueue(Stream stream, int times) { queue_.enqueue(steps_, stream, times); }
  int count() const { return static_cast<int>(steps_.size()); }

 private:
  const std::vector<ir::Tensor> no_inputs_;
  LaunchQueue queue_;
  std::vector<LaunchQueue::Step> steps_;
};

class GraphPass : public TimedPass {
 public:
  GraphPass(const std::shared_ptr<DeviceContext>& context, std::unique_ptr<ReadyLaunches> launches,
            int times)
      : launches_(std::move(launches)),
        timer_(
            context, [&](Stream stream) { launches_->enqueue(stream, times); },
            times * launches_->count()) {}
  double seconds() override { return timer_.measure_behind_another(); }

 private:
  std::unique_ptr<ReadyLaunches> launches_;
  GraphTimer timer_;
};

class CudaLaunchBench : public LaunchBench {
 public:
  CudaLaunchBench(std::shared_ptr<DeviceContext> context, const ir::Program& program)
      : copies_(std::make_shared<Copies>(std::move(context))), program_(program) {}

  std::unique_ptr<TrialMemory> allocate(std::size_t bytes) override {
    return std::make_unique<GuardedBlock>(copies_, bytes);
  }

  bool run(const Kernel& kernel, const TrialLaunch& launch) override {
    const auto& code = static_cast<const CudaKernel&>(*kernel->device);
    const bool as_checked_form = !code.proven() && code.checked_form() != nullptr;
    ready(kernel, {&launch, 1})->run();
    // Each on a queue of its own: a queue reports once.
    if (as_checked_form) ready(kernel, {&launch, 1})->run();
    return true;
  }

  std::unique_ptr<TimedPass> pass(const Kernel& kernel, std::span<const TrialLaunch> launches,
                                  int times) override {
    // A first launch may load code, which a stream that captures does not allow.
    if (!static_cast<const CudaKernel&>(*kernel->device).proven()) run(kernel, launches.front());
    auto all = ready(kernel, launches);
    all->wait();
    return std::make_unique<GraphPass>(copies_->context(), std::move(all), times);
  }

 private:
  std::unique_ptr<ReadyLaunches> ready(const Kernel& kernel,
                                       std::span<const TrialLaunch> launches) const {
    return std::make_unique<ReadyLaunches>(copies_->context(), program_, kernel, launches);
  }

  std::shared_ptr<Copies> copies_;
  const ir::Program& program_;
};

}  // namespace

std::unique_ptr<LaunchBench> make_launch_bench(std::shared_ptr<DeviceContext> context,
                                               const ir::Program& program) {
  return std::make_unique<CudaLaunchBench>(std::move(context), program);
}

}  // namespace anydim::runtime::cuda
