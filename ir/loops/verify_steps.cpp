#include "ir/loops/verify_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ir/error.h"
#include "ir/loops/access_proof.h"
#include "ir/loops/kernel_program.h"
#include "ir/loops/loop_form_text.h"
#include "ir/loops/scalar_program.h"
#include "ir/loops/scalar_simplify.h"
#include "ir/overloaded.h"
#include "ir/shapes/shape_rule.h"
#include "ir/text/print.h"

namespace anydim::ir {

namespace {

const TensorType& type_at(const std::vector<TensorType>& types, std::int32_t position,
                          const char* what) {
  expect(position >= 0 && static_cast<std::size_t>(position) < types.size(), [&] {
    return fmt::format("expected one of {} {}, got {}", types.size(), what, position);
  });
  return types[static_cast<std::size_t>(position)];
}

// The dtype that an op's shape rule gives for numbers of these dtypes.
DType dtype_of(const ScalarStep& step, std::span<const DType> operands) {
  const OpInfo& row = info(step.op());
  const auto count = static_cast<int>(operands.size());
  expect(row.has(traits::elementwise),
         [&] { return fmt::format("expected an elementwise op, got {}", row.text); });
  expect(
      count >= row.minimum_operands && (count <= row.maximum_operands || row.maximum_operands < 0),
      [&] {
        return fmt::format("{} takes {} operands, got {}", row.text, row.minimum_operands,
                           operands.size());
      });
  Function scalars;
  Binding binding{.op = step.op(), .attributes = step_attributes(step)};
  for (const DType dtype : operands)
    binding.operands.push_back(scalars.add_value("operand", TensorType{dtype, {}}));
  binding.results = {scalars.add_value("result", {})};
  std::vector<OperandFacts> facts;
  for (const ValueId operand : binding.operands)
    facts.push_back({.type = &scalars.values[operand].type});
  try {
    return apply_shape_rule(scalars, binding, facts, scalars.symbols).types.at(0).tensor.dtype;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::Internal) throw;
    throw Flaw{error.what(), false};
  }
}

bool fits(const ScalarStep& step) {
  if (is_float(step.dtype)) return true;
  const std::int64_t integer = step.as<step::Constant>().integer;
  if (step.dtype == DType::Bool) return integer == 0 || integer == 1;
  return constant_tensor(step).integer_at(0) == integer;
}

std::string step_text(const ScalarStep& step) {
  std::vector<std::string> operands;
  for (const std::int32_t operand : step.operands) operands.push_back(fmt::format("#{}", operand));
  return fmt::format("{} = {}", name_of(step.dtype), loop_form_text::describe_step(step, operands));
}

}  // namespace

void verify_leaves(const Dim& dim, const SymbolTable& symbols, std::span<const Iteration> around,
                   const std::function<bool(std::int32_t step)>& is_index) {
  for (const DimLeaf& leaf : dim.leaves()) {
    const auto counts = [&](const Iteration& loop) { return loop.variable == leaf; };
    const bool known = leaf.is_symbol() ? symbols.find(leaf) != nullptr
                       : leaf.is_loop()
                           ? std::ranges::any_of(around, counts)
                           : leaf.is_step() && leaf.value == 0 && is_index && is_index(leaf.step());
    expect(known, [&] {
      return fmt::format(
          "the dim {} mentions {}: expected a symbol of the kernel, a loop around "
          "it or the number of an earlier checked index",
          dim.to_string(), to_string(leaf));
    });
  }
}

const TensorType& verify_parameter(const KernelHeader& header, std::int32_t parameter) {
  return type_at(header.parameters, parameter, "parameters");
}

const TensorType& verify_result(const KernelHeader& header, std::int32_t result) {
  return type_at(header.results, result, "results");
}

void verify_header(const KernelHeader& header) {
  for (const auto* types : {&header.parameters, &header.results})
    for (const TensorType& type : *types)
      for (const Dim& dim : type.dims) verify_leaves(dim, header.symbols, {}, nullptr);
  for (const std::string& name : header.symbols.names())
    if (const auto& below = header.symbols.find(name)->below)
      verify_leaves(*below, header.symbols, {}, nullptr);
  for (const KernelCheck& check : header.checks)
    verify_leaves(check.extent, header.symbols, {}, nullptr);
}

namespace {

// A parameter or a result of so many i64 numbers.
void verify_numbers(const KernelHeader& header, const char* what, std::int32_t position,
                    const TensorType& type, const Dim& count) {
  expect(type.dtype == DType::I64 &&
             prove_equal(product(type.dims), count, header.symbols) == Proof::Yes,
         [&] {
           return fmt::format("expected {} {} to have {} elements of i64, got {}", what, position,
                              count.to_string(), print(type));
         });
}

}  // namespace

