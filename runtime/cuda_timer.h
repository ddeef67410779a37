// Time of work on the GPU alone: captured once, replayed, between two events.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "runtime/cuda_context.h"

namespace anydim::runtime::cuda {

// A stream with an event before and one behind what is timed on it.
class TimedStream {
 public:
  explicit TimedStream(std::shared_ptr<DeviceContext> context);
  ~TimedStream();
  TimedStream(const TimedStream&) = delete;
  TimedStream& operator=(const TimedStream&) = delete;

  Stream handle() const { return stream_; }
  // Seconds of what `issue` puts on the stream; waits for it. `doing` is for messages.
  double measure(std::string_view doing, const std::function<void()>& issue);

 private:
  void release();

  std::shared_ptr<DeviceContext> context_;
  Stream stream_ = nullptr;
  Event begin_ = nullptr, end_ = nullptr;
};

// One graph of some calls; what it captured must stay where it is.
class GraphTimer {
 public:
  // `enqueue` issues one call after the other, `calls` in all, on the stream that it is given.
  // Throws what it throws, and Error{Internal} where nothing can be captured.
  GraphTimer(std::shared_ptr<DeviceContext> context, const std::function<void(Stream)>& enqueue,
             int calls);
  ~GraphTimer();
  GraphTimer(const GraphTimer&) = delete;
  GraphTimer& operator=(const GraphTimer&) = delete;

  // Seconds of one call: a replay's time divided by its calls. Waits for the GPU.
  double measure();
  // The same of a replay right behind another, so that what the host does to start it is not in it.
  double measure_behind_another();

 private:
  void launch();

  std::shared_ptr<DeviceContext> context_;
  TimedStream stream_;
  GraphExecutable graph_ = nullptr;
  int calls_ = 1;
};

// One call at a time, after memory of twice the L2 cache's size was written, so that nothing it
// reads is in the cache. Between two events, whose own time, about a microsecond, is part of what
// is measured.
class ColdTimer {
 public:
  explicit ColdTimer(std::shared_ptr<DeviceContext>
                         context);  // Throws Error{Resource} where the memory is not there.
  ~ColdTimer();
  ColdTimer(const ColdTimer&) = delete;
  ColdTimer& operator=(const ColdTimer&) = delete;

  // Seconds of what `enqueue` issues on the stream. Waits for the GPU.
  double measure(const std::function<void(Stream)>& enqueue);

 private:
  std::shared_ptr<DeviceContext> context_;
  TimedStream stream_;
  Address memory_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace anydim::runtime::cuda
