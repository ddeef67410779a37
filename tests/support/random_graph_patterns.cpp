#include <limits>

#include "tests/support/random_graph_builder.h"

namespace anydim::tests::random_graphs {

void Builder::written_gelu() {
  ValueId x = any(DType::F32);
  ValueId inner = chance(50) ? must(Op::div, {x, number(std::sqrt(2.0))})
                             : must(Op::mul, {x, number(std::sqrt(0.5))});
  ValueId one = must(Op::add, {must(Op::erf, {inner}), number(1)});
  if (chance(50)) must(Op::mul, {must(Op::mul, {x, one}), number(0.5)});
  else must(Op::mul, {must(Op::mul, {number(0.5), x}), one});
}

void Builder::written_layer_norm() {
  ValueId x = any(DType::F32, 1);
  auto last = type(x).dims.back().constant();
  if (!last) return;
  Attributes axes{{"axes", Integers{-1}}, {"keepdims", std::int64_t{1}}};
  ValueId d = must(Op::sub, {x, must(Op::reduce_mean, {x}, axes)});
  ValueId square = chance(50) ? must(Op::pow, {d, number(2)}) : must(Op::mul, {d, d});
  ValueId root =
      must(Op::sqrt, {must(Op::add, {must(Op::reduce_mean, {square}, axes), number(0.01)})});
  ValueId normal =
      chance(60) ? must(Op::div, {d, root}) : must(Op::mul, {d, must(Op::reciprocal, {root})});
  ValueId scaled = must(Op::mul, {normal, constant(random_tensor(DType::F32, {*last}, 0, 1))});
  if (chance(80)) must(Op::add, {scaled, constant(random_tensor(DType::F32, {*last}, 0, 1))});
}

ValueId Builder::any_rows() {
  const auto fitting = values_of([](const TensorType& found) {
    return found.dtype == DType::F32 && found.rank() >= 2 && found.dims.back().constant();
  });
  if (fitting.empty()) throw Error(ErrorKind::Inputs, "given up");
  return pick(fitting);
}

// A product whose columns part into gates that meet, as in SwiGLU or a recurrent cell; now and then
// one of them, or the product, is read by others too.
void Builder::gated_product() {
  const ValueId x = any_rows();
  const auto gates = static_cast<std::int64_t>(2 + below(3)),
             columns = static_cast<std::int64_t>(chance(60) ? 16 : 1 + below(20));
  ValueId product = must(Op::matmul, {x, weight(x, gates * columns)});
  if (chance(50))
    product =
        must(Op::add, {product, constant(random_tensor(DType::F32, {gates * columns}, -1, 1))});
  std::vector<ValueId> parts;
  if (chance(60)) {
    const auto split =
        emit({.op = Op::split,
              .operands = {product},
              .attributes = {{"axis", std::int64_t{-1}},
                             {"sizes", Integers(static_cast<std::size_t>(gates), columns)}}},
             static_cast<std::size_t>(gates));
    if (!split) return;
    parts = *split;
  } else {
    for (std::int64_t gate = 0; gate < gates; ++gate)
      parts.push_back(must(Op::strided_slice, {product},
                           {{"axes", Integers{-1}},
                            {"starts", Integers{gate * columns}},
                            {"ends", Integers{(gate + 1) * columns}}}));
  }
  ValueId made = must(Op::tanh, {parts[0]});
  for (std::size_t gate = 1; gate < parts.size(); ++gate) {
    const ValueId part = chance(50) ? must(Op::sigmoid, {parts[gate]}) : parts[gate];
    made = must(chance(60) ? Op::mul : Op::add, {part, made});
  }
  if (chance(20)) must(Op::abs, {pick(parts)});
  if (chance(30)) must(Op::reduce_sum, {made}, {{"axes", Integers{-1}}});
}

// A product with a weight of bytes that has a scale for each row, or as DequantizeLinear has it:
// less its zero points, which like scales are of blocks of the depth, of columns or of all.
void Builder::scaled_product() {
  const ValueId x = any_rows();
  const std::int64_t depth = *type(x).dims.back().constant();
  const auto columns = static_cast<std::int64_t>(1 + below(20));
  if (chance(50)) {
    const ValueId real =
        must(Op::cast, {constant(random_tensor(DType::I8, {columns, depth}, -3, 3))},
             {{"to", DType::F32}});
    const ValueId scale =
        chance(70) ? constant(random_tensor(DType::F32, {columns, 1}, 0, 1)) : number(0.25);
    const ValueId weight = chance(50) ? must(Op::mul, {real, scale}) : must(Op::mul, {scale, real});
    must(Op::matmul, {x, must(Op::transpose, {weight}, {{"perm", Integers{1, 0}}})});
    return;
  }
  const DType bytes = chance(50) ? DType::U8 : DType::I8;
  const std::int64_t block = pick(Integers{8, 16, 3}), blocks = (depth + block - 1) / block;
  const auto form = below(3);
  const auto parameter = [&](DType dtype, std::int64_t low, std::int64_t high) {
    if (form == 0) return constant(random_tensor(dtype, {}, low, high));
    if (form == 1) return constant(random_tensor(dtype, {columns}, low, high));
    const ValueId each =
        must(Op::broadcast_to, {constant(random_tensor(dtype, {blocks, 1, columns}, low, high))},
             {{"shape", Integers{blocks, block, columns}}});
    const ValueId all = must(Op::reshape, {each}, {{"shape", Integers{blocks * block, columns}}});
    return must(Op::strided_slice, {all},
                {{"axes", Integers{0}}, {"starts", Integers{0}}, {"ends", Integers{depth}}});
  };
  const auto wide = [&](ValueId value) { return must(Op::cast, {value}, {{"to", DType::I32}}); };
  ValueId weight = wide(constant(random_tensor(bytes, {depth, columns}, 0, 15)));
  if (chance(70))
    weight = must(Op::sub, {weight, wide(parameter(bytes, 0, chance(20) ? 120 : 15))});
  weight = must(Op::cast, {weight}, {{"to", DType::F32}});
  must(Op::matmul, {x, must(Op::mul, {weight, parameter(DType::F32, 0, 1)})});
}

// Products of bytes less their zero points, made real again; some of them share their left operand.
void Builder::quantised_products() {
  const auto of_bytes = [](const TensorType& found) {
    return (found.dtype == DType::U8 || found.dtype == DType::I8) && found.rank() >= 2 &&
           found.dims.back().constant();
  };
  if (values_of(of_bytes).empty()) {
    add_parameter(TensorType{chance(60) ? DType::U8 : DType::I8, {random_dim(), random_dim(), 5}});
    return;
  }
  const ValueId x = pick(values_of(of_bytes));
  const std::int64_t depth = *type(x).dims.back().constant();
  const auto wide = [&](ValueId value) { return must(Op::cast, {value}, {{"to", DType::I32}}); };
  const auto zero_of = [&](DType dtype, const Integers& dims) {
    return wide(constant(random_tensor(dtype, dims, 0, 3)));
  };
  ValueId left = wide(x);
  if (chance(70)) left = must(Op::sub, {left, zero_of(type(x).dtype, {})});
  const bool with_bias = chance(50);
  for (std::size_t i = 0, count = 1 + below(3); i < count; ++i) {
    const auto columns = static_cast<std::int64_t>(1 + below(20));
    const DType dtype = chance(50) ? DType::I8 : DType::U8;
    ValueId right = wide(constant(random_tensor(dtype, {depth, columns}, 0, 9)));
    if (chance(70))
      right = must(Op::sub, {right, zero_of(dtype, chance(50) ? Integers{} : Integers{columns})});
    ValueId product = must(Op::cast, {must(Op::matmul, {left, right})}, {{"to", DType::F32}});
    product =
        must(Op::mul, {product, chance(50) ? number(0.02)
                                           : constant(random_tensor(DType::F32, {columns}, 0, 1))});
    if (with_bias) must(Op::add, {product, constant(random_tensor(DType::F32, {columns}, 0, 1))});
  }
}

ValueId Builder::soft(ValueId x) {
  if (chance(70)) return must(Op::softmax, {x}, {{"axis", std::int64_t{-1}}});
  Attributes axes{{"axes", Integers{-1}}, {"keepdims", std::int64_t{1}}};
  ValueId e = must(Op::exp, {must(Op::sub, {x, must(Op::reduce_max, {x}, axes)})});
  return must(Op::div, {e, must(Op::reduce_sum, {e}, axes)});
}

void Builder::written_softmax() { soft(any(DType::F32, 1)); }

void Builder::attention() {
  ValueId q = any(DType::F32, 2);
  const TensorType mine = type(q);
  auto fitting = values_of([&](const TensorType& found) {
    return found.dtype == DType::F32 && found.rank() >= 2 && found.dims.back() == mine.dims.back();
  });
  std::vector<ValueId> operands{q, pick(fitting), pick(fitting)};
  if (chance(50)) operands.push_back(any(chance(80) ? DType::F32 : DType::Bool));
  apply(Op::attention, operands,
        {{"scale", 0.5},
         {"softcap", chance(80) ? 0.0 : 1.5},
         {"fill", chance(50) ? -1e9 : -std::numeric_limits<double>::infinity()}});
}

// Heads are split from a [.., s, 6] or [.., s, 4] value.
void Builder::written_attention() {
  auto list = values_of([](const TensorType& found) {
    return found.dtype == DType::F32 && found.rank() == 3 &&
           (found.dims[2].is_constant(4) || found.dims[2].is_constant(6));
  });
  if (list.empty()) {
    add_parameter(TensorType{DType::F32, {random_dim(), random_dim(), chance(50) ? 4 : 6}});
    return;
  }
  ValueId x = pick(list);
  const TensorType mine = type(x);
  std::int64_t width = *mine.dims[2].constant();
  ValueId parts[3];
  for (ValueId& part : parts) {
    part = chance(70) ? must(Op::matmul, {x, weight(x, width)}) : x;
    if (chance(50))
      part = must(Op::add, {part, constant(random_tensor(DType::F32, {width}, 0, 1))});
  }
  std::vector<Dim> heads{mine.dims[0], mine.dims[1], 2, width / 2};
  auto split_heads = [&](ValueId part, Integers perm) {
    return must(Op::transpose, {must(Op::dyn_reshape, {part, shape_value(heads)})},
                {{"perm", std::move(perm)}});
  };
  ValueId q = split_heads(parts[0], {0, 2, 1, 3});
  ValueId k = chance(50) ? split_heads(parts[1], {0, 2, 3, 1})
                         : must(Op::transpose, {split_heads(parts[1], {0, 2, 1, 3})},
                                {{"perm", Integers{0, 1, 3, 2}}});
  ValueId v = split_heads(parts[2], {0, 2, 1, 3});
  std::size_t place = below(4);
  if (place == 1) q = must(Op::mul, {q, number(0.5)});
  if (place == 2) k = must(Op::div, {k, number(2)});
  // Matrices of all heads in one batch, as exporters write them for products of three dims.
  const bool joined = chance(25);
  const auto join = [&](ValueId four, const Dim& rows, const Dim& columns) {
    return must(Op::dyn_reshape, {four, shape_value({2 * mine.dims[0], rows, columns})});
  };
  const auto part = [&](ValueId three, const Dim& columns) {
    return must(Op::dyn_reshape, {three, shape_value({mine.dims[0], 2, mine.dims[1], columns})});
  };
  if (joined) {
    q = join(q, mine.dims[1], width / 2);
    k = join(k, width / 2, mine.dims[1]);
    v = join(v, mine.dims[1], width / 2);
  }
  ValueId scores = must(Op::matmul, {q, k});
  if (place == 3) scores = must(Op::div, {scores, number(1.5)});
  if (chance(20))
    scores = must(Op::mul, {must(Op::tanh, {must(Op::div, {scores, number(3)})}), number(3)});
  if (joined) scores = part(scores, mine.dims[1]);
  if (chance(50)) {
    ValueId seen = must(Op::dyn_broadcast_to,
                        {any(DType::Bool), shape_value({mine.dims[0], 1, 1, mine.dims[1]})});
    if (chance(40)) {
      ValueId low = number(-1e30);
      scores =
          chance(50) ? must(Op::where, {seen, scores, low}) : must(Op::where, {seen, low, scores});
    } else {
      scores = must(Op::add, {scores, must(Op::where, {seen, number(0), number(-50)})});
    }
  }
  ValueId out = no_value;
  if (!joined) {
    out = must(Op::matmul, {soft(scores), v});
  } else {
    const ValueId weights = chance(50) ? soft(join(scores, mine.dims[1], mine.dims[1]))
                                       : join(soft(scores), mine.dims[1], mine.dims[1]);
    out = part(must(Op::matmul, {weights, v}), width / 2);
  }
  ValueId merged = must(Op::transpose, {out}, {{"perm", Integers{0, 2, 1, 3}}});
  must(Op::dyn_reshape, {merged, shape_value({mine.dims[0], mine.dims[1], width})});
}

// Images of several channels through convolutions, as importers write them.
void Builder::convolutions() {
  const std::size_t count = chance(60) ? 2 : 1;  // dims of places
  TensorType image{DType::F32, {random_dim(), 1 + static_cast<std::int64_t>(below(3))}};
  for (std::size_t i = 0; i < count; ++i) image.dims.push_back(random_dim());
  const bool channels_last = chance(25);
  Integers axes, from_last{0, static_cast<std::int64_t>(count) + 1};
  for (std::size_t i = 0; i < count; ++i) {
    axes.push_back(static_cast<std::int64_t>(i) + 2);
    from_last.push_back(static_cast<std::int64_t>(i) + 1);
  }
  if (channels_last) std::rotate(image.dims.begin() + 1, image.dims.begin() + 2, image.dims.end());
  ValueId x = add_parameter(image);
  if (channels_last) x = must(Op::transpose, {x}, {{"perm", from_last}});
  std::optional<ValueId> before;
  for (std::size_t layer = 0, layers = 1 + below(3); layer < layers; ++layer) {
    const std::int64_t size = 1 + static_cast<std::int64_t>(below(3)),
                       stride = 1 + static_cast<std::int64_t>(below(2));
    const Integers low(count, static_cast<std::int64_t>(below(2))), high(count, size);
    ValueId padded = must(Op::pad, {x}, {{"before", low}, {"after", high}, {"axes", axes}});
    ValueId moved = must(
        Op::windows, {padded},
        {{"axes", axes}, {"sizes", Integers(count, size)}, {"strides", Integers(count, stride)}});
    const TensorType found = type(moved);
    Integers order{0, 1}, last;
    Dim places(1);
    std::int64_t depth = *found.dims[1].constant();
    for (std::size_t i = 0; i < count; ++i) {
      last.push_back(static_cast<std::int64_t>(2 + count + i));
      depth *= size;
      places = places * found.dims[2 + i];
    }
    if (chance(20)) {
      x = must(chance(50) ? Op::reduce_max : Op::reduce_mean, {moved}, {{"axes", last}});
      continue;
    }
    order.insert(order.end(), last.begin(), last.end());
    order.insert(order.end(), axes.begin(), axes.end());
    const std::int64_t channels = chance(80) ? 16 : 5;
    ValueId columns = must(Op::dyn_reshape, {must(Op::transpose, {moved}, {{"perm", order}}),
                                             shape_value({found.dims[0], depth, places})});
    ValueId product =
        must(Op::matmul, {constant(random_tensor(DType::F32, {channels, depth}, -1, 1)), columns});
    std::vector<Dim> dims{found.dims[0], channels};
    dims.insert(dims.end(), found.dims.begin() + 2,
                found.dims.begin() + 2 + static_cast<std::ptrdiff_t>(count));
    x = must(Op::dyn_reshape, {product, shape_value(dims)});
    if (chance(50)) {
      Integers one_each{channels};
      one_each.insert(one_each.end(), count, 1);
      x = must(Op::add, {x, constant(random_tensor(DType::F32, one_each, -1, 1))});
    }
    if (chance(60)) x = must(chance(50) ? Op::relu : Op::sigmoid, {x});
    if (before && chance(50)) {
      if (const auto sum = apply(Op::add, {x, *before})) x = *sum;
      else if (const auto both = apply(Op::concat, {x, *before}, {{"axis", std::int64_t{1}}}))
        x = *both;
    }
    before = x;
  }
  if (chance(30)) apply(Op::reduce_mean, {x}, {{"axes", axes}});
  if (chance(20)) apply(Op::flatten, {x}, {{"axis", std::int64_t{1}}});
}

}  // namespace anydim::tests::random_graphs
