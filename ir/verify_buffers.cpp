#include "ir/verify_buffers.h"

#include <fmt/format.h>

#include <variant>

namespace anydim::ir {

namespace {

std::string name_of(Code::Slot slot) { return fmt::format("s{}", slot); }

Dim bytes_of(DType dtype, const std::vector<Dim>& dims) {
  return product(dims) * static_cast<std::int64_t>(size_of(dtype));
}

}  // namespace

SlotExpressions::SlotExpressions(const Program& program, const Code& code)
    : program_(program), code_(code), resized_(code.buffers.size()) {
  for (std::size_t i = 0; i < code.leaf_symbols.size(); ++i) {
    const std::string& symbol = code.leaf_symbols[i];
    const std::string name = name_of(static_cast<Code::Slot>(i));
    if (!symbol.empty()) inputs_.emplace(symbol, Dim::symbol(name));
    const SymbolInfo* known = code.symbols.find(symbol);
    if (known == nullptr) continue;
    SymbolInfo info = *known;
    info.below.reset();
    symbols_.declare(name, std::move(info));
  }
  for (const Code::Instruction& instruction : code.instructions) {
    if (const auto* run = std::get_if<Code::RunStage>(&instruction))
      add(program.stages[static_cast<std::size_t>(run->stage)]);
    if (const auto* move = std::get_if<Code::MoveBuffers>(&instruction))
      for (const auto& [to, from] : move->copies) resized_[static_cast<std::size_t>(to)] = true;
    if (const auto* allocate = std::get_if<Code::Allocate>(&instruction);
        allocate != nullptr && allocate->element_of >= 0)
      resized_[static_cast<std::size_t>(allocate->element_of)] = true;
    if (const auto* append = std::get_if<Code::Append>(&instruction))
      resized_[static_cast<std::size_t>(append->to)] = true;
  }
}

void SlotExpressions::add(const Program::Stage& stage) {
  std::map<DimLeaf, Dim> leaves;
  for (std::size_t i = 0; i < stage.leaves.size(); ++i)
    leaves.emplace(stage.shapes.leaves[i], value(stage.leaves[i]));
  Code::Slot slot = stage.first;
  for (const Dim& expression : stage.shapes.expressions)
    filled_.insert_or_assign(slot++, expression.substitute(leaves));
}

Dim SlotExpressions::value(Code::Slot slot) const {
  const auto found = filled_.find(slot);
  return found != filled_.end() ? found->second : Dim::symbol(name_of(slot));
}

std::optional<Dim> SlotExpressions::bytes_of(std::int32_t buffer) const {
  using Place = Code::Buffer::Place;
  const auto position = static_cast<std::size_t>(buffer);
  const Code::Buffer& placed = code_.buffers[position];
  const auto index = static_cast<std::size_t>(placed.index);
  switch (placed.place) {
    case Place::Input: {
      const Code::Input& input = code_.inputs[index];
      return ir::bytes_of(input.dtype, input.dims).substitute(inputs_);
    }
    case Place::Constant: {
      const Program::Constant& constant = program_.constants[index];
      if (constant.layout) return std::nullopt;
      const std::vector<std::int64_t>& dims = constant.tensor.dims();
      return ir::bytes_of(constant.tensor.dtype(), {dims.begin(), dims.end()});
    }
    case Place::Arena:
    case Place::Output:
    case Place::Pool:
      return placed.bytes < 0 || resized_[position] ? std::nullopt
                                                    : std::optional(value(placed.bytes));
  }
  return std::nullopt;
}

std::optional<std::string> SlotExpressions::overrun(const Code::Launch& launch) const {
  const Function& body = program_.kernels[static_cast<std::size_t>(launch.kernel)].region.body;
  std::vector<ValueId> values = body.body.parameters;
  values.insert(values.end(), body.body.results.begin(), body.body.results.end());
  std::map<std::string, Dim> extents;
  for (std::size_t i = 0; i < launch.extents.size(); ++i)
    extents.emplace(body.symbols.names()[i], value(launch.extents[i]));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const TensorType& type = body.tensor_type(values[i]);
    const Dim touched = ir::bytes_of(type.dtype, type.dims).substitute(extents);
    if (auto flaw = overrun(launch.buffers[i], touched, "the kernel touches")) return flaw;
  }
  return std::nullopt;
}

std::optional<std::string> SlotExpressions::overrun(const Code::Output& output) const {
  if (output.buffer < 0) return std::nullopt;
  std::vector<Dim> dims;
  for (const Code::Slot dim : output.dims) dims.push_back(value(dim));
  return overrun(output.buffer, ir::bytes_of(output.dtype, dims), "the output holds");
}

std::optional<std::string> SlotExpressions::overrun(const Code::Fetch& fetch) const {
  return overrun(fetch.buffer, ir::bytes_of(fetch.dtype, {Dim(fetch.element) + 1}),
                 "the fetch reads");
}

std::optional<std::string> SlotExpressions::overrun(const Code::StoreScalar& store) const {
  return overrun(store.buffer, ir::bytes_of(store.dtype, {}), "the store writes");
}

std::optional<std::string> SlotExpressions::overrun(std::int32_t buffer, const Dim& touched,
                                                    std::string_view by) const {
  const auto there = bytes_of(buffer);
  if (!there) return std::nullopt;
  const Dim needed = simplify(touched, symbols_);
  if (prove_less_equal(needed, simplify(*there, symbols_), symbols_) == Proof::Yes)
    return std::nullopt;
  return fmt::format("buffer b{} has {} bytes, of which {} {}", buffer, there->to_string(), by,
                     needed.to_string());
}

}  // namespace anydim::ir
