#include "codegen_cuda/scalars/vector_lanes.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/dims/affine.h"

namespace anydim::codegen_cuda {

bool is_contiguous(const ir::SymbolTable& symbols, const Dim& offset, const ir::DimLeaf& variable,
                   const Dim& extent, int width) {
  if (width == 1 || !offset.mentions(variable)) return false;
  // The variable as width * vector + lane: divisions by multiples of the width then come apart.
  const ir::DimLeaf vector = ir::loop_leaf(ir::LoopRole::Vector),
                    lane = ir::loop_leaf(ir::LoopRole::Lane);
  ir::SymbolTable known = symbols;
  ir::SymbolInfo of_vector, of_lane;
  of_vector.below = ir::ceil_div(extent, width);
  of_lane.below = Dim(width);
  known.declare(vector, of_vector);
  known.declare(lane, of_lane);
  const Dim split = ir::simplify(offset.substitute(std::map<ir::DimLeaf, Dim>{
                                     {variable, Dim::of(vector) * width + Dim::of(lane)}}),
                                 known);
  const auto along = ir::affine_in(split, lane);
  return along && along->stride.is_constant(1) && ir::divisor(along->base, known) % width == 0;
}

VectorLanes::VectorLanes(KernelWriter& kernel, CodeScope& scope, const LaneRange& range)
    : kernel_(kernel), scope_(scope), range_(range), point_(&scope), lane_("0") {
  scope_.define(range_.variable, range_.first);
  if (range_.width == 1) return;
  ends_ = range_.may_end && ir::divisor(range_.extent, kernel_.symbols()) % range_.width != 0;
  kernel_.use("vectors");
  lane_ = kernel_.fresh("lane");
  place_ = kernel_.fresh(range_.first.name + "_");
  point_.define(range_.variable, {place_, range_.first.wide});
}

bool VectorLanes::is_vector(ScalarWriter& writer, std::int32_t load) const {
  const ir::ScalarStep& step = writer.program().steps()[static_cast<std::size_t>(load)];
  return range_.width > 1 && !ends_ && step.is<ir::step::Load>() && !writer.conditional(load) &&
         is_contiguous(kernel_.symbols(), writer.load_offset(load), range_.variable, range_.extent,
                       range_.width) &&
         !writer.index_varies(load, range_.variable);
}

void VectorLanes::load(ScalarWriter& writer, const std::vector<FetchedLoad>& fetched) {
  for (std::size_t i = 0; i < writer.program().steps().size(); ++i) {
    const auto position = static_cast<std::int32_t>(i);
    if (!is_vector(writer, position)) continue;
    const ir::DType dtype = writer.program().steps()[i].dtype;
    const auto ahead = std::ranges::find(fetched, position, &FetchedLoad::step);
    std::string array;
    if (ahead != fetched.end()) {
      array = ahead->array;
    } else {
      array = kernel_.fresh_numbered("loaded");
      const std::string address = writer.address(scope_, position);
      scope_.line("{} {}[{}];\nload_vector({}, {});", storage_type(dtype), array, range_.width,
                  array, address);
    }
    const std::string name = kernel_.fresh_numbered("element");
    point_.line("const {} {} = {};", value_type(dtype), name,
                widened(kernel_, dtype, fmt::format("{}[{}]", array, lane_)));
    writer.set_step(position, name, point_);
  }
}

void VectorLanes::store(ScalarWriter& writer, const ir::Store& store) {
  const Dim offset = writer.store_offset(store);
  if (ends_ ||
      !is_contiguous(kernel_.symbols(), offset, range_.variable, range_.extent, range_.width)) {
    writer.store(point(), store);
    return;
  }
  const auto output = static_cast<std::size_t>(store.output);
  const ir::TensorType& type = kernel_.output_type(output);
  const std::string array = kernel_.fresh_numbered("result");
  scope_.line("{} {}[{}];", storage_type(type.dtype), array, range_.width);
  point_.line("{}[{}] = {};", array, lane_, writer.stored_value(point_, store));
  after_.push_back(fmt::format("store_vector({} + {}, {});", kernel_.output(output),
                               write_offset(kernel_, scope_, offset, type.dims), array));
}

void VectorLanes::finish() {
  if (range_.width == 1) return;
  scope_.line("#pragma unroll\nfor (int {0} = 0; {0} < {1}; ++{0}) {{", lane_, range_.width);
  if (ends_ || point_.text().find(place_) != std::string::npos) {
    CodeScope beginning(&scope_);
    beginning.line("const {} {} = {} + {};", index_type(range_.first.wide), place_,
                   range_.first.name, lane_);
    if (ends_)
      beginning.line("if ({} >= {}) break;", place_, write_index(kernel_, scope_, range_.extent));
    scope_.append(beginning.text());
  }
  scope_.append(point_.text());
  scope_.line("}");
  for (const std::string& line : after_) scope_.line(line);
}

namespace {

std::vector<std::int32_t> all_roots(const LaneProgram& program) {
  std::vector<std::int32_t> roots = program.roots;
  for (const ir::Store& store : program.stores) roots.push_back(store.step);
  return roots;
}

}  // namespace

void write_lanes(KernelWriter& kernel, CodeScope& scope, const LaneRange& range,
                 const LaneProgram& program) {
  VectorLanes lanes(kernel, scope, range);
  ScalarWriter writer(kernel, program.program, scope, all_roots(program));
  lanes.load(writer, program.fetched);
  if (program.at_point) program.at_point(writer, lanes.point(), lanes.lane());
  for (const ir::Store& store : program.stores) lanes.store(writer, store);
  lanes.finish();
}

std::vector<FetchedLoad> write_fetches(KernelWriter& kernel, CodeScope& scope,
                                       const LaneRange& range, const LaneProgram& program,
                                       const ir::DimLeaf& variable,
                                       const std::function<std::string()>& array) {
  VectorLanes lanes(kernel, scope, range);
  ScalarWriter writer(kernel, program.program, scope, all_roots(program));
  std::vector<FetchedLoad> fetched;
  for (std::size_t i = 0; i < writer.program().steps().size(); ++i) {
    const auto position = static_cast<std::int32_t>(i);
    if (!lanes.is_vector(writer, position) || writer.index_varies(position, variable) ||
        !writer.load_offset(position).mentions(variable))
      continue;
    fetched.push_back(
        {.step = position, .dtype = writer.program().steps()[i].dtype, .array = array()});
    scope.line("load_vector({}, {});", fetched.back().array, writer.address(scope, position));
  }
  return fetched;
}

}  // namespace anydim::codegen_cuda
