// The listing of a lowered program: what is shared, then one function after the other, an
// instruction a line with its position. Slots are s0, s1, ..., buffers b0, b1, ...
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <variant>

#include "ir/error.h"
#include "ir/loops/loop_form_text.h"
#include "ir/program.h"
#include "ir/quote.h"
#include "ir/shapes/relation_text.h"
#include "ir/text/policy_text.h"
#include "ir/text/print.h"
#include "ir/text/tensor_text.h"

namespace anydim::ir {

namespace {

using Slots = std::vector<Code::Slot>;

std::string slot(Code::Slot s) { return s < 0 ? "-" : fmt::format("s{}", s); }
std::string buffer(std::int32_t b) { return b < 0 ? "-" : fmt::format("b{}", b); }

template <typename Range, typename Show>
std::string list(const Range& range, const Show& show) {
  std::vector<std::string> parts;
  for (const auto& part : range) parts.push_back(show(part));
  return fmt::format("({})", fmt::join(parts, ", "));
}
std::string slots(const Slots& all) { return list(all, slot); }
std::string buffers(const std::vector<std::int32_t>& all) { return list(all, buffer); }

template <typename Show>
std::string copies(const std::vector<std::pair<std::int32_t, std::int32_t>>& all,
                   const Show& show) {
  return list(all, [&](const auto& copy) { return show(copy.first) + " = " + show(copy.second); });
}

std::string tensor(DType dtype, const Slots& dims) {
  return fmt::format("{} {}", name_of(dtype), slots(dims));
}
std::string argument(const Code::Argument& given) {
  return buffer(given.buffer) + ": " + tensor(given.dtype, given.dims);
}
std::string arguments(const std::vector<Code::Argument>& all) { return list(all, argument); }

// Extents that only the run tells, where there are any.
std::string opened(const std::vector<Code::Opened>& all) {
  if (all.empty()) return {};
  return " opens " + list(all, [](const Code::Opened& one) {
           return fmt::format("{} = result {} axis {}", slot(one.slot), one.result, one.axis);
         });
}
std::string from(const std::string& source) {
  return source.empty() ? std::string() : " from " + quote(source);
}

std::string text(const Code::RunStage& run) { return fmt::format("stage {}", run.stage); }
std::string text(const Code::Launch& launch) {
  return fmt::format("launch kernel {} {} extents {} keys {}{}", launch.kernel,
                     buffers(launch.buffers), slots(launch.extents), slots(launch.keys),
                     from(launch.source));
}
std::string text(const Code::Fetch& fetch) {
  return fmt::format("{} = fetch {} {} [{}]", slot(fetch.slot), name_of(fetch.dtype),
                     buffer(fetch.buffer), fetch.element);
}
std::string text(const Code::Assert& check) {
  const auto shown = [](const Code::Assert::Shown& one) {
    return fmt::format("{} {}: {}", quote(one.name), buffer(one.buffer),
                       tensor(one.dtype, one.dims));
  };
  return fmt::format("assert {} {} {}{}", slot(check.slot), quote(check.message),
                     list(check.shown, shown), from(check.source));
}
std::string text(const Code::Jump& jump) { return fmt::format("jump {}", jump.target); }
std::string text(const Code::JumpIfZero& jump) {
  return fmt::format("jump {} if {} is 0", jump.target, slot(jump.slot));
}
std::string text(const Code::Iterate& head) {
  return fmt::format("iterate {} trips {} while {} else {}", slot(head.counter), slot(head.trips),
                     slot(head.condition), head.target);
}
std::string text(const Code::Next& next) {
  return fmt::format("next {} to {}", slot(next.counter), next.target);
}
std::string text(const Code::SetSlots& set) { return "set " + copies(set.copies, slot); }
std::string text(const Code::MoveBuffers& move) { return "move " + copies(move.copies, buffer); }
std::string text(const Code::Enter&) { return "enter"; }
std::string text(const Code::Leave& leave) { return "leave " + buffers(leave.dropped); }
std::string text(const Code::Allocate& allocate) {
  std::string text = "allocate " + buffer(allocate.buffer);
  if (allocate.element_of >= 0)
    text += fmt::format(" in {} at {} of {}", buffer(allocate.element_of), slot(allocate.counter),
                        slot(allocate.expected));
  return text;
}
std::string text(const Code::StoreScalar& store) {
  return fmt::format("{} = scalar {} {}", buffer(store.buffer), name_of(store.dtype),
                     slot(store.slot));
}
std::string text(const Code::Append& append) {
  return fmt::format("append {} to {} at {} of {} bytes {} dims {} first {}{}", buffer(append.from),
                     buffer(append.to), slot(append.counter), slot(append.expected),
                     slot(append.bytes), slots(append.dims), slots(append.first),
                     from(append.source));
}
std::string text(const Code::Call& call) {
  return fmt::format("call function {} {} to {} with {}{}{}", call.function,
                     buffers(call.arguments), buffers(call.results), copies(call.leaves, slot),
                     opened(call.opened), from(call.source));
}
std::string text(const Code::MakeFunction& make) {
  return fmt::format("{} = function {} {}", buffer(make.to), make.function,
                     arguments(make.arguments));
}
std::string text(const Code::CallValue& call) {
  return fmt::format("call {} {} to {}{}{}", buffer(call.value), arguments(call.arguments),
                     buffers(call.results), opened(call.opened), from(call.source));
}
std::string text(const Code::MakeList& make) {
  return fmt::format("{} = list {}", buffer(make.to), arguments(make.elements));
}
std::string text(const Code::ListInsert& insert) {
  return fmt::format("{} = insert {} into {}{} at {}{}", buffer(insert.to),
                     argument(insert.element), buffer(insert.list),
                     insert.last_use ? " taken over" : "", slot(insert.position),
                     from(insert.source));
}
std::string text(const Code::ListErase& erase) {
  return fmt::format("{} = erase from {} at {}{}", buffer(erase.to), buffer(erase.list),
                     slot(erase.position), from(erase.source));
}
std::string text(const Code::ListAt& at) {
  return fmt::format("{} = element of {} at {}{}{}", buffer(at.to), buffer(at.list),
                     at.position < 0 ? std::to_string(at.element) : slot(at.position),
                     opened(at.opened), from(at.source));
}
std::string text(const Code::ListLength& length) {
  return fmt::format("{} = length of {}", slot(length.slot), buffer(length.list));
}
std::string text(const Code::ListConcat& concat) {
  return fmt::format("{} = {} {} of {} along {}{}{}", buffer(concat.to),
                     concat.new_axis ? "stack" : "concat", name_of(concat.dtype),
                     buffer(concat.list), concat.axis, opened(concat.opened), from(concat.source));
}

std::string_view place_name(Code::Buffer::Place place) {
  switch (place) {
    case Code::Buffer::Place::Input: return "input";
    case Code::Buffer::Place::Constant: return "constant";
    case Code::Buffer::Place::Arena: return "arena";
    case Code::Buffer::Place::Output: return "output";
    case Code::Buffer::Place::Pool: return "pool";
  }
  internal_error("a buffer's place has a name");
}

class Listing {
 public:
  std::string run(const Program& program) {
    line(0, "program");
    text_ += print(program.policies);
    line(0, "ceiling {}", program.arena_ceiling.to_string());
    if (!program.unbounded.empty()) line(0, "unbounded because {}", quote(program.unbounded));
    for (std::size_t i = 0; i < program.constants.size(); ++i) add(i, program.constants[i]);
    for (std::size_t i = 0; i < program.kernels.size(); ++i) add(i, program.kernels[i]);
    for (std::size_t i = 0; i < program.stages.size(); ++i) add(i, program.stages[i]);
    for (std::size_t i = 0; i < program.functions.size(); ++i) add(i, program.functions[i]);
    return std::move(text_);
  }

