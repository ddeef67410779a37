#include "ir/loop_form.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <set>

#include "ir/derive.h"
#include "ir/error.h"

namespace anydim::ir {

namespace {

using Dims = std::vector<Dim>;

// The dims of `output`, and of the values of the stretch that have as many elements by definition: what it is a reshape or an elementwise function of.
std::vector<Dims> dims_of_equal_volume(const Stretch& stretch, ValueId output) {
  std::vector<ValueId> values{output};
  std::vector<Dims> result;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Dims& dims = result.emplace_back(stretch.tensor(values[i]).dims);
    const Binding* binding = stretch.definition(values[i]);
    if (binding == nullptr) continue;
    const bool reshapes = info(binding->op).has(traits::reshapes);
    if (!reshapes && !info(binding->op).has(traits::elementwise)) continue;
    for (const ValueId operand : std::span(binding->operands).first(reshapes ? 1 : binding->operands.size()))
      if ((reshapes || stretch.tensor(operand).dims == dims) && std::ranges::find(values, operand) == values.end())
        values.push_back(operand);
  }
  return result;
}

// Every point of the space must write an element of its own: an index that leaves a loop out would write one element again and again, and
// none where that loop is empty.
class OwnElements {
 public:
  OwnElements(const LoopForm& form, const Stretch& stretch, std::span<const ValueId> outputs) : symbols_(form.symbols) {
    for (const ValueId output : outputs) outputs_.push_back(dims_of_equal_volume(stretch, output));
    if (const auto* rows = std::get_if<RowForm>(&form.skeleton)) require(rows->stages, rows->outer, {}, rows->inner);
    if (const auto* matmul = std::get_if<MatmulForm>(&form.skeleton)) {
      Space m(&matmul->m, 1), n(&matmul->n, 1);
      require(matmul->stores, {matmul->batch, m, n});
      require(matmul->rows, matmul->batch, m, n);
    }
    if (const auto* attention = std::get_if<AttentionForm>(&form.skeleton))
      require(attention->stores, {attention->batch, Space(&attention->row, 1), Space(&attention->width, 1)});
  }

 private:
  using Space = std::span<const Iteration>;

  void require(const std::vector<RowStage>& stages, Space outer, Space more, Space inner) const {
    for (const RowStage& stage : stages) require(stage.stores, {outer, more, stage.per_row ? Space() : inner});
  }

  void require(const std::vector<Store>& stores, std::initializer_list<Space> spaces) const {
    for (const Store& store : stores) {
      std::set<DimLeaf> leaves;
      for (const Dim& dim : store.index) dim.collect_leaves(leaves);
      for (Space space : spaces)
        for (const Iteration& iteration : space)
          if (!leaves.contains(iteration.variable) && !needs_no_index(iteration, outputs_.at(static_cast<std::size_t>(store.output))))
            throw NoLoopForm{"points of the kernel share an element of an output"};
    }
  }

  // Runs once; or not at all where the output is empty then too. (Simplification writes 0 for the index of so short a loop.)
  bool needs_no_index(const Iteration& iteration, const std::vector<Dims>& output) const {
    if (prove_equal(iteration.extent, 1, symbols_) == Proof::Yes) return true;
    return bounds(iteration.extent, symbols_).high <= 1 &&
           std::ranges::any_of(output, [&](const Dims& dims) { return is_factor(iteration.extent, dims); });
  }

  // Of the product of `dims`: neighbours of them make it up.
  bool is_factor(const Dim& extent, const Dims& dims) const {
    for (std::size_t first = 0; first < dims.size(); ++first)
      for (std::size_t count = 1; first + count <= dims.size(); ++count)
        if (prove_equal(product(std::span(dims).subspan(first, count)), extent, symbols_) == Proof::Yes) return true;
    return false;
  }

  const SymbolTable& symbols_;
  std::vector<std::vector<Dims>> outputs_;
};

}  // namespace

LoopFormResult derive_loop_form(const Function& function, std::span<const Binding> bindings, std::span<const ValueId> inputs,
                                std::span<const ValueId> outputs) {
  try {
    Stretch stretch = expand_stretch(function, bindings);
    AccessContext context{.stretch = &stretch, .symbols = function.symbols};
    for (std::size_t i = 0; i < inputs.size(); ++i) context.buffers.emplace(inputs[i], static_cast<std::int32_t>(i));
    const Binding* product = nullptr;
    bool reduces = false;
    for (const Binding& binding : stretch.bindings) {
      if (binding.op == Op::matmul || binding.op == Op::attention || binding.op == Op::compact || binding.op == Op::argsort ||
          derive::is_ordered(binding.op)) {
        if (product != nullptr) throw NoLoopForm{"two products in one kernel: " + describe(function, binding)};
        product = &binding;
      }
      reduces = reduces || derive::is_reduction(binding.op);
    }
    LoopForm form;
    if (product != nullptr && product->op == Op::matmul) form.skeleton = derive::derive_matmul(context, *product, outputs);
    else if (product != nullptr && product->op == Op::attention) form.skeleton = derive::derive_attention(context, *product, outputs);
    else if (product != nullptr && product->op == Op::compact) form.skeleton = derive::derive_compact(context, *product, outputs);
    else if (product != nullptr && product->op == Op::argsort) form.skeleton = derive::derive_sort(context, *product, outputs);
    else if (product != nullptr) form.skeleton = derive::derive_ordered(context, *product, outputs);
    else if (reduces) form.skeleton = derive::derive_rows(context, outputs);
    else form.skeleton = derive::derive_map(context, outputs);
    form.symbols = std::move(context.symbols);
    form.checks = std::move(context.checks);
    OwnElements(form, *context.stretch, outputs);
    return {std::move(form), {}};
  } catch (const NoLoopForm& none) {
    return {std::nullopt, none.reason};
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Unsupported) throw;
    return {std::nullopt, error.what()};  // an index of the kernel outgrows what a dim may be, as that of a smaller kernel need not
  }
}

