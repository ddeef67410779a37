// Every refusal of the parser, with its whole message.
#include <gtest/gtest.h>

#include "ir/error.h"
#include "ir/text/parse.h"
#include "tests/ir/parse_parts.h"

namespace anydim::ir {
namespace {

template <typename Action>
std::string message_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Malformed) << error.what();
    return error.what();
  }
  return "no error";
}

std::string refusal(const std::string& text) {
  return message_of([&] { parse(text); });
}

// The message for a function @main(%x: Tensor[(n, 4), f32], %y) whose body is this line.
std::string refusal_of_line(const std::string& line) {
  return refusal("fn @main(%x: Tensor[(n, 4), f32], %y) {\n" + line + "\nreturn %x\n}\n");
}

TEST(ParseError, PlaceAndExcerpt) {
  EXPECT_EQ(refusal("fn @main(%x) {\n  %z = matmul(%x %x)\n  return %z\n}\n"),
            "text:2:18: expected ')', found '%x'\n"
            "    %z = matmul(%x %x)\n"
            "                   ^");
  ParseOptions options;
  options.source_name = "model.anydim";
  EXPECT_EQ(
      message_of([&] { parse("fn @f(%ü) {\n", options); }),
      "model.anydim:1:7: expected a name or a quoted name after '%'\n  fn @f(%ü) {\n        ^");
  EXPECT_EQ(refusal("fn @f(%\"ü\" %x) {\n"),
            "text:1:13: expected ')', found '%x'\n  fn @f(%\"ü\" %x) {\n             ^");
  // Long lines are cut around the place.
  const std::string excerpt =
      refusal("fn @main() {" + std::string(500, ' ') + "!" + std::string(500, 'x') + "\n}");
  EXPECT_EQ(excerpt, "text:1:513: the character \"!\" has no meaning here\n  " +
                         std::string(80, ' ') + "!" + std::string(59, 'x') + "\n  " +
                         std::string(80, ' ') + "^");
}

struct Case {
  const char* text;
  const char* message;
};

TEST(ParseError, Lexical) {
  const Case cases[] = {
      {"", "text:1:1: expected a function, fn @main(...), found the end of the text\n  \n  ^"},
      {"fn @main() { \"open",
       "text:1:14: this string has no closing quote on its line\n  fn @main() { \"open\n           "
       "    ^"},
      {"fn @\"a\\q\"() { return }",
       "text:1:7: expected \\\", \\\\, \\n, \\t, \\r or \\x and two hexadecimal digits\n  fn "
       "@\"a\\q\"() { return }\n        ^"},
      {"fn @ main", "text:1:4: expected a name or a quoted name after '@'\n  fn @ main\n     ^"},
      {"fn @main() { ; }",
       "text:1:14: the character \";\" has no meaning here\n  fn @main() { ; }\n               ^"},
  };
  for (const Case& one : cases) EXPECT_EQ(refusal(one.text), one.message);
}

