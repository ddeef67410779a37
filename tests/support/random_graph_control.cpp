#include "ir/shapes/infer.h"
#include "tests/support/random_graph_builder.h"

namespace anydim::tests::random_graphs {

namespace {

constexpr int deepest_block = 3;

void forget_from(std::map<ValueId, Tensor>& tensors, ValueId first) {
  tensors.erase(tensors.lower_bound(first), tensors.end());
}

// Functions of a module that stand `by` places later in another one.
void move_callees(Block& block, std::uint32_t by) {
  for (Binding& binding : block.bindings) {
    if (binding.op == Op::call || binding.op == Op::closure) binding.callee += by;
    for (Block& inner : binding.blocks) move_callees(inner, by);
  }
}

}  // namespace

// What steps of several bindings go back to where the whole is not accepted.
struct Builder::Snapshot {
  Function function;
  std::vector<ShapeData> shape_data;
  std::vector<bool> exact;
  std::set<ValueId> hidden;
  std::vector<Function> callees;
  std::vector<std::map<std::string, std::int64_t>> calls;
  int depth;
  Block* block;
  Block bindings;  // of the block
};

Builder::Snapshot Builder::snapshot() const {
  return {function_, shape_data_, exact_, hidden_, callees_, calls_, depth_, block_, *block_};
}

void Builder::go_back(Snapshot earlier) {
  function_ = std::move(earlier.function);
  shape_data_ = std::move(earlier.shape_data);
  exact_ = std::move(earlier.exact);
  hidden_ = std::move(earlier.hidden);
  callees_ = std::move(earlier.callees);
  calls_ = std::move(earlier.calls);
  depth_ = earlier.depth;
  block_ = earlier.block;
  *block_ = std::move(earlier.bindings);
  const auto first = static_cast<ValueId>(function_.values.size());
  for (auto& tensors : tensors_) forget_from(tensors, first);
  forget_from(constants_, first);
}

void Builder::or_go_back(const std::function<void()>& step) {
  Snapshot earlier = snapshot();
  try {
    step();
  } catch (const Error&) {
    go_back(std::move(earlier));
    throw;
  }
}

// The function as it stands, without what inference adds.
Function Builder::bare_function() const {
  Function bare = function_;
  bare.symbols = {};
  for (const std::string& name : function_.symbols.names())
    if (!function_.symbols.find(name)->unbacked) bare.symbols.declare(name);
  std::set<ValueId> parameters(bare.body.parameters.begin(), bare.body.parameters.end());
  for (ValueId id = 0; id < bare.values.size(); ++id)
    if (!parameters.contains(id)) bare.values[id].type = {};
  return bare;
}

// Adds a binding whose types only inference gives: of the whole function, or in a block, of the
// binding alone. Throws where inference, the evaluator or the values refuse it.
std::vector<ValueId> Builder::structure(Binding binding, std::size_t result_count, bool exact) {
  for (std::size_t i = 0; i < result_count; ++i)
    binding.results.push_back(function_.add_value(std::string(info(binding.op).text) + "_" +
                                                  std::to_string(function_.values.size())));
  const std::vector<ValueId> results = binding.results;
  const bool alone = block_ != &function_.body;
  std::vector<std::vector<Tensor>> inputs(calls_.size());
  Module module;
  if (alone) {
    block_->bindings.push_back(binding);
    module.functions.push_back(function_alone(std::move(binding), inputs));
  } else {
    function_.body.bindings.push_back(std::move(binding));
    module.functions.push_back(bare_function());
    for (std::size_t call = 0; call < calls_.size(); ++call)
      for (ValueId parameter : function_.body.parameters)
        inputs[call].push_back(tensors_[call].at(parameter));
  }
  module.functions.insert(module.functions.end(), callees_.begin(), callees_.end());
  InferenceResult inference = infer_types(module);
  Function& inferred = module.functions[0];

  Function probe = inferred;
  probe.body.results.clear();
  for (ValueId result : results)
    if (inferred.values[result].type.is_tensor()) probe.body.results.push_back(result);
  probe.result_names.assign(probe.body.results.size(), "probe");
  for (std::size_t call = 0; call < calls_.size(); ++call) {
    const std::vector<Tensor> tensors = evaluate(module, probe, inputs[call]);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (!is_ordinary(tensors[i], exact)) throw Error(ErrorKind::Inputs, "not an ordinary value");
      tensors_[call].insert_or_assign(probe.body.results[i], tensors[i]);
    }
  }
  if (alone) {
    for (const std::string& name : inferred.symbols.names())
      if (!function_.symbols.contains(name))
        function_.symbols.declare(name, *inferred.symbols.find(name));
    for (ValueId result : results) {
      function_.values[result].type = inferred.values[result].type;
      know(result, std::move(inference.functions[0].shape_data[result]), exact);
    }
  } else {
    // Sizes that inference binds symbols to.
    for (auto id = static_cast<ValueId>(function_.values.size()); id < inferred.values.size(); ++id)
      hidden_.insert(id);
    function_ = std::move(inferred);
    block_ = &function_.body;
    callees_.assign(std::make_move_iterator(module.functions.begin() + 1),
                    std::make_move_iterator(module.functions.end()));
    shape_data_ = std::move(inference.functions[0].shape_data);
    exact_.resize(function_.values.size(), false);
    for (ValueId result : results) exact_[result] = exact;
  }
  value_unbacked_symbols();
  return results;
}

