#include "tests/support/random_graph_builder.h"

namespace anydim::tests::random_graphs {

void Builder::add_something() {
  try {
    static constexpr void (Builder::* steps[])() = {
        &Builder::unary,           &Builder::binary,
        &Builder::binary,          &Builder::selection,
        &Builder::reshape,         &Builder::reshape,
        &Builder::transpose,       &Builder::expand,
        &Builder::broadcast,       &Builder::slice,
        &Builder::slice,           &Builder::concat,
        &Builder::split,           &Builder::tile,
        &Builder::triangle,        &Builder::gather,
        &Builder::gather,          &Builder::reduce,
        &Builder::reduce,          &Builder::softmax,
        &Builder::layer_norm,      &Builder::matmul,
        &Builder::matmul,          &Builder::attention,
        &Builder::written_gelu,    &Builder::written_layer_norm,
        &Builder::written_softmax, &Builder::written_attention,
        &Builder::side_by_side,    &Builder::counted,
        &Builder::integer_work,    &Builder::from_elements,
        &Builder::place,           &Builder::order,
        &Builder::windows,         &Builder::quantised_products,
        &Builder::scaled_product,  &Builder::gated_product,
        &Builder::convolutions};
    static constexpr void (Builder::* more_steps[])() = {&Builder::any_elementwise,
                                                         &Builder::any_elementwise,
                                                         &Builder::filled,
                                                         &Builder::views_by_tensors,
                                                         &Builder::places_by_tensors,
                                                         &Builder::reductions_by_tensors,
                                                         &Builder::resized,
                                                         &Builder::largest,
                                                         &Builder::segments,
                                                         &Builder::demands,
                                                         &Builder::bound_count,
                                                         &Builder::chosen,
                                                         &Builder::chosen,
                                                         &Builder::different,
                                                         &Builder::sorted_positions,
                                                         &Builder::boxes,
                                                         &Builder::conditional,
                                                         &Builder::repetition,
                                                         &Builder::function_call,
                                                         &Builder::tuples,
                                                         &Builder::lists};
    if (options_.whole_language && chance(35)) (this->*more_steps[below(std::size(more_steps))])();
    else (this->*steps[below(std::size(steps))])();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::Internal) throw;
  }
}

void Builder::unary() {
  static const std::vector<Op> ops{Op::abs,  Op::neg,   Op::relu,      Op::tanh,      Op::sigmoid,
                                   Op::erf,  Op::gelu,  Op::gelu_tanh, Op::sin,       Op::exp,
                                   Op::sqrt, Op::floor, Op::sign,      Op::reciprocal};
  ValueId x = any(DType::F32);
  if (chance(15))
    apply(Op::cast, {x}, {{"to", pick(std::vector<DType>{DType::F64, DType::I64, DType::F32})}});
  else apply(pick(ops), {x});
}

void Builder::binary() {
  static const std::vector<Op> ops{Op::add, Op::sub, Op::mul,  Op::min,           Op::max,
                                   Op::add, Op::div, Op::less, Op::greater_equal, Op::equal};
  ValueId x = any(DType::F32), y = partner(x);
  if (chance(50)) std::swap(x, y);
  apply(pick(ops), {x, y});
}

void Builder::integer_work() {
  static const std::vector<Op> ops{Op::add,  Op::sub,        Op::mul,    Op::min,
                                   Op::max,  Op::div,        Op::mod,    Op::equal,
                                   Op::less, Op::less_equal, Op::greater};
  ValueId x = any(DType::I64);
  if (chance(20)) {
    apply(Op::cast, {x},
          {{"to", pick(std::vector<DType>{DType::F32, DType::Bool, DType::I32, DType::F64})}});
  } else {
    apply(pick(ops), {x, partner(x)});
  }
}

void Builder::selection() {
  if (chance(30)) {
    ValueId a = any(DType::Bool);
    if (chance(30)) apply(Op::logical_not, {a});
    else
      apply(pick(std::vector<Op>{Op::logical_and, Op::logical_or, Op::logical_xor}),
            {a, partner(a)});
    return;
  }
  ValueId x = any(DType::F32);
  apply(Op::where, {any(DType::Bool), x, partner(x)});
}

