// Random graphs and recorded ones on everything that computes them. build/bin/fuzz_graphs runs more of them.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "ir/ops.h"
#include "ir/print.h"
#include "tests/fuzz/agreement.h"
#include "tests/fuzz/case_file.h"
#include "tests/ir/op_file.h"

namespace anydim::tests {
namespace {

TEST(Fuzz, TheFirstGraphsAgree) {
  const CompileTarget target = make_target();
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const RandomGraph graph = random_graph(seed, {.whole_language = true});
    const Agreement found = agreement(graph, target);
    EXPECT_TRUE(found) << "seed " << seed << ": " << found.stage << ": " << found.detail << "\n" << print(graph.module);
  }
}

void count_ops(const ir::Block& block, std::set<ir::Op>& ops) {
  for (const ir::Binding& binding : block.bindings) {
    ops.insert(binding.op);
    for (const ir::Block& inner : binding.blocks) count_ops(inner, ops);
  }
}

// A new row of ir/ops.def is drawn (elementwise ops are at once) or stands here with its reason.
TEST(Fuzz, EveryOpIsDrawn) {
  const std::set<ir::Op> not_drawn{ir::Op::region};  // what fuse makes
  std::set<ir::Op> drawn;
  for (std::uint64_t seed = 1; seed <= 1000 && drawn.size() + not_drawn.size() < ir::all_ops().size(); ++seed)
    for (const ir::Function& function : random_graph(seed, {.whole_language = true}).module.functions) count_ops(function.body, drawn);
  for (const ir::OpInfo& row : ir::all_ops()) EXPECT_NE(drawn.contains(row.op), not_drawn.contains(row.op)) << row.text;
}

TEST(Fuzz, RecordedGraphsAgree) {
  const CompileTarget target = make_target();
  for (const std::filesystem::path& file : ir::test::op_files("cases"))
    for (const GraphCase& one : read_cases(file)) {
      const Agreement found = agreement(one.graph, target, {.threads = 2, .graph_calls = 5, .exact_calls = 5});
      EXPECT_TRUE(found) << one.title << ": " << found.stage << ": " << found.detail;
    }
}

}  // namespace
}  // namespace anydim::tests
