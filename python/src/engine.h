// A compiled model and the contexts that threads call it through. Nothing here is Python's but the
// signals that end a call.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "api/anydim.h"
#include "python/src/errors.h"

namespace anydim::python {

// options as api/option_text.h has them
using Words = std::vector<std::pair<std::string, std::string>>;

// By the user's own tuning database where none is named. Throws Error{CommandLine}.
CompileOptions options_of(const Words& words);

// For cancellations: Python has a signal to handle, whose exception is raised then, or the
// interpreter ends. Without the GIL.
bool signal_raised();

class Engine {
 public:
  // Interruptible. Warns `level` frames of Python up. Throws what loading and compiling throw.
  static std::shared_ptr<Engine> compile(std::function<ir::Module()> load, const Words& options,
                                         int level);

  const Model& model() const { return *model_; }
  WarningList& warnings() { return *warnings_; }
  // Inputs of layouts that kernels do not read are copied; these are those of all calls.
  void count_copied_input() { ++copied_inputs_; }
  std::int64_t copied_inputs() const { return copied_inputs_; }
  bool made_here() const;  // false in a child that was forked from the process that made it
  // Interruptible where it compiles. Throws Error{Unsupported}.
  std::shared_ptr<const RaggedProgram> ragged();

  // Waits for the calls under way of contexts that no call has, and throws what the first that
  // failed came to. With the GIL, which is released meanwhile.
  void synchronize();

  // With the GIL, which is released while the call runs, on a context that no other call has.
  // Ctrl-C and `cancellation` (null: none) end it between two launches.
  std::vector<ir::Tensor> call(const std::function<std::vector<ir::Tensor>(ModelContext&)>& work,
                               std::shared_ptr<Cancellation> cancellation);

 private:
  Engine() = default;
  struct Seat {
    std::unique_ptr<ModelContext> context;
    std::shared_ptr<Cancellation> signals;
  };
  Seat take();
  void give_back(Seat seat);

  // which background work may outlive
  std::shared_ptr<WarningList> warnings_ = std::make_shared<WarningList>();
  std::shared_ptr<const Model> model_;
  pid_t process_ = 0;
  std::atomic<std::int64_t> copied_inputs_ = 0;
  std::mutex mutex_;
  std::vector<Seat> idle_;
};

}  // namespace anydim::python
