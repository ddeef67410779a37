#include "tests/support/random_graph.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "ir/error.h"
#include "ir/evaluate.h"
#include "ir/shape_rule.h"

namespace anydim::tests {

using namespace ir;

namespace {

constexpr double largest_real = 100;
constexpr std::int64_t largest_integer = 1000;
constexpr std::int64_t most_elements = 600;

using Integers = std::vector<std::int64_t>;

class Builder {
 public:
  explicit Builder(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 0x2545f4914f6cdd1du) {
    for (int i = 0; i < 8; ++i) next();
  }

  RandomGraph build() {
    function_.name = "main";
    choose_symbols();
    for (std::size_t i = 0, count = 2 + below(2); i < count; ++i) add_parameter();
    for (const std::string& name : function_.symbols.names())
      if (!is_bound(name)) add_parameter(TensorType{DType::F32, {Dim::symbol(name), 4}});
    std::size_t steps = 3 + below(14);
    for (std::size_t i = 0; i < steps; ++i) add_something();
    choose_results();
    RandomGraph graph;
    for (std::size_t call = 0; call < calls_.size(); ++call) {
      graph.calls.emplace_back();
      for (ValueId parameter : function_.body.parameters) graph.calls.back().push_back(tensors_[call].at(parameter));
    }
    for (Value& value : function_.values)
      if (std::find(function_.body.parameters.begin(), function_.body.parameters.end(), static_cast<ValueId>(&value - function_.values.data())) ==
          function_.body.parameters.end())
        value.type = {};
    graph.module.functions.push_back(std::move(function_));
    return graph;
  }

 private:
  // ---- Chance ----

  std::uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_ * 0x2545f4914f6cdd1du >> 16;
  }
  std::size_t below(std::size_t count) { return static_cast<std::size_t>(next() % count); }
  bool chance(std::size_t percent) { return below(100) < percent; }
  template <typename T>
  const T& pick(const std::vector<T>& list) {
    return list[below(list.size())];
  }

  // ---- Symbols and parameters ----

  void choose_symbols() {
    static const Integers extents{0, 1, 1, 2, 3, 5, 7};
    for (const char* name : {"n", "m", "s"}) function_.symbols.declare(name);
    for (int call = 0; call < 3; ++call) {
      std::map<std::string, std::int64_t> values;
      for (const char* name : {"n", "m", "s"}) values[name] = pick(extents);
      if (call == 0)
        for (auto& [name, value] : values) value = std::max<std::int64_t>(value, 2);
      if (chance(40)) values["m"] = values["n"];
      calls_.push_back(values);
    }
    tensors_.resize(calls_.size());
  }

  bool is_bound(const std::string& symbol) const {
    return std::any_of(function_.body.parameters.begin(), function_.body.parameters.end(), [&](ValueId id) {
      return std::any_of(type(id).dims.begin(), type(id).dims.end(), [&](const Dim& dim) { return dim == Dim::symbol(symbol); });
    });
  }

  Dim random_dim() {
    switch (below(7)) {
      case 0: return Dim::symbol("n");
      case 1: return Dim::symbol("m");
      case 2: return Dim::symbol("s");
      case 3: return 1;
      case 4: return 4;
      case 5: return 6;
      default: return Dim::symbol("n");
    }
  }

  std::int64_t value(std::size_t call, const Dim& dim) const {
    return dim.evaluate([&](const DimLeaf& leaf) {
      return leaf.is_symbol() ? calls_[call].at(leaf.symbol) : tensors_[call].at(leaf.value).integer_at(leaf.element);
    });
  }

  Tensor random_tensor(DType dtype, Integers dims, std::int64_t low, std::int64_t high) {
    Tensor tensor(dtype, std::move(dims));
    for (std::int64_t i = 0; i < tensor.elements(); ++i) {
      if (is_float(dtype)) tensor.set_real(i, (static_cast<double>(below(4001)) - 2000) / 1000);
      else tensor.set_integer(i, low + static_cast<std::int64_t>(below(static_cast<std::size_t>(high - low))));
    }
    return tensor;
  }