void Builder::reshape() {
  ValueId x = any_value();
  const std::vector<Dim> dims = type(x).dims;
  if (chance(15)) {
    apply(Op::flatten, {x}, {{"axis", static_cast<std::int64_t>(below(rank(x) + 1))}});
    return;
  }
  // Joins neighbours, splits 4 and 6, adds ones.
  std::vector<Dim> wanted;
  for (const Dim& dim : dims) {
    if (!wanted.empty() && chance(35)) {
      wanted.back() = wanted.back() * dim;
    } else if ((dim.is_constant(4) || dim.is_constant(6)) && chance(50)) {
      wanted.emplace_back(2);
      wanted.emplace_back(*dim.constant() / 2);
    } else {
      wanted.push_back(dim);
    }
    if (chance(10)) wanted.emplace_back(1);
  }
  if (wanted.size() > 5) return;
  Attributes attributes;
  std::vector<Dim> asked = wanted;
  if (!asked.empty() && chance(40)) asked[below(asked.size())] = -1;
  else if (!asked.empty() && chance(20) && asked.size() <= dims.size()) {
    std::size_t at = below(asked.size());
    // A symbol that is 0 copies too: it must stand where it comes from.
    bool in_place =
        std::equal(asked.begin(), asked.end(), dims.begin(),
                   [](const Dim& a, const Dim& b) { return a.is_constant() || a == b; });
    if (asked[at] == dims[at] && in_place) {
      asked[at] = 0;
      attributes.emplace("zero_copies", std::int64_t{1});
    }
  }
  apply(Op::dyn_reshape, {x, shape_value(asked)}, attributes);
}

void Builder::transpose() {
  ValueId x = any_value(1);
  Integers perm;
  for (std::size_t i = 0; i < rank(x); ++i) perm.push_back(static_cast<std::int64_t>(i));
  for (std::size_t i = perm.size(); i-- > 1;) std::swap(perm[i], perm[below(i + 1)]);
  if (chance(10)) apply(Op::transpose, {x});
  else apply(Op::transpose, {x}, {{"perm", perm}});
}

void Builder::expand() {
  ValueId x = any_value();
  if (chance(40)) {
    Integers axes;
    for (std::size_t i = 0; i < rank(x); ++i)
      if (type(x).dims[i].is_constant(1) && chance(70))
        axes.push_back(static_cast<std::int64_t>(i));
    apply(Op::squeeze, {x}, {{"axes", axes}});
    return;
  }
  if (rank(x) > 3) return;
  Integers axes{axis_of(x, true)};
  if (chance(70)) apply(Op::expand_dims, {x}, {{"axes", axes}});
  else apply(Op::dyn_expand_dims, {x, integers(axes)});
}

void Builder::broadcast() {
  ValueId x = any_value();
  std::vector<Dim> wanted = type(x).dims;
  for (Dim& dim : wanted)
    if (dim.is_constant(1) && chance(60)) dim = random_dim();
  if (wanted.size() < 4 && chance(40)) wanted.insert(wanted.begin(), random_dim());
  if (chance(15)) apply(Op::dyn_full, {number(1.5), shape_value(wanted)});
  else apply(Op::dyn_broadcast_to, {x, shape_value(wanted)});
}

void Builder::slice() {
  ValueId x = any_value(1);
  std::int64_t axis = axis_of(x);
  auto at = [&]() -> std::int64_t {
    static const Integers bounds{0, 1, 2, 3, -1, -2, 5, 1000, -1000};
    return pick(bounds);
  };
  std::int64_t step = pick(Integers{1, 1, 1, 2, 3, -1, -2});
  if (chance(50)) {
    Attributes attributes{
        {"starts", Integers{at()}}, {"ends", Integers{at()}}, {"axes", Integers{axis}}};
    if (step != 1) attributes.emplace("steps", Integers{step});
    apply(Op::strided_slice, {x}, attributes);
    return;
  }
  ValueId end = chance(50) ? one_extent(random_dim()) : integers({at()});
  apply(Op::dyn_strided_slice, {x, integers({at()}), end, integers({axis}), integers({step})});
}

void Builder::concat() {
  ValueId x = any_value(1);
  std::int64_t axis = axis_of(x);
  std::size_t at =
      static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank(x)) : axis);
  const TensorType mine = type(x);
  auto fitting = values_of([&](const TensorType& found) {
    if (found.dtype != mine.dtype || found.rank() != mine.rank()) return false;
    for (std::size_t i = 0; i < mine.rank(); ++i)
      if (i != at && !(found.dims[i] == mine.dims[i])) return false;
    return true;
  });
  std::vector<ValueId> operands{x};
  for (std::size_t i = 0, more = 1 + below(2); i < more; ++i) operands.push_back(pick(fitting));
  apply(Op::concat, operands, {{"axis", axis}});
}

