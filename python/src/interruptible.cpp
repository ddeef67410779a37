#include "python/src/interruptible.h"

#include <nanobind/nanobind.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "python/src/interpreter.h"

namespace nb = nanobind;

namespace anydim::python {

namespace {

constexpr std::chrono::milliseconds pause{20};  // until a signal is seen

}  // namespace

void interruptible(const std::function<void(const std::shared_ptr<Cancellation>&)>& work) {
  const auto cancellation = std::make_shared<Cancellation>();
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::exception_ptr thrown;
  std::optional<nb::python_error> raised;
  {
    nb::gil_scoped_release released;
    std::thread thread([&] {
      try {
        work(cancellation);
      } catch (...) {
        thrown = std::current_exception();
      }
      const std::lock_guard lock(mutex);
      done = true;
      changed.notify_one();
    });
    std::unique_lock lock(mutex);
    while (!changed.wait_for(lock, pause, [&] { return done; })) {
      if (raised) continue;
      lock.unlock();
      if (interpreter_ends()) {
        cancellation->cancel();
      } else {
        const nb::gil_scoped_acquire held;
        if (PyErr_CheckSignals() != 0) {
          raised.emplace();
          cancellation->cancel();
        }
      }
      lock.lock();
    }
    lock.unlock();
    thread.join();
  }
  if (raised) throw *std::move(raised);
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace anydim::python
