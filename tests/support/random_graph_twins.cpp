#include "tests/support/random_graph_builder.h"

namespace anydim::tests::random_graphs {

// A new parameter with these elements, by call.
ValueId Builder::input_of(const std::vector<Integers>& elements) {
  if (!takes_parameters_) throw Error(ErrorKind::Inputs, "given up");
  const auto count = static_cast<std::int64_t>(elements.front().size());
  ValueId id = function_.add_value("k" + std::to_string(function_.values.size()),
                                   TensorType{DType::I64, {Dim(count)}});
  function_.body.parameters.push_back(id);
  for (std::size_t call = 0; call < calls_.size(); ++call)
    tensors_[call].emplace(id, Tensor::of(DType::I64, {count}, elements[call]));
  know(id, {}, true);
  return id;
}

// The list as a constant, as an input, or as something computed from one.
ValueId Builder::integers_from_somewhere(const Integers& list) {
  if (chance(50)) return integers(list);
  ValueId given = input_of(std::vector<Integers>(calls_.size(), list));
  if (chance(50)) return given;
  return must(Op::cast, {must(Op::cast, {given}, {{"to", DType::F32}})}, {{"to", DType::I64}});
}

ValueId Builder::any_numbers() {
  auto list = values_of([](const TensorType&) { return true; });
  if (list.empty()) throw Error(ErrorKind::Inputs, "given up");
  return chance(50) ? list[list.size() - 1 - below(std::min<std::size_t>(3, list.size()))]
                    : pick(list);
}

// Any elementwise op of the table, on whatever its rule takes.
void Builder::any_elementwise() {
  static const std::vector<Op> ops = [] {
    std::vector<Op> list;
    for (const OpInfo& row : all_ops())
      if (row.has(traits::elementwise)) list.push_back(row.op);
    return list;
  }();
  const Op op = pick(ops);
  ValueId x = any_numbers();
  if (op == Op::where) {
    apply(op, {any(DType::Bool), x, partner(x)});
  } else if (op == Op::cast) {
    apply(op, {x}, {{"to", chance(40) ? DType::F32 : any_dtype()}});
  } else if (op == Op::bitcast) {
    apply(op, {x}, {{"to", any_dtype()}});
  } else if (info(op).maximum_operands == 1) {
    apply(op, {x});
  } else {
    Attributes attributes;
    if (op == Op::mod && chance(50)) attributes.emplace("truncate", std::int64_t{1});
    ValueId y = partner(x);
    if (chance(50)) std::swap(x, y);
    apply(op, {x, y}, attributes);
  }
}

void Builder::filled() {
  const DType dtype = chance(50) ? DType::F32 : any_dtype();
  Integers shape;
  for (std::size_t i = 0, rank = below(4); i < rank; ++i)
    shape.push_back(pick(Integers{0, 1, 2, 4, 6}));
  std::vector<Dim> dims;
  for (std::size_t i = 0, rank = below(4); i < rank; ++i) dims.push_back(random_dim());
  switch (below(7)) {
    case 0: apply(Op::full, {number(1.5)}, {{"shape", shape}}); break;
    case 1: apply(Op::zeros, {}, {{"shape", shape}, {"dtype", dtype}}); break;
    case 2: apply(Op::ones, {}, {{"shape", shape}, {"dtype", dtype}}); break;
    case 3: apply(Op::dyn_zeros, {shape_value(dims)}, {{"dtype", dtype}}); break;
    case 4: apply(Op::dyn_ones, {shape_value(dims)}, {{"dtype", dtype}}); break;
    case 5: apply(Op::dyn_full, {number(-0.5), integers_from_somewhere(shape)}); break;
    default: {
      const std::int64_t start = static_cast<std::int64_t>(below(5)) - 2,
                         step = pick(Integers{1, 2, -1, -3});
      apply(Op::arange, {},
            {{"start", start},
             {"stop", start + step * static_cast<std::int64_t>(below(6))},
             {"step", step}});
    }
  }
}

void Builder::views_by_tensors() {
  ValueId x = any_value(1);
  const std::int64_t axis = axis_of(x);
  const Dim extent = type(x).dims[static_cast<std::size_t>(
      axis < 0 ? axis + static_cast<std::int64_t>(rank(x)) : axis)];
  switch (below(6)) {
    case 0: {
      Integers shape;
      for (const Dim& dim : type(x).dims)
        shape.push_back(dim.is_constant(1) ? pick(Integers{1, 4}) : dim.constant().value_or(1));
      if (shape.size() < 4 && chance(30)) shape.insert(shape.begin(), 2);
      apply(Op::broadcast_to, {x}, {{"shape", shape}});
      break;
    }
    case 1: {
      Integers shape;
      for (const Dim& dim : type(x).dims)
        if (auto constant = dim.constant()) shape.push_back(*constant);
      shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(below(shape.size() + 1)), -1);
      apply(Op::reshape, {x}, {{"shape", shape}});
      break;
    }
    case 2: {
      Integers axes;
      for (std::size_t i = 0; i < rank(x); ++i)
        if (type(x).dims[i].is_constant(1)) axes.push_back(static_cast<std::int64_t>(i));
      apply(Op::dyn_squeeze, {x, integers(axes)});
      break;
    }
    case 3: {
      const Dim first = chance(50) ? Dim(1) : min(extent, 2);
      emit({.op = Op::dyn_split,
            .operands = {x, shape_value({first, extent - first})},
            .attributes = {{"axis", axis}}},
           2);
      break;
    }
    case 4: {
      ValueId times =
          constant(Tensor::of(DType::I64, {}, Integers{static_cast<std::int64_t>(below(4))}));
      apply(Op::dyn_repeat, {x, chance(30) ? literal(Op::dim, {random_dim()}) : times},
            {{"axis", axis}});
      break;
    }
    default: apply(Op::dyn_broadcast_to, {x, integers_from_somewhere({1})});
  }
}

