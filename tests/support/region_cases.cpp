// Maps and rows.
#include "tests/support/region_case_lists.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>

#include "ir/error.h"

namespace anydim::tests {
namespace {

// Sizes at and around multiples of vectors' lengths.
std::vector<std::int64_t> tails() {
  return {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 130};
}

FillInputs integers_at(std::size_t input,
                       std::vector<std::pair<std::int64_t, std::int64_t>> elements) {
  return [=](std::vector<ir::Tensor>& inputs) {
    for (const auto& [at, value] : elements) inputs[input].set_integer(at, value);
  };
}

// Divisors that are never 0, and the quotient that overflows.
void fill_divisors(std::vector<ir::Tensor>& inputs) {
  for (std::int64_t i = 0; i < inputs[1].elements(); ++i)
    inputs[1].set_integer(i, i % 2 == 0 ? -1 : 3);
  if (inputs[0].elements() > 0) inputs[0].set_integer(0, INT32_MIN);
}

// Sequences laid end to end: every third is empty, the others grow.
void fill_offsets(std::vector<ir::Tensor>& inputs) {
  ir::Tensor& offsets = inputs[1];
  const std::int64_t rows = inputs[0].dims()[0], entries = offsets.elements();
  std::int64_t at = 0;
  for (std::int64_t s = 0; s < entries; ++s) {
    offsets.set_integer(s, s + 1 == entries ? rows : at);
    if (s % 3 != 1) at = std::min(rows, at + 2 * s + 1);
  }
}

std::vector<RegionFault> wrong_offsets() {
  std::vector<RegionFault> faults;
  for (const std::vector<std::int64_t>& offsets :
       std::vector<std::vector<std::int64_t>>{{0, 4, 2, 9},
                                              {1, 4, 5, 9},
                                              {0, 4, 5, 8},
                                              {0, 4, 5, 10},
                                              {0, 1000000, 5, 9},
                                              {0, -3, 5, 9}}) {
    faults.push_back(
        {{{"t", 9}, {"n", 4}},
         integers_at(1, {{0, offsets[0]}, {1, offsets[1]}, {2, offsets[2]}, {3, offsets[3]}})});
  }
  return faults;
}

std::string transposed_pair(const std::string& dtype) {
  return "fn @main(%x: Tensor[(b, n, m), " + dtype + "], %y: Tensor[(b, m, n), " + dtype +
         "]) -> Tensor[(b, m, n), " + dtype + R"(]
  where b in [0, 50], n in [0, 50], m in [0, 50] {
  %t = transpose(%x) {perm = (0, 2, 1)}
  %a = add(%t, %y)
  return %a
})";
}

std::vector<SymbolValues> segment_shapes() {
  return {{{"t", 0}, {"n", 1}}, {{"t", 0}, {"n", 4}},   {{"t", 1}, {"n", 2}},
          {{"t", 7}, {"n", 4}}, {{"t", 100}, {"n", 3}}, {{"t", 1000}, {"n", 40}}};
}
std::vector<SymbolValues> few_segment_shapes() {
  return {{{"t", 0}, {"n", 1}},
          {{"t", 0}, {"n", 4}},
          {{"t", 1}, {"n", 2}},
          {{"t", 7}, {"n", 4}},
          {{"t", 60}, {"n", 6}}};
}

void fill_bases(std::vector<ir::Tensor>& inputs) {
  constexpr double infinity = std::numeric_limits<double>::infinity(),
                   nan = std::numeric_limits<double>::quiet_NaN();
  constexpr double bases[] = {0,  -0.0,   infinity,  -infinity, nan,  4,
                              -4, 0x1p70, -0x1p-140, 0.3,       -0.3, 0x1p-140};
  for (std::int64_t i = 0; i < inputs[0].elements(); ++i)
    inputs[0].set_real(i, bases[static_cast<std::size_t>(i) % std::size(bases)]);
}

}  // namespace

