#include "tests/ptx/control_flow.h"

#include <algorithm>
#include <vector>

namespace anydim::ptx {
namespace {

// Basic blocks of one function; the last one is the virtual end that every return leads to.
struct Graph {
  std::vector<std::int32_t> starts;  // first instruction of each block, ascending
  std::vector<std::vector<int>> successors;
  std::vector<std::vector<int>> predecessors;
  int end() const { return static_cast<int>(starts.size()); }
};

Graph build_graph(std::span<const Instruction> instructions, std::int32_t first,
                  std::int32_t last) {
  Graph graph;
  std::vector<bool> leads(static_cast<std::size_t>(last - first) + 1);
  const auto lead = [&](std::int32_t pc) { leads[static_cast<std::size_t>(pc - first)] = true; };
  lead(first);
  const auto targets_of = [&](const Instruction& instruction) -> std::vector<std::int32_t> {
    if (instruction.control == Control::Branch) return {instruction.slot[0]};
    if (instruction.control == Control::IndexedBranch)
      return instruction.get<std::vector<std::int32_t>>();
    return {};
  };
  for (std::int32_t pc = first; pc < last; ++pc) {
    const Instruction& instruction = instructions[static_cast<std::size_t>(pc)];
    if (instruction.control == Control::None) continue;
    for (const std::int32_t target : targets_of(instruction)) lead(target);
    if (pc + 1 < last) lead(pc + 1);
  }
  std::vector<int> block_of(static_cast<std::size_t>(last - first));
  for (std::int32_t pc = first; pc < last; ++pc) {
    if (leads[static_cast<std::size_t>(pc - first)]) graph.starts.push_back(pc);
    block_of[static_cast<std::size_t>(pc - first)] = static_cast<int>(graph.starts.size()) - 1;
  }
  const int blocks = graph.end();
  graph.successors.resize(static_cast<std::size_t>(blocks) + 1);
  graph.predecessors.resize(static_cast<std::size_t>(blocks) + 1);
  const auto connect = [&](int from, int to) {
    graph.successors[static_cast<std::size_t>(from)].push_back(to);
    graph.predecessors[static_cast<std::size_t>(to)].push_back(from);
  };
  for (int block = 0; block < blocks; ++block) {
    const std::int32_t behind =
        block + 1 < blocks ? graph.starts[static_cast<std::size_t>(block) + 1] : last;
    const Instruction& instruction = instructions[static_cast<std::size_t>(behind - 1)];
    const bool ends =
        instruction.control == Control::Return || instruction.control == Control::Exit;
    if (ends) connect(block, blocks);
    for (const std::int32_t target : targets_of(instruction))
      connect(block, block_of[static_cast<std::size_t>(target - first)]);
    const bool falls_through = instruction.control == Control::None || instruction.guard >= 0;
    if (falls_through) connect(block, block + 1);
  }
  return graph;
}

// Immediate post-dominators by the iterative method on reverse postorder (Cooper, Harvey, Kennedy).
// -1: the end is out of reach.
std::vector<int> post_dominators(const Graph& graph) {
  const auto count = static_cast<std::size_t>(graph.end()) + 1;
  std::vector<int> order, number(count, -1);
  std::vector<std::pair<int, std::size_t>> stack{{graph.end(), 0}};
  std::vector<bool> seen(count);
  seen[static_cast<std::size_t>(graph.end())] = true;
  while (!stack.empty()) {
    auto& [block, next] = stack.back();
    const std::vector<int>& before = graph.predecessors[static_cast<std::size_t>(block)];
    if (next == before.size()) {
      number[static_cast<std::size_t>(block)] = static_cast<int>(order.size());
      order.push_back(block);
      stack.pop_back();
    } else if (const int candidate = before[next++]; !seen[static_cast<std::size_t>(candidate)]) {
      seen[static_cast<std::size_t>(candidate)] = true;
      stack.emplace_back(candidate, 0);
    }
  }
  std::reverse(order.begin(), order.end());
  std::vector<int> dominator(count, -1);
  dominator[static_cast<std::size_t>(graph.end())] = graph.end();
  for (bool changed = true; changed;) {
    changed = false;
    for (const int block : order) {
      if (block == graph.end()) continue;
      int common = -1;
      for (const int successor : graph.successors[static_cast<std::size_t>(block)]) {
        if (dominator[static_cast<std::size_t>(successor)] < 0) continue;
        if (common < 0) {
          common = successor;
          continue;
        }
        for (int a = common, b = successor;;) {
          if (a == b) {
            common = a;
            break;
          }
          if (number[static_cast<std::size_t>(a)] < number[static_cast<std::size_t>(b)])
            a = dominator[static_cast<std::size_t>(a)];
          else b = dominator[static_cast<std::size_t>(b)];
        }
      }
      if (common >= 0 && dominator[static_cast<std::size_t>(block)] != common) {
        dominator[static_cast<std::size_t>(block)] = common;
        changed = true;
      }
    }
  }
  return dominator;
}

}  // namespace

void find_meeting_points(std::span<Instruction> instructions, std::int32_t first,
                         std::int32_t last) {
  const Graph graph = build_graph(instructions, first, last);
  const std::vector<int> dominator = post_dominators(graph);
  for (int block = 0; block < graph.end(); ++block) {
    const std::int32_t behind =
        block + 1 < graph.end() ? graph.starts[static_cast<std::size_t>(block) + 1] : last;
    Instruction& instruction = instructions[static_cast<std::size_t>(behind - 1)];
    if (instruction.control != Control::Branch && instruction.control != Control::IndexedBranch)
      continue;
    const int meeting = dominator[static_cast<std::size_t>(block)];
    if (meeting >= 0 && meeting < graph.end())
      instruction.reconverge = graph.starts[static_cast<std::size_t>(meeting)];
  }
}

}  // namespace anydim::ptx
