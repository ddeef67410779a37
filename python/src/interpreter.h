// The end of the interpreter. A thread that waits for the GIL then never gets it: CPython ends it
// where it stands, which C++ frames do not survive. So before that every call that is under way is
// ended, and none begins any more.
#pragma once

namespace anydim::python {

// A call from Python, from its beginning to its end; made and ended with the GIL. Throws
// CallError{ClosedError} once the interpreter ends.
class UnderWay {
 public:
  UnderWay();
  ~UnderWay();
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;
};

bool interpreter_ends();  // any thread
// With the GIL, which is released until the last call has ended: by itself, or because it asked
// interpreter_ends().
void end_calls();

}  // namespace anydim::python
