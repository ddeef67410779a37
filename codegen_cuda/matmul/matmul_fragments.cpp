#include "codegen_cuda/matmul/matmul_fragments.h"

#include <fmt/format.h>

namespace anydim::codegen_cuda {

namespace {

constexpr int width = 2;  // neighbouring columns of a lane in a fragment

// `expression`, at most `most` of `extent`.
IndexVariable write_clamped(CodeScope& scope, KernelWriter& kernel, std::string_view stem,
                            bool wide, const std::string& expression, const std::string& last) {
  const std::string type = index_type(wide);
  const IndexVariable place = write_variable(scope, kernel, stem, wide, expression);
  return write_variable(scope, kernel, stem, wide,
                        fmt::format("{0} < ({1})({2}) ? {0} : ({1})({2})", place.name, type, last));
}

}  // namespace

void write_fragments(KernelWriter& kernel, CodeScope& scope, const ir::MatmulForm& form,
                     const MatmulNames& names, const FragmentSums& fragments,
                     const ir::Store& result) {
  for (const char* piece : {"tensor_cores", "matmul_fragments", "vectors"}) kernel.use(piece);
  const bool wide_m = !fits_with(kernel, form.m.extent, 1024),
             wide_n = !fits_with(kernel, form.n.extent, 1024);
  const auto row = [&](const char* stem, const char* down) {
    return write_clamped(scope, kernel, stem, wide_m,
                         fmt::format("{} + threadIdx.x % 32 / 4{}", fragments.first_row, down),
                         names.rows.name + " - 1");
  };
  const IndexVariable upper = row("upper_row", ""), lower = row("lower_row", " + 8");
  const IndexVariable column =
      write_variable(scope, kernel, "column_of_lane", wide_n,
                     fmt::format("{} + threadIdx.x % 4 * {}", fragments.first_column, width));
  const std::string finish = kernel.fresh("finish_pair");
  const auto output = static_cast<std::size_t>(result.output);
  write_lambda(
      scope, finish, "bool below, int across, float left_sum, float right_sum",
      [&](CodeScope& body) {
        const IndexVariable m =
            write_variable(body, kernel, to_string(form.m.variable), wide_m,
                           fmt::format("below ? {} : {}", lower.name, upper.name));
        const std::string place = fmt::format("{} + across", column.name);
        const bool whole = ir::divisor(form.n.extent, kernel.symbols()) % fragments.columns == 0;
        const std::string stem = to_string(form.n.variable);
        const IndexVariable n =
            whole ? write_variable(body, kernel, stem, wide_n, place)
                  : write_clamped(body, kernel, stem, wide_n, place,
                                  fmt::format("{} - {}", names.columns.name, width));
        body.define(form.m.variable, m);
        const std::string sums = kernel.fresh("sum"), values = kernel.fresh("values");
        body.line("const float {}[{}] = {{left_sum, right_sum}};", sums, width);
        body.line("float {}[{}];", values, width);
        const LaneRange pair{.variable = form.n.variable,
                             .extent = form.n.extent,
                             .width = width,
                             .first = n,
                             .may_end = false};
        write_lanes(
            kernel, body, pair,
            {.program = form.epilogue,
             .roots = {result.step},
             .stores = {},
             .at_point = [&](ScalarWriter& writer, CodeScope& point, const std::string& lane) {
               writer.set_accumulated(0, fmt::format("{}[{}]", sums, lane), point);
               point.line("{}[{}] = {};", values, lane, writer.unrounded_value(point, result));
             }});
        body.line("return pack<{}>({}[0], {}[1]);",
                  kernel.output_type(output).dtype == ir::DType::BF16, values, values);
      });
  scope.line(
      "finish_fragments<{}>({}, {}, {}, FragmentPlace<{}>{{{}, {}, {}, (int)({}), {}}}, {});",
      fragments.columns, fragments.sums, fragments.map, kernel.output(output), index_type(wide_m),
      fragments.boxes, fragments.first_row, names.rows.name, fragments.first_column,
      names.columns.name, finish);
}

}  // namespace anydim::codegen_cuda
