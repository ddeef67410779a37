// Hidden rows of results are zero whichever way a call takes, reach nothing else, and where that
// cannot be had the model and a warning say so.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <vector>

#include "api/model.h"
#include "ir/text/parse.h"

namespace anydim {
namespace {

constexpr std::int64_t batch = 3, length = 5, width = 8;

struct Encoder {
  std::string bias;
  std::string mask = ", %m: Tensor[(b, s), i64]";
  std::string keys = "%n";
  std::string tail{};
  std::string results = "%h";
  bool rows = false;  // real numbers are added to the embeddings
};

const std::string additive = R"(
  %m3 = expand_dims(%m) {axes = (1)}
  %real = cast(%m3) {to = f32}
  %one = constant(f32 () [1])
  %off = sub(%one, %real)
  %low = constant(f32 () [FILL])
  %bias = mul(%off, %low)
)";
const std::string first_rows =
    "  %cls3 = strided_slice(%h) {starts = (0), ends = (1), axes = (1)}\n  %cls = squeeze(%cls3) "
    "{axes = (1)}\n";

std::string filled(const char* fill) {
  return std::string(additive).replace(additive.find("FILL"), 4, fill);
}

std::string text_of(const Encoder& encoder) {
  return fmt::format(R"(
fn @main(%ids: Tensor[(b, s), i64]{}{}) where b in [0, 8], s in [0, 8] {{
  %table = constant(f32 (50, 8) @random(1))
  %e = gather(%table, %ids) {{axis = 0}}
  %x = {}
  %gain = constant(f32 (8) @random(2))
  %n = layer_norm(%x, %gain) {{axis = -1}}
  %wq = constant(f32 (8, 8) @random(3))
  %wk = constant(f32 (8, 8) @random(4))
  %wv = constant(f32 (8, 8) @random(5))
  %q = matmul(%n, %wq)
  %k = matmul({}, %wk)
  %v = matmul(%x, %wv)
{}
  %a = attention(%q, %k, %v, %bias) {{scale = 0.5}} from "Attention"
  %h = add(%a, %x)
{}
  return {}
}}
)",
                     encoder.mask, encoder.rows ? ", %rows: Tensor[(b, s, 8), f32]" : "",
                     encoder.rows ? "add(%e, %rows)" : "add(%e, %e)", encoder.keys, encoder.bias,
                     encoder.tail, encoder.results);
}

struct Compiled {
  std::shared_ptr<const Model> model;
  std::vector<std::string> warnings;
};

Compiled compiled(const std::string& text, MaskedRows rows = MaskedRows::Zero) {
  Compiled result;
  CompileOptions options;
  options.keep_kernels = false;
  options.background = false;
  options.threads = 1;
  options.masked_rows = rows;
  options.warn = [&](const std::string& warning) { result.warnings.push_back(warning); };
  result.model = Model::compile(ir::parse(text), options);
  return result;
}

using Rows = std::vector<std::vector<std::int64_t>>;

std::vector<ir::Tensor> inputs_of(const Rows& mask) {
  ir::Tensor ids(ir::DType::I64, {batch, length}), entries(ir::DType::I64, {batch, length});
  for (std::int64_t at = 0; at < batch * length; ++at) {
    ids.set_integer(at, 1 + at * 7 % 49);
    entries.set_integer(
        at, mask[static_cast<std::size_t>(at / length)][static_cast<std::size_t>(at % length)]);
  }
  return {ids, entries};
}

// Hidden rows of `got` are 0, and the others those of `wanted`.
void expect_zero_rows(const ir::Tensor& got, const ir::Tensor& wanted, const Rows& mask,
                      std::int64_t hidden = 0) {
  ASSERT_EQ(got.dims(), wanted.dims());
  for (std::int64_t at = 0; at < got.elements(); ++at) {
    const std::int64_t row = at / width;
    if (mask[static_cast<std::size_t>(row / length)][static_cast<std::size_t>(row % length)] ==
        hidden)
      EXPECT_EQ(got.real_at(at), 0) << at;
    else EXPECT_NEAR(got.real_at(at), wanted.real_at(at), 1e-5) << at;
  }
}

void expect_near(const ir::Tensor& got, const ir::Tensor& wanted) {
  ASSERT_EQ(got.dims(), wanted.dims());
  for (std::int64_t at = 0; at < got.elements(); ++at)
    EXPECT_NEAR(got.real_at(at), wanted.real_at(at), 1e-5) << at;
}

const Rows some{{1, 1, 1, 0, 0}, {1, 0, 1, 1, 0}, {1, 1, 1, 1, 1}};
const Rows hidden_first{{0, 1, 1, 0, 0}, {1, 0, 1, 1, 0}, {0, 0, 1, 1, 1}};
const Rows none{{0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}};
const Rows with_two{{1, 1, 2, 0, 0}, {1, 0, 1, 1, 0}, {1, 1, 1, 1, 1}};

