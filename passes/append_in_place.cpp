#include "passes/append_in_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "ir/loops/scalar_access.h"
#include "ir/shapes/infer.h"
#include "passes/binding_writer.h"

namespace anydim::passes {

using namespace ir;

namespace {

std::size_t uses_of(const Block& block, ValueId value) {
  auto uses = static_cast<std::size_t>(std::ranges::count(block.results, value));
  for (const Binding& binding : block.bindings) {
    uses += static_cast<std::size_t>(std::ranges::count(binding.operands, value));
    for (const Block& nested : binding.blocks) uses += uses_of(nested, value);
  }
  return uses;
}

class Appender {
 public:
  explicit Appender(Module& module) : function_(module.functions[0]) {}

  std::vector<AppendedResult> run() {
    Block& body = function_.body;
    const std::vector<ValueId> inputs = body.parameters;
    for (std::size_t output = 0; output < body.results.size(); ++output)
      if (const auto found = find(output, inputs)) add(*found);
    // Rooms follow the storages, of which there may be many for one room.
    for (AppendedResult& appended : appended_) {
      const ValueId room = room_of_.at(appended.output);
      auto at = std::ranges::find(body.parameters, room);
      if (at == body.parameters.end()) at = body.parameters.insert(at, room);
      appended.room = static_cast<std::size_t>(at - body.parameters.begin());
    }
    return std::move(appended_);
  }

 private:
  struct Found {
    AppendedResult appended;
    std::size_t concat = 0;  // position among the bindings
  };

  std::optional<Found> find(std::size_t output, const std::vector<ValueId>& inputs) const {
    const Block& body = function_.body;
    const ValueId result = body.results[output];
    const auto concat = std::ranges::find_if(body.bindings, [&](const Binding& binding) {
      return binding.op == Op::concat && binding.results[0] == result;
    });
    if (concat == body.bindings.end() || concat->operands.size() != 2 ||
        std::ranges::count(body.results, result) != 1)
      return std::nullopt;
    const auto input = std::ranges::find(inputs, concat->operands[0]);
    if (input == inputs.end() || uses_of(body, *input) != 1) return std::nullopt;
    const TensorType& type = function_.tensor_type(*input);
    const std::size_t axis = axis_from_front(*concat, type.rank());
    if (type.dims[axis].kind() != Dim::Kind::Symbol) return std::nullopt;
    return Found{
        {.input = static_cast<std::size_t>(input - inputs.begin()), .output = output, .axis = axis},
        static_cast<std::size_t>(concat - body.bindings.begin())};
  }

  void add(Found found) {
    Block& body = function_.body;
    AppendedResult& appended = found.appended;
    const Binding concat = body.bindings[found.concat];
    TensorType type = function_.tensor_type(concat.results[0]);
    const Dim extent = type.dims[appended.axis];
    const Dim before = function_.tensor_type(concat.operands[0]).dims[appended.axis];
    const auto [symbol, room] = room_for(extent);
    room_of_.emplace(appended.output, room);
    type.dims[appended.axis] = extent + symbol;
    const std::string name = function_.values[concat.operands[0]].name;
    const ValueId storage = function_.add_value(fmt::format("{}.storage", name), type);
    appended.storage = body.parameters.size();
    body.parameters.push_back(storage);

    const auto axis = static_cast<std::int64_t>(appended.axis);
    std::vector<Binding> written;
    BindingWriter writer(function_, written, concat.source, fmt::format("{}.all", name));
    const ValueId all =
        writer.emit(Op::dyn_overwrite, {storage, concat.operands[1], writer.dim(before)},
                    {{"axis", axis}, {"in_place", std::int64_t{1}}});
    writer.emit(Op::dyn_strided_slice,
                {all, writer.shape({Dim(0)}), writer.shape({extent}), writer.shape({Dim(axis)})},
                {}, concat.results[0]);
    const auto at = body.bindings.begin() + static_cast<std::ptrdiff_t>(found.concat);
    body.bindings.insert(body.bindings.erase(at), std::make_move_iterator(written.begin()),
                         std::make_move_iterator(written.end()));
    body.results[appended.output] = all;
    appended_.push_back(appended);
  }

  // Storages that are as long have as much room: their kernels are the same ones.
  std::pair<Dim, ValueId> room_for(const Dim& extent) {
    const auto known = rooms_.find(extent);
    if (known != rooms_.end()) return known->second;
    std::string name = "room";
    for (int i = 2; function_.symbols.find(name) != nullptr; ++i) name = fmt::format("room_{}", i);
    // No more than anything may be appended to, so that indices stay as narrow as they were.
    SymbolInfo info;
    info.high = std::min(bounds(extent, function_.symbols).high, default_symbol_maximum);
    function_.symbols.declare(name, std::move(info));
    const Dim symbol = Dim::symbol(name);
    const ValueId parameter = function_.add_value(name, TensorType{DType::Bool, {symbol, Dim(0)}});
    return rooms_.emplace(extent, std::pair(symbol, parameter)).first->second;
  }

  Function& function_;
  std::vector<AppendedResult> appended_;
  std::map<Dim, std::pair<Dim, ValueId>> rooms_;
  std::map<std::size_t, ValueId> room_of_;  // by output
};

}  // namespace

AppendingModule append_in_place(Module module) {
  AppendingModule result{std::move(module), {}};
  result.appended = Appender(result.module).run();
  if (!result.appended.empty()) infer_types(result.module);
  return result;
}

void append_in_place(Module& module, PassContext& context) {
  AppendingModule appending = append_in_place(std::move(module));
  module = std::move(appending.module);
  if (appending.appended.empty() && context.options.warn)
    context.options.warn("no result is an input with something appended to it");
}

}  // namespace anydim::passes
