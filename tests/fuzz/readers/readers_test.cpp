// Every seed, and every input that once brought out a fault, without a fuzzer.
#include "tests/fuzz/readers/readers.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace anydim::fuzz {
namespace {

TEST(Readers, ReadTheirSeeds) {
  for (const Reader& reader : readers()) {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(
             std::filesystem::path("readers/seeds") / reader.name)) {
      SCOPED_TRACE(entry.path().string());
      std::ifstream stream(entry.path(), std::ios::binary);
      const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
      reader.read(std::as_bytes(std::span(bytes)));
      ++count;
    }
    EXPECT_GE(count, 3u) << reader.name;
  }
}

}  // namespace
}  // namespace anydim::fuzz
