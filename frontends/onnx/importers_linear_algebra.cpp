// Determinants and inverses of square matrices.
#include "frontends/onnx/importers.h"
#include "frontends/sizes.h"

namespace anydim::frontends {

namespace {

// The matrices of an operand [outer..., row, column], as many rows as columns.
struct Squares {
  ValueId outer = ir::no_value;   // the dims before the matrices, a vector
  ValueId batch = ir::no_value;   // their product, a vector of one element
  ValueId order = ir::no_value;   // rows and columns, a vector of one element
  ValueId values = ir::no_value;  // [batch, row, column], in which they are computed
};

Squares squares_of(Node& node) {
  const ValueId x = node.operand(0);
  if (const std::size_t rank = node.rank(x); rank < 2)
    node.malformed("takes matrices as input 0, got rank {}", rank);
  const auto rows = node.extent(x, -2), columns = node.extent(x, -1);
  if (rows && columns && *rows != *columns)
    node.malformed("takes square matrices as input 0, got {} by {}", *rows, *columns);
  Squares squares;
  squares.outer = node.slice(node.emit(Op::shape_of, {x}), 0, 0, -2);
  squares.batch = node.emit(Op::reduce_prod, {squares.outer}, {{"keepdims", std::int64_t{1}}});
  squares.order = node.dim_of(x, -1);
  squares.values = node.cast(node.reshaped(x, {squares.batch, squares.order, squares.order}),
                             computed_in(node.dtype()));
  return squares;
}

struct Eliminated {
  ValueId rows = ir::no_value;         // [batch, row, column]
  ValueId determinant = ir::no_value;  // of the square, [batch]
};

// Gauss and Jordan's elimination, each round's pivot the largest of its column: makes the square of
// the first columns the identity, where it has an inverse, and does the same to what stands beside
// it.
Eliminated eliminated(Node& node, const Squares& squares, ValueId beside = ir::no_value) {
  const DType dtype = node.dtype(squares.values);
  const auto apply = [&](Op op, ValueId a, ValueId b) { return node.emit(op, {a, b}); };
  const auto at = [&](ValueId x, ValueId place, std::int64_t axis) {
    return node.emit(Op::gather, {x, place}, {{"axis", axis}});
  };
  const ValueId place = node.positions(squares.order), zero = node.scalar(dtype, 0);
  const ValueId all = beside == ir::no_value ? squares.values
                                             : node.emit(Op::concat, {squares.values, beside},
                                                         {{"axis", std::int64_t{2}}});
  const ValueId unit = node.emit(Op::dyn_full, {node.scalar(dtype, 1), squares.batch});
  Node::Loop loop(node, node.without_axes(squares.order, {0}), ir::no_value, {all, unit});
  const ValueId round = loop.round(), rows = loop.carried()[0];

  const ValueId is_left = apply(Op::greater_equal, place, round);
  const ValueId sizes = node.emit(
      Op::where, {is_left, node.emit(Op::abs, {at(rows, round, 2)}), node.scalar(dtype, -1)});
  const ValueId chosen =
      node.emit(Op::arg_max, {sizes}, {{"axis", std::int64_t{1}}, {"keepdims", std::int64_t{1}}});
  const ValueId pivot_row =
      node.emit(Op::gather_nd, {rows, chosen}, {{"batch_dims", std::int64_t{1}}});
  const ValueId pivot = at(pivot_row, round, 1);
  // The round's row goes where the pivot's was, which takes its place last.
  const ValueId moved = node.emit(Op::where, {node.with_axes(apply(Op::equal, place, chosen), {2}),
                                              node.with_axes(at(rows, round, 1), {1}), rows});
  const ValueId share = apply(Op::div, at(moved, round, 2), node.with_axes(pivot, {1}));
  const ValueId cleared = apply(
      Op::sub, moved, apply(Op::mul, node.with_axes(share, {2}), node.with_axes(pivot_row, {1})));
  const ValueId unit_row = apply(Op::div, pivot_row, node.with_axes(pivot, {1}));
  const ValueId next = node.emit(Op::where, {node.with_axes(apply(Op::equal, place, round), {1}),
                                             node.with_axes(unit_row, {1}), cleared});
  // Two rows that change places turn the sign.
  const ValueId factor =
      node.emit(Op::where, {apply(Op::equal, node.without_axes(chosen, {1}), round), pivot,
                            node.emit(Op::neg, {pivot})});
  // After a pivot of 0 the rows are no numbers, and the determinant stays what it is.
  const ValueId before = loop.carried()[1];
  const ValueId product = node.emit(
      Op::where, {apply(Op::equal, before, zero), before, apply(Op::mul, before, factor)});
  const auto results = loop.close({loop.goes_on(), next, product});
  return {results[0], results[1]};
}

}  // namespace

void import_determinant(Node& node) {
  const Squares squares = squares_of(node);
  const ValueId found = node.cast(eliminated(node, squares).determinant, node.dtype());
  node.output(0, node.emit(Op::dyn_reshape, {found, squares.outer}));
}

void import_inverse(Node& node) {
  const Squares squares = squares_of(node);
  const DType dtype = node.dtype(squares.values);
  const ValueId place = node.positions(squares.order);
  const ValueId identity =
      node.cast(node.emit(Op::equal, {node.with_axes(place, {1}), place}), dtype);
  const ValueId shape = node.emit(Op::shape_of, {squares.values});
  const ValueId beside = node.emit(Op::dyn_broadcast_to, {identity, shape});
  const ValueId rows = eliminated(node, squares, beside).rows;
  const ValueId inverse =
      node.emit(Op::dyn_strided_slice,
                {rows, squares.order, node.emit(Op::add, {squares.order, squares.order}),
                 node.index_vector({2})});
  node.output(0, node.emit(Op::dyn_reshape, {node.cast(inverse, node.dtype()),
                                             node.emit(Op::shape_of, {node.operand(0)})}));
}

// Between each row of a and each of b [count, width]. Summed as differences: of rows that are
// nearly the same, squares less twice a product would keep no digit.
void import_distances(Node& node) {
  const std::string metric = node.string("metric", "sqeuclidean");
  if (metric != "sqeuclidean" && metric != "euclidean")
    node.unsupported("has the metric {}; Anydim supports 'sqeuclidean' and 'euclidean'",
                     quoted_name(metric));
  for (const std::size_t i : {0, 1})
    if (const std::size_t rank = node.rank(node.operand(i)); rank != 2)
      node.malformed("takes rank 2 as input {}, got {}", i, rank);
  const ValueId difference = node.emit(
      Op::sub, {node.with_axes(node.operand(0), {1}), node.with_axes(node.operand(1), {0})});
  const ValueId squares =
      node.emit(Op::reduce_sum, {node.emit(Op::mul, {difference, difference})},
                {{"axes", std::vector<std::int64_t>{2}}, {"keepdims", std::int64_t{0}}});
  node.output(0, metric == "euclidean" ? node.emit(Op::sqrt, {squares}) : squares);
}

}  // namespace anydim::frontends
