#include "frontends/external_data.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "frontends/open_beneath.h"
#include "frontends/sizes.h"
#include "ir/error.h"

namespace anydim::frontends {

namespace {

// What a message starts with.
std::string subject(const std::string& tensor_name, const std::string& file) {
  return fmt::format("tensor {} has its data in the file {}", quoted_name(tensor_name),
                     quoted_name(file));
}

[[noreturn]] void refuse(const std::string& tensor_name, const std::string& file,
                         const std::string& reason) {
  throw Error(ErrorKind::Malformed, "{}{}", subject(tensor_name, file), reason);
}

bool has_parent_component(std::string_view path) {
  for (;;) {
    const std::size_t slash = path.find('/');
    if (path.substr(0, slash) == "..") return true;
    if (slash == std::string_view::npos) return false;
    path.remove_prefix(slash + 1);
  }
}

void check_name(const std::string& tensor_name, const std::string& file) {
  if (file.empty())
    throw Error(ErrorKind::Malformed, "tensor {} names no data file", quoted_name(tensor_name));
  if (file.find('\0') != std::string::npos)
    refuse(tensor_name, file, ", whose name holds a zero byte");
  if (file.front() == '/') {
    refuse(tensor_name, file, ", an absolute path; only files inside the model's folder are read");
  }
  if (has_parent_component(file)) {
    refuse(tensor_name, file, ", a path with '..'; only files inside the model's folder are read");
  }
}

FileDescriptor open_data_file(const std::string& tensor_name, const std::string& file,
                              const std::filesystem::path& folder) {
  const std::filesystem::path base = folder.empty() ? "." : folder;
  const FileDescriptor directory(::open(base.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) {
    refuse(tensor_name, file,
           fmt::format(", but the model's folder {} cannot be opened: {}",
                       quoted_name(base.string()), std::strerror(errno)));
  }
  FileDescriptor descriptor = open_beneath(directory, file);
  if (!descriptor) {
    if (errno == EXDEV) refuse(tensor_name, file, ", a link that leaves the model's folder");
    if (errno == ENOENT) {
      refuse(tensor_name, file,
             fmt::format(", which is missing: expected it at {}, beside the model",
                         quoted_name((base / file).string())));
    }
    refuse(tensor_name, file, fmt::format(", which cannot be opened: {}", std::strerror(errno)));
  }
  struct stat status{};
  if (::fstat(descriptor.number(), &status) != 0) {
    refuse(tensor_name, file, fmt::format(", which cannot be read: {}", std::strerror(errno)));
  }
  if (!S_ISREG(status.st_mode)) refuse(tensor_name, file, ", which is not a regular file");
  if (status.st_nlink > 1) {
    refuse(tensor_name, file,
           fmt::format(
               ", which has {} hard links; it may belong to another folder, so copy it instead",
               static_cast<std::uint64_t>(status.st_nlink)));
  }
  return descriptor;
}

}  // namespace

const std::shared_ptr<const FileMapping>& ExternalData::mapping(const std::string& tensor_name,
                                                                const std::string& file) {
  auto found = mappings_.find(file);
  if (found != mappings_.end()) return found->second;
  check_name(tensor_name, file);
  if (!folder_)
    refuse(tensor_name, file, ", but the model was read from memory, without a folder to look in");
  const FileDescriptor descriptor = open_data_file(tensor_name, file, *folder_);
  return mappings_.emplace(file, std::make_shared<const FileMapping>(descriptor, *folder_ / file))
      .first->second;
}

ir::Tensor ExternalData::load(const std::string& tensor_name, ir::DType dtype,
                              std::vector<std::int64_t> dims, const ExternalLocation& location) {
  const std::int64_t needed = tensor_bytes(tensor_name, dtype, dims);
  const std::int64_t length = location.length.value_or(needed);
  if (length != needed) {
    refuse(tensor_name, location.file,
           fmt::format(", {} bytes by the model, but {} {} needs {}", length, ir::name_of(dtype),
                       dims_text(dims), needed));
  }
  if (location.offset < 0)
    refuse(tensor_name, location.file, fmt::format(" at the negative offset {}", location.offset));
  const auto& file = mapping(tensor_name, location.file);
  const auto size = static_cast<std::int64_t>(file->bytes().size());
  if (location.offset > size || length > size - location.offset) {
    refuse(tensor_name, location.file,
           fmt::format(", {} bytes from offset {}, but the file ends at {}", length,
                       location.offset, size));
  }
  const auto bytes = file->bytes().subspan(static_cast<std::size_t>(location.offset),
                                           static_cast<std::size_t>(length));
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % ir::size_of(dtype) != 0) {
    ir::Tensor copy(dtype, std::move(dims));
    std::memcpy(copy.mutable_bytes().data(), bytes.data(), bytes.size());
    check_bools(copy, fmt::format("tensor {}", quoted_name(tensor_name)));
    return copy;
  }
  ir::Tensor mapped(dtype, std::move(dims), bytes, file,
                    ir::TensorOrigin{location.file, location.offset, length, {}});
  check_bools(mapped, fmt::format("tensor {}", quoted_name(tensor_name)));
  return mapped;
}

}  // namespace anydim::frontends
