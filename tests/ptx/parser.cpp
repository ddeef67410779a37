#include <utility>

#include "tests/ptx/syntax.h"
#include "tests/ptx/text_cursor.h"

namespace anydim::ptx {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view text) : cursor_(text) {}

  ModuleText module() {
    while (!cursor_.at_end()) top_level();
    return std::move(module_);
  }

 private:
  void top_level() {
    if (cursor_.take(';')) return;
    const int line = cursor_.line();
    std::string name = cursor_.directive();
    if (name == "version") {
      OperandText number;
      cursor_.number(number);
      return;
    }
    if (name == "target") {
      module_.target = cursor_.word();
      while (cursor_.take(',')) cursor_.word();
      return;
    }
    if (name == "address_size") {
      if (cursor_.integer() != 64) malformed_ptx(line, "only 64-bit addresses are supported");
      return;
    }
    if (name == "file") {
      skip_file();
      return;
    }
    if (name == "section") {
      skip_section();
      return;
    }
    bool is_extern = false;
    while (name == "visible" || name == "extern" || name == "weak" || name == "common") {
      is_extern = is_extern || name == "extern";
      name = cursor_.directive();
    }
    if (name == "entry" || name == "func") {
      function(line, name == "entry", is_extern);
    } else if (name == "global" || name == "shared" || name == "const") {
      module_.variables.push_back(variable(line, name, is_extern, 0));
      cursor_.expect(';');
    } else {
      unsupported_ptx(line, "the directive ." + name + " is not known here");
    }
  }

  void skip_file() {
    cursor_.integer();
    cursor_.quoted();
    while (cursor_.take(',')) cursor_.integer();
  }

  void skip_section() {
    while (!cursor_.take('{')) cursor_.skip_one();
    while (!cursor_.take('}')) cursor_.skip_one();
  }

  // Behind the space's directive: alignment, type, name, extents and initial value.
  VariableText variable(int line, const std::string& space, bool is_extern, int scope) {
    VariableText result;
    result.line = line;
    result.space = space;
    result.is_extern = is_extern;
    result.scope = scope;
    std::uint64_t alignment = 0;
    std::uint64_t vector = 1;
    for (;;) {
      const std::string name = cursor_.directive();
      if (name == "align") {
        alignment = static_cast<std::uint64_t>(cursor_.integer());
      } else if (name == "attribute" || name == "ptr") {
        unsupported_ptx(line, "." + name + " of a variable is not supported");
      } else if (name == "v2" || name == "v4") {
        vector = name == "v2" ? 2 : 4;
      } else if (const auto type = type_of(name)) {
        result.type = *type;
        break;
      } else {
        unsupported_ptx(line, "the type ." + name + " is not known");
      }
    }
    // Parameters of kernels may tell what their pointers point to.
    while (cursor_.peek() == '.') {
      const std::string name = cursor_.directive();
      if (name == "align") cursor_.integer();
      else if (name != "ptr" && name != "global" && name != "shared" && name != "const" &&
               name != "local")
        unsupported_ptx(line, "the attribute ." + name + " of a parameter is not known");
    }
    const auto bytes = static_cast<std::uint64_t>(type_bytes(result.type)) * vector;
    result.alignment = alignment != 0 ? alignment : bytes;
    result.name = cursor_.word();
    result.elements = vector;
    while (cursor_.take('[')) {
      if (cursor_.take(']')) {
        result.elements = 0;
        continue;
      }
      result.elements *= static_cast<std::uint64_t>(cursor_.integer());
      cursor_.expect(']');
    }
    if (cursor_.take('=')) initial(result);
    return result;
  }

  void initial(VariableText& variable) {
    if (cursor_.take('{')) {
      if (cursor_.take('}')) return;
      do {
        if (cursor_.peek() == '{') initial(variable);
        else initial_element(variable);
      } while (cursor_.take(','));
      cursor_.expect('}');
    } else {
      initial_element(variable);
    }
  }

  void initial_element(VariableText& variable) {
    if (!cursor_.number_ahead())
      unsupported_ptx(cursor_.line(), "an initial value that names a variable is not supported");
    OperandText operand;
    cursor_.number(operand);
    std::uint64_t bits = operand.kind == OperandText::Kind::Integer
                             ? static_cast<std::uint64_t>(operand.integer)
                             : operand.real_bits;
    for (int i = 0; i < type_bytes(variable.type); ++i, bits >>= 8)
      variable.initial.push_back(static_cast<std::uint8_t>(bits));
  }

  std::vector<VariableText> parameter_list() {
    std::vector<VariableText> result;
    cursor_.expect('(');
    if (cursor_.take(')')) return result;
    do {
      const int line = cursor_.line();
      const std::string space = cursor_.directive();
      if (space != "param") unsupported_ptx(line, "parameters in ." + space + " are not supported");
      result.push_back(variable(line, space, false, 0));
    } while (cursor_.take(','));
    cursor_.expect(')');
    return result;
  }

  void function(int line, bool is_entry, bool is_extern) {
    FunctionText result;
    result.line = line;
    result.is_entry = is_entry;
    if (!is_entry && cursor_.peek() == '(') result.results = parameter_list();
    result.name = cursor_.word();
    if (cursor_.peek() == '(') result.parameters = parameter_list();
    while (cursor_.peek() == '.') function_directive(result);
    if (cursor_.take(';')) return;  // a declaration
    if (is_extern) unsupported_ptx(line, "the external function " + result.name + " has a body");
    cursor_.expect('{');
    body(result, 0);
    module_.functions.push_back(std::move(result));
  }

  void function_directive(FunctionText& function) {
    const int line = cursor_.line();
    const std::string name = cursor_.directive();
    if (name == "maxntid" || name == "reqntid" || name == "reqnctapercluster") {
      std::uint32_t* extents =
          name == "reqnctapercluster" ? function.required_cluster : function.maximum_threads;
      for (int i = 0; i < 3; ++i) extents[i] = 1;
      for (int i = 0; i < 3; ++i) {
        extents[i] = static_cast<std::uint32_t>(cursor_.integer());
        if (i == 2 || !cursor_.take(',')) break;
      }
      if (name == "reqntid") function.required_threads = true;
    } else if (name == "minnctapersm") {
      function.minimum_blocks = static_cast<int>(cursor_.integer());
    } else if (name == "maxnreg" || name == "maxclusterrank") {
      cursor_.integer();
    } else if (name == "pragma") {
      cursor_.quoted();
      cursor_.expect(';');
    } else if (name != "noreturn" && name != "explicitcluster" && name != "blocksareclusters") {
      unsupported_ptx(line, "the directive ." + name + " of a function is not known");
    }
  }

  void body(FunctionText& function, int scope) {
    while (!cursor_.take('}')) {
      if (cursor_.at_end()) cursor_.fail("expected '}'");
      if (cursor_.take(';')) continue;
      if (cursor_.take('{')) {
        function.scope_parent.push_back(scope);
        body(function, static_cast<int>(function.scope_parent.size()) - 1);
      } else if (cursor_.peek() == '.') {
        local_directive(function, scope);
      } else if (cursor_.label()) {
        label(function, scope);
      } else {
        function.instructions.push_back(instruction(scope));
      }
    }
  }

  void label(FunctionText& function, int scope) {
    std::string name = cursor_.word();
    cursor_.expect(':');
    if (!cursor_.ahead(".branchtargets")) {
      function.labels.push_back({std::move(name), scope, function.instructions.size()});
      return;
    }
    cursor_.directive();
    std::vector<std::string> targets{cursor_.word()};
    while (cursor_.take(',')) targets.push_back(cursor_.word());
    cursor_.expect(';');
    function.branch_target_names.push_back(std::move(name));
    function.branch_targets.push_back(std::move(targets));
  }

  void local_directive(FunctionText& function, int scope) {
    const int line = cursor_.line();
    const std::string name = cursor_.directive();
    if (name == "reg") {
      registers(function, line, scope);
    } else if (name == "shared" || name == "local" || name == "param" || name == "const" ||
               name == "global") {
      function.variables.push_back(variable(line, name, false, scope));
      cursor_.expect(';');
    } else if (name == "pragma") {
      cursor_.quoted();
      cursor_.expect(';');
    } else if (name == "loc") {
      skip_location();
    } else {
      unsupported_ptx(line, "the directive ." + name + " is not known");
    }
  }

  void skip_location() {
    for (int i = 0; i < 3; ++i) cursor_.integer();
    while (cursor_.take(',')) {
      cursor_.word();
      if (cursor_.number_ahead()) cursor_.integer();
      if (cursor_.at_word()) cursor_.word();
      if (cursor_.take('+')) cursor_.integer();
    }
  }

  void registers(FunctionText& function, int line, int scope) {
    const std::string type_name = cursor_.directive();
    const auto type = type_of(type_name);
    if (!type) unsupported_ptx(line, "registers of type ." + type_name + " are not known");
    do {
      VariableText variable;
      variable.line = line;
      variable.space = "reg";
      variable.type = *type;
      variable.scope = scope;
      variable.name = cursor_.word();
      if (cursor_.take('<')) {
        const std::int64_t count = cursor_.integer();
        cursor_.expect('>');
        const std::string stem = variable.name;
        for (std::int64_t i = 0; i < count; ++i) {
          variable.name = stem + std::to_string(i);
          function.variables.push_back(variable);
        }
      } else {
        function.variables.push_back(variable);
      }
    } while (cursor_.take(','));
    cursor_.expect(';');
  }

  InstructionText instruction(int scope) {
    InstructionText result;
    result.line = cursor_.line();
    result.scope = scope;
    if (cursor_.take('@')) {
      result.guard_negated = cursor_.take('!');
      result.guard = cursor_.word();
    }
    const std::string name = cursor_.dotted();
    std::size_t dot = name.find('.');
    result.opcode = name.substr(0, dot);
    while (dot != std::string::npos) {
      const std::size_t next = name.find('.', dot + 1);
      result.modifiers.push_back(
          name.substr(dot + 1, next == std::string::npos ? next : next - dot - 1));
      dot = next;
    }
    if (result.opcode == "call") {
      call(result);
    } else if (cursor_.peek() != ';') {
      do result.operands.push_back(operand());
      while (cursor_.take(','));
    }
    cursor_.expect(';');
    return result;
  }

  void call(InstructionText& result) {
    auto names = [&] {
      std::vector<std::string> list;
      cursor_.expect('(');
      if (cursor_.take(')')) return list;
      do list.push_back(cursor_.word());
      while (cursor_.take(','));
      cursor_.expect(')');
      return list;
    };
    if (cursor_.peek() == '(') {
      result.results = names();
      cursor_.expect(',');
    }
    result.operands.push_back(operand());
    if (cursor_.take(',')) result.arguments = names();
    if (cursor_.take(',')) unsupported_ptx(result.line, "indirect calls are not supported");
  }

  OperandText operand() {
    OperandText result;
    if (cursor_.take('!')) {
      result = operand();
      result.negated = !result.negated;
    } else if (cursor_.take('{')) {
      result.kind = OperandText::Kind::Vector;
      do result.parts.push_back(operand());
      while (cursor_.take(','));
      cursor_.expect('}');
    } else if (cursor_.take('[')) {
      address(result);
    } else if (cursor_.number_ahead()) {
      cursor_.number(result);
    } else {
      result.name = cursor_.dotted();
      if (result.name == "_") result.kind = OperandText::Kind::Sink;
      if (cursor_.take('|')) result.second = cursor_.word();
      offset(result.integer);
    }
    return result;
  }

  void offset(std::int64_t& value) {
    if (cursor_.take('+') || cursor_.peek() == '-') value = cursor_.integer();
  }

  void address(OperandText& result) {
    result.kind = OperandText::Kind::Address;
    if (cursor_.number_ahead()) {
      result.integer = cursor_.integer();
    } else {
      result.name = cursor_.dotted();
      offset(result.integer);
    }
    while (cursor_.take(',')) result.parts.push_back(operand());
    cursor_.expect(']');
  }

  TextCursor cursor_;
  ModuleText module_;
};

}  // namespace

ModuleText parse_text(std::string_view text) { return Parser(text).module(); }

}  // namespace anydim::ptx
