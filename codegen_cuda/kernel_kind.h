// The interface that every way to compute a loop form implements: map, rows, ordered, compact,
// sort, matmul_*, attention_*.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen_cuda/names.h"
#include "codegen_cuda/target.h"
#include "ir/backend.h"
#include "ir/kernel_kind.h"
#include "ir/loops/loop_form.h"
#include "ir/schedule.h"

namespace anydim::codegen_cuda {

// What kernel kinds derive from a form whatever the schedule and the shape (form_facts.h). Throws
// Error{Unsupported} for a product with row stages (ir::MatmulForm::rows), which no kind computes.
struct FormFacts;
std::shared_ptr<const FormFacts> derive_facts(const CudaTarget& target, const ir::Region& region,
                                              const ir::LoopForm& form);

// What is asked about: the form of one region on one device. Keys are values of Region::keys, in
// order. The facts may be handed on from one question to the next about the same target, region and
// form.
struct PlanInputs {
  const CudaTarget& target;
  const ir::Region& region;
  const ir::LoopForm& form;
  std::shared_ptr<const FormFacts> facts = derive_facts(target, region, form);
};

// What the schedule counts on, of one entry: so many blocks share a multiprocessor if a thread has
// no more registers than this. What the assembler is told (launch bounds) and what the cost model
// takes for occupancy.
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

// What a launch keeps a multiprocessor busy with, in cycles, spread evenly over all of a part: its
// schedulers (an instruction of a warp is one; all four issue one a cycle), its tensor cores, its
// share of the L2 cache's bandwidth.
struct LaunchCycles {
  double issue = 0, tensor = 0, memory = 0;
};

// One way to compute a loop form. Estimates go by waves, bandwidth and occupancy; space() has the
// cheapest few of every kind of schedule.
class KernelKind : public ir::KernelKind<PlanInputs> {
 public:
  // Name of its schedules: "map", "rows", "matmul_mma", ...
  virtual std::string_view name() const = 0;
  // Whether it computes this form on this device at all (loops, element types, access patterns,
  // instructions). The rest is only asked where it does.
  virtual bool accepts(const PlanInputs& inputs) const = 0;
  // Whether it also computes forms over rows laid end to end (ir::Segments); accepts() is not asked
  // about one otherwise.
  virtual bool takes_segments() const { return false; }
  // What the estimate of one launch counts with (bench/cuda_counts.py compares); nothing of a kind
  // that no model of theirs needs.
  virtual LaunchCycles cycles(const PlanInputs&, const ir::Schedule&,
                              std::span<const std::int64_t>) const {
    return {};
  }
  // Why the schedule does not fit the device (shared memory, registers, threads); nothing where it
  // does.
  virtual std::optional<std::string> misfit(const PlanInputs& inputs,
                                            const ir::Schedule& schedule) const = 0;
  // `checked`: the checked form whose waits are bounded and report where they stand
  // (device/checked_wait.cuh).
  virtual EmittedKernel emit(const PlanInputs& inputs, const ir::Bucket& bucket,
                             const ir::Schedule& schedule, bool checked) const = 0;
};

// A kind for forms of one alternative of ir::LoopForm::kind, if not for all of them.
template <typename Form>
class KindOf : public KernelKind {
 public:
  bool accepts(const PlanInputs& inputs) const override {
    return std::holds_alternative<Form>(inputs.form.kind);
  }

 protected:
  static const Form& form_of(const PlanInputs& inputs) { return std::get<Form>(inputs.form.kind); }
};

// Why a block cannot have so many threads; nothing where it can.
std::optional<std::string> threads_misfit(std::int64_t threads);
// Why a block of so many threads cannot have so many bytes of shared memory and registers a thread;
// nothing where it can.
std::optional<std::string> resources_misfit(const CudaTarget& target, std::int64_t threads,
                                            std::int64_t shared_bytes, std::int64_t registers);

#define ANYDIM_CUDA_KIND(name) std::unique_ptr<KernelKind> make_##name##_kind();
#include "codegen_cuda/kernel_kinds.def"
#undef ANYDIM_CUDA_KIND

// All of them, preferred ones first.
std::vector<std::unique_ptr<KernelKind>> all_kernel_kinds();

}  // namespace anydim::codegen_cuda
