#include "runtime/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "ir/error.h"
#include "ir/huge_pages.h"

namespace anydim::runtime {

namespace {

constexpr std::size_t alignment = 64, most_of_heap = std::size_t{16} << 10;

std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

std::size_t page_bytes() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

std::byte* map_pages(std::size_t bytes, std::size_t wanted) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw Error(ErrorKind::Resource, "out of memory: a block of {} bytes was refused", wanted);
  return static_cast<std::byte*>(memory);
}

}  // namespace

MemoryBlock::MemoryBlock(std::size_t bytes) {
  if (bytes > SIZE_MAX / 4)
    throw Error(ErrorKind::Resource, "out of memory: a block of {} bytes", bytes);
  if (bytes <= most_of_heap) {
    bytes_ = round_up(std::max<std::size_t>(bytes, 1), alignment);
    data_ = static_cast<std::byte*>(std::aligned_alloc(alignment, bytes_));
    if (data_ == nullptr)
      throw Error(ErrorKind::Resource, "out of memory: a block of {} bytes was refused", bytes);
    return;
  }
  bytes_ = round_up(bytes, page_bytes());
  if (bytes_ < ir::huge_page) {
    data_ = map_pages(bytes_, bytes);
    return;
  }
  std::byte* mapped = map_pages(bytes_ + ir::huge_page, bytes);
  const std::size_t before = round_up(reinterpret_cast<std::uintptr_t>(mapped), ir::huge_page) -
                             reinterpret_cast<std::uintptr_t>(mapped);
  data_ = mapped + before;
  if (before > 0) munmap(mapped, before);
  if (before < ir::huge_page) munmap(data_ + bytes_, ir::huge_page - before);
  ir::ask_for_huge_pages(data_, bytes_);
}

MemoryBlock::~MemoryBlock() {
  if (bytes_ <= most_of_heap) std::free(data_);
  else munmap(data_, bytes_);
}

MemoryBlock::MemoryBlock(MemoryBlock&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

MemoryBlock& MemoryBlock::operator=(MemoryBlock&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

std::byte* GrowingMemory::reserve(std::size_t bytes) {
  if (bytes > block_.bytes()) {
    {
      const MemoryBlock old = std::move(block_);
    }
    block_ = MemoryBlock(bytes);
  }
  return block_.data();
}

void release_file_pages(const std::byte* begin, std::size_t bytes) {
  const std::size_t page = page_bytes();
  const std::uintptr_t low = round_up(reinterpret_cast<std::uintptr_t>(begin), page);
  const std::uintptr_t high = (reinterpret_cast<std::uintptr_t>(begin) + bytes) / page * page;
  if (low >= high) return;
  std::FILE* maps = std::fopen("/proc/self/maps", "re");
  if (maps == nullptr) return;
  char line[512];
  while (std::fgets(line, sizeof line, maps) != nullptr) {
    unsigned long from = 0, to = 0, offset = 0, inode = 0;
    unsigned major = 0, minor = 0;
    char access[5] = {};
    if (std::sscanf(line, "%lx-%lx %4s %lx %x:%x %lu", &from, &to, access, &offset, &major, &minor,
                    &inode) != 7)
      continue;
    const std::uintptr_t first = std::max<std::uintptr_t>(low, from),
                         last = std::min<std::uintptr_t>(high, to);
    // Dropping pages of anything that was ever writable would lose its contents.
    if (first < last && inode != 0 && access[1] != 'w')
      madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
  }
  std::fclose(maps);
}

}  // namespace anydim::runtime
