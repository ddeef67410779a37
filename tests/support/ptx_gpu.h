// A fake GPU that runs PTX on the interpreter: what NVRTC emits goes through runtime's CUDA path as
// it would on hardware.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "tests/ptx/interpreter.h"
#include "tests/support/fake_cuda_driver.h"

namespace anydim::tests {

// Modules are PTX text. A finding ends the launch as a fault does; its report is in findings().
class PtxGpu : public FakeGpu {
 public:
  explicit PtxGpu(ptx::MachineOptions options);
  ~PtxGpu() override;
  const std::string& findings() const { return findings_; }  // of the first launch that had any

  Address allocate(std::size_t bytes) override;
  void free(Address address) override;
  bool write(Address address, std::span<const std::byte> bytes) override;
  bool read(Address address, std::span<std::byte> bytes) override;
  std::shared_ptr<void> load(const void* image) override;
  std::vector<std::size_t> parameters(const std::shared_ptr<void>& module,
                                      const std::string& entry) override;
  Result launch(const std::shared_ptr<void>& module, const std::string& entry, const Shape& shape,
                const std::vector<std::vector<std::byte>>& parameters) override;
  Result encode(runtime::cuda::TensorMapBytes& map, int type, Address base,
                std::span<const std::uint64_t> dims, std::span<const std::uint64_t> strides,
                std::span<const unsigned> box, int swizzle) override;

 private:
  // a driver may be called from several threads, the interpreter from one at a time
  std::mutex mutex_;
  ptx::Machine machine_;
  std::string findings_;
};

}  // namespace anydim::tests
