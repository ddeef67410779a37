#include "runtime/code_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "ir/error.h"

namespace anydim::runtime {

CodeMemory::CodeMemory(std::span<const std::byte> code) {
  internal_check(!code.empty(), "a kernel has code");
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  bytes_ = (code.size() + page - 1) / page * page;
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw Error(ErrorKind::Resource, "out of memory: {} bytes for a kernel's code", bytes_);
  }
  std::memcpy(memory, code.data(), code.size());
  if (mprotect(memory, bytes_, PROT_READ | PROT_EXEC) != 0) {
    const int reason = errno;
    munmap(memory, bytes_);
    throw Error(ErrorKind::Resource,
                "the system does not let this process run code that it generated: {}",
                std::generic_category().message(reason));
  }
  address_ = static_cast<std::byte*>(memory);
}

CodeMemory::~CodeMemory() { munmap(address_, bytes_); }

}  // namespace anydim::runtime
