// The text form reads back exactly.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "ir/quote.h"
#include "ir/random_tensor.h"
#include "ir/region.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "tests/ir/parse_parts.h"
#include "tests/ir/same_module.h"

namespace anydim::ir {
namespace {

// The text is what the printer makes of it.
void expect_stable(const std::string& text) {
  const Module module = parse(text);
  EXPECT_EQ(print(module), text);
  EXPECT_EQ(test::difference(parse(print(module)), module), "");
}

TEST(PrintParse, Function) {
  expect_stable(
      R"(fn @main(%x: Tensor[(n, 384), f32], %w: Tensor[(384, 1536), f32]) -> Tensor[(n, 1536), f32]
  where n in [1, 16384], m in [0, 512] multiple 8 {
  %s: Tensor[(2), i64] = shape_of(%x)
  %y: Tensor[(n, 384), f32] = dyn.reshape(%x, %s) {zero_copies = 1}
  %z: Tensor[(n, 1536), f32] = matmul(%y, %w) from "/encoder/MatMul"
  return %z as "name"
}
)");
}

TEST(PrintParse, ExampleOfTheDesign) {
  const Module module = parse(R"(
    fn @main(%x: Tensor[(n, 384), f32], %w: Tensor[(384, 1536), f32]) -> Tensor[(n, 1536), f32]
      where n in [1, 16384] {
      %s = shape_of(%x)                      // Tensor[(2), i64], known to be shape(n, 384)
      %y = dyn.reshape(%x, %s)
      return matmul(%y, %w)
    })");
  EXPECT_EQ(
      print(module),
      R"(fn @main(%x: Tensor[(n, 384), f32], %w: Tensor[(384, 1536), f32]) -> Tensor[(n, 1536), f32]
  where n in [1, 16384] {
  %s = shape_of(%x)
  %y = dyn.reshape(%x, %s)
  %nested_0: Tensor[(n, 1536), f32] = matmul(%y, %w)
  return %nested_0
}
)");
}

TEST(PrintParse, SymbolsWithEverythingKnownOfThem) {
  expect_stable(R"(fn @main(%x: Tensor[(batch, "past length + 1"), f32])
  where batch in [1, 64] multiple 4 because "--dim batch",
        "past length + 1" in [0, 512] below 4*batch + 1 unbacked because "/Gather \"7\"",
        free in [-9223372036854775808, 9223372036854775807],
        i in [0, 7] below value(%count, 0) {
  %count = shape_of(%x)
  return %count
}
)");
}

TEST(PrintParse, Dims) {
  expect_stable(R"(fn @main(%x: Tensor[(a, b), f32])
  where a in [0, 100], b in [0, 100], count in [0, 2147483647] {
  %s = shape(2*a + 1, a*b, floor_div(a + b, 2), mod(a, b), 0, 7)
  %d = dim(3*a)
  %y = check_shape(%x, (a, 10))
  bind count = %d where count <= 3*a from "NonZero"
  %t = shape(count)
  return %s
}
)");
}

TEST(PrintParse, CheckShapeAndBindOpenSymbols) {
  const Module module = parse(R"(fn @main(%x: Tensor[(?, ?), f32], %k) {
    %y = check_shape(%x, (m, 10))
    bind c = %k where c <= 4*m
    return %y, shape(c)
  })");
  EXPECT_EQ(print(module), R"(fn @main(%x: Tensor[(unknown_0, unknown_1), f32], %k)
  where unknown_0 in [0, 2147483647] unbacked,
        unknown_1 in [0, 2147483647] unbacked,
        m in [0, 2147483647],
        c in [0, 2147483647] {
  %y = check_shape(%x, (m, 10))
  bind c = %k where c <= 4*m
  %nested_0 = shape(c)
  return %y, %nested_0
}
)");
}

TEST(PrintParse, EachUnknownDimIsFreshAndClosesInResults) {
  const Module module = parse(R"(fn @main(%unknown_: Tensor[(n), f32]) -> Tensor[(?, n), f32] {
    %y: Tensor[(?, n), f32] = relu(%unknown_)
    return %y
  })");
  EXPECT_EQ(print(module), R"(fn @main(%unknown_: Tensor[(n), f32]) -> Tensor[(?, n), f32]
  where n in [0, 2147483647], unknownx_0 in [0, 2147483647] unbacked {
  %y: Tensor[(unknownx_0, n), f32] = relu(%unknown_)
  return %y
}
)");
  EXPECT_EQ(print(parse(print(module))), print(module));
}