TEST(MaskedRows, AreZeroOnEveryWay) {
  const std::string text =
      text_of({.bias = filled("-10000"), .tail = first_rows, .results = "%h, %cls"});
  const auto zero = compiled(text).model, keep = compiled(text, MaskedRows::Keep).model;
  ASSERT_TRUE(zero->packing()) << zero->padded_because();
  EXPECT_EQ(zero->hidden_rows_kept_because(), "");
  ModelContext packed(zero), padded(keep);
  for (const Rows& mask : {some, hidden_first, none, with_two}) {
    const auto got = packed.run(inputs_of(mask)), wanted = padded.run(inputs_of(mask));
    EXPECT_EQ(packed.packed_rows().has_value(), mask == some);
    expect_zero_rows(got[0], wanted[0], mask);
    expect_near(got[1], wanted[1]);  // the first row is read as the model computes it
  }
}

// The row of the largest id, as CLIP and classifiers of a last token pick it.
TEST(MaskedRows, AreNotPickedByPackedCalls) {
  const std::string largest = "  %at = arg_max(%ids) {axis = 1, keepdims = 1}\n";
  const std::string pairs = R"(
  %first = constant(i64 () [0])
  %by = constant(i64 () [1])
  %batch = dim(b)
  %length = dim(s)
  %each = dyn.arange(%first, %batch, %by)
  %of = expand_dims(%each) {axes = (1)}
)";
  const std::vector<std::string> tails{
      largest + "  %cls = gather_nd(%h, %at) {batch_dims = 1}\n",
      largest + pairs + "  %both = concat(%of, %at) {axis = 1}\n  %cls = gather_nd(%h, %both)\n",
      largest + pairs + R"(
  %begin = mul(%of, %length)
  %row2 = add(%begin, %at)
  %row = squeeze(%row2) {axes = (1)}
  %dims = shape(b*s, 8)
  %flat = dyn.reshape(%h, %dims)
  %cls = gather(%flat, %row) {axis = 0}
)"};
  const Rows with_largest{{1, 0, 0, 0, 1}, {0, 1, 1, 1, 0}, {1, 1, 1, 1, 1}};
  for (const std::string& tail : tails) {
    const std::string text =
        text_of({.bias = filled("-10000"), .tail = tail, .results = "%h, %cls"});
    const auto zero = compiled(text).model;
    ASSERT_TRUE(zero->packing()) << zero->padded_because() << tail;
    EXPECT_TRUE(zero->packing()->counts_hidden_picks);
    EXPECT_EQ(zero->outputs().size(), 2u);
    ModelContext context(zero), keep(compiled(text, MaskedRows::Keep).model);
    for (const Rows& mask : {with_largest, some, hidden_first, none}) {
      const auto got = context.run(inputs_of(mask)), wanted = keep.run(inputs_of(mask));
      EXPECT_EQ(context.packed_rows().has_value(), mask == with_largest);
      ASSERT_EQ(got.size(), 2u);
      expect_zero_rows(got[0], wanted[0], mask);
      expect_near(got[1], wanted[1]);
    }
  }
}

TEST(MaskedRows, AreZeroWhereTheModelStaysPadded) {
  const std::string largest = "  %largest = reduce_max(%h) {axes = (1)}\n";
  const std::string text =
      text_of({.bias = filled("-10000"), .tail = largest, .results = "%h, %largest"});
  const Compiled zero = compiled(text);
  EXPECT_FALSE(zero.model->packing());
  EXPECT_EQ(zero.model->hidden_rows_kept_because(), "");
  EXPECT_TRUE(zero.warnings.empty());
  ModelContext context(zero.model), keep(compiled(text, MaskedRows::Keep).model);
  expect_zero_rows(context.run(inputs_of(some))[0], keep.run(inputs_of(some))[0], some);
}

