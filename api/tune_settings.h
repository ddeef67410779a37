// What a tuning run is asked for, by programs, by words and by the command alike.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "api/option_text.h"
#include "api/tuning_run.h"

namespace anydim {

struct TuneSettings {
  // The sizes to tune for: one of these, or `calls` with `trace`.
  std::vector<std::int64_t> lengths{};  // of texts, each as likely as it is often
  std::string lengths_file{};           // the same from a file (tuner::read_lengths)
  std::string distribution{};           // drawn from it (tuner::parse_distribution)
  std::string trace{};                  // file of the sizes that calls had (tuner/trace.h)
  std::string calls{};                  // folder of recorded calls (api/recorded_calls.h)
  // of calls, every input's by name; each as likely as it is often
  std::vector<std::map<std::string, std::vector<std::int64_t>>> shapes{};

  // How texts of these lengths come.
  std::int64_t batch = 0, batch_tokens = 0;  // texts, padded tokens of a batch; neither: one text
  std::string order = "arrival";             // or "sorted"

  tuner::TuneRules rules{};
  std::string log{};  // file that what measuring processes write to standard error is appended to;
                      // empty: dropped
  std::string report{};               // file for what was found, as one HTML page; empty: none
  std::vector<std::string> worker{};  // program and arguments of measuring processes
};

// Sets one: lengths (a file), distribution, trace, calls, batch, batch_tokens, order, budget,
// trials, max_kernels, points, exhaustive, log, report, worker (a program, which is called as
// `anydim worker` is). Throws Error{CommandLine} that names what there is, or what the setting
// takes; then nothing changes.
void set_tune_setting(TuneSettings& settings, std::string_view name, std::string_view value);

// Throws Error{CommandLine} where the sizes are told in no way, or in several.
void require_sizes(const TuneSettings& settings);

// "90", "90s", "10m", "2h" in seconds. Throws Error{CommandLine} that begins with `option`.
double parse_duration(std::string_view text, std::string_view option);

}  // namespace anydim
