#include "tuner/text_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <span>
#include <system_error>

#include "ir/file_descriptor.h"

namespace anydim::tuner {

std::string read_text_file(const std::filesystem::path& file) {
  const auto malformed = [&](const std::string& why) {
    return Error(ErrorKind::Malformed, "{}: {}", file.string(), why);
  };
  std::error_code fault;
  const auto status = std::filesystem::status(file, fault);
  if (!std::filesystem::exists(status))
    throw malformed(fault && fault != std::errc::no_such_file_or_directory
                        ? "cannot be opened: " + fault.message()
                        : "there is no such file");
  if (!std::filesystem::is_regular_file(status)) throw malformed("this is no regular file");
  const ir::FileDescriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!descriptor) throw malformed(fmt::format("cannot be opened: {}", std::strerror(errno)));
  const std::uintmax_t size = std::filesystem::file_size(file, fault);
  if (fault) throw malformed(fmt::format("cannot be read: {}", fault.message()));
  if (size > longest_text_file)
    throw malformed(fmt::format("its {} bytes are more than {}", size, longest_text_file));
  std::string text(size, '\0');
  if (!ir::read_all(descriptor, std::as_writable_bytes(std::span(text))))
    throw malformed(
        fmt::format("cannot be read: {}", errno == 0 ? "it became shorter" : std::strerror(errno)));
  return text;
}

Error cannot_write(const std::filesystem::path& file) {
  return {ErrorKind::Write,
          fmt::format("{}: cannot be written: {}", file.string(), std::strerror(errno))};
}

bool replaceable_file_exists(const std::filesystem::path& file) {
  std::error_code fault;
  const auto status = std::filesystem::status(file, fault);
  if (!std::filesystem::exists(status)) return false;
  if (!std::filesystem::is_regular_file(status))
    throw Error(ErrorKind::Write, "{}: cannot be written: it is no regular file", file.string());
  return true;
}

void write_text_file(const std::filesystem::path& file, std::string_view text) {
  static_cast<void>(replaceable_file_exists(file));
  const std::filesystem::path temporary = file.string() + fmt::format(".{}.tmp", getpid());
  const auto give_up = [&](const Error& error) {
    unlink(temporary.c_str());
    return error;
  };
  {
    const ir::FileDescriptor descriptor(
        open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!descriptor) throw cannot_write(file);
    if (!ir::write_all(descriptor, std::as_bytes(std::span(text))) ||
        fsync(descriptor.number()) != 0)
      throw give_up(cannot_write(file));
  }
  if (rename(temporary.c_str(), file.c_str()) != 0) throw give_up(cannot_write(file));
}

}  // namespace anydim::tuner
