// Maps that read across, in tiles.
#include "codegen_cpu/loops/map_tile.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/codegen_cpu/expect_right.h"

namespace anydim::codegen_cpu::testing {
namespace {

std::optional<MapTile> tile_of_first(const TestRegion& region) {
  return tile_of(std::get<ir::MapForm>(region.form.kind).parts.at(0), region.form);
}

// Every schedule with tiles of every level, at each of `shapes`.
void expect_tiles_right(const std::string& text, const std::vector<Symbols>& shapes) {
  SCOPED_TRACE(text);
  const TestRegion region = make_region(text);
  ASSERT_TRUE(tile_of_first(region));
  const std::vector<ReferenceCall> calls = reference_calls(region, shapes);
  for (const Target& target : targets()) {
    std::size_t found = 0;
    for (const ir::Schedule& schedule : candidates(region, target, {})) {
      if (schedule.find("tile").value_or(0) == 0) continue;
      ++found;
      expect_kernel_right(region, target, {}, schedule, calls);
    }
    EXPECT_GT(found, 0u) << target.name();
  }
}

// Sides around that of a tile, blocks of one task and of several.
const std::vector<Symbols> shapes = {
    {{"n", 1}, {"w", 1}},   {{"n", 15}, {"w", 17}}, {{"n", 16}, {"w", 16}}, {{"n", 17}, {"w", 15}},
    {{"n", 40}, {"w", 70}}, {{"n", 3}, {"w", 900}}, {{"n", 900}, {"w", 3}}, {{"n", 0}, {"w", 9}},
    {{"n", 9}, {"w", 0}},   {{"n", 300}, {"w", 64}}};

TEST(MapTile, TransposesOfEveryWidth) {
  for (const std::string dtype : {"f32", "f64", "f16", "bf16", "i64", "i32", "u8"})
    expect_tiles_right(
        fmt::format("fn @main(%x: Tensor[(2, n, w), {0}]) -> Tensor[(2, w, n), {0}] where n in [0, "
                    "1000], w in [0, 1000] {{\n %y = transpose(%x) {{perm = (0, 2, 1)}}\n return "
                    "%y\n}}",
                    dtype),
        shapes);
}

TEST(MapTile, OuterDimsBetween) {
  expect_tiles_right(R"(
fn @main(%x: Tensor[(n, 3, w), f32]) -> Tensor[(w, 3, n), f32]
  where n in [0, 1000], w in [0, 1000] {
  %y = transpose(%x) {perm = (2, 1, 0)}
  return %y
})",
                     shapes);
}

TEST(MapTile, BesideOperandsThatLieAlong) {
  expect_tiles_right(R"(
fn @main(%x: Tensor[(n, w), f32], %z: Tensor[(w, n), f32], %b: Tensor[(n), f32], %c: Tensor[(w, 1), f32]) -> Tensor[(w, n), f32]
  where n in [0, 1000], w in [0, 1000] {
  %t = transpose(%x) {perm = (1, 0)}
  %e = mul(%t, %z)
  %f = add(%e, %b)
  %g = add(%f, %c)
  %y = relu(%g)
  return %y
})",
                     shapes);
}

TEST(MapTile, TwoOperandsAcross) {
  expect_tiles_right(R"(
fn @main(%x: Tensor[(n, w), f32], %z: Tensor[(n, w), u8]) -> Tensor[(w, n), f32]
  where n in [0, 1000], w in [0, 1000] {
  %t = transpose(%x) {perm = (1, 0)}
  %u = transpose(%z) {perm = (1, 0)}
  %v = cast(%u) {to = f32}
  %y = mul(%t, %v)
  return %y
})",
                     shapes);
}

TEST(MapTile, PartsOfAConcat) {
  expect_tiles_right(R"(
fn @main(%x: Tensor[(n, w), f32], %z: Tensor[(w, 5), f32]) -> Tensor[(w, n + 5), f32]
  where n in [0, 1000], w in [0, 1000] {
  %t = transpose(%x) {perm = (1, 0)}
  %y = concat(%t, %z) {axis = 1}
  return %y
})",
                     shapes);
}

TEST(MapTile, NoneWhereNothingIsReadAcross) {
  EXPECT_FALSE(tile_of_first(make_region(
      "fn @main(%x: Tensor[(n, w), f32]) -> Tensor[(n, w), f32] {\n %y = exp(%x)\n return %y\n}")));
}

// An element that is not read everywhere is read by itself.
TEST(MapTile, NoneOfGuardedReads) {
  EXPECT_FALSE(tile_of_first(make_region(R"(
fn @main(%x: Tensor[(n, w), f32]) -> Tensor[(w + 2, n), f32]
  where n in [0, 1000], w in [0, 1000] {
  %t = transpose(%x) {perm = (1, 0)}
  %y = pad(%t) {before = (1), after = (1), axes = (0)}
  return %y
})")));
}

}  // namespace
}  // namespace anydim::codegen_cpu::testing
