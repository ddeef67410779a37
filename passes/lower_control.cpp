// Blocks become parts of the flat code with jumps; calls have frames of their own.
#include <fmt/format.h>

#include <algorithm>

#include "ir/error.h"
#include "passes/lower_function.h"

namespace anydim::passes {

using namespace ir;

void FunctionLowering::open_block() {
  emit(Code::Enter{});
  scopes_.emplace_back();
  begin_stage();
  slots_.open_scope(stage_);
}

void FunctionLowering::close_block() {
  plan_arena(scopes_.back().stages);
  emit(Code::Leave{scopes_.back().pooled});
  for (ValueId value : scopes_.back().defined) buffer_of_[value] = -1;
  slots_.close_scope();
  scopes_.pop_back();
  stage_ = scopes_.back().stages.back();
}

std::vector<Code::Opened> FunctionLowering::open_results(const Binding& binding) {
  std::vector<Code::Opened> opened;
  for (std::size_t i = 0; i < binding.results.size(); ++i) {
    const Type& type = function_.values[binding.results[i]].type;
    if (!type.is_tensor()) continue;
    for (std::size_t axis = 0; axis < type.tensor.rank(); ++axis) {
      const Dim& dim = type.tensor.dims[axis];
      if (dim.kind() != Dim::Kind::Symbol || slots_.knows(dim.leaf()) || is_pending(dim.leaf()))
        continue;
      Id id = slots_.add_variable();
      scopes_.back().pending.emplace_back(dim.leaf(), id);
      opened.push_back({static_cast<std::int32_t>(i), static_cast<std::int32_t>(axis), id});
      unknown_because_.emplace(dim.leaf().symbol, describe(function_, binding));
    }
  }
  return opened;
}

SlotTable::Id FunctionLowering::condition(ValueId value) {
  if (auto known = scalars_.find(value); known != scalars_.end()) return size(known->second);
  if (auto constant = constants_.find(value); constant != constants_.end())
    return size(constant->second.integer_at(0));
  return size(Dim::value(value, 0));
}

// Outer values that a loop reads are read by every iteration.
void FunctionLowering::keep_through(std::int64_t begin) {
  for (Lifetime& lifetime : lifetimes_)
    if (lifetime.first < begin && lifetime.last >= begin) lifetime.last = position();
}

// ---- if ----

void FunctionLowering::add_branch(const Binding& binding) {
  Id wanted = condition(binding.operands[0]);
  std::vector<Code::Opened> opened = open_results(binding);
  std::vector<std::int32_t> buffers;
  for (ValueId result : binding.results) {
    std::int32_t buffer = add_pool_buffer(result);
    define(result, buffer);
    buffers.push_back(buffer);
  }
  std::size_t over_then = emit(Code::JumpIfZero{wanted, 0});
  add_branch_block(binding.blocks[0], binding, opened);
  std::size_t over_else = emit(Code::Jump{0});
  std::get<Code::JumpIfZero>(code_.instructions[over_then]).target =
      static_cast<std::int32_t>(position());
  add_branch_block(binding.blocks[1], binding, opened);
  std::get<Code::Jump>(code_.instructions[over_else]).target =
      static_cast<std::int32_t>(position());
}

void FunctionLowering::add_branch_block(const Block& block, const Binding& binding,
                                        const std::vector<Code::Opened>& opened) {
  open_block();
  emit(Code::RunStage{stage_});
  add_bindings(block);
  Code::SetSlots set;
  for (const Code::Opened& extent : opened) {
    const Dim& dim = function_.tensor_type(block.results[static_cast<std::size_t>(extent.result)])
                         .dims[static_cast<std::size_t>(extent.axis)];
    set.copies.emplace_back(extent.slot, size(dim));
  }
  Code::MoveBuffers move;
  for (std::size_t i = 0; i < binding.results.size(); ++i) {
    std::int32_t from = buffer_of(block.results[i]);
    touch(from);
    move.copies.emplace_back(buffer_of_[binding.results[i]], from);
  }
  if (!set.copies.empty()) emit(std::move(set));
  if (!move.copies.empty()) emit(std::move(move));
  close_block();
}

// ---- loop ----

void FunctionLowering::add_scalar(ValueId value, Id slot, DType dtype) {
  if (uses_[value] == 0) return;
  Code::Buffer buffer{.name = function_.values[value].name};
  buffer.place = pooled_[value] ? Place::Pool : Place::Arena;
  buffer.segment = stage_;
  const bool pool = buffer.place == Place::Pool;
  std::int32_t index = add_buffer(std::move(buffer));
  define(value, index);
  const Dim bytes = static_cast<std::int64_t>(size_of(dtype));
  if (pool) {
    scopes_.back().pooled.push_back(index);
    byte_ids_.emplace(index, slots_.add(bytes));
    emit(Code::Allocate{index});
  } else {
    bytes_.emplace(index, bytes);
  }
  emit(Code::StoreScalar{index, dtype, slot});
}

void FunctionLowering::add_loop(const Binding& binding) {
  const Block& body = binding.blocks[0];
  const std::size_t carried = binding.operands.size() - 2;
  const std::size_t scanned = binding.results.size() - carried;
  Id trips = binding.operands[0] == no_value ? -1 : condition(binding.operands[0]);
  Id first_condition =
      binding.operands[1] == no_value ? size(Dim(1)) : condition(binding.operands[1]);
  for (std::size_t i = 0; i < carried; ++i)
    if (const Type& type = function_.values[binding.operands[i + 2]].type; type.is_tensor())
      make_known(type.tensor.dims);
  Id zero = size(Dim(0));
  Id counter = slots_.add_variable(), going_on = slots_.add_variable();

  // Carried values: a parameter of the body and the result of the loop are one reference.
  std::vector<Code::Opened> opened = open_results(binding);
  const auto opened_at = [&](std::size_t result, std::size_t axis) -> Id {
    for (const Code::Opened& extent : opened)
      if (extent.result == static_cast<std::int32_t>(result) &&
          extent.axis == static_cast<std::int32_t>(axis))
        return extent.slot;
    return -1;
  };
  Code::SetSlots start{{{counter, zero}, {going_on, first_condition}}};
  Code::MoveBuffers enter;
  // carried value, axis, symbol inside, slot
  std::vector<std::tuple<std::size_t, std::size_t, DimLeaf, Id>> varying;
  for (std::size_t i = 0; i < carried; ++i) {
    ValueId initial = binding.operands[i + 2], parameter = body.parameters[i + 2];
    std::int32_t from = buffer_of(initial);
    touch(from);
    std::int32_t buffer = add_pool_buffer(binding.results[i]);
    define(binding.results[i], buffer);
    enter.copies.emplace_back(buffer, from);
    const Type& type = function_.values[parameter].type;
    for (std::size_t axis = 0; type.is_tensor() && axis < type.tensor.rank(); ++axis) {
      const Dim& dim = type.tensor.dims[axis];
      if (dim.kind() != Dim::Kind::Symbol || slots_.knows(dim.leaf()) || is_pending(dim.leaf()))
        continue;
      if (std::any_of(varying.begin(), varying.end(),
                      [&](const auto& known) { return std::get<2>(known) == dim.leaf(); }))
        continue;
      Id id = opened_at(i, axis);
      if (id < 0) id = slots_.add_variable();
      varying.emplace_back(i, axis, dim.leaf(), id);
      unknown_because_.emplace(dim.leaf().symbol, describe(function_, binding));
      start.copies.emplace_back(id, slots_.add(function_.tensor_type(initial).dims[axis]));
    }
  }
  // Scanned values grow by an element each time; without any their other extents are as far known
  // as their type says.
  std::vector<std::vector<Id>> first(scanned);
  std::vector<Id> expected(scanned, -1);
  for (std::size_t j = 0; j < scanned; ++j) {
    ValueId result = binding.results[carried + j];
    const TensorType& type = function_.tensor_type(result);
    for (std::size_t axis = 1; axis < type.rank(); ++axis) {
      Id id = opened_at(carried + j, axis);
      Id known = id < 0 ? size(type.dims[axis]) : zero;
      if (id < 0) id = slots_.add_variable();
      start.copies.emplace_back(id, known);
      first[j].push_back(id);
    }
    if (opened_at(carried + j, 0) < 0) expected[j] = size(type.dims[0]);
    std::int32_t buffer = add_pool_buffer(result);
    define(result, buffer);
    Id none = zero;
    byte_ids_.emplace(buffer, none);
    emit(Code::Allocate{buffer});
  }
  emit(std::move(start));
  if (!enter.copies.empty()) emit(std::move(enter));

  std::int64_t begin = position();
  auto head = static_cast<std::int32_t>(emit(Code::Iterate{counter, trips, going_on, 0}));
  open_block();
  for (const auto& [value, axis, leaf, id] : varying) admit(leaf, id);
  emit(Code::RunStage{stage_});
  slots_.alias_leaf(element_leaf(body.parameters[0], 0), counter, stage_);
  slots_.alias_leaf(element_leaf(body.parameters[1], 0), going_on, stage_);
  add_scalar(body.parameters[0], counter, DType::I64);
  add_scalar(body.parameters[1], going_on, DType::Bool);
  for (std::size_t i = 0; i < carried; ++i)
    define(body.parameters[i + 2], buffer_of_[binding.results[i]]);
  add_bindings(body);

  Code::SetSlots next;
  Code::MoveBuffers move;
  next.copies.emplace_back(going_on, condition(body.results[0]));
  for (const auto& [value, axis, leaf, id] : varying)
    next.copies.emplace_back(id, size(function_.tensor_type(body.results[value + 1]).dims[axis]));
  for (std::size_t j = 0; j < scanned; ++j) {
    ValueId element = body.results[carried + 1 + j];
    const TensorType& type = function_.tensor_type(element);
    std::vector<Id> dims = sizes(type.dims);
    Id bytes = size(product(type.dims) * static_cast<std::int64_t>(size_of(type.dtype)));
    std::int32_t from = buffer_of(element);
    touch(from);
    emit(Code::Append{buffer_of_[binding.results[carried + j]], from, counter, expected[j], bytes,
                      dims, first[j], describe(function_, binding)});
  }
  for (std::size_t i = 0; i < carried; ++i) {
    std::int32_t from = buffer_of(body.results[i + 1]);
    touch(from);
    move.copies.emplace_back(buffer_of_[binding.results[i]], from);
  }
  emit(std::move(next));
  if (!move.copies.empty()) emit(std::move(move));
  close_block();
  emit(Code::Next{counter, head});
  keep_through(begin);
  std::get<Code::Iterate>(code_.instructions[static_cast<std::size_t>(head)]).target =
      static_cast<std::int32_t>(position());

  // The extents that results open, where they have no slot in common with a parameter's.
  Code::SetSlots end;
  for (const Code::Opened& extent : opened) {
    auto result = static_cast<std::size_t>(extent.result);
    if (result >= carried) {
      if (extent.axis == 0) end.copies.emplace_back(extent.slot, counter);
      continue;
    }
    const Dim& inside = function_.tensor_type(body.parameters[result + 2])
                            .dims[static_cast<std::size_t>(extent.axis)];
    Id from = -1;
    for (const auto& [value, axis, leaf, id] : varying)
      if (inside.kind() == Dim::Kind::Symbol && inside.leaf() == leaf) from = id;
    if (from == extent.slot) continue;
    end.copies.emplace_back(extent.slot, from >= 0 ? from : size(inside));
  }
  if (!end.copies.empty()) emit(std::move(end));
  if (scanned > 0 && unbounded_.empty() &&
      std::any_of(expected.begin(), expected.end(), [](Id id) { return id < 0; }))
    has_no_bound(describe(function_, binding));
}

// ---- call ----

void FunctionLowering::add_call(const Binding& binding) {
  const Function& callee = shared_.module.functions[binding.callee];
  Code::Call call;
  call.function = shared_.function_index(binding.callee);
  call.source = describe(function_, binding);
  CallSymbols symbols{0, binding.callee, {}};
  for (std::size_t i = 0; i < binding.operands.size(); ++i) {
    ValueId operand = binding.operands[i];
    call.arguments.push_back(buffer_of(operand));
    touch(call.arguments.back());
    const Type& parameter = callee.values[callee.body.parameters[i]].type;
    for (std::size_t axis = 0; parameter.is_tensor() && axis < parameter.tensor.rank(); ++axis) {
      const Dim& dim = parameter.tensor.dims[axis];
      if (dim.kind() != Dim::Kind::Symbol) continue;
      const std::string& name = dim.leaf().symbol;
      if (std::any_of(symbols.bound.begin(), symbols.bound.end(),
                      [&](const auto& known) { return known.first == name; }))
        continue;
      symbols.bound.emplace_back(name, size(function_.tensor_type(operand).dims[axis]));
    }
  }
  call.opened = open_results(binding);
  for (ValueId result : binding.results) {
    std::int32_t buffer = add_pool_buffer(result);
    define(result, buffer);
    call.results.push_back(buffer);
  }
  has_no_bound(describe(function_, binding));
  symbols.position = emit(std::move(call));
  calls_.push_back(std::move(symbols));
}

}  // namespace anydim::passes
