#include "runtime/kernel_file.h"

#include <gtest/gtest.h>

#include "runtime/dim_codec.h"

namespace anydim::runtime {
namespace {

using ir::Dim;

ir::CompiledKernel sample() {
  const Dim n = Dim::symbol("s0");
  return {.code = {std::byte{1}, std::byte{2}, std::byte{3}},
          .device = ir::CpuEntries{.kernel = 1, .sizes = 2},
          .tasks = ir::ceil_div(n, 16),
          .scratch_bytes = 4 * n + 64,
          .resources = {3, 2, 1, 168, 16, 4096, "(C7510) products are serialised\n"}};
}

ir::CompiledKernel device_sample() {
  const Dim n = Dim::symbol("s0");
  ir::CompiledKernel kernel = sample();
  const ir::TensorMap map{.buffer = 1,
                          .dtype = ir::DType::BF16,
                          .dims = {Dim(384), n},
                          .strides = {Dim(768)},
                          .box = {64, 128},
                          .swizzle_bytes = 128};
  ir::CudaLaunches device{.waits = true};
  device.launches = {{.entry = "first",
                      .grid = {ir::ceil_div(n, 128), Dim(3), Dim(1)},
                      .block = {384, 1, 1},
                      .cluster = {2, 1, 1},
                      .shared_bytes = 100000,
                      .tensor_maps = {map, map},
                      .dependent = true},
                     {.entry = "second", .grid = {n, Dim(1), Dim(1)}, .block = {32, 2, 1}}};
  kernel.device = std::move(device);
  return kernel;
}

KernelKey key(std::string_view identity = "body") {
  return kernel_key("kernel", identity, "any", "plain", "target", "generator");
}

TEST(KernelFile, ComesBackAsItWent) {
  const DecodedKernel back = decode_kernel(key(), encode_kernel(key(), sample()));
  ASSERT_TRUE(back.kernel) << back.fault;
  EXPECT_EQ(*back.kernel, sample());
}

TEST(KernelFile, LaunchesComeBackAsTheyWent) {
  const DecodedKernel back = decode_kernel(key(), encode_kernel(key(), device_sample()));
  ASSERT_TRUE(back.kernel) << back.fault;
  EXPECT_EQ(*back.kernel, device_sample());
}

TEST(KernelFile, ProductsOfALibraryNeedNoCode) {
  ir::CompiledKernel kernel;
  ir::DeviceLaunch launch{.entry = "cublaslt", .grid = {Dim::symbol("s0"), Dim(1), Dim(1)}};
  launch.product = {.x = 0,
                    .w = 2,
                    .bias = 1,
                    .d = 3,
                    .dtype = ir::DType::F16,
                    .n = 384,
                    .k = 1536,
                    .w_by_columns = true,
                    .activation = ir::LibraryProduct::Activation::GeluTanh,
                    .tf32 = true};
  kernel.device = ir::CudaLaunches{.launches = {launch}};
  kernel.scratch_bytes = Dim(ir::LibraryProduct::workspace_bytes);
  const DecodedKernel back = decode_kernel(key(), encode_kernel(key(), kernel));
  ASSERT_TRUE(back.kernel) << back.fault;
  EXPECT_EQ(*back.kernel, kernel);
  launch.product.reset();
  kernel.device = ir::CudaLaunches{.launches = {launch}};
  EXPECT_FALSE(decode_kernel(key(), encode_kernel(key(), kernel)).kernel);
}

TEST(KernelFile, EveryFlippedBitIsNoticed) {
  const std::vector<std::byte> good = encode_kernel(key(), sample());
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::vector<std::byte> bad = good;
      bad[i] ^= std::byte{static_cast<unsigned char>(1 << bit)};
      EXPECT_FALSE(decode_kernel(key(), bad).kernel) << "byte " << i << " bit " << bit;
    }
  }
}

TEST(KernelFile, EveryTruncationIsNoticed) {
  const std::vector<std::byte> good = encode_kernel(key(), sample());
  for (std::size_t length = 0; length < good.size(); ++length) {
    EXPECT_EQ(decode_kernel(key(), std::span(good).first(length)).fault, "it is truncated")
        << length;
  }
}

TEST(KernelFile, AnotherKernelIsAMiss) {
  EXPECT_EQ(decode_kernel(key("other body"), encode_kernel(key(), sample())).fault,
            "it holds another kernel");
}

TEST(KernelFile, EveryPartOfTheKeyCounts) {
  const KernelKey base = kernel_key("kernel", "a", "b", "c", "d", "e");
  EXPECT_EQ(base, kernel_key("kernel", "a", "b", "c", "d", "e"));
  EXPECT_NE(base, kernel_key("shapes", "a", "b", "c", "d", "e"));
  EXPECT_NE(base, kernel_key("kernel", "x", "b", "c", "d", "e"));
  EXPECT_NE(base, kernel_key("kernel", "a", "x", "c", "d", "e"));
  EXPECT_NE(base, kernel_key("kernel", "a", "b", "x", "d", "e"));
  EXPECT_NE(base, kernel_key("kernel", "a", "b", "c", "x", "e"));
  EXPECT_NE(base, kernel_key("kernel", "a", "b", "c", "d", "x"));
  EXPECT_NE(base, kernel_key("kernel", "ab", "", "c", "d", "e"));
}

TEST(DimCodec, EveryKindOfDimComesBack) {
  const Dim a = Dim::symbol("a"), b = Dim::symbol("b");
  const Dim dims[] = {Dim(0),
                      Dim(-7),
                      a,
                      3 * a * b * b - 2 * a + 5,
                      ir::floor_div(a, b),
                      ir::mod(a + 1, b),
                      ir::min(a, ir::min(b, Dim(9))),
                      ir::max(a, b),
                      ir::select(ir::Comparison::Less, a, b, a * 2, b),
                      ir::broadcast(a, b),
                      Dim::value(3, 1) + 1};
  for (const Dim& dim : dims) {
    ByteWriter writer;
    writer.dim(dim);
    ByteReader reader(writer.bytes());
    EXPECT_EQ(reader.dim(), dim) << dim.to_string();
    EXPECT_TRUE(reader.rest().empty());
  }
}

}  // namespace
}  // namespace anydim::runtime
