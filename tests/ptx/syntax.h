// PTX as text: what the parser reads before anything is resolved.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace anydim::ptx {

enum class Type {
  b8,
  b16,
  b32,
  b64,
  b128,
  u8,
  u16,
  u32,
  u64,
  s8,
  s16,
  s32,
  s64,
  f16,
  f16x2,
  bf16,
  bf16x2,
  tf32,
  f32,
  f64,
  pred,
};
std::optional<Type> type_of(std::string_view name);
int type_bytes(Type type);  // pred: 1
bool is_signed(Type type);
bool is_float(Type type);

struct OperandText {
  enum class Kind { Name, Integer, Real, Address, Vector, Sink };
  Kind kind = Kind::Name;
  bool negated = false;         // !%p
  std::string name;             // Name; Address: its base, empty where the base is an integer
  std::string second;           // Name: q of p|q
  std::int64_t integer = 0;     // Integer; Address: offset
  double real = 0;              // Real, exactly (0f and 0d forms are widened)
  std::uint64_t real_bits = 0;  // the 0d form's bits or 0f form's bits
  int real_bytes = 0;           // 4: 0f form, 8: 0d form or decimal
  // Vector; Address of a tensor [map, {x, y}]: the base and its coordinates
  std::vector<OperandText> parts;
};

struct InstructionText {
  int line = 0;
  std::string guard;  // register of @%p, empty without
  bool guard_negated = false;
  std::string opcode;                  // up to the first dot
  std::vector<std::string> modifiers;  // the rest, split at dots; "shared::cta" is one
  // call: callee is operands[0] by name, see `results` and `arguments`
  std::vector<OperandText> operands;
  std::vector<std::string> results, arguments;  // of call
  int scope = 0;                                // the { } block it stands in
};

struct VariableText {
  int line = 0;
  std::string space;  // "global", "shared", "const", "local", "param", "reg"
  bool is_extern = false;
  Type type = Type::b8;
  std::uint64_t alignment = 1;
  std::uint64_t elements = 1;
  std::string name;
  std::vector<std::uint8_t> initial;  // bytes from the start; the rest is zero
  int scope = 0;
};

struct LabelText {
  std::string name;
  int scope = 0;
  std::size_t position = 0;  // index of the instruction it stands before
};

struct FunctionText {
  int line = 0;
  bool is_entry = false;
  std::string name;
  std::vector<VariableText> results, parameters;
  std::vector<VariableText> variables;  // registers, shared, local, call parameters
  std::vector<LabelText> labels;
  std::vector<InstructionText> instructions;
  std::vector<int> scope_parent{-1};  // scope 0 is the function's body
  // of .branchtargets, named in branch_target_names
  std::vector<std::vector<std::string>> branch_targets;
  std::vector<std::string> branch_target_names;
  std::uint32_t maximum_threads[3] = {0, 0, 0};  // .maxntid / .reqntid, 0: none
  bool required_threads = false;
  std::uint32_t required_cluster[3] = {0, 0, 0};
  int minimum_blocks = 0;  // .minnctapersm
};

struct ModuleText {
  std::string target;
  std::vector<VariableText> variables;
  std::vector<FunctionText> functions;
};

// Throws Error{Malformed} or Error{Unsupported} with the line.
ModuleText parse_text(std::string_view text);

}  // namespace anydim::ptx
