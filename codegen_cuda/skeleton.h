// The interface that every way to compute a loop form implements: map, rows, ordered, compact, sort, matmul_*, attention_*.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen_cuda/target.h"
#include "ir/backend.h"
#include "ir/loop_form.h"
#include "ir/schedule.h"

namespace anydim::codegen_cuda {

// What skeletons derive from a form whatever the schedule and the shape (form_facts.h).
struct FormFacts;
std::shared_ptr<const FormFacts> derive_facts(const CudaTarget& target, const ir::Region& region, const ir::LoopForm& form);

// What is asked about: the form of one region on one device. Keys are values of Region::keys, in order. The facts may be handed on from one question to
// the next about the same target, region and form.
struct PlanInputs {
  const CudaTarget& target;
  const ir::Region& region;
  const ir::LoopForm& form;
  std::shared_ptr<const FormFacts> facts = derive_facts(target, region, form);
};

// What the schedule counts on, of one entry: so many blocks share a multiprocessor if a thread has no more registers than this. What the assembler is told
// (launch bounds) and what the cost model takes for occupancy.
struct EntryPlan {
  std::string name;
  std::int64_t threads = 0, blocks = 0, registers = 0;
};

struct EmittedKernel {
  std::string source{};  // CUDA C++, whole (KernelWriter::finish)
  std::vector<ir::DeviceLaunch> launches{};
  ir::Dim workspace_bytes{};  // over the region's symbols
  bool waits = false;         // as ir::CudaLaunches::waits
  std::vector<EntryPlan> entries{};
};

// One skeleton and way to compute it. Stateless: safe to share between threads.
class Skeleton {
 public:
  virtual ~Skeleton() = default;
  // Name of its schedules: "map", "rows", "matmul_mma", ...
  virtual std::string_view name() const = 0;
  // Whether it computes this form on this device at all (skeleton, element types, access patterns, instructions).
  virtual bool accepts(const PlanInputs& inputs) const = 0;
  // Whether it also computes forms over rows laid end to end (ir::Segments); accepts() is not asked about one otherwise.
  virtual bool takes_segments() const { return false; }
  // The rest is only asked where accepts() holds.

  // Schedules worth considering for a bucket, all legal, the first a safe general choice; may be empty where none suits the bucket.
  virtual std::vector<ir::Schedule> candidates(const PlanInputs& inputs, const ir::Bucket& bucket) const = 0;
  // For those who measure, or choose by themselves: candidates() and the cheapest few of every kind of schedule beside.
  virtual std::vector<ir::Schedule> space(const PlanInputs& inputs, const ir::Bucket& bucket) const { return candidates(inputs, bucket); }
  // Seconds of one launch, by waves, bandwidth and occupancy; without running anything.
  virtual double estimate(const PlanInputs& inputs, const ir::Schedule& schedule, std::span<const std::int64_t> keys) const = 0;
  // As ir::Backend::key_edges.
  virtual std::vector<std::vector<std::int64_t>> key_edges(const PlanInputs& inputs) const = 0;
  // Why the schedule does not fit the device (shared memory, registers, threads); nothing where it does.
  virtual std::optional<std::string> misfit(const PlanInputs& inputs, const ir::Schedule& schedule) const = 0;
  // `checked`: the twin whose waits are bounded and report where they stand (device/checked_wait.cuh).
  virtual EmittedKernel emit(const PlanInputs& inputs, const ir::Bucket& bucket, const ir::Schedule& schedule, bool checked) const = 0;
};

// Why a block cannot have so many threads; nothing where it can.
std::optional<std::string> threads_misfit(std::int64_t threads);

std::unique_ptr<Skeleton> make_map_skeleton();
std::unique_ptr<Skeleton> make_rows_skeleton();
std::unique_ptr<Skeleton> make_ordered_skeleton();
std::unique_ptr<Skeleton> make_compact_skeleton();
std::unique_ptr<Skeleton> make_sort_skeleton();

// Every skeleton there is, preferred ones first: the one table that a new skeleton is added to (skeletons.cpp).
std::vector<std::unique_ptr<Skeleton>> all_skeletons();

}  // namespace anydim::codegen_cuda
