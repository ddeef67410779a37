// Every diagnostic of the verifier, with its whole message.
#include "ir/verify.h"

#include <gtest/gtest.h>

#include <functional>

#include "ir/shapes/infer.h"
#include "ir/text/parse.h"

namespace anydim::ir {
namespace {

using Change = std::function<void(Module&)>;

constexpr const char* plain = R"(fn @main(%x: Tensor[(n, 4), f32], %s) where n in [0, 9] {
  %y: Tensor[(n, 4), f32] = relu(%x) from "Relu_3"
  %z = softmax(%y) {axis = 1}
  return %z
})";

std::string message(const std::string& text, const Change& change = {},
                    VerifyOptions options = {}) {
  Module module = parse(text);
  if (change) change(module);
  try {
    verify(module, options);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), options.kind);
    return error.what();
  }
  return "no error";
}

Binding& binding(Module& module, std::size_t index) {
  return module.functions[0].body.bindings[index];
}

TEST(Verify, AcceptsWellFormedModules) {
  EXPECT_EQ(message(plain), "no error");
  EXPECT_EQ(message(R"(fn @main(%x: Tensor[(n), f32], %c: Tensor[(), bool], %trips) {
    %y = if(%c) then { yield %x } else { %a = relu(%x) yield %a }
    %last, %all = loop(%trips, none, %x) body(%i, %on, %carried) { %b = relu(%carried) yield %on, %b, %y }
    %r = region @r(%x) [s0 = n]
    %q = call @f(%r)
    %cut = dyn.strided_slice(%q, %trips, %trips, none, %trips)
    return %cut
  }
  fn @f(%x: Tensor[(m), f32]) { return %x }
  region @r(%x: Tensor[(s0), f32]) { return relu(%x) })"),
            "no error");
}

TEST(Verify, KindAndStage) {
  VerifyOptions options;
  options.kind = ErrorKind::Malformed;
  options.stage = "after pass fuse";
  const Change change = [](Module& module) { binding(module, 0).operands.clear(); };
  EXPECT_EQ(message(plain, change, options),
            "after pass fuse: function @main, relu 'Relu_3' (%y): takes 1 operand, has 0");
  const Change twice = [](Module& module) { module.functions.push_back(module.functions[0]); };
  EXPECT_EQ(message(plain, twice, options),
            "after pass fuse: the module has two functions named @main");
}

TEST(Verify, Names) {
  EXPECT_EQ(message(plain, [](Module& module) { module.functions.push_back(module.functions[0]); }),
            "the module has two functions named @main");
  EXPECT_EQ(message("fn @main() { return } region @r() { return }",
                    [](Module& module) { module.regions.push_back(module.regions[0]); }),
            "the module has two regions named @r");
  EXPECT_EQ(message(plain, [](Module& module) { module.functions[0].values[3].name = "x"; }),
            "function @main: has two values named %x");
  EXPECT_EQ(message(plain, [](Module& module) { module.functions[0].result_names = {"a", "b"}; }),
            "function @main: has 1 result, but 2 names of results");
}

TEST(Verify, Symbols) {
  const auto declare = [](SymbolInfo info) {
    return [=](Module& module) { module.functions[0].symbols.declare("n", info); };
  };
  SymbolInfo info;
  info.low = 5;
  info.high = 4;
  EXPECT_EQ(message(plain, declare(info)), "function @main: symbol n has the empty range [5, 4]");
  info = {};
  info.multiple = 0;
  EXPECT_EQ(message(plain, declare(info)), "function @main: symbol n is a multiple of 0");
  info = {};
  info.below = Dim::symbol("k") + 1;
  EXPECT_EQ(message(plain, declare(info)),
            "function @main: the bound of symbol n uses the symbol k, which the function does not "
            "declare");
  EXPECT_EQ(
      message(plain, [](Module& module) { module.functions[0].symbols.remove("n"); }),
      "function @main: the type of %x uses the symbol n, which the function does not declare");
  EXPECT_EQ(message(plain,
                    [](Module& module) {
                      module.functions[0].values[0].type.tensor.dims[0] = Dim::value(2, 0);
                    }),
            "no error");
  EXPECT_EQ(message(plain,
                    [](Module& module) {
                      module.functions[0].values[0].type.tensor.dims[0] = Dim::value(9, 0);
                    }),
            "function @main: the type of %x reads a tensor that is not defined: value(%<9>, 0)");
}

