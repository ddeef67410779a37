#include "passes/lower_function.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "ir/error.h"
#include "ir/region.h"
#include "ir/shapes/bind.h"
#include "passes/code_slots.h"
#include "passes/plan_memory.h"

namespace anydim::passes {

using namespace ir;

FunctionLowering::FunctionLowering(LoweredModule& shared, const Function& function, bool entry)
    : shared_(shared), function_(function), entry_(entry), pooled_(function.values.size(), false),
      uses_(function.values.size(), 0), buffer_of_(function.values.size(), -1) {}

Code FunctionLowering::run() {
  code_.name = function_.name;
  code_.symbols = function_.symbols;
  for (const Value& value : function_.values)
    if (value.type.is_tensor())
      for (const Dim& dim : value.type.tensor.dims) want(dim);
  find_wanted_elements(function_.body);
  if (!entry_)
    for (ValueId result : function_.body.results) pooled_[result] = true;
  find_pooled(function_.body);
  std::set<ValueId> inside;
  count_uses(function_.body, 1, inside);
  scopes_.emplace_back();
  first_stage_ = shared_.program.stages.size();
  slots_.open_scope(static_cast<std::int32_t>(first_stage_));
  begin_stage();
  add_inputs();
  if (entry_)
    for (std::size_t i = 0; i < function_.body.results.size(); ++i) {
      const bool added =
          output_of_.emplace(computed(function_.body.results[i]), static_cast<std::int32_t>(i))
              .second;
      internal_check(added, "results are distinct");
    }
  add_bindings(function_.body);
  add_outputs();
  plan_arena(scopes_.back().stages);
  for (const auto& [buffer, bytes] : bytes_) byte_ids_.emplace(buffer, slots_.add(bytes));
  number_slots();
  return std::move(code_);
}

// ---- Elements of tensors that sizes depend on ----

void FunctionLowering::want(const Dim& dim) {
  for (const DimLeaf& leaf : dim.leaves())
    if (!leaf.is_symbol()) wanted_[leaf.value].insert(leaf.element);
}

void FunctionLowering::find_wanted_elements(const Block& block) {
  for (const Binding& binding : block.bindings) {
    for (const Dim& dim : binding.dims) want(dim);
    if (binding.op == Op::drop_ones && binding.operands.size() > 1)
      for (const Dim& element : ones_of(binding)) want(element);
    const std::size_t conditions = binding.op == Op::branch || binding.op == Op::assertion ? 1
                                   : binding.op == Op::loop                                ? 2
                                                                                           : 0;
    for (std::size_t i = 0; i < conditions; ++i)
      if (binding.operands[i] != no_value) wanted_[binding.operands[i]].insert(0);
    for (const Block& nested : binding.blocks) find_wanted_elements(nested);
  }
}

// Values that outlive the block or the frame that computes them, or that something keeps, are
// counted references to the pool.
void FunctionLowering::find_pooled(const Block& block) {
  for (std::size_t i = block.bindings.size(); i-- > 0;) {
    const Binding& binding = block.bindings[i];
    for (const Block& nested : binding.blocks) {
      for (ValueId result : nested.results) pooled_[result] = true;
      find_pooled(nested);
    }
    const OpInfo& row = info(binding.op);
    const bool kept = row.has(traits::control) && binding.op != Op::region &&
                      binding.op != Op::call && binding.op != Op::branch &&
                      binding.op != Op::drop_ones;
    for (std::size_t o = binding.op == Op::loop ? 2 : 0; kept && o < binding.operands.size(); ++o)
      if (binding.operands[o] != no_value) pooled_[binding.operands[o]] = true;
    if (binding.op == Op::check_shape && pooled_[binding.results[0]])
      pooled_[binding.operands[0]] = true;
  }
}

void FunctionLowering::count_uses(const Block& block, int each, std::set<ValueId>& inside) {
  inside.insert(block.parameters.begin(), block.parameters.end());
  for (const Binding& binding : block.bindings)
    inside.insert(binding.results.begin(), binding.results.end());
  const auto use = [&](ValueId value) {
    if (value != no_value) uses_[value] += inside.contains(value) ? 1 : each;
  };
  for (const Binding& binding : block.bindings) {
    std::for_each(binding.operands.begin(), binding.operands.end(), use);
    for (const Block& nested : binding.blocks) {
      std::set<ValueId> of_loop;
      count_uses(nested, binding.op == Op::loop ? 2 : each,
                 binding.op == Op::loop ? of_loop : inside);
    }
  }
  std::for_each(block.results.begin(), block.results.end(), use);
  for (ValueId parameter : block.parameters) inside.erase(parameter);
  for (const Binding& binding : block.bindings)
    for (ValueId result : binding.results) inside.erase(result);
}

std::int32_t FunctionLowering::begin_stage() {
  shared_.program.stages.emplace_back();
  stage_ = static_cast<std::int32_t>(shared_.program.stages.size() - 1);
  scopes_.back().stages.push_back(stage_);
  return stage_;
}

bool FunctionLowering::is_pending(const DimLeaf& leaf) const {
  for (const Scope& scope : scopes_)
    for (const auto& [known, id] : scope.pending)
      if (known == leaf) return true;
  return false;
}

void FunctionLowering::fetch(ValueId value, std::int64_t element) {
  const DimLeaf leaf = element_leaf(value, element);
  if (slots_.knows(leaf)) return;
  std::int32_t buffer = buffer_of(value);
  slots_.add_leaf(leaf, stage_);
  emit(Code::Fetch{buffer, function_.tensor_type(value).dtype, element,
                   slots_.add(Dim::value(value, element))});
  touch(buffer);
}

// Before something that needs `dims`: fetches what is computed by now and starts a stage for the
// sizes that become known.
void FunctionLowering::make_known(const std::vector<Dim>& dims) {
  std::set<DimLeaf> missing;
  for (const Dim& dim : dims)
    for (const DimLeaf& leaf : dim.leaves())
      if (!slots_.knows(leaf)) missing.insert(leaf);
  if (missing.empty()) return;
  begin_stage();
  for (Scope& scope : scopes_) {
    const bool innermost = &scope == &scopes_.back();
    for (const auto& [leaf, id] : scope.pending)
      if (!slots_.knows(leaf)) admit(leaf, id);
    if (innermost) scope.pending.clear();
  }
  for (ValueId value : scopes_.back().defined)
    if (auto found = wanted_.find(value);
        found != wanted_.end() && function_.values[value].type.is_tensor())
      for (std::int64_t element : found->second) fetch(value, element);
  for (const DimLeaf& leaf : missing)
    if (!leaf.is_symbol()) fetch(leaf.value, leaf.element);
  emit(Code::RunStage{stage_});
}

// From this stage on the leaf has a value. Where it is a symbol, kernels and proofs rely on its
// range: the stage checks it.
void FunctionLowering::admit(const DimLeaf& leaf, SlotTable::Id id) {
  slots_.alias_leaf(leaf, id, stage_);
  const SymbolInfo* known = leaf.is_symbol() ? function_.symbols.find(leaf.symbol) : nullptr;
  if (known == nullptr) return;
  const Dim symbol = Dim::symbol(leaf.symbol);
  const auto cause = unknown_because_.find(leaf.symbol);
  const std::string what =
      cause == unknown_because_.end()
          ? leaf.symbol
          : fmt::format("{}: {}, an extent of its result", cause->second, leaf.symbol);
  if (known->low > 0) check(Relation::GreaterEqual, symbol, known->low, what);
  if (known->high < std::numeric_limits<std::int64_t>::max())
    check(Relation::LessEqual, symbol, known->high, what);
  if (known->multiple > 1) check(Relation::MultipleOf, symbol, known->multiple, what);
}

SlotTable::Id FunctionLowering::size(const Dim& dim) {
  make_known({dim});
  return slots_.add(dim);
}

std::vector<SlotTable::Id> FunctionLowering::ids(const std::vector<Dim>& dims) {
  std::vector<Id> result;
  for (const Dim& dim : dims) result.push_back(slots_.add(dim));
  return result;
}

std::vector<SlotTable::Id> FunctionLowering::sizes(const std::vector<Dim>& dims) {
  make_known(dims);
  return ids(dims);
}

// ---- Buffers ----

std::int32_t FunctionLowering::add_buffer(Code::Buffer buffer) {
  code_.buffers.push_back(std::move(buffer));
  lifetimes_.push_back({position(), position()});
  return static_cast<std::int32_t>(code_.buffers.size() - 1);
}

void FunctionLowering::touch(std::int32_t buffer) {
  lifetimes_[static_cast<std::size_t>(buffer)].last = position();
}

std::int32_t FunctionLowering::add_pool_buffer(ValueId value) {
  std::int32_t buffer = add_buffer({.place = Place::Pool, .name = function_.values[value].name});
  scopes_.back().pooled.push_back(buffer);
  return buffer;
}

void FunctionLowering::define(ValueId value, std::int32_t buffer) {
  buffer_of_[value] = buffer;
  scopes_.back().defined.push_back(value);
}

std::int32_t FunctionLowering::buffer_of(ValueId value) {
  if (constants_.contains(value)) return constant_buffer(value, std::nullopt, -1, -1);
  internal_check(buffer_of_[value] >= 0,
                 "a value is computed before it is used: %" + function_.values[value].name);
  return buffer_of_[value];
}

std::int32_t FunctionLowering::constant_buffer(ValueId value,
                                               const std::optional<PackedLayout>& layout,
                                               std::int32_t region, std::int32_t parameter) {
  // One copy a layout: regions that read a weight alike share it.
  for (const auto& [known, buffer] : constant_buffers_[value])
    if (known == layout) return buffer;
  auto& constants = shared_.program.constants;
  auto index = static_cast<std::int32_t>(constants.size());
  constants.push_back(
      {constants_.at(value), function_.values[value].name, layout, region, parameter});
  std::int32_t buffer =
      add_buffer({.place = Place::Constant, .index = index, .name = function_.values[value].name});
  constant_buffers_[value].emplace_back(layout, buffer);
  return buffer;
}

void FunctionLowering::add_inputs() {
  for (ValueId parameter : function_.body.parameters) {
    const Value& value = function_.values[parameter];
    if (entry_ && !value.type.is_tensor())
      throw Error(ErrorKind::Unsupported,
                  "input %{} of @{} is no tensor; inputs of a program are tensors", value.name,
                  function_.name);
    auto index = static_cast<std::int32_t>(code_.inputs.size());
    const bool read = !entry_ || uses_[parameter] > 0 || wanted_.contains(parameter);
    if (read)
      define(parameter, add_buffer({.place = Place::Input, .index = index, .name = value.name}));
    Code::Input input{value.name, value.type.tensor.dtype, value.type.tensor.dims,
                      buffer_of_[parameter]};
    if (!value.type.is_tensor()) input.type = value.type;
    code_.inputs.push_back(std::move(input));
  }
  // A symbol that no input mentions has no value, and no size needs one. A caller binds what a
  // parameter names alone.
  std::set<DimLeaf> bound;
  for (const Code::Input& input : code_.inputs)
    for (const Dim& dim : input.dims)
      if (entry_ || dim.kind() == Dim::Kind::Symbol) dim.collect_leaves(bound);
  for (const std::string& name : function_.symbols.names())
    if (DimLeaf leaf = Dim::symbol(name).leaf(); bound.contains(leaf))
      slots_.add_leaf(leaf, stage_, true);
  for (ValueId parameter : function_.body.parameters)
    if (auto found = wanted_.find(parameter); found != wanted_.end())
      for (std::int64_t element : found->second) fetch(parameter, element);
  emit(Code::RunStage{stage_});
}

// ---- Bindings ----

void FunctionLowering::add_bindings(const Block& block) {
  for (const Binding& binding : block.bindings) add(binding);
}

void FunctionLowering::add(const Binding& binding) {
  switch (binding.op) {  // NOLINT: what fuse leaves outside of regions
    case Op::constant:
      constants_.emplace(binding.results[0], tensor_attribute(binding, "value"));
      return;
    case Op::dim: scalars_.emplace(binding.results[0], binding.dims[0]); return;
    case Op::region: return add_launch(binding);
    case Op::check_shape: return add_check_shape(binding);
    case Op::check: return add_check(binding);
    case Op::assertion: return add_assertion(binding);
    case Op::bind: return add_bind(binding);
    case Op::branch: return add_branch(binding);
    case Op::loop: return add_loop(binding);
    case Op::call: return add_call(binding);
    default: return add_value_binding(binding);
  }
}

namespace {

// Sizes of what exists inside of a kernel alone, as far as ranges don't prove that they fit 64
// bits: kernels compute such indices unchecked.
std::vector<Dim> uncounted_bytes(const Region& region) {
  std::set<Dim> sizes;
  for (const Value& value : region.body.values) {
    if (!value.type.is_tensor()) continue;
    const Dim bytes = product(value.type.tensor.dims) *
                      static_cast<std::int64_t>(size_of(value.type.tensor.dtype));
    if (!bytes.is_constant()) sizes.insert(bytes);
  }
  std::vector<Dim> uncounted;
  for (const Dim& bytes : sizes)
    if (bounds(bytes, region.body.symbols).high == std::numeric_limits<std::int64_t>::max())
      uncounted.push_back(bytes);
  return uncounted;
}

}  // namespace

void FunctionLowering::add_launch(const Binding& binding) {
  const Region& region = shared_.module.regions[binding.callee];
  std::vector<Dim> keys, needed = binding.dims;
  std::map<std::string, Dim> arguments;
  for (std::size_t i = 0; i < binding.dims.size(); ++i)
    arguments.emplace(region.body.symbols.names()[i], binding.dims[i]);
  for (const Dim& key : region.keys) keys.push_back(key.substitute(arguments));
  for (ValueId result : binding.results)
    for (const Dim& dim : function_.tensor_type(result).dims) needed.push_back(dim);
  std::vector<Dim> counted;
  for (const Dim& bytes : uncounted_bytes(region)) counted.push_back(bytes.substitute(arguments));
  needed.insert(needed.end(), counted.begin(), counted.end());
  make_known(needed);
  for (const Dim& bytes : counted)
    slots_.add(bytes);  // a stage computes them, which fails where they leave 64 bits

  Code::Launch launch;
  launch.kernel = static_cast<std::int32_t>(binding.callee);
  launch.source = binding.source;
  const Backend* backend = shared_.context.backend;
  for (std::size_t i = 0; i < binding.operands.size(); ++i) {
    ValueId operand = binding.operands[i];
    if (constants_.contains(operand)) {
      auto layout = region.is_weight(i) && backend != nullptr ? backend->packed_layout(region, i)
                                                              : std::nullopt;
      launch.buffers.push_back(constant_buffer(operand, layout, layout ? launch.kernel : -1,
                                               layout ? static_cast<std::int32_t>(i) : -1));
    } else {
      launch.buffers.push_back(buffer_of(operand));
    }
  }
  if (const auto parameter = parameter_in_place(region))
    launch.buffers.push_back(take_place(binding, *parameter));
  else
    for (ValueId result : binding.results) launch.buffers.push_back(add_result(result));
  if (backend != nullptr && binding.results.size() == 1) {
    for (const std::size_t parameter : backend->overwritable(region)) {
      const std::int32_t buffer = launch.buffers[parameter];
      if (std::ranges::count(launch.buffers, buffer) == 1)
        overwrites_[launch.buffers.back()].push_back(buffer);
    }
  }
  if (writes_part(region) &&
      code_.buffers[static_cast<std::size_t>(launch.buffers.back())].place == Place::Arena)
    partly_written_.insert(binding.results[0]);
  for (std::int32_t buffer : launch.buffers) touch(buffer);
  launch.extents = ids(binding.dims);
  launch.keys = ids(keys);
  emit(std::move(launch));
}

// Where a launch in place writes: what another one has written a part of, or an input that nothing
// but the launch reads.
std::int32_t FunctionLowering::take_place(const Binding& binding, std::size_t parameter) {
  const ValueId operand = binding.operands[parameter], result = binding.results[0];
  if (partly_written_.contains(operand) && !pooled_[result] && !output_of_.contains(result)) {
    const std::int32_t buffer = buffer_of(operand);
    define(result, buffer);
    return buffer;
  }
  if (!entry_ || scopes_.size() > 1 ||
      std::ranges::count(function_.body.parameters, operand) != 1 || uses_[operand] != 1 ||
      !output_of_.contains(result))
    throw Error(ErrorKind::Unsupported,
                "{}: what is overwritten in place must be an input that nothing else reads, and "
                "the result an output",
                describe(function_, binding));
  const std::int32_t buffer = buffer_of(operand);
  define(result, buffer);
  return buffer;
}

// Where a launch writes the value.
std::int32_t FunctionLowering::add_result(ValueId value) {
  const TensorType& type = function_.tensor_type(value);
  Code::Buffer buffer{.name = function_.values[value].name};
  if (auto output = output_of_.find(value); output != output_of_.end()) {
    buffer.place = Place::Output;
    buffer.index = output->second;
  } else if (pooled_[value]) {
    buffer.place = Place::Pool;
  }
  const bool pool = buffer.place == Place::Pool;
  buffer.segment = stage_;
  std::int32_t index = add_buffer(std::move(buffer));
  define(value, index);
  Dim bytes = product(type.dims) * static_cast<std::int64_t>(size_of(type.dtype));
  if (pool) {
    scopes_.back().pooled.push_back(index);
    byte_ids_.emplace(index, slots_.add(bytes));
    Code::Allocate allocate{.buffer = index};
    if (const auto element = scanned_.find(value); element != scanned_.end()) {
      allocate.element_of = element->second.buffer;
      allocate.counter = element->second.counter;
      allocate.expected = element->second.length;
    }
    emit(allocate);
    count_memory(bytes);
  } else {
    bytes_.emplace(index, bytes);
  }
  return index;
}

void FunctionLowering::add_check_shape(const Binding& binding) {
  ValueId operand = binding.operands[0], result = binding.results[0];
  const std::vector<Dim>& got = function_.tensor_type(operand).dims;
  make_known(got);
  std::vector<bool> opened(got.size(), false);
  for (std::size_t i = 0; i < binding.dims.size(); ++i) {
    const Dim& dim = binding.dims[i];
    opened[i] =
        dim.kind() == Dim::Kind::Symbol && !slots_.knows(dim.leaf()) && !is_pending(dim.leaf());
    if (opened[i]) scopes_.back().pending.emplace_back(dim.leaf(), slots_.add(got[i]));
  }
  make_known(binding.dims);
  for (std::size_t i = 0; i < binding.dims.size(); ++i)
    if (!opened[i])
      check(Relation::Equal, got[i], binding.dims[i], shape_check_text(function_, binding, i));
  stand_for(operand, result);
}

// The value lies where the other one does.
void FunctionLowering::stand_for(ValueId operand, ValueId result) {
  if (auto constant = constants_.find(operand); constant != constants_.end())
    constants_.emplace(result, constant->second);
  else define(result, buffer_of_[operand]);
}

void FunctionLowering::add_check(const Binding& binding) {
  make_known(binding.dims);
  const Precondition wanted = precondition_of(binding);
  check(wanted.relation, wanted.left, wanted.right, wanted.what);
}

void FunctionLowering::add_assertion(const Binding& binding) {
  Code::Assert check;
  check.slot = condition(binding.operands[0]);
  check.source = describe(function_, binding);
  check.message = string_attribute(binding, "message");
  for (std::size_t i = 1; i < binding.operands.size(); ++i) {
    const ValueId value = binding.operands[i];
    const TensorType& type = function_.tensor_type(value);
    std::vector<Id> dims = sizes(type.dims);
    check.shown.push_back(
        {function_.values[value].name, buffer_of(value), type.dtype, std::move(dims)});
  }
  for (const Code::Assert::Shown& tensor : check.shown) touch(tensor.buffer);
  emit(std::move(check));
}

void FunctionLowering::add_bind(const Binding& binding) {
  ValueId operand = binding.operands[0];
  auto known = scalars_.find(operand);
  const Dim count = known != scalars_.end() ? known->second : Dim::value(operand, 0);
  make_known({count, binding.dims[1]});
  const std::string what = bind_text(function_, binding);
  check(Relation::GreaterEqual, count, 0, what);
  check(Relation::LessEqual, count, binding.dims[1], what);
  scopes_.back().pending.emplace_back(binding.dims[0].leaf(), slots_.add(count));
}

void FunctionLowering::check(Relation relation, const Dim& left, const Dim& right,
                             std::string what) {
  auto& stages = shared_.program.stages;
  std::int32_t stage = std::max(slots_.stage_of(left), slots_.stage_of(right));
  check_ids_.push_back({stage, stages[static_cast<std::size_t>(stage)].checks.size(),
                        slots_.add(left), slots_.add(right)});
  stages[static_cast<std::size_t>(stage)].checks.push_back({relation, -1, -1, std::move(what)});
}

void FunctionLowering::add_outputs() {
  const Block& body = function_.body;
  for (ValueId result : body.results)
    if (function_.values[result].type.is_tensor()) make_known(function_.tensor_type(result).dims);
  for (std::size_t i = 0; i < body.results.size(); ++i) {
    const Type& type = function_.values[body.results[i]].type;
    const std::string name = i < function_.result_names.size() ? function_.result_names[i] : "";
    if (entry_ && !type.is_tensor())
      throw Error(ErrorKind::Unsupported,
                  "output '{}' of @{} is no tensor; outputs of a program are tensors", name,
                  function_.name);
    std::int32_t buffer = buffer_of(body.results[i]);
    touch(buffer);
    const auto ones = ones_.find(body.results[i]);
    code_.outputs.push_back({name, type.tensor.dtype,
                             type.is_tensor() ? ids(type.tensor.dims) : std::vector<Id>{}, buffer,
                             ones == ones_.end() ? std::vector<Id>{} : ids(ones->second)});
  }
}

// ---- Memory ----

void FunctionLowering::count_memory(const Dim& bytes) {
  for (const DimLeaf& leaf : bytes.leaves())
    if (auto cause = unknown_because_.find(leaf.symbol);
        leaf.is_symbol() && cause != unknown_because_.end())
      return has_no_bound(cause->second);
  ceiling_ = ceiling_ + bytes;
}

void FunctionLowering::has_no_bound(const std::string& cause) {
  if (unbounded_.empty()) unbounded_ = cause;
}

void FunctionLowering::plan_arena(const std::vector<std::int32_t>& stages) {
  for (std::int32_t stage : stages) {
    std::vector<passes::Lifetime> lifetimes;
    std::vector<std::int32_t> buffers;
    for (const auto& [buffer, bytes] : bytes_) {
      const Code::Buffer& entry = code_.buffers[static_cast<std::size_t>(buffer)];
      if (entry.place != Place::Arena || entry.segment != stage) continue;
      const auto& span = lifetimes_[static_cast<std::size_t>(buffer)];
      lifetimes.push_back({span.first, span.last, bytes});
      buffers.push_back(buffer);
    }
    if (buffers.empty()) continue;
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      const auto found = overwrites_.find(buffers[i]);
      if (found == overwrites_.end()) continue;
      for (const std::int32_t old : found->second)
        if (const auto at = std::ranges::find(buffers, old); at != buffers.end())
          lifetimes[i].overwrites.push_back(static_cast<std::size_t>(at - buffers.begin()));
    }
    MemoryPlan plan = plan_memory(lifetimes, function_.symbols);
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      offset_ids_.emplace(buffers[i], slots_.add(plan.offsets[i]));
      byte_ids_.emplace(buffers[i], slots_.add(bytes_.at(buffers[i])));
      bytes_.erase(buffers[i]);
    }
    arena_ids_.emplace(stage, slots_.add(plan.total));
    count_memory(plan.total);
  }
}

