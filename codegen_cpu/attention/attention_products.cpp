#include "codegen_cpu/attention/attention_products.h"

#include <vector>

#include "codegen_cpu/matmul/micro_kernel.h"
#include "codegen_cpu/matmul/tile_kernel.h"

namespace anydim::codegen_cpu {

AttentionMultiplies emit_attention_multiplies(llvm::Module& module, const Target& target,
                                              const AttentionProducts& products) {
  const AttentionSchedule& schedule = products.schedule;
  std::vector<std::int64_t> widths{schedule.columns};
  if (schedule.columns > products.panel) widths.push_back(products.panel);
  std::vector<std::int64_t> value_widths = widths;
  if (!products.narrow_values) value_widths.resize(1);
  const auto panel_stride =
      products.depth_steps ? std::optional(*products.depth_steps * products.panel) : std::nullopt;
  if (schedule.tiles) {
    const TileKernel keys{.product = products.product,
                          .tile_stride = schedule.block_keys,
                          .left_stride = products.query_stride,
                          .panel_stride = panel_stride,
                          .steps = products.depth_steps},
        values{.product = products.product,
               .tile_stride = 0,
               .left_stride = schedule.block_keys,
               .panel_stride = {},
               .steps = {}};
    const bool two_tiles = schedule.rows > tile_rows;
    return {.keys = emit_tile_multiply(module, target, "multiply_keys", keys, widths, two_tiles),
            .values = emit_tile_multiply(module, target, "multiply_values", values, value_widths,
                                         two_tiles)};
  }
  MicroKernel micro = micro_kernel_of(target, products.product, products.element, products.lanes);
  micro.panel = products.panel;
  micro.tile_stride = schedule.block_keys;
  micro.right_stride = products.panel;
  micro.depth = products.depth_steps;
  micro.left_stride = products.query_stride;
  micro.panel_stride = panel_stride;
  AttentionMultiplies multiplies;
  if (!schedule.keys_in_place)
    multiplies.keys =
        emit_multiply(module, target, "multiply_keys", micro, products.row_counts, widths);
  micro.tile_stride = 0;
  micro.left_stride = schedule.block_keys;
  micro.depth = std::nullopt;
  micro.panel_stride = std::nullopt;
  if (products.values_in_place) {
    micro.right_stride = products.value_stride;
    micro.panel_stride = products.panel;
  }
  multiplies.values =
      emit_multiply(module, target, "multiply_values", micro, products.row_counts, value_widths);
  return multiplies;
}

}  // namespace anydim::codegen_cpu
