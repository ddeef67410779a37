#include "tests/ptx/function_decoder.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "ir/tensor.h"
#include "tests/ptx/memory.h"
#include "tests/ptx/text_cursor.h"

namespace anydim::ptx {
namespace {

std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

struct SpecialRow {
  std::string_view name;
  Special special;
  bool has_axes;
};
constexpr std::array<SpecialRow, 23> special_rows{{
    {"%tid", Special::TidX, true},
    {"%ntid", Special::NtidX, true},
    {"%ctaid", Special::CtaidX, true},
    {"%nctaid", Special::NctaidX, true},
    {"%clusterid", Special::ClusteridX, true},
    {"%nclusterid", Special::NclusteridX, true},
    {"%cluster_ctaid", Special::ClusterCtaidX, true},
    {"%cluster_nctaid", Special::ClusterNctaidX, true},
    {"%cluster_ctarank", Special::ClusterCtarank, false},
    {"%cluster_nctarank", Special::ClusterNctarank, false},
    {"%is_explicit_cluster", Special::IsExplicitCluster, false},
    {"%laneid", Special::Laneid, false},
    {"%warpid", Special::Warpid, false},
    {"%nwarpid", Special::Nwarpid, false},
    {"%smid", Special::Smid, false},
    {"%nsmid", Special::Nsmid, false},
    {"%lanemask_eq", Special::LanemaskEq, false},
    {"%lanemask_lt", Special::LanemaskLt, false},
    {"%lanemask_le", Special::LanemaskLe, false},
    {"%lanemask_gt", Special::LanemaskGt, false},
    {"%lanemask_ge", Special::LanemaskGe, false},
    {"%dynamic_smem_size", Special::DynamicSmemSize, false},
    {"%total_smem_size", Special::TotalSmemSize, false},
}};

const Special* find_special(const std::string& name, Special& storage) {
  constexpr std::array<std::pair<std::string_view, Special>, 4> others{
      {{"%clock", Special::Clock},
       {"%clock64", Special::Clock64},
       {"%globaltimer", Special::Globaltimer},
       {"%gridid", Special::Gridid}}};
  for (const auto& [other, special] : others)
    if (name == other) return &(storage = special);
  for (const SpecialRow& row : special_rows) {
    if (!row.has_axes && name == row.name) return &(storage = row.special);
    if (row.has_axes && name.size() == row.name.size() + 2 && name.starts_with(row.name) &&
        name[row.name.size()] == '.') {
      const int axis = name.back() - 'x';
      if (axis >= 0 && axis < 3)
        return &(storage = static_cast<Special>(static_cast<int>(row.special) + axis));
    }
  }
  return nullptr;
}

}  // namespace

FunctionDecoder::FunctionDecoder(ModuleSymbols& module, const FunctionText& text,
                                 Function& function, std::uint64_t register_start)
    : module_(module), text_(text), function_(function), register_end_(register_start) {
  if (text.is_entry) {
    std::uint64_t place = 0;
    for (const VariableText& parameter : text.parameters) {
      const std::uint64_t bytes =
          parameter.elements * static_cast<std::uint64_t>(type_bytes(parameter.type));
      place = align_up(place, parameter.alignment);
      function.parameters.push_back({parameter.name, place, bytes, parameter.alignment});
      variables_[parameter.name].push_back({0, Variable{"param", place}});
      place += bytes;
    }
    function.parameter_bytes = place;
    function.shared_bytes = module.shared_bytes;
  } else {
    const ModuleSymbols::Callee& callee = module.callees.at(text.name);
    for (std::size_t i = 0; i < text.parameters.size(); ++i)
      variables_[text.parameters[i].name].push_back(
          {0, Variable{"param", call_param_start + callee.parameters[i]}});
    for (std::size_t i = 0; i < text.results.size(); ++i)
      variables_[text.results[i].name].push_back(
          {0, Variable{"param", call_param_start + callee.results[i]}});
  }
  for (const VariableText& variable : text.variables) {
    if (variable.space == "reg") add_register(variable);
    else add_variable(variable);
  }
  for (const LabelText& label : text.labels)
    labels_[label.name].push_back(
        {label.scope, function.first + static_cast<std::int32_t>(label.position)});
  for (const auto& [name, alignment] : module.dynamic_shared)
    function.dynamic_alignment = std::max(function.dynamic_alignment, alignment);
}

void FunctionDecoder::add_register(const VariableText& text) {
  const int bytes = type_bytes(text.type);
  const std::uint64_t size = text.type == Type::pred ? 4
                             : bytes <= 4            ? 128
                                                     : 32 * static_cast<std::uint64_t>(bytes);
  register_end_ = align_up(register_end_, text.type == Type::pred ? 4 : 8);
  registers_[text.name].push_back(
      {text.scope, Register{static_cast<std::int32_t>(register_end_), text.type}});
  register_end_ += size;
}

void FunctionDecoder::add_variable(const VariableText& text) {
  const std::uint64_t bytes = text.elements * static_cast<std::uint64_t>(type_bytes(text.type));
  const auto give = [&](std::uint64_t& end) {
    const std::uint64_t place = align_up(end, text.alignment);
    end = place + bytes;
    return place;
  };
  if (text.space == "shared") {
    // Where a device function declares shared memory every kernel of the module holds it.
    const std::uint64_t place =
        give(text_.is_entry ? function_.shared_bytes : module_.shared_bytes);
    variables_[text.name].push_back({text.scope, Variable{"shared", shared_start + place}});
  } else if (text.space == "local") {
    variables_[text.name].push_back({text.scope, Variable{"local", give(module_.local_bytes)}});
  } else if (text.space == "param") {
    variables_[text.name].push_back(
        {text.scope, Variable{"param", call_param_start + give(module_.call_bytes)}});
  } else {
    unsupported_ptx(text.line, "a variable of the space ." + text.space +
                                   " inside a function is not supported");
  }
}

template <class T>
const T* FunctionDecoder::look_up(
    const std::unordered_map<std::string, std::vector<std::pair<int, T>>>& table,
    const std::string& name, int scope) const {
  const auto found = table.find(name);
  if (found == table.end()) return nullptr;
  for (int s = scope; s >= 0; s = text_.scope_parent[static_cast<std::size_t>(s)])
    for (const auto& [declared, value] : found->second)
      if (declared == s) return &value;
  return nullptr;
}

const FunctionDecoder::Register* FunctionDecoder::find_register(const std::string& name,
                                                                int scope) const {
  return look_up(registers_, name, scope);
}

std::int32_t FunctionDecoder::label(const std::string& name, int line, int scope) const {
  if (const std::int32_t* found = look_up(labels_, name, scope)) return *found;
  malformed_ptx(line, "the label " + name + " is not declared");
}

std::int64_t FunctionDecoder::place(const std::string& name, int line, int scope) const {
  if (const Variable* variable = look_up(variables_, name, scope))
    return static_cast<std::int64_t>(variable->place);
  if (const auto shared = module_.shared.find(name); shared != module_.shared.end())
    return static_cast<std::int64_t>(shared->second);
  malformed_ptx(line, "the name " + name + " is not declared, or has no fixed place");
}

std::uint64_t FunctionDecoder::call_place(const std::string& name, int line, int scope) const {
  const std::int64_t address = place(name, line, scope);
  if (address < static_cast<std::int64_t>(call_param_start))
    malformed_ptx(line, name + " is no parameter of a call");
  return static_cast<std::uint64_t>(address) - call_param_start;
}

std::int32_t FunctionDecoder::preset(Preset::Kind kind, bool wide, std::int64_t value,
                                     std::int32_t index) {
  const auto [entry, is_new] = presets_.try_emplace({kind, wide, value, index}, 0);
  if (is_new) {
    register_end_ = align_up(register_end_, 8);
    entry->second = static_cast<std::int32_t>(register_end_);
    register_end_ += wide ? 256 : 128;
    function_.presets.push_back({kind, wide, entry->second, value, index});
  }
  return entry->second;
}

std::int32_t FunctionDecoder::immediate(const OperandText& operand, Type type, bool wide,
                                        int line) {
  std::uint64_t bits = 0;
  if (operand.kind == OperandText::Kind::Integer) {
    bits = static_cast<std::uint64_t>(operand.integer);
    if (type == Type::f32) bits = std::bit_cast<std::uint32_t>(static_cast<float>(operand.integer));
    if (type == Type::f64)
      bits = std::bit_cast<std::uint64_t>(static_cast<double>(operand.integer));
  } else if (type == Type::f32) {
    bits = operand.real_bytes == 4 ? operand.real_bits
                                   : std::bit_cast<std::uint32_t>(static_cast<float>(operand.real));
  } else if (type == Type::f64) {
    bits = std::bit_cast<std::uint64_t>(operand.real);
  } else if (static_cast<int>(operand.real_bytes) == type_bytes(type)) {
    bits = operand.real_bits;
  } else {
    malformed_ptx(line, "a real number of another size than the instruction's type");
  }
  if (!wide) bits &= 0xffff'ffffU;
  return preset(Preset::Kind::Value, wide, static_cast<std::int64_t>(bits), 0);
}

std::int32_t FunctionDecoder::value(const OperandText& operand, Type type, bool wide, int line,
                                    int scope) {
  if (operand.kind == OperandText::Kind::Integer || operand.kind == OperandText::Kind::Real)
    return immediate(operand, type, wide, line);
  if (operand.kind != OperandText::Kind::Name)
    malformed_ptx(line, "expected a register, a number or a variable");
  const std::string& name = operand.name;
  Special special{};
  if (name == "WARP_SZ") return preset(Preset::Kind::Value, wide, 32, 0);
  if (find_special(name, special))
    return preset(Preset::Kind::Special, wide, 0, static_cast<std::int32_t>(special));
  if (const Variable* variable = look_up(variables_, name, scope))
    return preset(Preset::Kind::Value, wide,
                  static_cast<std::int64_t>(variable->place) + operand.integer, 0);
  if (const auto shared = module_.shared.find(name); shared != module_.shared.end())
    return preset(Preset::Kind::Value, wide,
                  static_cast<std::int64_t>(shared->second) + operand.integer, 0);
  if (module_.dynamic_shared.contains(name))
    return preset(Preset::Kind::DynamicShared, wide, operand.integer, 0);
  if (const auto variable = module_.variables.find(name); variable != module_.variables.end())
    return preset(Preset::Kind::GlobalAddress, wide, operand.integer, variable->second);
  malformed_ptx(line, "the name " + name + " is not declared");
}

}  // namespace anydim::ptx
