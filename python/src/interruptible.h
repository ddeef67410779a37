// Long work that Ctrl-C ends.
#pragma once

#include <functional>
#include <memory>

#include "api/anydim.h"

namespace anydim::python {

// Carries the work out on a thread of its own, waits with the GIL released, and has Python handle
// the signals that come meanwhile. An exception of a handler (KeyboardInterrupt) cancels the work
// and is thrown once it has ended. Throws what the work throws.
void interruptible(const std::function<void(const std::shared_ptr<Cancellation>&)>& work);

}  // namespace anydim::python