TEST(ParseError, Definitions) {
  const Case cases[] = {
      {"func @main() { return }",
       "text:1:1: expected 'fn', 'region' or 'policy', found 'func'\n  func @main() { return }\n  "
       "^"},
      {"policy quick fn @f() { return }",
       "text:1:8: expected a policy: symbolic, bucketed, exact or library, found 'quick'\n  policy "
       "quick fn @f() { return }\n         ^"},
      {"policy @r fn @f() { return }",
       "text:1:11: expected a policy: symbolic, bucketed, exact or library, found 'fn'\n  policy "
       "@r fn @f() { return }\n            ^"},
      {"fn main() { return }",
       "text:1:4: expected the name of a function, @name, found 'main'\n  fn main() { return }\n   "
       "  ^"},
      {"fn @f() { return }\nfn @f() { return }",
       "text:2:4: function @f is defined twice\n  fn @f() { return }\n     ^"},
      {"fn @f() { return }\nregion @r() { return }\nregion @r() { return }",
       "text:3:8: region @r is defined twice\n  region @r() { return }\n         ^"},
      {"fn @f(x) { return }",
       "text:1:7: expected a parameter, %name, found 'x'\n  fn @f(x) { return }\n        ^"},
      {"fn @f(%x, %x) { return }",
       "text:1:11: %x is already defined in this function\n  fn @f(%x, %x) { return }\n            "
       "^"},
      {"fn @f(%x: f32) { return }",
       "text:1:11: expected a type: Tensor[...], Tuple[...], List[...], Function[...] or _, found "
       "'f32'\n"
       "  fn @f(%x: f32) { return }\n            ^"},
      {"fn @f(%x: Tensor[(n), f23]) { return }",
       "text:1:23: expected a dtype (f64 f32 f16 bf16 i64 i32 i16 i8 u64 u32 u16 u8 bool), found "
       "'f23'\n"
       "  fn @f(%x: Tensor[(n), f23]) { return }\n                        ^"},
      {"fn @f() where 3 in [1, 2] { return }",
       "text:1:15: expected the name of a symbol, found '3'\n  fn @f() where 3 in [1, 2] { return "
       "}\n                ^"},
      {"fn @f() where n in [2, 1] { return }",
       "text:1:20: the range [2, 1] is empty\n  fn @f() where n in [2, 1] { return }\n             "
       "        ^"},
      {"fn @f() where n multiple 0 { return }",
       "text:1:26: a symbol is a multiple of at least 1, not of 0\n  fn @f() where n multiple 0 { "
       "return }\n                           ^"},
      {"fn @f() where n, n { return }",
       "text:1:18: symbol n is declared twice\n  fn @f() where n, n { return }\n                   "
       "^"},
      {"fn @f() where n because 3 { return }",
       "text:1:25: expected the reason of the range, quoted, found '3'\n  fn @f() where n because "
       "3 { return }\n                          ^"},
      {"fn @f() where n below k { return }",
       "text:1:23: symbol k is not known in @f: it must come from a parameter's type, the where "
       "clause, check_shape or bind\n"
       "  fn @f() where n below k { return }\n                        ^"},
      {"fn @f(%x: Tensor[(n), f32]) -> Tensor[(n), f16] { return %x }",
       "text:1:32: result 0 of @f is declared Tensor[(n), f16], but %x is Tensor[(n), f32]\n"
       "  fn @f(%x: Tensor[(n), f32]) -> Tensor[(n), f16] { return %x }\n                          "
       "       ^"},
      {"fn @f(%x) -> (_, _) { return %x }",
       "text:1:14: @f declares 2 results but returns 1\n  fn @f(%x) -> (_, _) { return %x }\n      "
       "         ^"},
      {"fn @f(%x) { return none }",
       "text:1:25: expected a result: 'none' cannot be returned, ',' or '}', found '}'\n  fn "
       "@f(%x) { return none }\n                          ^"},
      {"fn @f(%x) { return %x as y }",
       "text:1:26: expected the name of the result, quoted, found 'y'\n  fn @f(%x) { return %x as "
       "y }\n                           ^"},
      {"fn @f(%x) {",
       "text:1:12: expected a binding (%name = op(...)), 'return' or 'yield', found the end of the "
       "text\n  fn @f(%x) {\n             ^"},
  };
  for (const Case& one : cases) EXPECT_EQ(refusal(one.text), one.message);
}

