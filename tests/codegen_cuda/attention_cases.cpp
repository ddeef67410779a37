#include "tests/codegen_cuda/attention_cases.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <stdexcept>

namespace anydim::codegen_cuda::testing {

namespace {

std::string mask_parameter(AttentionMask mask, int heads) {
  switch (mask) {
    case AttentionMask::Padding: return ", %mask: Tensor[(b, s), i64]";
    case AttentionMask::Bias: return fmt::format(", %bias: Tensor[(b, {}, s, s), f32]", heads);
    case AttentionMask::None:
    case AttentionMask::Causal:
    case AttentionMask::CausalLowest:
    case AttentionMask::Before:
    case AttentionMask::Window: return "";
  }
  return "";
}

constexpr const char* positions = R"(
  %start = dim(0)
  %end = dim(s)
  %step = dim(1)
  %at = dyn.arange(%start, %end, %step)
  %key_at = expand_dims(%at) {axes = (0)}
  %row_at = expand_dims(%at) {axes = (1)}
  %before = less_equal(%key_at, %row_at)
)";

// Defines %bias, but for AttentionMask::None and Bias.
std::string mask_text(AttentionMask mask, int window) {
  const std::string zero = "  %zero = constant(f32 () [0])\n";
  const std::string lowest = "  %low = constant(f32 () [-3.4028234663852886e38])\n",
                    infinite = "  %low = constant(f32 () [-inf])\n";
  switch (mask) {
    case AttentionMask::Padding:
      return zero + lowest + R"(
  %m = expand_dims(%mask) {axes = (1, 2)}
  %keep = cast(%m) {to = bool}
  %bias = where(%keep, %zero, %low)
)";
    case AttentionMask::Causal:
      return zero + infinite + positions + "  %bias = where(%before, %zero, %low)\n";
    case AttentionMask::CausalLowest:
      return zero + lowest + positions + "  %bias = where(%before, %zero, %low)\n";
    case AttentionMask::Before:
      return zero + infinite + positions +
             "  %earlier = less(%key_at, %row_at)\n  %bias = where(%earlier, %zero, %low)\n";
    case AttentionMask::Window:
      return zero + infinite + positions + fmt::format("  %far = constant(i64 () [{}])\n", window) +
             R"(
  %reach = add(%key_at, %far)
  %near = greater_equal(%reach, %row_at)
  %keep = and(%before, %near)
  %bias = where(%keep, %zero, %low)
)";
    case AttentionMask::None:
    case AttentionMask::Bias: return "";
  }
  return "";
}

}  // namespace

std::string merged_attention(const AttentionCase& attention) {
  const int columns = attention.heads * attention.depth;
  const bool wide = attention.dtype == "f32";
  std::string text = fmt::format(
      "fn @main(%qkv: Tensor[(b, s, {}), {}]{}) -> Tensor[(b, s, {}), {}]\n  where b in [0, 64], s "
      "in [0, 1024] {{\n",
      3 * columns, attention.dtype, mask_parameter(attention.mask, attention.heads), columns,
      attention.result);
  if (!wide) text += "  %wide = cast(%qkv) {to = f32}\n";
  text += fmt::format("  %split = shape(b, s, {}, {})\n", attention.heads, attention.depth);
  const char* names[] = {"q", "k", "v"};
  for (int i = 0; i < 3; ++i) {
    text += fmt::format(
        "  %{0}_columns = strided_slice(%{1}) {{axes = (-1), starts = ({2}), ends = ({3})}}\n",
        names[i], wide ? "qkv" : "wide", i * columns, (i + 1) * columns);
    text += fmt::format(
        "  %{0}_heads = dyn.reshape(%{0}_columns, %split)\n  %{0} = transpose(%{0}_heads) {{perm = "
        "(0, 2, 1, 3)}}\n",
        names[i]);
  }
  text += mask_text(attention.mask, attention.window);
  text += fmt::format("  %a = attention(%q, %k, %v{}) {{scale = 0.2}}\n",
                      attention.mask == AttentionMask::None ? "" : ", %bias");
  text += fmt::format(
      "  %beside = transpose(%a) {{perm = (0, 2, 1, 3)}}\n  %joined = shape(b, s, {})\n  %r = "
      "dyn.reshape(%beside, %joined)\n",
      columns);
  if (attention.result == "f32") return text + "  return %r\n}";
  return text +
         fmt::format("  %narrow = cast(%r) {{to = {}}}\n  return %narrow\n}}", attention.result);
}

KernelCase attention_kernel(const std::shared_ptr<const TestRegion>& region,
                            const std::string& part, const std::string& schedule, bool checked) {
  const ir::Schedule parsed = ir::parse_schedule(schedule);
  const CudaTarget target = small_target(part);
  const PlanInputs inputs{target, region->region, region->form};
  for (const auto& kind : all_kernel_kinds()) {
    if (kind->name() != parsed.name) continue;
    if (!kind->accepts(inputs))
      throw std::runtime_error(parsed.name + " does not accept the region");
    if (const auto why = kind->misfit(inputs, parsed)) throw std::runtime_error(*why);
    return build_case(region, target, *kind, bucket_of({}), parsed, checked);
  }
  throw std::runtime_error("no kind is named " + parsed.name);
}

void expect_right(const std::shared_ptr<const TestRegion>& region, const std::string& schedule,
                  const std::vector<Symbols>& shapes, bool checked) {
  constexpr double tolerance = 1.2e-2;
  const KernelCase kernel = attention_kernel(region, "h200", schedule, checked);
  const ptx::Module module = ptx::parse_ptx(kernel.ptx);
  for (const ptx::Timing timing :
       {ptx::Timing::ResultsLate, ptx::Timing::OperandsLate, ptx::Timing::Random}) {
    for (const Symbols& symbols : shapes) {
      CaseOptions options;
      options.machine.architecture = small_target("h200").architecture;
      options.machine.timing = timing;
      EXPECT_EQ(check_case(kernel, module, symbols, options, tolerance), "")
          << schedule << ", b=" << symbols.at("b") << ", s=" << symbols.at("s") << ", timing "
          << static_cast<int>(timing);
    }
  }
}

}  // namespace anydim::codegen_cuda::testing