void Builder::split() {
  ValueId x = any_value(1);
  std::int64_t axis = axis_of(x);
  std::size_t at =
      static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank(x)) : axis);
  Binding binding{.op = Op::split, .operands = {x}, .attributes = {{"axis", axis}}};
  auto extent = type(x).dims[at].constant();
  if (extent && *extent > 1 && chance(50))
    binding.attributes.emplace("sizes", Integers{1, *extent - 1});
  emit(binding, 2);
}

void Builder::tile() {
  ValueId x = any_value(1);
  Integers repeats;
  for (std::size_t i = 0; i < rank(x); ++i)
    repeats.push_back(static_cast<std::int64_t>(below(3)) + (chance(80) ? 1 : 0));
  if (chance(50)) {
    apply(Op::tile, {x}, {{"repeats", repeats}});
  } else {
    std::vector<Dim> dims(repeats.begin(), repeats.end());
    if (chance(40)) dims[0] = random_dim();
    apply(Op::dyn_tile, {x, shape_value(dims)});
  }
}

void Builder::triangle() {
  ValueId x = any(DType::F32, 2);
  std::int64_t k = static_cast<std::int64_t>(below(5)) - 2;
  Attributes attributes{{"upper", static_cast<std::int64_t>(below(2))}};
  if (chance(50)) {
    attributes.emplace("k", k);
    apply(Op::trilu, {x}, attributes);
  } else {
    apply(Op::dyn_trilu, {x, constant(Tensor::of(DType::I64, {}, Integers{k}))}, attributes);
  }
}

void Builder::gather() {
  ValueId x = any_value(1);
  ValueId indices =
      chance(50) ? any(DType::I64) : integers({static_cast<std::int64_t>(below(3)), -1});
  Attributes axis{{"axis", axis_of(x)}};
  switch (below(4)) {
    case 0: apply(Op::gather_elements, {x, indices}, axis); break;
    case 1: {
      Integers pairs;
      for (int i = 0; i < 6; ++i) pairs.push_back(static_cast<std::int64_t>(below(2)));
      apply(Op::gather_nd,
            {x, constant(
                    Tensor::of(DType::I64, chance(50) ? Integers{3, 2} : Integers{6, 1}, pairs))});
      break;
    }
    default: apply(Op::gather, {x, indices}, axis);
  }
}

// Ops that place elements where attributes or operands say.
void Builder::place() {
  ValueId x = any(DType::F32, 1);
  const std::int64_t axis = axis_of(x);
  switch (below(6)) {
    case 0: {
      static const std::vector<std::string> modes{"constant", "edge", "reflect", "wrap"};
      Attributes attributes{{"before", Integers{static_cast<std::int64_t>(below(4)) - 1}},
                            {"after", Integers{static_cast<std::int64_t>(below(3))}}};
      attributes.emplace("axes", Integers{axis});
      attributes.emplace("mode", pick(modes));
      apply(Op::pad, {x}, attributes);
      break;
    }
    case 1:
      apply(Op::repeat, {x}, {{"repeats", static_cast<std::int64_t>(below(4))}, {"axis", axis}});
      break;
    case 2:
      apply(Op::one_hot, {any(DType::I64), number(0), number(1)},
            {{"depth", static_cast<std::int64_t>(below(5))}});
      break;
    case 3: {
      const auto start = static_cast<std::int64_t>(below(2));
      const ValueId update = must(Op::strided_slice, {x},
                                  {{"starts", Integers{1}},
                                   {"ends", Integers{static_cast<std::int64_t>(1 + below(3))}},
                                   {"axes", Integers{axis}}});
      if (chance(50)) apply(Op::overwrite, {x, update}, {{"axis", axis}, {"start", start}});
      else
        apply(Op::dyn_overwrite, {x, update, constant(Tensor::of(DType::I64, {}, Integers{start}))},
              {{"axis", axis}});
      break;
    }
    default: {
      ValueId indices = integers({static_cast<std::int64_t>(below(2)), 0});
      ValueId data = must(Op::reshape, {x}, {{"shape", Integers{-1}}});
      static const std::vector<std::string> reductions{"none", "add", "max", "min"};
      apply(Op::scatter_elements, {data, indices, constant(random_tensor(DType::F32, {2}, 0, 1))},
            {{"reduction", pick(reductions)}});
    }
  }
}

