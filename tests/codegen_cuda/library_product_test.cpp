// Which regions a library computes, and why it does not compute the others.
#include "codegen_cuda/matmul/library_product.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "codegen_cuda/backend.h"
#include "tests/codegen_cuda/kernel_case.h"

namespace anydim::codegen_cuda::testing {
namespace {

using Activation = ir::LibraryProduct::Activation;

LibraryForm form_of(const std::string& text) {
  const auto region = make_region(text);
  const CudaTarget target = *target_named("h200");
  return library_form({target, region->region, region->form});
}

std::string product(const std::string& dtype, const std::string& after) {
  return fmt::format(R"(
fn @main(%x: Tensor[(b, s, 48), {0}], %w: Tensor[(48, 96), {0}], %bias: Tensor[(96), {0}]) -> Tensor[(b, s, 96), {0}]
  where b in [1, 64], s in [1, 512] {{
  %p = matmul(%x, %w)
{1}}})",
                     dtype, after);
}

TEST(LibraryProduct, EpiloguesThatTheLibraryHas) {
  for (const std::string dtype : {"f32", "bf16", "f16"}) {
    SCOPED_TRACE(dtype);
    const LibraryForm plain = form_of(product(dtype, "  %r = add(%bias, %p)\n  return %r\n"));
    ASSERT_TRUE(plain.product) << plain.reason;
    EXPECT_EQ(plain.product->x, 0);
    EXPECT_EQ(plain.product->w, 1);
    EXPECT_EQ(plain.product->bias, 2);
    EXPECT_EQ(plain.product->d, 3);
    EXPECT_EQ(plain.product->n, 96);
    EXPECT_EQ(plain.product->k, 48);
    EXPECT_FALSE(plain.product->w_by_columns);
    EXPECT_EQ(plain.product->activation, Activation::None);
    EXPECT_EQ(tests::value_at(plain.rows, {{"b", 3}, {"s", 7}}), 21);
    const LibraryForm gelu =
        form_of(product(dtype, "  %q = add(%p, %bias)\n  %r = gelu_tanh(%q)\n  return %r\n"));
    ASSERT_TRUE(gelu.product) << gelu.reason;
    EXPECT_EQ(gelu.product->activation, Activation::GeluTanh);
    EXPECT_EQ(gelu.product->bias, 2);
    const LibraryForm relu =
        form_of(product(dtype, "  %q = add(%p, %bias)\n  %r = relu(%q)\n  return %r\n"));
    ASSERT_TRUE(relu.product) << relu.reason;
    EXPECT_EQ(relu.product->activation, Activation::Relu);
  }
}

TEST(LibraryProduct, AWeightStoredTheOtherWayRound) {
  const LibraryForm turned = form_of(R"(
fn @main(%x: Tensor[(n, 48), bf16], %w: Tensor[(96, 48), bf16]) -> Tensor[(n, 96), bf16]
  where n in [0, 512] {
  %t = transpose(%w)
  %p = matmul(%x, %t)
  return %p
})");
  ASSERT_TRUE(turned.product) << turned.reason;
  EXPECT_TRUE(turned.product->w_by_columns);
  EXPECT_EQ(turned.product->bias, -1);
}

TEST(LibraryProduct, WhatItDoesNotComputeAndWhy) {
  const auto reason = [](const std::string& text) {
    const LibraryForm form = form_of(text);
    EXPECT_FALSE(form.product);
    return form.reason;
  };
  EXPECT_EQ(reason(product("bf16", "  %q = add(%p, %bias)\n  %r = gelu(%q)\n  return %r\n")),
            "its epilogue has gelu; the library's has a bias, ReLU and the tanh form of GELU");
  EXPECT_EQ(reason(product("f32", "  %q = gelu_tanh(%p)\n  %r = add(%q, %bias)\n  return %r\n")),
            "its epilogue has gelu_tanh; the library's has a bias, ReLU and the tanh form of GELU");
  EXPECT_EQ(reason(product("f64", "  %r = add(%p, %bias)\n  return %r\n")),
            "it multiplies f64 numbers");
  EXPECT_EQ(reason(R"(
fn @main(%x: Tensor[(b, s, 48), f32], %w: Tensor[(b, 48, 96), f32]) -> Tensor[(b, s, 96), f32]
  where b in [1, 64], s in [1, 512] {
  %p = matmul(%x, %w)
  return %p
})"),
            "the right operand is no matrix that all rows share");
  EXPECT_EQ(reason(R"(
fn @main(%x: Tensor[(n, k), f32], %w: Tensor[(k, 96), f32]) -> Tensor[(n, 96), f32]
  where n in [0, 512], k in [1, 512] {
  %p = matmul(%x, %w)
  return %p
})"),
            "the weight's size is not known when it is compiled");
  EXPECT_EQ(reason(R"(
fn @main(%x: Tensor[(n, 48), f32]) -> Tensor[(n, 48), f32]
  where n in [0, 512] {
  %p = relu(%x)
  return %p
})"),
            "it is no matrix product but of kind map");
}

TEST(LibraryProduct, ItIsNoCandidateUnlessAskedFor) {
  const auto region = make_region(product("bf16", "  %r = add(%bias, %p)\n  return %r\n"));
  const auto backend = make_cuda_backend({.target = *target_named("h200")});
  for (const ir::Schedule& schedule : backend->candidates(region->region, {}))
    EXPECT_NE(schedule.name, library_schedule_name);
  const auto choice = backend->library_schedule(region->region);
  ASSERT_TRUE(choice.schedule);
  const ir::CompiledKernel kernel = backend->compile(region->region, {}, *choice.schedule);
  EXPECT_TRUE(kernel.code.empty());
  ASSERT_EQ(kernel.cuda().launches.size(), 1u);
  EXPECT_TRUE(kernel.cuda().launches[0].product);
  const std::vector<std::int64_t> few{64}, many{65536};
  EXPECT_LT(backend->estimate(region->region, *choice.schedule, few, 1),
            backend->estimate(region->region, *choice.schedule, many, 1));
}

}  // namespace
}  // namespace anydim::codegen_cuda::testing
