// Machine code of the kernels of MiniLM (tests/models/minilm.onnx) on three architectures and of
// BERT-base (the same export at its sizes) on Hopper, in bf16 and f32, packed and padded, for every
// bucket of their default tables: no spills, no local memory, no remark of the assembler, registers
// and shared memory within what the schedule counts on, a trade of registers that adds up; and the
// instructions that each is made for, where there is a disassembler.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <regex>
#include <set>
#include <thread>

#include "api/compile.h"
#include "api/load.h"
#include "codegen_cuda/backend.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "passes/remove_padding.h"
#include "tests/codegen_cuda/cubin.h"

namespace anydim::codegen_cuda::testing {
namespace {

// The export's graph, whose weights are given by a generator: a file of zeros stands for theirs
// while it is read.
std::string minilm_text() {
  const auto folder =
      std::filesystem::temp_directory_path() / fmt::format("anydim_encoder_{}", getpid());
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file("../models/minilm.onnx", folder / "minilm.onnx",
                             std::filesystem::copy_options::overwrite_existing);
  std::ofstream(folder / "model.safetensors").close();
  constexpr std::uintmax_t weight_bytes = 200 << 20;
  std::filesystem::resize_file(folder / "model.safetensors", weight_bytes);
  const std::string text = ir::print(load_model(folder / "minilm.onnx"));
  std::filesystem::remove_all(folder);
  return std::regex_replace(text, std::regex(R"(@file\("model.safetensors", \d+, \d+\))"),
                            "@random(1)");
}

// BERT-base has the same graph (its layers, twice as many, are equal kernels): hidden size 768 for
// 384, 3072 between for 1536, heads of 64 for 32, whose scores are scaled by the root of that.
std::string encoder_text(int hidden) {
  std::string text = minilm_text();
  if (hidden == 384) return text;
  for (const auto& [from, to] : {std::pair("384", "768"), {"1536", "3072"}, {"32", "64"}})
    text = std::regex_replace(text, std::regex(fmt::format(R"(\b{}\b)", from)), to);
  return std::regex_replace(text, std::regex(R"(\b0\.17677669\b)"), "0.125");
}

struct Choice {
  ir::Region region;
  ir::Bucket bucket;
  ir::Schedule schedule;
  std::string source;
  std::vector<EntryPlan> plans;
  ir::CompiledKernel kernel{};
  std::string fault{};  // of compilation
  MachineCodeReader::Code code{};
};

// Every entry of the program's tables; those whose kernels are the same text once.
void add_choices(const ir::Program& program, const CudaTarget& target, std::set<std::string>& seen,
                 std::vector<Choice>& choices) {
  for (const ir::Program::Kernel& kernel : program.kernels) {
    for (const auto& entry : kernel.table.entries) {
      EmittedKernel emitted = cuda_kernel(target, kernel.region, entry.bucket, entry.schedule);
      if (seen.insert(emitted.source).second)
        choices.push_back({kernel.region, entry.bucket, entry.schedule, std::move(emitted.source),
                           std::move(emitted.entries)});
    }
  }
}

// The kernels of the encoder over packed and over padded rows, in both precisions.
void add_encoder(int hidden, const CudaTarget& target,
                 const std::shared_ptr<const ir::Backend>& backend, std::set<std::string>& seen,
                 std::vector<Choice>& choices) {
  const std::string text = encoder_text(hidden);
  for (const ir::DType precision : {ir::DType::BF16, ir::DType::F32}) {
    CompileOptions options;
    options.precision = precision;
    const ir::Module padded = module_at_fork(ir::parse(text), options);
    passes::PackingResult packed = passes::remove_padding(padded, passes::PackedForm::Zeroed);
    if (!packed.packed) throw std::runtime_error("the encoder is not packed: " + packed.reason);
    const CompileTarget compile_target{.backend = backend, .device = nullptr};
    add_choices(program_for(compile_target, std::move(packed.packed->module), options), target,
                seen, choices);
    add_choices(program_for(compile_target, padded, options), target, seen, choices);
  }
}

// Kernels of warpgroup products whose schedules differ in nothing but sizes have the same
// instructions with other numbers: one of each way is disassembled.
std::string way_of(const Choice& choice) {
  ir::Schedule way = choice.schedule;
  std::erase_if(way.fields, [](const auto& field) {
    return field.first == "bn" || field.first == "stages" || field.first == "group";
  });
  return fmt::format("{}{}", to_string(way),
                     choice.source.find("consumer_registers = 0;") == std::string::npos
                         ? ", trading registers"
                         : "");
}

void compile_all(std::vector<Choice>& choices, const ir::Backend& backend,
                 MachineCodeReader& reader) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::set<std::string> ways;
  const auto work = [&] {
    for (std::size_t i = next++; i < choices.size(); i = next++) {
      Choice& choice = choices[i];
      try {
        choice.kernel = backend.compile(choice.region, choice.bucket, choice.schedule);
        const bool is_new = [&] {
          const std::lock_guard lock(mutex);
          return choice.schedule.name.ends_with("_wgmma") && ways.insert(way_of(choice)).second;
        }();
        choice.code = reader.read(choice.kernel.code, is_new);
      } catch (const std::exception& error) {
        choice.fault = error.what();
      }
    }
  };
  std::thread other(work);
  work();
  other.join();
}

// Operations that the machine code of a schedule must have; and instructions, with their modifiers.
struct Expected {
  std::vector<std::string> operations, instructions;
};
Expected expected_of(const ir::Schedule& schedule) {
  if (schedule.name.ends_with("_wgmma")) {
    Expected all{{"HGMMA", "UTMALDG", "SYNCS", "WARPGROUP"},
                 {"SYNCS.PHASECHK", "WARPGROUP.DEPBAR"}};
    if (schedule.find("tma_store").value_or(0) != 0) all.operations.emplace_back("UTMASTG");
    if (schedule.find("fragments").value_or(0) != 0) all.operations.emplace_back("STSM");
    if (schedule.find("multicast_columns").value_or(1) *
            schedule.find("multicast_rows").value_or(1) >
        1)
      all.instructions.emplace_back("MULTICAST");
    return all;
  }
  if (schedule.name.ends_with("_mma")) return {{"HMMA", "LDGSTS", "LDSM"}, {}};
  return {};
}

// Values that USETMAXREG sets, by what follows the opcode ("DEALLOC": fewer registers, "TRY_ALLOC":
// more).
std::set<std::int64_t> traded_registers(const std::string& code, const std::string& kind) {
  std::set<std::int64_t> values;
  const std::string instruction = "USETMAXREG." + kind;
  for (std::size_t at = code.find(instruction); at != std::string::npos;
       at = code.find(instruction, at + 1)) {
    const std::size_t number = code.find("0x", at);
    if (number < code.find('\n', at))
      values.insert(std::stoll(code.substr(number + 2), nullptr, 16));
  }
  return values;
}

// Registers are handed out to warps in steps of 8 a thread.
std::int64_t allocated(std::int64_t registers) { return (registers + 7) / 8 * 8; }

void expect_room(const Choice& choice, const CudaTarget& target) {
  const ir::KernelResources& used = choice.kernel.resources;
  EXPECT_EQ(used.spills, 0);
  EXPECT_EQ(used.remarks, "");
  EXPECT_EQ(used.stack_bytes, 0);
  EXPECT_LE(used.shared_bytes, target.shared_per_block);
  const auto registers = registers_of_entries(choice.kernel.code);
  std::int64_t most = 0;
  for (const ir::DeviceLaunch& launch : choice.kernel.cuda().launches) {
    SCOPED_TRACE(launch.entry);
    const auto plan = std::ranges::find(choice.plans, launch.entry, &EntryPlan::name);
    ASSERT_NE(plan, choice.plans.end());
    ASSERT_TRUE(registers.contains(launch.entry));
    EXPECT_EQ(std::int64_t{launch.block[0]} * launch.block[1] * launch.block[2], plan->threads);
    most = std::max(most, registers.at(launch.entry));
    const std::int64_t of_thread = allocated(registers.at(launch.entry));
    EXPECT_LE(of_thread, plan->registers);
    EXPECT_LE(of_thread * plan->threads * plan->blocks, target.registers_per_multiprocessor);
    EXPECT_LE(plan->threads * plan->blocks, target.threads_per_multiprocessor);
    constexpr std::int64_t reserved = 1024;  // shared memory that the system keeps of each block
    EXPECT_LE(launch.shared_bytes, target.shared_per_block);
    EXPECT_LE((launch.shared_bytes + reserved) * plan->blocks, target.shared_per_multiprocessor);
  }
  EXPECT_EQ(most, used.registers);
}

void expect_code(const Choice& choice) {
  if (disassembler().empty()) return;
  const Expected expected = expected_of(choice.schedule);
  for (const std::string& operation : expected.operations)
    EXPECT_TRUE(choice.code.operations.contains(operation)) << operation;
  for (const char* local : {"LDL", "STL"})
    EXPECT_FALSE(choice.code.operations.contains(local)) << local;
  const std::string& text = choice.code.text;
  if (text.empty()) return;
  for (const std::string& instruction : expected.instructions)
    EXPECT_NE(text.find(instruction), std::string::npos) << instruction;
  // The warpgroup that fetches gives, the others take: no more than there is.
  const std::set<std::int64_t> given = traded_registers(text, "DEALLOC"),
                               taken = traded_registers(text, "TRY_ALLOC");
  EXPECT_EQ(given.size(), taken.size());
  if (given.empty() || taken.empty()) return;
  const std::int64_t warpgroups = choice.plans.front().threads / 128;
  EXPECT_LE(*given.rbegin() + (warpgroups - 1) * *taken.rbegin(),
            choice.kernel.resources.registers * warpgroups);
}

class Encoders : public ::testing::TestWithParam<const char*> {};

TEST_P(Encoders, MachineCodeOfEveryBucket) {
  const CudaTarget target = *target_named(GetParam());
  const std::shared_ptr<const ir::Backend> backend = make_cuda_backend(
      {.target = target, .output = CudaOutput::Cubin, .checked = false, .nvrtc_path = {}});
  std::vector<Choice> all;
  std::set<std::string> seen;
  add_encoder(384, target, backend, seen, all);
  // BERT-base for the part whose kernels are measured: hundreds of kernels take a minute.
  if (target.has_wgmma()) add_encoder(768, target, backend, seen, all);
  MachineCodeReader reader;
  compile_all(all, *backend, reader);
  std::set<std::string> kinds;
  int disassemblies = 0;
  for (const Choice& choice : all) {
    SCOPED_TRACE(
        fmt::format("{} {} {}", target.name, choice.region.name, to_string(choice.schedule)));
    ASSERT_EQ(choice.fault, "");
    expect_room(choice, target);
    expect_code(choice);
    kinds.insert(choice.schedule.name);
    disassemblies += choice.code.text.empty() ? 0 : 1;
  }
  RecordProperty("disassembled", disassemblies);
  RecordProperty("kernels", static_cast<int>(all.size()));
  for (const char* kind : {"map", "rows", "matmul_simt", "attention_mma", "attention_simt"})
    EXPECT_TRUE(kinds.contains(kind)) << kind;
  for (const char* kind : {"matmul_wgmma", "attention_wgmma"})
    EXPECT_EQ(kinds.contains(kind), target.has_wgmma()) << kind;
  EXPECT_NE(kinds.contains("matmul_mma"), target.has_wgmma());
  if (disassembler().empty())
    GTEST_SKIP()
        << "no nvdisasm: the instructions were not looked at (scripts/python_env.sh installs it)";
}

INSTANTIATE_TEST_SUITE_P(Parts, Encoders, ::testing::Values("a100", "h200", "b200"));

}  // namespace
}  // namespace anydim::codegen_cuda::testing