TEST(Verify, Values) {
  EXPECT_EQ(message(plain, [](Module& module) { binding(module, 0).operands[0] = 9; }),
            "function @main, relu 'Relu_3' (%y): operand 0 has the id 9, but there are 4 values");
  EXPECT_EQ(message(plain, [](Module& module) { binding(module, 0).results[0] = 9; }),
            "function @main, relu 'Relu_3' (%?): a result has the id 9, but there are 4 values");
  EXPECT_EQ(message(plain, [](Module& module) { module.functions[0].body.parameters[1] = 0; }),
            "function @main: %x is assigned a second time");
  EXPECT_EQ(message(plain, [](Module& module) { binding(module, 1).results[0] = 2; }),
            "function @main, softmax (%y): %y is assigned a second time");
  EXPECT_EQ(message(plain, [](Module& module) { binding(module, 0).operands[0] = 3; }),
            "function @main, relu 'Relu_3' (%y): operand 0, %z, is not defined before this use");
  EXPECT_EQ(message(plain, [](Module& module) { module.functions[0].body.bindings.pop_back(); }),
            "function @main: a result, %z, is not defined before this use");
  EXPECT_EQ(message(R"(fn @main(%x, %c) {
    %y = if(%c) then { %a = relu(%x) yield %a } else { yield %x }
    return %a
  })"),
            "function @main: a result, %a, is used outside the block that defines it");
  EXPECT_EQ(message(R"(fn @main(%x, %c) {
    %y = if(%c) then { %a = relu(%x) yield %a } else { %b = relu(%a) yield %b }
    return %y
  })"),
            "function @main, relu (%b): operand 0, %a, is used outside the block that defines it");
}

TEST(Verify, Operands) {
  EXPECT_EQ(message(plain, [](Module& module) { binding(module, 0).operands = {0, 0}; }),
            "function @main, relu 'Relu_3' (%y): takes 1 operand, has 2");
  EXPECT_EQ(message("fn @main(%x) { %y = concat(%x) {axis = 0} return %y }",
                    [](Module& module) { binding(module, 0).operands.clear(); }),
            "function @main, concat (%y): takes at least 1 operand, has 0");
  EXPECT_EQ(message("fn @main(%x) { %y = layer_norm(%x, %x) return %y }",
                    [](Module& module) { binding(module, 0).operands = {0}; }),
            "function @main, layer_norm (%y): takes 2 to 3 operands, has 1");
  EXPECT_EQ(message("fn @main(%x) { %y = add(%x, none) return %y }"),
            "function @main, add (%y): operand 1 is none, which only optional operands can be");
  EXPECT_EQ(message("fn @main(%x) { %y = concat(%x, none) {axis = 0} return %y }"),
            "function @main, concat (%y): operand 1 is none, which only optional operands can be");
  EXPECT_EQ(message(plain, [](Module& module) { binding(module, 0).results = {2, 1}; }),
            "function @main, relu 'Relu_3' (%y, %s): has 2 results, expected 1");
}

TEST(Verify, Attributes) {
  EXPECT_EQ(message("fn @main(%x) { %y = reshape(%x) return %y }"),
            "function @main, reshape (%y): attribute 'shape' is missing");
  EXPECT_EQ(message(plain, [](Module& module) { binding(module, 1).attributes["axis"] = 1.0; }),
            "function @main, softmax (%z): attribute 'axis' is a real, expected an integer");
  EXPECT_EQ(
      message(plain,
              [](Module& module) { binding(module, 0).attributes["axis"] = std::int64_t{1}; }),
      "function @main, relu 'Relu_3' (%y): has no attribute 'axis'");
}

