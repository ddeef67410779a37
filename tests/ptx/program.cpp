#include "tests/ptx/program.h"

#include <algorithm>
#include <set>

#include "tests/ptx/control_flow.h"
#include "tests/ptx/function_decoder.h"
#include "tests/ptx/interpreter.h"
#include "tests/ptx/memory.h"
#include "tests/ptx/text_cursor.h"

namespace anydim::ptx {
namespace {

std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}
std::uint64_t bytes_of(const VariableText& text) {
  return text.elements * static_cast<std::uint64_t>(type_bytes(text.type));
}

class ProgramBuilder {
 public:
  explicit ProgramBuilder(const ModuleText& text) : text_(text) {}

  std::shared_ptr<const Program> build() {
    program_->target = text_.target;
    add_variables();
    // Device functions first: kernels build on their registers and shared memory.
    for (const FunctionText& function : text_.functions)
      if (!function.is_entry) order_.push_back(&function);
    for (const FunctionText& function : text_.functions)
      if (function.is_entry) order_.push_back(&function);
    add_callees();
    std::uint64_t device_registers = 0;
    for (const FunctionText* function : order_) {
      const std::uint64_t end = add_function(*function, device_registers);
      if (!function->is_entry) device_registers = end;
    }
    refuse_recursion();
    program_->local_bytes = align_up(symbols_.local_bytes, 16);
    program_->call_bytes = align_up(symbols_.call_bytes, 16);
    return program_;
  }

 private:
  void add_variables() {
    for (const VariableText& variable : text_.variables) {
      if (variable.space == "shared" && variable.is_extern) {
        symbols_.dynamic_shared[variable.name] = variable.alignment;
      } else if (variable.space == "shared") {
        const std::uint64_t place = align_up(symbols_.shared_bytes, variable.alignment);
        symbols_.shared[variable.name] = shared_start + place;
        symbols_.shared_bytes = place + bytes_of(variable);
      } else {
        if (variable.is_extern)
          unsupported_ptx(variable.line,
                          "the variable " + variable.name + " is not defined in this module");
        symbols_.variables[variable.name] = static_cast<std::int32_t>(program_->variables.size());
        program_->variables.push_back({variable.name, variable.space == "const",
                                       std::max<std::uint64_t>(bytes_of(variable), 1),
                                       variable.alignment, variable.initial});
      }
    }
  }

  void add_callees() {
    std::int32_t first = 0;
    for (const FunctionText* function : order_) {
      if (!function->is_entry) {
        ModuleSymbols::Callee& callee = symbols_.callees[function->name];
        callee.first = first;
        const auto give = [&](const VariableText& variable, std::vector<std::uint64_t>& places,
                              std::vector<std::uint64_t>& bytes) {
          const std::uint64_t place = align_up(symbols_.call_bytes, variable.alignment);
          symbols_.call_bytes = place + bytes_of(variable);
          places.push_back(place);
          bytes.push_back(bytes_of(variable));
        };
        for (const VariableText& variable : function->parameters)
          give(variable, callee.parameters, callee.parameter_bytes);
        for (const VariableText& variable : function->results)
          give(variable, callee.results, callee.result_bytes);
      }
      first += static_cast<std::int32_t>(function->instructions.size()) + 1;
    }
  }

  std::uint64_t add_function(const FunctionText& text, std::uint64_t register_start) {
    Function function;
    function.name = text.name;
    function.is_entry = text.is_entry;
    function.first = static_cast<std::int32_t>(program_->instructions.size());
    std::copy_n(text.maximum_threads, 3, function.maximum_threads.begin());
    std::copy_n(text.required_cluster, 3, function.required_cluster.begin());
    function.required_threads = text.required_threads;
    function.minimum_blocks = text.minimum_blocks;
    FunctionDecoder decoder(symbols_, text, function, register_start);
    for (const InstructionText& instruction : text.instructions)
      add_instruction(decoder, instruction);
    InstructionText end;  // falling off the end returns
    end.line = text.instructions.empty() ? text.line : text.instructions.back().line;
    end.opcode = "ret";
    add_instruction(decoder, end);
    function.last = static_cast<std::int32_t>(program_->instructions.size());
    function.register_bytes = align_up(decoder.register_end(), 8);
    find_meeting_points(program_->instructions, function.first, function.last);
    program_->functions.push_back(std::move(function));
    return align_up(decoder.register_end(), 8);
  }

  void add_instruction(FunctionDecoder& function, const InstructionText& text) {
    const auto found = opcode_table().find(text.opcode);
    std::string name = text.opcode;
    for (const std::string& modifier : text.modifiers) name += "." + modifier;
    if (found == opcode_table().end())
      unsupported_ptx(text.line, "the instruction " + name + " is not known here");
    Instruction instruction;
    std::vector<std::int32_t> touched;
    Decoder decoder(function, text, instruction, touched);
    if (!text.guard.empty()) {
      OperandText guard;
      guard.name = text.guard;
      guard.negated = text.guard_negated;
      instruction.guard = decoder.predicate(guard, instruction.guard_negated);
    }
    found->second(decoder);
    decoder.finish();
    program_->instructions.push_back(std::move(instruction));
    program_->touched.push_back(std::move(touched));
    program_->source.push_back(std::move(name));
  }

  void refuse_recursion() {
    std::set<std::string> done;
    const auto visit = [&](const auto& self, const std::string& name,
                           std::vector<std::string>& path) -> void {
      if (std::find(path.begin(), path.end(), name) != path.end())
        unsupported_ptx(0, "the function " + name + " is recursive");
      if (!done.insert(name).second) return;
      path.push_back(name);
      for (const auto& [caller, callee] : symbols_.calls)
        if (caller == name) self(self, callee, path);
      path.pop_back();
    };
    std::vector<std::string> path;
    for (const FunctionText* function : order_) visit(visit, function->name, path);
  }

  const ModuleText& text_;
  std::shared_ptr<Program> program_ = std::make_shared<Program>();
  ModuleSymbols symbols_;
  std::vector<const FunctionText*> order_;
};

}  // namespace

const Function* Program::entry(std::string_view name) const {
  for (const Function& function : functions)
    if (function.is_entry && function.name == name) return &function;
  return nullptr;
}

Module parse_ptx(std::string_view text) {
  const ModuleText module = parse_text(text);
  return {ProgramBuilder(module).build()};
}

}  // namespace anydim::ptx