  void add_parameter(std::optional<TensorType> wanted = {}) {
    TensorType type;
    if (wanted) {
      type = *wanted;
    } else {
      type.dtype = chance(75) ? DType::F32 : chance(60) ? DType::I64 : DType::Bool;
      for (std::size_t i = 0, rank = below(5); i < rank; ++i) type.dims.push_back(random_dim());
    }
    ValueId id = function_.add_value("x" + std::to_string(function_.values.size()), type);
    function_.body.parameters.push_back(id);
    std::int64_t high = type.dtype == DType::Bool ? 2 : 4;
    for (std::size_t call = 0; call < calls_.size(); ++call) {
      Integers dims;
      for (const Dim& dim : type.dims) dims.push_back(value(call, dim));
      tensors_[call].emplace(id, random_tensor(type.dtype, dims, type.dtype == DType::Bool ? 0 : -2, high));
    }
    know(id, {}, true);
  }

  void know(ValueId id, Contents contents, bool exact) {
    contents_.resize(function_.values.size());
    exact_.resize(function_.values.size(), false);
    contents_[id] = std::move(contents);
    exact_[id] = exact;
  }

  // ---- Bindings ----

  // Adds a binding if its shape rule and every call accept it; nullopt otherwise.
  std::optional<std::vector<ValueId>> emit(Binding binding, std::size_t result_count = 1) {
    SymbolTable symbols = function_.symbols;
    bool exact = true;
    for (ValueId operand : binding.operands) exact = exact && (operand == no_value || exact_[operand]);
    if (!exact && !keeps_order(binding)) return std::nullopt;
    std::vector<Value> before = function_.values;
    for (std::size_t i = 0; i < result_count; ++i)
      binding.results.push_back(function_.add_value(std::string(info(binding.op).text) + "_" + std::to_string(function_.values.size())));
    std::vector<OperandFacts> facts;
    for (ValueId operand : binding.operands) {
      facts.emplace_back();
      if (operand == no_value) continue;
      auto constant = constants_.find(operand);
      facts.back() = {&function_.values[operand].type, &contents_[operand], constant != constants_.end() ? &constant->second : nullptr};
    }
    try {
      if (chance(30)) binding.source = "/node_" + std::to_string(function_.values.size());
      RuleResult rule = apply_shape_rule(function_, binding, facts, symbols);
      std::vector<std::vector<Tensor>> computed;
      for (std::size_t call = 0; call < calls_.size(); ++call) {
        std::vector<const Tensor*> operands;
        for (ValueId operand : binding.operands) operands.push_back(operand == no_value ? nullptr : &tensors_[call].at(operand));
        computed.push_back(evaluate_binding(function_, binding, operands, [&](const Dim& dim) { return value(call, dim); }));
        for (const Tensor& tensor : computed.back())
          if (!is_ordinary(tensor)) throw Error(ErrorKind::Inputs, "not an ordinary value");
      }
      for (std::size_t i = 0; i < result_count; ++i) {
        function_.values[binding.results[i]].type = rule.types[i];
        know(binding.results[i], rule.contents[i], exact && is_exact(binding.op));
        for (std::size_t call = 0; call < calls_.size(); ++call) tensors_[call].emplace(binding.results[i], computed[call][i]);
      }
    } catch (const Error&) {
      function_.values = std::move(before);
      return std::nullopt;
    }
    function_.symbols = std::move(symbols);
    if (binding.op == Op::constant) constants_.emplace(binding.results[0], tensor_attribute(binding, "value"));
    std::vector<ValueId> results = binding.results;
    function_.body.bindings.push_back(std::move(binding));
    return results;
  }

  std::optional<ValueId> apply(Op op, std::vector<ValueId> operands, Attributes attributes = {}) {
    auto results = emit({.op = op, .operands = std::move(operands), .attributes = std::move(attributes)});
    return results ? std::optional(results->front()) : std::nullopt;
  }

  // Throws where it isn't accepted: for patterns that are given up as a whole.
  ValueId must(Op op, std::vector<ValueId> operands, Attributes attributes = {}) {
    auto result = apply(op, std::move(operands), std::move(attributes));
    if (!result) throw Error(ErrorKind::Inputs, "given up");
    return *result;
  }

  ValueId literal(Op op, std::vector<Dim> dims) {
    auto results = emit({.op = op, .dims = std::move(dims)});
    if (!results) throw Error(ErrorKind::Inputs, "given up");
    return results->front();
  }

  ValueId constant(Tensor tensor) { return must(Op::constant, {}, {{"value", std::move(tensor)}}); }
  ValueId number(double real) {
    Tensor tensor(DType::F32, chance(70) ? Integers{} : Integers{1});
    tensor.set_real(0, real);
    return constant(tensor);
  }
  ValueId integers(const Integers& list) { return constant(Tensor::of(DType::I64, {static_cast<std::int64_t>(list.size())}, list)); }

