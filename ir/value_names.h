// The names that a function's values have, so that one more costs no look at all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace anydim::ir {

struct Value;

class ValueNames {
 public:
  ValueNames() = default;
  // Values of a copy lie elsewhere, and their names are read when one is added to them.
  ValueNames(const ValueNames&) noexcept {}
  ValueNames(ValueNames&& other) noexcept { *this = std::move(other); }
  ValueNames& operator=(const ValueNames&) noexcept { return *this = ValueNames(); }
  ValueNames& operator=(ValueNames&& other) noexcept;

  // `name`, or where one of `values` has it already, with "_" and the number after the highest that
  // any has behind it. Values of before may have been added to and replaced by others in the
  // meantime, but none of them renamed in its place.
  std::string unique(std::string name, const std::vector<Value>& values);

 private:
  struct Use {
    bool taken = false;         // by a value of just this name
    std::uint64_t highest = 0;  // number behind it
  };
  void read(const std::string& name);
  bool knows(const std::vector<Value>& values) const;

  const Value* first_ = nullptr;  // what was read: `count_` values from here on
  std::size_t count_ = 0;
  std::string last_;  // the last one's name
  std::unordered_map<std::string, Use> uses_;
};

}  // namespace anydim::ir
