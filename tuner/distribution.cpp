#include "tuner/distribution.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <random>
#include <sstream>

#include "ir/error.h"
#include "ir/number_text.h"
#include "ir/printable.h"
#include "tuner/json.h"
#include "tuner/text_file.h"
#include "tuner/text_hash.h"

namespace anydim::tuner {

namespace {

constexpr double longest = 2147483647;  // what a batcher takes

struct Form {
  std::string_view name;
  Distribution::Kind kind;
  std::size_t arguments;
};
constexpr Form forms[] = {{"constant", Distribution::Kind::Constant, 1},
                          {"uniform", Distribution::Kind::Uniform, 2},
                          {"normal", Distribution::Kind::Normal, 4},
                          {"lognormal", Distribution::Kind::Lognormal, 4}};

Error wrong_text(std::string_view text, std::string_view why) {
  return Error(ErrorKind::CommandLine,
               "--distribution {}: {}; it is constant(N), uniform(LEAST, MOST), normal(MEAN, "
               "DEVIATION, LEAST, MOST) or lognormal(MEAN, DEVIATION, LEAST, MOST)",
               text, why);
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

// Nothing where the text is none, or infinite.
std::optional<double> number_in(std::string_view text) {
  const auto number = ir::parsed_number<double>(trimmed(text));
  return number && std::isfinite(*number) ? number : std::nullopt;
}

std::vector<double> parse_arguments(std::string_view text, std::string_view inside) {
  std::vector<double> numbers;
  while (true) {
    const std::size_t comma = inside.find(',');
    const auto number = number_in(inside.substr(0, comma));
    if (!number)
      throw wrong_text(text, fmt::format("'{}' is no number", trimmed(inside.substr(0, comma))));
    numbers.push_back(*number);
    if (comma == std::string_view::npos) return numbers;
    inside.remove_prefix(comma + 1);
  }
}

std::int64_t length_of_line(const std::string& line, const std::string& where) {
  if (const auto number = number_in(line)) {
    if (*number < 1 || *number > longest || *number != std::floor(*number))
      throw Error(ErrorKind::Malformed,
                  "{}: {} is no length of a text: a whole number from 1 to {:.0f}", where,
                  trimmed(line), longest);
    return static_cast<std::int64_t>(*number);
  }
  const nlohmann::json list = parse_json(line);
  if (!list.is_array() || list.empty())
    throw Error(ErrorKind::Malformed, "{}: expected a length or a JSON list of token ids, got '{}'",
                where, ir::printable(trimmed(line).substr(0, 40)));
  return static_cast<std::int64_t>(list.size());
}

// Uniform in [0, 1), from the engine alone: the standard's distributions differ between libraries.
double unit(std::mt19937_64& engine) { return static_cast<double>(engine() >> 11) * 0x1p-53; }

double standard_normal(std::mt19937_64& engine) {
  const double radius = std::sqrt(-2 * std::log(1 - unit(engine)));
  return radius * std::cos(2 * std::numbers::pi * unit(engine));
}

std::int64_t draw_truncated(const Distribution& distribution, std::mt19937_64& engine) {
  // A range far out in the tail would be drawn for ever: then the nearer end stands for it.
  constexpr int most_tries = 1000;
  double drawn = 0;
  for (int attempt = 0; attempt < most_tries; ++attempt) {
    const double normal = distribution.first + distribution.second * standard_normal(engine);
    drawn =
        std::round(distribution.kind == Distribution::Kind::Lognormal ? std::exp(normal) : normal);
    if (drawn >= static_cast<double>(distribution.low) &&
        drawn <= static_cast<double>(distribution.high))
      return static_cast<std::int64_t>(drawn);
  }
  return drawn < static_cast<double>(distribution.low) ? distribution.low : distribution.high;
}

std::int64_t draw(const Distribution& distribution, std::mt19937_64& engine) {
  switch (distribution.kind) {
    case Distribution::Kind::Constant: return distribution.low;
    case Distribution::Kind::Uniform: {
      const double width = static_cast<double>(distribution.high - distribution.low + 1);
      return distribution.low + static_cast<std::int64_t>(unit(engine) * width);
    }
    case Distribution::Kind::Normal:
    case Distribution::Kind::Lognormal: return draw_truncated(distribution, engine);
    case Distribution::Kind::Observed: {
      const auto count = static_cast<double>(distribution.observed.size());
      return distribution.observed[static_cast<std::size_t>(unit(engine) * count)];
    }
  }
  internal_error("a distribution is of one of five kinds");
}

}  // namespace

Distribution parse_distribution(std::string_view text) {
  const std::string_view whole = trimmed(text);
  const std::size_t open = whole.find('(');
  if (open == std::string_view::npos || !whole.ends_with(')'))
    throw wrong_text(text, "there are no parentheses around its numbers");
  const std::string_view name = trimmed(whole.substr(0, open));
  for (const Form& form : forms) {
    if (form.name != name) continue;
    const std::vector<double> numbers =
        parse_arguments(text, whole.substr(open + 1, whole.size() - open - 2));
    if (numbers.size() != form.arguments)
      throw wrong_text(
          text, fmt::format("{} takes {} numbers, not {}", name, form.arguments, numbers.size()));
    Distribution distribution{.kind = form.kind, .text = std::string(whole)};
    const double low = form.arguments == 1 ? numbers[0] : numbers[form.arguments - 2],
                 high = numbers.back();
    if (low < 1 || high > longest || low != std::floor(low) || high != std::floor(high) ||
        high < low)
      throw wrong_text(
          text,
          fmt::format("lengths are whole numbers from 1 to {:.0f}, the least first", longest));
    distribution.low = static_cast<std::int64_t>(low);
    distribution.high = static_cast<std::int64_t>(high);
    if (form.arguments == 4) {
      distribution.first = numbers[0];
      distribution.second = numbers[1];
      if (numbers[1] < 0) throw wrong_text(text, "its deviation is negative");
    }
    return distribution;
  }
  throw wrong_text(text, fmt::format("there is no distribution '{}'", name));
}

Distribution read_lengths(const std::filesystem::path& file) {
  std::istringstream stream(read_text_file(file));
  std::vector<std::int64_t> lengths;
  std::string line;
  for (int number = 1; std::getline(stream, line); ++number)
    if (!trimmed(line).empty())
      lengths.push_back(length_of_line(line, fmt::format("{}:{}", file.string(), number)));
  if (lengths.empty())
    throw Error(ErrorKind::Malformed, "{}: there is no length in it", file.string());
  return observed_lengths(std::move(lengths), file.filename().string());
}

Distribution observed_lengths(std::vector<std::int64_t> lengths, const std::string& name) {
  if (lengths.empty()) throw Error(ErrorKind::CommandLine, "{}: there is no length", name);
  Distribution distribution{.kind = Distribution::Kind::Observed, .observed = std::move(lengths)};
  std::string all;
  for (const std::int64_t length : distribution.observed) all += fmt::format("{},", length);
  distribution.low = *std::ranges::min_element(distribution.observed);
  distribution.high = *std::ranges::max_element(distribution.observed);
  if (distribution.low < 1)
    throw Error(ErrorKind::CommandLine, "{}: expected lengths of at least 1, got {}", name,
                distribution.low);
  distribution.text =
      fmt::format("{} lengths of {} ({})", distribution.observed.size(), name, text_hash(all));
  return distribution;
}

std::vector<std::int64_t> draw_lengths(const Distribution& distribution, std::size_t count,
                                       std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::vector<std::int64_t> lengths;
  if (distribution.kind == Distribution::Kind::Observed && seed == 0) {
    lengths = distribution.observed;
    if (lengths.size() > count) lengths.resize(count);
  }
  while (lengths.size() < count) lengths.push_back(draw(distribution, engine));
  return lengths;
}

}  // namespace anydim::tuner
