#include "ir/cancellation.h"

#include "ir/error.h"

namespace anydim {

bool Cancellation::poll_now() const {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const std::chrono::steady_clock::duration before(polled_.load(std::memory_order_relaxed));
  if (now - before < poll_pause) return false;
  polled_.store(now.count(), std::memory_order_relaxed);
  if (!poll_()) return false;
  cancelled_.store(true, std::memory_order_relaxed);
  return true;
}

void Cancellation::stop() {
  throw Error(ErrorKind::Cancelled, "the work was cancelled by its caller");
}

}  // namespace anydim
