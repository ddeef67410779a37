#include "runtime/guarded_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <utility>

#include "ir/error.h"

namespace anydim::runtime {

namespace {

constexpr std::size_t guard_bytes = std::size_t{1}
                                    << 20;  // on either side: strides of a matrix are smaller
constexpr std::size_t alignment = 64;
constexpr unsigned char pattern = 0xa5;

std::size_t rounded(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// Pages that are there but may not be touched are guards, sealed inputs or code; what is not there
// at all (a null pointer) is a crash as any other.
void on_fault(int signal, siginfo_t* what, void*) {
  if (what->si_code == SEGV_ACCERR) _exit(forbidden_access_exit);
  std::signal(signal, SIG_DFL);
  raise(signal);
}

}  // namespace

GuardedMemory::GuardedMemory(std::size_t bytes) : bytes_(bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  used_ = rounded(std::max<std::size_t>(bytes, 1), page);
  mapped_ = used_ + 2 * guard_bytes;
  void* mapped =
      mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED ||
      mprotect(static_cast<std::byte*>(mapped) + guard_bytes, used_, PROT_READ | PROT_WRITE) != 0) {
    if (mapped != MAP_FAILED) munmap(mapped, mapped_);
    throw Error(ErrorKind::Resource, "out of memory: {} bytes between guard pages", bytes);
  }
  base_ = static_cast<std::byte*>(mapped);
  // As near to the end as alignment lets it.
  data_ = base_ + guard_bytes + used_ - std::min(rounded(bytes, alignment), used_);
  std::memset(base_ + guard_bytes, pattern, used_);
  poison();
}

GuardedMemory::~GuardedMemory() {
  if (base_ != nullptr) munmap(base_, mapped_);
}

GuardedMemory::GuardedMemory(GuardedMemory&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)), data_(other.data_), bytes_(other.bytes_),
      used_(other.used_), mapped_(other.mapped_) {}

GuardedMemory& GuardedMemory::operator=(GuardedMemory&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(used_, other.used_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

void GuardedMemory::poison() { std::memset(data_, 0xff, bytes_); }

void GuardedMemory::forbid_writing() { mprotect(base_ + guard_bytes, used_, PROT_READ); }

bool GuardedMemory::unharmed() const {
  const auto whole = [](const std::byte* first, const std::byte* last) {
    return std::all_of(first, last, [](std::byte byte) { return byte == std::byte{pattern}; });
  };
  return whole(base_ + guard_bytes, data_) && whole(data_ + bytes_, base_ + guard_bytes + used_);
}

void exit_on_forbidden_access() {
  struct sigaction action{};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSEGV, &action, nullptr);
}

}  // namespace anydim::runtime
