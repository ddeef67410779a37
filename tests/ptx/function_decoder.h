// The names of one function while it is decoded: registers, variables, labels, special registers;
// and the presets that its immediates need.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "tests/ptx/decoder.h"

namespace anydim::ptx {

// What a name outside any function means, and what functions add to the module while they are
// decoded.
struct ModuleSymbols {
  struct Callee {
    std::int32_t first = 0;
    std::vector<std::uint64_t> parameters, results;  // places in call space
    std::vector<std::uint64_t> parameter_bytes, result_bytes;
  };
  std::map<std::string, std::int32_t> variables;        // global and const: index
  std::map<std::string, std::uint64_t> shared;          // address
  std::map<std::string, std::uint64_t> dynamic_shared;  // alignment
  std::map<std::string, Callee> callees;
  std::vector<std::pair<std::string, std::string>> calls;  // caller, callee
  std::uint64_t call_bytes = 0, local_bytes = 0;
  std::uint64_t shared_bytes = 0;  // of module-scope variables and device functions
};

class FunctionDecoder {
 public:
  // Registers start at `register_start`. Adds the function's variables to the module's.
  FunctionDecoder(ModuleSymbols& module, const FunctionText& text, Function& function,
                  std::uint64_t register_start);

  struct Register {
    std::int32_t offset = 0;
    Type type = Type::b32;
  };
  const FunctionText& text() const { return text_; }
  ModuleSymbols& module() { return module_; }
  Function& function() { return function_; }
  const Register* find_register(const std::string& name, int scope) const;
  // A name or literal as a source of so many bytes; touches nothing. Throws with the line where the
  // name is unknown.
  std::int32_t value(const OperandText& operand, Type type, bool wide, int line, int scope);
  // The place of a name in its own state space, for [name + offset].
  std::int64_t place(const std::string& name, int line, int scope) const;
  std::uint64_t call_place(const std::string& name, int line, int scope) const;
  std::int32_t label(const std::string& name, int line, int scope) const;
  std::uint64_t register_end() const { return register_end_; }

 private:
  struct Variable {
    std::string space;
    std::uint64_t place = 0;
  };
  template <class T>
  const T* look_up(const std::unordered_map<std::string, std::vector<std::pair<int, T>>>& table,
                   const std::string& name, int scope) const;
  void add_register(const VariableText& text);
  void add_variable(const VariableText& text);
  std::int32_t preset(Preset::Kind kind, bool wide, std::int64_t value, std::int32_t index);
  std::int32_t immediate(const OperandText& operand, Type type, bool wide, int line);

  ModuleSymbols& module_;
  const FunctionText& text_;
  Function& function_;
  std::uint64_t register_end_;
  std::unordered_map<std::string, std::vector<std::pair<int, Register>>> registers_;
  std::unordered_map<std::string, std::vector<std::pair<int, Variable>>> variables_;
  std::unordered_map<std::string, std::vector<std::pair<int, std::int32_t>>> labels_;
  std::map<std::tuple<Preset::Kind, bool, std::int64_t, std::int32_t>, std::int32_t> presets_;
};

}  // namespace anydim::ptx
