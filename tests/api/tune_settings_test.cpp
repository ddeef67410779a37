// Settings of a tuning run as words.
#include "api/tune_settings.h"

#include <gtest/gtest.h>

#include "ir/error.h"

namespace anydim {
namespace {

TEST(TuneSettings, EachRowSetsItsField) {
  TuneSettings settings;
  for (const auto& [name, value] : {std::pair("batch", "8"),
                                    {"batch_tokens", "512"},
                                    {"budget", "2m"},
                                    {"calls", "folder"},
                                    {"distribution", "uniform(1, 9)"},
                                    {"exhaustive", "on"},
                                    {"lengths", "lengths.txt"},
                                    {"log", "log"},
                                    {"max_kernels", "5"},
                                    {"order", "sorted"},
                                    {"points", "3"},
                                    {"report", "report.html"},
                                    {"trace", "trace.json"},
                                    {"trials", "7"},
                                    {"worker", "/bin/anydim"}})
    set_tune_setting(settings, name, value);
  EXPECT_EQ(settings.batch, 8);
  EXPECT_EQ(settings.batch_tokens, 512);
  EXPECT_EQ(settings.rules.budget_seconds, 120);
  EXPECT_EQ(settings.calls, "folder");
  EXPECT_EQ(settings.distribution, "uniform(1, 9)");
  EXPECT_TRUE(settings.rules.exhaustive);
  EXPECT_EQ(settings.lengths_file, "lengths.txt");
  EXPECT_EQ(settings.log, "log");
  EXPECT_EQ(settings.rules.most_kernels, 5);
  EXPECT_EQ(settings.order, "sorted");
  EXPECT_EQ(settings.rules.points, 3u);
  EXPECT_EQ(settings.report, "report.html");
  EXPECT_EQ(settings.trace, "trace.json");
  EXPECT_EQ(settings.rules.most_trials, 7);
  EXPECT_EQ(settings.worker, (std::vector<std::string>{"/bin/anydim", "worker"}));
}

TEST(TuneSettings, DurationsHaveUnits) {
  EXPECT_EQ(parse_duration("90", "--budget"), 90);
  EXPECT_EQ(parse_duration("1.5s", "--budget"), 1.5);
  EXPECT_EQ(parse_duration("2h", "--budget"), 7200);
  for (const char* wrong : {"", "s", "-3s", "0", "3d", "1e99h", "nan"}) {
    try {
      parse_duration(wrong, "--budget");
      ADD_FAILURE() << wrong;
    } catch (const Error& error) {
      EXPECT_EQ(error.what(),
                std::string("--budget ") + wrong + " is no time above 0, such as 90s, 10m or 2h");
    }
  }
}

}  // namespace
}  // namespace anydim
