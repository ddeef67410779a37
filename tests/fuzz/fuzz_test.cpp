// Random graphs and recorded ones on everything that computes them. build/bin/fuzz_graphs runs more
// of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "ir/ops.h"
#include "ir/text/print.h"
#include "tests/fuzz/agreement.h"
#include "tests/fuzz/case_file.h"
#include "tests/fuzz/extremes.h"
#include "tests/ir/op_file.h"

namespace anydim::tests {
namespace {

TEST(Fuzz, TheFirstGraphsAgree) {
  const CompileTarget target = make_target();
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const RandomGraph graph = random_graph(seed, {.whole_language = true});
    const Agreement found = agreement(graph, target);
    EXPECT_FALSE(found.refused) << "seed " << seed;
    EXPECT_TRUE(found) << "seed " << seed << ": " << found.stage << ": " << found.detail << "\n"
                       << print(graph.module);
  }
}

struct NamedOp {
  ir::Op op;
  std::string name;
};

std::vector<NamedOp> named_ops() {
  return {
#define ANYDIM_OP(name, ...) {ir::Op::name, #name},
#include "ir/ops.def"
#undef ANYDIM_OP
  };
}

// A step of the generator names a new row of ir/ops.def (elementwise ops are drawn from the table),
// or it stands here with its reason.
TEST(Fuzz, EveryOpHasAStep) {
  const std::set<ir::Op> not_drawn{ir::Op::region,      // what fuse makes
                                   ir::Op::assertion};  // ends calls or does nothing
  std::string steps;
  for (const char* file :
       {"builder.h", "control.cpp", "counts.cpp", "patterns.cpp", "steps.cpp", "twins.cpp"}) {
    std::ifstream stream(std::string("../support/random_graph_") + file);
    ASSERT_TRUE(stream) << file;
    steps.append(std::istreambuf_iterator<char>(stream), {});
  }
  for (const NamedOp& row : named_ops()) {
    if (ir::info(row.op).has(ir::traits::elementwise) || not_drawn.contains(row.op)) continue;
    bool found = false;
    for (std::size_t next = steps.find("Op::" + row.name); next != std::string::npos;
         next = steps.find("Op::" + row.name, next + 1)) {
      const char after = steps[next + 4 + row.name.size()];
      found = found || !(std::isalnum(static_cast<unsigned char>(after)) != 0 || after == '_');
    }
    EXPECT_TRUE(found) << "no step of the generator draws " << row.name;
  }
}

TEST(Fuzz, ExtremeIntegersAreComputedOrRefused) {
  const CompileTarget target = guarded_target();
  ExtremeCounts counts;
  for (std::uint64_t seed = 1; seed <= 80; ++seed) {
    const std::string found = extreme_disagreement(extreme_graph(seed), seed, target, counts);
    EXPECT_EQ(found, "") << "seed " << seed << "\n" << print(extreme_graph(seed).module);
  }
  EXPECT_GT(counts.right, 300u);
  EXPECT_GT(counts.refused, 100u);
}

TEST(Fuzz, EveryDynamicOpMeetsExtremes) {
  const std::vector<std::string> drawn = extreme_ops();
  for (const NamedOp& row : named_ops()) {
    if (!ir::info(row.op).has(ir::traits::dynamic)) continue;
    EXPECT_TRUE(std::ranges::find(drawn, ir::info(row.op).text) != drawn.end())
        << "extremes.cpp draws no " << ir::info(row.op).text;
  }
}

TEST(Fuzz, RecordedGraphsAgree) {
  const CompileTarget target = make_target();
  for (const std::filesystem::path& file : ir::test::op_files("cases"))
    for (const GraphCase& one : read_cases(file)) {
      const Agreement found =
          agreement(one.graph, target, {.threads = 2, .static_calls = 5, .exact_calls = 5});
      EXPECT_TRUE(found) << one.title << ": " << found.stage << ": " << found.detail;
    }
}

}  // namespace
}  // namespace anydim::tests