// A function of the binding alone: every value that can be read here is a parameter, and one more
// for each symbol binds it.
Function Builder::function_alone(Binding binding, std::vector<std::vector<Tensor>>& inputs) const {
  if (std::ranges::any_of(binding.operands, [&](ValueId id) {
        return id != no_value && !function_.values[id].type.is_tensor();
      }))
    throw Error(ErrorKind::Inputs, "given up");
  Function alone = function_;
  alone.body = {};
  alone.result_names.clear();
  alone.body.parameters = values_of([](const TensorType&) { return true; });
  for (const std::string& name : function_.symbols.names()) {
    SymbolInfo known = *function_.symbols.find(name);
    known.unbacked = false;
    alone.symbols.declare(name, known);
    alone.body.parameters.push_back(
        alone.add_value("extent_of_" + name, TensorType{DType::Bool, {Dim::symbol(name)}}));
  }
  for (std::size_t call = 0; call < calls_.size(); ++call) {
    for (ValueId parameter : alone.body.parameters) {
      if (parameter < function_.values.size()) inputs[call].push_back(tensors_[call].at(parameter));
      else
        inputs[call].emplace_back(DType::Bool,
                                  Integers{value(call, alone.tensor_type(parameter).dims[0])});
    }
  }
  const std::set<ValueId> parameters(alone.body.parameters.begin(), alone.body.parameters.end());
  for (ValueId id = 0; id < alone.values.size(); ++id)
    if (!parameters.contains(id)) alone.values[id].type = {};
  alone.body.bindings.push_back(std::move(binding));
  return alone;
}

// Inference names unbacked symbols anew each time: what they are in each call follows from the
// tensors.
void Builder::value_unbacked_symbols() {
  for (ValueId id = 0; id < function_.values.size(); ++id) {
    if (hidden_.contains(id) || !function_.values[id].type.is_tensor()) continue;
    for (std::size_t call = 0; call < calls_.size(); ++call) {
      const auto tensor = tensors_[call].find(id);
      if (tensor == tensors_[call].end()) continue;
      for (std::size_t axis = 0; axis < rank(id); ++axis) {
        const Dim& dim = type(id).dims[axis];
        if (dim.kind() != Dim::Kind::Symbol) continue;
        const SymbolInfo* known = function_.symbols.find(dim.leaf().symbol);
        if (known != nullptr && known->unbacked)
          calls_[call][dim.leaf().symbol] = tensor->second.dims()[axis];
      }
    }
  }
}

// A block of some steps; `finish` adds its last bindings and results.
Block Builder::filled_block(std::vector<ValueId> parameters,
                            const std::function<void(Block&)>& finish) {
  if (depth_ == deepest_block) throw Error(ErrorKind::Inputs, "given up");
  ++depth_;
  Block block;
  block.parameters = std::move(parameters);
  const auto first = static_cast<ValueId>(function_.values.size());
  Block* const around = std::exchange(block_, &block);
  for (std::size_t i = 0, steps = 1 + below(4); i < steps; ++i) add_something();
  finish(block);
  block_ = around;
  --depth_;
  hidden_.insert(block.parameters.begin(), block.parameters.end());
  const std::set<ValueId> inputs(function_.body.parameters.begin(),
                                 function_.body.parameters.end());
  for (ValueId id = first; id < function_.values.size(); ++id)
    if (!inputs.contains(id)) hidden_.insert(id);
  return block;
}

// A value of the same element type and rank, one of the latest, perhaps itself.
ValueId Builder::like(ValueId id) {
  const TensorType mine = type(id);
  auto list = values_of([&](const TensorType& found) {
    return found.dtype == mine.dtype && found.rank() == mine.rank();
  });
  if (list.empty()) throw Error(ErrorKind::Inputs, "given up");
  return list[list.size() - 1 - below(std::min<std::size_t>(4, list.size()))];
}

