// The corpus of regions on the PTX interpreter, and what kernels of maps and rows have beyond it.
#include "tests/support/region_cases.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "codegen_cuda/backend.h"
#include "ir/error.h"
#include "ir/schedule.h"
#include "tests/codegen_cuda/expect_right.h"

namespace anydim::codegen_cuda::testing {
namespace {

class CudaRegions : public ::testing::TestWithParam<std::string> {};

TEST_P(CudaRegions, AgreeWithTheReference) {
  const tests::RegionCase& one = tests::region_case(GetParam());
  const auto region = make_region(one.text, one.weights);
  if (const auto* attention = std::get_if<ir::AttentionForm>(&region->form.kind);
      attention != nullptr && attention->zero_nan) {
    const auto backend = make_cuda_backend({.target = small_target("h200")});
    EXPECT_THROW(backend->candidates(region->region, {}), Error) << "passes take it apart";
    return;
  }
  // Products and attention have many schedules, which their own tests walk along.
  const bool many = one.kind == "matmul" || one.kind == "attention";
  expect_right(region, {}, one.few_shapes(), one.tolerance, one.fill, many ? 1 : one.most);
  for (const tests::RegionFault& fault : one.faults) {
    std::vector<ir::Tensor> inputs = real_inputs(*region, fault.symbols);
    fault.fill(inputs);
    const ir::KernelError failure = failure_of(region, fault.symbols, inputs);
    EXPECT_EQ(failure.check, 0);
    if (fault.value) EXPECT_EQ(failure.value, *fault.value);
  }
}

INSTANTIATE_TEST_SUITE_P(Corpus, CudaRegions, ::testing::ValuesIn(tests::region_case_names()),
                         [](const auto& tested) { return tested.param; });

TEST(CudaMap, SurplusBlocksExit) {
  const auto region = make_region(R"(
fn @main(%x: Tensor[(n), bf16], %y: Tensor[(n), bf16]) -> Tensor[(n), bf16]
  where n in [0, 5000] {
  %a = add(%x, %y)
  return %a
})");
  const CudaTarget target = small_target("h200");
  const KernelCase kernel = compiled(region, target, {}, candidates(*region, target, {}).front());
  const ptx::Module module = ptx::parse_ptx(kernel.ptx);
  CaseOptions options;
  options.capacity = {{"n", 5000}};
  for (const std::int64_t n : {0, 7, 2049})
    EXPECT_EQ(check_case(kernel, module, {{"n", n}}, options), "") << n;
}

// Sizes beyond 32 bits are counted in 64, whatever runs now.
TEST(CudaMap, CountsInSixtyFourBitsWhereRangesAskForIt) {
  const auto region = make_region(R"(
fn @main(%x: Tensor[(b, s, 48), f32], %y: Tensor[(s, 48), f32]) -> Tensor[(b, s, 48), f32]
  where b in [0, 2147483647], s in [0, 2147483647] {
  %a = add(%x, %y)
  return %a
})");
  const CudaTarget target = small_target("h200");
  const ir::Schedule schedule = candidates(*region, target, {}).front();
  const KernelCase wide = compiled(region, target, {}, schedule);
  EXPECT_NE(wide.source.find("const long long points"), std::string::npos);
  expect_right(region, target, {}, schedule, {{{"b", 0}, {"s", 3}}, {{"b", 3}, {"s", 5}}});
  // The bucket's range of b * s proves that 32 bits suffice.
  const ir::Bucket bucket =
      bucket_of(std::vector<ir::BucketInterval>(region->region.keys.size(), {0, 1024, 1}));
  EXPECT_NE(compiled(region, target, bucket, schedule).source.find("const int points"),
            std::string::npos);
  expect_right(region, target, bucket, schedule, {{{"b", 3}, {"s", 5}}});
}

TEST(CudaRows, SoftmaxOfShortRowsInRegisters) {
  expect_right(make_region(tests::region_case("Softmax").text),
               bucket_of({{0, 200, 1}, {0, 200, 1}}),
               pairs("n", {0, 1, 9}, "m", {0, 1, 31, 32, 33, 130}));
}

TEST(CudaRows, SurplusBlocksExit) {
  const auto region = make_region(tests::region_case("LayerNormWithResidual").text);
  const CudaTarget target = small_target("h200");
  for (const ir::Schedule& schedule : candidates(*region, target, {})) {
    const KernelCase kernel = compiled(region, target, {}, schedule);
    CaseOptions options;
    options.capacity = {{"n", 40}};
    EXPECT_EQ(check_case(kernel, ptx::parse_ptx(kernel.ptx), {{"n", 3}}, options, 2e-5), "")
        << to_string(schedule);
  }
}

// What stands behind the products of models: rows of their widths, and of widths that no vector of
// four elements divides, in the dtypes that products leave.
TEST(CudaRows, LayerNormsAndSoftmaxOfProductsWidths) {
  for (const auto& [width, dtype, tolerance] : {std::tuple(66, "f32", 2e-5),
                                                {72, "f32", 2e-5},
                                                {90, "f32", 2e-5},
                                                {90, "f16", 4e-3},
                                                {384, "bf16", 2e-2},
                                                {768, "f32", 2e-5},
                                                {768, "bf16", 2e-2}}) {
    SCOPED_TRACE(fmt::format("{} {}", width, dtype));
    const auto rows = fmt::format("Tensor[(n, {}), {}]", width, dtype),
               row = fmt::format("Tensor[({}), {}]", width, dtype);
    const auto norm = fmt::format(R"(
fn @main(%x: {0}, %r: {0}, %scale: {1}, %shift: {1}) -> {0}
  where n in [0, 200] {{
  %s = add(%x, %r)
  %y = layer_norm(%s, %scale, %shift) {{axis = -1, epsilon = 1e-05}}
  return %y
}})",
                                  rows, row);
    const auto softmax = fmt::format(R"(
fn @main(%x: {0}) -> {0}
  where n in [0, 200] {{
  %y = softmax(%x) {{axis = -1}}
  return %y
}})",
                                     rows);
    for (const std::string& text : {norm, softmax})
      expect_right(make_region(text), {}, tests::sizes("n", {0, 1, 17}), tolerance);
  }
}

TEST(CudaRows, AWholeTensorIsSplitBetweenBlocks) {
  const auto region = make_region(tests::region_case("WholeTensor").text);
  std::set<std::int64_t> splits;
  for (const ir::Schedule& schedule : candidates(*region, small_target("h200"), {}))
    splits.insert(schedule.field("split"));
  EXPECT_GT(splits.size(), 1u);
}

}  // namespace
}  // namespace anydim::codegen_cuda::testing