  static bool is_ordinary(const Tensor& tensor) {
    if (tensor.elements() > most_elements) return false;
    for (std::int64_t i = 0; i < tensor.elements(); ++i) {
      if (is_float(tensor.dtype()) ? !(std::abs(tensor.real_at(i)) <= largest_real) : std::abs(tensor.integer_at(i)) > largest_integer) return false;
    }
    return true;
  }

  // Small differences of rounding in the operands stay small in the result.
  static bool keeps_order(const Binding& binding) {
    switch (binding.op) {
      case Op::floor:
      case Op::ceil:
      case Op::round:
      case Op::sign: return false;
      case Op::cast: return is_float(dtype_attribute(binding, "to"));
      default: return !info(binding.op).has(traits::compares);
    }
  }

  // One rounding, the same however it is computed.
  static bool is_exact(Op op) {
    const OpInfo& row = info(op);
    if (row.has(traits::moves) || row.has(traits::literal) || row.has(traits::compares) || row.has(traits::logical)) return true;
    switch (op) {
      case Op::shape_of:
      case Op::dyn_arange:
      case Op::abs:
      case Op::neg:
      case Op::sign:
      case Op::relu:
      case Op::add:
      case Op::sub:
      case Op::mul:
      case Op::min:
      case Op::max:
      case Op::floor:
      case Op::ceil:
      case Op::round:
      case Op::cast:
      case Op::where:
      case Op::reduce_max:
      case Op::reduce_min: return true;
      default: return false;
    }
  }

  // ---- Choosing operands ----

  const TensorType& type(ValueId id) const { return function_.tensor_type(id); }
  std::size_t rank(ValueId id) const { return type(id).rank(); }

  std::vector<ValueId> values_of(const std::function<bool(const TensorType&)>& fits) const {
    std::vector<ValueId> list;
    for (ValueId id = 0; id < function_.values.size(); ++id)
      if (fits(type(id))) list.push_back(id);
    return list;
  }

  ValueId any(DType dtype, std::size_t least_rank = 0) {
    auto list = values_of([&](const TensorType& found) { return found.dtype == dtype && found.rank() >= least_rank; });
    if (list.empty()) throw Error(ErrorKind::Inputs, "given up");
    // Later values make deeper graphs.
    return chance(50) ? list[list.size() - 1 - below(std::min<std::size_t>(3, list.size()))] : pick(list);
  }
  ValueId any_value(std::size_t least_rank = 0) {
    return any(chance(80) ? DType::F32 : chance(70) ? DType::I64 : DType::Bool, least_rank);
  }

  // Something that may broadcast with `id`: of equal dims, a new constant over trailing dims, or whatever comes.
  ValueId partner(ValueId id) {
    const TensorType mine = type(id);
    auto alike = values_of([&](const TensorType& found) { return found == mine; });
    if (chance(50)) return pick(alike);
    if (chance(40)) {
      Integers dims;
      for (std::size_t i = mine.rank(); i-- > 0 && dims.size() < 2;) {
        auto extent = mine.dims[i].constant();
        dims.insert(dims.begin(), extent.value_or(1));
        if (chance(40)) break;
      }
      return constant(random_tensor(mine.dtype, dims, mine.dtype == DType::Bool ? 0 : -2, mine.dtype == DType::Bool ? 2 : 4));
    }
    return any(mine.dtype);
  }

  std::int64_t axis_of(ValueId id, bool result_axis = false) {
    std::size_t count = rank(id) + (result_axis ? 1 : 0);
    auto axis = static_cast<std::int64_t>(below(count));
    return chance(30) ? axis - static_cast<std::int64_t>(count) : axis;
  }

  // ---- Shapes as operands ----

  // A rank-1 i64 tensor with these elements: a literal, shape arithmetic, or a constant.
  ValueId shape_value(const std::vector<Dim>& dims) {
    bool constant_dims = std::all_of(dims.begin(), dims.end(), [](const Dim& dim) { return dim.is_constant(); });
    if (constant_dims && chance(70)) {
      Integers list;
      for (const Dim& dim : dims) list.push_back(*dim.constant());
      return integers(list);
    }
    if (dims.empty() || chance(40)) return literal(Op::shape, dims);
    std::vector<ValueId> parts;
    for (const Dim& dim : dims) parts.push_back(one_extent(dim));
    return must(Op::concat, parts, {{"axis", std::int64_t{0}}});
  }

