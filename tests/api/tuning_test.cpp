// A tuning database from the file to the kernel that runs, and changed behind running calls.
#include "api/tuning.h"

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "api/anydim.h"
#include "runtime/context.h"
#include "tests/runtime/temporary_folder.h"

namespace anydim {
namespace {

ir::Module normalised_product() {
  return ir::parse(R"(
fn @main(%x: Tensor[(n, 48), f32], %w: Tensor[(48, 32), f32]) -> Tensor[(n, 32), f32]
  where n in [1, 512] {
  %y = matmul(%x, %w)
  %z = softmax(%y) {axis = 1}
  return %z
})");
}

class TuningTest : public testing::Test {
 protected:
  CompileOptions options() {
    return {.threads = 2,
            .cache_folder = folder_.path() / "cache",
            .database = file(),
            .warn = [this](const std::string& warning) { warnings_.push_back(warning); }};
  }
  std::filesystem::path file() const { return folder_.path() / "tuned.db"; }

  // Rows [1, edge] with the region's last candidate, then everything with its first.
  void tune(const runtime::Executable& executable, std::int64_t edge) {
    tuner::Database database(file(), tuner::Database::Access::Write);
    std::vector<tuner::ChosenTable> tables;
    for (const ir::Program::Kernel& kernel : executable.program().kernels) {
      const ir::Bucket whole = kernel.table.entries.back().bucket;
      const std::vector<ir::Schedule> candidates =
          target_.backend->candidates(kernel.region, whole);
      ir::Bucket low = whole;
      if (!low.intervals.empty()) low.intervals[0].high = edge;
      tables.push_back({kernel.region.identity,
                        {{{low, whole, candidates.back(), 1e-6, true}, 0},
                         {{whole, whole, candidates.front(), 2e-6, false}, 0}}});
    }
    database.store_run(tuning_environment(target_, options()), {.model = "m", .distribution = "d"},
                       tables);
  }

