// Inside random_graph(): values so far, chance, and how a binding is added.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ir/error.h"
#include "ir/reference/evaluate.h"
#include "ir/shapes/shape_rule.h"
#include "tests/support/chance.h"
#include "tests/support/random_graph.h"

namespace anydim::tests::random_graphs {

using namespace ir;

inline constexpr double largest_real = 100;
inline constexpr std::int64_t largest_integer = 1000;
inline constexpr std::int64_t most_elements = 600;
inline constexpr std::int64_t most_elements_of_edges = 8000;  // of graphs with large extents

using Integers = std::vector<std::int64_t>;

// Draws a graph step by step; a step that the shape rules or a call do not accept is left out.
class Builder : private Chance {
 public:
  Builder(std::uint64_t seed, const RandomGraphOptions& options)
      : Chance(seed), options_(options) {}

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
      for (ValueId parameter : function_.body.parameters)
        graph.calls.back().push_back(tensors_[call].at(parameter));
    }
    graph.module.functions.push_back(bare_function());
    for (Function& callee : callees_) graph.module.functions.push_back(std::move(callee));
    return graph;
  }

 private:
  DType any_dtype() {
    return pick(std::vector<DType>{DType::F64, DType::F64, DType::F16, DType::BF16, DType::I32,
                                   DType::I32, DType::I16, DType::I8, DType::U8, DType::U16,
                                   DType::U32, DType::U64});
  }
  static bool has_sign(DType dtype) {
    return is_float(dtype) || dtype == DType::I64 || dtype == DType::I32 || dtype == DType::I16 ||
           dtype == DType::I8;
  }

  // ---- Symbols and parameters ----

  void choose_symbols() {
    static const Integers extents{0, 1, 1, 2, 3, 5, 7};
    calls_symbols_ = {"n", "m", "s"};
    for (const std::string& name : calls_symbols_) function_.symbols.declare(name);
    if (options_.whole_language) {
      choose_edges();
      return;
    }
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

  // Last extents of buckets that the code generator cuts rows of products and of attention at.
  void choose_edges() {
    const std::int64_t edge = pick(Integers{6, 6, 32, 32, 64});
    const bool least = chance(75);
    for (const std::int64_t n : {std::int64_t{least ? 0 : 2}, std::int64_t{least ? 1 : 3}, edge,
                                 edge + 1, pick(Integers{97, 130, 260})}) {
      std::map<std::string, std::int64_t> values{{"n", n},
                                                 {"m", 2 + static_cast<std::int64_t>(below(3))},
                                                 {"s", 1 + static_cast<std::int64_t>(below(3))}};
      if (chance(10)) values["m"] = n;
      if (chance(15)) values["s"] = 0;
      calls_.push_back(values);
    }
    tensors_.resize(calls_.size());
  }

  bool is_bound(const std::string& symbol) const {
    return std::any_of(
        function_.body.parameters.begin(), function_.body.parameters.end(), [&](ValueId id) {
          return std::any_of(type(id).dims.begin(), type(id).dims.end(),
                             [&](const Dim& dim) { return dim == Dim::symbol(symbol); });
        });
  }

  Dim random_dim() {
    const std::size_t choice = below(7);
    if (choice >= 3 && choice < 6) return pick(Integers{1, 4, 6});
    const std::vector<std::string>& names = calls_symbols_;
    return names.empty() ? Dim(1) : Dim::symbol(names[choice == 6 ? 0 : choice % names.size()]);
  }

  std::int64_t value(std::size_t call, const Dim& dim) const {
    return dim.evaluate([&](const DimLeaf& leaf) {
      const auto symbol = calls_[call].find(leaf.symbol);
      const auto tensor = tensors_[call].find(leaf.value);
      if (leaf.is_symbol() ? symbol == calls_[call].end() : tensor == tensors_[call].end())
        throw Error(ErrorKind::Inputs, "given up");
      return leaf.is_symbol() ? symbol->second : tensor->second.integer_at(leaf.element);
    });
  }

  bool is_too_large(const std::vector<Dim>& dims) const {
    for (std::size_t call = 0; call < calls_.size(); ++call) {
      std::int64_t elements = 1;
      for (const Dim& dim : dims) elements *= value(call, dim);
      if (elements > most_elements_of_edges) return true;
    }
    return false;
  }

  Tensor random_tensor(DType dtype, Integers dims, std::int64_t low, std::int64_t high) {
    Tensor tensor(dtype, std::move(dims));
    for (std::int64_t i = 0; i < tensor.elements(); ++i) {
      if (is_float(dtype)) tensor.set_real(i, (static_cast<double>(below(4001)) - 2000) / 1000);
      else
        tensor.set_integer(
            i, low + static_cast<std::int64_t>(below(static_cast<std::size_t>(high - low))));
    }
    return tensor;
  }

  ValueId add_parameter(std::optional<TensorType> wanted = {}) {
    if (!takes_parameters_) throw Error(ErrorKind::Inputs, "given up");
    TensorType type;
    if (wanted) {
      type = *wanted;
    } else {
      type.dtype = chance(75) ? DType::F32 : chance(60) ? DType::I64 : DType::Bool;
      if (options_.whole_language && chance(20)) type.dtype = any_dtype();
      for (std::size_t i = 0, rank = below(5); i < rank; ++i) type.dims.push_back(random_dim());
      for (std::size_t i = 0; i < type.rank() && is_too_large(type.dims); ++i)
        if (!type.dims[i].is_constant()) type.dims[i] = pick(Integers{1, 4});
    }
    if (is_too_large(type.dims)) throw Error(ErrorKind::Inputs, "given up");
    ValueId id = function_.add_value("x" + std::to_string(function_.values.size()), type);
    function_.body.parameters.push_back(id);
    std::int64_t high = type.dtype == DType::Bool ? 2 : 4;
    for (std::size_t call = 0; call < calls_.size(); ++call) {
      Integers dims;
      for (const Dim& dim : type.dims) dims.push_back(value(call, dim));
      tensors_[call].emplace(id,
                             random_tensor(type.dtype, dims, has_sign(type.dtype) ? -2 : 0, high));
    }
    know(id, {}, true);
    return id;
  }

  void know(ValueId id, ShapeData shape_data, bool exact) {
    shape_data_.resize(function_.values.size());
    exact_.resize(function_.values.size(), false);
    shape_data_[id] = std::move(shape_data);
    exact_[id] = exact;
  }

  // ---- Bindings ----

  // Adds a binding if its shape rule and every call accept it; nullopt otherwise.
  std::optional<std::vector<ValueId>> emit(Binding binding, std::size_t result_count = 1) {
    // Inference names unbacked symbols anew each time.
    if (std::ranges::any_of(binding.dims, [&](const Dim& dim) { return mentions_unbacked(dim); }))
      return std::nullopt;
    SymbolTable symbols = function_.symbols;
    bool exact = true;
    for (ValueId operand : binding.operands)
      exact = exact && (operand == no_value || exact_[operand]);
    if (!exact && !keeps_order(binding)) return std::nullopt;
    std::vector<Value> before = function_.values;
    for (std::size_t i = 0; i < result_count; ++i)
      binding.results.push_back(function_.add_value(std::string(info(binding.op).text) + "_" +
                                                    std::to_string(function_.values.size())));
    std::vector<OperandFacts> facts;
    for (ValueId operand : binding.operands) {
      facts.emplace_back();
      if (operand == no_value) continue;
      auto constant = constants_.find(operand);
      facts.back() = {&function_.values[operand].type, &shape_data_[operand],
                      constant != constants_.end() ? &constant->second : nullptr};
    }
    try {
      if (chance(30)) binding.source = "/node_" + std::to_string(function_.values.size());
      RuleResult rule = apply_shape_rule(function_, binding, facts, symbols);
      std::vector<std::vector<Tensor>> computed;
      for (std::size_t call = 0; call < calls_.size(); ++call) {
        std::vector<const Tensor*> operands;
        for (ValueId operand : binding.operands)
          operands.push_back(operand == no_value ? nullptr : &tensors_[call].at(operand));
        computed.push_back(evaluate_binding(function_, binding, operands,
                                            [&](const Dim& dim) { return value(call, dim); }));
        const bool settled = exact || info(binding.op).has(traits::moves) ||
                             info(binding.op).has(traits::reduces) || has_special(operands);
        for (const Tensor& tensor : computed.back())
          if (!is_ordinary(tensor, settled))
            throw Error(ErrorKind::Inputs, "not an ordinary value");
      }
      open_counts(rule, computed, symbols);
      for (std::size_t i = 0; i < result_count; ++i) {
        function_.values[binding.results[i]].type = rule.types[i];
        know(binding.results[i], rule.shape_data[i], exact && is_exact(binding.op));
        for (std::size_t call = 0; call < calls_.size(); ++call)
          tensors_[call].emplace(binding.results[i], computed[call][i]);
      }
    } catch (const Error&) {
      function_.values = std::move(before);
      return std::nullopt;
    }
    function_.symbols = std::move(symbols);
    if (binding.op == Op::constant)
      constants_.emplace(binding.results[0], tensor_attribute(binding, "value"));
    std::vector<ValueId> results = binding.results;
    block_->bindings.push_back(std::move(binding));
    return results;
  }

  bool mentions_unbacked(const Dim& dim) const {
    return std::ranges::any_of(dim.leaves(), [&](const DimLeaf& leaf) {
      const SymbolInfo* known = leaf.is_symbol() ? function_.symbols.find(leaf.symbol) : nullptr;
      return known != nullptr && known->unbacked;
    });
  }

  // A symbol for each count that only the data tells, with what it is in every call.
  void open_counts(RuleResult& rule, const std::vector<std::vector<Tensor>>& computed,
                   SymbolTable& symbols) {
    for (const Count& count : rule.counts) {
      const Dim extent = symbols.fresh("d");
      symbols.declare(extent.leaf().symbol, info_of(count, symbols));
      place_count(rule, count, extent);
      const auto [result, axis] = count.places.front();
      for (std::size_t call = 0; call < calls_.size(); ++call)
        calls_[call][extent.leaf().symbol] = computed[call][result].dims()[axis];
    }
  }

  std::optional<ValueId> apply(Op op, std::vector<ValueId> operands, Attributes attributes = {}) {
    auto results =
        emit({.op = op, .operands = std::move(operands), .attributes = std::move(attributes)});
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
  ValueId integers(const Integers& list) {
    return constant(Tensor::of(DType::I64, {static_cast<std::int64_t>(list.size())}, list));
  }

  // Small numbers. Infinities and NaN only where no rounding decides on them (`settled`), in graphs
  // of the whole language.
  bool is_ordinary(const Tensor& tensor, bool settled) const {
    if (tensor.elements() > (options_.whole_language ? most_elements_of_edges : most_elements))
      return false;
    for (std::int64_t i = 0; i < tensor.elements(); ++i) {
      if (!is_float(tensor.dtype())) {
        const std::int64_t integer = tensor.integer_at(i);
        if (integer < -largest_integer || integer > largest_integer) return false;
        continue;
      }
      const double real = tensor.real_at(i);
      if (!std::isfinite(real) ? !(settled && options_.whole_language)
                               : std::abs(real) > largest_real)
        return false;
    }
    return true;
  }

  static bool has_special(const std::vector<const Tensor*>& operands) {
    for (const Tensor* tensor : operands) {
      if (tensor == nullptr || !is_float(tensor->dtype())) continue;
      for (std::int64_t i = 0; i < tensor->elements(); ++i)
        if (!std::isfinite(tensor->real_at(i))) return true;
    }
    return false;
  }

  // Small differences of rounding in the operands stay small in the result.
  static bool keeps_order(const Binding& binding) {
    switch (binding.op) {
      case Op::floor:
      case Op::ceil:
      case Op::round:
      case Op::sign:
      case Op::mod:
      case Op::bitcast:
      case Op::top_k:
      case Op::dyn_top_k:
      case Op::arg_max:
      case Op::arg_min:
      case Op::argsort:
      case Op::nonzero:
      case Op::unique:
      case Op::non_max_suppression: return false;
      case Op::cast: return is_float(dtype_attribute(binding, "to"));
      default: return !info(binding.op).has(traits::compares);
    }
  }

  // One rounding, the same however it is computed.
  static bool is_exact(Op op) {
    const OpInfo& row = info(op);
    if (row.has(traits::moves) || row.has(traits::literal) || row.has(traits::compares) ||
        row.has(traits::logical))
      return true;
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
      case Op::bitcast:
      case Op::where:
      case Op::arg_max:
      case Op::arg_min:
      case Op::argsort:
      case Op::compact:
      case Op::nonzero:
      case Op::compress:
      case Op::unique:
      case Op::non_max_suppression:
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
      if (function_.values[id].type.is_tensor() && !hidden_.contains(id) && fits(type(id)))
        list.push_back(id);
    return list;
  }

  ValueId any(DType dtype, std::size_t least_rank = 0) {
    auto list = values_of([&](const TensorType& found) {
      return found.dtype == dtype && found.rank() >= least_rank;
    });
    if (list.empty()) throw Error(ErrorKind::Inputs, "given up");
    // Later values make deeper graphs.
    return chance(50) ? list[list.size() - 1 - below(std::min<std::size_t>(3, list.size()))]
                      : pick(list);
  }
  ValueId any_value(std::size_t least_rank = 0) {
    return any(chance(80) ? DType::F32 : chance(70) ? DType::I64 : DType::Bool, least_rank);
  }

  // Something that may broadcast with `id`: of equal dims, a new constant over trailing dims, or
  // whatever comes.
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
      return constant(random_tensor(mine.dtype, dims, has_sign(mine.dtype) ? -2 : 0,
                                    mine.dtype == DType::Bool ? 2 : 4));
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
    bool constant_dims =
        std::all_of(dims.begin(), dims.end(), [](const Dim& dim) { return dim.is_constant(); });
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
    auto holders = values_of([&](const TensorType& found) {
      return std::find(found.dims.begin(), found.dims.end(), dim) != found.dims.end();
    });
    if (holders.empty()) return literal(Op::shape, {dim});
    ValueId holder = pick(holders);
    auto at = static_cast<std::int64_t>(
        std::find(type(holder).dims.begin(), type(holder).dims.end(), dim) -
        type(holder).dims.begin());
    ValueId all = must(Op::shape_of, {holder});
    if (chance(50)) return must(Op::gather, {all, integers({at})});
    ValueId scalar = must(Op::gather, {all, constant(Tensor::of(DType::I64, {}, Integers{at}))});
    return must(Op::expand_dims, {scalar}, {{"axes", Integers{0}}});
  }

  // ---- Steps: random_graph_steps.cpp ----

  void add_something();
  void unary();
  void binary();
  void integer_work();
  void selection();
  void reshape();
  void transpose();
  void expand();
  void broadcast();
  void slice();
  void concat();
  void split();
  void tile();
  void triangle();
  void gather();
  void place();
  void windows();
  void order();
  void reduce();
  void softmax();
  void layer_norm();
  ValueId weight(ValueId x, std::int64_t columns);
  void matmul();
  void side_by_side();
  void counted();
  void from_elements();

  // ---- What the steps above don't draw: random_graph_twins.cpp ----

  ValueId input_of(const std::vector<Integers>& elements);
  ValueId integers_from_somewhere(const Integers& list);
  ValueId any_numbers();
  void any_elementwise();
  void filled();
  void views_by_tensors();
  void places_by_tensors();
  void reductions_by_tensors();
  void resized();
  void largest();
  void segments();
  void demands();
  void bound_count();

  // ---- Sizes that only the data tells: random_graph_counts.cpp ----

  void chosen();
  ValueId mask_of(const Dim& extent);
  void different();
  void sorted_positions();
  void boxes();

  // ---- Blocks, functions, lists: random_graph_control.cpp ----

  struct Snapshot;
  Snapshot snapshot() const;
  void go_back(Snapshot earlier);
  void or_go_back(const std::function<void()>& step);
  Function bare_function() const;
  std::vector<ValueId> structure(Binding binding, std::size_t result_count, bool exact);
  Function function_alone(Binding binding, std::vector<std::vector<Tensor>>& inputs) const;
  void value_unbacked_symbols();
  Block filled_block(std::vector<ValueId> parameters, const std::function<void(Block&)>& finish);
  ValueId block_parameter(const std::string& name, const TensorType& type, bool exact,
                          const std::function<Tensor(std::size_t)>& tensor);
  ValueId like(ValueId id);
  ValueId truth();
  std::uint32_t add_callee_over(const std::vector<ValueId>& operands, std::uint64_t seed);
  void conditional();
  void repetition();
  void function_call();
  void tuples();
  void lists();

  // ---- As exporters write them: random_graph_patterns.cpp ----

  void written_gelu();
  void written_layer_norm();
  ValueId soft(ValueId x);
  void written_softmax();
  void quantised_products();
  ValueId any_rows();  // of f32 numbers, as many in each as the graph says
  void gated_product();
  void scaled_product();
  void attention();
  void written_attention();
  void convolutions();

  void choose_results();

  RandomGraphOptions options_;
  Function function_;
  Block* block_ = &function_.body;  // that bindings go to
  int depth_ = 0;                   // of blocks, and of functions called
  std::set<ValueId> hidden_;        // values of blocks that are closed
  std::vector<Function> callees_;   // the module's functions after @main
  bool takes_parameters_ = true;
  std::vector<std::string> calls_symbols_;  // that parameters bind
  std::vector<std::map<std::string, std::int64_t>> calls_;
  std::vector<std::map<ValueId, Tensor>> tensors_;  // by call: every value
  std::map<ValueId, Tensor> constants_;
  std::vector<ShapeData> shape_data_;
  std::vector<bool> exact_;
};

}  // namespace anydim::tests::random_graphs