LoopForm derive_loop_form(const Region& region) {
  const Block& body = region.body.body;
  LoopFormResult result = derive_loop_form(region.body, body.bindings, body.parameters, body.results);
  if (!result.form) throw Error(ErrorKind::Unsupported, fmt::format("region {} cannot be one kernel: {}", region.name, result.reason));
  return std::move(*result.form);
}

namespace {

Dim points(const std::vector<Iteration>& space) {
  Dim count = 1;
  for (const Iteration& iteration : space) count = count * iteration.extent;
  return count;
}

std::vector<Dim> extents_of(const MapForm& form) {
  std::vector<Dim> keys;
  for (const MapPart& part : form.parts) keys.push_back(points(part.space));
  return keys;
}
std::vector<Dim> extents_of(const RowForm& form) { return {points(form.outer), points(form.inner)}; }
std::vector<Dim> extents_of(const MatmulForm& form) { return {points(form.batch), form.m.extent, form.n.extent, form.k.extent}; }
std::vector<Dim> extents_of(const AttentionForm& form) {
  return {points(form.batch), form.row.extent, form.key.extent, form.depth.extent, form.width.extent};
}
std::vector<Dim> extents_of(const OrderedForm& form) {
  std::vector<Dim> keys{points(form.outer)};
  for (const OrderedStage& stage : form.stages) keys.push_back(points(stage.inner));
  return keys;
}
std::vector<Dim> extents_of(const CompactForm& form) { return {points(form.space)}; }
std::vector<Dim> extents_of(const SortForm& form) { return {points(form.outer), form.item.extent, points(form.depth)}; }

}  // namespace

std::vector<Dim> bucket_keys(const LoopForm& form) {
  std::vector<Dim> keys;
  for (const Dim& extent : std::visit([](const auto& skeleton) { return extents_of(skeleton); }, form.skeleton))
    if (!extent.is_constant() && std::find(keys.begin(), keys.end(), extent) == keys.end()) keys.push_back(extent);
  return keys;
}

std::string skeleton_name(const LoopForm& form) {
  static constexpr const char* names[] = {"map", "rows", "matmul", "attention", "ordered", "compact", "sort"};
  return names[form.skeleton.index()];
}

bool has_segments(const LoopForm& form) {
  if (const auto* rows = std::get_if<RowForm>(&form.skeleton)) return rows->segments.has_value();
  if (const auto* attention = std::get_if<AttentionForm>(&form.skeleton)) return attention->segments.has_value();
  return false;
}