std::vector<RegionCase> map_cases() {
  std::vector<RegionCase> cases{
      {.name = "AddsAndScalesAtEveryTail",
       .text = R"(
fn @main(%x: Tensor[(n), f32], %y: Tensor[(n), f32], %s: Tensor[(), f32]) -> Tensor[(n), f32]
  where n in [0, 5000] {
  %a = add(%x, %y)
  %b = mul(%a, %s)
  return %b
})",
       .shapes = sizes("n", tails()),
       .interpreted = sizes("n", {0, 1, 3, 4, 5, 8, 17, 255, 1024, 1027})},
      {.name = "SeveralOutputsAndTypes",
       .text = R"(
fn @main(%x: Tensor[(n), f32], %i: Tensor[(n), i64]) -> (Tensor[(n), bool], Tensor[(n), i8], Tensor[(n), f64], Tensor[(n), f16])
  where n in [0, 5000] {
  %z = constant(f32 () [0.25])
  %less = less(%x, %z)
  %small = cast(%i) {to = i8}
  %f = cast(%i) {to = f32}
  %sum = add(%x, %f)
  %wide = cast(%sum) {to = f64}
  %half = cast(%sum) {to = f16}
  return %less, %small, %wide, %half
})",
       .shapes = sizes("n", tails()),
       .interpreted = sizes("n", {0, 1, 3, 4, 37})},
      {.name = "RaisesToLiterals",
       .text = R"(
fn @main(%x: Tensor[(n), f32]) -> (Tensor[(n), f32], Tensor[(n), f32], Tensor[(n), f32], Tensor[(n), f32], Tensor[(n), f32], Tensor[(n), f32])
  where n in [0, 5000] {
  %square = pow(%x, constant(f32 () [2]))
  %cube = pow(%x, constant(f32 () [3]))
  %root = pow(%x, constant(f32 () [0.5]))
  %inverse_root = pow(%x, constant(f32 () [-0.5]))
  %inverse = pow(%x, constant(f32 () [-1]))
  %inverse_square = pow(%x, constant(f32 () [-2]))
  return %square, %cube, %root, %inverse_root, %inverse, %inverse_square
})",
       .shapes = sizes("n", {12}),
       .fill = fill_bases},
      {.name = "BroadcastsAlongBothAxes",
       .text = R"(
fn @main(%x: Tensor[(b, 1, 12), f32], %y: Tensor[(s, 1), f32]) -> Tensor[(b, s, 12), f32]
  where b in [0, 50], s in [0, 50] {
  %a = sub(%x, %y)
  return %a
})",
       .shapes = {{{"b", 0}, {"s", 3}},
                  {{"b", 3}, {"s", 0}},
                  {{"b", 1}, {"s", 1}},
                  {{"b", 5}, {"s", 7}},
                  {{"b", 33}, {"s", 17}}},
       .interpreted = {{{"b", 0}, {"s", 3}},
                       {{"b", 3}, {"s", 0}},
                       {{"b", 1}, {"s", 1}},
                       {{"b", 5}, {"s", 7}},
                       {{"b", 9}, {"s", 17}}}},
      {.name = "TransposesAxes",
       .text = R"(
fn @main(%x: Tensor[(n, m), i32]) -> Tensor[(m, n), i32]
  where n in [0, 50], m in [0, 50] {
  %t = transpose(%x) {perm = (1, 0)}
  return %t
})",
       .shapes = {{{"n", 0}, {"m", 3}}, {{"n", 1}, {"m", 1}}, {{"n", 20}, {"m", 33}}}},
      {.name = "GathersRows",
       .text = R"(
fn @main(%table: Tensor[(30, 20), f32], %ids: Tensor[(b, s), i64], %extra: Tensor[(20), f32]) -> Tensor[(b, s, 20), f32]
  where b in [0, 50], s in [0, 50] {
  %g = gather(%table, %ids) {axis = 0}
  %a = add(%g, %extra)
  return %a
})",
       .shapes = {{{"b", 0}, {"s", 3}}, {{"b", 1}, {"s", 1}}, {{"b", 3}, {"s", 17}}},
       .faults = {{{{"b", 2}, {"s", 3}}, integers_at(1, {{4, 30}}), 30},
                  {{{"b", 2}, {"s", 3}}, integers_at(1, {{4, -31}}), -31}}},
      {.name = "GathersFromATableThatMayBeEmpty",
       .text = R"(
fn @main(%table: Tensor[(n, 20), f32], %ids: Tensor[(s), i64]) -> Tensor[(s, 20), f32]
  where n in [0, 50], s in [0, 50] {
  %g = gather(%table, %ids) {axis = 0}
  return %g
})",
       .shapes = {{{"n", 0}, {"s", 0}}, {{"n", 50}, {"s", 1}}, {{"n", 50}, {"s", 17}}},
       .faults = {{{{"n", 0}, {"s", 1}}, integers_at(1, {{0, 7}}), 7}}},
      {.name = "GathersAlongTheLastAxis",
       .text = R"(
fn @main(%x: Tensor[(b, 30), f32], %ids: Tensor[(s), i32]) -> Tensor[(b, s), f32]
  where b in [0, 50], s in [0, 50] {
  %g = gather(%x, %ids) {axis = 1}
  return %g
})",
       .shapes = {{{"b", 2}, {"s", 0}}, {{"b", 1}, {"s", 1}}, {{"b", 3}, {"s", 37}}},
       .faults = {{{{"b", 2}, {"s", 40}}, integers_at(1, {{37, 99}}), 99}}},
      // Both halves read the scale, each where its own gathered column is in the triangle.
      {.name = "GathersHalvesOfATriangle",
       .text = R"(
fn @main(%x: Tensor[(n, 8), f32], %scale: Tensor[(2), f32], %ids: Tensor[(6), i64]) -> Tensor[(n, 6), f32]
  where n in [0, 50] {
  %m = mul(%x, strided_slice(%scale) {starts = (1), ends = (2)})
  %g = gather(trilu(%m) {upper = 1}, %ids) {axis = 1}
  %a = strided_slice(%g) {starts = (0), ends = (3), axes = (1)}
  %b = strided_slice(%g) {starts = (3), ends = (6), axes = (1)}
  %y = concat(neg(%b), %a) {axis = 1}
  return %y
})",
       .shapes = tests::sizes("n", {0, 1, 5, 33}),
       .faults = {{{{"n", 3}}, integers_at(2, {{4, 8}}), 8}}},
      {.name = "GathersOfThemselvesAndTheOneBefore",
       .text = R"(
fn @main(%x: Tensor[(n), f32], %ids: Tensor[(n), i64]) -> Tensor[(n), bool]
  where n in [0, 200] {
  %places = dyn.arange(dim(0), dim(n), dim(1))
  %before = max(sub(%places, dim(1)), dim(0))
  %a = gather(%x, %ids) {axis = 0}
  %b = gather(%x, gather(%ids, %before) {axis = 0}) {axis = 0}
  %r = equal(%a, %b)
  return %r
})",
       .shapes = tests::sizes("n", {0, 1, 2, 5, 17, 64, 200}),
       .fill =
           [](std::vector<ir::Tensor>& inputs) {
             for (std::int64_t i = 0; i < inputs[1].elements(); ++i)
               inputs[1].set_integer(i, (i * 7 + 3) % inputs[1].elements());
           }},
      {.name = "GathersOneRowWhereAskedFor",
       .text = R"(
fn @main(%x: Tensor[(n, m, 40), f32], %id: Tensor[(), i64]) -> Tensor[(m, 40), f32]
  where n in [0, 50], m in [0, 50] {
  %g = gather(%x, %id) {axis = 0}
  %y = trilu(%g) {upper = 0}
  return %y
})",
       .shapes = {{{"n", 1}, {"m", 0}}, {{"n", 3}, {"m", 1}}, {{"n", 2}, {"m", 45}}},
       .fill = integers_at(1, {{0, -1}}),
       .faults = {{{{"n", 3}, {"m", 7}}, integers_at(1, {{0, 3}}), 3}}},
      {.name = "ConcatenatesInParts",
       .text = R"(
fn @main(%x: Tensor[(n, 5), f32], %y: Tensor[(n, m), f32], %z: Tensor[(n, 3), f32]) -> Tensor[(n, m + 8), f32]
  where n in [0, 50], m in [0, 50] {
  %c = concat(%x, %y, %z) {axis = 1}
  return %c
})",
       .shapes = {{{"n", 0}, {"m", 3}}, {{"n", 3}, {"m", 0}}, {{"n", 4}, {"m", 33}}}},
      {.name = "ConcatenatesUnderGuards",
       .text = R"(
fn @main(%x: Tensor[(n, 5), f32], %y: Tensor[(n, m), f32]) -> Tensor[(n, m + 5), f32]
  where n in [0, 50], m in [0, 50] {
  %c = concat(%x, %y) {axis = 1}
  %r = neg(%c)
  return %r
})",
       .shapes = {{{"n", 0}, {"m", 3}},
                  {{"n", 3}, {"m", 0}},
                  {{"n", 4}, {"m", 33}},
                  {{"n", 1}, {"m", 11}}}},
      {.name = "SlicesBackwards",
       .text = R"(
fn @main(%x: Tensor[(n, 16), f32]) -> Tensor[(n, 8), f32]
  where n in [0, 50] {
  %s = strided_slice(%x) {starts = (15), ends = (-17), axes = (1), steps = (-2)}
  return %s
})",
       .shapes = sizes("n", {0, 1, 33})},
      {.name = "TilesRows",
       .text = R"(
fn @main(%x: Tensor[(n, m), f32]) -> Tensor[(2*n, 3*m), f32]
  where n in [0, 50], m in [0, 200] {
  %t = tile(%x) {repeats = (2, 3)}
  %r = relu(%t)
  return %r
})",
       .shapes = pairs("n", {0, 1, 3}, "m", {0, 1, 17, 64})},
      // As Transformer-XL brings the scores of distances to places.
      {.name = "ShiftsEachRowByOneMore",
       .text = R"(
fn @main(%x: Tensor[(n, m), f32]) -> Tensor[(m + 1, n), f32]
  where n in [0, 50], m in [0, 200] {
  %p = pad(%x) {before = (1), after = (0), axes = (1)}
  %shape = shape(m + 1, n)
  %y = dyn.reshape(%p, %shape)
  return %y
})",
       .shapes = pairs("n", {0, 1, 3, 40}, "m", {0, 1, 17, 64})},
      {.name = "DividesIntegersWithoutTraps",
       .text = R"(
fn @main(%x: Tensor[(n), i32], %y: Tensor[(n), i32]) -> Tensor[(n), i32]
  where n in [0, 50] {
  %q = div(%x, %y)
  return %q
})",
       .shapes = sizes("n", {0, 1, 37}),
       .fill = fill_divisors,
       .faults = {{{{"n", 37}},
                   [](std::vector<ir::Tensor>& inputs) {
                     fill_divisors(inputs), inputs[1].set_integer(20, 0);
                   },
                   {}}}},
  };
  for (const std::string dtype : {"f32", "f16"}) {
    cases.push_back({.name = "TransposesHeads_" + dtype,
                     .text = "fn @main(%x: Tensor[(b, s, 36), " + dtype +
                             "]) -> Tensor[(b, 3, s, 12), " + dtype + R"(]
  where b in [0, 50], s in [0, 50] {
  %shape = shape(b, s, 3, 12)
  %r = dyn.reshape(%x, %shape)
  %t = transpose(%r) {perm = (0, 2, 1, 3)}
  return %t
})",
                     .shapes = {{{"b", 0}, {"s", 3}},
                                {{"b", 1}, {"s", 1}},
                                {{"b", 7}, {"s", 33}},
                                {{"b", 2}, {"s", 17}}}});
  }
  for (const std::string dtype : {"i32", "f64", "bf16", "u8"}) {
    cases.push_back({.name = "TransposesThroughTiles_" + dtype,
                     .text = transposed_pair(dtype),
                     .shapes = {{{"b", 1}, {"n", 0}, {"m", 3}},
                                {{"b", 1}, {"n", 1}, {"m", 1}},
                                {{"b", 3}, {"n", 20}, {"m", 33}},
                                {{"b", 2}, {"n", 32}, {"m", 40}}}});
  }
  for (const std::string dtype : {"f32", "f16", "u8"}) {
    const std::pair<const char*, const char*> reads[] = {
        {"Backwards",
         "%y = strided_slice(%x) {starts = (-1), ends = (-100), axes = (1), "
         "steps = (-1)}"},
        {"EveryThirdBackwards",
         "%y = strided_slice(%x) {starts = (-1), ends = (-100), "
         "axes = (1), steps = (-3)}"},
        {"EverySecondBackwardsAndBorder",
         "%s = strided_slice(%x) {starts = (34), ends = (-100), axes = (1), steps = (-2)}\n"
         "  %y = pad(%s) {before = (3), after = (2), axes = (1)}"},
        {"EveryEighth",
         "%y = strided_slice(%x) {starts = (2), ends = (37), axes = (1), "
         "steps = (8)}"},
        {"Gathered", "%y = gather(%x, %ids) {axis = 1}"},
        {"GatheredInABorder",
         "%p = pad(%x) {before = (5), after = (7), axes = (1)}\n"
         "  %y = gather(%p, %ids) {axis = 1}"}};
    for (const auto& [name, steps] : reads) {
      cases.push_back({.name = std::string("Reads") + name + "_" + dtype,
                       .text = "fn @main(%x: Tensor[(n, 37), " + dtype +
                               "], %ids: Tensor[(m), i64]) {\n  " + steps + "\n  return %y\n}",
                       .shapes = pairs("n", {0, 1, 3, 9}, "m", {1, 7, 45}),
                       .interpreted = pairs("n", {1, 3}, "m", {1, 21}),
                       .fill = [](std::vector<ir::Tensor>& inputs) {
                         for (std::int64_t i = 0; i < inputs[1].elements(); ++i)
                           inputs[1].set_integer(i, (i * 11 + 5) % 37);
                       }});
    }
  }
  return cases;
}

