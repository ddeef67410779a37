// Models that try to fool the proof of padding removal. build/bin/fuzz_padding runs more of them.
#include <gtest/gtest.h>

#include "tests/fuzz/padding_check.h"

namespace anydim::tests {
namespace {

TEST(FuzzPadding, TheFirstModelsAgree) {
  std::size_t packed = 0;
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    const PaddingModel model = padding_model(seed);
    const PaddingReport report = check_padding(model, seed, {});
    EXPECT_EQ(report.failure, "") << "seed " << seed << " (" << model.what << ")\n" << model.text;
    packed += report.padded_because.empty() ? 1 : 0;
  }
  EXPECT_GE(packed, 4u);
}

}  // namespace
}  // namespace anydim::tests
