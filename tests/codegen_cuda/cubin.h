// What a cubin holds, for tests: registers of its entries, and its instructions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace anydim::codegen_cuda::testing {

// Registers of a thread, by entry, from the records that the assembler leaves in the section
// .nv.info. Throws std::runtime_error for what is no 64-bit ELF file.
std::map<std::string, std::int64_t> registers_of_entries(std::span<const std::byte> cubin);

// The environment's ANYDIM_NVDISASM, which the build found; empty where it found none.
std::string disassembler();

// Reads machine code of one architecture. A disassembly costs more than a compilation, so a cubin
// is only disassembled where it holds an operation (the low 12 bits of an instruction, which name
// it but for its modifiers) that no earlier one had. Safe to share between threads.
class MachineCodeReader {
 public:
  struct Code {
    std::set<std::string>
        operations;    // names without modifiers, "HGMMA"; empty where there is no disassembler
    std::string text;  // the instructions, as nvdisasm prints them, where they were disassembled
  };
  // `whole`: disassembled in any case. Throws std::runtime_error for what is no cubin, and where a
  // disassembler does not read it.
  Code read(std::span<const std::byte> cubin, bool whole);

 private:
  std::mutex mutex_;
  std::map<std::uint16_t, std::set<std::string>> names_;  // of operations seen
};

// The instructions of each loop of a disassembly, from where its last one branches to on, innermost
// loops first.
std::vector<std::vector<std::string>> loops_of(const std::string& text);

}  // namespace anydim::codegen_cuda::testing
