#include "tests/codegen_cuda/expect_right.h"

#include <ranges>
#include <stdexcept>

#include "codegen_cuda/backend.h"

namespace anydim::codegen_cuda::testing {

KernelCase compiled(const std::shared_ptr<const TestRegion>& region, const CudaTarget& target,
                    const ir::Bucket& bucket, const ir::Schedule& schedule) {
  for (const auto& kind : all_kernel_kinds())
    if (kind->name() == schedule.name) return build_case(region, target, *kind, bucket, schedule);
  throw std::runtime_error("no kind is called " + schedule.name);
}

std::vector<ir::Schedule> candidates(const TestRegion& region, const CudaTarget& target,
                                     const ir::Bucket& bucket, std::size_t most) {
  const PlanInputs inputs{.target = target, .region = region.region, .form = region.form};
  std::vector<ir::Schedule> all;
  for (const auto& kind : all_kernel_kinds()) {
    if (!kind->accepts(inputs)) continue;
    for (ir::Schedule& schedule : kind->candidates(inputs, bucket) | std::views::take(most))
      all.push_back(std::move(schedule));
  }
  return all;
}

void expect_right(const std::shared_ptr<const TestRegion>& region, const CudaTarget& target,
                  const ir::Bucket& bucket, const ir::Schedule& schedule,
                  const std::vector<Symbols>& shapes, double tolerance,
                  const tests::FillInputs& fill, CaseOptions options) {
  const KernelCase kernel = compiled(region, target, bucket, schedule);
  const ptx::Module module = ptx::parse_ptx(kernel.ptx);
  options.machine.architecture = target.architecture;
  for (const Symbols& symbols : shapes) {
    std::string at;
    for (const auto& [name, value] : symbols) at += " " + name + "=" + std::to_string(value);
    std::vector<ir::Tensor> inputs = real_inputs(*region, symbols);
    if (fill) fill(inputs);
    const CaseRun run = run_case(kernel, module, symbols, inputs, options);
    const std::string where = target.architecture + " " + to_string(schedule) + at;
    ASSERT_EQ(run.findings, "") << where;
    ASSERT_EQ(run.error.check, -1) << where;
    ASSERT_EQ(compare(run.outputs, reference(*region, inputs), tolerance), "") << where;
  }
}

void expect_right(const std::shared_ptr<const TestRegion>& region, const ir::Bucket& bucket,
                  const std::vector<Symbols>& shapes, double tolerance,
                  const tests::FillInputs& fill, std::size_t most) {
  const CudaTarget hopper = small_target("h200"), ampere = small_target("a100");
  for (const ir::Schedule& schedule : candidates(*region, hopper, bucket, most))
    expect_right(region, hopper, bucket, schedule, shapes, tolerance, fill);
  expect_right(region, ampere, bucket, candidates(*region, ampere, bucket).front(), {shapes.back()},
               tolerance, fill);
}

void expect_machine_code(const std::vector<std::shared_ptr<const TestRegion>>& regions) {
  constexpr std::int64_t registers_of_block = 65536, static_shared_bytes = 48 << 10;
  for (const char* part : {"a100", "h200", "b200"}) {
    const auto backend = make_cuda_backend({.target = *target_named(part)});
    for (const auto& region : regions) {
      for (const ir::Schedule& schedule : backend->candidates(region->region, {})) {
        SCOPED_TRACE(std::string(part) + " " + to_string(schedule));
        const ir::KernelResources used = backend->compile(region->region, {}, schedule).resources;
        EXPECT_EQ(used.spills, 0);
        EXPECT_EQ(used.stack_bytes, 0);
        EXPECT_LE(used.registers * schedule.field("threads"), registers_of_block);
        EXPECT_LE(used.shared_bytes, static_shared_bytes);
      }
    }
  }
}

ir::KernelError failure_of(const std::shared_ptr<const TestRegion>& region, const Symbols& symbols,
                           const std::vector<ir::Tensor>& inputs) {
  const CudaTarget target = small_target("h200");
  const KernelCase kernel = compiled(region, target, {}, candidates(*region, target, {}).front());
  const CaseRun run = run_case(kernel, ptx::parse_ptx(kernel.ptx), symbols, inputs);
  EXPECT_EQ(run.findings, "");
  return run.error;
}

}  // namespace anydim::codegen_cuda::testing
