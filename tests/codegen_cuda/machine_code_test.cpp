// Machine code of the kernels of two encoders, MiniLM (hidden size 384) and, on one of them, BERT-base (768), in bf16, for every schedule of their default tables on
// three architectures: no spills, no local memory, no remark of the assembler (compile() throws at one), registers that fit the threads; and the
// instructions that each is made for, where there is a disassembler.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

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

std::string embedding(int width) {
  return fmt::format(R"(
fn @main(%ids: Tensor[(b, s), i64], %words: Tensor[(30522, {0}), bf16], %places: Tensor[(512, {0}), bf16], %scale: Tensor[({0}), bf16], %shift: Tensor[({0}), bf16]) -> Tensor[(b, s, {0}), bf16]
  where b in [1, 1024], s in [1, 512] {{
  %w = gather(%words, %ids) {{axis = 0}}
  %from = constant(i64 () [0])
  %length = dim(s)
  %step = constant(i64 () [1])
  %positions = dyn.arange(%from, %length, %step)
  %p = gather(%places, %positions) {{axis = 0}}
  %e = add(%w, %p)
  %y = layer_norm(%e, %scale, %shift) {{axis = -1, epsilon = 1e-12}}
  return %y
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

std::vector<std::shared_ptr<const TestRegion>> encoder(int width) {
  return {make_region(product(width, 3 * width, "  return %q\n"), {1}),
          make_region(residual_and_norm(width, width), {1}),
          make_region(product(width, 4 * width, "  %g = gelu(%q)\n  return %g\n"), {1}),
          make_region(residual_and_norm(4 * width, width), {1}),
          make_region(embedding(width)),
          make_region(pooling(width)),
          make_region(merged_attention({.heads = 12, .depth = width / 12, .mask = AttentionMask::Padding}))};
}

struct Choice {
  const TestRegion* region;
  ir::Bucket bucket;
  ir::Schedule schedule;
  ir::CompiledKernel kernel{};
  std::string fault{};
};

// Each schedule of a table once.
std::vector<Choice> choices(const std::vector<std::shared_ptr<const TestRegion>>& regions, const ir::Backend& backend) {
  ir::Module module;
  for (const auto& region : regions) module.regions.push_back(region->region);
  const passes::PipelineOptions options;
  passes::PassContext context{options};
  context.backend = &backend;
  passes::choose_buckets(module, context);
  std::vector<Choice> result;
  for (std::size_t i = 0; i < regions.size(); ++i) {
    std::set<std::string> seen;
    for (const auto& entry : context.tables[i].entries) {
      if (seen.insert(to_string(entry.schedule)).second) result.push_back({regions[i].get(), entry.bucket, entry.schedule});
    }
  }
  return result;
}

void compile_all(std::vector<Choice>& choices, const ir::Backend& backend) {
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < choices.size(); i = next++) {
      try {
        choices[i].kernel = backend.compile(choices[i].region->region, choices[i].bucket, choices[i].schedule);
      } catch (const std::exception& error) {
        choices[i].fault = error.what();
      }
    }
  };
  std::thread other(work);
  work();
  other.join();
}

// The instructions of a cubin; empty where the build found no disassembler.
std::string disassembled(const ir::CompiledKernel& kernel) {
  const char* disassembler = std::getenv("ANYDIM_NVDISASM");
  if (disassembler == nullptr || *disassembler == '\0') return {};
  const auto path = std::filesystem::temp_directory_path() / fmt::format("anydim_{}.cubin", static_cast<const void*>(&kernel));
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(kernel.code.data()), static_cast<std::streamsize>(kernel.code.size()));
  std::string text;
  if (FILE* pipe = popen(fmt::format("'{}' -c '{}'", disassembler, path.string()).c_str(), "r")) {
    char buffer[4096];
    while (const std::size_t read = fread(buffer, 1, sizeof buffer, pipe)) text.append(buffer, read);
    if (pclose(pipe) != 0) text.clear();
  }
  std::filesystem::remove(path);
  return text;
}

// What the machine code of a schedule must have.
std::vector<std::string> expected_instructions(const ir::Schedule& schedule) {
  if (schedule.name.ends_with("_wgmma")) return {"HGMMA", "UTMALDG", "SYNCS.PHASECHK"};
  if (schedule.name.ends_with("_mma")) return {"HMMA", "LDGSTS", "LDSM"};
  return {};
}

class Encoders : public ::testing::TestWithParam<const char*> {};

TEST_P(Encoders, MachineCodeOfEverySchedule) {
  const CudaTarget target = *target_named(GetParam());
  const auto backend = make_cuda_backend({.target = target, .output = CudaOutput::Cubin, .checked = false, .nvrtc_path = {}});
  for (const int width : target.has_wgmma() ? std::vector<int>{384, 768} : std::vector<int>{384}) {
    const auto regions = encoder(width);
    std::vector<Choice> all = choices(regions, *backend);
    compile_all(all, *backend);
    std::set<std::string> looked_at;
    for (const Choice& choice : all) {
      SCOPED_TRACE(fmt::format("{} {} {}", target.name, width, to_string(choice.schedule)));
      ASSERT_EQ(choice.fault, "");
      EXPECT_EQ(choice.kernel.resources.spills, 0);
      EXPECT_EQ(choice.kernel.resources.stack_bytes, 0);
      EXPECT_LE(choice.kernel.resources.shared_bytes, target.shared_per_block);
      for (const ir::DeviceLaunch& launch : choice.kernel.launches) {
        const std::int64_t threads = std::int64_t{launch.block[0]} * launch.block[1] * launch.block[2];
        EXPECT_LE((choice.kernel.resources.registers + 7) / 8 * 8 * threads, target.registers_per_multiprocessor);
        EXPECT_LE(launch.shared_bytes, target.shared_per_block);
      }
      if (!looked_at.insert(choice.schedule.name).second) continue;
      const std::string code = disassembled(choice.kernel);
      if (code.empty()) continue;
      for (const std::string& instruction : expected_instructions(choice.schedule))
        EXPECT_NE(code.find(instruction), std::string::npos) << instruction;
      for (const char* local : {" LDL", " STL"}) EXPECT_EQ(code.find(local), std::string::npos) << local;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Parts, Encoders, ::testing::Values("a100", "h200", "b200"));

}  // namespace
}  // namespace anydim::codegen_cuda::testing
