// What the launches of a call have to do at least, told while it runs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/context.h"
#include "tuner/roofline.h"

namespace anydim::tuner {

// Launches of a session's calls are told of while this lives.
class Observing {
 public:
  Observing(runtime::DeviceSession& session, runtime::DeviceSession::LaunchObserver observer)
      : session_(session) {
    session_.observe(std::move(observer));
  }
  ~Observing() { session_.observe({}); }
  Observing(const Observing&) = delete;
  Observing& operator=(const Observing&) = delete;

 private:
  runtime::DeviceSession& session_;
};

class LaunchWorks {
 public:
  explicit LaunchWorks(const ir::Program& program);  // outlives this

  // Runs the call with its launches watched.
  void watch(runtime::Context& context, const std::vector<ir::Tensor>& inputs);
  // The work of a launch that was watched. Launches of one call that agree in kernel and keys do
  // the same work.
  const LeastWork& at(std::int32_t kernel, const std::vector<std::int64_t>& keys) const {
    return works_.at({kernel, keys});
  }

 private:
  void add(runtime::DeviceSession& session, const runtime::LaunchWork& work,
           std::span<void* const> buffers);

  const ir::Program& program_;
  // by kernel: which parameter tells segments apart
  std::vector<std::optional<std::size_t>> offsets_;
  std::map<std::pair<std::int32_t, std::vector<std::int64_t>>, LeastWork> works_;
};

}  // namespace anydim::tuner
