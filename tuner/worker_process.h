// A measuring process that may be lost at any time: started afresh, told cases as lines of JSON,
// watched by this process's clock alone.
//
// The protocol is that of bench/campaign/worker.py: for every case the worker says {"begin": ID},
// perhaps {"at": STAGE, "id": ID}, and {"end": ID, ...}. Lines that are no JSON object are a
// library's chatter.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace anydim::tuner {

struct CaseLimits {
  double first_seconds =
      30;                    // until it says {"at": ...}; a case that never says so has these alone
  double then_seconds = 30;  // from there on
};

struct CaseEnd {
  enum class Status : std::uint8_t { Ended, Hung, Died, Stopped };
  Status status = Status::Ended;
  nlohmann::json said{};  // of {"end": ...}
  bool staged = false;    // it had said {"at": ...}
  int exit_code = -1;     // Died: of a process that exited
  int signal = 0;         // Died: that ended it
};

class WorkerProcess {
 public:
  // `command`: program and arguments; it is executed, never forked to go on. Standard error of
  // workers goes to `log` (a file that is appended to), or nowhere.
  explicit WorkerProcess(std::vector<std::string> command, std::string log = {});
  ~WorkerProcess();  // kills it
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  bool running() const { return process_ > 0; }
  // Throws Error{Resource} where no process can be started.
  void start();
  void stop();
  // Starts the process where it isn't there. After Hung, Died and Stopped it is gone. `stop`: asked
  // several times a second; true ends the case.
  CaseEnd run(const nlohmann::json& wanted, const CaseLimits& limits,
              const std::function<bool()>& stop = {});

  int starts() const { return starts_; }

 private:
  std::vector<std::string> command_;
  std::string log_;
  pid_t process_ = -1;
  int input_ = -1, output_ = -1;
  std::string rest_;
  int starts_ = 0;
};

}  // namespace anydim::tuner
