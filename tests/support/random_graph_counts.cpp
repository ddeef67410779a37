#include "tests/support/random_graph_builder.h"

namespace anydim::tests::random_graphs {

// What a mask, or what is not zero, leaves of a tensor: as positions, as coordinates, as slices.
void Builder::chosen() {
  switch (below(4)) {
    case 0: {
      ValueId x = any_numbers();
      auto found = apply(Op::nonzero, {x});
      if (found && chance(60)) apply(Op::gather_nd, {x, must(Op::transpose, {*found})});
      break;
    }
    case 1: emit({.op = Op::compact, .operands = {any(DType::Bool)}}, 2); break;
    default: {
      ValueId x = any_numbers();
      const bool whole = rank(x) == 0 || chance(25);
      const std::int64_t axis = whole ? 0 : axis_of(x);
      const Dim extent = whole ? product(type(x).dims)
                               : type(x).dims[static_cast<std::size_t>(
                                     axis < 0 ? axis + static_cast<std::int64_t>(rank(x)) : axis)];
      auto masks = values_of([&](const TensorType& found) {
        return found.dtype == DType::Bool && found.rank() == 1 && found.dims[0] == extent;
      });
      Attributes attributes;
      if (!whole) attributes.emplace("axis", axis);
      auto rows =
          apply(Op::compress, {x, masks.empty() || chance(30) ? mask_of(extent) : pick(masks)},
                attributes);
      if (rows && chance(40)) apply(Op::add, {*rows, partner(*rows)});
    }
  }
}

// A bool vector of this extent, or of one less where that is a constant: the rest is not chosen.
ValueId Builder::mask_of(const Dim& extent) {
  if (auto constant = extent.constant()) {
    const std::int64_t count = *constant > 0 && chance(20) ? *constant - 1 : *constant;
    return this->constant(random_tensor(DType::Bool, {count}, 0, 2));
  }
  if (extent.kind() == Dim::Kind::Symbol && !mentions_unbacked(extent) && chance(50))
    return add_parameter(TensorType{DType::Bool, {extent}});
  ValueId range =
      must(Op::dyn_arange, {constant(Tensor::of(DType::I64, {}, Integers{0})),
                            must(Op::reshape, {one_extent(extent)}, {{"shape", Integers{}}}),
                            constant(Tensor::of(DType::I64, {}, Integers{1}))});
  return must(
      Op::equal,
      {must(Op::mod,
            {range, constant(Tensor::of(DType::I64, {},
                                        Integers{2 + static_cast<std::int64_t>(below(2))}))}),
       constant(Tensor::of(DType::I64, {}, Integers{1}))});
}

void Builder::different() {
  ValueId x = any_numbers();
  // Few different numbers, most of the time.
  if (is_float(type(x).dtype) && chance(60)) x = must(Op::round, {x});
  Attributes attributes{{"sorted", static_cast<std::int64_t>(below(2))}};
  if (rank(x) > 0 && chance(50)) attributes.emplace("axis", axis_of(x));
  auto results = emit({.op = Op::unique, .operands = {x}, .attributes = attributes}, 4);
  if (results && chance(40))
    apply(Op::reduce_sum, {results->back()}, {{"keepdims", std::int64_t{1}}});
}

void Builder::sorted_positions() {
  ValueId x = any_numbers();
  if (rank(x) == 0) return;
  Attributes attributes{{"axis", axis_of(x)}, {"descending", static_cast<std::int64_t>(below(2))}};
  const bool slices = chance(30);
  if (slices) attributes.emplace("slices", std::int64_t{1});
  std::vector<ValueId> operands{x};
  if (chance(40)) operands.push_back(literal(Op::dim, {min(random_dim(), 2)}));
  auto order = apply(Op::argsort, operands, attributes);
  if (order && chance(50))
    apply(slices ? Op::gather : Op::gather_elements, {x, *order},
          {{"axis", attributes.at("axis")}});
}

// Boxes along some extent, whose scores are numbers of an input.
void Builder::boxes() {
  const Dim count = random_dim();
  const std::int64_t batches = 1 + static_cast<std::int64_t>(below(2)),
                     classes = 1 + static_cast<std::int64_t>(below(2));
  const DType dtype = chance(80) ? DType::F32 : DType::F64;
  auto real = [&](double number) {
    Tensor tensor(dtype, {});
    tensor.set_real(0, number);
    return constant(tensor);
  };
  const bool centred = chance(50);
  ValueId corners = add_parameter(TensorType{dtype, {batches, count, 4}});
  if (centred) corners = must(Op::abs, {corners});  // a box of negative width is none
  std::vector<ValueId> operands{corners,
                                add_parameter(TensorType{dtype, {batches, classes, count}})};
  operands.push_back(chance(50) ? literal(Op::dim, {random_dim()})
                                : constant(Tensor::of(DType::I64, {}, Integers{2})));
  operands.push_back(real(0.3));
  if (chance(50)) operands.push_back(real(-0.5));
  auto found =
      apply(Op::non_max_suppression, operands, {{"center_point_box", std::int64_t{centred}}});
  if (found && chance(50)) apply(Op::gather, {*found, integers({2})}, {{"axis", std::int64_t{1}}});
}

}  // namespace anydim::tests::random_graphs