  // One element, read from the shape of something where that is possible.
  ValueId one_extent(const Dim& dim) {
    if (auto constant = dim.constant()) return integers({*constant});
    auto holders = values_of([&](const TensorType& found) { return std::find(found.dims.begin(), found.dims.end(), dim) != found.dims.end(); });
    if (holders.empty()) return literal(Op::shape, {dim});
    ValueId holder = pick(holders);
    auto at = static_cast<std::int64_t>(std::find(type(holder).dims.begin(), type(holder).dims.end(), dim) - type(holder).dims.begin());
    ValueId all = must(Op::shape_of, {holder});
    if (chance(50)) return must(Op::gather, {all, integers({at})});
    ValueId scalar = must(Op::gather, {all, constant(Tensor::of(DType::I64, {}, Integers{at}))});
    return must(Op::expand_dims, {scalar}, {{"axes", Integers{0}}});
  }

  // ---- Steps ----

  void add_something() {
    try {
      static constexpr void (Builder::*steps[])() = {
          &Builder::unary, &Builder::binary, &Builder::binary, &Builder::selection, &Builder::reshape, &Builder::reshape, &Builder::transpose,
          &Builder::expand, &Builder::broadcast, &Builder::slice, &Builder::slice, &Builder::concat, &Builder::split, &Builder::tile, &Builder::triangle,
          &Builder::gather, &Builder::gather, &Builder::reduce, &Builder::reduce, &Builder::softmax, &Builder::layer_norm, &Builder::matmul, &Builder::matmul,
          &Builder::attention, &Builder::written_gelu, &Builder::written_layer_norm, &Builder::written_softmax, &Builder::written_attention,
          &Builder::side_by_side, &Builder::counted, &Builder::integer_work, &Builder::from_elements};
      (this->*steps[below(std::size(steps))])();
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::Internal) throw;
    }
  }

  void unary() {
    static const std::vector<Op> ops{Op::abs, Op::neg, Op::relu, Op::tanh, Op::sigmoid, Op::erf, Op::gelu, Op::gelu_tanh, Op::sin, Op::exp, Op::sqrt, Op::floor, Op::sign, Op::reciprocal};
    ValueId x = any(DType::F32);
    if (chance(15)) apply(Op::cast, {x}, {{"to", pick(std::vector<DType>{DType::F64, DType::I64, DType::F32})}});
    else apply(pick(ops), {x});
  }

  void binary() {
    static const std::vector<Op> ops{Op::add, Op::sub, Op::mul, Op::min, Op::max, Op::add, Op::div, Op::less, Op::greater_equal, Op::equal};
    ValueId x = any(DType::F32), y = partner(x);
    if (chance(50)) std::swap(x, y);
    apply(pick(ops), {x, y});
  }

  void integer_work() {
    static const std::vector<Op> ops{Op::add, Op::sub, Op::mul, Op::min, Op::max, Op::div, Op::mod, Op::equal, Op::less, Op::less_equal, Op::greater};
    ValueId x = any(DType::I64);
    if (chance(20)) {
      apply(Op::cast, {x}, {{"to", pick(std::vector<DType>{DType::F32, DType::Bool, DType::I32, DType::F64})}});
    } else {
      apply(pick(ops), {x, partner(x)});
    }
  }

  void selection() {
    if (chance(30)) {
      ValueId a = any(DType::Bool);
      if (chance(30)) apply(Op::logical_not, {a});
      else apply(pick(std::vector<Op>{Op::logical_and, Op::logical_or, Op::logical_xor}), {a, partner(a)});
      return;
    }
    ValueId x = any(DType::F32);
    apply(Op::where, {any(DType::Bool), x, partner(x)});
  }

