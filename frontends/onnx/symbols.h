// Names of dims in a model to symbols of a function.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>

#include "ir/dims/dim.h"
#include "ir/dims/symbols.h"

namespace anydim::frontends {

// False of "", and of "?" and the like, which tools write for each dim that they do not know.
bool names_a_dim(const std::string& raw);

class SymbolNames {
 public:
  explicit SymbolNames(ir::SymbolTable& table) : table_(table) {}
  // The symbol for the model's dim name `raw`, the same for every occurrence and different for
  // different names.
  ir::Dim named(const std::string& raw);
  // The same where named() has met the name, else nothing.
  std::optional<ir::Dim> known(const std::string& raw) const;
  // An unbacked symbol for the nameless dim `axis` of the input `input`.
  ir::Dim nameless(const std::string& input, std::size_t axis);

 private:
  ir::SymbolTable& table_;
  std::unordered_map<std::string, std::string> symbols_;  // the model's names to ours
  // of each identifier that several names lead to
  std::unordered_map<std::string, int> next_suffix_;
};

}  // namespace anydim::frontends