// Windows of what is padded until they fit, and what convolutions and pooling make of them.
void Builder::windows() {
  ValueId x = any(DType::F32, 1);
  const std::size_t count = rank(x) > 1 && chance(40) ? 2 : 1;
  Integers axes, sizes, strides, dilations, before, after, last;
  for (std::size_t i = 0; i < count; ++i) {
    const auto number = [&](std::size_t most) {
      return 1 + static_cast<std::int64_t>(below(most));
    };
    axes.push_back(static_cast<std::int64_t>(rank(x) - count + i));
    sizes.push_back(number(4));
    strides.push_back(number(3));
    dilations.push_back(number(2));
    before.push_back(static_cast<std::int64_t>(below(3)));
    after.push_back(dilations[i] * (sizes[i] - 1) + 1);
    last.push_back(static_cast<std::int64_t>(rank(x) + i));
  }
  if (chance(80)) x = must(Op::pad, {x}, {{"before", before}, {"after", after}, {"axes", axes}});
  Attributes attributes{{"axes", axes}};
  if (chance(70)) attributes.emplace("strides", strides);
  if (chance(50)) attributes.emplace("dilations", dilations);
  std::optional<ValueId> found;
  if (chance(60)) {
    attributes.emplace("sizes", sizes);
    found = apply(Op::windows, {x}, attributes);
  } else {
    found = apply(Op::dyn_windows, {x, integers_from_somewhere(sizes)}, attributes);
  }
  if (!found) return;
  static const std::vector<Op> pools{Op::reduce_sum, Op::reduce_mean, Op::reduce_max};
  const auto depth = type(*found).dims.back().constant();
  if (chance(40)) {
    apply(pick(pools), {*found}, {{"axes", last}});
  } else if (depth && *depth > 0 && chance(50)) {
    apply(Op::matmul, {*found, constant(random_tensor(DType::F32, {*depth, 3}, -1, 1))});
  } else if (depth && *depth > 0) {
    Integers order;
    for (std::size_t i = 0; i < rank(*found); ++i) order.push_back(static_cast<std::int64_t>(i));
    std::swap(order[order.size() - 2], order.back());
    ValueId turned = must(Op::transpose, {*found}, {{"perm", order}});
    apply(Op::matmul, {constant(random_tensor(DType::F32, {3, *depth}, -1, 1)), turned});
  }
}

// Ops that look at the order of elements along an axis.
void Builder::order() {
  ValueId x = any(DType::F32, 1);
  const std::int64_t axis = axis_of(x);
  switch (below(3)) {
    case 0: {
      Attributes attributes{{"axis", axis},
                            {"exclusive", static_cast<std::int64_t>(below(2))},
                            {"reverse", static_cast<std::int64_t>(below(2))}};
      auto sums = apply(Op::cumulative_sum, {x}, attributes);
      if (sums && chance(40)) apply(Op::mul, {*sums, number(0.5)});
      break;
    }
    case 1:
      apply(chance(50) ? Op::arg_max : Op::arg_min, {x},
            {{"axis", axis}, {"keepdims", static_cast<std::int64_t>(below(2))}});
      break;
    default: apply(Op::cumulative_sum, {any(DType::I64, 1)}, {{"axis", std::int64_t{0}}});
  }
}

void Builder::reduce() {
  static const std::vector<Op> ops{Op::reduce_sum, Op::reduce_mean, Op::reduce_max, Op::reduce_min,
                                   Op::reduce_prod};
  ValueId x = chance(85) ? any(DType::F32) : any(DType::I64);
  Attributes attributes{{"keepdims", static_cast<std::int64_t>(below(2))}};
  Integers axes;
  for (std::size_t i = 0; i < rank(x); ++i)
    if (chance(50))
      axes.push_back(chance(20) ? static_cast<std::int64_t>(i) - static_cast<std::int64_t>(rank(x))
                                : static_cast<std::int64_t>(i));
  if (chance(25)) apply(Op::dyn_reduce_sum, {x, integers(axes)}, attributes);
  if (!axes.empty()) attributes.emplace("axes", axes);
  apply(pick(ops), {x}, attributes);
}

void Builder::softmax() {
  ValueId x = any(DType::F32, 1);
  apply(chance(70) ? Op::softmax : Op::log_softmax, {x}, {{"axis", axis_of(x)}});
}

void Builder::layer_norm() {
  ValueId x = any(DType::F32, 1);
  auto last = type(x).dims.back().constant();
  if (!last) return;
  std::vector<ValueId> operands{x, constant(random_tensor(DType::F32, {*last}, 0, 1))};
  if (chance(60)) operands.push_back(constant(random_tensor(DType::F32, {*last}, 0, 1)));
  apply(Op::layer_norm, operands, {{"axis", std::int64_t{-1}}, {"epsilon", 0.01}});
}