TEST(Verify, Dims) {
  EXPECT_EQ(message(plain, [](Module& module) { binding(module, 0).dims = {1}; }),
            "function @main, relu 'Relu_3' (%y): carries 1 dim, expected 0");
  EXPECT_EQ(message("fn @main() { %d = dim(3) return %d }",
                    [](Module& module) { binding(module, 0).dims.clear(); }),
            "function @main, dim (%d): carries 0 dims, expected 1");
  EXPECT_EQ(message("fn @main(%k) { bind k = %k where k <= 4 return %k }",
                    [](Module& module) { binding(module, 0).dims[0] = 3; }),
            "function @main, bind: opens a symbol, not 3");
  EXPECT_EQ(message("fn @main() { %s = shape(3) return %s }",
                    [](Module& module) { binding(module, 0).dims[0] = Dim::symbol("q") * 2; }),
            "function @main, shape (%s): the dim 2*q uses the symbol q, which the function does "
            "not declare");
  EXPECT_EQ(message("fn @main() { %s = shape(value(%t, 1)) %t = shape(2) return %s }"),
            "function @main, shape (%s): the tensor in the dim value(%t, 1), %t, is not defined "
            "before this use");
  EXPECT_EQ(message("fn @main(%x: Tensor[(n), f32]) { %y = check_shape(%x, (n, 4)) return %y }"),
            "function @main, check_shape (%y): demands 2 dims of %x, which is Tensor[(n), f32]");
}

TEST(Verify, RanksOfCallsAreForCallers) {
  EXPECT_EQ(message("fn @main(%x) { %y = drop_ones(%x) %z = neg(%y) return %z }"),
            "function @main, neg (%z): operand 0, %y, has a rank that only a call tells: nothing "
            "but a result of the entry may be it");
  const std::string stands =
      "stands where no result is a caller's: expected it in the entry, in no inner block";
  EXPECT_EQ(message("fn @main(%x, %c) { %z = if(%c) then { %y = drop_ones(%x) yield %y } else { "
                    "yield %x } return %z }"),
            "function @main, drop_ones (%y): " + stands);
  EXPECT_EQ(message("fn @main(%x) { return %x } fn @f(%x) { %y = drop_ones(%x) return %y }"),
            "function @f, drop_ones (%y): " + stands);
  EXPECT_EQ(message("fn @main(%x, %c) { %y = drop_ones(%x) %z = if(%c) then { yield %y } else { "
                    "yield %x } return %z }"),
            "function @main, if (%z): a value that a block yields, %y, has a rank that only a call "
            "tells: nothing but a result of the entry may be it");
  EXPECT_EQ(message("fn @main(%x) { %y = drop_ones(%x) return %y } fn @f(%x) { %y = call @main(%x) "
                    "return %y }"),
            "function @f, call (%y): calls the entry, which gives results of a rank that only a "
            "call tells (drop_ones)");
}

TEST(Verify, InferredTypes) {
  VerifyOptions options;
  options.types_inferred = true;
  EXPECT_EQ(message(plain, {}, options), "function @main: %s has no type after inference");
}

TEST(Verify, Blocks) {
  const std::string branch = R"(fn @main(%x: Tensor[(n), f32], %c) {
    %y = if(%c) then { yield %x } else { yield %x }
    return %y
  })";
  EXPECT_EQ(message(plain, [](Module& module) { binding(module, 0).blocks.resize(1); }),
            "function @main, relu 'Relu_3' (%y): has 1 block, expected 0");
  EXPECT_EQ(message(branch, [](Module& module) { binding(module, 0).blocks.pop_back(); }),
            "function @main, if (%y): has 1 block, expected 2");
  EXPECT_EQ(
      message("fn @main(%x, %c) { %y = if(%c) then(%p) { yield %x } else { yield %x } return %y }"),
      "function @main, if (%y): the blocks of if take no parameters");
  EXPECT_EQ(message(branch, [](Module& module) { binding(module, 0).blocks[1].results.clear(); }),
            "function @main, if (%y): a block yields 0 values, expected 1");
  EXPECT_EQ(
      message(
          branch,
          [](Module& module) { module.functions[0].values[2].type = TensorType{DType::F16, {3}}; }),
      "function @main, if (%y): the yielded %x is Tensor[(n), f32], but %y is Tensor[(3), f16]");
  const auto loop = [](const std::string& text) {
    return message("fn @main(%x: Tensor[(n), f32], %c) { " + text + " return %y }");
  };
  EXPECT_EQ(loop("%y = loop(%x) body(%i, %on) { yield %on }"),
            "function @main, loop (%y): takes a trip count and a condition (or none) before the "
            "carried values");
  EXPECT_EQ(loop("%y = loop(none, %c, %x) body(%i, %on) { yield %on }"),
            "function @main, loop (%y): its body takes 2 parameters, expected 3: iteration, "
            "condition, carried values");
  EXPECT_EQ(loop("%y = loop(none, %c, %x) body(%i, %on, %a) { yield %on }"),
            "function @main, loop (%y): its body yields 1 value, expected 2: condition, carried "
            "and scanned values");
  EXPECT_EQ(
      loop("%y = loop(none, %c, %x) body(%i, %on, %a: Tensor[(), f32]) { yield %on, %a }"),
      "function @main, loop (%y): the carried %x is Tensor[(n), f32], but %a is Tensor[(), f32]");
  EXPECT_EQ(
      loop("%y, %s: Tensor[(n), f32] = loop(none, %c, %x) body(%i, %on, %a) { yield %on, %a, %x }"),
      "function @main, loop (%y, %s): the yielded %x is Tensor[(n), f32], but %s is Tensor[(n), "
      "f32]");
}

