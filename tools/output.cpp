#include "tools/output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "api/anydim.h"

namespace anydim::tools {

namespace {

void put_exactly(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size())
    throw Error(ErrorKind::Write, "standard output cannot be written");
}

template <typename Json>
std::string line_of(const Json& value) {
  return value.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
}

}  // namespace

void hold_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free number is this one. A file opened for reading alone refuses what is written.
    if (::open("/dev/null", O_RDONLY) != stream) return;
  }
}

void put_text(std::string_view text) { put_exactly(ir::printable_lines(text)); }

void put_json(const nlohmann::json& value) { put_exactly(line_of(value)); }
void put_json(const nlohmann::ordered_json& value) { put_exactly(line_of(value)); }

void flush_output() {
  if (std::fflush(stdout) != 0) throw Error(ErrorKind::Write, "standard output cannot be written");
}

void complain(std::string_view text) { complain_exactly(ir::printable_lines(text)); }

void complain_exactly(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace anydim::tools
