// What stands in for a GPU where kernels are only compiled.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "ir/error.h"
#include "runtime/launch_bench.h"

namespace anydim::bench {

// A device that takes kernels and constants and runs nothing, for filling caches. `machine` as
// runtime::Device has it; empty: no kernel needs a trial.
class NoDevice : public runtime::Device {
 public:
  explicit NoDevice(std::string machine) : machine_(std::move(machine)) {}
  std::string machine() const override { return machine_; }
  std::shared_ptr<const runtime::DeviceKernel> load(const ir::Region&,
                                                    const ir::DispatchTable::Entry&,
                                                    const ir::CompiledKernel&,
                                                    std::optional<runtime::KernelTrial>) override {
    return std::make_shared<runtime::DeviceKernel>();
  }
  std::unique_ptr<runtime::ConstantStore> constants() override {
    class Dropped : public runtime::ConstantStore {
      void* keep(ir::Tensor&) override { return nullptr; }
    };
    return std::make_unique<Dropped>();
  }
  std::unique_ptr<runtime::DeviceSession> open_session(const runtime::Executable&) override {
    refuse();
  }
  std::unique_ptr<runtime::LaunchBench> open_bench(const runtime::Executable&) override {
    refuse();
  }

 private:
  [[noreturn]] static void refuse() {
    throw Error(ErrorKind::Unsupported, "there is no device here: this compiles alone");
  }
  std::string machine_;
};

}  // namespace anydim::bench
