// What texts of loop forms are refused for, and where.
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "ir/loops/loop_form_parse.h"
#include "ir/loops/placed_kernel_parse.h"
#include "tests/ir/loop_form_cases.h"
#include "tests/support/changed_text.h"
#include "tests/support/region_fixture.h"

namespace anydim::ir {
namespace {

const std::string gather = R"(map
  parameter 0: Tensor[(100, 384), f32]
  parameter 1: Tensor[(n), i64]
  result 0: Tensor[(n, 384), f32]
  where n in [0, 2147483647]
  check 0: index of 100, "gather index" from "Gather_1"
  for $p0 < n, $p1 < 384
    #0: i64 = load 1[$p0]
    #1: i64 = index(#0) below 100, check 0
    #2: f32 = load 0[#1, $p1]
    #3: f32 = 0
    #4: f32 = guarded(#2, #3) where $p1 < 300
    store 0[$p0, $p1] = #4
)";

std::string reread(const std::string& text) { return to_string(parse_loop_form(text)); }

TEST(LoopFormErrors, TheTextItselfIsRight) { EXPECT_EQ(reread(gather), gather); }

TEST(LoopFormErrors, SayWhereAndWhatWasExpected) {
  tests::expect_refused(
      gather,
      {
          {"map", "maps",
           "text:1:1: expected a kind of kernel: map, rows, matmul, attention, ordered, compact or "
           "sort, found 'maps'"},
          {"parameter 1", "parameter 2", "text:3:13: expected the next number, 1, found '2'"},
          {"Tensor[(n), i64]", "Tensor[(n), i63]",
           "text:3:28: expected a dtype (f64 f32 f16 bf16 i64 i32 i16 i8 u64 u32 u16 u8 bool), "
           "found "
           "'i63'"},
          {"n in", "n in [0, 5], n in", "text:5:22: symbol n is declared twice"},
          {"index of", "offset of",
           "text:6:12: expected index, divisor, offsets or work, found 'offset'"},
          {"$p0 < n", "$q0 < n",
           "text:7:7: expected a loop variable, $ and the letter of a kind of loop and a number as "
           "in "
           "$m0, found '$q0'"},
          {"#1: i64", "#2: i64", "text:9:5: expected the next step, #1, found '#2'"},
          {"index(#0)", "inverse(#0)",
           "text:9:15: expected what the step does: a number, load, extent, index, guarded, "
           "accumulated, scratch or an elementwise op, found 'inverse'"},
          {"[#1, $p1]", "[#1, $p1", "text:11:5: expected ']', found '#3'"},
          {"#1, $p1", "#1.2.3, $p1",
           "text:10:22: expected a step, # and its number, found '#1.2.3'"},
          {"= #4", "= 4", "text:13:25: expected a step, # and its number, found '4'"},
          {"where $p1", "wher $p1",
           "text:12:31: expected another line of the loop form or the end of the text, found "
           "'wher'"},
          {"    store", "    stoer",
           "text:13:5: expected another line of the loop form or the end of the text, found "
           "'stoer'"},
          {"= #4", "= #4 $p0",
           "text:13:28: expected another line of the loop form or the end of the text, found "
           "'$p0'"},
          {"$p1 < 300", "$p1 > 300", "text:12:41: the character \">\" has no meaning here"},
          {"Gather_1\"", "Gather_1", "text:6:46: this string has no closing quote on its line"},
      },
      reread);
}

TEST(LoopFormErrors, SayWhatIsNotWellFormed) {
  tests::expect_refused(
      gather,
      {
          {"index(#0)", "index(#3)", "text:9:5: #1: expected an earlier step, got #3"},
          {"load 0[#1", "load 2[#1", "text:10:5: expected one of 2 parameters, got 2"},
          {"#2: f32", "#2: f16",
           "text:10:5: f16 = load 0[#1, $p1]: expected f32, the dtype of parameter 0"},
          {"load 1[$p0]", "load 1[$p0, 0]",
           "text:8:5: load 1 of Tensor[(n), i64]: expected 1 indices, got 2"},
          {"load 1[$p0]", "load 1[$p2]",
           "text:8:5: the dim $p2 mentions $p2: expected a symbol of the kernel, a loop around it "
           "or "
           "the number of an earlier checked index"},
          {"load 0[#1", "load 0[#0",
           "text:10:5: the dim #0 mentions #0: expected a symbol of the kernel, a loop around it "
           "or "
           "the number of an earlier checked index"},
          {"load 1[$p0]", "load 1[m]",
           "text:8:5: the dim m mentions m: expected a symbol of the kernel, a loop around it or "
           "the "
           "number of an earlier checked index"},
          {"check 0\n", "check 1\n", "text:9:5: expected one of 1 checks, got 1"},
          {"below 100", "below 99",
           "text:9:5: expected check 0 to be index of 99, got index of 100"},
          {"#3: f32 = 0", "#3: f32 = accumulated 0",
           "text:11:5: f32 = accumulated 0: nothing has been written there"},
          {"#3: f32 = 0", "#3: i8 = 1000", "text:11:5: 1000 is no number of dtype i8"},
          {"#3: f32 = 0", "#3: f32 = add(#2, #0)",
           "text:11:5: add (%result): operand 1 (%operand_1) must be f32 like operand 0 "
           "(%operand), "
           "got "
           "i64."},
          {"#3: f32 = 0", "#3: f32 = neg(#2, #2)", "text:11:5: neg takes 1 operands, got 2"},
          {"#3: f32 = 0", "#3: i64 = div(#0, #0)",
           "text:11:5: i64 = div(#0, #0): expected a check, for the divisor may be 0"},
          {"#3: f32 = 0", "#3: f64 = 0",
           "text:12:5: f32 = guarded(#2, #3) where $p1 < 300: expected f64, got f32"},
          {"= #4", "= #0", "text:13:5: expected an element of result 0, f32, got i64"},
          {"store 0[$p0", "store 1[$p0", "text:13:5: expected one of 1 results, got 1"},
          {"$p1 < 384", "$p0 < n", "text:7:3: the loop $p0 is there twice"},
      },
      reread);
}

TEST(LoopFormErrors, NameWhatIsReadOrWrittenOutsideOfABuffer) {
  tests::expect_refused(gather,
                        {
                            {"load 1[$p0]", "load 1[$p0 + 1]",
                             "text:8:5: load 1 of Tensor[(n), i64]: dim 0 is accessed at $p0 + 1, "
                             "in [1, 2147483647], "
                             "which is not proven to be inside [0, n)"},
                            {"load 1[$p0]", "load 1[$p0 - 1]",
                             "text:8:5: load 1 of Tensor[(n), i64]: dim 0 is accessed at $p0 - 1, "
                             "in [-1, 2147483645], "
                             "which is not proven to be inside [0, n)"},
                            // The condition around it keeps it inside, but not by so much.
                            {"$p1 < 384", "$p1 < 300 + n",
                             "text:13:5: store 0 of Tensor[(n, 384), f32]: dim 1 is accessed at "
                             "$p1, in [0, 2147483946], "
                             "which is not proven to be inside [0, 384)"},
                            {"load 0[#1, $p1]", "load 0[#1, $p1 + 85]",
                             "text:10:5: load 0 of Tensor[(100, 384), f32]: dim 1 is accessed at "
                             "$p1 + 85, in [85, 468], "
                             "which is not proven to be inside [0, 384)"},
                            {"Tensor[(100, 384), f32]", "Tensor[(99, 384), f32]",
                             "text:10:5: load 0 of Tensor[(99, 384), f32]: dim 0 is accessed at "
                             "#1, in [0, 99], which is "
                             "not proven to be inside [0, 99)"},
                            {"$p0 < n", "$p0 < n + 1",
                             "text:8:5: load 1 of Tensor[(n), i64]: dim 0 is accessed at $p0, in "
                             "[0, 2147483647], which "
                             "is not proven to be inside [0, n)"},
                        },
                        reread);
}

TEST(LoopFormErrors, AProductHasAFewGatesAndNoStagesBehindThem) {
  const std::string text = R"(matmul
  parameter 0: Tensor[(n, 8), f32]
  parameter 1: Tensor[(8, 12), f32]
  result 0: Tensor[(n, 4), f32]
  where n in [0, 2147483647]
  for $m0 < n, $n0 < 4 over $k0 < 8 in f32 gates $g0 < 3
  left
    #0: f32 = load 0[$m0, $k0]
  right
    #0: f32 = load 1[$k0, 4*$g0 + $n0]
  epilogue
    #0: f32 = accumulated 0
    #1: f32 = accumulated 2
    #2: f32 = mul(#0, #1)
    value #2
    store 0[$m0, $n0] = #2
)";
  EXPECT_EQ(reread(text), text);
  tests::expect_refused(
      text,
      {
          {"gates $g0 < 3", "gates $g0 < 1", "text:6:3: expected 2 to 8 gates, got 1"},
          {"gates $g0 < 3", "gates $g0 < 9", "text:6:3: expected 2 to 8 gates, got 9"},
          {"gates $g0 < 3", "gates $g0 < n", "text:6:3: expected 2 to 8 gates, got n"},
          {"gates $g0 < 3", "gates 3", "text:6:50: expected a loop variable, as $m0, found '3'"},
          {"gates $g0 < 3", "gates $g0 < 4",
           "text:10:5: load 1 of Tensor[(8, 12), f32]: dim 1 is accessed at 4*$g0 + $n0, in "
           "[0, 15], which is not proven to be inside [0, 12)"},
          {"accumulated 2", "accumulated 3",
           "text:13:5: f32 = accumulated 3: nothing has been written there"},
          {"load 0[$m0, $k0]", "load 0[$m0, $g0]",
           "text:8:5: the dim $g0 mentions $g0: expected a symbol of the kernel, a loop around it "
           "or the number of an earlier checked index"},
      },
      reread);
}