void verify_segments(const KernelHeader& header, const Segments& segments, const Dim& rows) {
  verify_leaves(segments.count, header.symbols, {}, nullptr);
  const auto list = [&](std::int32_t parameter, const Dim& count) {
    verify_numbers(header, "parameter", parameter, verify_parameter(header, parameter), count);
  };
  list(segments.offsets, segments.count + 1);
  verify_check(header, segments.check, KernelCheck::Kind::Offsets, rows);
  if (segments.work < 0) return;
  list(segments.work, 2 * segments.count);
  verify_check(header, segments.work_check, KernelCheck::Kind::Work, segments.count);
}

void verify_compaction(const KernelHeader& header, std::span<const Iteration> space,
                       std::int32_t positions, std::int32_t count) {
  const auto list = [&](std::int32_t result, const Dim& elements) {
    if (result >= 0)
      verify_numbers(header, "result", result, verify_result(header, result), elements);
  };
  list(positions, points_of(space));
  list(count, 1);
}

void verify_rank(const std::string& what, const std::vector<Dim>& index, const TensorType& type) {
  expect(index.size() == type.rank(), [&] {
    return fmt::format("{} of {}: expected {} indices, got {}", what, print(type), type.rank(),
                       index.size());
  });
}

void verify_check(const KernelHeader& header, std::int32_t check, KernelCheck::Kind kind,
                  const Dim& extent) {
  expect(check >= 0 && static_cast<std::size_t>(check) < header.checks.size(), [&] {
    return fmt::format("expected one of {} checks, got {}", header.checks.size(), check);
  });
  const KernelCheck& there = header.checks[static_cast<std::size_t>(check)];
  expect(there.kind == kind && (kind == KernelCheck::Kind::Divisor || there.extent == extent), [&] {
    return fmt::format("expected check {} to be {} of {}, got {} of {}", check,
                       loop_form_text::name_of(kind), extent.to_string(),
                       loop_form_text::name_of(there.kind), there.extent.to_string());
  });
}

void verify_store(const StepPlace& place, const SymbolTable& symbols, std::int32_t output,
                  const std::vector<Dim>& index, DType dtype,
                  const std::function<bool(std::int32_t step)>& is_index) {
  const TensorType& type = verify_result(*place.header, output);
  expect(type.dtype == dtype, [&] {
    return fmt::format("expected an element of result {}, {}, got {}", output, name_of(type.dtype),
                       name_of(dtype));
  });
  verify_rank(fmt::format("store {}", output), index, type);
  for (const Dim& dim : index) verify_leaves(dim, symbols, place.around, is_index);
  if (auto flaw = AccessProof(symbols, place.around)
                      .flaw(fmt::format("store {}", output), index, type, place.conditions))
    throw Flaw{*std::move(flaw), true};
}

void verify_dtypes(const ScalarStep& step, std::span<const DType> operands) {
  const auto expect_operands = [&](std::size_t count) {
    expect(operands.size() == count, [&] {
      return fmt::format("{}: expected {} operands, got {}", step_text(step), count,
                         operands.size());
    });
  };
  const auto expect_dtype = [&](DType wanted) {
    expect(step.dtype == wanted, [&] {
      return fmt::format("{}: expected {}, got {}", step_text(step), name_of(wanted),
                         name_of(step.dtype));
    });
  };
  const Overloaded verify{
      [&](const step::Constant& constant) {
        expect_operands(0);
        expect(fits(step), [&] {
          return fmt::format("{} is no number of dtype {}", constant.integer, name_of(step.dtype));
        });
      },
      [&](const step::Apply&) { expect_dtype(dtype_of(step, operands)); },
      [&](const step::CheckedIndex&) {
        expect_operands(1);
        expect(is_integer(operands[0]), [&] {
          return fmt::format("expected an index of integers, got {}", name_of(operands[0]));
        });
        expect_dtype(DType::I64);
      },
      [&](const step::Guarded&) {
        expect_operands(2);
        expect_dtype(operands[0]);
        expect_dtype(operands[1]);
      },
      [&](const step::Extent&) {
        expect_operands(0);
        expect_dtype(DType::I64);
      },
      [&](const step::Load&) { expect_operands(0); },
      [&](const step::Accumulated&) { expect_operands(0); },
      [&](const step::Scratch&) { expect_operands(0); },
  };
  std::visit(verify, step.kind);
}

void verify_order(const ScalarProgram& program, const StepPlace& place, std::int32_t position) {
  const ScalarStep& step = program.steps[static_cast<std::size_t>(position)];
  for (const std::int32_t operand : step.operands)
    expect(operand >= 0 && operand < position, [&] {
      return fmt::format("#{}: expected an earlier step, got #{}", position, operand);
    });
  const auto is_index = [&](std::int32_t other) {
    return other < position &&
           program.steps[static_cast<std::size_t>(other)].is<step::CheckedIndex>();
  };
  for_each_dim(step, [&](const Dim& dim) {
    verify_leaves(dim, place.header->symbols, place.around, is_index);
  });
}

