// Machine code of the kernels of two encoders, MiniLM (hidden size 384) and BERT-base (768), in bf16, for every bucket of their default tables on three
// architectures: no spills, no local memory, no remark of the assembler (compile() throws at one), registers and shared memory that leave room for the
// blocks that the schedule means to run together, a trade of registers that adds up; and the instructions that each is made for, where there is a
// disassembler.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <stdexcept>
#include <thread>
#include <tuple>

#include "codegen_cuda/backend.h"
#include "passes/choose_buckets.h"
#include "tests/codegen_cuda/attention_cases.h"
#include "tests/codegen_cuda/kernel_case.h"

namespace anydim::codegen_cuda::testing {
namespace {

using tests::TestRegion;

std::string product(int depth, int width, const std::string& after, const std::string& parameters = {}) {
  return fmt::format(R"(
fn @main(%x: Tensor[(b, s, {0}), bf16], %w: Tensor[({0}, {1}), bf16], %bias: Tensor[({1}), bf16]{3}) -> Tensor[(b, s, {1}), bf16]
  where b in [1, 1024], s in [1, 512] {{
  %p = matmul(%x, %w)
  %q = add(%p, %bias)
{2}}})",
                     depth, width, after, parameters);
}

std::string residual_and_norm(int depth, int width) {
  const std::string rows = fmt::format(", %r: Tensor[(b, s, {0}), bf16], %scale: Tensor[({0}), bf16], %shift: Tensor[({0}), bf16]", width);
  return product(depth, width, "  %a = add(%q, %r)\n  %y = layer_norm(%a, %scale, %shift) {axis = -1, epsilon = 1e-12}\n  return %y\n",
                 rows);
}

// As encoders are exported: three tables in f32, the sum kept in f32 for the residual and in bf16 for the product that follows.
std::string embedding(int width) {
  return fmt::format(R"(
fn @main(%ids: Tensor[(b, s), i64], %types: Tensor[(b, s), i64], %words: Tensor[(30522, {0}), f32], %places: Tensor[(512, {0}), f32], %kinds: Tensor[(2, {0}), f32], %scale: Tensor[({0}), f32], %shift: Tensor[({0}), f32])
  where b in [1, 2147483647], s in [1, 512] {{
  %w = gather(%words, %ids) {{axis = 0}}
  %k = gather(%kinds, %types) {{axis = 0}}
  %from = constant(i64 () [0])
  %length = dim(s)
  %step = constant(i64 () [1])
  %positions = dyn.arange(%from, %length, %step)
  %p = gather(%places, %positions) {{axis = 0}}
  %a = add(%w, %k)
  %e = add(%a, %p)
  %y = layer_norm(%e, %scale, %shift) {{axis = -1, epsilon = 1e-12}}
  %n = cast(%y) {{to = bf16}}
  return %y, %n
}})",
                     width);
}

std::string pooling(int width) {
  return fmt::format(R"(
fn @main(%x: Tensor[(b, s, {0}), bf16], %mask: Tensor[(b, s, 1), bf16]) -> Tensor[(b, {0}), bf16]
  where b in [1, 1024], s in [1, 512] {{
  %p = mul(%x, %mask)
  %y = reduce_sum(%p) {{axes = (1), keepdims = 0}}
  return %y
}})",
                     width);
}

// Attention over sequences laid end to end, as it is where padding has been removed.
std::string packed_attention(int width) {
  std::string text = fmt::format(R"(
fn @main(%qkv: Tensor[(t, {0}), bf16], %offsets: Tensor[(n + 1), i64], %work: Tensor[(n, 2), i64]) -> Tensor[(t, {1}), bf16]
  where t in [1, 131072], n in [1, 1024] {{
  %wide = cast(%qkv) {{to = f32}}
  %split = shape(t, 12, {2})
)",
                                 3 * width, width, width / 12);
  int part = 0;
  for (const char name : {'q', 'k', 'v'}) {
    text += fmt::format(R"(
  %{0}_columns = strided_slice(%wide) {{axes = (-1), starts = ({1}), ends = ({2})}}
  %{0}_heads = dyn.reshape(%{0}_columns, %split)
  %{0} = transpose(%{0}_heads) {{perm = (1, 0, 2)}}
)",
                        name, part * width, (part + 1) * width);
    ++part;
  }
  return text + fmt::format(R"(
  %a = attention(%q, %k, %v, none, %offsets, %work) {{scale = 0.2}}
  %beside = transpose(%a) {{perm = (1, 0, 2)}}
  %joined = shape(t, {0})
  %r = dyn.reshape(%beside, %joined)
  %y = cast(%r) {{to = bf16}}
  return %y
}})",
                            width);
}

