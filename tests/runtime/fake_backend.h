// A backend whose kernels are functions of the test: each blob is a jump to one of them.
#pragma once

#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "ir/backend.h"
#include "ir/error.h"

namespace anydim::test {

// Code that jumps to the function, as long as this process lives.
inline std::vector<std::byte> jump_to(const void* function) {
  // movabs rax, function; jmp rax
  std::vector<std::byte> code{std::byte{0x48}, std::byte{0xb8}};
  const auto* address = reinterpret_cast<const std::byte*>(&function);
  code.insert(code.end(), address, address + sizeof function);
  code.push_back(std::byte{0xff});
  code.push_back(std::byte{0xe0});
  return code;
}

class FakeBackend : public ir::Backend {
 public:
  struct Kernel {
    ir::KernelEntry entry = nullptr;
    ir::Dim tasks = 1;
    ir::Dim scratch_bytes = 0;
  };
  using Shapes = void (*)(const std::int64_t*, std::int64_t*, std::int32_t*);

  void add(const std::string& region, Kernel kernel) { kernels_[region] = std::move(kernel); }
  void refuse(std::string schedule) { refused_ = std::move(schedule); }
  void add_shapes(Shapes shapes) { shapes_ = shapes; }
  // Called by every compile, before anything else.
  void on_compile(std::function<void()> action) { on_compile_ = std::move(action); }

  int compiled() const { return compiled_; }
  int packed() const { return packed_; }

  std::string target() const override { return "test machine"; }
  std::string generator() const override { return "test generator"; }
  std::optional<ir::PackedLayout> packed_layout(const ir::Region&, std::size_t) const override {
    return std::nullopt;
  }
  // The layout "doubled" holds every element times two.
  ir::Tensor pack(const ir::Region&, std::size_t, const ir::PackedLayout&, const ir::Tensor& weight,
                  const Allocate&) const override {
    ++packed_;
    ir::Tensor doubled(weight.dtype(), weight.dims());
    for (std::int64_t i = 0; i < weight.elements(); ++i) doubled.set_real(i, 2 * weight.real_at(i));
    return doubled;
  }
  std::vector<ir::Schedule> candidates(const ir::Region&, const ir::Bucket&) const override {
    return {{"plain", {}}};
  }
  double estimate(const ir::Region&, const ir::Schedule&, std::span<const std::int64_t>,
                  int) const override {
    return 1e-6;
  }
  std::vector<std::vector<std::int64_t>> key_edges(const ir::Region& region) const override {
    return std::vector<std::vector<std::int64_t>>(region.keys.size());
  }
  ir::CompiledKernel compile(const ir::Region& region, const ir::Bucket&,
                             const ir::Schedule& schedule) const override {
    if (on_compile_) on_compile_();
    ++compiled_;
    if (schedule.name == refused_) internal_error("this schedule compiles");
    // A kernel made for one schedule only, else the region's.
    const auto special = kernels_.find(region.name + " " + schedule.name);
    const Kernel& kernel = special == kernels_.end() ? kernels_.at(region.name) : special->second;
    return {.code = jump_to(reinterpret_cast<const void*>(kernel.entry)),
            .tasks = kernel.tasks,
            .scratch_bytes = kernel.scratch_bytes,
            .resources = {12, 2, 0}};
  }
  std::optional<ir::CompiledKernel> compile_shapes(const ir::ShapeProgram&) const override {
    if (shapes_ == nullptr) return std::nullopt;
    return ir::CompiledKernel{
        .code = jump_to(reinterpret_cast<const void*>(shapes_)), .tasks = 0, .scratch_bytes = 0};
  }

 private:
  std::map<std::string, Kernel> kernels_;
  std::string refused_;
  Shapes shapes_ = nullptr;
  std::function<void()> on_compile_;
  mutable std::atomic<int> compiled_{0}, packed_{0};
};

}  // namespace anydim::test
