#include "api/tune_settings.h"

#include <charconv>

#include "api/word_table.h"
#include "ir/error.h"

namespace anydim {

namespace {

constexpr WordRow<TuneSettings> rows[] = {
    {{"batch", "a number of texts of at least 1"},
     [](TuneSettings& settings, std::string_view value) {
       settings.batch = parse_number(value, 1, INT64_MAX);
     }},
    {{"batch_tokens", "a number of tokens of at least 1"},
     [](TuneSettings& settings, std::string_view value) {
       settings.batch_tokens = parse_number(value, 1, INT64_MAX);
     }},
    {{"budget", "a time above 0 such as 90s, 10m or 2h"},
     [](TuneSettings& settings, std::string_view value) {
       settings.rules.budget_seconds = parse_duration(value, "budget");
     }},
    {{"calls", "a folder of recorded calls"},
     [](TuneSettings& settings, std::string_view value) { settings.calls = filled_word(value); }},
    {{"distribution",
      "a distribution of lengths such as lognormal(3.4, 0.8, 1, 512), uniform(1, 512) or "
      "constant(128)"},
     [](TuneSettings& settings, std::string_view value) {
       settings.distribution = tuner::parse_distribution(value).text;
     }},
    {{"exhaustive", "on or off: whether every schedule is tried"},
     [](TuneSettings& settings, std::string_view value) {
       settings.rules.exhaustive = parse_switch(value);
     }},
    {{"lengths", "a file of lengths"},
     [](TuneSettings& settings, std::string_view value) {
       settings.lengths_file = filled_word(value);
     }},
    {{"log", "a file"},
     [](TuneSettings& settings, std::string_view value) { settings.log = filled_word(value); }},
    {{"max_kernels", "a number of at least 1"},
     [](TuneSettings& settings, std::string_view value) {
       settings.rules.most_kernels = parse_number(value, 1, INT64_MAX);
     }},
    {{"order", "arrival or sorted"},
     [](TuneSettings& settings, std::string_view value) {
       if (value != "arrival" && value != "sorted") throw wrong_word();
       settings.order = value;
     }},
    {{"points", "a number from 1 to 64"},
     [](TuneSettings& settings, std::string_view value) {
       settings.rules.points = static_cast<std::size_t>(parse_number(value, 1, 64));
     }},
    {{"report", "a file"},
     [](TuneSettings& settings, std::string_view value) { settings.report = filled_word(value); }},
    {{"trace", "a file of recorded sizes"},
     [](TuneSettings& settings, std::string_view value) { settings.trace = filled_word(value); }},
    {{"trials", "a number of candidates of at least 1"},
     [](TuneSettings& settings, std::string_view value) {
       settings.rules.most_trials = parse_number(value, 1, INT64_MAX);
     }},
    {{"worker", "a program"},
     [](TuneSettings& settings, std::string_view value) {
       settings.worker = {filled_word(value), "worker"};
     }},
};

}  // namespace

void set_tune_setting(TuneSettings& settings, std::string_view name, std::string_view value) {
  set_word(std::span(rows), "tuning option", settings, name, value);
}

void require_sizes(const TuneSettings& settings) {
  const int sources =
      static_cast<int>(!settings.lengths.empty()) +
      static_cast<int>(!settings.lengths_file.empty()) + static_cast<int>(!settings.trace.empty()) +
      static_cast<int>(!settings.distribution.empty()) + static_cast<int>(!settings.shapes.empty());
  if (sources > 1 || (sources == 0 && settings.calls.empty()))
    throw Error(ErrorKind::CommandLine,
                "tuning needs one of lengths, distribution, shapes, trace and calls: the sizes to "
                "tune for");
  if (!settings.calls.empty() && sources == 1 && settings.trace.empty())
    throw Error(ErrorKind::CommandLine,
                "recorded calls go alone or with a trace: they have sizes of their own");
}

double parse_duration(std::string_view text, std::string_view option) {
  double number = 0;
  const char* last = text.data() + text.size();
  const auto [end, fault] = std::from_chars(text.data(), last, number);
  const std::string_view unit(end, static_cast<std::size_t>(last - end));
  const double scale = unit.empty() || unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  if (fault != std::errc{} || scale == 0 || !(number > 0) || number * scale > 1e9)
    throw Error(ErrorKind::CommandLine, "{} {} is no time above 0, such as 90s, 10m or 2h", option,
                text);
  return number * scale;
}

}  // namespace anydim
