#include "tests/ptx/decoder.h"

#include <algorithm>
#include <utility>

#include "tests/ptx/function_decoder.h"
#include "tests/ptx/memory.h"
#include "tests/ptx/text_cursor.h"

namespace anydim::ptx {

Decoder::Decoder(FunctionDecoder& function, const InstructionText& text, Instruction& decoded,
                 std::vector<std::int32_t>& touched)
    : instruction(decoded), function_(function), text_(text), taken_(text.modifiers.size()),
      touched_(touched) {}

bool Decoder::take(std::string_view modifier) {
  for (std::size_t i = 0; i < taken_.size(); ++i)
    if (!taken_[i] && text_.modifiers[i] == modifier) return taken_[i] = true;
  return false;
}

std::string_view Decoder::take_any(std::initializer_list<std::string_view> modifiers) {
  for (const std::string_view modifier : modifiers)
    if (take(modifier)) return modifier;
  return {};
}

void Decoder::demand(std::string_view modifier) {
  if (!take(modifier)) unknown("it lacks ." + std::string(modifier));
}

Type Decoder::take_type() {
  for (std::size_t i = 0; i < taken_.size(); ++i) {
    if (taken_[i]) continue;
    if (const auto type = type_of(text_.modifiers[i])) {
      taken_[i] = true;
      return *type;
    }
  }
  unknown("it names no type");
}

Space Decoder::take_space(Space otherwise) {
  constexpr std::pair<std::string_view, Space> spaces[] = {
      {"global", Space::Global},      {"shared", Space::Shared},
      {"shared::cta", Space::Shared}, {"shared::cluster", Space::SharedCluster},
      {"local", Space::Local},        {"const", Space::Const},
      {"param", Space::Param},        {"param::entry", Space::Param},
      {"param::func", Space::Param},
  };
  for (const auto& [name, space] : spaces)
    if (take(name)) return space;
  return otherwise;
}

std::string_view Decoder::first_modifier() const {
  for (std::size_t i = 0; i < taken_.size(); ++i)
    if (!taken_[i]) return text_.modifiers[i];
  return {};
}

const OperandText& Decoder::operand(std::size_t index) const {
  if (index >= text_.operands.size())
    malformed_ptx(text_.line, text_.opcode + " has too few operands");
  return text_.operands[index];
}

bool Decoder::is_predicate(const OperandText& operand) const {
  const FunctionDecoder::Register* found = operand.kind == OperandText::Kind::Name
                                               ? function_.find_register(operand.name, text_.scope)
                                               : nullptr;
  return found != nullptr && found->type == Type::pred;
}

bool Decoder::is_wide(const OperandText& operand) const {
  if (operand.kind != OperandText::Kind::Name) return false;
  const FunctionDecoder::Register* found = function_.find_register(operand.name, text_.scope);
  return found != nullptr && type_bytes(found->type) > 4;
}

std::int32_t Decoder::any_source(const OperandText& operand, Type type, bool& wide) {
  const FunctionDecoder::Register* found = operand.kind == OperandText::Kind::Name
                                               ? function_.find_register(operand.name, text_.scope)
                                               : nullptr;
  if (found == nullptr) {
    wide = type_bytes(type) > 4;
    return function_.value(operand, type, wide, text_.line, text_.scope);
  }
  if (found->type == Type::pred || operand.integer != 0)
    malformed_ptx(text_.line, operand.name + " cannot stand here as it does");
  wide = type_bytes(found->type) > 4;
  touched_.push_back(found->offset);
  return found->offset;
}

std::int32_t Decoder::source(const OperandText& operand, Type type) {
  if (type == Type::pred) unknown("a predicate stands where a value is expected");
  bool wide = false;
  const std::int32_t offset = any_source(operand, type, wide);
  if (wide != type_bytes(type) > 4)
    malformed_ptx(text_.line, operand.name + " has not the size of the instruction's type");
  return offset;
}

std::int32_t Decoder::any_destination(const OperandText& operand, Type type, bool& wide) {
  wide = type_bytes(type) > 4;
  if (operand.kind == OperandText::Kind::Sink) return -1;
  const FunctionDecoder::Register* found = operand.kind == OperandText::Kind::Name
                                               ? function_.find_register(operand.name, text_.scope)
                                               : nullptr;
  if (found == nullptr)
    malformed_ptx(text_.line, "expected a declared register as destination, found " + operand.name);
  if ((found->type == Type::pred) != (type == Type::pred))
    malformed_ptx(text_.line, operand.name + " has not the type of the result");
  wide = type_bytes(found->type) > 4;
  touched_.push_back(found->offset);
  return found->offset;
}

std::int32_t Decoder::destination(const OperandText& operand, Type type) {
  bool wide = false;
  const std::int32_t offset = any_destination(operand, type, wide);
  if (wide != type_bytes(type) > 4)
    malformed_ptx(text_.line, operand.name + " has not the size of the instruction's type");
  return offset;
}

std::vector<std::int32_t> Decoder::sources(std::size_t index, Type type) {
  const OperandText& list = operand(index);
  if (list.kind != OperandText::Kind::Vector) return {source(list, type)};
  std::vector<std::int32_t> result;
  for (const OperandText& part : list.parts) result.push_back(source(part, type));
  return result;
}

std::vector<std::int32_t> Decoder::destinations(std::size_t index, Type type) {
  const OperandText& list = operand(index);
  if (list.kind != OperandText::Kind::Vector) return {destination(list, type)};
  std::vector<std::int32_t> result;
  for (const OperandText& part : list.parts) result.push_back(destination(part, type));
  return result;
}

std::int32_t Decoder::predicate(const OperandText& operand, bool& negated) {
  negated = operand.negated;
  if (operand.kind == OperandText::Kind::Integer) {
    OperandText all_lanes = operand;
    all_lanes.integer = operand.integer != 0 ? -1 : 0;
    return function_.value(all_lanes, Type::b32, false, text_.line, text_.scope);
  }
  const FunctionDecoder::Register* found = function_.find_register(operand.name, text_.scope);
  if (found == nullptr || found->type != Type::pred)
    malformed_ptx(text_.line, "expected a predicate, found " + operand.name);
  touched_.push_back(found->offset);
  return found->offset;
}

AddressOperand Decoder::address(const OperandText& operand, Space space) {
  if (operand.kind != OperandText::Kind::Address)
    malformed_ptx(text_.line, "expected an address in brackets");
  AddressOperand result;
  result.offset = operand.integer;
  if (operand.name.empty()) return result;
  if (const FunctionDecoder::Register* found = function_.find_register(operand.name, text_.scope)) {
    result.base = found->offset;
    result.wide = type_bytes(found->type) > 4;
    touched_.push_back(found->offset);
    return result;
  }
  if (space == Space::Param || space == Space::Local) {
    result.offset += function_.place(operand.name, text_.line, text_.scope);
    return result;
  }
  OperandText name;
  name.name = operand.name;
  result.wide = true;
  result.base = function_.value(name, Type::b64, true, text_.line, text_.scope);
  return result;
}

std::int64_t Decoder::constant(std::size_t index) const {
  const OperandText& text = operand(index);
  if (text.kind != OperandText::Kind::Integer)
    malformed_ptx(text_.line, "expected an integer constant");
  return text.integer;
}

std::int32_t Decoder::label(std::size_t index) const {
  return function_.label(operand(index).name, text_.line, text_.scope);
}

std::vector<std::int32_t> Decoder::branch_targets(std::size_t index) const {
  const FunctionText& text = function_.text();
  for (std::size_t i = 0; i < text.branch_target_names.size(); ++i) {
    if (text.branch_target_names[i] != operand(index).name) continue;
    std::vector<std::int32_t> result;
    for (const std::string& name : text.branch_targets[i])
      result.push_back(function_.label(name, text_.line, text_.scope));
    return result;
  }
  malformed_ptx(text_.line, operand(index).name + " names no .branchtargets");
}

std::shared_ptr<const CallDetail> Decoder::call() const {
  ModuleSymbols& module = function_.module();
  const auto found = module.callees.find(operand(0).name);
  if (found == module.callees.end())
    unsupported_ptx(text_.line, "the function " + operand(0).name + " has no body here");
  const ModuleSymbols::Callee& callee = found->second;
  if (callee.parameters.size() != text_.arguments.size() ||
      callee.results.size() != text_.results.size())
    malformed_ptx(text_.line, "the call has not the parameters of " + operand(0).name);
  module.calls.emplace_back(function_.text().name, operand(0).name);
  auto detail = std::make_shared<CallDetail>();
  detail->target = callee.first;
  for (std::size_t i = 0; i < text_.arguments.size(); ++i)
    detail->arguments.push_back({function_.call_place(text_.arguments[i], text_.line, text_.scope),
                                 callee.parameters[i], callee.parameter_bytes[i]});
  for (std::size_t i = 0; i < text_.results.size(); ++i)
    detail->results.push_back({callee.results[i],
                               function_.call_place(text_.results[i], text_.line, text_.scope),
                               callee.result_bytes[i]});
  return detail;
}

bool Decoder::in_entry() const { return function_.text().is_entry; }

void Decoder::unknown(std::string_view why) const {
  std::string name = text_.opcode;
  for (const std::string& modifier : text_.modifiers) name += "." + modifier;
  unsupported_ptx(text_.line,
                  "the instruction " + name + " is not known here: " + std::string(why));
}

void Decoder::finish() {
  if (const std::string_view left = first_modifier(); !left.empty())
    unknown("the modifier ." + std::string(left) + " is not understood");
  instruction.line = text_.line;
}

}  // namespace anydim::ptx
