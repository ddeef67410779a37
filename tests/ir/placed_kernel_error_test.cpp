// What texts of placed kernels are refused for, and where.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ir/loops/placed_kernel_parse.h"
#include "tests/support/changed_text.h"

namespace anydim::ir {
namespace {

const std::string softmax_of_rows = R"(rows
  parameter 0: Tensor[(t, n), f32]
  parameter 1: Tensor[(s), i64]
  result 0: Tensor[(s, n), f32]
  where t in [0, 512], n in [0, 512], s in [0, 512]
  check 0: index of t, "gather index"
  for $r0 < s {
    stage {
      #0: i64 = load 1[$r0]
      #1: i64 = index(#0) below t, check 0
      for $c0 < n {
        #2: f32 = load 0[#1, $c0] if 0 < t
        accumulated 0: f32 = max of #2
      }
    }
    stage {
      #1.0: i64 = load 1[$r0]
      #1.1: i64 = index(#1.0) below t, check 0
      for $c0 < n {
        #1.2: f32 = load 0[#1.1, $c0] if 0 < t and $c0 < 1000 or 0 < t
        #1.3: f32 = sub(#1.2, accumulated 0)
        #1.4: f32 = exp(#1.3)
        scratch 0 = #1.4
        accumulated 1: f32 = sum of #1.4
      }
    }
    #2.1.inverse: f32 = reciprocal(accumulated 1)
    stage {
      for $c0 < n {
        #2.0: f32 = scratch 0
        #2.2: f32 = mul(#2.0, #2.1.inverse)
        store 0[$r0, $c0] = #2.2
      }
    }
  }
)";

std::string reread(const std::string& text) { return to_string(parse_kernel(text)); }

void expect_refused(const std::vector<tests::Refused>& cases) {
  tests::expect_refused(softmax_of_rows, cases, reread);
}

TEST(PlacedKernelErrors, TheTextItselfIsRight) {
  EXPECT_EQ(reread(softmax_of_rows), softmax_of_rows);
}

TEST(PlacedKernelErrors, SayWhereAndWhatWasExpected) {
  expect_refused({
      {"$r0 < s {", "$r0 < s", "text:8:5: expected '{', found 'stage'"},
      {"stage {", "stages {",
       "text:8:5: expected a statement of the kernel or '}', found 'stages'"},
      {"max of", "most of", "text:13:30: expected sum, product, max or min, found 'most'"},
      {"(#1.2, acc", "(#1.2, scr",
       "text:21:31: expected a step, # and its number, or 'accumulated', found 'scrumulated'"},
      {"0 < t and", "0 < t if",
       "text:20:48: expected a statement of the kernel or '}', found 'if'"},
      {"where t", "wher t",
       "text:5:3: expected another line of the kernel or the end of the text, found 'wher'"},
      {"check 0: index", "chek 0: index",
       "text:6:3: expected another line of the kernel or the end of the text, found 'chek'"},
      {"  for $r0 < s {", "  fro $r0 < s {",
       "text:7:3: expected another line of the kernel or the end of the text, found 'fro'"},
      {"f32 = reciprocal", "f64 = reciprocal", "text:27:5: expected a reciprocal of f32"},
      {"#2.1.inverse", "#2.1.reverse",
       "text:27:5: expected a step, # and its number, found '#2.1.reverse'"},
  });
}

TEST(PlacedKernelErrors, EachValueIsUsedBelowWhereItStands) {
  expect_refused({
      {"sub(#1.2,", "sub(#2,", "text:21:9: #2 does not stand above"},
      {"sub(#1.2,", "sub(#1.4,", "text:21:9: #1.4 does not stand above"},
      {"accumulated 0)", "accumulated 1)",
       "text:21:9: accumulated 1: nothing has been written there"},
      {"#2.1.inverse)", "#2.0.inverse)", "text:31:9: #2.0.inverse does not stand above"},
      {"scratch 0 = ", "scratch 1 = ",
       "text:30:9: expected a slot of scratch of f32 that is whole, got 0"},
      {"#1.4: f32", "#1.3: f32", "text:22:9: #1.3 is there twice"},
      {"load 0[#1.1", "load 0[#1",
       "text:20:9: the dim #1 mentions #1: expected a checked index that stands above"},
      {"for $c0 < n", "for $r0 < s", "text:11:7: expected another loop than $r0 around it"},
      {"exp(#1.3)", "not(#1.3)",
       "text:22:9: not (%result): operand 0 (%operand) must be a bool tensor, got "
       "Tensor[(), f32]."},
  });
}

TEST(PlacedKernelErrors, WhatMayReachOutsideOfABufferIsRefused) {
  expect_refused({
      {"[#1, $c0] if 0 < t", "[#1, $c0]",
       "text:12:9: load 0 of Tensor[(t, n), f32]: #1 is below t, which is not proven to be more "
       "than 0"},
      {"or 0 < t", "or $c0 < 5",
       "text:20:9: load 0 of Tensor[(t, n), f32]: #1.1 is below t, which is not proven to be more "
       "than 0"},
      {"[#1, $c0]", "[#1, $c0 + 1]",
       "text:12:9: load 0 of Tensor[(t, n), f32]: dim 1 is accessed at $c0 + 1, in [1, 512], which "
       "is not proven to be inside [0, n)"},
      {"load 1[$r0]", "load 1[s - $r0]",
       "text:9:7: load 1 of Tensor[(s), i64]: dim 0 is accessed at -$r0 + s, in [-510, 512], which "
       "is not proven to be inside [0, s)"},
      {"store 0[$r0, $c0]", "store 0[$r0, $c0 - 1]",
       "text:32:9: store 0 of Tensor[(s, n), f32]: dim 1 is accessed at $c0 - 1, in [-1, 510], "
       "which is not proven to be inside [0, n)"},
      // In an empty dim the index is 0, which is not below its extent.
      {"load 0[#1, $c0] if 0 < t", "load 0[t - 1, $c0] if #1 <= 5",
       "text:12:9: load 0 of Tensor[(t, n), f32]: dim 0 is accessed at t - 1, in [-1, 511], which "
       "is not proven to be inside [0, t)"},
      {"store 0[$r0, $c0]", "store 0[$r0]",
       "text:32:9: store 0 of Tensor[(s, n), f32]: expected 2 indices, got 1"},
  });
}

// What outlives its point does not outlive its row, and scratch has a place for each of its points.
TEST(PlacedKernelErrors, RowsKeepTheirStagesResults) {
  expect_refused({
      {"    stage {\n      for $c0 < n {\n        #2.0: f32",
       "  }\n  for $r0 < s {\n    stage {\n      for $c0 < n {\n        #2.0: f32",
       "text:32:9: expected a slot of scratch of f32 that is whole, got 0"},
      {"#2.0: f32 = scratch 0", "for $c1 < n {\n #2.0: f32 = scratch 0 }",
       "text:31:2: expected scratch 0 to be read in the loops that it is kept in"},
      {"accumulated 1: f32", "accumulated 0: f32", "text:24:9: slot 0 is written twice"},
  });
  tests::expect_refused(R"(rows
  parameter 0: Tensor[(n), f32]
  where n in [0, 512]
  for $c0 < n {
    #0: f32 = load 0[$c0]
    scratch 0 = #0
  }
)",
                        {{"where n", "where n",
                          "text:6:5: scratch 0 outlives its point: expected it in a row, a block "
                          "of stages"}},
                        reread);
}

}  // namespace
}  // namespace anydim::ir
