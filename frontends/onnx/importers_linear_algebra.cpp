// Determinants and inverses of square matrices.
#include "frontends/onnx/importers.h"
#include "frontends/sizes.h"

namespace anydim::frontends {

namespace {

// The matrices of an operand [outer..., row, column], as many rows as columns.
struct Squares {
  Value outer = no_value;   // the dims before the matrices, a vector
  Value batch = no_value;   // their product, a vector of one element
  Value order = no_value;   // rows and columns, a vector of one element
  Value values = no_value;  // [batch, row, column], in which they are computed
};

Squares squares_of(Node& node) {
  const Value x = node.operand(0);
  if (const std::size_t rank = x.rank(); rank < 2)
    node.malformed("takes matrices as input 0, got rank {}", rank);
  const auto rows = x.extent(-2), columns = x.extent(-1);
  if (rows && columns && *rows != *columns)
    node.malformed("takes square matrices as input 0, got {} by {}", *rows, *columns);
  Squares squares;
  squares.outer = slice(shape_of(x), 0, 0, -2);
  squares.batch = node.emit(Op::reduce_prod, {squares.outer}, {{"keepdims", std::int64_t{1}}});
  squares.order = dim_of(x, -1);
  squares.values =
      cast(reshaped(x, {squares.batch, squares.order, squares.order}), computed_in(node.dtype()));
  return squares;
}

struct Eliminated {
  Value rows = no_value;         // [batch, row, column]
  Value determinant = no_value;  // of the square, [batch]
};

// Gauss and Jordan's elimination, each round's pivot the largest of its column: makes the square of
// the first columns the identity, where it has an inverse, and does the same to what stands beside
// it.
Eliminated eliminated(Node& node, const Squares& squares, Value beside = no_value) {
  const DType dtype = squares.values.dtype();
  const Value place = positions(squares.order);
  const Value all = beside == no_value ? squares.values : concat({squares.values, beside}, 2);
  const Value unit = node.emit(Op::dyn_full, {node.scalar(dtype, 1), squares.batch});
  Node::Loop loop(node, without_axes(squares.order, {0}), no_value, {all, unit});
  const Value round = loop.round(), rows = loop.carried()[0];

  const Value is_left = place >= round;
  const Value sizes = where(is_left, abs(gather(rows, round, 2)), -1);
  const Value chosen =
      node.emit(Op::arg_max, {sizes}, {{"axis", std::int64_t{1}}, {"keepdims", std::int64_t{1}}});
  const Value pivot_row =
      node.emit(Op::gather_nd, {rows, chosen}, {{"batch_dims", std::int64_t{1}}});
  const Value pivot = gather(pivot_row, round, 1);
  // The round's row goes where the pivot's was, which takes its place last.
  const Value moved =
      where(with_axes(equal(place, chosen), {2}), with_axes(gather(rows, round, 1), {1}), rows);
  const Value share = gather(moved, round, 2) / with_axes(pivot, {1});
  const Value cleared = moved - with_axes(share, {2}) * with_axes(pivot_row, {1});
  const Value unit_row = pivot_row / with_axes(pivot, {1});
  const Value next = where(with_axes(equal(place, round), {1}), with_axes(unit_row, {1}), cleared);
  // Two rows that change places turn the sign.
  const Value factor = where(equal(without_axes(chosen, {1}), round), pivot, -pivot);
  // After a pivot of 0 the rows are no numbers, and the determinant stays what it is.
  const Value before = loop.carried()[1];
  const Value product = where(equal(before, 0), before, before * factor);
  const auto results = loop.close({loop.goes_on(), next, product});
  return {results[0], results[1]};
}

}  // namespace

void import_determinant(Node& node) {
  const Squares squares = squares_of(node);
  const Value found = cast(eliminated(node, squares).determinant, node.dtype());
  node.output(0, node.emit(Op::dyn_reshape, {found, squares.outer}));
}

void import_inverse(Node& node) {
  const Squares squares = squares_of(node);
  const DType dtype = squares.values.dtype();
  const Value place = positions(squares.order);
  const Value identity = cast(equal(with_axes(place, {1}), place), dtype);
  const Value shape = shape_of(squares.values);
  const Value beside = node.emit(Op::dyn_broadcast_to, {identity, shape});
  const Value rows = eliminated(node, squares, beside).rows;
  const Value inverse =
      node.emit(Op::dyn_strided_slice,
                {rows, squares.order, squares.order + squares.order, node.index_vector({2})});
  node.output(0,
              node.emit(Op::dyn_reshape, {cast(inverse, node.dtype()), shape_of(node.operand(0))}));
}

// Between each row of a and each of b [count, width]. Summed as differences: of rows that are
// nearly the same, squares less twice a product would keep no digit.
void import_distances(Node& node) {
  const std::string metric = node.string("metric", "sqeuclidean");
  if (metric != "sqeuclidean" && metric != "euclidean")
    node.unsupported("has the metric {}; Anydim supports 'sqeuclidean' and 'euclidean'",
                     quoted_name(metric));
  for (const std::size_t i : {0, 1}) node.check_rank(i, 2);
  const Value difference = with_axes(node.operand(0), {1}) - with_axes(node.operand(1), {0});
  const Value squares = reduce(Op::reduce_sum, difference * difference, {2}, false);
  node.output(0, metric == "euclidean" ? sqrt(squares) : squares);
}

}  // namespace anydim::frontends