TEST(ParseError, Bindings) {
  const Case cases[] = {
      {"%z = frobnicate(%x)",
       "text:2:6: there is no op 'frobnicate'\n  %z = frobnicate(%x)\n       ^"},
      {"%z = relu(%q)",
       "text:2:11: %q is not defined before this use\n  %z = relu(%q)\n            ^"},
      {"%x = relu(%y)", "text:2:1: %x is already defined in this function\n  %x = relu(%y)\n  ^"},
      {"%z = relu(3)",
       "text:2:11: expected an operand: %name, none or op(...), found '3'\n  %z = relu(3)\n        "
       "    ^"},
      {"%z = relu(%x, %y)",
       "text:2:6: relu takes 1 operand, here are 2\n  %z = relu(%x, %y)\n       ^"},
      {"%z = matmul(%x)",
       "text:2:6: matmul takes 2 operands, here is 1\n  %z = matmul(%x)\n       ^"},
      {"%z = layer_norm(%x)",
       "text:2:6: layer_norm takes 2 to 3 operands, here is 1\n  %z = layer_norm(%x)\n       ^"},
      {"%z = concat() {axis = 0}",
       "text:2:6: concat takes at least 1 operand, here are 0\n  %z = concat() {axis = 0}\n       "
       "^"},
      {"%z, %v = relu(%x)",
       "text:2:10: relu has 1 result, this binding names 2\n  %z, %v = relu(%x)\n           ^"},
      {"relu(%x)", "text:2:1: relu has 1 result, this binding names 0\n  relu(%x)\n  ^"},
      {"3",
       "text:2:1: expected a binding (%name = op(...)), 'return' or 'yield', found '3'\n  3\n  ^"},
      {"%z = softmax(%x) {axes = 1}",
       "text:2:19: softmax has no attribute 'axes'; it takes axis\n  %z = softmax(%x) {axes = 1}\n "
       "                   ^"},
      {"%z = relu(%x) {axis = 1}",
       "text:2:16: relu has no attribute 'axis'; it takes none\n  %z = relu(%x) {axis = 1}\n       "
       "          ^"},
      {"%z = softmax(%x) {axis = 1, axis = 2}",
       "text:2:29: attribute 'axis' is given twice\n  %z = softmax(%x) {axis = 1, axis = 2}\n      "
       "                        ^"},
      {"%z = softmax(%x) {axis = n}",
       "text:2:26: attribute 'axis' of softmax holds constants, not the symbol n\n  %z = "
       "softmax(%x) {axis = n}\n                           ^"},
      {"%z = reshape(%x) {shape = (n, 4)}",
       "text:2:28: attribute 'shape' of reshape holds constants, not the symbol n; dyn.reshape "
       "takes it as an operand, shape(...)\n"
       "  %z = reshape(%x) {shape = (n, 4)}\n                             ^"},
      {"%z = softmax(%x) {axis = 1.5}",
       "text:2:26: expected an integer, found '1.5'\n  %z = softmax(%x) {axis = 1.5}\n             "
       "              ^"},
      {"%z = softmax(%x) {axis = 9223372036854775808}",
       "text:2:26: 9223372036854775808 does not fit 64 bits\n  %z = softmax(%x) {axis = "
       "9223372036854775808}\n                           ^"},
      {"%z = attention(%x, %x, %x) {scale = 1x}",
       "text:2:37: '1x' is not a 64-bit floating-point number\n  %z = attention(%x, %x, %x) {scale "
       "= 1x}\n                                      ^"},
      {"%z = relu(%x) from Relu",
       "text:2:20: expected the name of a node, quoted, found 'Relu'\n  %z = relu(%x) from Relu\n  "
       "                   ^"},
      {"%z = check_shape(%x)",
       "text:2:20: expected ',' and the demanded dims, (n, 10), found ')'\n  %z = "
       "check_shape(%x)\n                     ^"},
      {"%z = dim(n, 2)",
       "text:2:6: dim holds one dim, here are 2; a vector is shape(...)\n  %z = dim(n, 2)\n       "
       "^"},
      {"%z = bind(%x)",
       "text:2:6: bind opens a symbol and has no result: bind SYMBOL = %count where SYMBOL <= "
       "BOUND\n  %z = bind(%x)\n       ^"},
      {"bind k = %y where m <= n",
       "text:2:19: expected the bound of the symbol that this binds, SYMBOL <= BOUND\n  bind k = "
       "%y where m <= n\n                    ^"},
      {"%z = relu(if(%y))",
       "text:2:11: if cannot stand inside an expression: bind its results first\n  %z = "
       "relu(if(%y))\n            ^"},
      {"%z = call @g(%x)", "text:2:11: there is no function @g\n  %z = call @g(%x)\n            ^"},
      {"%z = call(%x)",
       "text:2:10: expected the name of a function, @name, found '('\n  %z = call(%x)\n           "
       "^"},
      {"%z = if(%y) { yield }",
       "text:2:15: if has no attribute 'yield'; it takes none\n  %z = if(%y) { yield }\n           "
       "     ^"},
      {"%z = if(%y) then { return }",
       "text:2:20: expected 'yield', found 'return'\n  %z = if(%y) then { return }\n               "
       "      ^"},
      {"%z = loop(none, %y) body(x) { yield }",
       "text:2:26: expected a parameter of the block, %name, found 'x'\n  %z = loop(none, %y) "
       "body(x) { yield }\n                           ^"},
  };
  for (const Case& one : cases) EXPECT_EQ(refusal_of_line(one.text), one.message);
}

