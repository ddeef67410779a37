#include "codegen_cpu/backend.h"

#include <fmt/format.h>
#include <llvm/Config/llvm-config.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "codegen_cpu/emitters.h"
#include "codegen_cpu/plans.h"
#include "codegen_cpu/shape_emitter.h"
#include "codegen_cpu/source_hash.h"
#include "codegen_cpu/spaces.h"
#include "codegen_cpu/target.h"
#include "codegen_cpu/work_estimate.h"
#include "ir/error.h"

namespace anydim::codegen_cpu {

namespace {

template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};

class CpuBackend : public ir::Backend {
  template <typename Question>
  auto ask(const ir::Region& region, const Question& question) const {
    const auto known = known_of(region);
    const PlanInputs inputs{target_, region, known->form, known->strides};
    return std::visit([&](const auto& skeleton) { return question(inputs, skeleton); }, known->form.skeleton);
  }

 public:
  explicit CpuBackend(const Target& target) : target_(target) {}

  std::string target() const override { return target_.name(); }
  std::string generator() const override { return fmt::format("{} LLVM {}", source_hash, LLVM_VERSION_STRING); }

  std::optional<ir::PackedLayout> packed_layout(const ir::Region& region, std::size_t parameter) const override {
    const auto known = known_of(region);
    if (!std::holds_alternative<ir::MatmulForm>(known->form.skeleton)) return std::nullopt;
    return matmul_packed_layout({target_, region, known->form, known->strides}, parameter);
  }

  ir::Tensor pack(const ir::Region& region, std::size_t parameter, const ir::PackedLayout& layout, const ir::Tensor& weight,
                  const Allocate& allocate) const override {
    const auto known = known_of(region);
    internal_check(std::holds_alternative<ir::MatmulForm>(known->form.skeleton), "only matmul packs its weights");
    return matmul_pack({target_, region, known->form, known->strides}, parameter, layout, weight, allocate);
  }

  std::vector<ir::Schedule> candidates(const ir::Region& region, const ir::Bucket& bucket) const override {
    return ask(region, Overloaded{[&](const PlanInputs& inputs, const ir::MapForm&) { return map_candidates(inputs, bucket); },
                                  [&](const PlanInputs& inputs, const ir::RowForm&) { return rows_candidates(inputs, bucket); },
                                  [&](const PlanInputs& inputs, const ir::MatmulForm&) { return matmul_candidates(inputs, bucket); },
                                  [&](const PlanInputs& inputs, const ir::AttentionForm&) { return attention_candidates(inputs, bucket); },
                                  [&](const PlanInputs&, const ir::OrderedForm&) { return ordered_candidates(); },
                                  [&](const PlanInputs&, const ir::CompactForm&) { return compact_candidates(); },
                                  [&](const PlanInputs&, const ir::SortForm&) { return sort_candidates(); }});
  }

  std::vector<ir::Schedule> space(const ir::Region& region, const ir::Bucket& bucket) const override {
    return ir::joined(
        candidates(region, bucket),
        ask(region, Overloaded{[&](const PlanInputs& inputs, const ir::MapForm&) { return map_space(inputs, bucket); },
                               [&](const PlanInputs& inputs, const ir::RowForm&) { return rows_space(inputs, bucket); },
                               [&](const PlanInputs& inputs, const ir::MatmulForm&) { return matmul_space(inputs, bucket); },
                               [&](const PlanInputs& inputs, const ir::AttentionForm&) { return attention_space(inputs, bucket); },
                               [&](const PlanInputs&, const ir::OrderedForm&) { return ordered_space(); },
                               [](const PlanInputs&, const auto&) { return std::vector<ir::Schedule>{}; }}));
  }

  double estimate(const ir::Region& region, const ir::Schedule& schedule, std::span<const std::int64_t> keys, int threads) const override {
    return ask(
        region,
        Overloaded{[&](const PlanInputs& inputs, const ir::MapForm&) { return map_cost(inputs, schedule, keys, threads); },
                   [&](const PlanInputs& inputs, const ir::RowForm&) { return rows_cost(inputs, schedule, keys, threads); },
                   [&](const PlanInputs& inputs, const ir::MatmulForm&) { return matmul_cost(inputs, schedule, keys, threads); },
                   [&](const PlanInputs& inputs, const ir::AttentionForm&) { return attention_cost(inputs, schedule, keys, threads); },
                   [&](const PlanInputs& inputs, const ir::OrderedForm&) { return ordered_cost(inputs, schedule, keys, threads); },
                   [&](const PlanInputs& inputs, const ir::CompactForm&) { return compact_cost(inputs, keys, threads); },
                   [&](const PlanInputs& inputs, const ir::SortForm&) { return sort_cost(inputs, schedule, keys, threads); }});
  }

  std::vector<std::vector<std::int64_t>> key_edges(const ir::Region& region) const override {
    return ask(region, Overloaded{[](const PlanInputs& inputs, const ir::MapForm&) { return map_edges(inputs); },
                                  [](const PlanInputs& inputs, const ir::RowForm&) { return rows_edges(inputs); },
                                  [](const PlanInputs& inputs, const ir::MatmulForm&) { return matmul_edges(inputs); },
                                  [](const PlanInputs& inputs, const ir::AttentionForm&) { return attention_edges(inputs); },
                                  [](const PlanInputs& inputs, const ir::OrderedForm&) { return ordered_edges(inputs); },
                                  [](const PlanInputs& inputs, const auto&) {
                                    return std::vector<std::vector<std::int64_t>>(inputs.region.keys.size());
                                  }});
  }

  ir::CompiledKernel compile(const ir::Region& region, const ir::Bucket& bucket, const ir::Schedule& schedule) const override {
    return compile_form(target_, region, known_of(region)->form, bucket, schedule);
  }

  std::optional<ir::CompiledKernel> compile_shapes(const ir::ShapeProgram& program) const override { return emit_shapes(target_, program); }

 private:
  struct Known {
    Known(const Target& target, const ir::Region& region) : form(prepared(target, region, ir::derive_loop_form(region))) {}
    const ir::LoopForm form;
    AccessStrides strides;
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
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::shared_ptr<Known>> known_;  // by the region's identity
};

}  // namespace

ir::CompiledKernel compile_form(const Target& target, const ir::Region& region, const ir::LoopForm& form, const ir::Bucket& bucket,
                                const ir::Schedule& schedule, const std::function<void(llvm::Module&)>& rewrite) {
  KernelBuilder kernel(target, region, form, bucket);
  const EmittedKernel emitted =
      std::visit(Overloaded{[&](const ir::MapForm& map) { return emit_map(kernel, map, schedule); },
                            [&](const ir::RowForm& rows) { return emit_rows(kernel, rows, schedule); },
                            [&](const ir::MatmulForm& matmul) { return emit_matmul(kernel, matmul, schedule); },
                            [&](const ir::AttentionForm& attention) { return emit_attention(kernel, attention, schedule); },
                            [&](const ir::OrderedForm& ordered) { return emit_ordered(kernel, ordered, schedule); },
                            [&](const ir::CompactForm& compact) { return emit_compact(kernel, compact); },
                            [&](const ir::SortForm& sort) { return emit_sort(kernel, sort, schedule); }},
                 form.skeleton);
  if (rewrite) rewrite(kernel.module());
  return kernel.finish(emitted.tasks, emitted.scratch_bytes);
}

std::unique_ptr<ir::Backend> make_cpu_backend(const CpuOptions& options) {
  return std::make_unique<CpuBackend>(detect_target(options.level));
}

}  // namespace anydim::codegen_cpu
