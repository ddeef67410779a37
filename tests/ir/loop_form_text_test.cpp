// Loop forms as text: what prints parses to the same form, and what does not parse says where.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "ir/loops/loop_form_parse.h"
#include "ir/loops/placed_kernel_parse.h"
#include "ir/loops/verify_loop_form.h"
#include "ir/loops/verify_placed_kernel.h"
#include "tests/ir/loop_form_cases.h"
#include "tests/support/region_cases.h"

namespace anydim::ir {
namespace {

class LoopFormText : public ::testing::TestWithParam<std::string> {};

void expect_same(const SymbolInfo* a, const SymbolInfo* b, const std::string& name) {
  ASSERT_TRUE(a != nullptr && b != nullptr) << name;
  EXPECT_EQ(a->low, b->low) << name;
  EXPECT_EQ(a->high, b->high) << name;
  EXPECT_EQ(a->multiple, b->multiple) << name;
  EXPECT_EQ(a->below, b->below) << name;
  EXPECT_EQ(a->reason, b->reason) << name;
  EXPECT_EQ(a->unbacked, b->unbacked) << name;
}

TEST_P(LoopFormText, ParsesToTheFormThatItWasMadeOf) {
  const LoopForm form = tests::make_region(tests::loop_form_case(GetParam())).form;
  const std::string text = to_string(form);
  const LoopForm parsed = parse_loop_form(text);
  EXPECT_EQ(to_string(parsed), text);
  EXPECT_EQ(parsed.kind, form.kind) << text;
  EXPECT_EQ(parsed.parameters, form.parameters);
  EXPECT_EQ(parsed.results, form.results);
  EXPECT_EQ(parsed.checks, form.checks);
  EXPECT_EQ(parsed.symbols.names(), form.symbols.names());
  for (const std::string& name : form.symbols.names())
    expect_same(parsed.symbols.find(name), form.symbols.find(name), name);
}

TEST_P(LoopFormText, IsVerified) {
  const LoopForm form = tests::make_region(tests::loop_form_case(GetParam())).form;
  const auto flaw = verify_loop_form(form);
  EXPECT_EQ(flaw ? flaw->message + "\n" + to_string(form) : "", "");
}

TEST_P(LoopFormText, GivesAKernelThatParsesToItself) {
  const LoopForm form = tests::make_region(tests::loop_form_case(GetParam())).form;
  const PlacedKernel kernel = place_kernel(form);
  const std::string text = to_string(kernel);
  const auto flaw = verify_placed_kernel(kernel);
  ASSERT_EQ(flaw ? flaw->message : "", "") << text;
  const PlacedKernel parsed = parse_kernel(text);
  EXPECT_EQ(to_string(parsed), text);
  EXPECT_TRUE(parsed.body == kernel.body) << text;
  EXPECT_EQ(parsed.kind, kernel.kind);
  EXPECT_EQ(parsed.product, kernel.product);
  EXPECT_EQ(parsed.segments, kernel.segments);
  EXPECT_EQ(parsed.parameters, form.parameters);
  EXPECT_EQ(parsed.results, form.results);
  EXPECT_EQ(parsed.checks, form.checks);
}

INSTANTIATE_TEST_SUITE_P(Corpus, LoopFormText, ::testing::ValuesIn(tests::loop_form_case_names()),
                         [](const auto& tested) { return tested.param; });

}  // namespace
}  // namespace anydim::ir
