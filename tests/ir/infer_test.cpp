#include "ir/shapes/infer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "ir/error.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"

namespace anydim::ir {
namespace {

std::vector<std::string> requirements(const std::string& text) {
  Module module = parse(text);
  const InferenceResult inferred = infer_types(module);
  std::vector<std::string> lines;
  for (const Requirement& one : inferred.functions[0].requirements) {
    lines.push_back(one.source + ": " + to_string(one.precondition, module.functions[0]));
  }
  return lines;
}

TEST(Infer, CollectsWhatRangesDoNotDecide) {
  EXPECT_EQ(
      requirements(
          R"(fn @main(%x: Tensor[(n, 4), f32], %y: Tensor[(m, 4), f32], %w: Tensor[(4, 4), f32]) {
      %a = add(%x, %y) from "First"
      %b = matmul(%a, %w)
      %c = concat(%x, %y) {axis = 1} from "Second"
      return %b, %c
    })"),
      (std::vector<std::string>{
          "add 'First' (%a): dimension 0 of operand 0: expected m or one of both 1, got n",
          "concat 'Second' (%c): dimension 0 of operand 1: expected n, got m"}));
}

TEST(Infer, NamesEachRequirementOnce) {
  EXPECT_EQ(requirements(R"(fn @main(%x: Tensor[(n), f32], %y: Tensor[(m), f32]) {
      %a = add(%x, %y) from "First"
      %b = sub(%x, %y) from "Second"
      return %a, %b
    })")
                .size(),
            1u);
}

TEST(Infer, LeavesNothingToAskInsideAProvenGraph) {
  EXPECT_TRUE(requirements(R"(fn @main(%x: Tensor[(b, s, 384), f32]) {
      %d = shape_of(%x)
      %h = dyn.reshape(%x, concat(strided_slice(%d) {starts = (0), ends = (2)}, constant(i64 (2) [12, 32])) {axis = 0}) {zero_copies = 1}
      %t = transpose(%h) {perm = (0, 2, 1, 3)}
      %k = transpose(%h) {perm = (0, 2, 3, 1)}
      %p = softmax(matmul(%t, %k))
      %o = transpose(matmul(%p, %t)) {perm = (0, 2, 1, 3)}
      %y = dyn.reshape(%o, shape(b, -1, 384)) {zero_copies = 1}
      return add(%x, %y)
    })")
                  .empty());
}

// As torch.onnx writes paddings: pairs, turned about as a matrix.
TEST(Infer, FollowsElementsThroughMatrices) {
  Module module = parse(R"(fn @main(%x: Tensor[(n, m), f32]) {
      %pads = concat(shape(0, n), shape(m + 1, 3)) {axis = 0}
      %pairs = strided_slice(reshape(%pads) {shape = (2, 2)}) {starts = (-1), ends = (-9223372036854775807), steps = (-1), axes = (0)}
      %turned = reshape(transpose(%pairs) {perm = (1, 0)}) {shape = (4)}
      %before = strided_slice(%turned) {starts = (0), ends = (2)}
      %after = strided_slice(%turned) {starts = (2), ends = (4)}
      return dyn.pad(%x, constant(f32 () [0]), %before, %after)
    })");
  infer_types(module);
  const Function& function = module.functions[0];
  EXPECT_EQ(print(function, function.values[function.body.results[0]].type),
            "Tensor[(m + n + 4, m + n), f32]");
}

// Each size is a third and a half of the one before, which written out would double every time.
TEST(Infer, BindsSymbolsToLargeSizes) {
  std::string text = "fn @main(%x0: Tensor[(n), f32]) {\n  %zero = constant(i64 (1) [0])\n";
  for (int k = 0; k < 14; ++k) {
    text += fmt::format(R"(  %s{0} = shape_of(%x{0})
      %a{0} = dyn.strided_slice(%x{0}, %zero, div(%s{0}, constant(i64 (1) [3])), %zero)
      %b{0} = dyn.strided_slice(%x{0}, %zero, div(%s{0}, constant(i64 (1) [2])), %zero)
      %x{1} = concat(%a{0}, %b{0}) {{axis = 0}}
)",
                        k, k + 1);
  }
  Module module = parse(text + "  return %x14\n}");
  infer_types(module);
  const Function& function = module.functions[0];
  EXPECT_GT(std::ranges::count(function.body.bindings, Op::bind, &Binding::op), 0);
  for (const Value& value : function.values)
    for (const Dim& dim : value.type.tensor.dims) EXPECT_LE(dim.size(), largest_carried_size);
  const std::string once = print(module);
  infer_types(module);
  EXPECT_EQ(print(module), once);
}