ValueId Builder::weight(ValueId x, std::int64_t columns) {
  auto last = type(x).dims.back().constant();
  if (!last) throw Error(ErrorKind::Inputs, "given up");
  if (chance(30))
    return must(Op::transpose, {constant(random_tensor(DType::F32, {columns, *last}, 0, 1))},
                {{"perm", Integers{1, 0}}});
  return constant(random_tensor(DType::F32, {*last, columns}, 0, 1));
}

void Builder::matmul() {
  ValueId x = any(DType::F32, 1);
  if (chance(60)) {
    auto p = apply(Op::matmul, {x, weight(x, chance(50) ? 6 : 4)});
    if (p && chance(60)) p = apply(Op::add, {*p, partner(*p)});
    if (p && chance(40))
      p = apply(pick(std::vector<Op>{Op::gelu, Op::relu, Op::tanh, Op::softmax}), {*p});
    if (p && chance(40)) p = apply(Op::add, {partner(*p), *p});
    return;
  }
  apply(Op::matmul, {x, any(DType::F32, 1)});
}

void Builder::side_by_side() {
  ValueId x = any(DType::F32, 1);
  bool added = chance(60);
  for (std::size_t i = 0, count = 2 + below(2); i < count; ++i) {
    ValueId p = must(Op::matmul, {x, weight(x, 4)});
    if (added) must(Op::add, {p, constant(random_tensor(DType::F32, {4}, 0, 1))});
  }
}

void Builder::counted() {
  ValueId start =
      constant(Tensor::of(DType::I64, {}, Integers{static_cast<std::int64_t>(below(3))}));
  ValueId stop = literal(Op::dim, {random_dim()});
  ValueId step =
      constant(Tensor::of(DType::I64, {}, Integers{1 + static_cast<std::int64_t>(below(2))}));
  apply(Op::dyn_arange, {start, stop, step});
}

// A shape that elements of an input or of a computed tensor decide.
void Builder::from_elements() {
  ValueId x = any(DType::F32, 1);
  std::vector<Dim> dims = type(x).dims;
  ValueId shape = shape_value(dims);
  if (chance(50)) {
    // An input with the right elements for every call.
    std::vector<Integers> lists;
    for (std::size_t call = 0; call < calls_.size(); ++call) {
      lists.emplace_back();
      for (const Dim& dim : dims) lists.back().push_back(value(call, dim));
      if (!lists.back().empty() && chance(30)) lists.back().back() = -1;
    }
    shape = input_of(lists);
    // Computed from an input: the host must fetch it.
    if (chance(50)) {
      ValueId zeros =
          must(Op::cast, {must(Op::cast, {shape}, {{"to", DType::F32}})}, {{"to", DType::I64}});
      shape = zeros;
    }
  }
  auto result = apply(Op::dyn_reshape, {x, shape});
  if (result && chance(60)) result = apply(Op::add, {*result, number(1)});
  if (result && chance(30)) apply(Op::reduce_sum, {*result}, {{"axes", Integers{0}}});
}

void Builder::choose_results() {
  std::vector<bool> read(function_.values.size(), false);
  for (const Binding& binding : function_.body.bindings)
    for (ValueId operand : binding.operands)
      if (operand != no_value) read[operand] = true;
  std::vector<ValueId> results;
  for (const Binding& binding : function_.body.bindings)
    for (ValueId result : binding.results)
      if (!function_.values[result].type.is_tensor()) continue;
      else if (!read[result] ? results.size() < 4 : chance(6)) results.push_back(result);
  if (results.empty()) results.push_back(function_.body.parameters[0]);
  if (chance(5)) results.push_back(results[0]);
  for (ValueId result : results) {
    if (function_.name == "main" && chance(8)) {
      const ValueId dropped = function_.add_value("dropped");
      function_.body.bindings.push_back(
          {.op = Op::drop_ones, .operands = {result}, .results = {dropped}});
      result = dropped;
    }
    function_.body.results.push_back(result);
    function_.result_names.push_back("out" + std::to_string(function_.result_names.size()));
  }
}

}  // namespace anydim::tests::random_graphs

namespace anydim::tests {

RandomGraph random_graph(std::uint64_t seed, const RandomGraphOptions& options) {
  return random_graphs::Builder(seed, options).build();
}

}  // namespace anydim::tests