TEST(PrintParse, SymbolsOfParametersStayOpenInResults) {
  expect_stable(R"(fn @main(%x: Tensor[(d), f32]) -> (Tensor[(d), f32], Tensor[(?), f32])
  where d in [0, 9] unbacked, e in [0, 9] unbacked {
  %y: Tensor[(d), f32] = relu(%x)
  %z: Tensor[(e), f32] = relu(%x)
  return %y, %z
}
)");
}

TEST(PrintParse, Types) {
  expect_stable(
      R"(fn @main(%a: Tuple[Tensor[(n), f32], List[_]], %f: Function[(Tensor[(), bool], _), ()], %t: Tuple[]) -> Tuple[]
  where n in [0, 3] {
  return %t
}
)");
}

TEST(PrintParse, BlocksCallsAndNone) {
  expect_stable(R"(fn @main(%x: Tensor[(n), f32], %c: Tensor[(), bool], %s)
  where n in [0, 9] {
  %y: Tensor[(n), f32], %z = if(%c) from "If_1" then {
    %a = relu(%x)
    yield %a, %x
  } else {
    %b, %e = call @helper(%x)
    yield %b, %e
  }
  %last, %all = loop(none, %c, %x) body(%i: Tensor[(), i64], %on, %carried: Tensor[(n), f32]) {
    %inner = if(%on) then {
      yield %carried
    } else {
      yield %x
    }
    yield %on, %inner, %inner
  }
  %cut = dyn.strided_slice(%x, %s, %s, none, %s)
  call @nothing()
  return %cut as "result", %last
}

fn @helper(%x: Tensor[(n), f32]) -> (Tensor[(n), f32], Tensor[(n), f32])
  where n in [0, 2147483647] {
  return %x, %x as "again"
}

fn @nothing() {
  return
}
)");
}

TEST(PrintParse, Regions) {
  expect_stable(R"(fn @main(%x: Tensor[(n, 4), f32], %w: Tensor[(4, 8), f32])
  where n in [0, 9] {
  %y: Tensor[(n, 8), f32] = region @matmul_relu_0(%x, %w) [s0 = n] from "MatMul_1"
  %z = region @plain()
  return %y, %z
}

region @matmul_relu_0(%a: Tensor[(s0, 4), f32], weight %b: Tensor[(4, 8), f32]) -> Tensor[(s0, 8), f32]
  where s0 in [0, 9] {
  %c: Tensor[(s0, 8), f32] = matmul(%a, %b)
  %d: Tensor[(s0, 8), f32] = relu(%c)
  return %d
}

region @plain() {
  %one = constant(f32 () [1])
  return %one as "given"
}
)");
  const Module module =
      parse(R"(fn @main(%x: Tensor[(n, m), f32]) { return region @r(%x) [b = m + 1, a = 2*n] }
    region @r(%x: Tensor[(a, b), f32]) { return %x })");
  EXPECT_EQ(module.functions[0].body.bindings[0].dims,
            (std::vector<Dim>{2 * Dim::symbol("n"), Dim::symbol("m") + 1}));
  EXPECT_EQ(
      module.regions[0].identity,
      "weights\n(%0: Tensor[(a, b), f32])\n  where a in [0, 2147483647], b in [0, 2147483647] {\n"
      "  return %0\n}\n");
}

TEST(PrintParse, Policies) {
  expect_stable(R"(policy @relu_0 exact
policy symbolic
policy @"a name" library

fn @main(%x: Tensor[(n), f32]) -> Tensor[(n), f32]
  where n in [0, 2147483647] {
  return %x
}
)");
}

TEST(PrintParse, IdentityIgnoresNamesAndSources) {
  const Module one = parse(R"(fn @main() { return }
    region @a(%x: Tensor[(s0), f32], weight %w: Tensor[(s0), f32]) where s0 in [0, 9] because "a" { %y = add(%x, %w) from "n" return %y })");
  const Module other = parse(R"(fn @main() { return }
    region @b(%p: Tensor[(s0), f32], weight %q: Tensor[(s0), f32]) where s0 in [0, 9] { %r = add(%p, %q) return %r as "out" })");
  EXPECT_EQ(one.regions[0].identity, other.regions[0].identity);
  for (const char* different : {"region @b(%p: Tensor[(s0), f32], %q: Tensor[(s0), f32]) where s0 "
                                "in [0, 9] { %r = add(%p, %q) return %r }",
                                "region @b(%p: Tensor[(s0), f32], weight %q: Tensor[(s0), f32]) "
                                "where s0 in [0, 8] { %r = add(%p, %q) return %r }",
                                "region @b(%p: Tensor[(s0), f32], weight %q: Tensor[(s0), f32]) "
                                "where s0 in [0, 9] { %r = add(%q, %p) return %r }",
                                "region @b(%p: Tensor[(s0), f16], weight %q: Tensor[(s0), f16]) "
                                "where s0 in [0, 9] { %r = add(%p, %q) return %r }"}) {
    EXPECT_NE(one.regions[0].identity,
              parse(std::string("fn @main() { return } ") + different).regions[0].identity)
        << different;
  }
}

