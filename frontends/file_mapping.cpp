#include "frontends/file_mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "frontends/sizes.h"
#include "ir/error.h"

namespace anydim::frontends {

FileMapping::FileMapping(const FileDescriptor& descriptor, const std::filesystem::path& file) {
  struct stat status{};
  if (::fstat(descriptor.number(), &status) != 0) {
    throw Error(ErrorKind::Malformed, "cannot read {}: {}", quoted_name(file.string()),
                std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode)) {
    throw Error(ErrorKind::Malformed, "{} is not a regular file", quoted_name(file.string()));
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return;  // an empty mapping is refused by the kernel
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor.number(), 0);
  if (memory == MAP_FAILED) {
    throw Error(ErrorKind::Malformed, "cannot map {} into memory: {}", quoted_name(file.string()),
                std::strerror(errno));
  }
  bytes_ = {static_cast<const std::byte*>(memory), size};
}

FileMapping::~FileMapping() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

FileDescriptor open_file(const std::filesystem::path& file) {
  // Not blocking: opening a named pipe would otherwise wait for its writer before it can be
  // refused.
  FileDescriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!descriptor) {
    throw Error(ErrorKind::Malformed, "cannot open {}: {}", quoted_name(file.string()),
                std::strerror(errno));
  }
  return descriptor;
}

std::shared_ptr<const FileMapping> map_file(const std::filesystem::path& file) {
  return std::make_shared<const FileMapping>(open_file(file), file);
}

}  // namespace anydim::frontends
