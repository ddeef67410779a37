#include "frontends/onnx/symbols.h"

#include <fmt/format.h>

#include <algorithm>

namespace anydim::frontends {

namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string identifier(const std::string& raw) {
  constexpr std::size_t longest = 64;
  std::string name = raw.substr(0, longest);
  for (char& c : name) {
    if (!is_letter(c) && !is_digit(c)) c = '_';
  }
  return name.empty() || is_digit(name.front()) ? "_" + name : name;
}

}  // namespace

bool names_a_dim(const std::string& raw) {
  return std::ranges::any_of(raw, [](char c) { return c != '?' && c != '*' && c != ' '; });
}

ir::Dim SymbolNames::named(const std::string& raw) {
  auto found = symbols_.find(raw);
  if (found == symbols_.end()) {
    const std::string stem = identifier(raw);
    std::string name = stem;
    for (int& suffix = next_suffix_[stem]; table_.contains(name);)
      name = fmt::format("{}_{}", stem, ++suffix);
    table_.declare(name);
    found = symbols_.emplace(raw, name).first;
  }
  return ir::Dim::symbol(found->second);
}

std::optional<ir::Dim> SymbolNames::known(const std::string& raw) const {
  const auto found = symbols_.find(raw);
  return found == symbols_.end() ? std::nullopt : std::optional(ir::Dim::symbol(found->second));
}

ir::Dim SymbolNames::nameless(const std::string& input, std::size_t axis) {
  return table_.fresh(fmt::format("{}_{}", identifier(input), axis));
}

}  // namespace anydim::frontends
