// Tables of options that are given as words: a name, what it takes, and how it is set.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/error.h"
#include "ir/number_text.h"
#include "ir/printable.h"

namespace anydim {

struct OptionInfo {
  std::string_view name, takes;  // e.g. "threads", "a number from 1 to 1024"
};

template <typename Options>
struct WordRow {
  OptionInfo info;
  void (*set)(Options& options,
              std::string_view value);  // throws Error{CommandLine} where the value is wrong
};

inline Error wrong_word() {
  return {ErrorKind::CommandLine, "a value that the option does not take"};
}

inline bool parse_switch(std::string_view text) {
  if (text == "on") return true;
  if (text == "off") return false;
  throw wrong_word();
}

inline std::int64_t parse_number(std::string_view text, std::int64_t low, std::int64_t high) {
  const auto number = ir::parsed_number<std::int64_t>(text);
  if (!number || *number < low || *number > high) throw wrong_word();
  return *number;
}

inline std::string filled_word(std::string_view text) {
  if (text.empty()) throw wrong_word();
  return std::string(text);
}

// `what`: "option". Throws Error{CommandLine} that names the rows, or what the row takes; then
// nothing changes.
template <typename Options, std::size_t size>
void set_word(std::span<const WordRow<Options>, size> rows, std::string_view what, Options& options,
              std::string_view name, std::string_view value) {
  const auto row =
      std::ranges::find(rows, name, [](const WordRow<Options>& known) { return known.info.name; });
  if (row == rows.end()) {
    std::vector<std::string_view> names;
    for (const WordRow<Options>& known : rows) names.push_back(known.info.name);
    throw Error(ErrorKind::CommandLine, "there is no {} '{}'; there are {}", what,
                ir::printable(name), fmt::join(names, ", "));
  }
  try {
    row->set(options, value);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::CommandLine) throw;
    throw Error(ErrorKind::CommandLine, "{} '{}' cannot be '{}': it takes {}", what, name,
                ir::printable(value), row->info.takes);
  }
}

}  // namespace anydim
