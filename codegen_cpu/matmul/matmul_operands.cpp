#include "codegen_cpu/matmul/matmul_operands.h"

#include <algorithm>
#include <cstring>

#include "codegen_cpu/names.h"
#include "ir/dims/affine.h"
#include "ir/error.h"

namespace anydim::codegen_cpu {

namespace {

const ScalarStep* load_of(const ScalarStep& step) {
  return step.is<ir::step::Load>() ? &step : nullptr;
}

// A step of the program, or what it converts.
const ScalarStep& behind_conversion(const ir::ScalarProgram& program, const ScalarStep& step) {
  if (!step.applies(ir::Op::cast)) return step;
  return program.steps[static_cast<std::size_t>(step.operands.front())];
}

// The program's only load, where the program is that load or a conversion of it to `dtype`.
const ScalarStep* plain_load(const ir::ScalarProgram& program, ir::DType dtype, bool convertible) {
  if (program.steps.empty() || program.steps.back().dtype != dtype) return nullptr;
  const ScalarStep& last = program.steps.back();
  return load_of(convertible ? behind_conversion(program, last) : last);
}

Dim offset_of(const ir::Region& region, const ScalarStep& load, const ir::SymbolTable& symbols) {
  const auto& [buffer, index] = load.as<ir::step::Load>();
  const ir::ValueId parameter = region.body.body.parameters.at(static_cast<std::size_t>(buffer));
  return ir::linear_offset(index, region.body.tensor_type(parameter).dims, symbols);
}

// Where an index comes from another load (a gather) the operand has no fixed place.
bool mentions_steps(const Dim& dim) {
  const auto leaves = dim.leaves();
  return std::any_of(leaves.begin(), leaves.end(),
                     [](const ir::DimLeaf& leaf) { return leaf.is_element() || leaf.is_step(); });
}

bool loads(const ScalarStep& step, std::int32_t buffer) {
  const auto* load = std::get_if<ir::step::Load>(&step.kind);
  return load && load->buffer == buffer;
}

std::int32_t count_loads(const ir::ScalarProgram& program, std::int32_t buffer) {
  return static_cast<std::int32_t>(std::ranges::count_if(
      program.steps, [&](const ScalarStep& step) { return loads(step, buffer); }));
}

bool is_weight(const ir::Region& region, const ScalarStep& load) {
  return region.is_weight(static_cast<std::size_t>(load.as<ir::step::Load>().buffer));
}

// Whether this load alone reads its buffer; another reader needs a weight as it is.
bool is_only_reader(const ir::MatmulForm& form, const ScalarStep& load) {
  const std::int32_t buffer = load.as<ir::step::Load>().buffer;
  std::int32_t uses = count_loads(form.left, buffer) + count_loads(form.right, buffer) +
                      count_loads(form.epilogue, buffer);
  for (const ir::RowStage& stage : form.rows) uses += count_loads(stage.program, buffer);
  return uses == 1;
}

// The right operand as i8, which may be less zero points, made real (f32) times scales. All are
// weights, zero points of i8; scales and zero points may be one number.
struct ScaledLoads {
  const ScalarStep *integers = nullptr, *scale = nullptr, *zeros = nullptr;
};
std::optional<ScaledLoads> scaled_loads(const ir::Region& region, const ir::ScalarProgram& right) {
  const ScalarStep& last = right.steps.back();
  if (!last.applies(ir::Op::mul) || last.dtype != ir::DType::F32) return std::nullopt;
  const auto step = [&](std::int32_t position) -> const ScalarStep& {
    return right.steps[static_cast<std::size_t>(position)];
  };
  for (const std::size_t side : {0U, 1U}) {
    const ScalarStep &real = step(last.operands[side]), &scale = step(last.operands[1 - side]);
    if (!real.applies(ir::Op::cast) || scale.dtype != ir::DType::F32 ||
        !(scale.is<ir::step::Constant>() ||
          (scale.is<ir::step::Load>() && is_weight(region, scale))))
      continue;
    ScaledLoads loads{.integers = &step(real.operands.front()), .scale = &scale};
    if (loads.integers->applies(ir::Op::sub)) {
      const ScalarStep& difference = *loads.integers;
      loads.integers = &behind_conversion(right, step(difference.operands[0]));
      loads.zeros = &behind_conversion(right, step(difference.operands[1]));
      const bool loaded = loads.zeros->is<ir::step::Load>() &&
                          loads.zeros->dtype == ir::DType::I8 && is_weight(region, *loads.zeros);
      if (difference.dtype != ir::DType::I32 || !(loaded || loads.zeros->is<ir::step::Constant>()))
        continue;
    }
    if (loads.integers->is<ir::step::Load>() && loads.integers->dtype == ir::DType::I8 &&
        is_weight(region, *loads.integers))
      return loads;
  }
  return std::nullopt;
}

std::optional<PackedWeight> placed_weight(const Target& target, const Product& product,
                                          const ir::Region& region, const ir::MatmulForm& form,
                                          const ScalarStep& load, const ir::SymbolTable& symbols) {
  if (!is_weight(region, load) || !is_only_reader(form, load)) return std::nullopt;
  PackedWeight weight;
  weight.buffer = load.as<ir::step::Load>().buffer;
  Dim rest = offset_of(region, load, symbols);
  const auto constant_stride = [&](const ir::Iteration& iteration, std::int64_t& stride,
                                   std::int64_t& extent) {
    const auto along = ir::affine_in(rest, iteration.variable);
    if (!along || !along->stride.constant() || !iteration.extent.constant()) return false;
    stride = *along->stride.constant();
    extent = *iteration.extent.constant();
    rest = along->base;
    return true;
  };
  if (!constant_stride(form.k, weight.depth_stride, weight.depth) ||
      !constant_stride(form.n, weight.column_stride, weight.columns))
    return std::nullopt;
  std::vector<ir::Iteration> matrices = form.batch;
  if (form.gate) matrices.push_back(*form.gate);
  for (const ir::Iteration& iteration : matrices) {
    if (!rest.mentions(iteration.variable)) continue;
    std::int64_t stride = 0, extent = 0;
    if (!constant_stride(iteration, stride, extent)) return std::nullopt;
    weight.batch.push_back(iteration.variable);
    weight.batch_extents.push_back(extent);
    weight.batch_strides.push_back(stride);
  }
  if (!rest.constant()) return std::nullopt;
  weight.base = *rest.constant();
  weight.packed_steps = packed_steps(target, product, weight.depth).constant().value();
  return weight;
}

std::optional<PackedWeight> packed_weight(const Target& target, const Product& product,
                                          const ir::Region& region, const ir::MatmulForm& form,
                                          const ir::SymbolTable& symbols) {
  const ir::ScalarProgram right = in_product_dtype(form.right, product.right);
  const ScalarStep* load = plain_load(right, product.right, true);
  return load != nullptr ? placed_weight(target, product, region, form, *load, symbols)
                         : std::nullopt;
}

// What stands at `place` for column n and depth k < depth; nullopt where that is neither of blocks
// of the depth, as long as a power of two, nor one for all of it. `like`: it is to be of the same
// blocks; null: of any.
std::optional<BlockScales> block_scales(const Dim& place, const ir::MatmulForm& form,
                                        std::int64_t depth, const ir::SymbolTable& symbols,
                                        const BlockScales* like) {
  const auto column = ir::affine_in(place, form.n.variable);
  if (!column || !column->stride.constant()) return std::nullopt;
  const auto at_depth = [&](std::int64_t k) {
    return column->base.substitute(std::map<ir::DimLeaf, Dim>{{form.k.variable, Dim(k)}})
        .constant();
  };
  const auto base = at_depth(0);
  if (!base) return std::nullopt;
  BlockScales scales{.base = *base, .column_stride = *column->stride.constant()};
  constexpr std::int64_t shortest = 8, longest = 4096;
  const auto blocks_of = [&](std::int64_t block) { return (depth + block - 1) / block; };
  if (!column->base.mentions(form.k.variable)) {
    // Long sums round less in pieces.
    constexpr std::int64_t piece = 512;
    scales.block = like != nullptr ? like->block : piece;
    scales.blocks = blocks_of(scales.block);
    return scales;
  }
  for (scales.block = shortest; scales.block <= longest; scales.block *= 2) {
    const auto next = at_depth(scales.block);
    if (!next) return std::nullopt;
    scales.blocks = blocks_of(scales.block);
    if (like != nullptr && like->block != scales.block) continue;
    scales.block_stride = *next - *base;
    const Dim here = Dim(*base) + Dim(scales.block_stride) *
                                      ir::floor_div(Dim::of(form.k.variable), scales.block);
    if (ir::prove_equal(column->base, here, symbols) == ir::Proof::Yes) return scales;
  }
  return std::nullopt;
}

// Whether a weight of i8 is packed in 4 bits.
bool fits_4_bits(const ir::Region& region, const ScalarStep& load, std::int64_t depth) {
  return depth % depths_of_4_bits == 0 &&
         region.is_weight_of_4_bits(static_cast<std::size_t>(load.as<ir::step::Load>().buffer));
}

bool rounds_left(const Target& target, const ir::MatmulForm& form) {
  return form.left_block != 0 && target.byte_dots;
}

// The weight and its scales, where these stand for blocks of the depth.
bool place_scaled(const Target& target, const ir::Region& region, const ir::MatmulForm& form,
                  const ir::SymbolTable& symbols, MatmulOperands& operands) {
  const auto loads = scaled_loads(region, form.right);
  const auto has_another_reader = [&](const ScalarStep* step) {
    return step != nullptr && load_of(*step) != nullptr && !is_only_reader(form, *step);
  };
  if (!loads || form.accumulate != ir::DType::F32 || has_another_reader(loads->scale) ||
      has_another_reader(loads->zeros))
    return false;
  Product product{ir::DType::F32, ir::DType::I8, ir::DType::F32};
  auto weight = placed_weight(target, product, region, form, *loads->integers, symbols);
  if (!weight || !weight->batch.empty()) return false;
  const auto blocks = [&](const ScalarStep& step, const BlockScales* like) {
    const auto* number = std::get_if<ir::step::Constant>(&step.kind);
    auto found = block_scales(number != nullptr ? Dim(0) : offset_of(region, step, symbols), form,
                              weight->depth, symbols, like);
    if (!found) return found;
    if (number == nullptr) found->buffer = step.as<ir::step::Load>().buffer;
    else
      found->number =
          ir::is_float(step.dtype) ? number->real : static_cast<double>(number->integer);
    return found;
  };
  const auto scales = blocks(*loads->scale, nullptr);
  if (!scales) return false;
  const auto vector = static_cast<std::int64_t>(target.lanes(sizeof(float)));
  if (rounds_left(target, form) && form.left_block == scales->block &&
      scales->block % vector == 0 && weight->depth % scales->block == 0) {
    product = rounded_product;
    weight->packed_steps = packed_steps(target, product, weight->depth).constant().value();
  }
  weight->in_4_bits = fits_4_bits(region, *loads->integers, weight->depth);
  if (weight->in_4_bits) weight->packed_steps = weight->depth / depths_of_4_bits;
  if (loads->zeros != nullptr) {
    operands.zeros = blocks(*loads->zeros, &*scales);
    if (!operands.zeros) return false;
  }
  operands.scales = scales;
  operands.product = product;
  operands.weight = std::move(weight);
  return true;
}

// The packed layout's fields in order: depth, columns, base, depth stride, column stride, packed
// steps, then extent and stride of each batch iteration.
constexpr std::size_t fixed_fields = 6;

}  // namespace

bool lies_transposed(const ir::Region& region, const ir::ScalarProgram& program,
                     const ir::Iteration& row, const ir::Iteration& inner,
                     const ir::SymbolTable& symbols) {
  const ScalarStep* load = plain_load(program, program.steps.back().dtype, true);
  if (!load) return false;
  const Dim offset = offset_of(region, *load, symbols);
  const auto along = ir::affine_in(offset, inner.variable),
             across = ir::affine_in(offset, row.variable);
  return along && along->stride.is_constant(1) && !(across && across->stride.is_constant(1));
}

std::optional<RowsInPlace> rows_in_place(const ir::Region& region, const ir::ScalarProgram& program,
                                         ir::DType dtype, const ir::Iteration& row,
                                         const ir::Iteration& inner,
                                         const ir::SymbolTable& symbols) {
  const ScalarStep* load = plain_load(program, dtype, false);
  if (!load) return std::nullopt;
  const auto along = ir::affine_in(offset_of(region, *load, symbols), inner.variable);
  if (!along || !(along->stride.is_constant(1) || inner.extent.is_constant(1)) ||
      mentions_steps(along->base))
    return std::nullopt;
  const auto between = ir::affine_in(along->base, row.variable);
  if (!between) return std::nullopt;
  return RowsInPlace{.buffer = load->as<ir::step::Load>().buffer,
                     .offset = between->base,
                     .row_stride = between->stride};
}

MatmulOperands matmul_operands(const Target& target, const ir::Region& region,
                               const ir::MatmulForm& narrow, const ir::SymbolTable& symbols) {
  const ir::MatmulForm form = widened(narrow);
  const Product product = product_of(target, form.accumulate, form.left, form.right);
  MatmulOperands operands{.product = product,
                          .left = {},
                          .weight = packed_weight(target, product, region, form, symbols),
                          .scales = {},
                          .zeros = {}};
  if (!operands.weight) place_scaled(target, region, form, symbols, operands);
  if (operands.product.rounded()) return operands;  // rows are rounded as they are packed
  // Whole steps are read of each row.
  const auto depth = form.k.extent.constant();
  const std::int64_t whole = packed_steps(target, product, 1).constant().value() * product.depths();
  if (whole == 1 || (depth && *depth % whole == 0))
    operands.left = rows_in_place(region, in_product_dtype(form.left, product.left), product.left,
                                  form.m, form.k, symbols);
  operands.left_panels = !operands.left && !product.in_tiles(target) &&
                         std::ranges::none_of(form.left.steps, [&](const ScalarStep& step) {
                           if (!step.is<ir::step::Load>()) return false;
                           const auto along =
                               ir::affine_in(offset_of(region, step, symbols), form.k.variable);
                           return along && along->stride.is_constant(1);
                         });
  return operands;
}

bool stores_along(const ir::Region& region, const ir::MatmulForm& form,
                  const ir::Iteration& iteration, const ir::SymbolTable& symbols) {
  return !form.stores.empty() && std::ranges::all_of(form.stores, [&](const ir::Store& store) {
    const ir::ValueId result = region.body.body.results.at(static_cast<std::size_t>(store.output));
    const auto along =
        ir::affine_in(ir::linear_offset(store.index, region.body.tensor_type(result).dims, symbols),
                      iteration.variable);
    return along && along->stride.is_constant(1);
  });
}

std::vector<std::size_t> overwritable_parameters(const ir::Region& region,
                                                 const ir::MatmulForm& form,
                                                 const ir::SymbolTable& symbols) {
  const ir::Function& body = region.body;
  if (!form.rows.empty() || form.stores.size() != 1 || body.body.results.size() != 1) return {};
  const ir::Store& store = form.stores.front();
  const ir::TensorType& result = body.tensor_type(body.body.results.front());
  const Dim stored = ir::linear_offset(store.index, result.dims, symbols);
  std::vector<std::size_t> found;
  for (std::size_t parameter = 0; parameter < body.body.parameters.size(); ++parameter) {
    const ir::TensorType& type = body.tensor_type(body.body.parameters[parameter]);
    const auto buffer = static_cast<std::int32_t>(parameter);
    if (type.dtype != result.dtype || ir::product(type.dims) != ir::product(result.dims) ||
        count_loads(form.left, buffer) > 0 || count_loads(form.right, buffer) > 0)
      continue;
    const auto reads_what_is_written = [&](const ir::ScalarStep& step) {
      return !loads(step, buffer) ||
             ir::linear_offset(step.as<ir::step::Load>().index, type.dims, symbols) == stored;
    };
    if (count_loads(form.epilogue, buffer) > 0 &&
        std::ranges::all_of(form.epilogue.steps, reads_what_is_written))
      found.push_back(parameter);
  }
  return found;
}

ir::MatmulForm with_weight_on_the_right(const Target& target, const ir::Region& region,
                                        ir::MatmulForm form, const ir::SymbolTable& symbols) {
  // Turning a tile costs about as much as this many steps of its product; shorter sums are not
  // worth it.
  constexpr std::int64_t shortest = 512;
  const auto depth = form.k.extent.constant(), columns = form.m.extent.constant();
  // Panels that are half empty take as long as full ones, unless rows that they are multiplied with
  // need no packing.
  const bool half_empty =
      columns && 2 * *columns <= panel_columns(Product::of(compute_dtype(form.accumulate))) &&
      !lies_transposed(region, form.right, form.n, form.k, symbols);
  if (!form.rows.empty() || form.gate || !depth ||
      ((*depth < shortest || half_empty) && stores_along(region, form, form.n, symbols)))
    return form;
  ir::MatmulForm turned = form;
  std::swap(turned.m, turned.n);
  std::swap(turned.left, turned.right);
  turned.left_block = 0;
  const auto product = [&](const ir::MatmulForm& either) {
    return product_of(target, compute_dtype(either.accumulate), either.left, either.right);
  };
  if (product(turned).in_tiles(target))
    return form;  // tile registers read rows of the left operand
  const bool weight_right =
      packed_weight(target, product(form), region, widened(form), symbols).has_value();
  return !weight_right && packed_weight(target, product(turned), region, widened(turned), symbols)
             ? turned
             : form;
}

LikelyOperands likely_operands(const Target& target, const ir::Region& region,
                               const ir::MatmulForm& form) {
  Product product = product_of(target, compute_dtype(form.accumulate), form.left, form.right);
  const ScalarStep& left_element = element_of(form.left, product.left);
  const ScalarStep* left = left_element.dtype == product.left ? load_of(left_element) : nullptr;
  const ScalarStep* right =
      load_of(behind_conversion(form.right, element_of(form.right, product.right)));
  bool in_4_bits = false;
  if (const auto scaled = scaled_loads(region, form.right)) {
    if (rounds_left(target, form)) product = rounded_product;
    else product.right = ir::DType::I8;
    right = scaled->integers;
    in_4_bits = fits_4_bits(region, *right, form.k.extent.constant().value_or(1));
  }
  const auto along_depth = [&](const ScalarStep* load) {
    if (load == nullptr) return false;
    const std::vector<Dim>& index = load->as<ir::step::Load>().index;
    if (index.empty()) return false;
    const auto along = ir::affine_in(index.back(), form.k.variable);
    return along && along->stride.is_constant(1);
  };
  const auto stored_along = [&](const ir::Iteration& iteration) {
    return form.rows.empty() && std::ranges::all_of(form.stores, [&](const ir::Store& store) {
             const auto along = store.index.empty()
                                    ? std::nullopt
                                    : ir::affine_in(store.index.back(), iteration.variable);
             return along && along->stride.is_constant(1);
           });
  };
  const bool in_place = !product.rounded() && along_depth(left);
  std::optional<std::int64_t> row;
  if (in_place) {
    const ir::ValueId parameter =
        region.body.body.parameters.at(static_cast<std::size_t>(left->as<ir::step::Load>().buffer));
    row = region.body.tensor_type(parameter).dims.back().constant();
  }
  const auto runs_along_depth = [&](const ScalarStep& step) { return along_depth(load_of(step)); };
  return {.product = product,
          .left_in_place = in_place,
          .left_panels = !in_place && !product.rounded() &&
                         std::ranges::none_of(form.left.steps, runs_along_depth),
          .weight = right != nullptr && is_weight(region, *right),
          .in_4_bits = in_4_bits,
          .turned_results = !stored_along(form.n) && stored_along(form.m),
          .left_stride = row.value_or(0) * static_cast<std::int64_t>(ir::size_of(product.left))};
}

const BlockScales* MatmulOperands::of_blocks(std::size_t parameter) const {
  for (const auto* held : {&scales, &zeros})
    if (*held && !(*held)->number && static_cast<std::size_t>((*held)->buffer) == parameter)
      return &**held;
  return nullptr;
}

PackedWeight weight_of(const BlockScales& scales, std::int64_t columns) {
  PackedWeight weight;
  weight.buffer = scales.buffer;
  weight.packed_steps = weight.depth = scales.blocks;
  weight.columns = columns;
  weight.base = scales.base;
  weight.depth_stride = scales.block_stride;
  weight.column_stride = scales.column_stride;
  return weight;
}

ir::PackedLayout packed_layout(const PackedWeight& weight, const Product& product) {
  ir::PackedLayout layout;
  layout.name = "panels" + std::to_string(panel_columns(product)) + " " +
                (weight.in_4_bits ? "i4" : std::string(ir::name_of(product.right)));
  if (product.scaled() && !weight.in_4_bits) layout.name += " alone";  // a step is one of them
  layout.fields = {weight.depth,        weight.columns,       weight.base,
                   weight.depth_stride, weight.column_stride, weight.packed_steps};
  for (std::size_t i = 0; i < weight.batch.size(); ++i) {
    layout.fields.push_back(weight.batch_extents[i]);
    layout.fields.push_back(weight.batch_strides[i]);
  }
  return layout;
}

namespace {

// The weights of a batch point after the other: where their elements begin.
std::vector<std::int64_t> bases_of(const ir::PackedLayout& layout) {
  std::vector<std::int64_t> bases{layout.fields[2]};
  for (std::size_t field = fixed_fields; field < layout.fields.size(); field += 2) {
    std::vector<std::int64_t> next;
    for (const std::int64_t base : bases) {
      for (std::int64_t i = 0; i < layout.fields[field]; ++i)
        next.push_back(base + i * layout.fields[field + 1]);
    }
    bases = std::move(next);
  }
  return bases;
}

// visit(step, place in it, element of the weight, columns) for each depth of each panel, of the
// panel's first column; steps of `depths` depths are numbered column by column of panels of so
// many.
void for_depths(const ir::PackedLayout& layout, std::int64_t panel, std::int64_t depths,
                const auto& visit) {
  const std::int64_t depth = layout.fields[0], columns = layout.fields[1];
  const std::int64_t depth_stride = layout.fields[3], column_stride = layout.fields[4],
                     steps = layout.fields[5];
  std::int64_t place = 0;
  for (const std::int64_t base : bases_of(layout)) {
    for (std::int64_t first = 0; first < columns; first += panel) {
      for (std::int64_t k = 0; k < depth; ++k)
        visit(place + k / depths * panel, k % depths,
              base + k * depth_stride + first * column_stride, std::min(panel, columns - first));
      place += steps * panel;
    }
  }
}

std::vector<std::int64_t> packed_dims(const ir::PackedLayout& layout, std::int64_t panel,
                                      std::int64_t depths) {
  std::vector<std::int64_t> dims;
  for (std::size_t field = fixed_fields; field < layout.fields.size(); field += 2)
    dims.push_back(layout.fields[field]);
  dims.insert(dims.end(), {(layout.fields[1] + panel - 1) / panel, layout.fields[5], panel});
  if (depths != 1) dims.push_back(depths);
  return dims;
}

// Eight elements of i8, the first lowest, in 4 bits each.
std::uint32_t in_4_bits(std::uint64_t elements) {
  constexpr std::uint64_t low_halves = 0x0f0f0f0f;
  return static_cast<std::uint32_t>((elements & low_halves) | (elements >> 32 & low_halves) << 4);
}
// Whether one of them is not from -8 to 7.
bool is_beyond_4_bits(std::uint64_t elements) {
  constexpr std::uint64_t signs = 0x8080808080808080, eights = 0x0808080808080808,
                          high_halves = 0xf0f0f0f0f0f0f0f0;
  const std::uint64_t raised = ((elements & ~signs) + eights) ^ (elements & signs);
  return (raised & high_halves) != 0;
}

ir::Tensor pack_4_bits(const ir::PackedLayout& layout, std::int64_t panel, const ir::Tensor& weight,
                       const ir::Backend::Allocate& allocate) {
  constexpr std::int64_t bytes = depths_of_4_bits / 2;
  ir::Tensor packed = allocate(ir::DType::U8, packed_dims(layout, panel, bytes));
  const auto from = weight.as<std::int8_t>();
  const auto to = packed.mutable_bytes();
  const std::int64_t depth_stride = layout.fields[3], column_stride = layout.fields[4];
  bool beyond = false;
  for_depths(
      layout, panel, depths_of_4_bits,
      [&](std::int64_t step, std::int64_t within, std::int64_t source, std::int64_t columns) {
        if (within != 0) return;
        for (std::int64_t c = 0; c < columns; ++c) {
          std::uint64_t elements = 0;
          for (std::int64_t i = 0; i < depths_of_4_bits; ++i) {
            const std::int64_t at = source + c * column_stride + i * depth_stride;
            const auto element = static_cast<std::uint8_t>(from[static_cast<std::size_t>(at)]);
            elements |= std::uint64_t{element} << (8 * i);
          }
          beyond |= is_beyond_4_bits(elements);
          const std::uint32_t word = in_4_bits(elements);
          std::memcpy(to.data() + (step + c) * bytes, &word, sizeof(word));
        }
      });
  if (!beyond) return packed;
  const auto found = std::ranges::find_if(from, [](int x) { return x < -8 || x > 7; });
  throw Error(ErrorKind::Malformed, "a weight that is i4 has element {} at {}; expected -8 to 7",
              static_cast<int>(*found), found - from.begin());
}

}  // namespace

ir::Tensor pack_weight(const ir::PackedLayout& layout, const Product& product,
                       const ir::Tensor& weight, const ir::Backend::Allocate& allocate,
                       bool in_4_bits) {
  internal_check(
      layout.fields.size() >= fixed_fields && layout.fields.size() % 2 == fixed_fields % 2,
      "a packed layout made by packed_layout");
  const std::int64_t panel = panel_columns(product), depths = product.depths();
  if (in_4_bits) return pack_4_bits(layout, panel, weight, allocate);
  const ir::DType dtype = product.right;
  ir::Tensor packed = allocate(dtype, packed_dims(layout, panel, depths));
  const std::int64_t column_stride = layout.fields[4];
  const auto pack = [&](const auto& copy) {
    for_depths(
        layout, panel, depths,
        [&](std::int64_t step, std::int64_t within, std::int64_t source, std::int64_t columns) {
          for (std::int64_t c = 0; c < columns; ++c)
            copy((step + c) * depths + within, source + c * column_stride);
        });
  };
  const auto pack_from = [&]<typename From, typename To>(From, To) {
    const auto from = weight.as<From>();
    const auto to = packed.mutable_as<To>();
    pack([&](std::int64_t place, std::int64_t source) {
      to[static_cast<std::size_t>(place)] = static_cast<To>(from[static_cast<std::size_t>(source)]);
    });
  };
  if (dtype == weight.dtype() && dtype == ir::DType::F32) {
    pack_from(float{}, float{});
  } else if (dtype == weight.dtype() && dtype == ir::DType::BF16) {
    pack_from(std::uint16_t{}, std::uint16_t{});
  } else if (weight.dtype() == ir::DType::I8 && dtype == ir::DType::I8) {
    pack_from(std::int8_t{}, std::int8_t{});
  } else if (weight.dtype() == ir::DType::I8 && dtype == ir::DType::I16) {
    pack_from(std::int8_t{}, std::int16_t{});
  } else if (weight.dtype() == ir::DType::I8 && product.rounded()) {
    const auto from = weight.as<std::int8_t>();
    const auto to = packed.mutable_as<std::uint8_t>();
    pack([&](std::int64_t place, std::int64_t source) {
      to[static_cast<std::size_t>(place)] =
          static_cast<std::uint8_t>(from[static_cast<std::size_t>(source)] + offset_of_bytes);
    });
  } else if (ir::is_float(dtype)) {
    pack([&](std::int64_t place, std::int64_t source) {
      packed.set_real(place, weight.real_at(source));
    });
  } else {
    pack([&](std::int64_t place, std::int64_t source) {
      packed.set_integer(place, weight.integer_at(source));
    });
  }
  return packed;
}

}  // namespace anydim::codegen_cpu
