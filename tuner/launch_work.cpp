#include "tuner/launch_work.h"

#include <variant>

#include "ir/loops/loop_form.h"

namespace anydim::tuner {

namespace {

std::optional<std::size_t> offsets_parameter(const ir::Region& region) {
  const auto form = ir::loop_form_of(region);
  const auto* attention = std::get_if<ir::AttentionForm>(&form->kind);
  if (attention == nullptr || !attention->segments) return std::nullopt;
  return static_cast<std::size_t>(attention->segments->offsets);
}

}  // namespace

LaunchWorks::LaunchWorks(const ir::Program& program) : program_(program) {
  for (const ir::Program::Kernel& kernel : program.kernels)
    offsets_.push_back(offsets_parameter(kernel.region));
}

void LaunchWorks::add(runtime::DeviceSession& session, const runtime::LaunchWork& work,
                      std::span<void* const> buffers) {
  const auto k = static_cast<std::size_t>(work.launch->kernel);
  const ir::Region& region = program_.kernels.at(k).region;
  const auto [known, fresh] =
      works_.try_emplace({work.launch->kernel, dims_at(region, region.keys, work.extents)});
  if (!fresh) return;
  std::vector<std::int64_t> segments;
  if (offsets_[k]) {
    const ir::TensorType& type =
        region.body.tensor_type(region.body.body.parameters.at(*offsets_[k]));
    segments.resize(static_cast<std::size_t>(dims_at(region, type.dims, work.extents).at(0)));
    session.read(buffers[*offsets_[k]], std::as_writable_bytes(std::span(segments)));
  }
  known->second = least_work(region, work.extents, segments);
}

void LaunchWorks::watch(runtime::Context& context, const std::vector<ir::Tensor>& inputs) {
  works_.clear();
  context.record_launches(true);
  {
    const Observing observing(context.session(),
                              [&](const runtime::LaunchWork& work, std::span<void* const> buffers) {
                                add(context.session(), work, buffers);
                              });
    context.run(inputs);
  }
  // Launches with nothing to do are not watched.
  for (const runtime::LaunchRecord& record : context.launches())
    works_.try_emplace({record.kernel, record.keys});
  context.record_launches(false);
}

}  // namespace anydim::tuner