// Keys are made of an input of real numbers, which has no bound: the proof takes one, and calls
// beyond it are as the model computes them.
TEST(MaskedRows, AreLeftOutWithinTheLimitOfInputs) {
  const std::string text = text_of({.bias = filled("-1e30"), .keys = "%x", .rows = true});
  const auto zero = compiled(text).model;
  ASSERT_TRUE(zero->packing()) << zero->padded_because();
  ASSERT_EQ(zero->packing()->limited_inputs, std::vector<std::size_t>{2});
  const double limit = zero->packing()->input_limit;
  ModelContext context(zero), keep(compiled(text, MaskedRows::Keep).model);
  auto inputs = inputs_of(some);
  inputs.emplace_back(ir::DType::F32, std::vector<std::int64_t>{batch, length, width});
  const auto with_hidden = [&](double number) {
    ir::Tensor rows(ir::DType::F32, {batch, length, width});
    for (std::int64_t at = 0; at < rows.elements(); ++at)
      if (inputs[1].integer_at(at / width) == 0) rows.set_real(at, number);
    inputs[2] = rows;
    const auto got = context.run(inputs), wanted = keep.run(inputs);
    for (std::int64_t at = 0; at < got[0].elements(); ++at) {
      const bool hidden = inputs[1].integer_at(at / width) == 0;
      if (hidden) EXPECT_EQ(got[0].real_at(at), 0) << at;
      else if (std::isnan(wanted[0].real_at(at))) EXPECT_TRUE(std::isnan(got[0].real_at(at))) << at;
      else EXPECT_NEAR(got[0].real_at(at), wanted[0].real_at(at), 1e-5) << at;
    }
    return context.packed_rows().has_value();
  };
  EXPECT_TRUE(with_hidden(0));
  EXPECT_TRUE(with_hidden(limit));
  EXPECT_TRUE(with_hidden(-limit));
  EXPECT_FALSE(with_hidden(2 * limit));
  EXPECT_FALSE(with_hidden(HUGE_VAL));
  EXPECT_FALSE(with_hidden(std::nan("")));
}

TEST(MaskedRows, AreLeftOutOfCountsWhereTheyComeLast) {
  const std::string counted = R"(
  %tokens = cast(%ids) {to = bool}
  %entries = cast(%tokens) {to = i64}
  %count = cumulative_sum(%entries) {axis = 1}
  %real_count = cast(%count) {to = f32}
  %count3 = expand_dims(%real_count) {axes = (-1)}
  %y = mul(%h, %count3)
)";
  const std::string text = text_of({.bias = filled("-10000"), .tail = counted, .results = "%y"});
  const auto zero = compiled(text).model;
  ASSERT_TRUE(zero->packing()) << zero->padded_because();
  EXPECT_TRUE(zero->packing()->leading_rows);
  ModelContext context(zero), keep(compiled(text, MaskedRows::Keep).model);
  const Rows last{{1, 1, 1, 0, 0}, {1, 0, 0, 0, 0}, {1, 1, 1, 1, 1}};
  for (const Rows& mask : {some, last, hidden_first}) {
    expect_zero_rows(context.run(inputs_of(mask))[0], keep.run(inputs_of(mask))[0], mask);
    EXPECT_EQ(context.packed_rows().has_value(), mask == last);
  }
}

TEST(MaskedRows, AreZeroWhereIdsAreTheMask) {
  const std::string bias = R"(
  %shown = cast(%ids) {to = bool}
  %shown3 = expand_dims(%shown) {axes = (1)}
  %zero = constant(f32 () [0])
  %low = constant(f32 () [-inf])
  %bias = where(%shown3, %zero, %low)
)";
  const std::string text = text_of({.bias = bias, .mask = ""});
  const auto zero = compiled(text).model;
  ASSERT_TRUE(zero->packing()) << zero->padded_because();
  ModelContext packed(zero), padded(compiled(text, MaskedRows::Keep).model);
  const auto both = inputs_of(some);
  ir::Tensor ids(ir::DType::I64, {batch, length});
  for (std::int64_t at = 0; at < ids.elements(); ++at)
    ids.set_integer(at, both[0].integer_at(at) * both[1].integer_at(at));
  const auto got = packed.run({ids}), wanted = padded.run({ids});
  EXPECT_EQ(packed.packed_rows(), 11);
  expect_zero_rows(got[0], wanted[0], some);
}

// Attention asks whether an entry is 0, the sum whether it is 1: a row of another entry is hidden
// and yet counts. Such a row of results is 0, what others read of it is the model's.
TEST(MaskedRows, CountWhereTheModelCountsThemByEntriesOfTheirOwn) {
  const std::string bias = R"(
  %off = cast(%m) {to = bool}
  %off3 = expand_dims(%off) {axes = (1)}
  %zero = constant(f32 () [0])
  %low = constant(f32 () [-1e33])
  %bias = where(%off3, %low, %zero)
)";
  const std::string sum = R"(
  %bit = constant(i64 () [1])
  %none = constant(f32 () [0])
  %once = constant(f32 () [1])
  %entries = expand_dims(%m) {axes = (-1)}
  %hidden = equal(%entries, %bit)
  %weights = where(%hidden, %none, %once)
  %weighed = mul(%h, %weights)
  %sum = reduce_sum(%weighed) {axes = (1)}
)";
  const std::string text = text_of({.bias = bias, .tail = sum, .results = "%h, %sum"});
  const auto zero = compiled(text).model;
  ASSERT_TRUE(zero->packing()) << zero->padded_because();
  ModelContext packed(zero), padded(compiled(text, MaskedRows::Keep).model);
  const Rows bits{{0, 0, 0, 1, 1}, {0, 1, 0, 0, 1}, {0, 0, 0, 0, 0}};
  const Rows two{{0, 0, 2, 1, 1}, {0, 1, 0, 0, 1}, {0, 2, 0, 0, 2}};
  for (const Rows& mask : {bits, two}) {
    const auto got = packed.run(inputs_of(mask)), wanted = padded.run(inputs_of(mask));
    EXPECT_EQ(packed.packed_rows().has_value(), mask == bits);
    Rows hidden = mask;
    for (auto& row : hidden)
      for (std::int64_t& entry : row) entry = entry == 0 ? 0 : 1;
    expect_zero_rows(got[0], wanted[0], hidden, 1);
    expect_near(got[1], wanted[1]);
  }
}

