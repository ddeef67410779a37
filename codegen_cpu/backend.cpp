#include "codegen_cpu/backend.h"

#include <fmt/format.h>
#include <llvm/Config/llvm-config.h>

#include <map>
#include <mutex>

#include "codegen_cpu/emitters.h"
#include "codegen_cpu/kernel_kind.h"
#include "codegen_cpu/matmul/windowed_rows.h"
#include "codegen_cpu/shape_emitter.h"
#include "codegen_cpu/source_hash.h"
#include "codegen_cpu/target.h"
#include "codegen_cpu/work_estimate.h"

namespace anydim::codegen_cpu {

namespace {

class CpuBackend : public ir::Backend {
 public:
  CpuBackend(const Target& target, int threads) : target_(target), threads_(threads) {}

  std::string target() const override { return target_.name(); }
  std::string generator() const override {
    return fmt::format("{} LLVM {}", source_hash, LLVM_VERSION_STRING);
  }

  std::optional<ir::PackedLayout> packed_layout(const ir::Region& region,
                                                std::size_t parameter) const override {
    const Asked asked(*this, region);
    return asked.kind.packed_layout(asked.inputs, parameter);
  }

  ir::Tensor pack(const ir::Region& region, std::size_t parameter, const ir::PackedLayout& layout,
                  const ir::Tensor& weight, const Allocate& allocate) const override {
    const Asked asked(*this, region);
    return asked.kind.pack(asked.inputs, parameter, layout, weight, allocate);
  }

  bool zeroes_nan_weights() const override { return true; }
  bool writes_parts() const override { return true; }
  bool saves_multiplications() const override { return true; }
  bool rounds_keys_and_values() const override { return true; }

  bool gates_product(const ir::Region& region) const override {
    const Asked asked(*this, region);
    return asked.kind.gates(asked.inputs);
  }

  std::vector<std::size_t> overwritable(const ir::Region& region) const override {
    const Asked asked(*this, region);
    return asked.kind.overwritable(asked.inputs);
  }

  std::vector<ir::Schedule> candidates(const ir::Region& region,
                                       const ir::Bucket& bucket) const override {
    const Asked asked(*this, region, threads_);
    return asked.kind.candidates(asked.inputs, bucket);
  }

  std::vector<ir::Schedule> space(const ir::Region& region,
                                  const ir::Bucket& bucket) const override {
    const Asked asked(*this, region, threads_);
    return ir::joined(asked.kind.candidates(asked.inputs, bucket),
                      asked.kind.space(asked.inputs, bucket));
  }

  double estimate(const ir::Region& region, const ir::Schedule& schedule,
                  std::span<const std::int64_t> keys, int threads) const override {
    const Asked asked(*this, region, threads);
    return asked.kind.estimate(asked.inputs, schedule, keys);
  }

  double estimate_shared(const ir::Region& region, const ir::Schedule& schedule,
                         std::span<const std::int64_t> keys,
                         const ir::SharedLaunch& launch) const override {
    const Asked asked(*this, region, launch.threads, &launch);
    return asked.kind.estimate(asked.inputs, schedule, keys);
  }

  double code_size(const ir::Region& region, const ir::Bucket& bucket,
                   const ir::Schedule& schedule) const override {
    const Asked asked(*this, region);
    return asked.kind.code_size(asked.inputs, bucket, schedule);
  }

  std::vector<std::vector<std::int64_t>> key_edges(const ir::Region& region) const override {
    const Asked asked(*this, region);
    return asked.kind.key_edges(asked.inputs);
  }

  ir::CompiledKernel compile(const ir::Region& region, const ir::Bucket& bucket,
                             const ir::Schedule& schedule) const override {
    return compile_form(target_, region, known_of(region)->form, bucket, schedule);
  }

  std::optional<ir::CompiledKernel> compile_shapes(const ir::ShapeProgram& program) const override {
    return emit_shapes(target_, program);
  }

 private:
  struct Known {
    Known(const Target& target, const ir::Region& region)
        : form(prepared(target, region, *ir::loop_form_of(region))) {}
    const ir::LoopForm form;
    AccessStrides strides;
    LeftReuse left_reuse;
  };

  // A question about a region: its form, kept while the question lasts, and who answers.
  struct Asked {
    Asked(const CpuBackend& backend, const ir::Region& region, int threads = 1,
          const ir::SharedLaunch* shared = nullptr)
        : known(backend.known_of(region)),
          inputs{backend.target_,   region,  known->form, known->strides,
                 known->left_reuse, threads, shared},
          kind(kernel_kind_of(known->form)) {}
    const std::shared_ptr<Known> known;
    const PlanInputs inputs;
    const KernelKind& kind;
  };

  // The loop form of a sealed region is derived once: costs are asked for many shapes.
  std::shared_ptr<Known> known_of(const ir::Region& region) const {
    if (region.identity.empty()) return std::make_shared<Known>(target_, region);
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Known>& known = known_[region.identity];
    if (!known) known = std::make_shared<Known>(target_, region);
    return known;
  }

  Target target_;
  int threads_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::shared_ptr<Known>> known_;  // by the region's identity
};

}  // namespace

ir::CompiledKernel compile_form(const Target& target, const ir::Region& region,
                                const ir::LoopForm& form, const ir::Bucket& bucket,
                                const ir::Schedule& schedule,
                                const std::function<void(llvm::Module&)>& rewrite) {
  KernelBuilder kernel(target, region, form, bucket);
  const EmittedKernel emitted =
      std::visit([&](const auto& kind) { return emit_form(kernel, kind, schedule); }, form.kind);
  if (rewrite) rewrite(kernel.module());
  return kernel.finish(emitted.tasks, emitted.scratch_bytes);
}

std::unique_ptr<ir::Backend> make_cpu_backend(const CpuOptions& options) {
  return std::make_unique<CpuBackend>(detect_target(options.level), options.threads);
}

}  // namespace anydim::codegen_cpu