TEST(PrintParse, Attributes) {
  expect_stable(R"(fn @main(%x, %k, %q) {
  %a = cast(%x) {to = bf16}
  %b = layer_norm(%x, %k) {axis = -2, epsilon = 1e-12}
  %c = reshape(%x) {shape = ()}
  %d = strided_slice(%x) {axes = (-1), ends = (9223372036854775807), starts = (-9223372036854775808), steps = (2)}
  %e = attention(%x, %k, %q) {scale = 0.1}
  %f = attention(%x, %k, %q) {scale = -inf}
  %g, %h = split(%x) {axis = 1, sizes = (2, 3)}
  return %a
}
)");
}

TEST(PrintParse, TwinsAreChosenByTheirLiterals) {
  const Module module = parse(R"(fn @main(%x: Tensor[(n, 6), f32], %s) {
    %a = reshape(%x, shape(2, 3))
    %b = reshape(%x, shape(n, 2, 3))
    %c = reshape(%x, %s)
    %d = strided_slice(%x, shape(0), shape(2), shape(1))
    %e = trilu(relu(%x), dim(1)) {upper = 0}
    %f = arange(dim(0), dim(n), dim(1))
    %g = reduce_sum(%x, %s) {keepdims = 1}
    return %a
  })");
  EXPECT_EQ(print(module), R"(fn @main(%x: Tensor[(n, 6), f32], %s)
  where n in [0, 2147483647] {
  %a = reshape(%x) {shape = (2, 3)}
  %nested_0 = shape(n, 2, 3)
  %b = dyn.reshape(%x, %nested_0)
  %c = dyn.reshape(%x, %s)
  %d = strided_slice(%x) {axes = (1), ends = (2), starts = (0)}
  %nested_1 = relu(%x)
  %e = trilu(%nested_1) {k = 1, upper = 0}
  %nested_2 = dim(0)
  %nested_3 = dim(n)
  %nested_4 = dim(1)
  %f = dyn.arange(%nested_2, %nested_3, %nested_4)
  %g = dyn.reduce_sum(%x, %s) {keepdims = 1}
  return %a
}
)");
}

TEST(PrintParse, NamesOfAnyBytes) {
  Module module;
  Function function;
  function.name = "main";
  std::string every;
  for (int byte = 0; byte < 256; ++byte) every += static_cast<char>(byte);
  const ValueId x = function.add_value(every);
  const ValueId y = function.add_value("/bert/encoder/Überschrift ∑");
  Binding relu;
  relu.op = Op::relu;
  relu.operands = {x};
  relu.results = {y};
  relu.source = every + "\xf4\x90\x80\x80";
  function.symbols.declare(every);
  function.symbols.declare("select");
  function.values[x].type = TensorType{DType::F32, {Dim::symbol(every) * 2, Dim::symbol("select")}};
  function.body = {{x}, {relu}, {y}};
  function.result_names = {"a\"b\\c\n"};
  module.functions.push_back(function);
  Function other;
  other.name = "weird name %";
  module.functions.push_back(other);
  const std::string text = print(module);
  EXPECT_EQ(test::difference(parse(text), module), "") << text;
  EXPECT_EQ(print(parse(text)), text);
  EXPECT_NE(text.find("%\"/bert/encoder/Überschrift ∑\""), std::string::npos) << text;
}