namespace {

std::string listed(const std::vector<Dim>& dims) {
  std::string text;
  for (const Dim& dim : dims) text += (text.empty() ? "" : ", ") + dim.to_string();
  return text;
}

std::string listed(const std::vector<Iteration>& space) {
  std::string text;
  for (const Iteration& iteration : space)
    text += fmt::format("{}{} < {}", text.empty() ? "" : ", ", to_string(iteration.variable), iteration.extent.to_string());
  return text;
}

std::string where(const std::vector<ScalarStep::Condition>& conditions) {
  static constexpr const char* signs[] = {"==", "!=", "<", "<="};
  std::string text;
  for (const auto& condition : conditions)
    text += fmt::format("{}{} {} {}", text.empty() ? " where " : " and ", condition.left.to_string(),
                        signs[static_cast<int>(condition.comparison)], condition.right.to_string());
  return text;
}

std::string describe_step(const ScalarStep& step) {
  std::string operands;
  for (std::int32_t operand : step.operands) operands += fmt::format("{}#{}", operands.empty() ? "" : ", ", operand);
  switch (step.kind) {
    case ScalarStep::Kind::Constant: return is_float(step.dtype) ? fmt::format("{}", step.real) : fmt::format("{}", step.integer);
    case ScalarStep::Kind::Extent: return listed(step.index);
    case ScalarStep::Kind::Load: return fmt::format("load {}[{}]", step.buffer, listed(step.index));
    case ScalarStep::Kind::Apply: return fmt::format("{}({})", info(step.op).text, operands);
    case ScalarStep::Kind::CheckedIndex: return fmt::format("index({}) below {}", operands, listed(step.index));
    case ScalarStep::Kind::Guarded: return fmt::format("guarded({}){}", operands, where(step.conditions));
    case ScalarStep::Kind::Accumulated: return fmt::format("accumulated {}", step.slot);
    case ScalarStep::Kind::Scratch: return fmt::format("scratch {}", step.slot);
  }
  internal_error("every kind of step is described");
}

void print(std::string& text, const ScalarProgram& program, int indent) {
  for (std::size_t i = 0; i < program.steps.size(); ++i)
    text += fmt::format("{:{}}#{}: {} = {}\n", "", indent, i, name_of(program.steps[i].dtype), describe_step(program.steps[i]));
}

void print(std::string& text, const std::vector<Store>& stores, int indent) {
  for (const Store& store : stores)
    text += fmt::format("{:{}}store {}[{}] = #{}\n", "", indent, store.output, listed(store.index), store.step);
}

void print(std::string& text, const std::vector<RowStage>& stages) {
  static constexpr const char* reductions[] = {"sum", "product", "max", "min"};
  for (const RowStage& stage : stages) {
    text += stage.per_row ? "  row result\n" : "  stage\n";
    print(text, stage.program, 4);
    for (const auto& keep : stage.keeps) text += fmt::format("    scratch {} = #{}\n", keep.slot, keep.step);
    for (const auto& reduction : stage.reductions)
      text += fmt::format("    accumulated {}: {} = {} of #{}\n", reduction.slot, name_of(reduction.dtype),
                          reductions[static_cast<int>(reduction.kind)], reduction.step);
    print(text, stage.stores, 4);
  }
}

struct Printer {
  std::string& text;

  void operator()(const MapForm& form) const {
    text += "map\n";
    for (const MapPart& part : form.parts) {
      text += fmt::format("  for {}\n", listed(part.space));
      print(text, part.program, 4);
      print(text, part.stores, 4);
    }
  }
  void operator()(const RowForm& form) const {
    text += fmt::format("rows for {} over {}\n", listed(form.outer), listed(form.inner));
    print_segments(form.segments);
    print(text, form.stages);
  }
  void operator()(const MatmulForm& form) const {
    text += fmt::format("matmul for {}{}{}, over {}\n", listed(form.batch), form.batch.empty() ? "" : ", ", listed({form.m, form.n}),
                        listed({form.k}));
    section("left", form.left);
    section("right", form.right);
    section("epilogue", form.epilogue);
    text += fmt::format("    value #{}\n", form.epilogue_step);
    print(text, form.stores, 4);
    print(text, form.rows);
  }
  void operator()(const AttentionForm& form) const {
    text += fmt::format("attention for {}{}{}, over {}\n", listed(form.batch), form.batch.empty() ? "" : ", ",
                        listed({form.row, form.width}), listed({form.key, form.depth}));
    print_segments(form.segments);
    section("q", form.q);
    section("k", form.k);
    section("v", form.v);
    section("score", form.score);
    section("epilogue", form.epilogue);
    print(text, form.stores, 4);
  }
  void print_segments(const std::optional<Segments>& segments) const {
    if (!segments) return;
    text += fmt::format("  segments: {} by offsets in {}", segments->count.to_string(), segments->offsets);
    text += segments->work >= 0 ? fmt::format(", begun as listed in {}\n", segments->work) : "\n";
  }
  void operator()(const OrderedForm& form) const {
    text += fmt::format("ordered for {}\n", listed(form.outer));
    for (const OrderedStage& stage : form.stages) {
      text += fmt::format("  in order {}{}\n", listed(stage.inner), where(stage.conditions));
      print(text, stage.program, 4);
      for (const auto& carry : stage.carries) text += fmt::format("    carry {}: {} = #{}\n", carry.slot, name_of(carry.dtype), carry.next);
      for (const auto& update : stage.updates) {
        text += fmt::format("    {} {}[{}] = #{}\n", update.combine ? info(*update.combine).text : "store", update.store.output,
                            listed(update.store.index), update.store.step);
      }
    }
  }
  void operator()(const CompactForm& form) const {
    text += fmt::format("compact for {}\n", listed(form.space));
    print(text, form.program, 4);
    text += fmt::format("    where #{}: positions to {}, count to {}\n", form.selected, form.positions, form.count);
  }
  void operator()(const SortForm& form) const {
    text += fmt::format("sort for {} over {}{}{}\n", listed(form.outer), listed({form.item}), form.depth.empty() ? "" : " by ",
                        listed(form.depth));
    print(text, form.program, 4);
    text += fmt::format("    store {}[{}] = item of rank {} by {} #{}\n", form.output, listed(form.index), to_string(form.rank),
                        form.descending ? "falling" : "rising", form.key);
  }
  void section(const char* name, const ScalarProgram& program) const {
    text += fmt::format("  {}\n", name);
    print(text, program, 4);
  }
};

}  // namespace

std::string to_string(const LoopForm& form) {
  std::string text;
  std::visit(Printer{text}, form.skeleton);
  return text;
}

}  // namespace anydim::ir
