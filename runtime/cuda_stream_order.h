// Order between a caller's stream and a session's own, by events: neither the host nor any other
// stream waits.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "runtime/cuda_context.h"
#include "runtime/device_memory.h"

namespace anydim::runtime::cuda {

// Calls on streams that one session has under way at once.
inline constexpr std::size_t most_calls_under_way = 4;

// DeviceMemory::order, with an event of its own.
void order_streams(const DeviceContext& context, DeviceStream ahead, DeviceStream behind);

class StreamOrder {
 public:
  StreamOrder(std::shared_ptr<DeviceContext> context, Stream own)
      : context_(std::move(context)), own_(own) {}
  ~StreamOrder();
  StreamOrder(const StreamOrder&) = delete;
  StreamOrder& operator=(const StreamOrder&) = delete;

  // What comes on our stream begins once all that is on the caller's has ended. Throws
  // Error{Inputs} for a stream that is being captured: the sizes of a call are not those of a
  // replay.
  void follow(DeviceStream caller);
  // What comes on the caller's stream begins once all that is on ours has ended. `turn`: the call,
  // below most_calls_under_way.
  void lead(DeviceStream caller, std::size_t turn);
  // How far the call that last led with this turn is: not_ready where it is under way.
  Result state(std::size_t turn) const;
  [[nodiscard]] Result wait(std::size_t turn) const;

 private:
  Event made(Event& event);

  std::shared_ptr<DeviceContext> context_;
  Stream own_;
  Event begun_ = nullptr;
  std::array<Event, most_calls_under_way> ended_{};
};

}  // namespace anydim::runtime::cuda