std::vector<std::shared_ptr<const TestRegion>> encoder(int width) {
  return {make_region(product(width, 3 * width, "  return %q\n"), {1}),
          make_region(residual_and_norm(width, width), {1}),
          make_region(product(width, 4 * width, "  %g = gelu(%q)\n  return %g\n"), {1}),
          make_region(residual_and_norm(4 * width, width), {1}),
          make_region(embedding(width)),
          make_region(pooling(width)),
          make_region(merged_attention({.heads = 12, .depth = width / 12, .mask = AttentionMask::Padding})),
          make_region(packed_attention(width))};
}

struct Choice {
  const TestRegion* region;
  ir::Bucket bucket;
  ir::Schedule schedule;
  std::string source;
  ir::CompiledKernel kernel{};
  std::string fault{}, code{};  // of compilation; the instructions
};

// Every entry of the regions' tables; those whose kernels are the same text once.
std::vector<Choice> choices(const std::vector<std::shared_ptr<const TestRegion>>& regions, const CudaTarget& target,
                            const ir::Backend& backend) {
  ir::Module module;
  for (const auto& region : regions) module.regions.push_back(region->region);
  const passes::PipelineOptions options;
  passes::PassContext context{options};
  context.backend = &backend;
  passes::choose_buckets(module, context);
  std::vector<Choice> result;
  std::set<std::string> seen;
  for (std::size_t i = 0; i < regions.size(); ++i) {
    for (const auto& entry : context.tables[i].entries) {
      std::string source = cuda_source(target, regions[i]->region, entry.bucket, entry.schedule);
      if (seen.insert(source).second) result.push_back({regions[i].get(), entry.bucket, entry.schedule, std::move(source)});
    }
  }
  return result;
}

// nvdisasm, as the build found it; empty where it found none.
std::string disassembler() {
  const char* path = std::getenv("ANYDIM_NVDISASM");
  return path == nullptr ? "" : path;
}

// The instructions of a cubin; empty where there is no disassembler. Throws where there is one that does not read it.
std::string disassembled(const ir::CompiledKernel& kernel) {
  if (disassembler().empty()) return {};
  const auto path = std::filesystem::temp_directory_path() / fmt::format("anydim_{}_{}.cubin", getpid(), static_cast<const void*>(&kernel));
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(kernel.code.data()), static_cast<std::streamsize>(kernel.code.size()));
  std::string text;
  bool read_all = false;
  if (FILE* pipe = popen(fmt::format("'{}' -c '{}'", disassembler(), path.string()).c_str(), "r")) {
    char buffer[1 << 16];
    while (const std::size_t read = fread(buffer, 1, sizeof buffer, pipe)) text.append(buffer, read);
    read_all = pclose(pipe) == 0;
  }
  std::filesystem::remove(path);
  if (!read_all || text.empty()) throw std::runtime_error(fmt::format("{} does not read the kernel's machine code", disassembler()));
  return text;
}

void compile_all(std::vector<Choice>& choices, const ir::Backend& backend) {
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < choices.size(); i = next++) {
      try {
        choices[i].kernel = backend.compile(choices[i].region->region, choices[i].bucket, choices[i].schedule);
        choices[i].code = disassembled(choices[i].kernel);
      } catch (const std::exception& error) {
        choices[i].fault = error.what();
      }
    }
  };
  std::thread other(work);
  work();
  other.join();
}

// What the machine code of a schedule must have.
std::vector<std::string> expected_instructions(const ir::Schedule& schedule) {
  if (schedule.name.ends_with("_wgmma")) {
    std::vector<std::string> all{"HGMMA", "UTMALDG", "SYNCS.PHASECHK", "WARPGROUP.DEPBAR"};
    if (schedule.find("boxed").value_or(0) != 0) all.emplace_back("UTMASTG");
    if (schedule.find("multicast").value_or(1) * schedule.find("beside").value_or(1) > 1) all.emplace_back("MULTICAST");
    return all;
  }
  if (schedule.name.ends_with("_mma")) return {"HMMA", "LDGSTS", "LDSM"};
  return {};
}

// Values that USETMAXREG sets, by what follows the opcode ("DEALLOC": fewer registers, "TRY_ALLOC": more).
std::set<std::int64_t> traded_registers(const std::string& code, const std::string& kind) {
  std::set<std::int64_t> values;
  const std::string instruction = "USETMAXREG." + kind;
  for (std::size_t at = code.find(instruction); at != std::string::npos; at = code.find(instruction, at + 1)) {
    const std::size_t number = code.find("0x", at);
    if (number < code.find('\n', at)) values.insert(std::stoll(code.substr(number + 2), nullptr, 16));
  }
  return values;
}