namespace {

// All of a dtype's reductions over the last two axes, as results of one kernel.
RegionCase every_reduction(const std::string& dtype) {
  std::string results, types, body;
  for (const std::string op : {"sum", "max", "min", "prod", "mean"}) {
    if (op == "mean" && dtype[0] != 'f') continue;
    body += "  %" + op + " = reduce_" + op + "(%x) {axes = (1, 2), keepdims = 0}\n";
    results += (results.empty() ? "%" : ", %") + op;
    types += (types.empty() ? "Tensor[(n), " : ", Tensor[(n), ") + dtype + "]";
  }
  return {.name = "EveryReduction_" + dtype,
          .text = "fn @main(%x: Tensor[(n, 3, m), " + dtype + "]) -> (" + types +
                  ")\n  where n in [0, 200], m in [0, 200] {\n" + body + "  return " + results +
                  "\n}",
          .shapes = pairs("n", {1, 3}, "m", {0, 1, 5, 16, 21}),
          .interpreted = pairs("n", {1, 3}, "m", {0, 1, 21}),
          .tolerance = dtype == "f16" ? 1e-2 : 2e-5};
}

}  // namespace

std::vector<RegionCase> rows_cases() {
  std::vector<RegionCase> cases{
      {.name = "Softmax",
       .text = R"(
fn @main(%x: Tensor[(n, m), f32]) -> Tensor[(n, m), f32]
  where n in [0, 200], m in [0, 20000] {
  %y = softmax(%x) {axis = -1}
  return %y
})",
       .shapes = pairs("n", {0, 1, 3}, "m", tails()),
       .interpreted = pairs("n", {0, 3}, "m", {0, 1, 33, 257, 2050})},
      {.name = "SoftmaxAcrossTheFirstAxis",
       .text = R"(
fn @main(%x: Tensor[(n, m), f32]) -> Tensor[(n, m), f32]
  where n in [0, 200], m in [0, 200] {
  %y = softmax(%x) {axis = 0}
  return %y
})",
       .shapes = pairs("n", {0, 1, 7}, "m", tails()),
       .interpreted = pairs("n", {0, 1, 7, 20}, "m", {0, 1, 32, 37})},
      {.name = "LayerNormWithResidual",
       .text = R"(
fn @main(%x: Tensor[(n, 384), f32], %r: Tensor[(n, 384), f32], %scale: Tensor[(384), f32], %bias: Tensor[(384), f32]) -> Tensor[(n, 384), f32]
  where n in [0, 200] {
  %s = add(%x, %r)
  %y = layer_norm(%s, %scale, %bias) {axis = -1, epsilon = 1e-12}
  return %y
})",
       .shapes = sizes("n", {0, 1, 2, 33}),
       .interpreted = sizes("n", {0, 1, 3, 9})},
      {.name = "LayerNormOfHalves",
       .text = R"(
fn @main(%x: Tensor[(n, 96), bf16], %scale: Tensor[(96), bf16], %bias: Tensor[(96), bf16]) -> Tensor[(n, 96), bf16]
  where n in [0, 200] {
  %y = layer_norm(%x, %scale, %bias) {axis = -1, epsilon = 1e-5}
  return %y
})",
       .shapes = sizes("n", {0, 1, 5}),
       .tolerance = 2e-2},
      {.name = "SumsAlongTheMiddle",
       .text = R"(
fn @main(%x: Tensor[(b, s, 40), f32], %mask: Tensor[(b, s, 1), f32]) -> Tensor[(b, 40), f32]
  where b in [0, 200], s in [0, 200] {
  %p = mul(%x, %mask)
  %y = reduce_sum(%p) {axes = (1), keepdims = 0}
  return %y
})",
       .shapes = {{{"b", 0}, {"s", 2}},
                  {{"b", 2}, {"s", 0}},
                  {{"b", 1}, {"s", 1}},
                  {{"b", 3}, {"s", 37}}}},
      // Pooling over sequences laid end to end.
      {.name = "Segments",
       .text = R"(
fn @main(%x: Tensor[(t, 40), f32], %offsets: Tensor[(n), i64])
  where t in [0, 2000], n in [1, 40] {
  %positive = relu(%x)
  %sum = segment_sum(%positive, %offsets)
  %root = sqrt(%sum)
  return %root
})",
       .shapes = segment_shapes(),
       .interpreted = few_segment_shapes(),
       .fill = fill_offsets,
       .faults = wrong_offsets()},
      {.name = "OneNumberASegment",
       .text = R"(
fn @main(%x: Tensor[(t), i32], %offsets: Tensor[(n), i64])
  where t in [0, 2000], n in [1, 40] {
  %most = segment_max(%x, %offsets)
  %least = segment_min(%x, %offsets)
  %range = sub(%most, %least)
  return %range, %most
})",
       .shapes = segment_shapes(),
       .interpreted = few_segment_shapes(),
       .fill = fill_offsets},
      {.name = "WholeTensor",
       .text = R"(
fn @main(%x: Tensor[(n), f32]) -> (Tensor[(), f32], Tensor[(), f32])
  where n in [0, 1000000] {
  %max = reduce_max(%x) {keepdims = 0}
  %mean = reduce_mean(%x) {keepdims = 0}
  return %max, %mean
})",
       .shapes = sizes("n", tails()),
       .interpreted = sizes("n", {0, 1, 255, 257, 5000})},
      {.name = "LogSoftmaxAndKeptMeans",
       .text = R"(
fn @main(%x: Tensor[(n, m), f32]) -> (Tensor[(n, m), f32], Tensor[(n, 1), f32])
  where n in [0, 200], m in [0, 200] {
  %y = log_softmax(%x) {axis = -1}
  %z = reduce_mean(%x) {axes = (1), keepdims = 1}
  return %y, %z
})",
       .shapes = pairs("n", {1, 4}, "m", {1, 2, 16, 37}),
       .interpreted = pairs("n", {1, 4}, "m", {1, 2, 37})},
  };
  for (const char* dtype : {"f32", "f64", "f16", "i64", "i32", "i8", "u8"})
    cases.push_back(every_reduction(dtype));
  return cases;
}

