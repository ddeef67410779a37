// Lengths of texts: as a file lists them, or drawn from a distribution that is given as text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace anydim::tuner {

struct Distribution {
  enum class Kind : std::uint8_t {
    Constant,   // first
    Uniform,    // integers from low to high
    Normal,     // mean first, deviation second
    Lognormal,  // the logarithm has mean first and deviation second
    Observed,   // `observed`, each as likely as it is often
  };
  Kind kind = Kind::Constant;
  double first = 0, second = 0;
  std::int64_t low = 1, high = 1;  // what is drawn outside is drawn again
  std::vector<std::int64_t> observed{};
  std::string text{};  // as given; of a file: its name and a hash of the lengths
};

// "constant(128)", "uniform(1, 512)", "normal(60, 20, 1, 512)", "lognormal(3.4, 0.8, 1, 512)"
// (logarithm's mean and deviation, least, most). Throws Error{CommandLine} naming what is wrong.
Distribution parse_distribution(std::string_view text);

// One length a line, or one JSON list of token ids a line (as `anydim bench --tokens` takes), whose
// length counts. Throws Error{Malformed} naming the line: not a number, no list, below 1; an empty
// file; a file that is not there.
Distribution read_lengths(const std::filesystem::path& file);

// The distribution of these lengths, which are at least 1; `name`: what they are, for `text`.
// Throws Error{CommandLine} for others and for none.
Distribution observed_lengths(std::vector<std::int64_t> lengths, const std::string& name);

// The same numbers on every machine for a seed. Of observed lengths the first `observed.size()`
// draws of seed 0 are the lengths themselves, in order.
std::vector<std::int64_t> draw_lengths(const Distribution& distribution, std::size_t count,
                                       std::uint64_t seed);

}  // namespace anydim::tuner
