// Tuning through the C interface.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/capi/interface.h"
#include "tests/runtime/temporary_folder.h"

namespace anydim::capi {
namespace {

constexpr std::string_view dense =
    R"(fn @main(%x: Tensor[(n, 48), f32]) -> Tensor[(n, 32), f32] where n in [1, 64] {
  %w = constant(f32 (48, 32) @random(1))
  %p = matmul(%x, %w)
  %y = relu(%p)
  return %y
}
)";

class CTune : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(api().options_create(&options));
    for (const auto& [name, value] : {std::pair<const char*, std::string>("cache_folder", "none"),
                                      {"threads", "1"},
                                      {"database", database}})
      ASSERT_OK(api().options_set(options, name, value.c_str()));
  }
  void TearDown() override { EXPECT_OK(api().options_release(options)); }

  Said tune(std::vector<anydim_setting> settings, anydim_tune_watch watch = nullptr,
            void* user = nullptr, anydim_cancellation* cancellation = nullptr) {
    return said(api().tune_memory(dense.data(), dense.size(), nullptr, options, settings.data(),
                                  settings.size(), watch, user, cancellation, &result));
  }

  test::TemporaryFolder folder;
  std::string database = (folder.path() / "t.db").string();
  anydim_options* options = nullptr;
  anydim_tune_result result = answer<anydim_tune_result>();
};

const std::vector<anydim_setting> quick = {
    {"distribution", "uniform(4, 60)"}, {"budget", "60s"}, {"trials", "3"}, {"points", "2"}};

TEST_F(CTune, FromMemoryAndFileAreOneRunWithProgress) {
  std::vector<std::string> regions;
  const auto watch = [](void* user, const anydim_tune_progress* progress) {
    EXPECT_EQ(progress->struct_size, sizeof(anydim_tune_progress));
    EXPECT_GT(progress->space, 0);
    EXPECT_GT(progress->best_seconds, 0);
    static_cast<std::vector<std::string>*>(user)->emplace_back(progress->region);
  };
  ASSERT_EQ(tune(quick, watch, &regions), (Said{ANYDIM_OK, ""}));
  EXPECT_GE(result.trials, 3);
  EXPECT_GE(regions.size(), 3u);
  EXPECT_EQ(regions.front(), "matmul_0");
  EXPECT_EQ(result.nothing_to_do, 0);
  EXPECT_GT(result.kernels, 0);
  EXPECT_GT(result.default_seconds, 0);
  EXPECT_GE(result.expected_seconds, result.lower_bound_seconds * 0.999);

  const std::filesystem::path file = folder.path() / "dense.anydim";
  std::ofstream(file) << dense;
  result = answer<anydim_tune_result>();
  ASSERT_OK(api().tune_file(file.c_str(), options, quick.data(), quick.size(), nullptr, nullptr,
                            nullptr, &result));
  EXPECT_EQ(result.nothing_to_do, 1);
}

TEST_F(CTune, ACancelledRunKeepsWhatItMeasured) {
  anydim_cancellation* cancellation = nullptr;
  ASSERT_OK(api().cancellation_create(&cancellation));
  const auto cancel = [](void* user, const anydim_tune_progress* progress) {
    if (progress->trials >= 2)
      EXPECT_OK(api().cancellation_cancel(static_cast<anydim_cancellation*>(user)));
  };
  EXPECT_EQ(tune({{"distribution", "uniform(4, 60)"}, {"points", "2"}}, cancel, cancellation,
                 cancellation),
            (Said{ANYDIM_CANCELLED,
                  "the tuning run was cancelled; what was measured is kept, and the next run goes "
                  "on from there"}));
  EXPECT_EQ(result.trials, 0);
  EXPECT_EQ(tune(quick, nullptr, nullptr, cancellation).kind,
            static_cast<anydim_kind>(ANYDIM_CANCELLED))
      << "it was not reset";
  EXPECT_OK(api().cancellation_release(cancellation));
  ASSERT_EQ(tune(quick), (Said{ANYDIM_OK, ""}));
  EXPECT_GE(result.reused, 2);
}

TEST_F(CTune, BadSettingsAreOfTheirKind) {
  const auto refused = [&](std::vector<anydim_setting> settings, anydim_kind kind,
                           const std::string& message) {
    EXPECT_EQ(tune(std::move(settings)),
              (Said{kind, (kind == ANYDIM_BAD_ARGUMENT ? "tune_memory: " : "") + message}));
  };
  refused(
      {}, ANYDIM_BAD_ARGUMENT,
      "tuning needs one of lengths, distribution, shapes, trace and calls: the sizes to tune for");
  refused({{"size", "3"}}, ANYDIM_BAD_ARGUMENT,
          "there is no tuning option 'size'; there are batch, batch_tokens, budget, calls, "
          "distribution, exhaustive, lengths, log, max_kernels, order, points, report, trace, "
          "trials, worker");
  refused({{"budget", "0s"}}, ANYDIM_BAD_ARGUMENT,
          "tuning option 'budget' cannot be '0s': it takes a time above 0 such as 90s, 10m or 2h");
  refused({{"distribution", "uniform(4, 99)"}}, ANYDIM_BAD_INPUTS,
          "uniform(4, 99) gives n = 99, but the model takes n in [1, 64]");
  refused({{"lengths", "none.txt"}}, ANYDIM_MALFORMED, "none.txt: there is no such file");
  refused({{"distribution", nullptr}}, ANYDIM_BAD_ARGUMENT,
          "argument 'settings[..].value' is NULL: expected the address of one");
  std::vector<anydim_setting> settings = quick;
  settings.push_back({"worker", "/none/there"});
  refused(settings, ANYDIM_NO_RESOURCE,
          "the measuring process /none/there cannot be started: No such file or directory");
  EXPECT_EQ(said(api().tune_file(nullptr, options, nullptr, 0, nullptr, nullptr, nullptr, nullptr)),
            (Said{ANYDIM_BAD_ARGUMENT,
                  "tune_file: argument 'file' is NULL: expected the address of one"}));
  ASSERT_OK(api().options_set(options, "database", "none"));
  refused(
      quick, ANYDIM_BAD_ARGUMENT,
      "tuning keeps what it measures: name a database, for there is no folder for the user's own");
}

}  // namespace
}  // namespace anydim::capi
