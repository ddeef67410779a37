// Lists, tuples, function values and outputs whose rank only a call tells.

#include "ir/error.h"
#include "passes/lower_function.h"

namespace anydim::passes {

using namespace ir;

Code::Argument FunctionLowering::argument(ValueId value) {
  Code::Argument argument;
  const Type& type = function_.values[value].type;
  if (type.is_tensor()) {
    argument.dtype = type.tensor.dtype;
    argument.dims = sizes(type.tensor.dims);
  }
  argument.buffer = buffer_of(value);
  touch(argument.buffer);
  return argument;
}

// -1 where the operand is absent.
SlotTable::Id FunctionLowering::position_slot(const Binding& binding, std::size_t operand) {
  return operand < binding.operands.size() && binding.operands[operand] != no_value
             ? condition(binding.operands[operand])
             : -1;
}

void FunctionLowering::add_value_binding(const Binding& binding) {
  const auto arguments = [&](std::size_t first) {
    std::vector<Code::Argument> list;
    for (std::size_t i = first; i < binding.operands.size(); ++i)
      list.push_back(argument(binding.operands[i]));
    return list;
  };
  const auto give_result = [&](std::size_t i) {
    std::int32_t buffer = add_pool_buffer(binding.results[i]);
    define(binding.results[i], buffer);
    return buffer;
  };
  const std::string source = describe(function_, binding);
  switch (binding.op) {  // NOLINT: what no other file lowers
    case Op::closure: {
      std::vector<Code::Argument> kept = arguments(0);
      emit(Code::MakeFunction{give_result(0), shared_.function_index(binding.callee),
                              std::move(kept)});
      return;
    }
    case Op::apply: {
      Code::CallValue call{.value = buffer_of(binding.operands[0]),
                           .arguments = arguments(1),
                           .results = {},
                           .opened = {},
                           .source = source};
      call.opened = open_results(binding);
      for (std::size_t i = 0; i < binding.results.size(); ++i)
        call.results.push_back(give_result(i));
      has_no_bound(source);
      emit(std::move(call));
      return;
    }
    case Op::tuple:
    case Op::list: {
      std::vector<Code::Argument> elements = arguments(0);
      emit(Code::MakeList{give_result(0), std::move(elements)});
      return;
    }
    case Op::tuple_get: {
      std::int32_t from = buffer_of(binding.operands[0]);
      std::vector<Code::Opened> opened = open_results(binding);
      auto index = static_cast<std::int32_t>(integer_attribute(binding, "index"));
      emit(Code::ListAt{give_result(0), from, -1, index, std::move(opened), source});
      return;
    }
    case Op::list_length: {
      Id length = slots_.add_variable();
      emit(Code::ListLength{buffer_of(binding.operands[0]), length});
      add_scalar(binding.results[0], length, DType::I64);
      scopes_.back().pending.emplace_back(element_leaf(binding.results[0], 0), length);
      return;
    }
    case Op::list_at: {
      std::int32_t from = buffer_of(binding.operands[0]);
      Id position = position_slot(binding, 1);
      std::vector<Code::Opened> opened = open_results(binding);
      emit(Code::ListAt{give_result(0), from, position, 0, std::move(opened), source});
      return;
    }
    case Op::list_insert: {
      has_no_bound(source);
      std::int32_t from = buffer_of(binding.operands[0]);
      Id position = position_slot(binding, 2);
      Code::Argument element = argument(binding.operands[1]);
      emit(Code::ListInsert{give_result(0), from, std::move(element), position,
                            uses_[binding.operands[0]] == 1, source});
      return;
    }
    case Op::list_erase: {
      std::int32_t from = buffer_of(binding.operands[0]);
      Id position = position_slot(binding, 1);
      emit(Code::ListErase{give_result(0), from, position, source});
      return;
    }
    case Op::list_concat: {
      std::int32_t from = buffer_of(binding.operands[0]);
      const TensorType& type = function_.tensor_type(binding.results[0]);
      std::int64_t axis = integer_attribute(binding, "axis");
      if (axis < 0) axis += static_cast<std::int64_t>(type.rank());
      std::vector<Code::Opened> opened = open_results(binding);
      emit(Code::ListConcat{give_result(0), from, type.dtype, static_cast<std::int32_t>(axis),
                            integer_attribute(binding, "new_axis") != 0, std::move(opened),
                            source});
      return;
    }
    case Op::drop_ones: return add_drop_ones(binding);
    default: break;
  }
  throw Error(ErrorKind::Unsupported, source + " is not compiled; --executor reference runs it");
}

// ---- Outputs whose rank only a call tells ----

// What a result of the function is or, where it is what a drop_ones leaves, was.
ValueId FunctionLowering::computed(ValueId result) const {
  for (const Binding& binding : function_.body.bindings)
    if (binding.op == Op::drop_ones && binding.results[0] == result) return binding.operands[0];
  return result;
}

void FunctionLowering::add_drop_ones(const Binding& binding) {
  std::vector<Dim> ones = ones_of(binding);
  make_known(ones);
  ones_.emplace(binding.results[0], std::move(ones));
  stand_for(binding.operands[0], binding.results[0]);
}

// What tells of each dim of a drop_ones whether it goes: it does where this is 1.
std::vector<Dim> FunctionLowering::ones_of(const Binding& binding) const {
  const std::vector<Dim>& dims = function_.tensor_type(binding.operands[0]).dims;
  if (binding.operands.size() == 1) return dims;
  const auto constant = constants_.find(binding.operands[1]);
  std::vector<Dim> ones;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(dims.size()); ++i)
    ones.push_back(constant != constants_.end() ? Dim(constant->second.integer_at(i))
                                                : Dim::value(binding.operands[1], i));
  return ones;
}

}  // namespace anydim::passes