 private:
  template <typename... Arguments>
  void line(int depth, fmt::format_string<Arguments...> format, Arguments&&... values) {
    text_.append(static_cast<std::size_t>(depth) * 2, ' ');
    fmt::format_to(std::back_inserter(text_), format, std::forward<Arguments>(values)...);
    text_ += '\n';
  }

  void add(std::size_t number, const Program::Constant& constant) {
    const std::string packed =
        constant.layout
            ? fmt::format(" packed as {} ({}) for parameter {} of kernel {}",
                          quote(constant.layout->name), fmt::join(constant.layout->fields, ", "),
                          constant.parameter, constant.region)
            : std::string();
    std::string tensor;
    if (constant.tensor.elements() <= largest_inline_tensor)
      append_tensor_bits(tensor, constant.tensor);
    else
      tensor = fmt::format("elsewhere {} ({})", name_of(constant.tensor.dtype()),
                           fmt::join(constant.tensor.dims(), ", "));
    line(0, "constant {}: {} {}{}", number, quote(constant.name), tensor, packed);
  }

  void add(std::size_t number, const Program::Kernel& kernel) {
    line(0, "kernel {}: keys {}", number,
         list(kernel.region.keys, [](const Dim& key) { return key.to_string(); }));
    text_ += loop_form_text::checks(kernel.checks);
    for (const DispatchTable::Entry& entry : kernel.table.entries)
      line(
          1, "{}: {}{}{}", to_string(entry.bucket), to_string(entry.schedule),
          entry.kernel ? ", code for " + to_string(*entry.kernel) : "",
          entry.origin == EntryOrigin::CostModel ? "" : fmt::format(", {}", name_of(entry.origin)));
    text_ += print(Module{}, kernel.region);
  }

