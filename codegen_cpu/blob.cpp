#include "codegen_cpu/blob.h"

#include <elf.h>
#include <fmt/format.h>

#include <cstring>
#include <limits>
#include <optional>

#include "ir/error.h"

namespace anydim::codegen_cpu {

namespace {

[[noreturn]] void refuse(const std::string& why) {
  throw Error(
      ErrorKind::Internal,
      "internal error: generated code cannot become a blob: {}; please report this as a bug", why);
}

class Linker {
 public:
  explicit Linker(std::span<const std::byte> object) : object_(object) {
    const auto header = read<Elf64_Ehdr>(0);
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_machine != EM_X86_64 ||
        header.e_type != ET_REL) {
      refuse("the object is not relocatable x86-64 ELF");
    }
    for (std::size_t i = 0; i < header.e_shnum; ++i)
      sections_.push_back(read<Elf64_Shdr>(header.e_shoff + i * sizeof(Elf64_Shdr)));
    names_ = header.e_shstrndx;
  }

  Blob link(std::span<const std::string> entries) {
    place_sections();
    for (const Elf64_Shdr& section : sections_) {
      if (section.sh_type != SHT_RELA || section.sh_info >= sections_.size() ||
          !offsets_[section.sh_info])
        continue;
      for (std::uint64_t at = 0; at < section.sh_size; at += sizeof(Elf64_Rela)) {
        relocate(read<Elf64_Rela>(section.sh_offset + at), section.sh_link,
                 *offsets_[section.sh_info]);
      }
    }
    for (const std::string& entry : entries) blob_.entry_offsets.push_back(find_entry(entry));
    return std::move(blob_);
  }

 private:
  template <typename T>
  T read(std::uint64_t offset) const {
    if (offset > object_.size() || object_.size() - offset < sizeof(T))
      refuse("the object is truncated");
    T value;
    std::memcpy(&value, object_.data() + offset, sizeof(T));
    return value;
  }

  std::string text_at(std::size_t table, std::uint64_t offset) const {
    std::string text;
    for (std::uint64_t at = sections_.at(table).sh_offset + offset;; ++at) {
      const char c = read<char>(at);
      if (c == 0) return text;
      text += c;
    }
  }

  void place_sections() {
    offsets_.resize(sections_.size());
    // Code first, constants behind it; unwind tables are not made and would not be needed.
    for (const bool code : {true, false}) {
      for (std::size_t i = 0; i < sections_.size(); ++i) {
        const Elf64_Shdr& section = sections_[i];
        if ((section.sh_flags & SHF_ALLOC) == 0 || section.sh_size == 0) continue;
        if (((section.sh_flags & SHF_EXECINSTR) != 0) != code) continue;
        if ((section.sh_flags & SHF_WRITE) != 0 || section.sh_type == SHT_NOBITS) {
          refuse(fmt::format("section {} is writable", text_at(names_, section.sh_name)));
        }
        const std::size_t alignment = std::max<std::uint64_t>(section.sh_addralign, 1);
        const std::size_t offset = (blob_.bytes.size() + alignment - 1) / alignment * alignment;
        if (section.sh_offset > object_.size() ||
            object_.size() - section.sh_offset < section.sh_size)
          refuse("the object is truncated");
        blob_.bytes.resize(offset + section.sh_size);
        std::memcpy(blob_.bytes.data() + offset, object_.data() + section.sh_offset,
                    section.sh_size);
        offsets_[i] = offset;
        if (code) blob_.code_bytes += static_cast<std::int64_t>(section.sh_size);
      }
    }
  }

  std::int64_t address(const Elf64_Sym& symbol, const std::string& name) const {
    if (symbol.st_shndx == SHN_UNDEF) refuse(fmt::format("symbol {} is undefined", name));
    if (symbol.st_shndx >= sections_.size() || !offsets_[symbol.st_shndx])
      refuse(fmt::format("symbol {} is not in a placed section", name));
    return static_cast<std::int64_t>(*offsets_[symbol.st_shndx] + symbol.st_value);
  }

  void relocate(const Elf64_Rela& relocation, std::size_t symbol_table, std::size_t base) {
    const auto symbol = read<Elf64_Sym>(sections_.at(symbol_table).sh_offset +
                                        ELF64_R_SYM(relocation.r_info) * sizeof(Elf64_Sym));
    const std::string name = text_at(sections_[symbol_table].sh_link, symbol.st_name);
    const std::int64_t target = address(symbol, name) + relocation.r_addend;
    const auto place = static_cast<std::int64_t>(base + relocation.r_offset);
    const std::int64_t distance = target - place;
    std::size_t width = 0;
    switch (ELF64_R_TYPE(relocation.r_info)) {
      case R_X86_64_PC32:
      case R_X86_64_PLT32: width = 4; break;
      case R_X86_64_PC64: width = 8; break;
      default:
        refuse(fmt::format("relocation type {} against {} depends on the load address",
                           ELF64_R_TYPE(relocation.r_info), name));
    }
    if (width == 4 && (distance < std::numeric_limits<std::int32_t>::min() ||
                       distance > std::numeric_limits<std::int32_t>::max())) {
      refuse(fmt::format("symbol {} is too far away", name));
    }
    if (place < 0 || static_cast<std::size_t>(place) + width > blob_.bytes.size())
      refuse("a relocation lies outside its section");
    std::memcpy(blob_.bytes.data() + place, &distance, width);
  }

  std::int64_t find_entry(const std::string& entry) const {
    for (const Elf64_Shdr& section : sections_) {
      if (section.sh_type != SHT_SYMTAB) continue;
      for (std::uint64_t at = 0; at < section.sh_size; at += sizeof(Elf64_Sym)) {
        const auto symbol = read<Elf64_Sym>(section.sh_offset + at);
        if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC &&
            text_at(section.sh_link, symbol.st_name) == entry)
          return address(symbol, entry);
      }
    }
    refuse(fmt::format("the object has no symbol {}", entry));
  }

  std::span<const std::byte> object_;
  std::vector<Elf64_Shdr> sections_;
  std::vector<std::optional<std::size_t>> offsets_;  // in the blob
  std::size_t names_ = 0;
  Blob blob_;
};

}  // namespace

Blob link_blob(std::span<const std::byte> object, std::span<const std::string> entries) {
  return Linker(object).link(entries);
}

}  // namespace anydim::codegen_cpu
