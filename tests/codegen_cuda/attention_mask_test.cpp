// Masks of attention: right results for every kind, tiles that no row of a block can see are
// neither read nor computed, and what lies in them leaves results as they are.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "codegen_cuda/attention/attention_score.h"
#include "tests/codegen_cuda/attention_cases.h"

namespace anydim::codegen_cuda::testing {
namespace {

using Region = std::shared_ptr<const TestRegion>;

constexpr double narrow_tolerance = 1.2e-2;

struct Way {
  const char* part;
  const char* schedule;
};
constexpr Way mma{"a100", "attention_mma warps=1 points=1 tiles=1 keys=32 stages=2"};
constexpr Way wgmma{"h200", "attention_wgmma groups=1 keys=32 stages=2"};
constexpr Way plain{"a100", "attention_simt columns=1"};

CaseOptions machine_of(const Way& way) {
  CaseOptions options;
  options.machine.architecture = small_target(way.part).architecture;
  return options;
}

CaseRun run(const Region& region, const Way& way, const Symbols& symbols,
            const std::vector<ir::Tensor>& inputs) {
  const KernelCase kernel = attention_kernel(region, way.part, way.schedule);
  return run_case(kernel, ptx::parse_ptx(kernel.ptx), symbols, inputs, machine_of(way));
}

TEST(CudaAttentionMasks, OfWgmmaInEveryHeadDim) {
  for (const int depth : {32, 64, 128}) {
    for (const AttentionMask mask : {AttentionMask::Padding, AttentionMask::CausalLowest,
                                     AttentionMask::Window, AttentionMask::Bias}) {
      if (depth == 128 && mask != AttentionMask::Window) continue;
      SCOPED_TRACE(fmt::format("depth {} mask {}", depth, static_cast<int>(mask)));
      const Region region =
          make_region(merged_attention({.heads = 1, .depth = depth, .mask = mask}));
      const Symbols symbols{{"b", 1}, {"s", 75}};
      const auto inputs = real_inputs(*region, symbols);
      const CaseRun got = run(region, wgmma, symbols, inputs);
      EXPECT_EQ(got.findings, "");
      EXPECT_EQ(compare(got.outputs, reference(*region, inputs), narrow_tolerance), "");
    }
  }
}

// Head dims that wgmma leaves to mma.sync, with a mask.
TEST(CudaAttentionMasks, OfHeadDims80And96) {
  for (const int depth : {80, 96}) {
    const Region region = make_region(
        merged_attention({.heads = 1, .depth = depth, .mask = AttentionMask::CausalLowest}));
    const CudaTarget hopper = small_target("h200");
    const PlanInputs asked{hopper, region->region, region->form};
    for (const auto& kind : all_kernel_kinds())
      if (kind->name() == "attention_wgmma") EXPECT_FALSE(kind->accepts(asked)) << depth;
    const Symbols symbols{{"b", 1}, {"s", 45}};
    const auto inputs = real_inputs(*region, symbols);
    const CaseRun got = run(region, {"h200", mma.schedule}, symbols, inputs);
    EXPECT_EQ(got.findings, "");
    EXPECT_EQ(compare(got.outputs, reference(*region, inputs), narrow_tolerance), "");
  }
}

// Tiles that the keys do not fill, tiles with a diagonal at either end, and whole ones between, of
// several warpgroups or warps that share a block.
TEST(CudaAttentionMasks, EdgesAndWholeTiles) {
  const Way two_groups{"h200", "attention_wgmma groups=2 keys=32 stages=3"},
      narrow{"h200", "attention_wgmma groups=1 keys=16 stages=2"},
      warps{"a100", "attention_mma warps=2 points=1 tiles=2 keys=16 stages=3"},
      points{"a100", "attention_mma warps=1 points=2 tiles=1 keys=16 stages=1"};
  for (const AttentionMask mask :
       {AttentionMask::None, AttentionMask::Causal, AttentionMask::CausalLowest,
        AttentionMask::Before, AttentionMask::Window}) {
    const Region region =
        make_region(merged_attention({.heads = 2, .depth = 32, .mask = mask, .window = 100}));
    for (const Way& way : {two_groups, narrow, warps, points}) {
      for (const std::int64_t length : {64, 171, 192}) {
        if (length == 192 && mask != AttentionMask::Window) continue;
        SCOPED_TRACE(
            fmt::format("{} mask {} length {}", way.schedule, static_cast<int>(mask), length));
        const Symbols symbols{{"b", 1}, {"s", length}};
        const auto inputs = real_inputs(*region, symbols);
        const CaseRun got = run(region, way, symbols, inputs);
        EXPECT_EQ(got.findings, "");
        EXPECT_EQ(compare(got.outputs, reference(*region, inputs), narrow_tolerance), "");
      }
    }
  }
}

// Which masks are conditions on row and key alone, so that tiles within them have none.
TEST(CudaAttentionMasks, OnlyConditionsLeaveWholeTilesBare) {
  for (const auto& [mask, form] : std::vector<std::pair<AttentionMask, ScoreForm>>{
           {AttentionMask::None, ScoreForm::Scaled},
           {AttentionMask::Padding, ScoreForm::Column},
           {AttentionMask::Causal, ScoreForm::Masked},
           {AttentionMask::CausalLowest, ScoreForm::Masked},
           {AttentionMask::Before, ScoreForm::Masked},
           {AttentionMask::Window, ScoreForm::Masked},
           {AttentionMask::Bias, ScoreForm::Element}}) {
    const Region region = make_region(merged_attention({.mask = mask}));
    const auto& attention = std::get<ir::AttentionForm>(region->form.kind);
    EXPECT_EQ(attention_score(attention, region->form.symbols).form, form)
        << static_cast<int>(mask);
  }
  // What is added to keys that are seen must be 0, and a finite fill needs a key that surely is.
  const auto form_of = [](std::string text, const char* from, const char* to) {
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos);
    const Region region = make_region(text.replace(at, std::string(from).size(), to));
    return attention_score(std::get<ir::AttentionForm>(region->form.kind), region->form.symbols)
        .form;
  };
  EXPECT_EQ(form_of(merged_attention({.mask = AttentionMask::Causal}), "f32 () [0]", "f32 () [1]"),
            ScoreForm::Element);
  EXPECT_EQ(form_of(merged_attention({.mask = AttentionMask::Before}), "f32 () [-inf]",
                    "f32 () [-3.4e38]"),
            ScoreForm::Element);
}

// Work follows what can be seen: half of the square under a causal mask, a band under a window.
TEST(CudaAttentionMasks, TilesThatNobodySeesAreSkipped) {
  const Symbols symbols{{"b", 1}, {"s", 512}};
  for (const Way& way : {mma, wgmma}) {
    SCOPED_TRACE(way.schedule);
    const auto instructions = [&](AttentionMask mask) {
      const Region region = make_region(merged_attention({.heads = 1, .depth = 32, .mask = mask}));
      return static_cast<double>(
          run(region, way, symbols, real_inputs(*region, symbols)).instructions);
    };
    const double whole = instructions(AttentionMask::Bias),
                 causal = instructions(AttentionMask::Causal),
                 window = instructions(AttentionMask::Window);
    EXPECT_LT(causal, 0.8 * whole);
    EXPECT_LT(window, 0.85 * causal);
  }
}

// NaN in keys and values beyond the diagonal's tile does not reach the rows before it: the tiles
// are not read, and within the diagonal's tile the scores are replaced and the weights of hidden
// keys are 0.
TEST(CudaAttentionMasks, HiddenTilesAreNotRead) {
  constexpr std::int64_t length = 200, depth = 32, first_hidden = 128;
  const Symbols symbols{{"b", 1}, {"s", length}};
  const Region region =
      make_region(merged_attention({.heads = 1, .depth = depth, .mask = AttentionMask::Causal}));
  for (const Way& way : {mma, wgmma}) {
    SCOPED_TRACE(way.schedule);
    auto inputs = real_inputs(*region, symbols);
    const CaseRun clean = run(region, way, symbols, inputs);
    for (std::int64_t row = first_hidden; row < length; ++row)
      for (std::int64_t column = 0; column < 3 * depth; ++column)
        inputs[0].set_real(row * 3 * depth + column, std::numeric_limits<double>::quiet_NaN());
    const CaseRun spoilt = run(region, way, symbols, inputs);
    EXPECT_EQ(spoilt.findings, "");
    for (std::int64_t i = 0; i < first_hidden * depth; ++i)
      ASSERT_EQ(spoilt.outputs[0].real_at(i), clean.outputs[0].real_at(i)) << "element " << i;
    EXPECT_TRUE(std::isnan(spoilt.outputs[0].real_at(length * depth - 1)));
  }
}

// Sequences laid end to end, each causal: a NaN sequence leaves the others as they are to the last
// bit, masks and all.
TEST(CudaAttentionMasks, CausalSegmentsKeepToThemselves) {
  const Region region = make_region(R"(
fn @main(%x: Tensor[(t, 96), bf16], %offsets: Tensor[(n), i64]) -> Tensor[(t, 32), f32]
  where t in [0, 4096], n in [1, 64] {
  %w = cast(%x) {to = f32}
  %xq, %xk, %xv = split(%w) {axis = 1}
  %heads = shape(t, 1, 32)
  %q3 = dyn.reshape(%xq, %heads)
  %k3 = dyn.reshape(%xk, %heads)
  %v3 = dyn.reshape(%xv, %heads)
  %q = transpose(%q3) {perm = (1, 0, 2)}
  %k = transpose(%k3) {perm = (1, 0, 2)}
  %v = transpose(%v3) {perm = (1, 0, 2)}
  %zero = constant(f32 () [0])
  %low = constant(f32 () [-inf])
  %start = dim(0)
  %end = dim(t)
  %step = dim(1)
  %at = dyn.arange(%start, %end, %step)
  %key_at = expand_dims(%at) {axes = (0)}
  %row_at = expand_dims(%at) {axes = (1)}
  %before = less_equal(%key_at, %row_at)
  %bias = where(%before, %zero, %low)
  %a = attention(%q, %k, %v, %bias, %offsets) {scale = 0.2}
  %m = transpose(%a) {perm = (1, 0, 2)}
  %flat = shape(t, 32)
  %r = dyn.reshape(%m, %flat)
  return %r
})");
  const Symbols symbols{{"t", 120}, {"n", 5}};
  const std::vector<std::int64_t> offsets{0, 40, 41, 90, 120};
  for (const Way& way : {mma, wgmma, plain}) {
    SCOPED_TRACE(way.schedule);
    auto inputs = real_inputs(*region, symbols);
    for (std::size_t i = 0; i < offsets.size(); ++i)
      inputs[1].set_integer(static_cast<std::int64_t>(i), offsets[i]);
    const CaseRun clean = run(region, way, symbols, inputs);
    EXPECT_EQ(clean.findings, "");
    EXPECT_EQ(clean.error.check, -1);
    EXPECT_EQ(compare(clean.outputs, reference(*region, inputs), narrow_tolerance), "");
    for (std::int64_t i = offsets[2] * 96; i < offsets[3] * 96; ++i)
      inputs[0].set_real(i, std::numeric_limits<double>::quiet_NaN());
    const CaseRun spoilt = run(region, way, symbols, inputs);
    EXPECT_EQ(spoilt.findings, "");
    for (std::int64_t i = 0; i < clean.outputs[0].elements(); ++i) {
      if (i >= offsets[2] * 32 && i < offsets[3] * 32) continue;
      ASSERT_EQ(spoilt.outputs[0].real_at(i), clean.outputs[0].real_at(i)) << "element " << i;
    }
    EXPECT_TRUE(std::isnan(spoilt.outputs[0].real_at(offsets[3] * 32 - 1)));
  }
}

}  // namespace
}  // namespace anydim::codegen_cuda::testing
