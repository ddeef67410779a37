// Blocks become parts of the flat code with jumps; calls have frames of their own.

#include <algorithm>

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
    emit(Code::Allocate{.buffer = index});
  } else {
    bytes_.emplace(index, bytes);
  }
  emit(Code::StoreScalar{index, dtype, slot});
}

SlotTable::Id FunctionLowering::Loop::opened_at(std::size_t result, std::size_t axis) const {
  for (const Code::Opened& extent : opened)
    if (extent.result == static_cast<std::int32_t>(result) &&
        extent.axis == static_cast<std::int32_t>(axis))
      return extent.slot;
  return -1;
}

// A parameter of the body and the result of the loop are one reference.
void FunctionLowering::begin_carried(Loop& loop, Code::MoveBuffers& enter) {
  for (std::size_t i = 0; i < loop.carried; ++i) {
    ValueId initial = loop.binding.operands[i + 2], parameter = loop.body().parameters[i + 2];
    std::int32_t from = buffer_of(initial);
    touch(from);
    std::int32_t buffer = add_pool_buffer(loop.binding.results[i]);
    define(loop.binding.results[i], buffer);
    enter.copies.emplace_back(buffer, from);
    const Type& type = function_.values[parameter].type;
    for (std::size_t axis = 0; type.is_tensor() && axis < type.tensor.rank(); ++axis) {
      const Dim& dim = type.tensor.dims[axis];
      if (dim.kind() != Dim::Kind::Symbol || slots_.knows(dim.leaf()) || is_pending(dim.leaf()))
        continue;
      if (std::ranges::find(loop.varying, dim.leaf(), &Loop::Varying::leaf) != loop.varying.end())
        continue;
      Id id = loop.opened_at(i, axis);
      if (id < 0) id = slots_.add_variable();
      loop.varying.push_back({i, axis, dim.leaf(), id});
      unknown_because_.emplace(dim.leaf().symbol, describe(function_, loop.binding));
      loop.start.copies.emplace_back(id, slots_.add(function_.tensor_type(initial).dims[axis]));
    }
  }
}

// Scanned values grow by an element each time; without any their other extents are as far known as
// their type says.
void FunctionLowering::begin_scanned(Loop& loop) {
  for (std::size_t j = 0; j < loop.scanned; ++j) {
    ValueId result = loop.binding.results[loop.carried + j];
    const TensorType& type = function_.tensor_type(result);
    std::vector<Id>& extents = loop.element_extents.emplace_back();
    for (std::size_t axis = 1; axis < type.rank(); ++axis) {
      Id id = loop.opened_at(loop.carried + j, axis);
      Id known = id < 0 ? size(type.dims[axis]) : loop.zero;
      if (id < 0) id = slots_.add_variable();
      loop.start.copies.emplace_back(id, known);
      extents.push_back(id);
    }
    const bool is_known = loop.opened_at(loop.carried + j, 0) < 0;
    loop.length.push_back(is_known ? size(type.dims[0]) : -1);
    std::int32_t buffer = add_pool_buffer(result);
    define(result, buffer);
    byte_ids_.emplace(buffer, loop.zero);
    emit(Code::Allocate{.buffer = buffer});
    if (is_known)
      scanned_.try_emplace(loop.body().results[loop.carried + 1 + j],
                           Scanned{buffer, loop.counter, loop.length.back()});
  }
}

void FunctionLowering::begin_iteration(const Loop& loop) {
  const std::vector<ValueId>& parameters = loop.body().parameters;
  for (const Loop::Varying& one : loop.varying) admit(one.leaf, one.slot);
  emit(Code::RunStage{stage_});
  slots_.alias_leaf(element_leaf(parameters[0], 0), loop.counter, stage_);
  slots_.alias_leaf(element_leaf(parameters[1], 0), loop.going_on, stage_);
  add_scalar(parameters[0], loop.counter, DType::I64);
  add_scalar(parameters[1], loop.going_on, DType::Bool);
  for (std::size_t i = 0; i < loop.carried; ++i)
    define(parameters[i + 2], buffer_of_[loop.binding.results[i]]);
}