// Sums over windows, beyond whose border nothing lies.
std::vector<RegionCase> window_cases() {
  return {
      {.name = "DepthwiseConvolution",
       .text = R"(
fn @main(%x: Tensor[(n, 3, h, w), f32], %k: Tensor[(3, 1, 3, 5), f32]) -> Tensor[(n, 3, h, w), f32]
  where n in [0, 50], h in [0, 200], w in [0, 200] {
  %p = pad(%x) {before = (1, 2), after = (1, 2), axes = (2, 3)}
  %v = windows(%p) {axes = (2, 3), sizes = (3, 5)}
  %e = expand_dims(%k) {axes = (1)}
  %m = mul(%v, %e)
  %y = reduce_sum(%m) {axes = (4, 5)}
  return %y
})",
       .shapes = {{{"n", 1}, {"h", 1}, {"w", 1}},
                  {{"n", 2}, {"h", 7}, {"w", 7}},
                  {{"n", 1}, {"h", 4}, {"w", 70}},
                  {{"n", 0}, {"h", 4}, {"w", 4}}},
       .interpreted = {{{"n", 1}, {"h", 1}, {"w", 1}}, {{"n", 2}, {"h", 3}, {"w", 7}}}},
      {.name = "LargestOfWindows",
       .text = R"(
fn @main(%x: Tensor[(n, h, w), f32]) -> Tensor[(n, ceil_div(h, 2), ceil_div(w, 2)), f32]
  where n in [0, 50], h in [1, 200], w in [1, 200] {
  %low = constant(f32 () [-inf])
  %p = pad(%x, %low) {before = (1, 1), after = (1, 1), axes = (1, 2)}
  %v = windows(%p) {axes = (1, 2), sizes = (3, 3), strides = (2, 2)}
  %y = reduce_max(%v) {axes = (3, 4)}
  return %y
})",
       .shapes = {{{"n", 1}, {"h", 1}, {"w", 1}},
                  {{"n", 2}, {"h", 7}, {"w", 9}},
                  {{"n", 1}, {"h", 4}, {"w", 70}}},
       .interpreted = {{{"n", 1}, {"h", 1}, {"w", 1}}, {{"n", 2}, {"h", 3}, {"w", 9}}}},
      // Windows as wide as a vector, most of which reach over a border in small images.
      {.name = "SumOfLargeWindows",
       .text = R"(
fn @main(%x: Tensor[(c, h, w), f32], %k: Tensor[(c, 1, 1, 7, 7), f32]) -> Tensor[(c, h, w), f32]
  where c in [0, 50], h in [0, 200], w in [0, 200] {
  %p = pad(%x) {before = (3, 3), after = (3, 3), axes = (1, 2)}
  %v = windows(%p) {axes = (1, 2), sizes = (7, 7)}
  %m = mul(%v, %k)
  %y = reduce_sum(%m) {axes = (3, 4)}
  return %y
})",
       .shapes = {{{"c", 3}, {"h", 2}, {"w", 6}},
                  {{"c", 1}, {"h", 9}, {"w", 8}},
                  {{"c", 2}, {"h", 8}, {"w", 23}},
                  {{"c", 1}, {"h", 10}, {"w", 41}},
                  {{"c", 2}, {"h", 7}, {"w", 56}}},
       .interpreted = {{{"c", 1}, {"h", 8}, {"w", 9}}}},
      {.name = "SumOfWindowsApart",
       .text = R"(
fn @main(%x: Tensor[(h, w), f32]) -> Tensor[(floor_div(h - 1, 2) + 1, floor_div(w, 3) + 1), f32]
  where h in [1, 200], w in [1, 200] {
  %p = pad(%x) {before = (2, 2), after = (2, 3), axes = (0, 1)}
  %v = windows(%p) {axes = (0, 1), sizes = (3, 3), strides = (2, 3), dilations = (2, 2)}
  %y = reduce_sum(%v) {axes = (2, 3)}
  return %y
})",
       .shapes = {{{"h", 1}, {"w", 1}},
                  {{"h", 9}, {"w", 29}},
                  {{"h", 6}, {"w", 100}},
                  {{"h", 12}, {"w", 173}}},
       .interpreted = {{{"h", 5}, {"w", 29}}}},
      {.name = "MeanOfWindowsOfKnownSize",
       .text = R"(
fn @main(%x: Tensor[(n, 9, 50), f32]) -> Tensor[(n, 9, 50), f32]
  where n in [0, 50] {
  %p = pad(%x) {before = (1, 1), after = (1, 1), axes = (1, 2)}
  %v = windows(%p) {axes = (1, 2), sizes = (3, 3)}
  %y = reduce_mean(%v) {axes = (3, 4)}
  return %y
})",
       .shapes = {{{"n", 0}}, {{"n", 3}}},
       .interpreted = {{{"n", 1}}}},
  };
}

}  // namespace anydim::tests
