// An open file that closes itself.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <span>
#include <utility>

namespace anydim::ir {

class FileDescriptor {
 public:
  FileDescriptor() = default;  // of none
  explicit FileDescriptor(int number) : number_(number) {}
  ~FileDescriptor() {
    if (number_ >= 0) close(number_);
  }
  FileDescriptor(FileDescriptor&& other) noexcept : number_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }

  explicit operator bool() const { return number_ >= 0; }
  int number() const { return number_; }
  int release() { return std::exchange(number_, -1); }
  bool close_checked() {
    return close(release()) == 0;
  }  // some file systems report a failed write only here

 private:
  int number_ = -1;
};

// False with errno set where the system fails, or (errno 0) where a file ends early.
inline bool read_all(const FileDescriptor& file, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    errno = 0;
    const ssize_t got = read(file.number(), bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
  return true;
}

inline bool write_all(const FileDescriptor& file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = write(file.number(), bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
  return true;
}

}  // namespace anydim::ir
