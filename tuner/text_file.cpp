#include "tuner/text_file.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <span>
#include <system_error>

#include "ir/error.h"
#include "runtime/file_descriptor.h"

namespace anydim::tuner {

std::string read_text_file(const std::filesystem::path& file) {
  const auto malformed = [&](const std::string& why) { return Error(ErrorKind::Malformed, fmt::format("{}: {}", file.string(), why)); };
  std::error_code fault;
  const auto status = std::filesystem::status(file, fault);
  if (!std::filesystem::exists(status))
    throw malformed(fault && fault != std::errc::no_such_file_or_directory ? "cannot be opened: " + fault.message()
                                                                           : "there is no such file");
  if (!std::filesystem::is_regular_file(status)) throw malformed("this is no regular file");
  const runtime::FileDescriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!descriptor) throw malformed(fmt::format("cannot be opened: {}", std::strerror(errno)));
  const std::uintmax_t size = std::filesystem::file_size(file, fault);
  if (fault) throw malformed(fmt::format("cannot be read: {}", fault.message()));
  if (size > longest_text_file) throw malformed(fmt::format("its {} bytes are more than {}", size, longest_text_file));
  std::string text(size, '\0');
  if (!runtime::read_all(descriptor, std::as_writable_bytes(std::span(text))))
    throw malformed(fmt::format("cannot be read: {}", errno == 0 ? "it became shorter" : std::strerror(errno)));
  return text;
}

}  // namespace anydim::tuner
