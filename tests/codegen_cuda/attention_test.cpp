#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "runtime/packing.h"
#include "tests/codegen_cuda/attention_cases.h"
#include "tests/support/attention_regions.h"

namespace anydim::codegen_cuda::testing {
namespace {

// Weights and results are rounded to bf16: 2^-9 each.
constexpr double narrow_tolerance = 1.2e-2;

using Fill = std::function<void(std::vector<ir::Tensor>&)>;
using Region = std::shared_ptr<const TestRegion>;

std::vector<Symbols> lengths(const std::vector<std::int64_t>& values, std::int64_t batch = 2) {
  std::vector<Symbols> result;
  for (const std::int64_t value : values) result.push_back({{"b", batch}, {"s", value}});
  return result;
}

CaseOptions machine_of(const std::string& part) {
  CaseOptions options;
  options.machine.architecture = small_target(part).architecture;
  return options;
}

// The PTX without the first instruction that begins so.
std::string without_first(const std::string& text, const std::string& opcode) {
  const std::size_t begin = text.find(opcode), end = text.find(';', begin);
  if (begin == std::string::npos) throw std::runtime_error("no " + opcode);
  return text.substr(0, begin) + text.substr(end + 1);
}

void expect_schedule(const Region& region, const std::string& part, const std::string& schedule,
                     const std::vector<Symbols>& shapes, const Fill& fill = {},
                     double tolerance = narrow_tolerance, bool checked = false) {
  const KernelCase kernel = attention_kernel(region, part, schedule, checked);
  const ptx::Module module = ptx::parse_ptx(kernel.ptx);
  for (const Symbols& symbols : shapes) {
    SCOPED_TRACE(part + " " + schedule + " b=" + std::to_string(symbols.at("b")) +
                 " s=" + std::to_string(symbols.at("s")));
    auto inputs = real_inputs(*region, symbols);
    if (fill) fill(inputs);
    const CaseRun got = run_case(kernel, module, symbols, inputs, machine_of(part));
    EXPECT_EQ(got.findings, "");
    EXPECT_EQ(compare(got.outputs, reference(*region, inputs), tolerance), "");
  }
}

// Text b has fewer tokens than the one before; a hole in each.
void fill_mask(std::vector<ir::Tensor>& inputs) {
  const std::int64_t batch = inputs[1].dims()[0], length = inputs[1].dims()[1];
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t j = 0; j < length; ++j)
      inputs[1].set_integer(b * length + j,
                            j < length - 5 * b && (j % 7 != 3 || length < 4) ? 1 : 0);
}

TEST(CudaAttention, SchedulesOfMma) {
  const Region region =
      make_region(merged_attention({.heads = 3, .depth = 32, .mask = AttentionMask::Padding}));
  for (const char* schedule : {"attention_mma warps=4 points=1 tiles=1 keys=64 stages=2",
                               "attention_mma warps=1 points=4 tiles=1 keys=32 stages=1",
                               "attention_mma warps=2 points=2 tiles=1 keys=16 stages=1",
                               "attention_mma warps=2 points=1 tiles=2 keys=32 stages=3"})
    expect_schedule(region, "a100", schedule, lengths({1, 17, 33, 70}), fill_mask);
  expect_schedule(region, "a100", "attention_mma warps=2 points=1 tiles=1 keys=32 stages=2",
                  lengths({0, 16, 31, 32, 64, 65}), fill_mask);
}

TEST(CudaAttention, HeadDimsOfMma) {
  for (const int depth : {16, 48, 64, 80, 96, 128}) {
    SCOPED_TRACE(depth);
    const Region region = make_region(merged_attention({.heads = 1, .depth = depth}));
    expect_schedule(region, "a100", "attention_mma warps=2 points=1 tiles=1 keys=32 stages=2",
                    lengths({37}, 1));
  }
}

TEST(CudaAttention, MasksOfMma) {
  for (const AttentionMask mask : {AttentionMask::Causal, AttentionMask::CausalLowest,
                                   AttentionMask::Window, AttentionMask::Bias}) {
    SCOPED_TRACE(static_cast<int>(mask));
    const Region region = make_region(merged_attention({.heads = 2, .depth = 16, .mask = mask}));
    expect_schedule(region, "a100", "attention_mma warps=1 points=2 tiles=1 keys=16 stages=2",
                    lengths({1, 50}, 1));
  }
}

TEST(CudaAttention, ElementTypesOfMma) {
  for (const auto& [dtype, result] : std::vector<std::pair<std::string, std::string>>{
           {"f16", "f16"}, {"bf16", "f32"}, {"f16", "bf16"}}) {
    SCOPED_TRACE(dtype + " " + result);
    const Region region =
        make_region(merged_attention({.heads = 2, .depth = 48, .dtype = dtype, .result = result}));
    expect_schedule(region, "a100", "attention_mma warps=1 points=1 tiles=1 keys=32 stages=2",
                    lengths({20}, 1));
  }
}

TEST(CudaAttention, Wgmma) {
  const Region region =
      make_region(merged_attention({.heads = 2, .depth = 64, .mask = AttentionMask::Padding}));
  expect_schedule(region, "h200", "attention_wgmma groups=2 keys=64 stages=2",
                  lengths({1, 65, 130}, 2), fill_mask);
  expect_schedule(region, "h200", "attention_wgmma groups=1 keys=32 stages=1",
                  lengths({0, 31, 100}, 1), fill_mask);
  expect_schedule(region, "h200", "attention_wgmma groups=3 keys=48 stages=3", lengths({200}, 1),
                  fill_mask);
  for (const int depth : {32, 128}) {
    SCOPED_TRACE(depth);
    const Region other =
        make_region(merged_attention({.heads = 2, .depth = depth, .mask = AttentionMask::Causal}));
    expect_schedule(other, "h200", "attention_wgmma groups=1 keys=32 stages=2", lengths({90}, 1));
  }
}

TEST(CudaAttention, CheckedTwinOfWgmma) {
  const Region region = make_region(merged_attention({.heads = 1, .depth = 64}));
  expect_schedule(region, "h200", "attention_wgmma groups=1 keys=32 stages=2", lengths({70}, 1), {},
                  narrow_tolerance, true);
  // A wait that cannot end says where it stands: the queries' bytes never come.
  KernelCase kernel =
      attention_kernel(region, "h200", "attention_wgmma groups=1 keys=32 stages=2", true);
  kernel.ptx = without_first(kernel.ptx, "cp.async.bulk.tensor");
  const Symbols symbols{{"b", 1}, {"s", 10}};
  CaseOptions options = machine_of("h200");
  // However long the system lets a try wait, some seconds are enough.
  for (const std::uint64_t nanoseconds : {10'000'000ULL, 1'000'000'000ULL, 60'000'000'000ULL}) {
    options.machine.wait_nanoseconds = nanoseconds;
    options.machine.wait_timeouts = static_cast<int>(4'000'000'000ULL / nanoseconds) + 2;
    const CaseRun stuck = run_case(kernel, ptx::parse_ptx(kernel.ptx), symbols,
                                   real_inputs(*region, symbols), options);
    EXPECT_NE(stuck.findings.find("trap"), std::string::npos) << stuck.findings;
    EXPECT_EQ(stuck.error.check, -2);
    EXPECT_EQ(stuck.error.value >> 20 & 0xff, 0);  // the barrier of the queries
  }
}

TEST(CudaAttention, PlainArithmetic) {
  const Region merged = make_region(merged_attention(
      {.heads = 2, .depth = 20, .dtype = "f32", .result = "f32", .mask = AttentionMask::Padding}));
  expect_schedule(merged, "a100", "attention_simt columns=1", lengths({0, 1, 33, 50}), fill_mask,
                  2e-5);
  const Region causal = make_region(merged_attention(
      {.heads = 1, .depth = 70, .dtype = "f32", .result = "f32", .mask = AttentionMask::Window}));
  expect_schedule(causal, "h200", "attention_simt columns=2", lengths({45}, 1), {}, 2e-5);
  const Region doubles = make_region(R"(
fn @main(%q: Tensor[(b, s, d), f64], %k: Tensor[(b, 9, d), f64], %v: Tensor[(b, 9, 5), f64]) -> Tensor[(b, s, 5), f64]
  where b in [0, 8], s in [0, 64], d in [0, 64] {
  %y = attention(%q, %k, %v) {scale = 0.3}
  return %y
})");
  expect_schedule(doubles, "a100", "attention_simt columns=1",
                  {{{"b", 2}, {"s", 3}, {"d", 40}}, {{"b", 1}, {"s", 17}, {"d", 0}}}, {}, 1e-12);
}

TEST(CudaAttention, InfiniteScores) {
  for (const char* dtype : {"bf16", "f32"}) {
    SCOPED_TRACE(dtype);
    const Region region = make_region(merged_attention(
        {.heads = 1, .depth = 16, .dtype = dtype, .result = "f32", .mask = AttentionMask::Bias}));
    const auto fill = [](std::vector<ir::Tensor>& inputs) {
      tests::fill_infinite_scores(inputs[1]);
    };
    const bool narrow = std::string(dtype) == "bf16";
    expect_schedule(region, "a100",
                    narrow ? "attention_mma warps=1 points=1 tiles=1 keys=16 stages=2"
                           : "attention_simt columns=1",
                    lengths({4, 40}, 1), fill, narrow ? narrow_tolerance : 2e-5);
  }
}

std::vector<std::byte> bytes_of(const ir::Tensor& tensor, std::int64_t part, std::int64_t parts) {
  const auto bytes = tensor.bytes();
  const std::size_t size = bytes.size() / static_cast<std::size_t>(parts);
  const auto first =
      bytes.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(part) * size);
  return {first, first + static_cast<std::ptrdiff_t>(size)};
}

// What lies beside a sequence, other sequences or memory that was never written, leaves its result
// as it is to the last bit.
TEST(CudaAttention, NeighboursDoNotMatter) {
  const Region region = make_region(merged_attention({.heads = 2, .depth = 64}));
  for (const auto& [part, schedule] : std::vector<std::pair<std::string, std::string>>{
           {"a100", "attention_mma warps=2 points=1 tiles=1 keys=32 stages=2"},
           {"a100", "attention_mma warps=1 points=4 tiles=1 keys=16 stages=1"},
           {"h200", "attention_wgmma groups=1 keys=32 stages=2"},
           {"h200", "attention_wgmma groups=1 keys=32 stages=2 persistent=1"},
           {"h200", "attention_simt columns=2"}}) {
    SCOPED_TRACE(schedule);
    const KernelCase kernel = attention_kernel(region, part, schedule);
    const ptx::Module module = ptx::parse_ptx(kernel.ptx);
    const Symbols symbols{{"b", 3}, {"s", 21}};
    CaseOptions options = machine_of(part);
    auto inputs = real_inputs(*region, symbols);
    const CaseRun before = run_case(kernel, module, symbols, inputs, options);
    EXPECT_EQ(before.findings, "");
    const std::int64_t text = inputs[0].elements() / 3;
    for (std::int64_t i = text; i < 2 * text; ++i)
      inputs[0].set_real(i, std::numeric_limits<double>::quiet_NaN());
    options.capacity = {{"b", 5}, {"s", 40}};  // slack holds NaN patterns
    const CaseRun after = run_case(kernel, module, symbols, inputs, options);
    EXPECT_EQ(after.findings, "");
    for (const std::int64_t part_of : {0, 2})
      EXPECT_EQ(bytes_of(before.outputs[0], part_of, 3), bytes_of(after.outputs[0], part_of, 3));
    EXPECT_TRUE(std::isnan(after.outputs[0].real_at(text / 3)));
  }
}

const std::vector<std::pair<std::string, std::string>> segment_schedules{
    {"a100", "attention_mma warps=2 points=1 tiles=1 keys=32 stages=2"},
    {"a100", "attention_mma warps=1 points=2 tiles=1 keys=16 stages=1"},
    {"h200", "attention_wgmma groups=1 keys=32 stages=2"},
    {"h200", "attention_wgmma groups=2 keys=32 stages=2 pingpong=1 persistent=1"},
    {"a100", "attention_simt columns=1"}};

TEST(CudaAttention, Segments) {
  const Region plain = make_region(tests::text_of({.dtype = "bf16"}));
  const Region biased = make_region(tests::text_of({.dtype = "bf16", .bias = true}));
  for (const auto& [part, schedule] : segment_schedules) {
    const KernelCase kernel = attention_kernel(plain, part, schedule),
                     with_bias = attention_kernel(biased, part, schedule);
    const ptx::Module module = ptx::parse_ptx(kernel.ptx),
                      module_with_bias = ptx::parse_ptx(with_bias.ptx);
    for (const Symbols& symbols : std::vector<Symbols>{{{"t", 0}, {"n", 1}},
                                                       {{"t", 1}, {"n", 3}},
                                                       {{"t", 74}, {"n", 4}},
                                                       {{"t", 161}, {"n", 9}}}) {
      SCOPED_TRACE(schedule + " t=" + std::to_string(symbols.at("t")));
      for (const bool bias : {false, true}) {
        if (bias && symbols.at("t") != 74) continue;
        const Region& region = bias ? biased : plain;
        auto inputs = real_inputs(*region, symbols);
        tests::fill_offsets(inputs[1], symbols.at("t"));
        const CaseRun got = run_case(bias ? with_bias : kernel, bias ? module_with_bias : module,
                                     symbols, inputs, machine_of(part));
        EXPECT_EQ(got.findings, "");
        EXPECT_EQ(got.error.check, -1);
        EXPECT_EQ(compare(got.outputs, reference(*region, inputs), narrow_tolerance), "");
      }
    }
  }
}

// With a list of work: the same results, also from the checked form, and in a grid that is larger
// than the work.
TEST(CudaAttention, SegmentsInTheOrderOfAList) {
  const Region region = make_region(tests::text_of({.dtype = "bf16", .work = true}));
  for (const auto& [part, schedule] : segment_schedules) {
    for (const bool checked : {false, true}) {
      if (checked && part == "a100") continue;  // its checked form is the kernel itself
      const KernelCase kernel = attention_kernel(region, part, schedule, checked);
      const ptx::Module module = ptx::parse_ptx(kernel.ptx);
      for (const Symbols& symbols : std::vector<Symbols>{
               {{"t", 0}, {"n", 1}}, {{"t", 0}, {"n", 3}}, {{"t", 91}, {"n", 6}}}) {
        SCOPED_TRACE(schedule + " t=" + std::to_string(symbols.at("t")) +
                     (checked ? ", checked" : ""));
        auto inputs = real_inputs(*region, symbols);
        tests::fill_offsets(inputs[1], symbols.at("t"));
        tests::fill(inputs[2], runtime::work_list(inputs[1].as<std::int64_t>()));
        CaseOptions options = machine_of(part);
        options.capacity = {{"t", symbols.at("t") + 70}, {"n", symbols.at("n") + 2}};
        const CaseRun got = run_case(kernel, module, symbols, inputs, options);
        EXPECT_EQ(got.findings, "");
        EXPECT_EQ(got.error.check, -1);
        EXPECT_EQ(compare(got.outputs, reference(*region, inputs), narrow_tolerance), "");
      }
    }
  }
}

// A block finds its sequence among one, 32, 33 or 63, many of them short or empty.
TEST(CudaAttention, ManySequences) {
  const Region region = make_region(tests::text_of({.dtype = "bf16", .work = true}));
  for (const std::size_t way : {0, 2, 3}) {
    const auto& [part, schedule] = segment_schedules[way];
    const KernelCase kernel = attention_kernel(region, part, schedule);
    const ptx::Module module = ptx::parse_ptx(kernel.ptx);
    for (const std::int64_t sequences : {1, 32, 33, 63}) {
      SCOPED_TRACE(fmt::format("{} sequences={}", schedule, sequences));
      std::vector<std::int64_t> offsets{0};
      for (std::int64_t s = 0; s < sequences; ++s)
        offsets.push_back(offsets.back() + (s % 20 == 3 ? 19 : s % 3));
      const Symbols symbols{{"t", offsets.back()}, {"n", sequences + 1}};
      auto inputs = real_inputs(*region, symbols);
      tests::fill(inputs[1], offsets);
      tests::fill(inputs[2], runtime::work_list(offsets));
      const CaseRun got = run_case(kernel, module, symbols, inputs, machine_of(part));
      EXPECT_EQ(got.findings, "");
      EXPECT_EQ(got.error.check, -1);
      EXPECT_EQ(compare(got.outputs, reference(*region, inputs), narrow_tolerance), "");
    }
  }
}

// Elements of a row that were written: fresh memory holds NaN.
std::int64_t written(const ir::Tensor& rows, std::int64_t row) {
  std::int64_t count = 0;
  for (std::int64_t i = 64 * row; i < 64 * (row + 1); ++i)
    count += std::isnan(rows.real_at(i)) ? 0 : 1;
  return count;
}

// Grids that end early show what is begun first: no row of a sequence before every row of the
// longer ones.
TEST(CudaAttention, LongestSequencesBeginFirst) {
  const Region region = make_region(tests::text_of({.dtype = "bf16", .work = true}));
  const Symbols symbols{{"t", 161}, {"n", 8}};
  auto inputs = real_inputs(*region, symbols);
  tests::fill_offsets(inputs[1], symbols.at("t"));
  tests::fill(inputs[2], runtime::work_list(inputs[1].as<std::int64_t>()));
  for (const auto& [part, schedule] : segment_schedules) {
    KernelCase kernel = attention_kernel(region, part, schedule);
    const ptx::Module module = ptx::parse_ptx(kernel.ptx);
    if (schedule.ends_with("persistent=1")) {
      // One block does all there is.
      kernel.launches[0].grid[0] = 1;
      const CaseRun got = run_case(kernel, module, symbols, inputs, machine_of(part));
      EXPECT_EQ(got.findings, "");
      EXPECT_EQ(compare(got.outputs, reference(*region, inputs), narrow_tolerance), "");
      continue;
    }
    const std::int64_t blocks = tests::value_at(kernel.launches[0].grid[0], symbols);
    std::int64_t partial = 0;
    for (const std::int64_t grid : {blocks / 6, blocks / 3, blocks / 2, 3 * blocks / 4}) {
      SCOPED_TRACE(schedule + " blocks=" + std::to_string(grid));
      kernel.launches[0].grid[0] = grid;
      const CaseRun got = run_case(kernel, module, symbols, inputs, machine_of(part));
      EXPECT_EQ(got.findings, "");
      bool missing = false;  // a row of a sequence that comes before in the list
      std::int64_t rows = 0;
      for (std::int64_t place = 0; place < 7; ++place) {
        const std::int64_t sequence = inputs[2].integer_at(2 * place);
        bool whole = true;
        for (std::int64_t row = inputs[1].integer_at(sequence);
             row < inputs[1].integer_at(sequence + 1); ++row) {
          const std::int64_t there = written(got.outputs[0], row);
          EXPECT_FALSE(there > 0 && missing) << "row " << row << " of sequence " << sequence;
          rows += there == 64 ? 1 : 0;
          whole = whole && there == 64;
        }
        missing = missing || !whole;
      }
      partial += rows > 0 && rows < 161 ? 1 : 0;
    }
    EXPECT_GE(partial, 2) << schedule;
  }
}

// A list that is none, or one of other sequences, is reported with the first place that does not
// fit, and no row outside of the buffers is read or written.
TEST(CudaAttention, WrongListsOfWorkAreReported) {
  const Region region = make_region(tests::text_of({.dtype = "bf16", .work = true}));
  const Symbols symbols{{"t", 50}, {"n", 5}};
  const tests::WrongLists& lists = tests::wrong_lists();
  ASSERT_EQ(runtime::work_list(lists.offsets), lists.right);
  auto cases = lists.wrong;
  cases.emplace_back(lists.right, -1);
  for (const auto& [part, schedule] : segment_schedules) {
    const KernelCase kernel = attention_kernel(region, part, schedule);
    const ptx::Module module = ptx::parse_ptx(kernel.ptx);
    for (const auto& [list, place] : cases) {
      SCOPED_TRACE(schedule + ", wrong at " + std::to_string(place));
      auto inputs = real_inputs(*region, symbols);
      tests::fill(inputs[1], lists.offsets);
      tests::fill(inputs[2], list);
      CaseOptions options = machine_of(part);
      options.machine.check_races = place < 0;  // a sequence that comes twice is written twice
      const CaseRun got = run_case(kernel, module, symbols, inputs, options);
      EXPECT_EQ(got.findings, "");
      EXPECT_EQ(
          got.error.check,
          place < 0 ? -1 : std::get<ir::AttentionForm>(region->form.kind).segments->work_check);
      if (place >= 0) EXPECT_EQ(got.error.value, place);
    }
  }
}

TEST(CudaAttention, SegmentsKeepToThemselves) {
  const Region region = make_region(tests::text_of({.dtype = "bf16"}));
  const Symbols symbols{{"t", 91}, {"n", 6}};
  for (const auto& [part, schedule] : segment_schedules) {
    SCOPED_TRACE(schedule);
    const KernelCase kernel = attention_kernel(region, part, schedule);
    const ptx::Module module = ptx::parse_ptx(kernel.ptx);
    CaseOptions options = machine_of(part);
    auto inputs = real_inputs(*region, symbols);
    tests::fill_offsets(inputs[1], 91);
    const ir::Tensor clean = run_case(kernel, module, symbols, inputs, options).outputs.at(0);
    const std::int64_t first = inputs[1].integer_at(2), last = inputs[1].integer_at(3);
    for (std::int64_t i = first * 192; i < last * 192; ++i)
      inputs[0].set_real(i, std::numeric_limits<double>::quiet_NaN());
    options.capacity = {{"t", 130}, {"n", 8}};
    const CaseRun spoilt = run_case(kernel, module, symbols, inputs, options);
    EXPECT_EQ(spoilt.findings, "");
    for (std::int64_t i = 0; i < clean.elements(); ++i) {
      if (i >= first * 64 && i < last * 64)
        EXPECT_TRUE(std::isnan(spoilt.outputs.at(0).real_at(i)));
      else ASSERT_EQ(spoilt.outputs.at(0).real_at(i), clean.real_at(i)) << "element " << i;
    }
  }
}

TEST(CudaAttention, WrongOffsetsAreReported) {
  const Region region = make_region(tests::text_of({.dtype = "bf16"}));
  const Symbols symbols{{"t", 50}, {"n", 4}};
  for (const auto& [part, schedule] : segment_schedules) {
    SCOPED_TRACE(schedule);
    const KernelCase kernel = attention_kernel(region, part, schedule);
    const ptx::Module module = ptx::parse_ptx(kernel.ptx);
    for (const auto& [offsets, value] : tests::wrong_offsets()) {
      auto inputs = real_inputs(*region, symbols);
      tests::fill(inputs[1], offsets);
      CaseOptions options = machine_of(part);
      options.machine.check_races = false;  // sequences that overlap write the same rows
      const CaseRun got = run_case(kernel, module, symbols, inputs, options);
      EXPECT_EQ(got.findings, "");
      EXPECT_EQ(got.error.check, std::get<ir::AttentionForm>(region->form.kind).segments->check);
      EXPECT_EQ(got.error.value, value);
    }
  }
}

// The mean of a sequence's rows is a key, and decides between schedules for as many rows in all.
TEST(CudaAttention, SchedulesFollowTheMeanOfRows) {
  const Region region = make_region(tests::text_of({.dtype = "bf16", .work = true}));
  ASSERT_EQ(region->region.keys.size(), 2U);
  for (const auto& [symbols, mean] : std::vector<std::pair<Symbols, std::int64_t>>{
           {{{"t", 0}, {"n", 1}}, 0}, {{{"t", 9}, {"n", 4}}, 3}, {{{"t", 10}, {"n", 4}}, 4}})
    EXPECT_EQ(tests::value_at(region->region.keys[1], symbols), mean);
  const CudaTarget target = small_target("h200");
  const auto kind = make_attention_mma_kind();
  const auto seconds = [&](const char* schedule, std::int64_t mean) {
    const std::vector<std::int64_t> keys{4096, mean};
    return kind->estimate({target, region->region, region->form}, ir::parse_schedule(schedule),
                          keys);
  };
  const char* small = "attention_mma warps=1 points=2 tiles=1 keys=16 stages=1";
  const char* large = "attention_mma warps=4 points=1 tiles=1 keys=64 stages=2";
  EXPECT_LT(2 * seconds(small, 8), seconds(large, 8));
  EXPECT_GT(seconds(small, 512), 1.5 * seconds(large, 512));
  // Twice the rows of a sequence are half as many sequences, each with four times the scores.
  EXPECT_GT(seconds(large, 1024), 1.5 * seconds(large, 512));
}

TEST(CudaAttention, AcceptsAndOrdersSchedules) {
  const Region narrow = make_region(merged_attention({.heads = 2, .depth = 64}));
  const Region wide =
      make_region(merged_attention({.heads = 2, .depth = 64, .dtype = "f32", .result = "f32"}));
  const Region odd = make_region(merged_attention({.heads = 3, .depth = 20}));
  // The kernel kind that comes first among those that accept the region.
  const auto first = [](const Region& region, const char* part) {
    const CudaTarget target = small_target(part);
    for (const auto& kind : all_kernel_kinds())
      if (kind->accepts({target, region->region, region->form})) return std::string(kind->name());
    return std::string();
  };
  EXPECT_EQ(first(narrow, "a100"), "attention_mma");
  EXPECT_EQ(first(narrow, "h200"), "attention_wgmma");
  EXPECT_EQ(first(wide, "h200"), "attention_simt");
  EXPECT_EQ(first(odd, "h200"), "attention_simt");
}

}  // namespace
}  // namespace anydim::codegen_cuda::testing
