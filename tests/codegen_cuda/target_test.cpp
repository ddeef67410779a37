#include "codegen_cuda/target.h"

#include <gtest/gtest.h>

#include "ir/error.h"

namespace anydim::codegen_cuda {
namespace {

TEST(Target, PartsAreFoundByNameAndByArchitecture) {
  EXPECT_EQ(target_named("h200")->architecture, "sm_90a");
  EXPECT_EQ(target_named("sm_80")->name, "a100");
  EXPECT_EQ(target_named("sm_90a")->capability(), 90);
  EXPECT_FALSE(target_named("sm_90")->has_wgmma());
  EXPECT_FALSE(target_named("voodoo"));
  for (const std::string& name : target_names()) EXPECT_EQ(target_named(name)->name, name);
}

TEST(Target, ADeviceIsDescribedByItselfAndRatedByItsNeighbour) {
  const CudaTarget h200 = target_of({.driver_name = "NVIDIA H200",
                                     .capability = 90,
                                     .multiprocessors = 132,
                                     .shared_per_multiprocessor = 233472,
                                     .shared_per_block = 232448,
                                     .l2_bytes = 62914560});
  EXPECT_EQ(h200.architecture, "sm_90a");
  EXPECT_EQ(h200.shared_per_block, 232448);
  EXPECT_EQ(h200.memory_bandwidth, target_named("h200")->memory_bandwidth);
  const CudaTarget unknown = target_of({.driver_name = "NVIDIA Thor",
                                        .capability = 110,
                                        .multiprocessors = 20,
                                        .shared_per_multiprocessor = 233472,
                                        .shared_per_block = 232448,
                                        .l2_bytes = 33554432});
  EXPECT_EQ(unknown.architecture, "compute_100");
  EXPECT_TRUE(unknown.wants_ptx());
  EXPECT_FALSE(h200.wants_ptx());
  EXPECT_GT(unknown.memory_bandwidth, 0);
}

TEST(Target, AnH100IsWhatItsDriverSays) {
  DeviceDescription device{.driver_name = "NVIDIA H100 80GB HBM3",
                           .capability = 90,
                           .multiprocessors = 132,
                           .shared_per_multiprocessor = 233472,
                           .shared_per_block = 232448,
                           .l2_bytes = 52428800,
                           .threads_per_multiprocessor = 2048,
                           .blocks_per_multiprocessor = 32,
                           .registers_per_multiprocessor = 65536,
                           .memory_bandwidth = 2.0 * 2619e6 * 5120 / 8};
  const CudaTarget sxm = target_of(device);
  EXPECT_EQ(sxm.architecture, "sm_90a");
  EXPECT_EQ(sxm.l2_bytes, 52428800);
  EXPECT_NEAR(sxm.memory_bandwidth, target_named("h100")->memory_bandwidth, 0.03e12);
  device.driver_name = "NVIDIA H100 PCIe";
  device.multiprocessors = 114;
  EXPECT_EQ(target_of(device).clock, target_named("h100-pcie")->clock);
}

// A part by its name and as drivers describe it, which tell less memory than it is sold with.
TEST(Target, TimesHoldForAPartWhateverItsName) {
  EXPECT_EQ(part_text(*target_named("h200")), "GPU sm_90a of 132 multiprocessors and 141 GB");
  const auto part = [](int capability, int multiprocessors, double gib) {
    return part_text(target_of({.driver_name = "a GPU",
                                .capability = capability,
                                .multiprocessors = multiprocessors,
                                .memory_bytes = static_cast<std::int64_t>(gib * 0x1p30)}));
  };
  EXPECT_EQ(part(90, 132, 139.8), part_text(*target_named("h200")));
  EXPECT_EQ(part(90, 132, 79.2), part_text(*target_named("h100")));
  EXPECT_EQ(part(90, 114, 79.2), part_text(*target_named("h100-pcie")));
  EXPECT_EQ(part(89, 142, 44.4), part_text(*target_named("l40s")));
  EXPECT_EQ(part(89, 58, 22.2), part_text(*target_named("l4")));
  EXPECT_EQ(part(80, 108, 39.4), part_text(*target_named("a100")));
  EXPECT_EQ(part(90, 132, 94.5), "GPU sm_90a of 132 multiprocessors and 95 GB");
}

TEST(Target, OldDevicesAreRefused) {
  try {
    target_of({.driver_name = "Tesla T4",
               .capability = 75,
               .multiprocessors = 40,
               .shared_per_multiprocessor = 65536,
               .shared_per_block = 65536,
               .l2_bytes = 4194304});
    FAIL() << "a device older than 8.0 was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Resource);
    EXPECT_STREQ(error.what(),
                 "the GPU Tesla T4 has compute capability 7.5, and kernels need 8.0 or newer");
  }
}

}  // namespace
}  // namespace anydim::codegen_cuda
