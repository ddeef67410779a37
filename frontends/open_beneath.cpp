#include "frontends/open_beneath.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

namespace anydim::frontends {

namespace {

constexpr int file_flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;

}  // namespace

FileDescriptor open_beneath(const FileDescriptor& folder, const std::string& relative) {
  open_how how{};
  how.flags = file_flags;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  // The kernel answers EAGAIN when a rename raced with the walk; a folder that is renamed without
  // end is the user's to stop.
  constexpr int attempts = 16;
  for (int attempt = 0; attempt < attempts; ++attempt) {
    const long number =
        ::syscall(SYS_openat2, folder.number(), relative.c_str(), &how, sizeof(how));
    if (number >= 0) return FileDescriptor(static_cast<int>(number));
    // A sandbox that does not know the call answers EPERM instead of ENOSYS.
    if (errno == ENOSYS || errno == EPERM) return open_without_links(folder, relative);
    if (errno != EAGAIN) break;
  }
  return {};
}

FileDescriptor open_without_links(const FileDescriptor& folder, const std::string& relative) {
  FileDescriptor holder;
  int base = folder.number();
  std::string_view rest = relative;
  for (;;) {
    const std::size_t slash = rest.find('/');
    const std::string component(rest.substr(0, slash));
    const bool last = slash == std::string_view::npos;
    FileDescriptor next(::openat(base, component.empty() ? "." : component.c_str(),
                                 file_flags | O_NOFOLLOW | (last ? 0 : O_DIRECTORY)));
    if (last || !next) return next;
    holder = std::move(next);
    base = holder.number();
    rest.remove_prefix(slash + 1);
  }
}

}  // namespace anydim::frontends
