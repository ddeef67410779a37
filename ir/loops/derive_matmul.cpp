
#include "ir/loops/derive.h"
#include "ir/loops/scalar_program.h"

namespace anydim::ir::derive {

namespace {

// The index of batch dims that broadcast (NumPy) in an operand whose last two dims are its matrix.
std::vector<Dim> batch_index(const std::vector<Dim>& batch, const std::vector<Dim>& batch_dims,
                             const std::vector<Dim>& operand_dims, std::size_t matrix_dims,
                             const SymbolTable& symbols) {
  std::vector<Dim> dims(operand_dims.begin(),
                        operand_dims.end() - static_cast<std::ptrdiff_t>(matrix_dims));
  return broadcast_index(batch, batch_dims, dims, symbols);
}

ScalarProgram single_element(AccessContext& context, ValueId value, const std::vector<Dim>& index) {
  ProgramBuilder builder(context);
  std::int32_t step = builder.element(value, index);
  ScalarProgram program = builder.take();
  prune(program, {&step});
  return program;
}

// Values that depend on a reduction of the product, and the level-0 values that they or the
// reductions read.
struct Crossing {
  std::set<ValueId> after_reduction;
  std::set<ValueId> read;
};

Crossing find_crossing(const Subgraph& subgraph, ValueId product) {
  std::set<ValueId> dependents{product};
  Crossing crossing;
  for (const Binding& binding : subgraph.bindings) {
    bool after = is_reduction(binding.op) && dependents.contains(binding.operands[0]);
    bool dependent = after;
    for (ValueId operand : binding.operands) {
      after = after || crossing.after_reduction.contains(operand);
      dependent = dependent || dependents.contains(operand);
    }
    if (!dependent && !after) continue;
    for (ValueId result : binding.results) {
      dependents.insert(result);
      if (after) crossing.after_reduction.insert(result);
    }
    if (!after) continue;
    for (ValueId operand : binding.operands)
      if (dependents.contains(operand) && !crossing.after_reduction.contains(operand))
        crossing.read.insert(operand);
  }
  return crossing;
}

// Where the columns of a product part into gates of equally many.
struct Gates {
  std::int64_t count = 0, columns = 0;  // in all; of each
  std::set<ValueId> parted;             // values of one gate's columns