ValueId Builder::truth() {
  switch (below(3)) {
    case 0:
      return must(
          Op::greater,
          {literal(Op::dim, {random_dim()}),
           constant(Tensor::of(DType::I64, {}, Integers{static_cast<std::int64_t>(below(8))}))});
    case 1:
      return must(Op::equal, {literal(Op::dim, {random_dim()}), literal(Op::dim, {random_dim()})});
    default: {
      std::vector<Integers> elements;
      for (std::size_t call = 0; call < calls_.size(); ++call)
        elements.push_back({static_cast<std::int64_t>(below(2))});
      return must(Op::cast, {must(Op::reshape, {input_of(elements)}, {{"shape", Integers{}}})},
                  {{"to", DType::Bool}});
    }
  }
}

void Builder::conditional() {
  or_go_back([&] {
    Binding binding{.op = Op::branch, .operands = {truth()}};
    std::vector<ValueId> wanted;
    bool exact = true;
    const std::size_t results = 1 + below(2);
    binding.blocks.push_back(filled_block({}, [&](Block& block) {
      for (std::size_t i = 0; i < results; ++i) block.results.push_back(any_numbers());
      wanted = block.results;
    }));
    for (ValueId id : wanted) exact = exact && exact_[id];
    binding.blocks.push_back(filled_block({}, [&](Block& block) {
      for (ValueId id : wanted) {
        block.results.push_back(like(id));
        exact = exact && exact_[block.results.back()];
      }
    }));
    structure(std::move(binding), results, exact);
  });
}

// Carried floats, and an integer that counts; sometimes every step's value is kept.
void Builder::repetition() {
  or_go_back([&] {
    ValueId start = any(DType::F32);
    const bool condition = chance(30), scanned = chance(40);
    ValueId trips = no_value;
    bool many = false;
    if (!condition || chance(50)) {
      many = depth_ == 0 && chance(50);  // many times within many would take long
      trips =
          many
              ? literal(Op::dim, {random_dim()})
              : constant(Tensor::of(DType::I64, {}, Integers{static_cast<std::int64_t>(below(4))}));
    }
    const bool may_grow = depth_ == 0 && !many;  // what doubles each time soon fills the memory
    Tensor yes(DType::Bool, {});
    yes.set_integer(0, 1);
    Binding binding{.op = Op::loop,
                    .operands = {trips, condition ? constant(yes) : no_value, start}};
    ValueId step = block_parameter("i", {DType::I64, {}}, true, [](std::size_t) {
      return Tensor::of(DType::I64, {}, Integers{0});
    });
    ValueId on = block_parameter("on", {DType::Bool, {}}, true, [&](std::size_t) { return yes; });
    const TensorType carried_type = type(start);
    ValueId carried = block_parameter("a", carried_type, false,
                                      [&](std::size_t call) { return tensors_[call].at(start); });
    binding.blocks.push_back(filled_block({step, on, carried}, [&](Block& block) {
      block.results.push_back(
          condition
              ? must(Op::less,
                     {step, constant(Tensor::of(DType::I64, {},
                                                Integers{static_cast<std::int64_t>(below(3))}))})
              : on);
      ValueId next = like(carried);
      if (next == carried || chance(30) || (!may_grow && !(type(next).dims == carried_type.dims)))
        next = must(Op::mul, {must(Op::add, {carried, number(1)}), number(0.5)});
      block.results.push_back(next);
      if (scanned) block.results.push_back(like(carried));
    }));
    hidden_.insert({step, on, carried});
    structure(std::move(binding), scanned ? 2 : 1, false);
  });
}

ValueId Builder::block_parameter(const std::string& name, const TensorType& type, bool exact,
                                 const std::function<Tensor(std::size_t)>& tensor) {
  ValueId id = function_.add_value(name, type);
  know(id, {}, exact);
  for (std::size_t call = 0; call < calls_.size(); ++call)
    tensors_[call].insert_or_assign(id, tensor(call));
  return id;
}

