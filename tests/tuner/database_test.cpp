// The tuning database: what is kept, what is refused, and what survives.
#include "tuner/database.h"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <sstream>

#include "ir/error.h"
#include "tests/runtime/temporary_folder.h"
#include "tests/tuner/integrity.h"
#include "tuner/schema.h"

namespace anydim::tuner {
namespace {

using Access = Database::Access;

const Environment here{.device = "AMD EPYC 9B14",
                       .target = "x86-64 avx512",
                       .driver = "",
                       .generator = "abc LLVM 19",
                       .precision = "f32",
                       .threads = 2};

Measurement measurement(std::int64_t key, double seconds) {
  return {.region = "region A",
          .keys = {key, 64},
          .schedule = ir::parse_schedule("matmul rows=8 columns=48"),
          .multiples = {16, 1},
          .seconds = seconds,
          .spread = 0.01,
          .samples = 20,
          .resources = {100, 20, 1, 2, 3, 4}};
}

ir::Bucket bucket(std::int64_t low, std::int64_t high) { return {{{low, high, 1}, {1, 512, 1}}}; }

ChosenTable table() {
  return {
      .region = "region A",
      .entries = {
          {{bucket(1, 15), bucket(1, 512), ir::parse_schedule("matmul rows=8"), 2e-6, true}, 1e-6},
          {{bucket(1, 512), bucket(1, 512), ir::parse_schedule("matmul rows=16"), 4e-6, false},
           0}}};
}

ModelRun model_run(std::string finished = "2026-11-21T14:45:00Z") {
  return {.model = "minilm.onnx",
          .distribution = "lognormal(3.4, 0.8, 1, 512)",
          .budget_seconds = 600,
          .most_kernels = 24,
          .kernels = 20,
          .trials = 1000,
          .expected_seconds = 0.01,
          .lower_bound_seconds = 0.009,
          .default_seconds = 0.012,
          .report = "{}",
          .finished = std::move(finished)};
}

void fill(Database& database) {
  database.name_regions(std::vector<RegionRecord>{{"region A", "matmul_0", "MatMul 'q'"}});
  database.record(here, std::vector{measurement(8, 1e-6), measurement(128, 5e-6)});
  database.store_run(here, model_run(), std::vector{table()});
}

template <typename Action>
void expect_error(ErrorKind kind, const std::string& message, Action action) {
  try {
    action();
    ADD_FAILURE() << "no error: " << message;
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.kind()), static_cast<int>(kind)) << error.what();
    EXPECT_EQ(std::string(error.what()).substr(0, message.size()), message);
  }
}

class DatabaseTest : public ::testing::Test {
 protected:
  std::filesystem::path file(const std::string& name = "tuning.db") const {
    return folder_.path() / name;
  }
  test::TemporaryFolder folder_;
};

TEST_F(DatabaseTest, WhatWasRecordedIsThereAfterwards) {
  {
    Database database(file(), Access::Write);
    fill(database);
  }
  const Database database(file(), Access::Read);
  EXPECT_EQ(database.measurement_count(), 2);
  const auto found = database.find(here, "region A", std::vector<std::int64_t>{128, 64},
                                   ir::parse_schedule("matmul rows=8 columns=48"),
                                   std::vector<std::int64_t>{16, 1});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->outcome, Outcome::Ok);
  EXPECT_TRUE(found->measured);
  EXPECT_DOUBLE_EQ(found->seconds, 5e-6);
  EXPECT_EQ(found->samples, 20);
  EXPECT_EQ(found->resources.shared_bytes, 4);
  EXPECT_FALSE(database.find(here, "region A", std::vector<std::int64_t>{128, 64},
                             ir::parse_schedule("matmul rows=8 columns=48")));
  const ir::TuningTable tuned = database.tuning_table(here);
  ASSERT_EQ(tuned.regions.size(), 1u);
  const auto& entries = tuned.regions.at("region A");
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0], table().entries[0].entry);
  EXPECT_EQ(entries[1], table().entries[1].entry);
  ASSERT_EQ(database.tables().size(), 1u);
  EXPECT_EQ(database.tables()[0].region.name, "matmul_0");
  EXPECT_EQ(database.tables()[0].run.model, "minilm.onnx");
  EXPECT_DOUBLE_EQ(database.tables()[0].entries[0].roofline_seconds, 1e-6);
  EXPECT_EQ(integrity(file()), "");
}

