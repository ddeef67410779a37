// From one line of PTX to an Instruction. A file of handlers adds its opcodes to the table by an
// add_... function named in opcodes.cpp. A decode function takes every modifier that it
// understands; one that is left is an unknown instruction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/ptx/program.h"
#include "tests/ptx/syntax.h"

namespace anydim::ptx {

class FunctionDecoder;  // decoder.cpp: symbols and registers of the function

// [base + offset]; base is a register-file offset of `wide ? 8 : 4` bytes a lane, or -1 where the
// address is the offset itself
struct AddressOperand {
  std::int32_t base = -1;
  bool wide = false;
  std::int64_t offset = 0;
};

// Bytes copied between the parameter variables of caller and callee, in call space.
struct CallDetail {
  struct Copy {
    std::uint64_t from = 0, to = 0, bytes = 0;
  };
  std::int32_t target = 0;
  std::vector<Copy> arguments, results;
};

class Decoder {
 public:
  Decoder(FunctionDecoder& function, const InstructionText& text, Instruction& decoded,
          std::vector<std::int32_t>& touched);

  Instruction& instruction;
  const InstructionText& text() const { return text_; }

  // Modifiers, wherever they stand. take: was it there? take_any: which of them was there, "" for
  // none.
  bool take(std::string_view modifier);
  std::string_view take_any(std::initializer_list<std::string_view> modifiers);
  void demand(std::string_view modifier);  // unknown instruction without it
  Type take_type();                        // the first modifier that names a type, from the left
  Space take_space(Space otherwise);
  std::string_view first_modifier() const;  // of those not yet taken, "" for none

  // Operands. Sources of any kind (register, immediate, name of a variable, special register)
  // become register-file offsets.
  std::size_t operands() const { return text_.operands.size(); }
  const OperandText& operand(std::size_t index) const;  // throws where there is none
  bool is_sink(std::size_t index) const { return operand(index).kind == OperandText::Kind::Sink; }
  std::int32_t source(const OperandText& operand, Type type);
  std::int32_t source(std::size_t index, Type type) { return source(operand(index), type); }
  std::int32_t destination(const OperandText& operand, Type type);  // -1 for a sink
  std::int32_t destination(std::size_t index, Type type) {
    return destination(operand(index), type);
  }
  bool is_predicate(const OperandText& operand) const;  // a register of that type
  bool is_wide(const OperandText& operand) const;       // a register of 8 bytes a lane
  std::int32_t any_source(const OperandText& operand, Type type,
                          bool& wide);  // whatever width the register has
  std::int32_t any_destination(const OperandText& operand, Type type, bool& wide);  // -1 for a sink
  std::vector<std::int32_t> sources(std::size_t index, Type type);       // {a, b, ...} or one
  std::vector<std::int32_t> destinations(std::size_t index, Type type);  // {a, b, ...} or one
  std::int32_t predicate(const OperandText& operand,
                         bool& negated);  // a source predicate; a literal 0 or 1 too
  AddressOperand address(const OperandText& operand, Space space);
  AddressOperand address(std::size_t index, Space space) { return address(operand(index), space); }
  std::int64_t constant(std::size_t index) const;  // an integer literal
  std::int32_t label(std::size_t index) const;     // index among the program's instructions
  std::vector<std::int32_t> branch_targets(std::size_t index) const;
  std::shared_ptr<const CallDetail> call() const;  // of a call instruction
  bool in_entry() const;

  [[noreturn]] void unknown(std::string_view why) const;
  void finish();  // throws where a modifier is left

 private:
  FunctionDecoder& function_;
  const InstructionText& text_;
  std::vector<bool> taken_;
  std::vector<std::int32_t>& touched_;  // registers named so far
};

using Decode = std::function<void(Decoder&)>;
using OpcodeTable = std::map<std::string, Decode, std::less<>>;  // by the part before the first dot

const OpcodeTable& opcode_table();

}  // namespace anydim::ptx