// Every dtype's special values come back bit for bit.
TEST(PrintParse, ConstantsAreExact) {
  const auto expect_exact = [](const Tensor& tensor) {
    const Tensor back = parse_tensor(print(tensor));
    EXPECT_TRUE(back.same_bits(tensor)) << print(tensor) << " became " << print(back);
  };
  const auto of_bits = [](DType dtype, const std::vector<std::uint64_t>& bits) {
    Tensor tensor(dtype, {static_cast<std::int64_t>(bits.size())});
    const std::size_t size = size_of(dtype);
    for (std::size_t i = 0; i < bits.size(); ++i)
      std::memcpy(tensor.mutable_bytes().data() + i * size, &bits[i], size);
    return tensor;
  };
  expect_exact(
      of_bits(DType::F32, {0, 0x80000000, 1, 0x007fffff, 0x7f7fffff, 0x7f800000, 0xff800000,
                           0x7fc00000, 0xffc00000, 0x7f800001, 0x3dcccccd, 0x3eaaaaab}));
  expect_exact(of_bits(DType::F64, {0, 1ull << 63, 1, 0x7fefffffffffffff, 0x7ff0000000000000,
                                    0x7ff8000000000000, 0xfff8000000000001, 0x3fb999999999999a}));
  for (const DType dtype : {DType::F16, DType::BF16}) {
    std::vector<std::uint64_t> bits(64);
    for (std::uint64_t from = 0; from < 65536; from += 64) {
      for (std::uint64_t i = 0; i < 64; ++i) bits[i] = from + i;
      expect_exact(of_bits(dtype, bits));
    }
  }
  for (const DType dtype : {DType::I64, DType::I32, DType::I16, DType::I8, DType::U64, DType::U32,
                            DType::U16, DType::U8}) {
    expect_exact(of_bits(dtype, {0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0x7fffffff, 0x80000000,
                                 0x7fffffffffffffff, 0x8000000000000000, 0xffffffffffffffff}));
  }
  expect_exact(of_bits(DType::Bool, {0, 1, 1}));
  expect_exact(of_bits(DType::Bool, {0, 1, 7}));
  expect_exact(Tensor(DType::F32, {0, 3}));
  expect_exact(Tensor::of<float>(DType::F32, {}, {2.5}));
  for (const std::int64_t count : {65, 66, 67, 1000}) {
    expect_exact(random_tensor(DType::U8, {count}, 7, "bytes"));
    const Tensor source = random_tensor(DType::F32, {count}, 7, "floats");
    Tensor copy(DType::F32, {count});
    std::memcpy(copy.mutable_bytes().data(), source.bytes().data(), source.bytes().size());
    expect_exact(copy);
    EXPECT_NE(print(copy).find("@bytes(\""), std::string::npos);
  }
}

TEST(PrintParse, ConstantsPrintShort) {
  EXPECT_EQ(
      print(Tensor::of<double>(DType::F32, {2, 2},
                               {0.1, -0.0, std::numeric_limits<double>::infinity(), std::nan("")})),
      "f32 (2, 2) [0.1, -0, inf, nan]");
  EXPECT_EQ(print(Tensor::of<std::int64_t>(DType::Bool, {2}, {1, 0})), "bool (2) [true, false]");
  EXPECT_EQ(print(Tensor::of<std::int64_t>(DType::I64, {}, {-3})), "i64 () [-3]");
}

TEST(PrintParse, References) {
  expect_stable(R"(fn @main() {
  %w = constant(f32 (384, 8) @random(7))
  %v = constant(bf16 (3, 64) @random(18446744073709551615, "the first name"))
  return %w
}
)");
  std::string asked;
  ParseOptions options;
  options.files = [&](const std::string& file, std::int64_t offset, std::int64_t length,
                      DType dtype, std::vector<std::int64_t> dims) {
    asked += file + " " + std::to_string(offset) + " " + std::to_string(length) + "\n";
    const Tensor memory(dtype, dims);
    return Tensor(dtype, dims, memory.bytes(), memory.owner(),
                  {file, offset, length, std::nullopt});
  };
  const std::string text = R"(fn @main() {
  %w = constant(f32 (16, 8) @file("model \"a\".safetensors", 4096, 512))
  return %w
}
)";
  EXPECT_EQ(print(parse(text, options)), text);
  EXPECT_EQ(asked, "model \"a\".safetensors 4096 512\n");
}

// Known answers of the authors' own test vectors.
TEST(RandomTensor, PhiloxIsTheStandardOne) {
  using Words = std::array<std::uint32_t, 4>;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomTensor, ValuesFollowFromSeedAndName) {
  const Tensor floats = random_tensor(DType::F32, {3, 5}, 42, "w");
  double sum = 0;
  for (std::int64_t i = 0; i < floats.elements(); ++i) {
    EXPECT_GE(floats.real_at(i), -0.0625);
    EXPECT_LT(floats.real_at(i), 0.0625);
    sum += std::abs(floats.real_at(i));
  }
  EXPECT_GT(sum, 0.1);
  EXPECT_TRUE(floats.same_bits(random_tensor(DType::F32, {3, 5}, 42, "w")));
  EXPECT_FALSE(floats.same_bits(random_tensor(DType::F32, {3, 5}, 43, "w")));
  EXPECT_FALSE(floats.same_bits(random_tensor(DType::F32, {3, 5}, 42, "v")));
  const Tensor doubles = random_tensor(DType::F64, {15}, 42, "w");
  for (std::int64_t i = 0; i < 15; ++i) EXPECT_EQ(doubles.real_at(i), floats.real_at(i));
}

}  // namespace
}  // namespace anydim::ir
