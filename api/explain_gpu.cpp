#include "api/explain_gpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "api/append.h"
#include "api/planned.h"
#include "codegen_cuda/backend.h"
#include "runtime/bucket_lookup.h"
#include "tuner/workload.h"

namespace anydim {

namespace {

PlannedEntry entry_of(const ir::DeviceLaunch& launch, const codegen_cuda::EmittedKernel& emitted) {
  PlannedEntry entry{
      .name = launch.entry,
      .grid = fmt::format("{} x {} x {}", launch.grid[0].to_string(), launch.grid[1].to_string(),
                          launch.grid[2].to_string()),
      .threads = std::int64_t{launch.block[0]} * launch.block[1] * launch.block[2],
      .cluster_blocks = std::int64_t{launch.cluster[0]} * launch.cluster[1] * launch.cluster[2],
      .shared_bytes = launch.shared_bytes};
  const auto plan =
      std::ranges::find(emitted.entries, launch.entry, &codegen_cuda::EntryPlan::name);
  if (plan != emitted.entries.end()) {
    entry.registers = plan->registers;
    entry.blocks_per_multiprocessor = plan->blocks;
  }
  return entry;
}

PlannedKernel kernel_of(const codegen_cuda::CudaTarget& part, const ir::Region& region,
                        const ir::DispatchTable::Entry& entry) {
  const codegen_cuda::EmittedKernel emitted =
      codegen_cuda::cuda_kernel(part, region, entry.compiled_for(), entry.schedule);
  PlannedKernel kernel{.row = {.region = region.name,
                               .bucket = to_string(entry.bucket),
                               .schedule = to_string(entry.schedule),
                               .intervals = entry.bucket.intervals,
                               .chosen = std::string(name_of(entry.origin)),
                               .expected_seconds = entry.estimated_seconds},
                       .entries = {},
                       .source = emitted.source};
  for (const ir::DeviceLaunch& launch : emitted.launches)
    if (!launch.product) kernel.entries.push_back(entry_of(launch, emitted));
  return kernel;
}

// The model's symbols as the inputs' extents give them.
tuner::Call call_of(const PlannedModel& planned,
                    const std::vector<std::vector<std::int64_t>>& extents) {
  std::map<std::string, std::int64_t> values;
  for (std::size_t i = 0; i < planned.inputs.size(); ++i) {
    const std::vector<ir::Dim>& dims = planned.inputs[i].dims;
    for (std::size_t axis = 0; axis < dims.size(); ++axis)
      if (dims[axis].kind() == ir::Dim::Kind::Symbol)
        values.emplace(dims[axis].leaf().symbol, extents.at(i).at(axis));
  }
  tuner::Call call;
  for (const std::string& symbol : planned.shape.symbol_names())
    call.values.push_back(values.at(symbol));
  return call;
}

void add_kernel(std::string& text, const PlannedKernel& kernel) {
  for (const PlannedEntry& entry : kernel.entries) {
    append(text, "    {}: grid {}, {} threads", entry.name, entry.grid, entry.threads);
    if (entry.cluster_blocks > 1) append(text, ", clusters of {}", entry.cluster_blocks);
    append(text,
           ", {} bytes of dynamic shared memory; planned {} registers a thread, {} blocks a "
           "multiprocessor\n",
           entry.shared_bytes, entry.registers, entry.blocks_per_multiprocessor);
  }
  if (kernel.entries.empty()) append(text, "    a product of cuBLASLt\n");
}

std::vector<std::byte> compiled(const GpuPlan& plan, const PlannedKernel& kernel,
                                codegen_cuda::CudaOutput output) {
  return codegen_cuda::Nvrtc::open()
      ->compile(kernel.source, kernel.row.region, plan.architecture, output)
      .code;
}

}  // namespace

GpuPlan explain_gpu(std::string_view part, ir::Module module, const CompileOptions& options,
                    const std::vector<std::vector<std::int64_t>>& extents) {
  const CompileTarget target = planned_gpu(part, options);
  const codegen_cuda::CudaTarget gpu = planned_part(part, options);
  PlannedModel planned = plan_model(target, module, options);
  if (!planned.equal_dims.hold(extents)) {
    CompileOptions general = options;
    general.unify_dims = false;
    planned = plan_model(target, std::move(module), general);
  }
  GpuPlan plan{
      .part = target.part, .architecture = gpu.architecture, .kernels = {}, .launches = {}};
  std::vector<std::size_t> first_row;  // of each region's table, in plan.kernels
  for (const ir::Program::Kernel& kernel : planned.program.kernels) {
    first_row.push_back(plan.kernels.size());
    for (const ir::DispatchTable::Entry& entry : kernel.table.entries)
      plan.kernels.push_back(kernel_of(gpu, kernel.region, entry));
  }
  if (!tuner::shapes_decide_launches(planned.program)) return plan;
  plan.launches.emplace();
  const tuner::ShapeWalk walk(planned.program);
  for (const tuner::LaunchKeys& met : walk.launches(planned.shape, call_of(planned, extents))) {
    const auto position = static_cast<std::size_t>(met.kernel);
    const ir::Program::Kernel& kernel = planned.program.kernels[position];
    const std::size_t row = runtime::BucketLookup(kernel.table).find(met.keys);
    PlannedLaunch launch{.kernel = first_row[position] + row, .keys = {}};
    for (std::size_t i = 0; i < met.keys.size(); ++i)
      launch.keys.emplace_back(kernel.region.keys[i].to_string(), met.keys[i]);
    launch.estimated_seconds =
        target.backend->estimate(kernel.region, kernel.table.entries[row].schedule, met.keys, 1);
    plan.launches->push_back(std::move(launch));
  }
  return plan;
}

std::string to_text(const GpuPlan& plan) {
  std::string text = plan.part + ", which is not here: nothing is measured\n";
  double estimated = 0;
  if (!plan.launches) append(text, "\nvalues decide what is launched, which only a run can tell\n");
  for (std::size_t i = 0; plan.launches && i < plan.launches->size(); ++i) {
    const PlannedLaunch& launch = (*plan.launches)[i];
    const PlannedKernel& kernel = plan.kernels[launch.kernel];
    estimated += launch.estimated_seconds;
    append(text, "\n{:3} {}\n    keys {}; bucket {}\n    schedule {} ({}); estimated {:.2f} us\n",
           i, kernel.row.region, listed(launch.keys), kernel.row.bucket, kernel.row.schedule,
           kernel.row.chosen, 1e6 * launch.estimated_seconds);
    add_kernel(text, kernel);
  }
  append(text, "\ntables, tried from above\n");
  for (const PlannedKernel& kernel : plan.kernels)
    append(text, "    {}  {}  {}: {}, {:.2f} us\n", kernel.row.region, kernel.row.bucket,
           kernel.row.schedule, kernel.row.chosen, 1e6 * kernel.row.expected_seconds);
  if (plan.launches)
    append(text, "\nlaunches: {}, estimated {:.1f} us\n", plan.launches->size(), 1e6 * estimated);
  return text;
}

std::string ptx_of(const GpuPlan& plan, const PlannedKernel& kernel) {
  const std::vector<std::byte> code = compiled(plan, kernel, codegen_cuda::CudaOutput::Ptx);
  std::string text(reinterpret_cast<const char*>(code.data()), code.size());
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

std::vector<std::byte> cubin_of(const GpuPlan& plan, const PlannedKernel& kernel) {
  return compiled(plan, kernel, codegen_cuda::CudaOutput::Cubin);
}

}  // namespace anydim
