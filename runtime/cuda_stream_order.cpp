#include "runtime/cuda_stream_order.h"

#include "ir/error.h"

namespace anydim::runtime::cuda {

namespace {

Stream handle_of(DeviceStream stream) { return static_cast<Stream>(stream.handle); }

}  // namespace

StreamOrder::~StreamOrder() {
  if (!context_->enter_quietly()) return;
  if (begun_ != nullptr) context_->driver().event_destroy(begun_);
  for (const Event event : ended_)
    if (event != nullptr) context_->driver().event_destroy(event);
}

Event StreamOrder::made(Event& event) {
  if (event == nullptr)
    context_->check(context_->driver().event_create(&event, event_without_time),
                    "making an event to order streams with");
  return event;
}

void StreamOrder::order(Event event, Stream ahead, Stream behind) {
  constexpr std::string_view doing = "ordering a call with the caller's stream";
  context_->check(context_->driver().event_record(event, ahead), doing);
  context_->check(context_->driver().stream_wait(behind, event, 0), doing);
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
  order(made(begun_), handle_of(caller), own_);
}

void StreamOrder::lead(DeviceStream caller, std::size_t turn) {
  order(made(ended_.at(turn)), own_, handle_of(caller));
}

Result StreamOrder::state(std::size_t turn) const {
  return context_->driver().event_query(ended_.at(turn));
}

Result StreamOrder::wait(std::size_t turn) const {
  return context_->driver().event_synchronize(ended_.at(turn));
}

}  // namespace anydim::runtime::cuda
