// The protocol of measuring processes: cases in, what became of them out, one JSON object a line.
#pragma once

#include <cstdio>
#include <functional>
#include <iosfwd>
#include <nlohmann/json_fwd.hpp>

namespace anydim::tuner {

// One case; throws what it throws. `compiled`: to be called where it has its code and begins to
// run, so that whoever waits can tell the two apart.
using RunCase = std::function<nlohmann::ordered_json(const nlohmann::json& wanted,
                                                     const std::function<void()>& compiled)>;

// Cases from `in`, one a line; to `out` {"begin": ID} before and {"end": ID, ...} after each, and
// {"at": "compiled", "id": ID} between. Returns at the end of input. Throws Error{Malformed} for a
// line that is no case, Error{Write}, and Error{Internal} after a fault of the GPU: this process
// computes nothing any more, and whoever drives it starts another.
void run_cases(const RunCase& run, std::istream& in, std::FILE* out);

}  // namespace anydim::tuner