// A number of the data may be -1 where a shape is asked for, but no extent of a tensor is.
TEST(Infer, ExtentsAreNotNegative) {
  Module module = parse(R"(fn @main(%x: Tensor[(4), f32], %size: Tensor[(2), i64]) {
      %a = dyn.full(constant(f32 () [1]), %size)
      %flat = dyn.reshape(%a, shape(value(%size, 0) * value(%size, 1)))
      %b = dyn.reshape(%flat, shape_of(%a))
      %c = strided_slice(%b) {starts = (0), ends = (9223372036854775807), axes = (0)}
      return %c, %flat
    })");
  infer_types(module);
  const Function& function = module.functions[0];
  EXPECT_EQ(print(function, function.values[function.body.results[0]].type),
            "Tensor[(d, d_1), f32]");
  EXPECT_EQ(print(function, function.values[function.body.results[1]].type),
            "Tensor[(d*d_1), f32]");
}

// What is bound before a branch is bound behind it too, also where a type mentions it first inside
// of a block and types are inferred once more.
TEST(Infer, ASymbolBoundBeforeABranchIsKnownBehindIt) {
  Module module = parse(R"(fn @main(%c: Tensor[(), bool], %count: Tensor[(), i64])
      where k in [0, 9] unbacked {
      bind k = %count where k <= 9
      %y = if(%c) then {
        %a = dyn.zeros(shape(k)) {dtype = f32}
        yield %a
      } else {
        %b = dyn.full(constant(f32 () [1]), shape(k))
        yield %b
      }
      return %y
    })");
  for (int round = 0; round < 2; ++round) {
    infer_types(module);
    const Function& function = module.functions[0];
    EXPECT_EQ(print(function, function.values[function.body.results[0]].type), "Tensor[(k), f32]")
        << round;
  }
}

TEST(Infer, AnUnknownDimNeedsNoCheckAgainstItself) {
  EXPECT_TRUE(
      requirements(R"(fn @main(%x: Tensor[(?), f32]) { return add(%x, relu(%x)) })").empty());
  EXPECT_EQ(
      requirements(R"(fn @main(%x: Tensor[(?), f32], %y: Tensor[(?), f32]) { return add(%x, %y) })")
          .size(),
      1u);
}

TEST(Infer, ACheckShapeIsItsOwnCheck) {
  EXPECT_TRUE(requirements(R"(fn @main(%x: Tensor[(?), f32], %y: Tensor[(n), f32]) {
      %c = check_shape(%x, (n))
      return add(%c, %y)
    })")
                  .empty());
}

TEST(Infer, RequirementsOfBlocksAreKept) {
  EXPECT_EQ(
      requirements(R"(fn @main(%c: Tensor[(), bool], %x: Tensor[(n), f32], %y: Tensor[(m), f32]) {
      %r = if(%c) then {
        %a = add(%x, %y)
        yield %a
      } else {
        yield %x
      }
      return %r
    })")
          .size(),
      1u);
}

TEST(Infer, CallsCarryTheRangesOfTheCallee) {
  Module module = parse(R"(fn @main(%x: Tensor[(n), f32]) { %r = call @f(%x) from "Call" return %r }
    fn @f(%a: Tensor[(k), f32]) where k in [2, 64] multiple 2 { return %a })");
  infer_types(module);
  const SymbolInfo& info = *module.functions[0].symbols.find("n");
  EXPECT_EQ(info.low, 2);
  EXPECT_EQ(info.high, 64);
  EXPECT_EQ(info.reason, "call 'Call' (%r)");
}