  test::TemporaryFolder folder_;
  CompileTarget target_ = make_target();
  std::vector<std::string> warnings_;
};

std::vector<ir::Tensor> inputs(std::int64_t rows) {
  std::vector<ir::Tensor> tensors{ir::Tensor(ir::DType::F32, {rows, 48}),
                                  ir::Tensor(ir::DType::F32, {48, 32})};
  for (ir::Tensor& tensor : tensors)
    for (std::int64_t i = 0; i < tensor.elements(); ++i)
      tensor.set_real(i, 0.01 * static_cast<double>(i * 37 % 101) - 0.5);
  return tensors;
}

double largest_difference(const ir::Tensor& a, const ir::Tensor& b) {
  double most = 0;
  for (std::int64_t i = 0; i < a.elements(); ++i)
    most = std::max(most, std::abs(a.real_at(i) - b.real_at(i)));
  return most;
}

TEST_F(TuningTest, ATunedTableDecidesAndIsShown) {
  CompileOptions without = options();
  without.database.reset();
  const auto predicted = compile_for(target_, normalised_product(), without);
  EXPECT_EQ(count_by_choice(table_rows(*predicted)).count("predicted"), 1u);
  EXPECT_EQ(count_by_choice(table_rows(*predicted)).size(), 1u);
  tune(*predicted, 16);
  const auto tuned = compile_for(target_, normalised_product(), options());
  const auto counts = count_by_choice(table_rows(*tuned));
  const auto regions = static_cast<std::int64_t>(tuned->program().kernels.size());
  EXPECT_EQ(counts, (std::map<std::string, std::int64_t>{{"tuned, measured", regions},
                                                         {"tuned, predicted", regions}}));
  tuned->kernels().complete();
  EXPECT_EQ(tuned->kernels().progress().failed, 0);
  runtime::Context context(tuned), reference(predicted);
  for (const std::int64_t rows : {1, 16, 17, 300}) {
    EXPECT_LT(largest_difference(context.run(inputs(rows))[0], reference.run(inputs(rows))[0]),
              1e-5);
    const CallExplanation call = explain_call(context, inputs(rows), 1);
    for (const LaunchExplanation& launch : call.launches)
      EXPECT_EQ(launch.chosen, rows <= 16 ? "tuned, measured" : "tuned, predicted");
  }
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(TuningTest, KernelsForSingleShapesTakeTheScheduleOfTheirBucketAndAreShown) {
  CompileOptions exact = options(), without = options();
  exact.policies = without.policies = {{"", Policy::Exact}};
  without.database.reset();
  const auto executable = compile_for(target_, normalised_product(), without);
  const std::size_t regions = executable->program().kernels.size();
  runtime::Context context(executable);
  const auto rows_of = [&](std::int64_t rows) {
    const CallExplanation call = explain_call(context, inputs(rows), 1);
    for (const LaunchExplanation& launch : call.launches)
      EXPECT_EQ(launch.kernel, "for these sizes alone");
    return call.exact;
  };
  const std::vector<TableRow> predicted = rows_of(9);
  ASSERT_EQ(predicted.size(), regions);
  for (const TableRow& row : predicted) EXPECT_EQ(row.chosen, "predicted");

  tune(*executable, 16);
  retune(*executable, target_, exact);
  EXPECT_TRUE(exact_rows(*executable).empty()) << "what the tables of before chose is gone";
  rows_of(9);
  const std::vector<TableRow> tuned = rows_of(300), tables = table_rows(*executable);
  ASSERT_EQ(tuned.size(), 2 * regions);
  ASSERT_EQ(tables.size(), 2 * regions);
  for (std::size_t i = 0; i < tuned.size();
       ++i) {  // for every region, 9 rows and 300 beside [1, 16] and everything
    EXPECT_EQ(tuned[i].region, tables[i].region);
    EXPECT_EQ(tuned[i].schedule, tables[i].schedule);
    EXPECT_EQ(tuned[i].chosen, i % 2 == 0 ? "tuned, measured" : "tuned, predicted");
    EXPECT_TRUE(tuned[i].bucket.starts_with(i % 2 == 0 ? "[9, 9]" : "[300, 300]"))
        << tuned[i].bucket;
  }
}

TEST_F(TuningTest, TablesChangeBehindRunningCalls) {
  CompileOptions without = options();
  without.database.reset();
  const auto executable = compile_for(target_, normalised_product(), without);
  const std::vector<ir::Tensor> wanted = runtime::Context(executable).run(inputs(100));
  std::atomic<bool> stop = false;
  std::atomic<int> wrong = 0, calls = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      runtime::Context context(executable);
      while (!stop) {
        if (largest_difference(context.run(inputs(100))[0], wanted[0]) > 1e-5) ++wrong;
        ++calls;
      }
    });
  }
  for (std::int64_t edge = 20; edge < 200; edge += 30) {
    tune(*executable, edge);
    retune(*executable, target_, options());
    EXPECT_EQ(count_by_choice(table_rows(*executable)).count("predicted"), 0u);
    if (edge % 60 == 20) executable->kernels().complete();
  }
  executable->kernels().complete();
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(calls, 0);
}

TEST_F(TuningTest, ADatabaseOfAnotherMachineIsSaid) {
  const auto predicted =
      compile_for(target_, normalised_product(), {.threads = 2, .keep_kernels = false});
  tune(*predicted, 16);
  CompileOptions other = options();
  other.threads = 1;
  const auto executable = compile_for(target_, normalised_product(), other);
  EXPECT_EQ(count_by_choice(table_rows(*executable)).size(), 1u);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find("with 1 threads and this version; the nearest that it has is for "
                              "threads 2, here 1; kernels are chosen by the cost model"),
            std::string::npos)
      << warnings_[0];
}

TEST_F(TuningTest, TheUsersOwnDatabaseIsNoCondition) {
  CompileOptions own = options();
  own.database = default_database(own);
  own.database_optional = true;
  EXPECT_EQ(*own.database, folder_.path() / "cache" / "tuning.db");
  EXPECT_TRUE(load_tuning(target_, own).regions.empty());
  EXPECT_TRUE(warnings_.empty());
  std::filesystem::create_directory(folder_.path() / "cache");
  std::ofstream(*own.database) << std::string(3000, 'x');
  EXPECT_TRUE(load_tuning(target_, own).regions.empty());
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_EQ(
      warnings_[0],
      own.database->string() +
          " is no tuning database: it is no file of SQLite; kernels are chosen by the cost model");
  own.database_optional = false;
  EXPECT_THROW(load_tuning(target_, own), Error);
}

}  // namespace
}  // namespace anydim