TEST(ParseError, RegionCalls) {
  const std::string region = "\nregion @r(%x: Tensor[(a, b), f32]) { return %x }";
  const Case cases[] = {
      {"[a = 1]",
       "text:1:43: region @r needs a dim for its symbol b: [b = ...]\n"
       "  fn @f(%x: Tensor[(n), f32]) { %z = region @r(%x) [a = 1] return %z }\n"
       "                                            ^"},
      {"[a = 1, b = 2, c = 3]",
       "text:1:65: region @r has no symbol c\n"
       "  fn @f(%x: Tensor[(n), f32]) { %z = region @r(%x) [a = 1, b = 2, c = 3] return %z }\n"
       "                                                                  ^"},
      {"[a = 1, b = 2, a = 3]",
       "text:1:65: symbol a is given twice\n"
       "  fn @f(%x: Tensor[(n), f32]) { %z = region @r(%x) [a = 1, b = 2, a = 3] return %z }\n"
       "                                                                  ^"},
      {"[3 = 1]",
       "text:1:51: expected a symbol of the region, found '3'\n"
       "  fn @f(%x: Tensor[(n), f32]) { %z = region @r(%x) [3 = 1] return %z }\n"
       "                                                    ^"},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(refusal("fn @f(%x: Tensor[(n), f32]) { %z = region @r(%x) " + std::string(one.text) +
                      " return %z }" + region),
              one.message);
  }
}

TEST(ParseError, Dims) {
  const Case cases[] = {
      {"n +", "dim:1:4: expected a dim, found the end of the text\n  n +\n     ^"},
      {"n n", "dim:1:3: expected the end of the dim, found 'n'\n  n n\n    ^"},
      {"2n", "dim:1:1: '2n' is not an integer\n  2n\n  ^"},
      {"9223372036854775808",
       "dim:1:1: 9223372036854775808 does not fit 64 bits\n  9223372036854775808\n  ^"},
      {"foo(n)",
       "dim:1:1: 'foo' is not a function of dims; there are floor_div, ceil_div, mod, min, max, "
       "select, broadcast and value\n"
       "  foo(n)\n  ^"},
      {"mod(n)",
       "dim:1:6: expected ',' and another of the 2 arguments of mod, found ')'\n  mod(n)\n       "
       "^"},
      {"select(n > 2, 1, 2)",
       "dim:1:10: the character \">\" has no meaning here\n  select(n > 2, 1, 2)\n           ^"},
      {"select(n, 1, 2)",
       "dim:1:9: expected one of == != < <=, found ','\n  select(n, 1, 2)\n          ^"},
      {"value(%x, 0)",
       "dim:1:7: value(%tensor, element) has no meaning outside a function\n  value(%x, 0)\n       "
       " ^"},
      {"?", "dim:1:1: expected a dim, found '?'\n  ?\n  ^"},
      {"-", "dim:1:2: expected a dim, found the end of the text\n  -\n   ^"},
      {"\"\"", "dim:1:1: a symbol has a name\n  \"\"\n  ^"},
  };
  for (const Case& one : cases) EXPECT_EQ(message_of([&] { parse_dim(one.text); }), one.message);
  EXPECT_EQ(refusal("fn @f(%x: Tensor[(1 + ?), f32]) { return }"),
            "text:1:23: '?' stands for a whole dim, not for a part of one\n  fn @f(%x: Tensor[(1 + "
            "?), f32]) { return }\n                        ^");
  EXPECT_EQ(refusal("fn @f(%x: Tensor[(n), f32]) { return dim(value(%t, 0)) }"),
            "text:1:48: %t is not defined in this function\n  fn @f(%x: Tensor[(n), f32]) { return "
            "dim(value(%t, 0)) }\n"
            "                                                 ^");
}