  void reshape() {
    ValueId x = any_value();
    const std::vector<Dim> dims = type(x).dims;
    if (chance(15)) {
      apply(Op::flatten, {x}, {{"axis", static_cast<std::int64_t>(below(rank(x) + 1))}});
      return;
    }
    // Joins neighbours, splits 4 and 6, adds ones.
    std::vector<Dim> wanted;
    for (const Dim& dim : dims) {
      if (!wanted.empty() && chance(35)) {
        wanted.back() = wanted.back() * dim;
      } else if ((dim.is_constant(4) || dim.is_constant(6)) && chance(50)) {
        wanted.emplace_back(2);
        wanted.emplace_back(*dim.constant() / 2);
      } else {
        wanted.push_back(dim);
      }
      if (chance(10)) wanted.emplace_back(1);
    }
    if (wanted.size() > 5) return;
    Attributes attributes;
    std::vector<Dim> asked = wanted;
    if (!asked.empty() && chance(40)) asked[below(asked.size())] = -1;
    else if (!asked.empty() && chance(20) && asked.size() <= dims.size()) {
      std::size_t at = below(asked.size());
      if (asked[at] == dims[at]) {
        asked[at] = 0;
        attributes.emplace("zero_copies", std::int64_t{1});
      }
    }
    apply(Op::dyn_reshape, {x, shape_value(asked)}, attributes);
  }

  void transpose() {
    ValueId x = any_value(1);
    Integers perm;
    for (std::size_t i = 0; i < rank(x); ++i) perm.push_back(static_cast<std::int64_t>(i));
    for (std::size_t i = perm.size(); i-- > 1;) std::swap(perm[i], perm[below(i + 1)]);
    if (chance(10)) apply(Op::transpose, {x});
    else apply(Op::transpose, {x}, {{"perm", perm}});
  }

  void expand() {
    ValueId x = any_value();
    if (chance(40)) {
      Integers axes;
      for (std::size_t i = 0; i < rank(x); ++i)
        if (type(x).dims[i].is_constant(1) && chance(70)) axes.push_back(static_cast<std::int64_t>(i));
      apply(Op::squeeze, {x}, {{"axes", axes}});
      return;
    }
    if (rank(x) > 3) return;
    Integers axes{axis_of(x, true)};
    if (chance(70)) apply(Op::expand_dims, {x}, {{"axes", axes}});
    else apply(Op::dyn_expand_dims, {x, integers(axes)});
  }

  void broadcast() {
    ValueId x = any_value();
    std::vector<Dim> wanted = type(x).dims;
    for (Dim& dim : wanted)
      if (dim.is_constant(1) && chance(60)) dim = random_dim();
    if (wanted.size() < 4 && chance(40)) wanted.insert(wanted.begin(), random_dim());
    if (chance(15)) apply(Op::dyn_full, {number(1.5), shape_value(wanted)});
    else apply(Op::dyn_broadcast_to, {x, shape_value(wanted)});
  }

  void slice() {
    ValueId x = any_value(1);
    std::int64_t axis = axis_of(x);
    auto at = [&]() -> std::int64_t {
      static const Integers bounds{0, 1, 2, 3, -1, -2, 5, 1000, -1000};
      return pick(bounds);
    };
    std::int64_t step = pick(Integers{1, 1, 1, 2, 3, -1, -2});
    if (chance(50)) {
      Attributes attributes{{"starts", Integers{at()}}, {"ends", Integers{at()}}, {"axes", Integers{axis}}};
      if (step != 1) attributes.emplace("steps", Integers{step});
      apply(Op::strided_slice, {x}, attributes);
      return;
    }
    ValueId end = chance(50) ? one_extent(random_dim()) : integers({at()});
    apply(Op::dyn_strided_slice, {x, integers({at()}), end, integers({axis}), integers({step})});
  }