TEST_F(DatabaseTest, EnvironmentsNeverMix) {
  Database database(file(), Access::Write);
  fill(database);
  for (const auto& change : std::vector<std::function<void(Environment&)>>{
           [](Environment& e) { e.device = "another"; },
           [](Environment& e) { e.target = "another"; },
           [](Environment& e) { e.driver = "another"; },
           [](Environment& e) { e.generator = "another"; },
           [](Environment& e) { e.precision = "bf16"; }, [](Environment& e) { e.threads = 1; }}) {
    Environment other = here;
    change(other);
    EXPECT_TRUE(database.tuning_table(other).regions.empty());
    EXPECT_TRUE(database.measurements(other).empty());
    EXPECT_TRUE(database.runs(other).empty());
  }
}

TEST_F(DatabaseTest, AMeasuredTimeIsNotReplacedByAPrediction) {
  Database database(file(), Access::Write);
  Measurement guess = measurement(8, 9e-6);
  guess.measured = false;
  database.record(here, std::vector{guess});
  database.record(here, std::vector{measurement(8, 1e-6)});
  database.record(here, std::vector{guess});
  ASSERT_EQ(database.measurements(here, "region A").size(), 1u);
  EXPECT_DOUBLE_EQ(database.measurements(here, "region A")[0].seconds, 1e-6);
  database.record(here, std::vector{measurement(8, 2e-6)});
  EXPECT_DOUBLE_EQ(database.measurements(here, "region A")[0].seconds, 2e-6);
}

TEST_F(DatabaseTest, FaultsOfCandidatesAreKept) {
  Database database(file(), Access::Write);
  std::vector<Measurement> all;
  for (const Outcome outcome : {Outcome::Wrong, Outcome::Crashed, Outcome::Hung,
                                Outcome::OutOfBounds, Outcome::OutOfMemory, Outcome::Uncompiled}) {
    Measurement one = measurement(static_cast<std::int64_t>(all.size()) + 1, 0);
    one.outcome = outcome;
    one.detail = std::string(name_of(outcome)) + " it was";
    all.push_back(one);
  }
  database.record(here, all);
  const std::vector<Measurement> found = database.measurements(here);
  ASSERT_EQ(found.size(), all.size());
  for (const Measurement& one : found) {
    EXPECT_EQ(one.detail, std::string(name_of(one.outcome)) + " it was");
    EXPECT_EQ(one.outcome, parse_outcome(name_of(one.outcome)));
  }
}

TEST_F(DatabaseTest, ALaterRunReplacesARegionsTable) {
  Database database(file(), Access::Write);
  fill(database);
  ChosenTable other = table();
  other.entries.erase(other.entries.begin());
  database.store_run(here, model_run("2026-11-22T00:00:00Z"), std::vector{other});
  EXPECT_EQ(database.tuning_table(here).regions.at("region A").size(), 1u);
  EXPECT_EQ(database.runs(here).size(), 2u);
  EXPECT_EQ(integrity(file()), "");
}

TEST_F(DatabaseTest, TheExportIsTheDatabase) {
  Database first(file("first.db"), Access::Write), second(file("second.db"), Access::Write);
  fill(first);
  const std::string text = first.export_json();
  const MergeCounts counts = second.import_json(text);
  EXPECT_EQ(counts.measurements, 2);
  EXPECT_EQ(counts.tables, 1);
  EXPECT_EQ(counts.runs, 1);
  EXPECT_EQ(second.export_json(), text);
  const MergeCounts again = second.import_json(text);
  EXPECT_EQ(again.measurements + again.tables + again.runs, 0);
  EXPECT_EQ(second.export_json(), text);
}