TEST(LoopFormErrors, AConditionAroundALoadCounts) {
  EXPECT_EQ(tests::refusal(gather, "load 0[#1, $p1]", "load 0[#1, $p1 + 84]", reread).substr(0, 4),
            "map\n");
}

// A slice that may be empty is one element long where its loop runs.
TEST(LoopFormErrors, NoFactorOfARunningLoopsExtentIsZero) {
  const std::string text = R"(map
  parameter 0: Tensor[(s0, 4), f32]
  result 0: Tensor[(max(0, ceil_div(min(s0, s1) - max(0, s0 - 1), 2)), 4), f32]
  where s0 in [0, 2147483647], s1 in [0, 2147483647]
  for $p2 < 4*max(0, ceil_div(min(s0, s1) - max(0, s0 - 1), 2))
    #0: f32 = load 0[max(0, s0 - 1), $p2]
    store 0[0, $p2] = #0
)";
  EXPECT_EQ(reread(text), text);
}

// A text with one accident: something cut off, taken out, doubled or changed.
std::string mutated(std::string text, std::mt19937& random) {
  static const std::vector<std::string> tokens{"#0",  "$p0", "load", "[",     "]",   "99999999999",
                                               "-1",  "f32", "i64",  "where", "for", "over",
                                               "\"x", "nan", "{",    "=",     "",    "stage"};
  const auto below = [&](std::size_t end) {
    return std::uniform_int_distribution<std::size_t>(0, end - 1)(random);
  };
  const std::size_t at = below(text.size());
  const std::size_t length = std::min(text.size() - at, 1 + below(12));
  switch (below(6)) {
    case 0: text.resize(at); break;
    case 1: text.erase(at, length); break;
    case 2: text.insert(at, text.substr(at, length)); break;
    case 3: text[at] = static_cast<char>(below(256)); break;
    case 4: std::swap(text[at], text[below(text.size())]); break;
    default: text.replace(at, length, tokens[below(tokens.size())]); break;
  }
  return text;
}

// `text_of`: of a case's form; `reread`: the text parsed and printed.
void expect_parse_or_place(const std::function<std::string(const LoopForm&)>& text_of,
                           const tests::Reread& reread) {
  std::mt19937 random(17);
  tests::DamagedTexts texts(reread);
  for (const std::string& name : tests::loop_form_case_names()) {
    const std::string text = text_of(tests::make_region(tests::loop_form_case(name)).form);
    for (int i = 0; i < 60; ++i) texts.expect_read_or_place(mutated(text, random));
  }
  texts.expect_many();
}

TEST(LoopFormMutations, ParseOrSayWhere) {
  expect_parse_or_place([](const LoopForm& form) { return to_string(form); }, reread);
}

TEST(KernelMutations, ParseOrSayWhere) {
  expect_parse_or_place([](const LoopForm& form) { return to_string(place_kernel(form)); },
                        [](const std::string& text) { return to_string(parse_kernel(text)); });
}

}  // namespace
}  // namespace anydim::ir
