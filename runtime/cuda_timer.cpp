#include "runtime/cuda_timer.h"

#include <utility>

namespace anydim::runtime::cuda {

GraphTimer::GraphTimer(std::shared_ptr<DeviceContext> context, const std::function<void(Stream)>& enqueue, int calls)
    : context_(std::move(context)), calls_(calls) {
  constexpr std::string_view doing = "capturing a graph to time";
  context_->enter();
  const Driver& driver = context_->driver();
  try {
    context_->check(driver.stream_create(&stream_, stream_non_blocking), doing);
    context_->check(driver.event_create(&begin_, event_default), doing);
    context_->check(driver.event_create(&end_, event_default), doing);
    context_->check(driver.capture_begin(stream_, capture_thread_local), doing);
    Graph graph = nullptr;
    try {
      enqueue(stream_);
    } catch (...) {
      driver.capture_end(stream_, &graph);
      if (graph != nullptr) driver.graph_destroy(graph);
      throw;
    }
    context_->check(driver.capture_end(stream_, &graph), doing);
    const Result result = driver.graph_instantiate(&graph_, graph, 0);
    driver.graph_destroy(graph);
    context_->check(result, doing);
  } catch (...) {
    release();
    throw;
  }
}

GraphTimer::~GraphTimer() { release(); }

void GraphTimer::release() {
  context_->enter_quietly();
  const Driver& driver = context_->driver();
  if (graph_ != nullptr) driver.graph_executable_destroy(graph_);
  if (end_ != nullptr) driver.event_destroy(end_);
  if (begin_ != nullptr) driver.event_destroy(begin_);
  if (stream_ != nullptr) driver.stream_destroy(stream_);
}

double GraphTimer::measure() {
  constexpr std::string_view doing = "timing a graph";
  context_->enter();
  const Driver& driver = context_->driver();
  context_->check(driver.event_record(begin_, stream_), doing);
  context_->check(driver.graph_launch(graph_, stream_), doing);
  context_->check(driver.event_record(end_, stream_), doing);
  context_->check(driver.stream_synchronize(stream_), doing);
  float milliseconds = 0;
  context_->check(driver.event_elapsed(&milliseconds, begin_, end_), doing);
  return 1e-3 * static_cast<double>(milliseconds) / calls_;
}

}  // namespace anydim::runtime::cuda
