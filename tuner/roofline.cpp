#include "tuner/roofline.h"

#include <algorithm>
#include <limits>
#include <variant>

#include "ir/error.h"
#include "ir/loops/loop_form.h"

namespace anydim::tuner {

namespace {

class Counter {
 public:
  Counter(const ir::Region& region, std::span<const std::int64_t> extents)
      : region_(region), extents_(extents) {}

  double extent(const ir::Iteration& iteration) const {
    return static_cast<double>(
        std::max<std::int64_t>(0, dims_at(region_, {iteration.extent}, extents_)[0]));
  }
  double points(const std::vector<ir::Iteration>& space) const {
    double all = 1;
    for (const ir::Iteration& iteration : space) all *= extent(iteration);
    return all;
  }

 private:
  const ir::Region& region_;
  std::span<const std::int64_t> extents_;
};

// Whether floats of 16 bits are all that it loads.
bool loads_narrow(const ir::ScalarProgram& program) {
  bool any = false;
  for (const ir::ScalarStep& step : program.steps) {
    if (!step.is<ir::step::Load>() || !ir::is_float(step.dtype)) continue;
    if (ir::size_of(step.dtype) != 2) return false;
    any = true;
  }
  return any;
}

double squares(std::span<const std::int64_t> offsets) {
  double sum = 0;
  for (std::size_t i = 1; i < offsets.size(); ++i) {
    const auto length = static_cast<double>(offsets[i] - offsets[i - 1]);
    sum += length * length;
  }
  return sum;
}

void count_products(const ir::LoopForm& form, const Counter& counter,
                    std::span<const std::int64_t> offsets, LeastWork& work) {
  if (const auto* product = std::get_if<ir::MatmulForm>(&form.kind)) {
    if (product->accumulate != ir::DType::F32) return;  // what the limits say nothing about
    work.multiply_adds = counter.points(product->batch) * counter.extent(product->m) *
                         counter.extent(product->n) * counter.extent(product->k) *
                         static_cast<double>(product->gates());
    work.narrow = loads_narrow(product->left) && loads_narrow(product->right);
  } else if (const auto* attention = std::get_if<ir::AttentionForm>(&form.kind)) {
    const double pairs = attention->segments
                             ? squares(offsets)
                             : counter.extent(attention->row) * counter.extent(attention->key);
    work.multiply_adds = counter.points(attention->batch) * pairs *
                         (counter.extent(attention->depth) + counter.extent(attention->width));
    work.narrow =
        loads_narrow(attention->q) && loads_narrow(attention->k) && loads_narrow(attention->v);
  }
}

// Points at which elements are loaded; infinite where that is no bound.
double iteration_points(const ir::LoopForm& form, const Counter& counter) {
  if (const auto* map = std::get_if<ir::MapForm>(&form.kind)) {
    double all = 0;
    for (const ir::MapPart& part : map->parts) all += counter.points(part.space);
    return all;
  }
  if (const auto* rows = std::get_if<ir::RowForm>(&form.kind); rows != nullptr && !rows->segments)
    return counter.points(rows->outer) * counter.points(rows->inner);
  return std::numeric_limits<double>::infinity();
}

}  // namespace

std::vector<std::int64_t> dims_at(const ir::Region& region, const std::vector<ir::Dim>& dims,
                                  std::span<const std::int64_t> extents) {
  const std::vector<std::string>& names = region.body.symbols.names();
  std::vector<std::int64_t> values;
  for (const ir::Dim& dim : dims) {
    values.push_back(dim.evaluate([&](const ir::DimLeaf& leaf) {
      const auto found = std::ranges::find(names, leaf.symbol);
      internal_check(found != names.end(), "dims of a region are over its symbols");
      return extents[static_cast<std::size_t>(found - names.begin())];
    }));
  }
  return values;
}

LeastWork least_work(const ir::Region& region, std::span<const std::int64_t> extents,
                     std::span<const std::int64_t> segment_offsets) {
  const auto form = ir::loop_form_of(region);
  const Counter counter(region, extents);
  LeastWork work;
  count_products(*form, counter, segment_offsets, work);
  const double points = iteration_points(*form, counter);
  const auto elements = [&](const ir::TensorType& type) {
    double all = 1;
    for (const std::int64_t dim : dims_at(region, type.dims, extents))
      all *= static_cast<double>(dim);
    return all;
  };
  for (const ir::ValueId parameter : region.body.body.parameters) {
    const ir::TensorType& type = region.body.tensor_type(parameter);
    work.bytes += static_cast<double>(ir::size_of(type.dtype)) * std::min(points, elements(type));
  }
  for (const ir::ValueId result : region.body.body.results) {
    const ir::TensorType& type = region.body.tensor_type(result);
    work.bytes += static_cast<double>(ir::size_of(type.dtype)) * elements(type);
  }
  return work;
}

double roofline_seconds(const LeastWork& work, const DeviceLimits& limits) {
  const double multiplying = work.narrow ? limits.narrow_multiply_adds : limits.multiply_adds;
  const double reading = limits.read_rate(work.bytes);
  return std::max(multiplying > 0 ? work.multiply_adds / multiplying : 0,
                  reading > 0 ? work.bytes / reading : 0);
}

}  // namespace anydim::tuner
