#include "runtime/cuda_timer.h"

#include <utility>

namespace anydim::runtime::cuda {

namespace {
constexpr std::string_view timing_graph = "timing a graph";
}

TimedStream::TimedStream(std::shared_ptr<DeviceContext> context) : context_(std::move(context)) {
  constexpr std::string_view doing = "opening a stream to time work on";
  context_->enter();
  const Driver& driver = context_->driver();
  try {
    context_->check(driver.stream_create(&stream_, stream_non_blocking), doing);
    context_->check(driver.event_create(&begin_, event_default), doing);
    context_->check(driver.event_create(&end_, event_default), doing);
  } catch (...) {
    release();
    throw;
  }
}

TimedStream::~TimedStream() { release(); }

void TimedStream::release() {
  if (!context_->enter_quietly()) return;
  const Driver& driver = context_->driver();
  if (end_ != nullptr) driver.event_destroy(end_);
  if (begin_ != nullptr) driver.event_destroy(begin_);
  if (stream_ != nullptr) driver.stream_destroy(stream_);
}

double TimedStream::measure(std::string_view doing, const std::function<void()>& issue) {
  const Driver& driver = context_->driver();
  context_->check(driver.event_record(begin_, stream_), doing);
  issue();
  context_->check(driver.event_record(end_, stream_), doing);
  context_->check(driver.stream_synchronize(stream_), doing);
  float milliseconds = 0;
  context_->check(driver.event_elapsed(&milliseconds, begin_, end_), doing);
  return 1e-3 * static_cast<double>(milliseconds);
}

GraphTimer::GraphTimer(std::shared_ptr<DeviceContext> context,
                       const std::function<void(Stream)>& enqueue, int calls)
    : context_(std::move(context)), stream_(context_), calls_(calls) {
  constexpr std::string_view doing = "capturing a graph to time";
  const Driver& driver = context_->driver();
  context_->check(driver.capture_begin(stream_.handle(), capture_thread_local), doing);
  Graph graph = nullptr;
  try {
    enqueue(stream_.handle());
  } catch (...) {
    driver.capture_end(stream_.handle(), &graph);
    if (graph != nullptr) driver.graph_destroy(graph);
    throw;
  }
  context_->check(driver.capture_end(stream_.handle(), &graph), doing);
  const Result result = driver.graph_instantiate(&graph_, graph, 0);
  driver.graph_destroy(graph);
  context_->check(result, doing);
}

GraphTimer::~GraphTimer() {
  if (!context_->enter_quietly()) return;
  context_->driver().graph_executable_destroy(graph_);
}

double GraphTimer::measure() {
  context_->enter();
  return stream_.measure(timing_graph, [&] { launch(); }) / calls_;
}

double GraphTimer::measure_behind_another() {
  context_->enter();
  launch();
  return stream_.measure(timing_graph, [&] { launch(); }) / calls_;
}

void GraphTimer::launch() {
  context_->check(context_->driver().graph_launch(graph_, stream_.handle()), timing_graph);
}

ColdTimer::ColdTimer(std::shared_ptr<DeviceContext> context)
    : context_(std::move(context)), stream_(context_) {
  constexpr std::size_t where_unknown = std::size_t{64} << 20;
  const std::int64_t cache = context_->properties().l2_bytes;
  bytes_ = 2 * (cache > 0 ? static_cast<std::size_t>(cache) : where_unknown);
  context_->check(context_->driver().memory_allocate(&memory_, bytes_),
                  "making room to empty the L2 cache");
}

ColdTimer::~ColdTimer() {
  if (!context_->enter_quietly()) return;
  context_->driver().memory_free(memory_);
}

double ColdTimer::measure(const std::function<void(Stream)>& enqueue) {
  constexpr std::string_view doing = "timing a call with a cold cache";
  context_->enter();
  context_->check(context_->driver().fill_bytes(memory_, 0, bytes_, stream_.handle()), doing);
  return stream_.measure(doing, [&] { enqueue(stream_.handle()); });
}

}  // namespace anydim::runtime::cuda
