// Modules in, modules out: what is appended to lies in a storage with room.
#include "passes/append_in_place.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "ir/reference/evaluate.h"
#include "ir/shapes/infer.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "ir/verify.h"

namespace anydim::passes {
namespace {

ir::Module inferred(const std::string& text) {
  ir::Module module = ir::parse(text);
  ir::infer_types(module);
  return module;
}

bool operator==(const AppendedResult& a, const AppendedResult& b) {
  return std::tie(a.input, a.output, a.axis, a.storage, a.room) ==
         std::tie(b.input, b.output, b.axis, b.storage, b.room);
}

constexpr const char* two = R"(
fn @main(%x: Tensor[(b, s, 4), f32], %past: Tensor[(b, p, 4), f32], %others: Tensor[(b, p, 4), f32])
  where b in [0, 8], s in [0, 16], p in [0, 100] {
  %key = concat(%past, %x) {axis = 1} from "Key"
  %twice = add(%x, %x)
  %value = concat(%others, %twice) {axis = -2} from "Value"
  %y = mul(%key, %value)
  return %y, %key, %value
}
)";

TEST(AppendInPlace, StoragesOfOneLengthHaveOneRoom) {
  const AppendingModule appending = append_in_place(inferred(two));
  ir::verify(appending.module);
  ASSERT_EQ(appending.appended.size(), 2u);
  EXPECT_TRUE((appending.appended[0] ==
               AppendedResult{.input = 1, .output = 1, .axis = 1, .storage = 3, .room = 5}));
  EXPECT_TRUE((appending.appended[1] ==
               AppendedResult{.input = 2, .output = 2, .axis = 1, .storage = 4, .room = 5}));
  EXPECT_EQ(
      ir::print(appending.module),
      R"(fn @main(%x: Tensor[(b, s, 4), f32], %past: Tensor[(b, p, 4), f32], %others: Tensor[(b, p, 4), f32], %past.storage: Tensor[(b, p + room + s, 4), f32], %others.storage: Tensor[(b, p + room + s, 4), f32], %room: Tensor[(room, 0), bool]) -> (Tensor[(b, p + s, 4), f32], Tensor[(b, p + room + s, 4), f32], Tensor[(b, p + room + s, 4), f32])
  where b in [0, 8],
        s in [0, 16],
        p in [0, 100],
        room in [0, 116] {
  %past.all: Tensor[(), i64] = dim(p) from "Key"
  %past.all_1: Tensor[(b, p + room + s, 4), f32] = dyn.overwrite(%past.storage, %x, %past.all) {axis = 1, in_place = 1} from "Key"
  %past.all_2: Tensor[(1), i64] = shape(0) from "Key"
  %past.all_3: Tensor[(1), i64] = shape(p + s) from "Key"
  %past.all_4: Tensor[(1), i64] = shape(1) from "Key"
  %key: Tensor[(b, p + s, 4), f32] = dyn.strided_slice(%past.all_1, %past.all_2, %past.all_3, %past.all_4) from "Key"
  %twice: Tensor[(b, s, 4), f32] = add(%x, %x)
  %others.all: Tensor[(), i64] = dim(p) from "Value"
  %others.all_1: Tensor[(b, p + room + s, 4), f32] = dyn.overwrite(%others.storage, %twice, %others.all) {axis = 1, in_place = 1} from "Value"
  %others.all_2: Tensor[(1), i64] = shape(0) from "Value"
  %others.all_3: Tensor[(1), i64] = shape(p + s) from "Value"
  %others.all_4: Tensor[(1), i64] = shape(1) from "Value"
  %value: Tensor[(b, p + s, 4), f32] = dyn.strided_slice(%others.all_1, %others.all_2, %others.all_3, %others.all_4) from "Value"
  %y: Tensor[(b, p + s, 4), f32] = mul(%key, %value)
  return %y, %past.all_1 as "key", %others.all_1 as "value"
}
)");
}

// The storage's rows up to the result's length are the result; those beyond it stay.
TEST(AppendInPlace, IsTheSameFunction) {
  const ir::Module module = inferred(two);
  const AppendingModule appending = append_in_place(module);
  const auto numbers = [](std::vector<std::int64_t> dims, std::int64_t first) {
    ir::Tensor tensor(ir::DType::F32, std::move(dims));
    for (std::int64_t i = 0; i < tensor.elements(); ++i) tensor.set_integer(i, first + i);
    return tensor;
  };
  constexpr std::int64_t before = 3, more = 2, room = 4, width = 4;
  const ir::Tensor x = numbers({1, more, width}, 100), past = numbers({1, before, width}, 200),
                   others = numbers({1, before, width}, 300);
  const auto storage = [&](const ir::Tensor& filled) {
    ir::Tensor tensor = numbers({1, before + more + room, width}, 900);
    for (std::int64_t i = 0; i < filled.elements(); ++i)
      tensor.set_integer(i, filled.integer_at(i));
    return tensor;
  };
  const auto expected = ir::evaluate(module, module.functions[0], {x, past, others});
  const auto got = ir::evaluate(
      appending.module, appending.module.functions[0],
      {x, past, others, storage(past), storage(others), ir::Tensor(ir::DType::Bool, {room, 0})});
  EXPECT_TRUE(got[0].same_bits(expected[0]));
  for (const std::size_t r : {1u, 2u})
    for (std::int64_t i = 0; i < got[r].elements(); ++i)
      EXPECT_EQ(got[r].integer_at(i),
                i < expected[r].elements() ? expected[r].integer_at(i) : 900 + i)
          << "result " << r << " element " << i;
}

TEST(AppendInPlace, WhatDoesNotFitStays) {
  for (const std::string body :
       {"  %z = relu(%x)\n  return %z\n",
        // read elsewhere too; in front; not a parameter; given twice; three parts
        "  %z = concat(%x, %y) {axis = 0}\n  %w = relu(%x)\n  return %z, %w\n",
        "  %r = relu(%x)\n  %z = concat(%r, %y) {axis = 0}\n  return %z\n",
        "  %z = concat(%x, %y) {axis = 0}\n  return %z, %z\n",
        "  %r = relu(%y)\n  %z = concat(%x, %r, %r) {axis = 0}\n  return %z\n",
        // of an axis that has one extent
        "  %z = concat(%x, %x) {axis = 1}\n  return %z\n",
        "  %z = concat(%y, %y) {axis = 1}\n  return %z\n"}) {
    const ir::Module module =
        inferred("fn @main(%x: Tensor[(n, 4), f32], %y: Tensor[(m, 4), f32]) {\n" + body + "}\n");
    const AppendingModule appending = append_in_place(module);
    EXPECT_TRUE(appending.appended.empty()) << body;
    EXPECT_EQ(ir::print(appending.module), ir::print(module));
  }
}

// A symbol that is called like the room stays another one.
TEST(AppendInPlace, NamesAreItsOwn) {
  const AppendingModule appending = append_in_place(
      inferred("fn @main(%room: Tensor[(room, 4), f32], %past: Tensor[(room_2, 4), f32]) {\n"
               "  %z = concat(%past, %room) {axis = 0}\n  return %z\n}\n"));
  ir::verify(appending.module);
  ASSERT_EQ(appending.appended.size(), 1u);
  const ir::Function& main = appending.module.functions[0];
  EXPECT_EQ(ir::print(main, main.tensor_type(main.body.parameters[2]).dims[0]),
            "room + room_2 + room_3");
}

}  // namespace
}  // namespace anydim::passes
