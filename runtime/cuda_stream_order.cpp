#include "runtime/cuda_stream_order.h"

#include "ir/error.h"

namespace anydim::runtime::cuda {

namespace {

Stream handle_of(DeviceStream stream) { return static_cast<Stream>(stream.handle); }

Event new_event(const DeviceContext& context) {
  Event event = nullptr;
  context.check(context.driver().event_create(&event, event_without_time),
                "making an event to order streams with");
  return event;
}

// The first failure.
Result order(const Driver& driver, Event event, Stream ahead, Stream behind) {
  const Result recorded = driver.event_record(event, ahead);
  return recorded != success ? recorded : driver.stream_wait(behind, event, 0);
}

constexpr std::string_view ordering = "ordering a call with the caller's stream";

}  // namespace

void order_streams(const DeviceContext& context, DeviceStream ahead, DeviceStream behind) {
  const Event event = new_event(context);
  const Result result = order(context.driver(), event, handle_of(ahead), handle_of(behind));
  context.driver().event_destroy(event);  // once it is met
  context.check(result, "ordering two streams");
}

StreamOrder::~StreamOrder() {
  if (!context_->enter_quietly()) return;
  if (begun_ != nullptr) context_->driver().event_destroy(begun_);
  for (const Event event : ended_)
    if (event != nullptr) context_->driver().event_destroy(event);
}

Event StreamOrder::made(Event& event) {
  if (event == nullptr) event = new_event(*context_);
  return event;
}

void StreamOrder::follow(DeviceStream caller) {
  int capturing = not_capturing;
  context_->check(context_->driver().capture_state(handle_of(caller), &capturing, nullptr, nullptr,
                                                   nullptr, nullptr),
                  "asking for the state of the caller's stream");
  if (capturing != not_capturing)
    throw Error(ErrorKind::Inputs,
                "the stream of a call is being captured: expected a stream that runs what it is "
                "given; call the model before or after the capture");
  context_->check(order(context_->driver(), made(begun_), handle_of(caller), own_), ordering);
}

void StreamOrder::lead(DeviceStream caller, std::size_t turn) {
  context_->check(order(context_->driver(), made(ended_.at(turn)), own_, handle_of(caller)),
                  ordering);
}

Result StreamOrder::state(std::size_t turn) const {
  return context_->driver().event_query(ended_.at(turn));
}

Result StreamOrder::wait(std::size_t turn) const {
  return context_->driver().event_synchronize(ended_.at(turn));
}

}  // namespace anydim::runtime::cuda
