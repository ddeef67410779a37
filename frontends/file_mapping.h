// Files mapped into memory, read-only and private.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

#include "ir/file_descriptor.h"

namespace anydim::frontends {

using ir::FileDescriptor;

// The bytes of one whole file. They stay valid while the mapping lives; the file may be closed or
// unlinked meanwhile.
class FileMapping {
 public:
  // `file` is only for messages. Throws Error{Malformed} where the descriptor is no regular file or
  // cannot be mapped.
  FileMapping(const FileDescriptor& descriptor, const std::filesystem::path& file);
  FileMapping(const FileMapping&) = delete;
  FileMapping& operator=(const FileMapping&) = delete;
  ~FileMapping();
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

// Opens a file that the user named, for reading. Throws Error{Malformed} naming it.
FileDescriptor open_file(const std::filesystem::path& file);
// Opens and maps a file that the user named. Throws Error{Malformed} naming it where it is missing,
// unreadable or no regular file.
std::shared_ptr<const FileMapping> map_file(const std::filesystem::path& file);

}  // namespace anydim::frontends
