// The source of one kernel of each kind, as text: generated code is meant to be read.
// ANYDIM_UPDATE_TESTS=1 rewrites the expectations.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "codegen_cuda/backend.h"
#include "tests/codegen_cuda/kernel_case.h"

namespace anydim::codegen_cuda::testing {
namespace {

// From the first entry on: the device functions before it are device/*.cuh.
std::string entries_of(const std::string& text, const std::string& schedule) {
  const auto region = make_region(text);
  const std::string source =
      cuda_kernel(*target_named("h200"), region->region, {}, ir::parse_schedule(schedule)).source;
  return source.substr(source.find("extern \"C\""));
}

void expect_file(const std::string& name, const std::string& text) {
  const std::string path = "golden/" + name;
  if (std::getenv("ANYDIM_UPDATE_TESTS") != nullptr) std::ofstream(path) << text;
  std::ifstream file(path);
  ASSERT_TRUE(file) << path << " is missing; ANYDIM_UPDATE_TESTS=1 writes it";
  std::stringstream expected;
  expected << file.rdbuf();
  EXPECT_EQ(text, expected.str()) << "ANYDIM_UPDATE_TESTS=1 rewrites " << path;
}

TEST(Source, LayerNormOfASum) {
  expect_file("layer_norm.cu", entries_of(R"(
fn @main(%x: Tensor[(n, 384), bf16], %r: Tensor[(n, 384), bf16], %scale: Tensor[(384), f32], %bias: Tensor[(384), f32]) -> Tensor[(n, 384), bf16]
  where n in [1, 16384] {
  %s = add(%x, %r)
  %f = cast(%s) {to = f32}
  %y = layer_norm(%f, %scale, %bias) {axis = -1, epsilon = 1e-12}
  %b = cast(%y) {to = bf16}
  return %b
})",
                                          "rows threads=32 across=0 vector=4 items=3 split=1"));
}

TEST(Source, GatherWithAConversion) {
  expect_file("gather.cu", entries_of(R"(
fn @main(%table: Tensor[(30522, 384), f32], %ids: Tensor[(n), i64]) -> Tensor[(n, 384), bf16]
  where n in [0, 16384] {
  %g = gather(%table, %ids) {axis = 0}
  %b = cast(%g) {to = bf16}
  return %b
})",
                                      "map vector=4 threads=256 blocks=8"));
}

}  // namespace
}  // namespace anydim::codegen_cuda::testing
