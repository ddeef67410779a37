#include "api/options.h"

#include <gtest/gtest.h>

#include "ir/error.h"

namespace anydim {
namespace {

TEST(Options, DimRangesAreRead) {
  const DimRange range = parse_dim_range("seq=1:512:8");
  EXPECT_EQ(range.symbol, "seq");
  EXPECT_EQ(range.low, 1);
  EXPECT_EQ(range.high, 512);
  EXPECT_EQ(range.multiple, 8);
  EXPECT_EQ(parse_dim_range("n=0:0").multiple, 1);
}

TEST(Options, MalformedDimRangesAreRefused) {
  for (const char* text :
       {"", "seq", "seq=", "=1:2", "seq=1", "seq=2:1", "seq=-1:2", "seq=1:2:0", "seq=1:2:3:4",
        "seq=1:2:", "seq=1:x", "seq=1;2", "seq=1:99999999999999999999"}) {
    try {
      parse_dim_range(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::CommandLine);
      EXPECT_EQ(std::string(error.what()), "--dim " + std::string(text) +
                                               " is not NAME=LOW:HIGH[:MULTIPLE] with 0 <= LOW <= "
                                               "HIGH and MULTIPLE >= 1, e.g. sequence=1:512");
    }
  }
}

TEST(Options, PoliciesAreRead) {
  EXPECT_EQ(parse_policy("symbolic"), (PolicyChoice{"", Policy::Symbolic}));
  EXPECT_EQ(parse_policy("matmul_3=bucketed"), (PolicyChoice{"matmul_3", Policy::Bucketed}));
  for (const char* text : {"", "fast", "matmul_3=", "=x"}) {
    try {
      parse_policy(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()), "--policy " + std::string(text) +
                                               " is not [REGION=]symbolic|bucketed|exact|library");
    }
  }
}

}  // namespace
}  // namespace anydim