// The sum of what is read off the inputs alone is the model's own, of hidden rows too: attention
// hides entries below 3, the count is of entries that are not 0.
TEST(MaskedRows, CountWhereTheModelCountsThemByAnotherQuestion) {
  const std::string bias = R"(
  %three = constant(i64 () [3])
  %shown = greater_equal(%m, %three)
  %shown3 = expand_dims(%shown) {axes = (1)}
  %zero = constant(f32 () [0])
  %low = constant(f32 () [-1e33])
  %bias = where(%shown3, %zero, %low)
)";
  const std::string last = R"(
  %there = cast(%m) {to = bool}
  %each = cast(%there) {to = i64}
  %count = reduce_sum(%each) {axes = (1), keepdims = 1}
  %by = constant(i64 () [1])
  %at = sub(%count, %by)
  %last = gather_nd(%h, %at) {batch_dims = 1}
)";
  const std::string text = text_of({.bias = bias, .tail = last, .results = "%h, %last"});
  const auto zero = compiled(text).model;
  ASSERT_TRUE(zero->packing()) << zero->padded_because();
  ModelContext packed(zero), padded(compiled(text, MaskedRows::Keep).model);
  const Rows kept{{3, 3, 4, 0, 0}, {3, 3, 3, 3, 3}, {7, 0, 0, 0, 0}};
  const Rows counted{{3, 3, 1, 2, 0}, {3, 3, 3, 3, 3}, {7, 2, 0, 0, 0}};
  for (const Rows& mask : {kept, counted}) {
    const auto got = packed.run(inputs_of(mask)), wanted = padded.run(inputs_of(mask));
    EXPECT_EQ(packed.packed_rows().has_value(), mask == kept);
    Rows hidden = mask;
    for (auto& row : hidden)
      for (std::int64_t& entry : row) entry = entry < 3 ? 1 : 0;
    expect_zero_rows(got[0], wanted[0], hidden, 1);
    expect_near(got[1], wanted[1]);
  }
}

TEST(MaskedRows, ThatCannotBeZeroAreToldOf) {
  const std::string unmasked = R"(
fn @main(%x: Tensor[(b, s), f32]) {
  %y = exp(%x)
  return %y
}
)";
  const Compiled zero = compiled(unmasked);
  EXPECT_EQ(zero.model->hidden_rows_kept_because(), "no attention was recognised");
  ASSERT_EQ(zero.warnings.size(), 1u);
  EXPECT_EQ(zero.warnings[0],
            "masked rows of results are not zero but as the model computes them: no attention was "
            "recognised");
  const Compiled keep = compiled(unmasked, MaskedRows::Keep);
  EXPECT_EQ(keep.model->hidden_rows_kept_because(), "");
  EXPECT_TRUE(keep.warnings.empty());
}

TEST(MaskedRows, ReachNothingElseWhereTheyAreNoNumbers) {
  const std::string text =
      text_of({.bias = filled("-10000"), .tail = first_rows, .results = "%h, %cls", .rows = true});
  const auto zero = compiled(text).model;
  ASSERT_TRUE(zero->packing()) << zero->padded_because();
  ModelContext context(zero);
  runtime::Context padded(zero->padded());
  auto inputs = inputs_of(some);
  ir::Tensor rows(ir::DType::F32, {batch, length, width});
  inputs.push_back(rows);
  const auto wanted = context.run(inputs);
  for (const double strange : {std::nan(""), HUGE_VAL, 3e38}) {
    for (std::int64_t at = 0; at < rows.elements(); ++at)
      if (inputs[1].integer_at(at / width) == 0) rows.set_real(at, strange);
    inputs[2] = rows;
    const auto packed_results = context.run(inputs), padded_results = padded.run(inputs);
    EXPECT_TRUE(context.packed_rows());
    expect_zero_rows(packed_results[0], wanted[0], some);
    expect_zero_rows(padded_results[0], wanted[0], some);
    expect_near(padded_results[1], wanted[1]);
  }
}

}  // namespace
}  // namespace anydim
