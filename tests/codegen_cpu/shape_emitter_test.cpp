#include "codegen_cpu/shape_emitter.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <sys/mman.h>

#include <cstring>
#include <limits>

#include "ir/error.h"
#include "ir/shapes/shape_program.h"
#include "runtime/code_memory.h"
#include "tests/codegen_cpu/kernel_harness.h"

namespace anydim::codegen_cpu::testing {
namespace {

using ir::Dim;

// Native code beside the interpreter.
class NativeShapes {
 public:
  explicit NativeShapes(const ir::ShapeProgram& program)
      : interpreter_(program), expressions_(program.expressions.size()) {
    const ir::CompiledKernel kernel = emit_shapes(detect_target(), program).value();
    bytes_ = kernel.code.size();
    base_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base_ == MAP_FAILED) throw std::runtime_error("no memory for code");
    std::memcpy(base_, kernel.code.data(), bytes_);
    if (mprotect(base_, bytes_, PROT_READ | PROT_EXEC) != 0)
      throw std::runtime_error("code cannot be made executable");
    entry_ = reinterpret_cast<Entry>(static_cast<char*>(base_) + kernel.cpu().kernel);
  }
  NativeShapes(const NativeShapes&) = delete;
  ~NativeShapes() { munmap(base_, bytes_); }

  // The values, and -1 or the failed expression; the interpreter must agree.
  std::pair<std::vector<std::int64_t>, std::int32_t> run(
      const std::vector<std::int64_t>& leaves) const {
    constexpr std::int64_t untouched = 0x5555555555555555;
    std::vector<std::int64_t> native(expressions_, untouched), interpreted(expressions_, untouched);
    std::int32_t failed = -2;
    runtime::call_generated(entry_, leaves.data(), native.data(), &failed);
    const std::int32_t expected = interpreter_.run(leaves, interpreted);
    if (failed != expected || native != interpreted)
      throw std::runtime_error("native code and interpreter differ");
    return {native, failed};
  }

 private:
  using Entry = void (*)(const std::int64_t*, std::int64_t*, std::int32_t*);
  ir::ShapeInterpreter interpreter_;
  std::size_t expressions_;
  std::size_t bytes_ = 0;
  void* base_ = nullptr;
  Entry entry_ = nullptr;
};

const std::vector<std::string> names{"a", "b", "c"};

rc::Gen<Dim> arbitrary_dim(int depth) {
  const auto leaf =
      rc::gen::oneOf(rc::gen::map(rc::gen::inRange(-4, 40), [](int value) { return Dim(value); }),
                     rc::gen::map(rc::gen::elementOf(names),
                                  [](const std::string& name) { return Dim::symbol(name); }));
  if (depth == 0) return leaf;
  const auto inner = arbitrary_dim(depth - 1);
  const auto pair = rc::gen::pair(inner, inner);
  using Pair = std::pair<Dim, Dim>;
  return rc::gen::oneOf(
      leaf, rc::gen::map(pair, [](const Pair& p) { return p.first + p.second; }),
      rc::gen::map(pair, [](const Pair& p) { return p.first - p.second; }),
      rc::gen::map(pair, [](const Pair& p) { return p.first * p.second; }),
      rc::gen::map(pair, [](const Pair& p) { return min(p.first, p.second); }),
      rc::gen::map(pair, [](const Pair& p) { return max(p.first, p.second); }),
      rc::gen::map(pair,
                   [](const Pair& p) {
                     return p.second.is_constant(0) ? p.first : floor_div(p.first, p.second);
                   }),
      rc::gen::map(
          pair,
          [](const Pair& p) { return p.second.is_constant(0) ? p.first : mod(p.first, p.second); }),
      rc::gen::map(pair, [](const Pair& p) { return broadcast(p.first, p.second); }),
      rc::gen::map(rc::gen::pair(pair, pair), [](const std::pair<Pair, Pair>& p) {
        return select(ir::Comparison::Less, p.first.first, p.first.second, p.second.first,
                      p.second.second);
      }));
}

ir::ShapeProgram program_of(std::vector<Dim> expressions) {
  ir::ShapeProgram program;
  for (const std::string& name : names) program.leaves.push_back({.symbol = name});
  program.expressions = std::move(expressions);
  return program;
}

TEST(Shapes, NativeCodeInterpreterAndDimsAgree) {
  ASSERT_TRUE(rc::check([] {
    std::vector<Dim> expressions;
    try {
      expressions = *rc::gen::container<std::vector<Dim>>(4, arbitrary_dim(3));
    } catch (const Error&) {
      RC_DISCARD("the expression divides by zero for every shape");
    }
    const NativeShapes shapes(program_of(expressions));
    for (int round = 0; round < 20; ++round) {
      const bool large = round % 4 == 3;
      const auto leaves = *rc::gen::container<std::vector<std::int64_t>>(
          3, large ? rc::gen::arbitrary<std::int64_t>() : rc::gen::inRange<std::int64_t>(-3, 50));
      const auto [values, failed] = shapes.run(leaves);
      for (std::size_t i = 0; i < expressions.size(); ++i) {
        const auto evaluate = [&] {
          return expressions[i].evaluate([&](const ir::DimLeaf& leaf) {
            return leaves[static_cast<std::size_t>(
                std::find(names.begin(), names.end(), leaf.symbol) - names.begin())];
          });
        };
        if (static_cast<std::int32_t>(i) == failed) {
          // Products may be refused a little earlier than the exact evaluation does, but only for
          // huge numbers.
          if (!large) RC_ASSERT_THROWS_AS(evaluate(), Error);
          break;
        }
        RC_ASSERT(values[i] == evaluate());
      }
    }
  }));
}

TEST(Shapes, NamesTheFirstFailure) {
  const Dim a = Dim::symbol("a"), b = Dim::symbol("b");
  const NativeShapes shapes(program_of({a + b, a * b, floor_div(a, b)}));
  EXPECT_EQ(shapes.run({6, 3, 0}), std::pair(std::vector<std::int64_t>({9, 18, 2}), -1));
  EXPECT_EQ(shapes.run({6, 0, 0}).second, 2);
  EXPECT_EQ(shapes.run({INT64_MAX, 2, 0}).second, 0);
  EXPECT_EQ(shapes.run({INT64_MAX, -2, 0}).second, 1);
  EXPECT_EQ(shapes.run({INT64_MIN, -1, 0}).second, 0);
}

TEST(Shapes, UnchosenBranchesMayFail) {
  const Dim a = Dim::symbol("a"), b = Dim::symbol("b");
  const NativeShapes shapes(
      program_of({select(ir::Comparison::Equal, b, Dim(0), Dim(-1), floor_div(a, b))}));
  EXPECT_EQ(shapes.run({7, 0, 0}), std::pair(std::vector<std::int64_t>({-1}), -1));
  EXPECT_EQ(shapes.run({7, 2, 0}), std::pair(std::vector<std::int64_t>({3}), -1));
}

// LLVM would take minutes over them.
TEST(Shapes, LongProgramsStayInterpreted) {
  std::vector<Dim> sizes;
  for (std::int64_t i = 0; i < 4000; ++i)
    sizes.push_back(Dim::symbol("a") * (i + 2) + Dim::symbol("b") * i);
  EXPECT_FALSE(emit_shapes(detect_target(), program_of(std::move(sizes))));
}

}  // namespace
}  // namespace anydim::codegen_cpu::testing
