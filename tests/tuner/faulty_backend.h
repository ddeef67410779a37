// A code generator, one in twenty of whose schedules each crashes by a signal, aborts, loops for
// ever, writes out of bounds, allocates without end, or gives a wrong result.
#pragma once

#include <cstdint>
#include <memory>

#include "tests/support/forwarding_backend.h"
#include "tuner/database.h"

namespace anydim::tuner::testing {

// What the tuner should find of schedule number `variant` of a region's space.
Outcome expected_outcome(std::int64_t variant);

// `inner` makes the kernels for x86-64. Its schedules get a field `variant`, of `variants`
// different values.
class FaultyBackend : public ir::ForwardingBackend {
 public:
  FaultyBackend(std::shared_ptr<const ir::Backend> inner, std::int64_t variants)
      : ForwardingBackend(std::move(inner)), variants_(variants) {}

  std::vector<ir::Schedule> space(const ir::Region& region,
                                  const ir::Bucket& bucket) const override;
  double estimate(const ir::Region& region, const ir::Schedule& schedule,
                  std::span<const std::int64_t> keys, int threads) const override;
  ir::CompiledKernel compile(const ir::Region& region, const ir::Bucket& bucket,
                             const ir::Schedule& schedule) const override;

 private:
  std::int64_t variants_;
};

}  // namespace anydim::tuner::testing