TEST_F(DatabaseTest, AMergeTakesWhatIsMissingAndWhatIsLater) {
  Database first(file("first.db"), Access::Write), second(file("second.db"), Access::Write);
  fill(first);
  Measurement guess = measurement(8, 9e-6);
  guess.measured = false;
  second.record(here, std::vector{guess, measurement(256, 7e-6)});
  ChosenTable later = table();
  later.entries.erase(later.entries.begin());
  second.store_run(here, model_run("2026-11-23T00:00:00Z"), std::vector{later});
  EXPECT_EQ(second.merge(first).measurements, 2);
  EXPECT_DOUBLE_EQ(second.measurements(here)[0].seconds, 5e-6);
  EXPECT_EQ(second.measurement_count(), 3);
  EXPECT_EQ(second.tuning_table(here).regions.at("region A").size(), 1u);
  EXPECT_EQ(first.merge(second).tables, 1);
  EXPECT_EQ(first.export_json(), second.export_json());
}

TEST_F(DatabaseTest, AWrongImportChangesNothing) {
  Database database(file(), Access::Write);
  fill(database);
  const std::string before = database.export_json();
  const std::string start = "this is no export of a tuning database: ";
  expect_error(ErrorKind::Malformed, start + "it is no JSON", [&] { database.import_json("{"); });
  expect_error(ErrorKind::Malformed, start + "\"format\" is not \"anydim tuning database\"",
               [&] { database.import_json("{}"); });
  std::string newer = before;
  newer.replace(newer.find("\"schema\": 2"), 11, "\"schema\": 9");
  expect_error(ErrorKind::Malformed,
               start + "it is of a newer Anydim (schema 9, this one knows up to 2)",
               [&] { database.import_json(newer); });
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"\"matmul rows=16\"", "\"rows=16\""},
           {"\"seconds\": 5e-06", "\"seconds\": -1"},
           {"\"outcome\": \"ok\"", "\"outcome\": \"fine\""},
           {"\"region\": 0", "\"region\": 7"},
           {"\"threads\": 2", "\"threads\": \"two\""},
           {"\"entries\"", "\"rows\""}}) {
    std::string wrong = before;
    ASSERT_NE(wrong.find(from), std::string::npos) << from;
    wrong.replace(wrong.find(from), from.size(), to);
    // A new environment, so that rows would be taken over.
    wrong.replace(wrong.find("AMD EPYC 9B14"), 13, "another      ");
    expect_error(ErrorKind::Malformed, "", [&] { database.import_json(wrong); });
    EXPECT_EQ(database.export_json(), before) << to;
  }
}

TEST_F(DatabaseTest, AnOlderSchemaIsBroughtUpToDate) {
  {
    sqlite::Connection old(file(), sqlite::Connection::Mode::Write);
    std::ifstream sql("data/schema_1.sql");
    ASSERT_TRUE(sql);
    old.run((std::ostringstream() << sql.rdbuf()).str());
  }
  {
    const Database read(file(), Access::Read);
    EXPECT_EQ(read.tuning_table(here).regions.at("region A").size(), 2u);
    EXPECT_EQ(read.measurement_count(), 1);
  }
  sqlite::Connection untouched(file(), sqlite::Connection::Mode::Read);
  EXPECT_EQ(untouched.number("PRAGMA user_version"), 1);
  Database written(file(), Access::Write);
  EXPECT_EQ(untouched.number("PRAGMA user_version"), 2);
  EXPECT_DOUBLE_EQ(written.tables()[0].entries[0].roofline_seconds, 0);
  EXPECT_EQ(written.runs(here)[0].model, "old.onnx");
  EXPECT_EQ(integrity(file()), "");
  fill(written);
  EXPECT_EQ(written.measurement_count(), 3);
}

TEST_F(DatabaseTest, ANewerSchemaIsRefused) {
  {
    Database database(file(), Access::Write);
    fill(database);
  }
  sqlite::Connection(file(), sqlite::Connection::Mode::Write).run("PRAGMA user_version = 3");
  for (const Access access : {Access::Read, Access::Write}) {
    expect_error(ErrorKind::Malformed,
                 "the tuning database " + file().string() +
                     " was written by a newer Anydim (schema 3, this one knows up to 2); use that "
                     "one, or name another file",
                 [&] { Database(file(), access); });
  }
}

