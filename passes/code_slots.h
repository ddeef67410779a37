// Every slot that an instruction names.
#pragma once

#include <type_traits>

#include "ir/program.h"

namespace anydim::passes {

// Calls visit(Code::Slot&) for each slot of the instruction, absent ones (-1) left out; not for
// slots of another function's frame.
template <typename Visit>
void for_each_slot(ir::Code::Instruction& instruction, const Visit& visit) {
  using ir::Code;
  const auto one = [&](Code::Slot& slot) {
    if (slot >= 0) visit(slot);
  };
  const auto all = [&](auto& list) {
    for (Code::Slot& slot : list) one(slot);
  };
  const auto opened = [&](auto& list) {
    for (Code::Opened& extent : list) one(extent.slot);
  };
  const auto arguments = [&](auto& list) {
    for (Code::Argument& argument : list) all(argument.dims);
  };
  std::visit(
      [&](auto& step) {
        using Kind = std::decay_t<decltype(step)>;
        if constexpr (std::is_same_v<Kind, Code::Launch>) {
          all(step.extents);
          all(step.keys);
        } else if constexpr (std::is_same_v<Kind, Code::Fetch> ||
                             std::is_same_v<Kind, Code::JumpIfZero> ||
                             std::is_same_v<Kind, Code::StoreScalar> ||
                             std::is_same_v<Kind, Code::ListLength>) {
          one(step.slot);
        } else if constexpr (std::is_same_v<Kind, Code::Assert>) {
          one(step.slot);
          for (Code::Assert::Shown& tensor : step.shown) all(tensor.dims);
        } else if constexpr (std::is_same_v<Kind, Code::Iterate>) {
          one(step.counter);
          one(step.trips);
          one(step.condition);
        } else if constexpr (std::is_same_v<Kind, Code::Next>) {
          one(step.counter);
        } else if constexpr (std::is_same_v<Kind, Code::SetSlots>) {
          for (auto& [to, from] : step.copies) {
            one(to);
            one(from);
          }
        } else if constexpr (std::is_same_v<Kind, Code::Allocate>) {
          one(step.counter);
          one(step.expected);
        } else if constexpr (std::is_same_v<Kind, Code::Append>) {
          one(step.counter);
          one(step.expected);
          one(step.bytes);
          all(step.dims);
          all(step.first);
        } else if constexpr (std::is_same_v<Kind, Code::Call>) {
          for (auto& [theirs, ours] : step.leaves) one(ours);
          opened(step.opened);
        } else if constexpr (std::is_same_v<Kind, Code::MakeFunction>) {
          arguments(step.arguments);
        } else if constexpr (std::is_same_v<Kind, Code::CallValue>) {
          arguments(step.arguments);
          opened(step.opened);
        } else if constexpr (std::is_same_v<Kind, Code::MakeList>) {
          arguments(step.elements);
        } else if constexpr (std::is_same_v<Kind, Code::ListInsert>) {
          all(step.element.dims);
          one(step.position);
        } else if constexpr (std::is_same_v<Kind, Code::ListErase>) {
          one(step.position);
        } else if constexpr (std::is_same_v<Kind, Code::ListAt>) {
          one(step.position);
          opened(step.opened);
        } else if constexpr (std::is_same_v<Kind, Code::ListConcat>) {
          opened(step.opened);
        } else {
          static_assert(std::is_same_v<Kind, Code::RunStage> || std::is_same_v<Kind, Code::Jump> ||
                            std::is_same_v<Kind, Code::MoveBuffers> ||
                            std::is_same_v<Kind, Code::Enter> || std::is_same_v<Kind, Code::Leave>,
                        "an instruction without slots");
        }
      },
      instruction);
}

}  // namespace anydim::passes
