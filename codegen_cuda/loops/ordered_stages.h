// How each stage of an ordered form is spread over threads without changing what its order means.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "codegen_cuda/scalars/scalar_writer.h"
#include "ir/schedule_fields.h"

namespace anydim::codegen_cuda {

enum class OrderedKind : std::uint8_t {
  Points,  // every point writes elements of its own: a map
  Scan,  // every carry is a sum of what the points have: running totals by tree; sums of floats are
         // associated otherwise than one after the other
  Owned,   // updates at places that only the data tells: a thread owns places and makes all their
           // updates in order, as one thread alone would
  Serial,  // anything else: one thread a point of `outer`
};
OrderedKind kind_of(const ir::OrderedForm& form, const ir::OrderedStage& stage);

// `ordered threads=THREADS items=POINTS split=BLOCKS owners=THREADS vector=ELEMENTS`, each field
// for the kind of stage that it concerns.
struct OrderedSchedule {
  std::int64_t threads = 256;  // of a block
  std::int64_t items = 4;      // Scan: neighbouring points of a thread; 0: one thread a row
  std::int64_t split = 1;      // Scan: blocks that share a row
  std::int64_t owners = 1;     // Owned: threads that share a point of `outer`, a power of two
  std::int64_t vector = 1;     // Points: neighbours of a thread

  static constexpr auto fields() {
    return std::tuple{ir::ScheduleField{"threads", &OrderedSchedule::threads},
                      ir::ScheduleField{"items", &OrderedSchedule::items},
                      ir::ScheduleField{"split", &OrderedSchedule::split},
                      ir::ScheduleField{"owners", &OrderedSchedule::owners},
                      ir::ScheduleField{"vector", &OrderedSchedule::vector}};
  }
  static OrderedSchedule from(const ir::Schedule& schedule) {
    return ir::read_fields<OrderedSchedule>(schedule);
  }
  ir::Schedule schedule() const { return ir::write_fields("ordered", *this); }
};

// Workspace of split rows, after what is already taken.
struct OrderedWorkspace {
  ir::Dim bytes;
};

// Writes one or more entries for the stage, named `stem` and what tells them apart, and gives their
// launches in order.
std::vector<ir::DeviceLaunch> write_ordered_stage(KernelWriter& kernel, const ir::OrderedForm& form,
                                                  const ir::OrderedStage& stage,
                                                  const OrderedSchedule& fields,
                                                  const std::string& stem,
                                                  OrderedWorkspace& workspace);

}  // namespace anydim::codegen_cuda