// The launch bounds that the source states: threads, and blocks that are meant to share a multiprocessor (1 where it says nothing).
struct LaunchBounds {
  std::int64_t threads = 0, blocks = 1;
};
std::vector<LaunchBounds> launch_bounds(const std::string& source) {
  std::vector<LaunchBounds> all;
  const std::string keyword = "__launch_bounds__(";
  for (std::size_t at = source.find(keyword); at != std::string::npos; at = source.find(keyword, at + 1)) {
    LaunchBounds& bounds = all.emplace_back();
    std::sscanf(source.c_str() + at + keyword.size(), "%ld, %ld", &bounds.threads, &bounds.blocks);
  }
  return all;
}

void expect_room(const Choice& choice, const CudaTarget& target) {
  const ir::KernelResources& used = choice.kernel.resources;
  EXPECT_EQ(used.spills, 0);
  EXPECT_EQ(used.stack_bytes, 0);
  EXPECT_LE(used.shared_bytes, target.shared_per_block);
  const std::vector<LaunchBounds> bounds = launch_bounds(choice.source);
  ASSERT_EQ(bounds.size(), choice.kernel.launches.size());
  const std::int64_t registers = (used.registers + 7) / 8 * 8;
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    const ir::DeviceLaunch& launch = choice.kernel.launches[i];
    EXPECT_EQ(std::int64_t{launch.block[0]} * launch.block[1] * launch.block[2], bounds[i].threads);
    if (bounds.size() == 1) EXPECT_LE(registers * bounds[i].threads * bounds[i].blocks, target.registers_per_multiprocessor);
    EXPECT_LE(launch.shared_bytes, target.shared_per_block);
    EXPECT_LE((launch.shared_bytes + 1024) * bounds[i].blocks, target.shared_per_multiprocessor);
  }
}

void expect_code(const Choice& choice) {
  if (choice.code.empty()) return;
  for (const std::string& instruction : expected_instructions(choice.schedule))
    EXPECT_NE(choice.code.find(instruction), std::string::npos) << instruction;
  for (const char* local : {" LDL", " STL"}) EXPECT_EQ(choice.code.find(local), std::string::npos) << local;
  // The warpgroup that fetches gives, the others take: no more than there is.
  const std::set<std::int64_t> given = traded_registers(choice.code, "DEALLOC"), taken = traded_registers(choice.code, "TRY_ALLOC");
  EXPECT_EQ(given.size(), taken.size());
  if (given.empty() || taken.empty()) return;
  const std::int64_t warpgroups = launch_bounds(choice.source).front().threads / 128;
  EXPECT_LE(*given.rbegin() + (warpgroups - 1) * *taken.rbegin(), choice.kernel.resources.registers * warpgroups);
}

class Encoders : public ::testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(Encoders, MachineCodeOfEveryBucket) {
  const auto [part, width] = GetParam();
  const CudaTarget target = *target_named(part);
  const auto backend = make_cuda_backend({.target = target, .output = CudaOutput::Cubin, .checked = false, .nvrtc_path = {}});
  const auto regions = encoder(width);
  std::vector<Choice> all = choices(regions, target, *backend);
  compile_all(all, *backend);
  std::set<std::string> kinds;
  for (const Choice& choice : all) {
    SCOPED_TRACE(fmt::format("{} {} {}", target.name, width, to_string(choice.schedule)));
    ASSERT_EQ(choice.fault, "");
    expect_room(choice, target);
    expect_code(choice);
    kinds.insert(choice.schedule.name);
  }
  RecordProperty("kernels", static_cast<int>(all.size()));
  EXPECT_TRUE(kinds.contains("matmul_mma") || kinds.contains("matmul_wgmma"));
  EXPECT_TRUE(kinds.contains("attention_mma"));
  EXPECT_EQ(kinds.contains("attention_wgmma"), target.has_wgmma());
  EXPECT_FALSE(kinds.contains("attention_simt") || kinds.contains("matmul_simt"));
  if (disassembler().empty()) GTEST_SKIP() << "no nvdisasm: the instructions were not looked at (scripts/python_env.sh installs it)";
}

INSTANTIATE_TEST_SUITE_P(Parts, Encoders, ::testing::Combine(::testing::Values("a100", "h200", "b200"), ::testing::Values(384, 768)));

}  // namespace
}  // namespace anydim::codegen_cuda::testing
