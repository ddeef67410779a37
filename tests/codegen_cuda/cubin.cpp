#include "tests/codegen_cuda/cubin.h"

#include <elf.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace anydim::codegen_cuda::testing {

namespace {

template <class T>
T read_at(std::span<const std::byte> bytes, std::uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T))
    throw std::runtime_error("a cubin ends within a header");
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::string text_at(std::span<const std::byte> bytes, std::uint64_t offset) {
  std::string text;
  while (const char c = read_at<char>(bytes, offset + text.size())) text += c;
  return text;
}

// Visits the headers of the file's sections, each with its name.
template <class Visit>
void for_sections(std::span<const std::byte> cubin, const Visit& visit) {
  const auto header = read_at<Elf64_Ehdr>(cubin, 0);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64)
    throw std::runtime_error("a cubin is a 64-bit ELF file");
  const auto section = [&](std::uint64_t index) {
    return read_at<Elf64_Shdr>(cubin, header.e_shoff + index * header.e_shentsize);
  };
  const Elf64_Shdr names = section(header.e_shstrndx);
  for (std::uint64_t i = 0; i < header.e_shnum; ++i)
    visit(section(i), text_at(cubin, names.sh_offset + section(i).sh_name), section);
}

// The low 12 bits of its instructions, which are 16 bytes long.
std::set<std::uint16_t> operations_of(std::span<const std::byte> cubin) {
  std::set<std::uint16_t> operations;
  for_sections(cubin, [&](const Elf64_Shdr& section, const std::string& name, const auto&) {
    if (!name.starts_with(".text.")) return;
    for (std::uint64_t at = 0; at + 16 <= section.sh_size; at += 16)
      operations.insert(read_at<std::uint16_t>(cubin, section.sh_offset + at) & 0xfff);
  });
  return operations;
}

std::string disassembled(std::span<const std::byte> cubin) {
  static std::atomic<int> number{0};
  const auto path = std::filesystem::temp_directory_path() /
                    fmt::format("anydim_{}_{}.cubin", getpid(), ++number);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(cubin.data()),
             static_cast<std::streamsize>(cubin.size()));
  std::string text;
  bool read_all = false;
  if (FILE* pipe =
          popen(fmt::format("'{}' -c -hex '{}'", disassembler(), path.string()).c_str(), "r")) {
    char buffer[1 << 16];
    while (const std::size_t read = fread(buffer, 1, sizeof buffer, pipe))
      text.append(buffer, read);
    read_all = pclose(pipe) == 0;
  }
  std::filesystem::remove(path);
  if (!read_all || text.empty())
    throw std::runtime_error(
        fmt::format("{} does not read the kernel's machine code", disassembler()));
  return text;
}

// A line "/*0040*/  @!P0 LDG.E R5, desc[UR4][R2.64] ;  /* 0x0000080402058981 */" gives 0x981 and
// "LDG". Empty name: no instruction.
std::pair<std::uint16_t, std::string> operation_of(std::string_view line) {
  const std::size_t place = line.find("*/"), word = line.rfind("/* 0x");
  if (line.find("/*") == std::string_view::npos || word == std::string_view::npos || word <= place)
    return {};
  std::string_view text = line.substr(place + 2, word - place - 2);
  const auto skip_blanks = [&] {
    text.remove_prefix(std::min(text.find_first_not_of(" \t{"), text.size()));
  };
  skip_blanks();
  if (text.starts_with('@')) {
    text.remove_prefix(std::min(text.find(' '), text.size()));
    skip_blanks();
  }
  const std::string name(text.substr(0, text.find_first_of(". ;,")));
  const std::uint64_t bits = std::stoull(std::string(line.substr(word + 3)), nullptr, 16);
  return {static_cast<std::uint16_t>(bits & 0xfff), name};
}

}  // namespace

std::map<std::string, std::int64_t> registers_of_entries(std::span<const std::byte> cubin) {
  std::map<std::string, std::int64_t> registers;
  for_sections(cubin, [&](const Elf64_Shdr& notes, const std::string& name, const auto& section) {
    if (name != ".nv.info") return;
    const Elf64_Shdr symbols = section(notes.sh_link), strings = section(symbols.sh_link);
    // A record is a format, an attribute and 16 bits: a value, or in format 4 the size of what
    // follows.
    constexpr std::uint8_t sized = 4, register_count = 0x2f;
    for (std::uint64_t at = 0; at + 4 <= notes.sh_size;) {
      const std::uint64_t record = notes.sh_offset + at;
      const std::uint64_t size = read_at<std::uint8_t>(cubin, record) == sized
                                     ? read_at<std::uint16_t>(cubin, record + 2)
                                     : 0;
      at += 4 + size;
      if (read_at<std::uint8_t>(cubin, record + 1) != register_count) continue;
      const auto symbol =
          read_at<Elf64_Sym>(cubin, symbols.sh_offset + read_at<std::uint32_t>(cubin, record + 4) *
                                                            symbols.sh_entsize);
      registers[text_at(cubin, strings.sh_offset + symbol.st_name)] =
          read_at<std::uint32_t>(cubin, record + 8);
    }
  });
  return registers;
}

std::string disassembler() {
  const char* path = std::getenv("ANYDIM_NVDISASM");
  return path == nullptr ? "" : path;
}

MachineCodeReader::Code MachineCodeReader::read(std::span<const std::byte> cubin, bool whole) {
  const std::set<std::uint16_t> operations = operations_of(cubin);
  if (disassembler().empty()) return {};
  const auto is_known = [&](std::uint16_t operation) { return names_.contains(operation); };
  Code code;
  {
    const std::lock_guard lock(mutex_);
    whole = whole || !std::ranges::all_of(operations, is_known);
  }
  if (whole) code.text = disassembled(cubin);
  const std::lock_guard lock(mutex_);
  for (std::string_view rest = code.text; !rest.empty();
       rest.remove_prefix(std::min(rest.find('\n') + 1, rest.size()))) {
    const auto [operation, name] = operation_of(rest.substr(0, rest.find('\n')));
    if (!name.empty()) names_[operation].insert(name);
  }
  for (const std::uint16_t operation : operations) {
    const auto known = names_.find(operation);
    if (known == names_.end())
      throw std::runtime_error(
          fmt::format("the disassembler names no instruction {:#05x}", operation));
    code.operations.insert(known->second.begin(), known->second.end());
  }
  return code;
}

std::vector<std::vector<std::string>> loops_of(const std::string& text) {
  static const std::regex label(R"(^(\.L_\w+):)"), instruction(R"(/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;)"),
      branch(R"(BRA.*`\((\.L_\w+)\))");
  std::map<std::string, std::size_t> places;
  std::vector<std::string> instructions;
  std::vector<std::vector<std::string>> loops;
  std::istringstream lines(text);
  std::smatch match;
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_search(line, match, label)) places[match[1]] = instructions.size();
    if (!std::regex_search(line, match, instruction)) continue;
    instructions.push_back(match[1]);
    const std::string last = instructions.back();
    if (!std::regex_search(last, match, branch)) continue;
    if (const auto place = places.find(match[1]); place != places.end())
      loops.emplace_back(instructions.begin() + static_cast<std::ptrdiff_t>(place->second),
                         instructions.end());
  }
  std::ranges::sort(loops, {}, &std::vector<std::string>::size);
  return loops;
}

}  // namespace anydim::codegen_cuda::testing
