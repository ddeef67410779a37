#include "runtime/cuda_timer.h"

#include <utility>

namespace anydim::runtime::cuda {

namespace {

struct Events {
  Event begin, end;
};

// Of what `issue` puts on the stream; waits for it.
double seconds_between(const DeviceContext& context, const Events& events, Stream stream, std::string_view doing,
                       const std::function<void()>& issue) {
  const Driver& driver = context.driver();
  context.check(driver.event_record(events.begin, stream), doing);
  issue();
  context.check(driver.event_record(events.end, stream), doing);
  context.check(driver.stream_synchronize(stream), doing);
  float milliseconds = 0;
  context.check(driver.event_elapsed(&milliseconds, events.begin, events.end), doing);
  return 1e-3 * static_cast<double>(milliseconds);
}

}  // namespace

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
  return seconds_between(*context_, {begin_, end_}, stream_, doing,
                         [&] { context_->check(context_->driver().graph_launch(graph_, stream_), doing); }) /
         calls_;
}

ColdTimer::ColdTimer(std::shared_ptr<DeviceContext> context) : context_(std::move(context)) {
  constexpr std::string_view doing = "making room to empty the L2 cache";
  constexpr std::size_t where_unknown = std::size_t{64} << 20;
  const std::int64_t cache = context_->properties().l2_bytes;
  bytes_ = 2 * (cache > 0 ? static_cast<std::size_t>(cache) : where_unknown);
  context_->enter();
  const Driver& driver = context_->driver();
  try {
    context_->check(driver.stream_create(&stream_, stream_non_blocking), doing);
    context_->check(driver.event_create(&begin_, event_default), doing);
    context_->check(driver.event_create(&end_, event_default), doing);
    context_->check(driver.memory_allocate(&memory_, bytes_), doing);
  } catch (...) {
    release();
    throw;
  }
}

ColdTimer::~ColdTimer() { release(); }

void ColdTimer::release() {
  context_->enter_quietly();
  const Driver& driver = context_->driver();
  if (memory_ != 0) driver.memory_free(memory_);
  if (end_ != nullptr) driver.event_destroy(end_);
  if (begin_ != nullptr) driver.event_destroy(begin_);
  if (stream_ != nullptr) driver.stream_destroy(stream_);
}

double ColdTimer::measure(const std::function<void(Stream)>& enqueue) {
  constexpr std::string_view doing = "timing a call with a cold cache";
  context_->enter();
  context_->check(context_->driver().fill_bytes(memory_, 0, bytes_, stream_), doing);
  return seconds_between(*context_, {begin_, end_}, stream_, doing, [&] { enqueue(stream_); });
}

}  // namespace anydim::runtime::cuda
