// Compile options as words, for those who have them as text: the C interface, bindings of other
// languages, configuration files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/options.h"
#include "tuner/measure.h"

namespace anydim {

// Sets one option. `dim`, `output` and `policy` may be set several times, each adds one. Throws
// Error{CommandLine} that names the options there are, or what the option takes; then nothing
// changes.
void set_option(CompileOptions& options, std::string_view name, std::string_view value);

// Words of which set_option makes the same compilation, by the cost model alone: databases, skipped
// passes, warnings and cancellation are not among them.
using tuner::OptionWords;
OptionWords option_words(const CompileOptions& options);

// "512M", "2GiB", "1000000": bytes, units of 1024. Throws Error{CommandLine} that begins with
// `option`.
std::int64_t parse_size(std::string_view text, std::string_view option);

}  // namespace anydim