TEST_F(DatabaseTest, ForeignFilesAreRefused) {
  std::ofstream(file("text.db")) << std::string(5000, 'x');
  sqlite::Connection(file("other.db"), sqlite::Connection::Mode::Write).run("CREATE TABLE t (a)");
  for (const Access access : {Access::Read, Access::Write}) {
    expect_error(ErrorKind::Malformed,
                 file("text.db").string() + " is no tuning database: it is no file of SQLite",
                 [&] { Database(file("text.db"), access); });
    expect_error(
        ErrorKind::Malformed,
        file("other.db").string() + " is no tuning database: it is another program's SQLite file",
        [&] { Database(file("other.db"), access); });
  }
  expect_error(ErrorKind::Malformed,
               file("none.db").string() + ": there is no such tuning database",
               [&] { Database(file("none.db"), Access::Read); });
  expect_error(ErrorKind::Malformed,
               folder_.path().string() + " is a folder, not a tuning database",
               [&] { Database(folder_.path(), Access::Write); });
}

TEST_F(DatabaseTest, OneWriterAndAnyNumberOfReaders) {
  Database writer(file(), Access::Write);
  fill(writer);
  expect_error(
      ErrorKind::Write,
      "the tuning database " + file().string() +
          " is locked by another process that writes it; let that one end, or name another file",
      [&] { Database(file(), Access::Write); });
  const Database reader(file(), Access::Read);
  writer.record(here, std::vector{measurement(512, 1)});
  EXPECT_EQ(reader.measurement_count(), 3);
}

TEST_F(DatabaseTest, AReaderCannotWrite) {
  {
    Database(file(), Access::Write);
  }
  Database reader(file(), Access::Read);
  expect_error(ErrorKind::Write, "the tuning database ", [&] { fill(reader); });
}

TEST_F(DatabaseTest, AReadOnlyFileIsReadAndNotWritten) {
  {
    Database database(file(), Access::Write);
    fill(database);
  }
  if (geteuid() == 0) GTEST_SKIP() << "root may write everything";
  chmod(file().c_str(), 0400);
  EXPECT_EQ(Database(file(), Access::Read).measurement_count(), 2);
  expect_error(ErrorKind::Write, "the tuning database " + file().string() + " is read-only",
               [&] { Database(file(), Access::Write); });
}

TEST_F(DatabaseTest, ADamagedFileIsSaid) {
  {
    Database database(file(), Access::Write);
    fill(database);
    std::vector<Measurement> many;
    for (std::int64_t i = 0; i < 400; ++i) many.push_back(measurement(1000 + i, 1));
    database.record(here, many);
  }
  const auto bytes = static_cast<std::streamoff>(std::filesystem::file_size(file()));
  {
    std::fstream stream(file(), std::ios::in | std::ios::out | std::ios::binary);
    for (std::streamoff at = 4096; at < bytes; at += 512)
      stream.seekp(at), stream.write("damage", 6);
  }
  expect_error(ErrorKind::Malformed,
               "the tuning database " + file().string() + " is damaged: ", [&] {
                 Database database(file(), Access::Read);
                 EXPECT_NE(integrity(file()), "");
                 database.measurements(here);
                 database.tables();
               });
}

std::string bytes_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// The list of regions is read from an index, and the rows that name a region from their tables:
// each place of the name is damaged in turn.
TEST_F(DatabaseTest, AnIndexThatTheTablesContradictIsSaid) {
  {
    Database database(file(), Access::Write);
    fill(database);
  }
  const std::string whole = bytes_of(file());
  int said = 0;
  for (std::size_t at = whole.find("region A"); at != std::string::npos;
       at = whole.find("region A", at + 1)) {
    std::string damaged = whole;
    damaged[at + 7] = 'B';
    std::ofstream(file(), std::ios::binary | std::ios::trunc) << damaged;
    try {
      Database(file(), Access::Read).export_json();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Malformed);
      EXPECT_NE(std::string(error.what()).find("it has rows of a region `region "),
                std::string::npos)
          << error.what();
      ++said;
    }
  }
  EXPECT_GT(said, 0);
}

TEST_F(DatabaseTest, ARowThatSaysNothingSensibleIsSaid) {
  {
    Database database(file(), Access::Write);
    fill(database);
  }
  sqlite::Connection(file(), sqlite::Connection::Mode::Write)
      .run("UPDATE entries SET bucket = '[[5, 1, 1]]'");
  expect_error(ErrorKind::Malformed,
               "the tuning database " + file().string() + " is damaged: `[[5,1,1]]` is no bucket",
               [&] { Database(file(), Access::Read).tuning_table(here); });
}

}  // namespace
}  // namespace anydim::tuner