void Builder::places_by_tensors() {
  static const std::vector<std::string> reductions{"none", "add", "mul", "max", "min"};
  ValueId x = any(DType::F32, 1);
  const std::int64_t axis = axis_of(x);
  switch (below(4)) {
    case 0: {
      static const std::vector<std::string> modes{"constant", "constant", "edge", "reflect",
                                                  "wrap"};
      ValueId before = integers_from_somewhere({static_cast<std::int64_t>(below(4)) - 1});
      ValueId after = chance(40) ? one_extent(random_dim())
                                 : integers_from_somewhere({static_cast<std::int64_t>(below(3))});
      Attributes attributes{{"mode", pick(modes)}};
      apply(Op::dyn_pad, {x, number(0.25), before, after, integers_from_somewhere({axis})},
            attributes);
      break;
    }
    case 1: {
      ValueId depth = chance(50) ? literal(Op::dim, {random_dim()})
                                 : constant(Tensor::of(DType::I64, {}, Integers{3}));
      apply(Op::dyn_one_hot, {any(DType::I64), number(0), number(1), depth});
      break;
    }
    case 2: {
      // One row, or two, of what a gather would read.
      const std::int64_t rows = 1 + static_cast<std::int64_t>(below(2));
      ValueId indices = constant(random_tensor(DType::I64, {rows, 1}, -1, 1));
      ValueId updates = must(Op::gather, {x, constant(random_tensor(DType::I64, {rows}, -1, 1))},
                             {{"axis", std::int64_t{0}}});
      apply(Op::scatter_nd, {x, indices, updates}, {{"reduction", pick(reductions)}});
      break;
    }
    default: {
      ValueId indices = must(Op::dyn_zeros, {must(Op::shape_of, {x})}, {{"dtype", DType::I64}});
      apply(Op::scatter_elements, {x, indices, must(Op::mul, {x, number(0.5)})},
            {{"axis", axis}, {"reduction", pick(reductions)}});
    }
  }
}

void Builder::reductions_by_tensors() {
  static const std::vector<Op> ops{Op::dyn_reduce_sum, Op::dyn_reduce_mean, Op::dyn_reduce_max,
                                   Op::dyn_reduce_min, Op::dyn_reduce_prod};
  ValueId x = chance(80) ? any(DType::F32) : any_numbers();
  if (chance(25) && rank(x) > 0) {
    ValueId axis = constant(Tensor::of(DType::I64, {}, Integers{axis_of(x)}));
    apply(Op::dyn_cumulative_sum, {x, axis},
          {{"exclusive", static_cast<std::int64_t>(below(2))},
           {"reverse", static_cast<std::int64_t>(below(2))}});
    return;
  }
  Integers axes;
  for (std::size_t i = 0; i < rank(x); ++i)
    if (chance(50)) axes.push_back(static_cast<std::int64_t>(i));
  const Attributes attributes{{"keepdims", static_cast<std::int64_t>(below(2))},
                              {"empty_keeps", static_cast<std::int64_t>(below(2))}};
  apply(pick(ops), {x, integers_from_somewhere(axes)}, attributes);
}