TEST(Verify, Callees) {
  const std::string call =
      R"(fn @main(%x: Tensor[(n, 2), f32]) { %y: Tensor[(n, 2), f32] = call @f(%x) return %y }
    fn @f(%a: Tensor[(m), f32]) { %b: Tensor[(m), f32] = relu(%a) return %b })";
  EXPECT_EQ(message(call, [](Module& module) { binding(module, 0).callee = 7; }),
            "function @main, call (%y): calls function 7, but there are 2");
  EXPECT_EQ(message(call),
            "function @main, call (%y): %x is Tensor[(n, 2), f32], but parameter %a of function @f "
            "is Tensor[(m), f32]");
  EXPECT_EQ(
      message(call,
              [](Module& module) { module.functions[1].values[0].type.tensor.dims.push_back(3); }),
      "function @main, call (%y): %y is Tensor[(n, 2), f32], but result %b of function @f is "
      "Tensor[(m), f32]");
  EXPECT_EQ(message(call, [](Module& module) { binding(module, 0).operands.push_back(0); }),
            "function @main, call (%y): function @f takes 1 parameter, is given 2");
  EXPECT_EQ(message(call, [](Module& module) { binding(module, 0).results.clear(); }),
            "function @main, call: function @f has 1 result, the binding names 0");
}

TEST(Verify, Regions) {
  const std::string text =
      R"(fn @main(%x: Tensor[(n, 2), f32]) { %y: Tensor[(n, 2), f32] = region @r(%x) [s0 = n] return %y }
    region @r(%a: Tensor[(s0, 2), f32]) { %b: Tensor[(s0, 2), f32] = relu(%a) return %b })";
  EXPECT_EQ(message(text), "no error");
  EXPECT_EQ(message(text, [](Module& module) { binding(module, 0).callee = 7; }),
            "function @main, region (%y): runs region 7, but there are 1");
  EXPECT_EQ(message(text, [](Module& module) { binding(module, 0).dims.clear(); }),
            "function @main, region (%y): carries 0 dims, expected 1");
  EXPECT_EQ(message(text, [](Module& module) { binding(module, 0).operands.clear(); }),
            "function @main, region (%y): region @r takes 1 parameter, is given 0");
  EXPECT_EQ(
      message(text, [](Module& module) { binding(module, 0).dims[0] = Dim::symbol("n") * 2; }),
      "function @main, region (%y): %x is Tensor[(n, 2), f32], but parameter %a of region @r is "
      "Tensor[(s0, 2), f32], where dimension 0 becomes 2*n");
  EXPECT_EQ(
      message(text,
              [](Module& module) { module.functions[0].values[1].type.tensor.dtype = DType::F16; }),
      "function @main, region (%y): %y is Tensor[(n, 2), f16], but result %b of region @r is "
      "Tensor[(s0, 2), f32]");
  EXPECT_EQ(message(text, [](Module& module) { module.regions[0].weights = {1}; }),
            "region @r: weight 1 is out of range: it has 1 parameter");
  EXPECT_EQ(message(text, [](Module& module) { module.regions[0].weights_of_4_bits = {0}; }),
            "region @r: parameter 0 is i4, but no weight");
  EXPECT_EQ(message(text,
                    [](Module& module) {
                      module.regions[0].weights = module.regions[0].weights_of_4_bits = {0};
                    }),
            "region @r: weight 0 is i4; expected a tensor of i8, got Tensor[(s0, 2), f32]");
  EXPECT_EQ(
      message(text, [](Module& module) { module.regions[0].body.body.bindings[0].op = Op::neg; }),
      "region @r: its identity is not that of its body: seal() the region after every change");
}

}  // namespace
}  // namespace anydim::ir
