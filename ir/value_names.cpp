#include "ir/value_names.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/module.h"
#include "ir/number_text.h"

namespace anydim::ir {

ValueNames& ValueNames::operator=(ValueNames&& other) noexcept {
  first_ = std::exchange(other.first_, nullptr);
  count_ = std::exchange(other.count_, 0);
  last_ = std::move(other.last_);
  uses_ = std::move(other.uses_);
  return *this;
}

std::string ValueNames::unique(std::string name, const std::vector<Value>& values) {
  if (!knows(values)) *this = ValueNames();
  for (; count_ < values.size(); ++count_) read(values[count_].name);
  first_ = values.data();
  last_ = values.empty() ? std::string() : values.back().name;
  const auto use = uses_.find(name);
  if (use != uses_.end() && use->second.taken) name += fmt::format("_{}", use->second.highest + 1);
  return name;
}

// Whether what was read is where it was: a vector that grew beyond its memory, or another one, is
// read from the beginning.
bool ValueNames::knows(const std::vector<Value>& values) const {
  return first_ == values.data() && count_ > 0 && count_ <= values.size() &&
         values[count_ - 1].name == last_;
}

void ValueNames::read(const std::string& name) {
  uses_[name].taken = true;
  constexpr std::size_t most_digits = 9;  // longer numbers are part of a name
  const std::size_t bar = name.rfind('_');
  if (bar == std::string::npos || name.size() - bar > most_digits + 1) return;
  const auto number = parsed_number<std::uint64_t>(std::string_view(name).substr(bar + 1));
  if (!number) return;
  std::uint64_t& highest = uses_[name.substr(0, bar)].highest;
  highest = std::max(highest, *number);
}

}  // namespace anydim::ir