TEST(Infer, AgainGivesTheSame) {
  Module module =
      parse(R"(fn @main(%c: Tensor[(), bool], %x: Tensor[(n), f32], %m: Tensor[(), i64]) {
      %r = if(%c) then {
        yield %x
      } else {
        yield concat(%x, %x) {axis = 0}
      }
      %l = loop(%m, none, %r) body(%i, %on, %a) {
        yield %on, concat(%a, %x) {axis = 0}
      }
      return %l
    })");
  infer_types(module);
  const std::string once = print(module);
  infer_types(module);
  EXPECT_EQ(print(module), once);
}

std::string message_of(const std::string& text, ErrorKind kind) {
  try {
    Module module = parse(text);
    infer_types(module);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    return error.what();
  }
  return "no error";
}

TEST(Infer, ParametersNeedTypes) {
  EXPECT_EQ(message_of("fn @main(%x) { return relu(%x) }", ErrorKind::Malformed),
            "function @main: parameter %x has no type.");
}

TEST(Infer, SizesNameSymbolsThatHaveValues) {
  EXPECT_EQ(message_of("fn @main(%x: Tensor[(m), f32]) where n in [0, 9] { %d = dim(n) return %d }",
                       ErrorKind::Malformed),
            "dim (%d): expected symbols that have a value here, got n, which no parameter's type "
            "mentions and nothing before binds.");
  EXPECT_EQ(
      message_of("fn @main(%x: Tensor[(2*n), f32]) where n in [0, 9] { %d = dim(n) return %d }",
                 ErrorKind::Malformed),
      "no error");
}

TEST(Infer, ContradictionsNameNodeAndTypes) {
  EXPECT_EQ(
      message_of(
          R"(fn @main(%x: Tensor[(n, 3), f32], %y: Tensor[(4), f32]) { %r = add(%x, %y) from "/a/Add" return %r })",
          ErrorKind::Malformed),
      "add '/a/Add' (%r): dimension 1 of operand 0: expected 4 or 1, got 3.\n  operand 0 (%x): "
      "Tensor[(n, 3), f32]\n"
      "  operand 1 (%y): Tensor[(4), f32]");
}

TEST(Infer, TwoTablesThatCannotBothHoldAreRefused) {
  const std::string message = message_of(R"(fn @main(%x: Tensor[(n), f32]) where n in [10, 100] {
      %a = check_shape(%x, (20)) from "First"
      %b = check_shape(%x, (30)) from "Second"
      return %a, %b
    })",
                                         ErrorKind::Malformed);
  EXPECT_NE(message.find("check_shape 'Second' (%b): dimension 0 of operand 0: expected 30"),
            std::string::npos)
      << message;
}

// A chain of blocks as in an encoder: time must grow with the graph, not with what flows through
// it.
TEST(Infer, IsQuick) {
  std::string text = "fn @main(%x0: Tensor[(b, s, 64), f32], %w: Tensor[(64, 64), f32]) {\n";
  const int layers = 100;
  for (int i = 0; i < layers; ++i) {
    const std::string k = std::to_string(i);
    text += "%d" + k + " = shape_of(%x" + k + ")\n%p" + k + " = matmul(%x" + k + ", %w)\n%h" + k +
            " = dyn.reshape(%p" + k + ", concat(strided_slice(%d" + k +
            ") {starts = (0), ends = (2)}, shape(4, 16)) {axis = 0}) {zero_copies = 1}\n%t" + k +
            " = transpose(%h" + k + ") {perm = (0, 2, 1, 3)}\n%q" + k + " = transpose(%t" + k +
            ") {perm = (0, 2, 1, 3)}\n%r" + k + " = dyn.reshape(%q" + k +
            ", shape(b, s, -1)) {zero_copies = 1}\n%x" + std::to_string(i + 1) + " = add(%x" + k +
            ", %r" + k + ")\n";
  }
  text += "return %x" + std::to_string(layers) + " }";
  Module module = parse(text);
  const auto start = std::chrono::steady_clock::now();
  const InferenceResult inferred = infer_types(module);
  const double milliseconds =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  EXPECT_TRUE(inferred.functions[0].requirements.empty());
  EXPECT_EQ(print(module.functions[0],
                  module.functions[0].values[module.functions[0].body.results[0]].type),
            "Tensor[(b, s, 64), f32]");
  EXPECT_LT(milliseconds, 1000) << "1,000 bindings; a release build takes a few milliseconds";
}

}  // namespace
}  // namespace anydim::ir