TEST(ParseError, Tensors) {
  const Case cases[] = {
      {"f32 (2) [1]",
       "tensor:1:1: a tensor f32 (2) has 2 elements, this one lists 1\n  f32 (2) [1]\n  ^"},
      {"f32 (2) 1",
       "tensor:1:9: expected the elements: [...], @bytes(...), @random(...) or @file(...), found "
       "'1'\n  f32 (2) 1\n          ^"},
      {"f32 (1) [x]",
       "tensor:1:10: expected a number, inf or nan, found 'x'\n  f32 (1) [x]\n           ^"},
      {"f32 (1) [1e99]",
       "tensor:1:10: 1e99 is out of the range of f32\n  f32 (1) [1e99]\n           ^"},
      {"f32 (1) [1.2.3]",
       "tensor:1:10: '1.2.3' is not a number of dtype f32\n  f32 (1) [1.2.3]\n           ^"},
      {"f16 (1) [nan(0x12345)]",
       "tensor:1:14: '0x12345' is not 16 bits in hexadecimal\n  f16 (1) [nan(0x12345)]\n           "
       "    ^"},
      {"i8 (1) [-129]", "tensor:1:9: -129 is out of the range of i8\n  i8 (1) [-129]\n          ^"},
      {"u8 (1) [256]", "tensor:1:9: 256 is out of the range of u8\n  u8 (1) [256]\n          ^"},
      {"u64 (1) [-1]",
       "tensor:1:10: '-1' is not a number of dtype u64\n  u64 (1) [-1]\n           ^"},
      {"i64 (1) [1.5]",
       "tensor:1:10: '1.5' is not a number of dtype i64\n  i64 (1) [1.5]\n           ^"},
      {"bool (1) [1]",
       "tensor:1:11: expected true or false, found '1'\n  bool (1) [1]\n            ^"},
      {"u8 (3) @bytes(\"AAA\")",
       "tensor:1:15: base64 comes in groups of four characters\n  u8 (3) @bytes(\"AAA\")\n         "
       "       ^"},
      {"u8 (3) @bytes(\"A===\")",
       "tensor:1:15: base64 ends in at most two '='\n  u8 (3) @bytes(\"A===\")\n                ^"},
      {"u8 (3) @bytes(\"AA!A\")",
       "tensor:1:18: '!' is not a digit of base64\n  u8 (3) @bytes(\"AA!A\")\n                   "
       "^"},
      {"u8 (3) @bytes(\"AAA=\")",
       "tensor:1:1: a tensor u8 (3) takes 3 bytes, this one holds 2\n  u8 (3) @bytes(\"AAA=\")\n  "
       "^"},
      {"u8 (3) @random(-1)",
       "tensor:1:16: expected the seed, found '-'\n  u8 (3) @random(-1)\n                 ^"},
      {"u8 (3) @random(1.5)",
       "tensor:1:16: the seed '1.5' is not an unsigned 64-bit integer\n  u8 (3) @random(1.5)\n     "
       "            ^"},
      {"u8 (3) @file(\"f\", 0, 3)",
       "tensor:1:14: this text refers to the file \"f\", but may not read files here\n  u8 (3) "
       "@file(\"f\", 0, 3)\n               ^"},
      {"u8 (3) @file(\"f\", -1, 3)",
       "tensor:1:14: the offset into 'f' is negative: -1\n  u8 (3) @file(\"f\", -1, 3)\n           "
       "    ^"},
      {"u8 (3) @file(\"f\", 0, 4)",
       "tensor:1:22: a tensor u8 (3) takes 3 bytes, the reference gives 4\n  u8 (3) @file(\"f\", "
       "0, 4)\n                       ^"},
      {"u8 (0) [] 1",
       "tensor:1:11: expected the end of the tensor, found '1'\n  u8 (0) [] 1\n            ^"},
  };
  for (const Case& one : cases) EXPECT_EQ(message_of([&] { parse_tensor(one.text); }), one.message);
  EXPECT_EQ(message_of([] { parse_tensor("f32 (9223372036854775807, 2) []"); }).substr(0, 12),
            "tensor:1:1: ");
  EXPECT_EQ(message_of([] { parse_tensor("f32 (-1) []"); }).substr(0, 12), "tensor:1:1: ");
}

// Hostile nesting and growth end in an error, not in exhausted stack or memory.
TEST(ParseError, Hostile) {
  const auto first_line = [](const std::string& message) {
    return message.substr(0, message.find('\n'));
  };
  const auto repeat = [](const std::string& text, int count) {
    std::string out;
    for (int i = 0; i < count; ++i) out += text;
    return out;
  };
  const int many = 100000;
  EXPECT_EQ(first_line(message_of([&] { parse_dim(repeat("(", many)); })),
            "dim:1:201: this is nested more than 200 levels deep");
  EXPECT_EQ(first_line(message_of([&] { parse_dim(repeat("min(1,", many)); })),
            "dim:1:1199: this is nested more than 200 levels deep");
  EXPECT_EQ(first_line(refusal("fn @f(%x: " + repeat("List[", many))),
            "text:1:1011: this is nested more than 200 levels deep");
  EXPECT_EQ(first_line(refusal("fn @f(%x) { return " + repeat("relu(", many))),
            "text:1:1020: this is nested more than 200 levels deep");
  EXPECT_EQ(first_line(refusal("fn @f(%x) { " + repeat("%y = if(%x) then {", many))),
            "text:1:3630: this is nested more than 200 levels deep");
  std::string product = "(a0 + b0)";
  for (int i = 1; i < 40; ++i)
    product += "*(a" + std::to_string(i) + " + b" + std::to_string(i) + ")";
  EXPECT_EQ(first_line(message_of([&] { parse_dim(product); })),
            "dim:1:1: a dim expression grew beyond 20000 terms and operands; simplify the model's "
            "shape arithmetic");
}

}  // namespace
}  // namespace anydim::ir
