// The checks on one function or region body; used by ir/verify.cpp and ir/verify_calls.cpp only.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/module.h"
#include "ir/verify.h"

namespace anydim::ir {

class FunctionVerifier {
 public:
  FunctionVerifier(const Module& module, const Function& function, std::string_view keyword,
                   const std::string& name, const VerifyOptions& options)
      : module_(module), function_(function), keyword_(keyword), name_(name), options_(options) {}

  void verify();
  void region(const Region& region);  // after verify(): weights and identity

 private:
  enum class State : unsigned char { Undefined, InScope, OutOfScope };

  [[noreturn]] void fail(const std::string& what) const;
  // As fmt::format has it.
  template <typename First, typename... Rest>
  [[noreturn]] void fail(fmt::format_string<First, Rest...> what, First&& first,
                         Rest&&... rest) const {
    fail(fmt::format(what, std::forward<First>(first), std::forward<Rest>(rest)...));
  }

  // Said of what is wrong only: a dim may be long, and most are right.
  using Words = std::function<std::string()>;

  void symbols();
  void names();
  void declared(const std::string& symbol, const Words& where);
  void define(ValueId id, std::string_view role);
  void use(ValueId id, const Words& role);
  void bindings(const Block& block);
  void operands(const Binding& binding);
  void attributes(const Binding& binding);
  void dims(const Binding& binding);
  void results(const Binding& binding);
  void types();
  void type_symbols(const Type& type, ValueId id);
  const TensorType* type_of(ValueId id) const;  // null: unknown or not a tensor
  std::string name(ValueId id) const;

  // Blocks and callees (ir/verify_calls.cpp).
  void blocks(const Binding& binding);
  void inner_block(const Binding& binding, const Block& block);
  void branch_types(const Binding& binding);
  void loop_types(const Binding& binding);
  void same_form(ValueId inner, ValueId outer, const std::string& role, std::size_t added_dims);
  void callee(const Binding& binding);
  void callee_counts(const Binding& binding, const Function& target,
                     const std::string& target_text);
  void call_types(const Binding& binding, const Function& target);
  void region_types(const Binding& binding, const Region& target);
  void region_type(ValueId outer, const Type& inner, const Function& target,
                   const std::map<std::string, Dim>& dims, const std::string& role);

  const Module& module_;
  const Function& function_;
  std::string_view keyword_;
  const std::string& name_;
  const VerifyOptions& options_;
  const Binding* binding_ = nullptr;  // being checked, for messages
  std::vector<State> states_;         // by ValueId
  std::set<ValueId> for_callers_;     // results of drop_ones
};

}  // namespace anydim::ir
