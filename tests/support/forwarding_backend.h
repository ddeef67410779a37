// A code generator that answers as another does, for those that change some of its answers.
#pragma once

#include <memory>
#include <utility>

#include "ir/backend.h"

namespace anydim::ir {

class ForwardingBackend : public Backend {
 public:
  explicit ForwardingBackend(std::shared_ptr<const Backend> inner) : inner_(std::move(inner)) {}

  std::string target() const override { return inner_->target(); }
  std::string generator() const override { return inner_->generator(); }
  std::optional<PackedLayout> packed_layout(const Region& region,
                                            std::size_t parameter) const override {
    return inner_->packed_layout(region, parameter);
  }
  Tensor pack(const Region& region, std::size_t parameter, const PackedLayout& layout,
              const Tensor& weight, const Allocate& allocate) const override {
    return inner_->pack(region, parameter, layout, weight, allocate);
  }
  bool joins_rows_to_products() const override { return inner_->joins_rows_to_products(); }
  bool gates_product(const Region& region) const override { return inner_->gates_product(region); }
  bool zeroes_nan_weights() const override { return inner_->zeroes_nan_weights(); }
  bool writes_parts() const override { return inner_->writes_parts(); }
  bool saves_multiplications() const override { return inner_->saves_multiplications(); }
  bool rounds_keys_and_values() const override { return inner_->rounds_keys_and_values(); }
  std::vector<Schedule> candidates(const Region& region, const Bucket& bucket) const override {
    return inner_->candidates(region, bucket);
  }
  std::vector<Schedule> space(const Region& region, const Bucket& bucket) const override {
    return inner_->space(region, bucket);
  }
  double estimate(const Region& region, const Schedule& schedule,
                  std::span<const std::int64_t> keys, int threads) const override {
    return inner_->estimate(region, schedule, keys, threads);
  }
  double estimate_shared(const Region& region, const Schedule& schedule,
                         std::span<const std::int64_t> keys,
                         const SharedLaunch& launch) const override {
    return inner_->estimate_shared(region, schedule, keys, launch);
  }
  std::optional<DeviceLimits> limits() const override { return inner_->limits(); }
  double code_size(const Region& region, const Bucket& bucket,
                   const Schedule& schedule) const override {
    return inner_->code_size(region, bucket, schedule);
  }
  std::vector<std::vector<std::int64_t>> key_edges(const Region& region) const override {
    return inner_->key_edges(region);
  }
  CompiledKernel compile(const Region& region, const Bucket& bucket,
                         const Schedule& schedule) const override {
    return inner_->compile(region, bucket, schedule);
  }
  std::shared_ptr<const Backend> checked_forms() const override { return inner_->checked_forms(); }
  LibraryChoice library_schedule(const Region& region) const override {
    return inner_->library_schedule(region);
  }
  std::optional<CompiledKernel> compile_shapes(const ShapeProgram& program) const override {
    return inner_->compile_shapes(program);
  }

 protected:
  const Backend& inner() const { return *inner_; }

 private:
  std::shared_ptr<const Backend> inner_;
};

}  // namespace anydim::ir