// Adds a function over what these operands are: constant extents stay, every other one is a symbol
// of its own or of operands that share it. Its place in the module.
std::uint32_t Builder::add_callee_over(const std::vector<ValueId>& operands, std::uint64_t seed) {
  if (depth_ == deepest_block) throw Error(ErrorKind::Inputs, "given up");
  Builder callee(seed, options_);
  callee.depth_ = depth_ + 1;
  callee.takes_parameters_ = false;
  callee.calls_.resize(calls_.size());
  callee.tensors_.resize(calls_.size());
  std::vector<Dim> met;
  for (ValueId operand : operands) {
    TensorType parameter = type(operand);
    for (std::size_t axis = 0; axis < parameter.rank(); ++axis) {
      Dim& dim = parameter.dims[axis];
      if (dim.is_constant()) continue;
      const auto found = std::find(met.begin(), met.end(), dim);
      const std::string name = "d" + std::to_string(found - met.begin());
      if (found == met.end()) {
        met.push_back(dim);
        callee.calls_symbols_.push_back(name);
        callee.function_.symbols.declare(name);
        for (std::size_t call = 0; call < calls_.size(); ++call)
          callee.calls_[call][name] = tensors_[call].at(operand).dims()[axis];
      }
      dim = Dim::symbol(name);
    }
    ValueId id =
        callee.function_.add_value("p" + std::to_string(callee.function_.values.size()), parameter);
    callee.function_.body.parameters.push_back(id);
    for (std::size_t call = 0; call < calls_.size(); ++call)
      callee.tensors_[call].emplace(id, tensors_[call].at(operand));
    callee.know(id, {}, exact_[operand]);
  }
  for (std::size_t i = 0, steps = 2 + callee.below(5); i < steps; ++i) callee.add_something();
  callee.choose_results();
  const auto others = static_cast<std::uint32_t>(callees_.size());
  callee.callees_.push_back(callee.bare_function());
  for (Function& function : callee.callees_) {
    move_callees(function.body, others);
    function.name = "f" + std::to_string(callees_.size());
    callees_.push_back(std::move(function));
  }
  return static_cast<std::uint32_t>(callees_.size());
}

void Builder::function_call() {
  or_go_back([&] {
    std::vector<ValueId> operands{any_numbers()};
    if (chance(60)) operands.push_back(any_numbers());
    const std::uint32_t index = add_callee_over(operands, next());
    const std::size_t results = callees_.back().body.results.size();
    const bool again = chance(40);
    for (int round = 0; round < (again ? 2 : 1); ++round) {
      if (block_ != &function_.body || chance(70)) {
        structure({.op = Op::call, .operands = operands, .callee = index}, results, false);
        continue;
      }
      const std::size_t kept = below(operands.size() + 1);
      const auto middle = operands.begin() + static_cast<std::ptrdiff_t>(kept);
      std::vector<ValueId> applied = structure(
          {.op = Op::closure, .operands = {operands.begin(), middle}, .callee = index}, 1, true);
      applied.insert(applied.end(), middle, operands.end());
      structure({.op = Op::apply, .operands = applied}, results, false);
    }
  });
}

void Builder::tuples() {
  or_go_back([&] {
    const std::vector<ValueId> parts{any_numbers(), any_numbers()};
    const ValueId tuple = structure({.op = Op::tuple, .operands = parts}, 1, true)[0];
    const std::size_t index = below(2);
    structure({.op = Op::tuple_get,
               .operands = {tuple},
               .attributes = {{"index", static_cast<std::int64_t>(index)}}},
              1, exact_[parts[index]]);
  });
}

void Builder::lists() {
  or_go_back([&] {
    const ValueId x = any_value();
    std::vector<ValueId> parts{x, like(x), like(x)};
    bool exact = true;
    for (ValueId part : parts) exact = exact && exact_[part];
    auto scalar = [&](std::int64_t value) {
      return constant(Tensor::of(DType::I64, {}, Integers{value}));
    };
    const ValueId extra = parts.back();
    if (chance(60)) parts.pop_back();
    ValueId list = structure({.op = Op::list, .operands = parts}, 1, true)[0];
    if (chance(40))
      list = structure({.op = Op::list_insert,
                        .operands = {list, extra, scalar(static_cast<std::int64_t>(below(2)))}},
                       1, true)[0];
    if (chance(30))
      list = structure({.op = Op::list_erase, .operands = {list, scalar(-1)}}, 1, true)[0];
    if (chance(40)) structure({.op = Op::list_length, .operands = {list}}, 1, true);
    if (chance(60))
      structure({.op = Op::list_at, .operands = {list, scalar(chance(50) ? 0 : -1)}}, 1, exact);
    else if (rank(x) > 0)
      structure({.op = Op::list_concat, .operands = {list}, .attributes = {{"axis", axis_of(x)}}},
                1, exact);
  });
}

}  // namespace anydim::tests::random_graphs
