// What the interpreter says of each fault: one mutant of a right kernel for each kind of message.
#include <algorithm>

#include <gtest/gtest.h>

#include "tests/ptx/kernels/kernel_run.h"
#include "tests/ptx/kernels/persistent_matmul.h"
#include "tests/ptx/mutation/mutator.h"

namespace anydim::ptx {
namespace {

class Findings : public testing::Test {
 protected:
  // Messages of the mutant under the timing that shows most: operands late.
  std::string of_mutant(const std::string& name) {
    const std::vector<Mutant> mutants = mutants_of(ptx_);
    const auto found = std::find_if(mutants.begin(), mutants.end(),
                                    [&](const Mutant& mutant) { return mutant.name == name; });
    return found == mutants.end() ? "no mutant is called " + name : of_text(mutated(*found, ptx_));
  }
  std::string of_text(const std::string& text) {
    MachineOptions options;
    options.timing = Timing::OperandsLate;
    options.instruction_limit = 3'000'000;
    return run_persistent_matmul(parse_ptx(text), options, {.m = 150, .n = 64, .k = 440});
  }
  std::string replaced(std::string_view what, std::string_view by) {
    std::string text = ptx_;
    const std::size_t at = text.find(what);
    EXPECT_NE(at, std::string::npos) << what;
    text.replace(at, what.size(), by);
    return of_text(text);
  }

  const std::string ptx_ = persistent_matmul_ptx();
};

void expect_says(const std::string& findings, const std::string& text) {
  EXPECT_NE(findings.find(text), std::string::npos) << findings;
}

TEST_F(Findings, Fences) {
  expect_says(of_mutant("delete fence.mbarrier_init.release.cluster #1"), "missing proxy fence");
  expect_says(of_mutant("delete fence.proxy.async.shared::cta #1"), "missing proxy fence");
  expect_says(of_mutant("delete wgmma.fence.sync.aligned #1"),
              "a group of wgmma begins without wgmma.fence");
}

TEST_F(Findings, Waits) {
  expect_says(of_mutant("delete wgmma.wait_group.sync.aligned #1"), "register in flight");
  // Whoever runs ahead, producer or consumers, ends a phase of the ring before its bytes are there.
  expect_says(of_mutant("pass mbarrier.try_wait.parity.shared::cta.b64 #1"),
              "1 arrivals where the phase waits for 0 of 1 only");
  expect_says(of_mutant("pass mbarrier.try_wait.parity.shared::cta.b64 #2"),
              "1 arrivals where the phase waits for 0 of 1 only");
  expect_says(of_mutant("delete cp.async.bulk.wait_group.read #1"), "race");
  expect_says(of_mutant("delete cp.async.bulk.wait_group.read #2"),
              "cp.async.bulk.wait_group.read is missing");
}

TEST_F(Findings, Counts) {
  expect_says(of_mutant("16 bytes more in mbarrier.arrive.expect_tx.shared::cta.b64 #1"),
              "16 bytes missing");
  expect_says(of_mutant("one arrival more in mbarrier.init.shared::cta.b64 #1"), "deadlock");
  expect_says(of_mutant("one arrival fewer in mbarrier.init.shared::cta.b64 #1"),
              "the arrival count is 0");
}

TEST_F(Findings, Registers) {
  expect_says(replaced("setmaxnreg.dec.sync.aligned.u32 40", "setmaxnreg.dec.sync.aligned.u32 44"),
              "multiple of 8");
  expect_says(replaced(".minnctapersm 1", ""), "without __launch_bounds__(threads, blocks)");
  expect_says(replaced(".minnctapersm 1", ".minnctapersm 2"),
              "setmaxnreg.inc to 232 registers from 128");
}

}  // namespace
}  // namespace anydim::ptx
