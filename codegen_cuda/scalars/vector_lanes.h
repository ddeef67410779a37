// Neighbouring points of a loop computed by one thread: what lies side by side in memory is one
// access.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "codegen_cuda/scalars/scalar_writer.h"

namespace anydim::codegen_cuda {

// Points first, first + 1, ... first + width - 1 of a loop variable; `first` is a multiple of width
// and below the extent.
struct LaneRange {
  ir::DimLeaf variable;
  ir::Dim extent;
  int width = 1;
  IndexVariable first;
  bool may_end = false;  // the extent may lie among the points: those from there on are left out
};

// Whether `offset` runs along the variable by ones and starts at a multiple of the width: one
// aligned access covers the lanes. Symbols of checked indices count as constants.
bool is_contiguous(const ir::SymbolTable& symbols, const ir::Dim& offset,
                   const ir::DimLeaf& variable, const ir::Dim& extent, int width);

// A contiguous load that was written ahead of its program.
struct FetchedLoad {
  std::int32_t step = 0;
  ir::DType dtype{};
  std::string array;  // an expression: elements of storage_type, one a lane
};

// Writes vector loads, then a loop over the lanes, then vector stores:
//
//     VectorLanes lanes(kernel, scope, range);
//     lanes.load(writer);                 // contiguous loads of its program come from arrays
//     writer.value(lanes.point(), step);  // in the loop, where the variable is this lane's
//     lanes.store(writer, store);
//     lanes.finish();
class VectorLanes {
 public:
  // Defines the variable in `scope` (as the first lane's) and in point().
  VectorLanes(KernelWriter& kernel, CodeScope& scope, const LaneRange& range);

  CodeScope& point() { return range_.width == 1 ? scope_ : point_; }
  // "0" for one lane, else the name of the loop's counter.
  const std::string& lane() const { return lane_; }
  void load(ScalarWriter& writer, const std::vector<FetchedLoad>& fetched = {});
  // Whether one access covers what the lanes of the load read.
  bool is_vector(ScalarWriter& writer, std::int32_t load) const;
  void store(ScalarWriter& writer, const ir::Store& store);
  void finish();

 private:
  KernelWriter& kernel_;
  CodeScope& scope_;
  LaneRange range_;
  CodeScope point_;
  bool ends_ = false;         // known not to be whole: no access covers all lanes
  std::string lane_, place_;  // names of the loop's counter and of the variable at a lane
  std::vector<std::string> after_;
};

// A whole program at the lanes. `at_point` is called once with the writer, in the scope of a lane,
// where the variable and the lane's number are defined: there it gives slots and asks for values.
struct LaneProgram {
  const ir::ScalarProgram& program;
  std::vector<std::int32_t> roots;
  std::vector<ir::Store> stores;
  std::function<void(ScalarWriter& writer, CodeScope& point, const std::string& lane)> at_point;
  std::vector<FetchedLoad> fetched = {};  // that are not written again
};
void write_lanes(KernelWriter& kernel, CodeScope& scope, const LaneRange& range,
                 const LaneProgram& program);

// Writes those contiguous loads of the program alone whose offset varies with `variable` by itself.
// `array` names an array for each, which the caller declares where the program sees it.
std::vector<FetchedLoad> write_fetches(KernelWriter& kernel, CodeScope& scope,
                                       const LaneRange& range, const LaneProgram& program,
                                       const ir::DimLeaf& variable,
                                       const std::function<std::string()>& array);

}  // namespace anydim::codegen_cuda
