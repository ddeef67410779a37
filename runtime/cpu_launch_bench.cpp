#include "runtime/cpu_launch_bench.h"

#include <chrono>
#include <cstring>
#include <utility>

#include "ir/error.h"
#include "runtime/cpu_device.h"
#include "runtime/guarded_memory.h"

namespace anydim::runtime {

namespace {

// A thread whose processor is busy with something else comes back within a few turns of the
// scheduler, of some milliseconds each.
constexpr std::chrono::milliseconds most_waited_for_threads{20};

class CpuTrialMemory : public TrialMemory {
 public:
  explicit CpuTrialMemory(std::size_t bytes) : memory_(bytes) {}
  void* address() const override { return memory_.data(); }
  std::size_t bytes() const override { return memory_.bytes(); }
  void poison() override { memory_.poison(); }
  void copy_from(const void* address) override {
    if (bytes() > 0) std::memcpy(memory_.data(), address, bytes());
  }
  void forbid_writing() override { memory_.forbid_writing(); }
  bool unharmed() const override { return memory_.unharmed(); }
  ir::Tensor tensor(ir::DType dtype, std::vector<std::int64_t> dims) const override {
    return {dtype, std::move(dims), std::span<const std::byte>(memory_.data(), bytes()), nullptr};
  }

 private:
  GuardedMemory memory_;
};

class CpuLaunchBench : public LaunchBench {
 public:
  explicit CpuLaunchBench(const Executable& executable) : executable_(executable) {}

  std::unique_ptr<TrialMemory> allocate(std::size_t bytes) override {
    return std::make_unique<CpuTrialMemory>(bytes);
  }

  bool run(const Kernel& kernel, const TrialLaunch& launch) override {
    // Fresh scratch, so that its marks are of this run alone.
    std::unique_ptr<GuardedMemory> scratch;
    run(*kernel, launch, scratch);
    return scratch == nullptr || scratch->unharmed();
  }

  std::unique_ptr<TimedPass> pass(const Kernel& kernel, std::span<const TrialLaunch> launches,
                                  int times) override {
    return std::make_unique<Pass>(*this, kernel, launches, times);
  }

  void make_ready() override { executable_.pool().gather(most_waited_for_threads); }

 private:
  class Pass : public TimedPass {
   public:
    Pass(CpuLaunchBench& bench, Kernel kernel, std::span<const TrialLaunch> launches, int times)
        : bench_(bench), kernel_(std::move(kernel)), launches_(launches.begin(), launches.end()),
          times_(times) {}

    double seconds() override {
      using Clock = std::chrono::steady_clock;
      // A kernel of one task lets the other threads fall asleep, and whoever is timed next would
      // pay for it; amid a call they are awake.
      bench_.make_ready();
      const auto begin = Clock::now();
      for (int i = 0; i < times_; ++i)
        for (const TrialLaunch& launch : launches_) bench_.run(*kernel_, launch, bench_.scratch_);
      return std::chrono::duration<double>(Clock::now() - begin).count() /
             (times_ * static_cast<double>(launches_.size()));
    }

   private:
    CpuLaunchBench& bench_;
    Kernel kernel_;
    std::vector<TrialLaunch> launches_;
    int times_;
  };

  // `scratch` is grown where it is too small.
  void run(const LoadedKernel& kernel, const TrialLaunch& launch,
           std::unique_ptr<GuardedMemory>& scratch) {
    const CpuCode& code = static_cast<const CpuKernel&>(*kernel.device).code;
    CpuCode::Sizes sizes;
    if (!code.measure(launch.extents, sizes))
      throw Error(ErrorKind::Inputs, "the work of a launch is too large to count");
    if (sizes.tasks <= 0) return;
    const std::size_t all = static_cast<std::size_t>(sizes.scratch_stride) *
                            static_cast<std::size_t>(executable_.pool().threads());
    if (scratch == nullptr || scratch->bytes() < all)
      scratch = std::make_unique<GuardedMemory>(all);
    ir::KernelError error;
    const ir::KernelCall call{launch.buffers.data(), launch.extents.data(), &error,
                              &executable_.host_functions()};
    // Ends where the guard begins.
    code.run(executable_.pool(), call, sizes, scratch->data() + (scratch->bytes() - all));
    if (error.check >= 0)
      report_check(executable_.program(), *launch.launch, launch.extents, error);
  }

  const Executable& executable_;
  std::unique_ptr<GuardedMemory> scratch_;  // of timed runs
};

}  // namespace

std::unique_ptr<LaunchBench> make_cpu_launch_bench(const Executable& executable) {
  return std::make_unique<CpuLaunchBench>(executable);
}

}  // namespace anydim::runtime
