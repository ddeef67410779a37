// A code generator, one in twenty of whose schedules each crashes by a signal, aborts, loops for ever, writes out of bounds, allocates without end, or gives a
// wrong result.
#pragma once

#include <cstdint>
#include <memory>

#include "ir/backend.h"
#include "ir/schedule_space.h"
#include "tuner/database.h"

namespace anydim::tuner::testing {

// What the tuner should find of schedule number `variant` of a region's space.
Outcome expected_outcome(std::int64_t variant);

// `inner` makes the kernels for x86-64. Its schedules get a field `variant`, of `variants` different values.
class FaultyBackend : public ir::Backend, public ir::ScheduleSpace {
 public:
  FaultyBackend(std::shared_ptr<const ir::Backend> inner, std::int64_t variants) : inner_(std::move(inner)), variants_(variants) {}

  std::string target() const override { return inner_->target(); }
  std::string generator() const override { return inner_->generator(); }
  std::optional<ir::PackedLayout> packed_layout(const ir::Region& region, std::size_t parameter) const override {
    return inner_->packed_layout(region, parameter);
  }
  ir::Tensor pack(const ir::Region& region, std::size_t parameter, const ir::PackedLayout& layout,
                  const ir::Tensor& weight) const override {
    return inner_->pack(region, parameter, layout, weight);
  }
  std::vector<ir::Schedule> candidates(const ir::Region& region, const ir::Bucket& bucket) const override {
    return inner_->candidates(region, bucket);
  }
  std::vector<ir::Schedule> space(const ir::Region& region, const ir::Bucket& bucket) const override;
  double estimate(const ir::Region& region, const ir::Schedule& schedule, std::span<const std::int64_t> keys, int threads) const override;
  std::vector<std::vector<std::int64_t>> key_edges(const ir::Region& region) const override { return inner_->key_edges(region); }
  ir::CompiledKernel compile(const ir::Region& region, const ir::Bucket& bucket, const ir::Schedule& schedule) const override;
  std::optional<ir::CompiledKernel> compile_shapes(const ir::ShapeProgram& program) const override {
    return inner_->compile_shapes(program);
  }

 private:
  std::shared_ptr<const ir::Backend> inner_;
  std::int64_t variants_;
};

}  // namespace anydim::tuner::testing
