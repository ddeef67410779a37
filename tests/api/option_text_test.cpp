// Options as words: what each row of the table takes, and what it says of anything else.
#include "api/option_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ranges>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ir/error.h"

namespace anydim {
namespace {

std::string refusal(std::string_view name, std::string_view value) {
  CompileOptions options;
  try {
    set_option(options, name, value);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::CommandLine);
    return error.what();
  }
  return "taken";
}

// By what is said of an option that does not exist.
std::vector<std::string> option_names() {
  std::string list = refusal("treads", "2");
  list.erase(0, list.find("there are ") + std::string("there are ").size());
  std::vector<std::string> names;
  for (const auto name : std::views::split(list, std::string_view(", ")))
    names.emplace_back(name.begin(), name.end());
  return names;
}

TEST(Options, AModelComputesWithAsManyThreadsAsAPoolHas) {
  CompileOptions options;
  EXPECT_GE(thread_count(options), 1);
  EXPECT_LE(thread_count(options), most_threads());
  options.threads = most_threads();
  EXPECT_EQ(thread_count(options), most_threads());
  options.threads = most_threads() + 1;
  try {
    thread_count(options);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::CommandLine);
    EXPECT_STREQ(error.what(),
                 "threads: expected at most 1024, got 1025; a model computes with no more");
  }
}

TEST(OptionText, EachRowSetsItsField) {
  CompileOptions options;
  set_option(options, "background", "off");
  set_option(options, "cpu_level", "avx2");
  set_option(options, "device", "cuda");
  set_option(options, "dim", "batch=1:4");
  set_option(options, "dim", "sequence=1:512:8");
  set_option(options, "f32_products", "tf32");
  set_option(options, "masked_rows", "zero");
  set_option(options, "memory_limit", "512M");
  set_option(options, "output", "rows");
  set_option(options, "output", "mean");
  set_option(options, "policy", "matmul_3=exact");
  set_option(options, "precision", "bf16");
  set_option(options, "threads", "7");
  EXPECT_FALSE(options.background);
  EXPECT_EQ(options.cpu_level, "avx2");
  EXPECT_EQ(options.device, DeviceKind::Cuda);
  ASSERT_EQ(options.dims.size(), 2u);
  EXPECT_EQ(options.dims[1].multiple, 8);
  EXPECT_EQ(options.f32_products, F32Products::Tf32);
  EXPECT_EQ(options.masked_rows, MaskedRows::Zero);
  EXPECT_EQ(options.memory_limit, std::int64_t{512} << 20);
  EXPECT_EQ(options.outputs, (std::vector<std::string>{"rows", "mean"}));
  EXPECT_EQ(options.policies, (std::vector<PolicyChoice>{{"matmul_3", Policy::Exact}}));
  EXPECT_EQ(options.precision, ir::DType::BF16);
  EXPECT_EQ(options.threads, 7);
}

TEST(OptionText, OptionsAsWordsAreTheSameOptions) {
  CompileOptions options;
  for (const auto& [name, value] : {std::pair("background", "off"),
                                    {"cache_folder", "/some/folder"},
                                    {"cpu_level", "avx2"},
                                    {"device", "cuda"},
                                    {"dim", "batch=1:4:1"},
                                    {"dim", "sequence=1:512:8"},
                                    {"f32_products", "tf32"},
                                    {"masked_rows", "zero"},
                                    {"memory_limit", "536870912"},
                                    {"output", "rows"},
                                    {"output", "mean"},
                                    {"policy", "exact"},
                                    {"policy", "matmul_3=symbolic"},
                                    {"precision", "int8"},
                                    {"threads", "7"}})
    set_option(options, name, value);
  const OptionWords words = option_words(options);
  CompileOptions again;
  for (const auto& [name, value] : words) set_option(again, name, value);
  EXPECT_EQ(option_words(again), words);
  std::set<std::string_view> named;
  for (const auto& [name, value] : words) named.insert(name);
  for (const std::string& name : option_names())
    EXPECT_TRUE(named.contains(name) || name == "database") << name;
  EXPECT_EQ(again.policies, options.policies);
  EXPECT_EQ(again.precision, ir::DType::I8);
  EXPECT_EQ(again.memory_limit, options.memory_limit);
  EXPECT_EQ(again.dims.at(1).multiple, 8);
  set_option(options, "cache_folder", "none");
  EXPECT_EQ(
      std::ranges::count(option_words(options), OptionWords::value_type("cache_folder", "none")),
      1);
}

TEST(OptionText, NoneTurnsWhatIsOnDiskOff) {
  CompileOptions options;
  set_option(options, "cache_folder", "some/folder");
  EXPECT_EQ(options.cache_folder, "some/folder");
  set_option(options, "cache_folder", "none");
  EXPECT_FALSE(options.cache_folder);
  EXPECT_FALSE(options.keep_kernels);
  options.database_optional = true;
  set_option(options, "database", "some.db");
  EXPECT_EQ(options.database, "some.db");
  EXPECT_FALSE(options.database_optional);
  set_option(options, "database", "none");
  EXPECT_FALSE(options.database);
}

TEST(OptionText, AnUnknownOptionNamesThoseThereAre) {
  EXPECT_EQ(
      refusal("treads", "2"),
      "there is no option 'treads'; there are append_in_place, background, cache_folder, "
      "cpu_level, database, "
      "device, dim, f32_products, masked_rows, memory_limit, output, policy, precision, threads");
  EXPECT_TRUE(std::ranges::is_sorted(option_names()));
}

TEST(OptionText, AWrongValueNamesWhatTheOptionTakes) {
  EXPECT_EQ(refusal("threads", "many"),
            "option 'threads' cannot be 'many': it takes a number from 1 to 1024");
  EXPECT_EQ(refusal("precision", "f8"),
            "option 'precision' cannot be 'f8': it takes f32, bf16, f16 or int8");
  EXPECT_EQ(refusal("dim", "sequence"),
            "option 'dim' cannot be 'sequence': it takes NAME=LOW:HIGH[:MULTIPLE] with 0 <= LOW <= "
            "HIGH and MULTIPLE >= 1, e.g. sequence=1:512");
  for (const char* value : {"", "0", "1025", "2 ", "-1", "99999999999"})
    EXPECT_NE(refusal("threads", value), "taken") << value;
  for (const char* value : {"", "M", "-1", "1.5G", "1iB", "9223372036854775807K"})
    EXPECT_NE(refusal("memory_limit", value), "taken") << value;
  for (const std::string& name : option_names())
    EXPECT_NE(refusal(name, "").find("it takes "), std::string::npos) << name;
}

}  // namespace
}  // namespace anydim