void Builder::resized() {
  static const std::vector<std::string> modes{"nearest", "linear", "cubic"};
  static const std::vector<std::string> coordinates{"half_pixel", "pytorch_half_pixel",
                                                    "asymmetric", "align_corners"};
  static const std::vector<std::string> roundings{"round_prefer_floor", "round_prefer_ceil",
                                                  "floor", "ceil"};
  ValueId x = any(DType::F32, 1);
  const std::int64_t axis = axis_of(x);
  auto extent = type(x)
                    .dims[static_cast<std::size_t>(
                        axis < 0 ? axis + static_cast<std::int64_t>(rank(x)) : axis)]
                    .constant();
  if (!extent || *extent == 0) return;
  const std::int64_t size = 1 + static_cast<std::int64_t>(below(7));
  Tensor scales(DType::F32, {1});
  scales.set_real(0, static_cast<double>(size) / static_cast<double>(*extent));
  const Attributes attributes{{"axes", Integers{axis}},
                              {"mode", pick(modes)},
                              {"coordinates", pick(coordinates)},
                              {"rounding", pick(roundings)}};
  if (chance(50)) {
    Attributes with_sizes = attributes;
    with_sizes.emplace("sizes", Integers{size});
    apply(Op::resize, {x, constant(scales)}, with_sizes);
  } else {
    apply(Op::dyn_resize, {x, constant(scales), integers_from_somewhere({size})}, attributes);
  }
}

void Builder::largest() {
  ValueId x = chance(70) ? any(DType::F32, 1) : any(DType::I64, 1);
  const Attributes attributes{{"axis", axis_of(x)},
                              {"largest", static_cast<std::int64_t>(below(2))}};
  const std::int64_t k = static_cast<std::int64_t>(below(3));
  if (chance(50)) {
    Attributes with_k = attributes;
    with_k.emplace("k", k);
    emit({.op = Op::top_k, .operands = {x}, .attributes = with_k}, 2);
  } else {
    ValueId count = chance(50) ? constant(Tensor::of(DType::I64, {}, Integers{k}))
                               : literal(Op::dim, {min(random_dim(), 2)});
    emit({.op = Op::dyn_top_k, .operands = {x, count}, .attributes = attributes}, 2);
  }
}

void Builder::segments() {
  static const std::vector<Op> ops{Op::segment_sum, Op::segment_max, Op::segment_min};
  ValueId x = any(DType::F32, 1);
  const Dim rows = type(x).dims[0];
  std::vector<Dim> offsets{0};
  if (chance(60)) offsets.push_back(min(rows, static_cast<std::int64_t>(below(4))));
  if (chance(30)) offsets.push_back(offsets.back());
  offsets.push_back(rows);
  apply(pick(ops), {x, shape_value(offsets)});
}

// What holds already: checks that pass.
void Builder::demands() {
  ValueId x = any_value();
  if (chance(50)) {
    auto results = emit({.op = Op::check_shape, .operands = {x}, .dims = type(x).dims});
    if (results && type(*results->begin()).dtype == DType::F32) apply(Op::relu, {results->front()});
    return;
  }
  const Dim left = random_dim();
  emit({.op = Op::check,
        .attributes = {{"relation", std::string("less_equal")}, {"what", std::string("an extent")}},
        .dims = {left, left + 1}},
       0);
}

// A symbol that an element of an input decides.
void Builder::bound_count() {
  std::vector<Integers> counts;
  for (std::size_t call = 0; call < calls_.size(); ++call)
    counts.push_back({static_cast<std::int64_t>(below(5))});
  ValueId given = input_of(counts);
  ValueId scalar = must(Op::reshape, {given}, {{"shape", Integers{}}});
  const std::string name = "count" + std::to_string(function_.values.size());
  const SymbolTable before = function_.symbols;
  function_.symbols.declare(name);
  for (std::size_t call = 0; call < calls_.size(); ++call) calls_[call][name] = counts[call][0];
  if (!emit({.op = Op::bind, .operands = {scalar}, .dims = {Dim::symbol(name), Dim(4)}}, 0)) {
    function_.symbols = before;
    return;
  }
  ValueId some = must(Op::dyn_full, {number(0.5), literal(Op::shape, {Dim::symbol(name), 4})});
  apply(Op::add, {some, partner(some)});
}

}  // namespace anydim::tests::random_graphs
