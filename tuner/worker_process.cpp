#include "tuner/worker_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "ir/error.h"
#include "tuner/json.h"

extern char** environ;

namespace anydim::tuner {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int asked_every_ms = 100;

Error cannot_start(const std::string& program, int fault) {
  return Error(ErrorKind::Resource, "the measuring process {} cannot be started: {}", program,
               std::strerror(fault));
}

struct Pipe {
  int read = -1, write = -1;
};
Pipe make_pipe(const std::string& program) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw cannot_start(program, errno);
  return {ends[0], ends[1]};
}

// False: the other end is gone. A worker that has died must not take this process with it by
// SIGPIPE.
bool send(int descriptor, std::string_view text) {
  sigset_t pipe_signal, before;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
  bool sent = true;
  while (!text.empty() && sent) {
    const ssize_t put = write(descriptor, text.data(), text.size());
    if (put > 0) text.remove_prefix(static_cast<std::size_t>(put));
    else if (errno != EINTR) sent = false;
  }
  const timespec now{};
  while (!sent && sigtimedwait(&pipe_signal, nullptr, &now) > 0) {
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return sent;
}

}  // namespace

WorkerProcess::WorkerProcess(std::vector<std::string> command, std::string log)
    : command_(std::move(command)), log_(std::move(log)) {
  internal_check(!command_.empty(), "a worker is a program with arguments");
}

WorkerProcess::~WorkerProcess() { stop(); }

void WorkerProcess::start() {
  if (running()) return;
  const Pipe in = make_pipe(command_[0]), out = make_pipe(command_[0]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.read, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out.write, STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO,
                                   log_.empty() ? "/dev/null" : log_.c_str(),
                                   O_WRONLY | O_CREAT | O_APPEND, 0644);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // A group of its own: an interrupt from the keyboard is for the parent, which lets the worker end
  // its case.
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);
  std::vector<char*> arguments;
  for (std::string& word : command_) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const int fault = posix_spawnp(&process_, command_[0].c_str(), &actions, &attributes,
                                 arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  close(in.read);
  close(out.write);
  if (fault != 0) {
    process_ = -1;
    close(in.write);
    close(out.read);
    throw cannot_start(command_[0], fault);
  }
  input_ = in.write;
  output_ = out.read;
  rest_.clear();
  ++starts_;
}

void WorkerProcess::stop() {
  if (!running()) return;
  kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
  close(input_);
  close(output_);
  process_ = -1;
}

CaseEnd WorkerProcess::run(const nlohmann::json& wanted, const CaseLimits& limits,
                           const std::function<bool()>& stopped) {
  start();
  CaseEnd end;
  send(input_, wanted.dump() + "\n");  // where it has died, its end of output says so
  bool begun = false;
  auto deadline = Clock::now() + std::chrono::duration<double>(limits.first_seconds);
  for (;;) {
    for (std::size_t newline = rest_.find('\n'); newline != std::string::npos;
         newline = rest_.find('\n')) {
      const nlohmann::json said = parse_json(std::string_view(rest_).substr(0, newline));
      rest_.erase(0, newline + 1);
      if (!said.is_object()) continue;
      if (said.contains("begin") && said["begin"] == wanted["id"]) begun = true;
      if (!begun) continue;
      if (said.contains("at") && said.value("id", nlohmann::json()) == wanted["id"] &&
          !end.staged) {
        end.staged = true;
        deadline = Clock::now() + std::chrono::duration<double>(limits.then_seconds);
      }
      if (said.contains("end") && said["end"] == wanted["id"]) {
        end.said = said;
        return end;
      }
    }
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    const bool over = left <= 0;
    if (over || (stopped && stopped())) {
      end.status = over ? CaseEnd::Status::Hung : CaseEnd::Status::Stopped;
      stop();
      return end;
    }
    pollfd wait{output_, POLLIN, 0};
    if (poll(&wait, 1, static_cast<int>(std::min<long long>(left, asked_every_ms))) <= 0) continue;
    char piece[65536];
    const ssize_t got = read(output_, piece, sizeof piece);
    if (got > 0) {
      rest_.append(piece, static_cast<std::size_t>(got));
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    // Its output ended: so has it, or nearly.
    end.status = CaseEnd::Status::Died;
    int status = 0;
    kill(process_, SIGTERM);  // one that only closed its output
    while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status)) end.exit_code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
    close(input_);
    close(output_);
    process_ = -1;
    return end;
  }
}

}  // namespace anydim::tuner
