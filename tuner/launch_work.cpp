#include "tuner/launch_work.h"

#include <variant>

#include "ir/loops/loop_form.h"

namespace anydim::tuner {

namespace {

std::optional<std::size_t> offsets_parameter(const ir::Region& region) {
  const ir::LoopForm form = ir::derive_loop_form(region);
  const auto* attention = std::get_if<ir::AttentionForm>(&form.kind);
  if (attention == nullptr || !attention->segments) return std::nullopt;
  return static_cast<std::size_t>(attention->segments->offsets);
}

}  // namespace

LaunchWorks::LaunchWorks(const ir::Program& program) : program_(program) {
  for (const ir::Program::Kernel& kernel : program.kernels)
    offsets_.push_back(offsets_parameter(kernel.region));
}

void LaunchWorks::add(const runtime::LaunchWork& work, std::span<void* const> buffers) {
  const auto k = static_cast<std::size_t>(work.launch->kernel);
  const ir::Region& region = program_.kernels.at(k).region;
  const auto [known, fresh] =
      works_.try_emplace({work.launch->kernel, dims_at(region, region.keys, work.extents)});
  if (!fresh) return;
  std::span<const std::int64_t> segments;
  if (offsets_[k] && !buffers.empty()) {
    const ir::TensorType& type =
        region.body.tensor_type(region.body.body.parameters.at(*offsets_[k]));
    segments = {static_cast<const std::int64_t*>(buffers[*offsets_[k]]),
                static_cast<std::size_t>(dims_at(region, type.dims, work.extents).at(0))};
  }
  known->second = least_work(region, work.extents, segments);
}

void LaunchWorks::watch(runtime::Context& context, const std::vector<ir::Tensor>& inputs) {
  works_.clear();
  context.record_launches(true);
  context.session().observe(
      [&](const runtime::LaunchWork& work, std::span<void* const> buffers) { add(work, buffers); });
  context.run(inputs);
  context.session().observe({});
  for (const runtime::LaunchRecord& record : context.launches()) {
    // Launches with nothing to do are not watched, and those of such a device not at all.
    const ir::Region& region = program_.kernels.at(static_cast<std::size_t>(record.kernel)).region;
    if (!works_.contains({record.kernel, record.keys}))
      works_[{record.kernel, record.keys}] =
          record.tasks == 0 ? LeastWork{} : least_work(region, record.extents);
  }
  context.record_launches(false);
}

}  // namespace anydim::tuner