void FunctionLowering::number_slots() {
  auto& stages = shared_.program.stages;
  slots_.finish(stages, code_);
  for (Code::Instruction& instruction : code_.instructions)
    for_each_slot(instruction, [&](Code::Slot& slot) { slot = slots_.slot(slot); });
  for (Code::Output& output : code_.outputs) {
    for (Code::Slot& dim : output.dims) dim = slots_.slot(dim);
    for (Code::Slot& one : output.ones) one = slots_.slot(one);
  }
  for (const CheckIds& ids : check_ids_) {
    Program::Check& check = stages[static_cast<std::size_t>(ids.stage)].checks[ids.check];
    check.left = slots_.slot(ids.left);
    check.right = slots_.slot(ids.right);
  }
  for (const auto& [buffer, id] : offset_ids_)
    code_.buffers[static_cast<std::size_t>(buffer)].offset = slots_.slot(id);
  for (const auto& [buffer, id] : byte_ids_)
    code_.buffers[static_cast<std::size_t>(buffer)].bytes = slots_.slot(id);
  for (std::size_t stage = first_stage_; stage < stages.size(); ++stage)
    for (const DimLeaf& leaf : stages[stage].shapes.leaves)
      if (!leaf.is_symbol())
        stages[stage].tensors.emplace(leaf.value, function_.values[leaf.value].name);
  for (const auto& [stage, id] : arena_ids_) stages[stage].arena_bytes = slots_.slot(id);
}

}  // namespace anydim::passes
