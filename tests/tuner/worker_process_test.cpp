#include "tuner/worker_process.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <fstream>

#include "ir/error.h"
#include "runtime/guarded_memory.h"
#include "tests/runtime/temporary_folder.h"
#include "tuner/measure.h"

namespace anydim::tuner {
namespace {

// A worker as a script: reads a case and then does what the test wants.
std::vector<std::string> script(const std::string& text) { return {"/bin/sh", "-c", text}; }
const nlohmann::json one_case = {{"id", "a"}, {"kind", "x"}};
constexpr CaseLimits limits{.first_seconds = 5, .then_seconds = 5};

TEST(WorkerProcess, AnswersCaseByCase) {
  WorkerProcess worker(
      script("while read line; do echo noise; echo '{\"begin\": \"a\"}'; echo '{\"at\": "
             "\"compiled\", \"id\": \"a\"}'; echo '{\"end\": \"a\", \"value\": 7}'; done"));
  for (int i = 0; i < 3; ++i) {
    const CaseEnd end = worker.run(one_case, limits);
    ASSERT_EQ(end.status, CaseEnd::Status::Ended);
    EXPECT_TRUE(end.staged);
    EXPECT_EQ(end.said["value"], 7);
  }
  EXPECT_EQ(worker.starts(), 1);
}

TEST(WorkerProcess, TellsHowItEnded) {
  WorkerProcess crash(script("read line; kill -SEGV $$"));
  const CaseEnd segv = crash.run(one_case, limits);
  EXPECT_EQ(segv.status, CaseEnd::Status::Died);
  EXPECT_EQ(segv.signal, SIGSEGV);
  EXPECT_FALSE(crash.running());
  EXPECT_EQ(classify(segv, "").outcome, Outcome::Crashed);
  WorkerProcess exits(
      script("read line; echo '{\"begin\": \"a\"}'; echo '{\"at\": \"compiled\", \"id\": \"a\"}'; "
             "exit 86"));
  const CaseEnd touched = exits.run(one_case, limits);
  EXPECT_EQ(touched.exit_code, runtime::forbidden_access_exit);
  EXPECT_EQ(classify(touched, "").outcome, Outcome::OutOfBounds);
  EXPECT_EQ(classify(touched, "").detail, "touched pages outside its buffers while it ran");
  WorkerProcess killed(script("read line; kill -KILL $$"));
  EXPECT_EQ(classify(killed.run(one_case, limits), "").outcome, Outcome::OutOfMemory);
  WorkerProcess aborts(script("read line; kill -ABRT $$"));
  const CaseEnd aborted = aborts.run(one_case, limits);
  EXPECT_EQ(classify(aborted, "").outcome, Outcome::Crashed);
  EXPECT_EQ(classify(aborted, "LLVM ERROR: out of memory").outcome, Outcome::OutOfMemory);
}

TEST(WorkerProcess, ItsClockIsTheParents) {
  WorkerProcess hangs(script("read line; echo '{\"begin\": \"a\"}'; read never"));
  const CaseEnd compile = hangs.run(one_case, {.first_seconds = 0.2, .then_seconds = 5});
  EXPECT_EQ(compile.status, CaseEnd::Status::Hung);
  EXPECT_EQ(classify(compile, "").detail, "over its time limit while it was compiled");
  WorkerProcess runs(
      script("read line; echo '{\"begin\": \"a\"}'; echo '{\"at\": \"compiled\", \"id\": \"a\"}'; "
             "read never"));
  const CaseEnd run = runs.run(one_case, {.first_seconds = 50, .then_seconds = 0.2});
  EXPECT_EQ(classify(run, "").detail, "over its time limit while it ran");
  EXPECT_FALSE(runs.running());
  WorkerProcess stopped(script("read line; read never"));
  EXPECT_EQ(stopped.run(one_case, limits, [] { return true; }).status, CaseEnd::Status::Stopped);
}

TEST(WorkerProcess, DamagedAnswersAreNoTimes) {
  WorkerProcess worker(
      script("while read line; do echo '{\"begin\": \"a\"}'; echo '{\"end\": \"a\", \"outcome\": "
             "\"ok\"}'; done"));
  EXPECT_EQ(classify(worker.run(one_case, limits), "").detail, "its answer was damaged");
  CaseEnd refused;
  refused.said = {{"end", "a"}, {"error", "no memory"}, {"exit_code", 6}};
  EXPECT_EQ(classify(refused, "").outcome, Outcome::OutOfMemory);
  refused.said["exit_code"] = 70;
  EXPECT_EQ(classify(refused, "").outcome, Outcome::Uncompiled);
}

TEST(WorkerProcess, SaysWhyItCannotStart) {
  WorkerProcess worker({"/nonexistent/anydim", "worker"});
  try {
    worker.start();
    FAIL() << "it started";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Resource);
    EXPECT_STREQ(
        error.what(),
        "the measuring process /nonexistent/anydim cannot be started: No such file or directory");
  }
}

}  // namespace
}  // namespace anydim::tuner