  bool any() const { return !parted.empty(); }
};

// The columns at which the results of a split or a slice begin, which take whole rows apart;
// nothing where it does something else.
std::vector<std::int64_t> first_columns(const Subgraph& subgraph, const Binding& binding,
                                        std::int64_t columns, const SymbolTable& symbols) {
  const std::vector<Dim>& from = subgraph.tensor(binding.operands[0]).dims;
  if (from.empty() || !from.back().is_constant(columns)) return {};
  std::vector<std::int64_t> first;
  if (binding.op == Op::split) {
    if (axis_from_front(binding, from.size()) != from.size() - 1) return {};
    std::int64_t next = 0;
    for (const ValueId result : binding.results) {
      const auto width = subgraph.tensor(result).dims.back().constant();
      if (!width) return {};
      first.push_back(next);
      next += *width;
    }
  } else if (binding.op == Op::strided_slice) {
    const std::vector<Dim>& to = subgraph.tensor(binding.results[0]).dims;
    const std::vector<SliceStart> starts = slice_starts(subgraph, binding, symbols);
    for (std::size_t i = 0; i < starts.size(); ++i)
      if (!starts[i].step.is_constant(1) || (i + 1 < starts.size() && !(to[i] == from[i])))
        return {};
    if (const auto start = starts.back().start.constant()) first.push_back(*start);
  }
  return first;
}

// Values that are parted otherwise have no place in a product's kernel.
Gates find_gates(const Subgraph& subgraph, ValueId product, const SymbolTable& symbols) {
  Gates gates;
  const std::vector<Dim>& dims = subgraph.tensor(product).dims;
  const auto columns = dims.empty() ? std::nullopt : dims.back().constant();
  if (!columns) return gates;
  std::set<ValueId> whole{product};
  for (const Binding& binding : subgraph.bindings) {
    if (std::ranges::none_of(binding.operands, [&](ValueId id) { return whole.contains(id); }))
      continue;
    const std::vector<std::int64_t> first = first_columns(subgraph, binding, *columns, symbols);
    for (std::size_t i = 0; i < binding.results.size(); ++i) {
      const ValueId result = binding.results[i];
      if (first.empty()) {
        whole.insert(result);
        continue;
      }
      const auto width = subgraph.tensor(result).dims.back().constant();
      if (!width || *width <= 0 || *columns % *width != 0 || first[i] % *width != 0 ||
          *columns / *width < 2 || *columns / *width > most_gates ||
          (gates.any() && *width != gates.columns))
        return {};
      gates.columns = *width;
      gates.count = *columns / *width;
      gates.parted.insert(result);
    }
  }
  return gates;
}

}  // namespace

MatmulForm derive_matmul(AccessContext& context, const Binding& matmul,
                         std::span<const ValueId> outputs) {
  const Subgraph& subgraph = *context.subgraph;
  ValueId left = matmul.operands[0], right = matmul.operands[1], product = matmul.results[0];
  const std::vector<Dim>& a = subgraph.tensor(left).dims;
  const std::vector<Dim>& b = subgraph.tensor(right).dims;
  const TensorType& type = subgraph.tensor(product);
  if (a.empty() || b.empty())
    throw NoLoopForm{"matmul of a scalar: " + describe(*subgraph.function, matmul)};

  MatmulForm form;
  form.k = context.iterate(LoopRole::Contracted, a.back());
  Dim k = form.k.index(), m = 0, n = 0;
  std::vector<Dim> index;  // of the product, in its own dims
  std::size_t matrix_rows = a.size() > 1 ? 1 : 0, matrix_columns = b.size() > 1 ? 1 : 0;
  std::size_t batch_rank = type.dims.size() - matrix_rows - matrix_columns;
  std::vector<Dim> batch_dims(type.dims.begin(),
                              type.dims.begin() + static_cast<std::ptrdiff_t>(batch_rank));
  std::vector<Dim> left_index, right_index;

  const Gates gates = matrix_columns ? find_gates(subgraph, product, context.symbols) : Gates();
  const Dim columns = matrix_columns ? b.back() : Dim(1);
  form.n = context.iterate(LoopRole::MatrixColumn, gates.any() ? Dim(gates.columns) : columns);
  if (matrix_columns) n = form.n.index();
  if (gates.any()) {
    form.gate = context.iterate(LoopRole::Gate, gates.count);
    n = form.gate->index() * gates.columns + n;
  }
  if (b.size() <= 2 && a.size() > 1) {
    // One right matrix: every leading dim of the left operand is a row.
    std::vector<Dim> lead(a.begin(), a.end() - 1);
    form.m = context.iterate(LoopRole::MatrixRow, ir::product(lead));
    left_index = reshape_index({form.m.index()}, {form.m.extent}, lead, context.symbols);
    index = left_index;
    left_index.push_back(k);
  } else {
    std::vector<Dim> batch;
    for (std::size_t i = 0; i < batch_rank; ++i) {
      form.batch.push_back(context.iterate(LoopRole::Batch, batch_dims[i]));
      batch.push_back(form.batch.back().index());
    }
    form.m = context.iterate(LoopRole::MatrixRow, matrix_rows ? a[a.size() - 2] : Dim(1));
    if (matrix_rows) m = form.m.index();
    left_index = batch_index(batch, batch_dims, a, 1 + matrix_rows, context.symbols);
    if (matrix_rows) left_index.push_back(m);
    left_index.push_back(k);
    right_index = batch_index(batch, batch_dims, b, 1 + matrix_columns, context.symbols);
    index = batch;
    if (matrix_rows) index.push_back(m);
  }
  right_index.push_back(k);
  if (matrix_columns) {
    right_index.push_back(n);
    index.push_back(n);
  }
  form.left = single_element(context, left, left_index);
  form.right = single_element(context, right, right_index);
  form.accumulate = type.dtype;
  form.left_block = integer_attribute(matmul, "left_block");

  Crossing crossing = find_crossing(subgraph, product);
  if (crossing.read.size() > 1)
    throw NoLoopForm{"row results read several values of the matmul's epilogue: " +
                     describe(*subgraph.function, matmul)};
  if (!crossing.read.empty() && gates.any())
    throw NoLoopForm{"row results read gates of the matmul: " +
                     describe(*subgraph.function, matmul)};
  ValueId whole_rows = crossing.read.empty() ? no_value : *crossing.read.begin();

  Placements placements(subgraph, context.symbols);
  placements.frame(type.dims, index);
  placements.place(product, {index, 0});
  for (const Binding& binding : subgraph.bindings) {
    if (binding.results.empty() || placements.find(binding.results[0]) != nullptr ||
        !placements.depends(binding))
      continue;
    if (gates.parted.contains(binding.results[0])) {
      std::vector<Dim> own = placements.find(binding.operands[0])->index;
      if (!(own.back() == n))
        throw NoLoopForm{"gates of moved columns: " + describe(*subgraph.function, binding)};
      own.back() = form.n.index();
      for (const ValueId result : binding.results) placements.place(result, {own, 0});
    } else if (!crossing.after_reduction.contains(binding.results[0])) {
      placements.follow(binding);
    }
  }

  ProgramBuilder builder(context);
  for (std::int32_t gate = 0; gate < gates.count; ++gate) {
    std::vector<Dim> own = index;
    own.back() = simplify(Dim(gate * gates.columns) + form.n.index(), context.symbols);
    builder.provide(product, own, step::Accumulated{gate});
  }
  if (!gates.any()) builder.provide(product, step::Accumulated{0});
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Placement* placement = placements.find(outputs[i]);
    if (placement == nullptr && !crossing.after_reduction.contains(outputs[i]))
      throw NoLoopForm{"an output %" + subgraph.name(outputs[i]) +
                       " does not depend on the matmul"};
    if (placement == nullptr) continue;
    if (form.gate && std::ranges::any_of(placement->index, [&](const Dim& at) {
          return at.mentions(form.gate->variable);
        }))
      throw NoLoopForm{"an output %" + subgraph.name(outputs[i]) + " has the columns of all gates"};
    form.stores.push_back(placements.store_of(builder, i, outputs[i]));
  }
  if (whole_rows != no_value)
    form.epilogue_step = builder.element(whole_rows, placements.find(whole_rows)->index);
  else form.epilogue_step = form.stores.front().step;
  form.epilogue = builder.take();
  prune(form);