void FunctionLowering::end_iteration(const Loop& loop) {
  const std::vector<ValueId>& results = loop.body().results;
  Code::SetSlots next;
  Code::MoveBuffers move;
  next.copies.emplace_back(loop.going_on, condition(results[0]));
  for (const Loop::Varying& one : loop.varying)
    next.copies.emplace_back(one.slot,
                             size(function_.tensor_type(results[one.value + 1]).dims[one.axis]));
  for (std::size_t j = 0; j < loop.scanned; ++j) {
    ValueId element = results[loop.carried + 1 + j];
    const TensorType& type = function_.tensor_type(element);
    std::vector<Id> dims = sizes(type.dims);
    Id bytes = size(product(type.dims) * static_cast<std::int64_t>(size_of(type.dtype)));
    std::int32_t from = buffer_of(element);
    touch(from);
    emit(Code::Append{buffer_of_[loop.binding.results[loop.carried + j]], from, loop.counter,
                      loop.length[j], bytes, dims, loop.element_extents[j],
                      describe(function_, loop.binding)});
  }
  for (std::size_t i = 0; i < loop.carried; ++i) {
    std::int32_t from = buffer_of(results[i + 1]);
    touch(from);
    move.copies.emplace_back(buffer_of_[loop.binding.results[i]], from);
  }
  emit(std::move(next));
  if (!move.copies.empty()) emit(std::move(move));
}

// The extents that results open, where they have no slot in common with a parameter's.
void FunctionLowering::set_opened(const Loop& loop) {
  Code::SetSlots end;
  for (const Code::Opened& extent : loop.opened) {
    auto result = static_cast<std::size_t>(extent.result);
    if (result >= loop.carried) {
      if (extent.axis == 0) end.copies.emplace_back(extent.slot, loop.counter);
      continue;
    }
    const Dim& inside = function_.tensor_type(loop.body().parameters[result + 2])
                            .dims[static_cast<std::size_t>(extent.axis)];
    Id from = -1;
    for (const Loop::Varying& one : loop.varying)
      if (inside.kind() == Dim::Kind::Symbol && inside.leaf() == one.leaf) from = one.slot;
    if (from == extent.slot) continue;
    end.copies.emplace_back(extent.slot, from >= 0 ? from : size(inside));
  }
  if (!end.copies.empty()) emit(std::move(end));
}

void FunctionLowering::add_loop(const Binding& binding) {
  const std::size_t carried = binding.operands.size() - 2;
  Id trips = binding.operands[0] == no_value ? -1 : condition(binding.operands[0]);
  Id first_condition =
      binding.operands[1] == no_value ? size(Dim(1)) : condition(binding.operands[1]);
  for (std::size_t i = 0; i < carried; ++i)
    if (const Type& type = function_.values[binding.operands[i + 2]].type; type.is_tensor())
      make_known(type.tensor.dims);
  Loop loop{.binding = binding,
            .carried = carried,
            .scanned = binding.results.size() - carried,
            .zero = size(Dim(0)),
            .counter = slots_.add_variable(),
            .going_on = slots_.add_variable()};
  loop.opened = open_results(binding);
  loop.start.copies = {{loop.counter, loop.zero}, {loop.going_on, first_condition}};
  Code::MoveBuffers enter;
  begin_carried(loop, enter);
  begin_scanned(loop);
  emit(std::move(loop.start));
  if (!enter.copies.empty()) emit(std::move(enter));

  std::int64_t begin = position();
  auto head = static_cast<std::int32_t>(emit(Code::Iterate{loop.counter, trips, loop.going_on, 0}));
  open_block();
  begin_iteration(loop);
  add_bindings(loop.body());
  end_iteration(loop);
  close_block();
  emit(Code::Next{loop.counter, head});
  keep_through(begin);
  std::get<Code::Iterate>(code_.instructions[static_cast<std::size_t>(head)]).target =
      static_cast<std::int32_t>(position());
  set_opened(loop);
  if (unbounded_.empty() && std::ranges::any_of(loop.length, [](Id id) { return id < 0; }))
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
