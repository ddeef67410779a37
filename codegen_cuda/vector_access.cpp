#include "codegen_cuda/vector_access.h"

#include <fmt/format.h>

#include "codegen_cuda/matmul_operands.h"
#include "codegen_cuda/vector_lanes.h"

namespace anydim::codegen_cuda {

namespace {

using ir::Dim;

// Address of the vector's first element.
std::string address(KernelWriter& kernel, CodeScope& scope, std::size_t buffer, const Dim& offset) {
  return fmt::format("{} + {}", kernel.buffer(buffer), write_offset(kernel, scope, offset, kernel.buffer_type(buffer).dims));
}

}  // namespace

void write_vector(KernelWriter& kernel, CodeScope& scope, const VectorSpace& space, const VectorProgram& program) {
  scope.define(space.symbol, space.first);
  kernel.use("vectors");
  std::vector<std::int32_t> roots = program.roots;
  for (const ir::Store& store : program.stores) roots.push_back(store.step);
  const bool whole = ir::divisor(space.extent, kernel.symbols()) % space.width == 0;
  // An index that is itself loaded may differ from point to point.
  const auto is_vector = [&](const Dim& offset) {
    return whole && !depends_on_values(offset) && is_contiguous(kernel.symbols(), offset, space.symbol, space.extent, space.width);
  };
  const std::string lane = kernel.fresh("lane_of_vector");

  CodeScope point(&scope);
  const std::string at = kernel.fresh(space.symbol);
  point.line(fmt::format("[[maybe_unused]] const {} {} = {} + {};", index_type(space.first.wide), at, space.first.name, lane));
  if (!whole) point.line(fmt::format("if ({} >= {}) break;", at, write_index(kernel, scope, space.extent)));
  point.define(space.symbol, {.name = at, .wide = space.first.wide});

  ScalarWriter writer(kernel, program.program, point, roots);
  for (std::size_t step = 0; step < writer.steps().size(); ++step) {
    const auto position = static_cast<std::int32_t>(step);
    if (writer.steps()[step].kind != ir::ScalarStep::Kind::Load || writer.conditional(position)) continue;
    const Dim offset = writer.load_offset(position);
    if (!is_vector(offset)) continue;
    const ir::DType dtype = writer.dtype(position);
    const std::string name = kernel.fresh("loaded");
    scope.line(fmt::format("{} {}[{}];", storage_type(dtype), name, space.width));
    scope.line(
        fmt::format("load_vector({}, {});", name, address(kernel, scope, static_cast<std::size_t>(writer.steps()[step].buffer), offset)));
    writer.set_load(position, widened(kernel, dtype, fmt::format("{}[{}]", name, lane)), point);
  }
  if (program.at_point) program.at_point(writer, point, lane);

  std::vector<std::string> after;
  for (const ir::Store& store : program.stores) {
    const Dim offset = writer.store_offset(store);
    if (!is_vector(offset)) {
      writer.store(point, store);
      continue;
    }
    const auto buffer = kernel.parameters() + static_cast<std::size_t>(store.output);
    const std::string name = kernel.fresh("result");
    scope.line(fmt::format("{} {}[{}];", storage_type(kernel.buffer_type(buffer).dtype), name, space.width));
    point.line(fmt::format("{}[{}] = {};", name, lane, writer.stored_value(point, store)));
    after.push_back(fmt::format("store_vector({}, {});", address(kernel, scope, buffer, offset), name));
  }
  scope.line("#pragma unroll");
  scope.line(fmt::format("for (int {0} = 0; {0} < {1}; ++{0}) {{", lane, space.width));
  scope.append(point.text());
  scope.line("}");
  for (const std::string& line : after) scope.line(line);
}

}  // namespace anydim::codegen_cuda