  if (whole_rows != no_value) {
    // Level-0 stores stay in the epilogue; rows start from the kept value.
    std::vector<Dim> frame_dims = subgraph.tensor(whole_rows).dims;
    std::vector<Dim> frame_index = placements.find(whole_rows)->index;
    Placements rows(subgraph, context.symbols);
    rows.frame(frame_dims, frame_index);
    rows.place(product, {index, 0});
    RowPlan plan = plan_rows(context, rows, {form.n.variable}, whole_rows, outputs);
    form.rows = std::move(plan.stages);
    form.scratch = std::move(plan.scratch);
    form.accumulators = plan.accumulators;
  }
  return form;
}

AttentionForm derive_attention(AccessContext& context, const Binding& attention,
                               std::span<const ValueId> outputs) {
  const Subgraph& subgraph = *context.subgraph;
  ValueId q = attention.operands[0], k = attention.operands[1], v = attention.operands[2],
          result = attention.results[0];
  const TensorType& type = subgraph.tensor(result);
  if (type.dtype != DType::F32 && type.dtype != DType::F64)
    throw NoLoopForm{"attention of " + std::string(name_of(type.dtype)) + " must be widened first"};
  const std::vector<Dim>& q_dims = subgraph.tensor(q).dims;
  const std::vector<Dim>& k_dims = subgraph.tensor(k).dims;
  const std::vector<Dim>& v_dims = subgraph.tensor(v).dims;
  std::size_t batch_rank = type.dims.size() - 2;
  std::vector<Dim> batch_dims(type.dims.begin(), type.dims.end() - 2), batch;

  AttentionForm form;
  form.zero_nan = integer_attribute(attention, "zero_nan") != 0;
  for (std::size_t i = 0; i < batch_rank; ++i) {
    form.batch.push_back(context.iterate(LoopRole::Batch, batch_dims[i]));
    batch.push_back(form.batch.back().index());
  }
  const auto has = [&](std::size_t operand) {
    return attention.operands.size() > operand && attention.operands[operand] != no_value;
  };
  if (has(4))
    form.segments =
        segments_of(context, attention, attention.operands[4], q_dims[q_dims.size() - 2]);
  if (has(5)) add_work(*form.segments, context, attention, attention.operands[5]);
  form.row = context.iterate(LoopRole::Query, q_dims[q_dims.size() - 2]);
  form.key = context.iterate(LoopRole::Key, k_dims[k_dims.size() - 2]);
  form.depth = context.iterate(LoopRole::Depth, q_dims.back());
  form.width = context.iterate(LoopRole::Width, v_dims.back());
  auto operand = [&](ValueId value, const std::vector<Dim>& dims, const Iteration& row,
                     const Iteration& column) {
    std::vector<Dim> index = batch_index(batch, batch_dims, dims, 2, context.symbols);
    index.push_back(row.index());
    index.push_back(column.index());
    return single_element(context, value, index);
  };
  form.q = operand(q, q_dims, form.row, form.depth);
  form.k = operand(k, k_dims, form.key, form.depth);
  form.v = operand(v, v_dims, form.key, form.width);

  ProgramBuilder score(context);
  std::int32_t step = score.push({type.dtype, step::Accumulated{0}});
  double scale = real_attribute(attention, "scale");
  if (scale != 1) {
    std::int32_t factor = score.number(type.dtype, scale);
    step = score.apply(Op::mul, type.dtype, {step, factor});
  }
  if (const double softcap = real_attribute(attention, "softcap"); softcap != 0) {
    const std::int32_t cap = score.number(type.dtype, softcap);
    step = score.apply(Op::tanh, type.dtype, {score.apply(Op::div, type.dtype, {step, cap})});
    step = score.apply(Op::mul, type.dtype, {step, cap});
  }
  if (attention.operands.size() > 3 && attention.operands[3] != no_value) {
    std::vector<Dim> dims = batch_dims, index = batch;
    dims.push_back(form.row.extent);
    dims.push_back(form.key.extent);
    index.push_back(form.row.index());
    index.push_back(form.key.index());
    ValueId bias = attention.operands[3];
    std::int32_t element = score.element(
        bias, broadcast_index(index, dims, subgraph.tensor(bias).dims, context.symbols));
    if (subgraph.tensor(bias).dtype == DType::Bool) {
      std::int32_t fill = score.number(type.dtype, real_attribute(attention, "fill"));
      step = score.apply(Op::where, type.dtype, {element, step, fill});
    } else {
      step = score.apply(Op::add, type.dtype, {step, element});
    }
  }
  form.score = score.take();
  prune(form.score, {&step});

  std::vector<Dim> index = batch;
  index.push_back(form.row.index());
  index.push_back(form.width.index());
  Placements placements(subgraph, context.symbols);
  placements.frame(type.dims, index);
  placements.place(result, {index, 0});
  for (const Binding& binding : subgraph.bindings) {
    if (binding.results.empty() || placements.find(binding.results[0]) != nullptr ||
        !placements.depends(binding))
      continue;
    placements.follow(binding);
  }
  ProgramBuilder builder(context);
  builder.provide(result, step::Accumulated{0});
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Placement* placement = placements.find(outputs[i]);
    if (placement == nullptr)
      throw NoLoopForm{"an output %" + subgraph.name(outputs[i]) +
                       " does not depend on the attention"};
    form.stores.push_back(placements.store_of(builder, i, outputs[i]));
  }
  form.epilogue = builder.take();
  prune(form);
  return form;
}

}  // namespace anydim::ir::derive
