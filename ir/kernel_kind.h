// What a code generator knows of one way to compute loop forms: the interface that its backend asks
// behind ir::Backend.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/backend.h"
#include "ir/schedule.h"

namespace anydim::ir {

// `Inputs` is what is asked about, as a code generator puts it: the form of one region on one
// device. Keys are values of Region::keys, in order. Stateless: safe to share between threads.
template <typename Inputs>
class KernelKind {
 public:
  virtual ~KernelKind() = default;
  // Schedules worth considering for a bucket, all legal, the first a safe general choice; may be
  // empty where none suits the bucket.
  virtual std::vector<Schedule> candidates(const Inputs& inputs, const Bucket& bucket) const = 0;
  // For those who measure, or choose by themselves: legal schedules beyond candidates(), which may
  // be among them.
  virtual std::vector<Schedule> space(const Inputs& inputs, const Bucket& bucket) const {
    return candidates(inputs, bucket);
  }
  // Seconds of one launch, by counting; without running anything.
  virtual double estimate(const Inputs& inputs, const Schedule& schedule,
                          std::span<const std::int64_t> keys) const = 0;
  // As Backend::code_size; by default schedules do not differ.
  virtual double code_size(const Inputs&, const Bucket&, const Schedule&) const { return 1; }
  // As Backend::key_edges; by default no key has any.
  virtual std::vector<std::vector<std::int64_t>> key_edges(const Inputs& inputs) const {
    return std::vector<std::vector<std::int64_t>>(inputs.region.keys.size());
  }
};

}  // namespace anydim::ir
