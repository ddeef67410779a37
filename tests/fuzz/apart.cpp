#include "tests/fuzz/apart.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace anydim::tests {

namespace {

void write_all(int file, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t count = write(file, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) _exit(3);
    done += static_cast<std::size_t>(count);
  }
}

[[noreturn]] void fail(const char* what) {
  throw std::runtime_error(fmt::format("{}: {}", what, std::strerror(errno)));
}

}  // namespace

ApartResult run_apart(
    const std::function<void(const std::function<void(const std::string&)>& say)>& work,
    int seconds) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) fail("pipe");
  const pid_t child = fork();
  if (child < 0) fail("fork");
  if (child == 0) {
    close(ends[0]);
    try {
      work([&](const std::string& text) { write_all(ends[1], text); });
    } catch (const std::exception& error) {
      write_all(ends[1], error.what());
      _exit(1);
    }
    _exit(0);
  }
  close(ends[1]);
  ApartResult result;
  std::array<char, 4096> part{};
  while (true) {
    pollfd wait{.fd = ends[0], .events = POLLIN, .revents = 0};
    const int ready = poll(&wait, 1, seconds * 1000);
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) {
      kill(child, SIGKILL);
      result.death = "time limit";
      break;
    }
    const ssize_t count = read(ends[0], part.data(), part.size());
    if (count <= 0) break;
    result.said.append(part.data(), static_cast<std::size_t>(count));
  }
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!result.death.empty()) return result;
  if (WIFSIGNALED(status)) result.death = fmt::format("signal {}", WTERMSIG(status));
  else if (WEXITSTATUS(status) != 0)
    result.death = fmt::format("exit code {}", WEXITSTATUS(status));
  return result;
}

}  // namespace anydim::tests