  void add(std::size_t number, const Program::Stage& stage) {
    line(0, "stage {}: arena {} from {}", number, slot(stage.arena_bytes), slot(stage.first));
    if (!stage.tensors.empty())
      line(1, "tensors {}",
           list(stage.tensors, [](const auto& tensor) { return value_text(tensor.second); }));
    const auto name_of_tensor = [&](ValueId id) {
      const auto found = stage.tensors.find(id);
      return found == stage.tensors.end() ? fmt::format("%<{}>", id) : value_text(found->second);
    };
    for (std::size_t i = 0; i < stage.leaves.size(); ++i)
      line(1, "leaf {} is {}", Dim::of(stage.shapes.leaves[i]).to_string(name_of_tensor),
           slot(stage.leaves[i]));
    for (std::size_t i = 0; i < stage.shapes.expressions.size(); ++i)
      line(1, "{} = {}", slot(stage.first + static_cast<Code::Slot>(i)),
           stage.shapes.expressions[i].to_string(name_of_tensor));
    for (const Program::Check& check : stage.checks)
      line(1, "check {} {} {}: {}", slot(check.left), name_of(check.relation), slot(check.right),
           quote(check.what));
  }

  void add(std::size_t number, const Code& code) {
    line(0, "function {}: {}, {} slots, {} leaves", number, global_text(code.name), code.slots,
         code.leaf_symbols.size());
    if (!code.symbols.names().empty()) line(1, "where {}", print(code.symbols));
    for (const Code::Input& input : code.inputs)
      line(1, "input {} {}: {}", buffer(input.buffer), quote(input.name),
           input.type.kind == Type::Kind::Unknown
               ? fmt::format("{} {}", name_of(input.dtype),
                             list(input.dims, [](const Dim& dim) { return dim.to_string(); }))
               : "object " + print(input.type));
    for (std::size_t i = 0; i < code.leaf_symbols.size(); ++i)
      if (!code.leaf_symbols[i].empty())
        line(1, "symbol s{} = {}", i, symbol_text(code.leaf_symbols[i]));
    for (std::size_t i = 0; i < code.buffers.size(); ++i) add(i, code.buffers[i]);
    for (std::size_t i = 0; i < code.instructions.size(); ++i)
      line(1, "{}: {}", i,
           std::visit([](const auto& instruction) { return text(instruction); },
                      code.instructions[i]));
    for (const Code::Output& output : code.outputs)
      line(1, "output {} {}: {}{}", buffer(output.buffer), quote(output.name),
           tensor(output.dtype, output.dims),
           output.ones.empty() ? "" : " drops " + slots(output.ones));
  }

  void add(std::size_t number, const Code::Buffer& placed) {
    using Place = Code::Buffer::Place;
    std::string where;
    switch (placed.place) {
      case Place::Input:
      case Place::Constant: where = fmt::format(" {}", placed.index); break;
      case Place::Arena:
        where = fmt::format(" of stage {} at {}, {} bytes", placed.segment, slot(placed.offset),
                            slot(placed.bytes));
        break;
      case Place::Output:
        where = fmt::format(" {} of stage {}, {} bytes", placed.index, placed.segment,
                            slot(placed.bytes));
        break;
      case Place::Pool:
        if (placed.bytes >= 0) where = fmt::format(" {} bytes", slot(placed.bytes));
        break;
    }
    line(1, "buffer b{}: {}{}{}", number, place_name(placed.place), where, from(placed.name));
  }

  std::string text_;
};

}  // namespace

std::string to_string(const Program& program) { return Listing().run(program); }

}  // namespace anydim::ir