  void concat() {
    ValueId x = any_value(1);
    std::int64_t axis = axis_of(x);
    std::size_t at = static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank(x)) : axis);
    const TensorType mine = type(x);
    auto fitting = values_of([&](const TensorType& found) {
      if (found.dtype != mine.dtype || found.rank() != mine.rank()) return false;
      for (std::size_t i = 0; i < mine.rank(); ++i)
        if (i != at && !(found.dims[i] == mine.dims[i])) return false;
      return true;
    });
    std::vector<ValueId> operands{x};
    for (std::size_t i = 0, more = 1 + below(2); i < more; ++i) operands.push_back(pick(fitting));
    apply(Op::concat, operands, {{"axis", axis}});
  }

  void split() {
    ValueId x = any_value(1);
    std::int64_t axis = axis_of(x);
    std::size_t at = static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank(x)) : axis);
    Binding binding{.op = Op::split, .operands = {x}, .attributes = {{"axis", axis}}};
    auto extent = type(x).dims[at].constant();
    if (extent && *extent > 1 && chance(50)) binding.attributes.emplace("sizes", Integers{1, *extent - 1});
    emit(binding, 2);
  }

  void tile() {
    ValueId x = any_value(1);
    Integers repeats;
    for (std::size_t i = 0; i < rank(x); ++i) repeats.push_back(static_cast<std::int64_t>(below(3)) + (chance(80) ? 1 : 0));
    if (chance(50)) {
      apply(Op::tile, {x}, {{"repeats", repeats}});
    } else {
      std::vector<Dim> dims(repeats.begin(), repeats.end());
      if (chance(40)) dims[0] = random_dim();
      apply(Op::dyn_tile, {x, shape_value(dims)});
    }
  }

  void triangle() {
    ValueId x = any(DType::F32, 2);
    std::int64_t k = static_cast<std::int64_t>(below(5)) - 2;
    Attributes attributes{{"upper", static_cast<std::int64_t>(below(2))}};
    if (chance(50)) {
      attributes.emplace("k", k);
      apply(Op::trilu, {x}, attributes);
    } else {
      apply(Op::dyn_trilu, {x, constant(Tensor::of(DType::I64, {}, Integers{k}))}, attributes);
    }
  }

  void gather() {
    ValueId x = any_value(1);
    ValueId indices = chance(50) ? any(DType::I64) : integers({static_cast<std::int64_t>(below(3)), -1});
    Attributes axis{{"axis", axis_of(x)}};
    switch (below(4)) {
      case 0: apply(Op::gather_elements, {x, indices}, axis); break;
      case 1: {
        Integers pairs;
        for (int i = 0; i < 6; ++i) pairs.push_back(static_cast<std::int64_t>(below(2)));
        apply(Op::gather_nd, {x, constant(Tensor::of(DType::I64, chance(50) ? Integers{3, 2} : Integers{6, 1}, pairs))});
        break;
      }
      default: apply(Op::gather, {x, indices}, axis);
    }
  }

  void reduce() {
    static const std::vector<Op> ops{Op::reduce_sum, Op::reduce_mean, Op::reduce_max, Op::reduce_min, Op::reduce_prod};
    ValueId x = chance(85) ? any(DType::F32) : any(DType::I64);
    Attributes attributes{{"keepdims", static_cast<std::int64_t>(below(2))}};
    Integers axes;
    for (std::size_t i = 0; i < rank(x); ++i)
      if (chance(50)) axes.push_back(chance(20) ? static_cast<std::int64_t>(i) - static_cast<std::int64_t>(rank(x)) : static_cast<std::int64_t>(i));
    if (chance(25)) apply(Op::dyn_reduce_sum, {x, integers(axes)}, attributes);
    if (!axes.empty()) attributes.emplace("axes", axes);
    apply(pick(ops), {x}, attributes);
  }

  void softmax() {
    ValueId x = any(DType::F32, 1);
    apply(chance(70) ? Op::softmax : Op::log_softmax, {x}, {{"axis", axis_of(x)}});
  }

  void layer_norm() {
    ValueId x = any(DType::F32, 1);
    auto last = type(x).dims.back().constant();
    if (!last) return;
    std::vector<ValueId> operands{x, constant(random_tensor(DType::F32, {*last}, 0, 1))};
    if (chance(60)) operands.push_back(constant(random_tensor(DType::F32, {*last}, 0, 1)));
    apply(Op::layer_norm, operands, {{"axis", std::int64_t{-1}}, {"epsilon", 0.01}});
  }

  ValueId weight(ValueId x, std::int64_t columns) {
    auto last = type(x).dims.back().constant();
    if (!last) throw Error(ErrorKind::Inputs, "given up");
    if (chance(30)) return must(Op::transpose, {constant(random_tensor(DType::F32, {columns, *last}, 0, 1))}, {{"perm", Integers{1, 0}}});
    return constant(random_tensor(DType::F32, {*last, columns}, 0, 1));
  }

  void matmul() {
    ValueId x = any(DType::F32, 1);
    if (chance(60)) {
      auto p = apply(Op::matmul, {x, weight(x, chance(50) ? 6 : 4)});
      if (p && chance(60)) p = apply(Op::add, {*p, partner(*p)});
      if (p && chance(40)) p = apply(pick(std::vector<Op>{Op::gelu, Op::relu, Op::tanh, Op::softmax}), {*p});
      if (p && chance(40)) p = apply(Op::add, {partner(*p), *p});
      return;
    }
    apply(Op::matmul, {x, any(DType::F32, 1)});
  }

  void side_by_side() {
    ValueId x = any(DType::F32, 1);
    bool added = chance(60);
    for (std::size_t i = 0, count = 2 + below(2); i < count; ++i) {
      ValueId p = must(Op::matmul, {x, weight(x, 4)});
      if (added) must(Op::add, {p, constant(random_tensor(DType::F32, {4}, 0, 1))});
    }
  }

  void counted() {
    ValueId start = constant(Tensor::of(DType::I64, {}, Integers{static_cast<std::int64_t>(below(3))}));
    ValueId stop = literal(Op::dim, {random_dim()});
    ValueId step = constant(Tensor::of(DType::I64, {}, Integers{1 + static_cast<std::int64_t>(below(2))}));
    apply(Op::dyn_arange, {start, stop, step});
  }

  // A shape that elements of an input or of a computed tensor decide.
  void from_elements() {
    ValueId x = any(DType::F32, 1);
    std::vector<Dim> dims = type(x).dims;
    ValueId shape = shape_value(dims);
    if (chance(50)) {
      // An input with the right elements for every call.
      ValueId id = function_.add_value("k" + std::to_string(function_.values.size()),
                                       TensorType{DType::I64, {Dim(static_cast<std::int64_t>(dims.size()))}});
      function_.body.parameters.push_back(id);
      for (std::size_t call = 0; call < calls_.size(); ++call) {
        Integers elements;
        for (const Dim& dim : dims) elements.push_back(value(call, dim));
        if (!elements.empty() && chance(30)) elements.back() = -1;
        tensors_[call].emplace(id, Tensor::of(DType::I64, {static_cast<std::int64_t>(elements.size())}, elements));
      }
      know(id, {}, true);
      shape = id;
      // Computed from an input: the host must fetch it.
      if (chance(50)) {
        ValueId zeros = must(Op::cast, {must(Op::cast, {shape}, {{"to", DType::F32}})}, {{"to", DType::I64}});
        shape = zeros;
      }
    }
    auto result = apply(Op::dyn_reshape, {x, shape});
    if (result && chance(60)) result = apply(Op::add, {*result, number(1)});
    if (result && chance(30)) apply(Op::reduce_sum, {*result}, {{"axes", Integers{0}}});
  }

  // ---- As exporters write them ----

  void written_gelu() {
    ValueId x = any(DType::F32);
    ValueId inner = chance(50) ? must(Op::div, {x, number(std::sqrt(2.0))}) : must(Op::mul, {x, number(std::sqrt(0.5))});
    ValueId one = must(Op::add, {must(Op::erf, {inner}), number(1)});
    if (chance(50)) must(Op::mul, {must(Op::mul, {x, one}), number(0.5)});
    else must(Op::mul, {must(Op::mul, {number(0.5), x}), one});
  }

  void written_layer_norm() {
    ValueId x = any(DType::F32, 1);
    auto last = type(x).dims.back().constant();
    if (!last) return;
    Attributes axes{{"axes", Integers{-1}}, {"keepdims", std::int64_t{1}}};
    ValueId d = must(Op::sub, {x, must(Op::reduce_mean, {x}, axes)});
    ValueId square = chance(50) ? must(Op::pow, {d, number(2)}) : must(Op::mul, {d, d});
    ValueId root = must(Op::sqrt, {must(Op::add, {must(Op::reduce_mean, {square}, axes), number(0.01)})});
    ValueId normal = chance(60) ? must(Op::div, {d, root}) : must(Op::mul, {d, must(Op::reciprocal, {root})});
    ValueId scaled = must(Op::mul, {normal, constant(random_tensor(DType::F32, {*last}, 0, 1))});
    if (chance(80)) must(Op::add, {scaled, constant(random_tensor(DType::F32, {*last}, 0, 1))});
  }

  ValueId soft(ValueId x) {
    if (chance(70)) return must(Op::softmax, {x}, {{"axis", std::int64_t{-1}}});
    Attributes axes{{"axes", Integers{-1}}, {"keepdims", std::int64_t{1}}};
    ValueId e = must(Op::exp, {must(Op::sub, {x, must(Op::reduce_max, {x}, axes)})});
    return must(Op::div, {e, must(Op::reduce_sum, {e}, axes)});
  }
  void written_softmax() { soft(any(DType::F32, 1)); }

  void attention() {
    ValueId q = any(DType::F32, 2);
    const TensorType mine = type(q);
    auto fitting = values_of([&](const TensorType& found) {
      return found.dtype == DType::F32 && found.rank() >= 2 && found.dims.back() == mine.dims.back();
    });
    std::vector<ValueId> operands{q, pick(fitting), pick(fitting)};
    if (chance(40)) operands.push_back(any(DType::F32));
    apply(Op::attention, operands, {{"scale", 0.5}});
  }

  // Heads are split from a [.., s, 6] or [.., s, 4] value.
  void written_attention() {
    auto list = values_of([](const TensorType& found) {
      return found.dtype == DType::F32 && found.rank() == 3 && (found.dims[2].is_constant(4) || found.dims[2].is_constant(6));
    });
    if (list.empty()) {
      add_parameter(TensorType{DType::F32, {random_dim(), random_dim(), chance(50) ? 4 : 6}});
      return;
    }
    ValueId x = pick(list);
    const TensorType mine = type(x);
    std::int64_t width = *mine.dims[2].constant();
    ValueId parts[3];
    for (ValueId& part : parts) {
      part = chance(70) ? must(Op::matmul, {x, weight(x, width)}) : x;
      if (chance(50)) part = must(Op::add, {part, constant(random_tensor(DType::F32, {width}, 0, 1))});
    }
    std::vector<Dim> heads{mine.dims[0], mine.dims[1], 2, width / 2};
    auto split_heads = [&](ValueId part, Integers perm) {
      return must(Op::transpose, {must(Op::dyn_reshape, {part, shape_value(heads)})}, {{"perm", std::move(perm)}});
    };
    ValueId q = split_heads(parts[0], {0, 2, 1, 3});
    ValueId k = chance(50) ? split_heads(parts[1], {0, 2, 3, 1}) : must(Op::transpose, {split_heads(parts[1], {0, 2, 1, 3})}, {{"perm", Integers{0, 1, 3, 2}}});
    ValueId v = split_heads(parts[2], {0, 2, 1, 3});
    std::size_t place = below(4);
    if (place == 1) q = must(Op::mul, {q, number(0.5)});
    if (place == 2) k = must(Op::div, {k, number(2)});
    ValueId scores = must(Op::matmul, {q, k});
    if (place == 3) scores = must(Op::div, {scores, number(1.5)});
    if (chance(50)) {
      ValueId seen = must(Op::dyn_broadcast_to, {any(DType::Bool), shape_value({mine.dims[0], 1, 1, mine.dims[1]})});
      if (chance(40)) {
        ValueId low = number(-1e30);
        scores = chance(50) ? must(Op::where, {seen, scores, low}) : must(Op::where, {seen, low, scores});
      } else {
        scores = must(Op::add, {scores, must(Op::where, {seen, number(0), number(-50)})});
      }
    }
    ValueId out = must(Op::matmul, {soft(scores), v});
    ValueId merged = must(Op::transpose, {out}, {{"perm", Integers{0, 2, 1, 3}}});
    must(Op::dyn_reshape, {merged, shape_value({mine.dims[0], mine.dims[1], width})});
  }

  void choose_results() {
    std::vector<bool> read(function_.values.size(), false);
    for (const Binding& binding : function_.body.bindings)
      for (ValueId operand : binding.operands)
        if (operand != no_value) read[operand] = true;
    std::vector<ValueId> results;
    for (const Binding& binding : function_.body.bindings)
      for (ValueId result : binding.results)
        if (!read[result] ? results.size() < 4 : chance(6)) results.push_back(result);
    if (results.empty()) results.push_back(function_.body.parameters[0]);
    if (chance(5)) results.push_back(results[0]);
    for (ValueId result : results) {
      function_.body.results.push_back(result);
      function_.result_names.push_back("out" + std::to_string(function_.result_names.size()));
    }
  }

  std::uint64_t state_;
  Function function_;
  std::vector<std::map<std::string, std::int64_t>> calls_;
  std::vector<std::map<ValueId, Tensor>> tensors_;  // by call: every value
  std::map<ValueId, Tensor> constants_;
  std::vector<Contents> contents_;
  std::vector<bool> exact_;
};

}  // namespace

RandomGraph random_graph(std::uint64_t seed) { return Builder(seed).build(); }

}  // namespace anydim::tests