void verify_divisor(const KernelHeader& header, const ScalarStep& step, const ScalarStep* by) {
  const auto& [op, check, flags] = step.as<step::Apply>();
  const bool divides = (op == Op::div || op == Op::mod) && is_integer(step.dtype);
  if (check >= 0) {
    expect(divides, [&] { return fmt::format("{} checks nothing", step_text(step)); });
    return verify_check(header, check, KernelCheck::Kind::Divisor, {});
  }
  if (!divides) return;
  expect(by != nullptr && is_never_zero(*by, header.symbols), [&] {
    return fmt::format("{}: expected a check, for the divisor may be 0", step_text(step));
  });
}

ProgramVerifier::ProgramVerifier(const ScalarProgram& program, StepPlace place,
                                 const std::vector<std::int32_t>& roots)
    : program_(program), place_(std::move(place)), guards_(guards_of(program, roots)),
      symbols_(place_.header->symbols) {}

void ProgramVerifier::step(std::int32_t position) {
  const ScalarStep& step = program_.steps[static_cast<std::size_t>(position)];
  std::vector<DType> dtypes;
  for (const std::int32_t operand : step.operands) dtypes.push_back(dtype(operand));
  verify_dtypes(step, dtypes);
  const auto written = [&](const std::map<std::int32_t, DType>& slots, std::int32_t number) {
    const auto slot = slots.find(number);
    expect(slot != slots.end() && slot->second == step.dtype, [&] {
      return slot == slots.end()
                 ? fmt::format("{}: nothing has been written there", step_text(step))
                 : fmt::format("{}: expected {}, which was written there", step_text(step),
                               name_of(slot->second));
    });
  };
  const Overloaded verify{
      [&](const step::Load&) { load(position); },
      [&](const step::Apply&) {
        verify_divisor(*place_.header, step,
                       step.operands.size() < 2
                           ? nullptr
                           : &program_.steps[static_cast<std::size_t>(step.operands[1])]);
      },
      [&](const step::CheckedIndex& index) {
        verify_check(*place_.header, index.check, KernelCheck::Kind::Index, index.extent);
        declare_checked_index(step_leaf(position), index.extent, symbols_);
      },
      [&](const step::Accumulated& result) { written(place_.accumulated, result.slot); },
      [&](const step::Scratch& element) { written(place_.scratch, element.slot); },
      [](const step::Constant&) {},
      [](const step::Extent&) {},
      [](const step::Guarded&) {},
  };
  std::visit(verify, step.kind);
}

std::vector<ProgramVerifier::Conditions> ProgramVerifier::ways_to(std::int32_t position) const {
  constexpr std::size_t most = 64;
  const std::vector<std::int32_t>& guards = guards_[static_cast<std::size_t>(position)];
  if (guards.empty()) return {place_.conditions};
  std::vector<Conditions> ways;
  for (const std::int32_t guard : guards) {
    const Conditions& inner =
        program_.steps[static_cast<std::size_t>(guard)].as<step::Guarded>().conditions;
    for (Conditions way : ways_to(guard)) {
      way.insert(way.end(), inner.begin(), inner.end());
      ways.push_back(std::move(way));
    }
    expect(ways.size() <= most, [&] {
      return fmt::format("#{} is needed under more than {} different conditions", position, most);
    });
  }
  return ways;
}

void ProgramVerifier::load(std::int32_t position) const {
  const ScalarStep& step = program_.steps[static_cast<std::size_t>(position)];
  const auto& [buffer, index] = step.as<step::Load>();
  const TensorType& type = verify_parameter(*place_.header, buffer);
  const std::string what = fmt::format("load {}", buffer);
  expect(type.dtype == step.dtype, [&] {
    return fmt::format("{}: expected {}, the dtype of parameter {}", step_text(step),
                       name_of(type.dtype), buffer);
  });
  verify_rank(what, index, type);
  const AccessProof proof(symbols_, place_.around);
  for (const Conditions& way : ways_to(position))
    if (auto flaw = proof.flaw(what, index, type, way)) throw Flaw{*std::move(flaw), true};
}

void ProgramVerifier::store(const Store& store) const {
  verify_store(place_, symbols_, store.output, store.index, dtype(store.step),
               [this](std::int32_t step) { return is_index(step); });
}

bool ProgramVerifier::is_index(std::int32_t step) const {
  return step >= 0 && static_cast<std::size_t>(step) < program_.steps.size() &&
         program_.steps[static_cast<std::size_t>(step)].is<step::CheckedIndex>();
}

void ProgramVerifier::expect_dtype(std::int32_t step, DType wanted) const {
  expect(dtype(step) == wanted, [&] {
    return fmt::format("expected a step of dtype {}, got #{} of {}", name_of(wanted), step,
                       name_of(dtype(step)));
  });
}

DType ProgramVerifier::dtype(std::int32_t step) const {
  return program_.steps.at(static_cast<std::size_t>(step)).dtype;
}

}  // namespace anydim::ir
