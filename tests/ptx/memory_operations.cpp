// ld, st, prefetch.
#include "tests/ptx/memory_operations.h"

#include <array>
#include <cstring>

#include "tests/ptx/lanes.h"
#include "tests/ptx/memory.h"
#include "tests/ptx/opcodes.h"

namespace anydim::ptx {
namespace {

struct Element {
  std::int32_t offset = -1;
  bool wide = false;
};

struct MemoryOperand {
  Space space = Space::Generic;
  AddressOperand address;
  Type type = Type::b32;
  std::size_t bytes = 4;  // of an element
  std::vector<Element> elements;
  Order order = Order::Weak;
  std::size_t total() const { return bytes * elements.size(); }
};

std::uint64_t load_element(const std::byte* data, std::size_t bytes, bool sign) {
  std::uint64_t value = 0;
  std::memcpy(&value, data, bytes);
  if (sign) {
    const int unused = 64 - 8 * static_cast<int>(bytes);
    value = static_cast<std::uint64_t>(static_cast<std::int64_t>(value << unused) >> unused);
  }
  return value;
}

void put_elements(Warp& warp, const MemoryOperand& operand, const std::byte* data, int lane) {
  if (operand.type == Type::b128) {
    for (std::size_t i = 0; i < operand.elements.size(); ++i)
      if (operand.elements[i].offset >= 0)
        std::memcpy(warp.lanes<std::uint64_t>(operand.elements[i].offset) + 2 * lane, data + 16 * i,
                    16);
    return;
  }
  for (const Element& element : operand.elements) {
    if (element.offset >= 0) {
      const std::uint64_t value = load_element(data, operand.bytes, is_signed(operand.type));
      if (element.wide) warp.lanes<std::uint64_t>(element.offset)[lane] = value;
      else warp.lanes<std::uint32_t>(element.offset)[lane] = static_cast<std::uint32_t>(value);
    }
    data += operand.bytes;
  }
}

Outcome execute_load(Warp& warp, const Instruction& instruction, LaneMask mask) {
  const auto& operand = instruction.get<MemoryOperand>();
  const std::size_t total = operand.total();
  const bool strong = operand.order != Order::Weak;
  // The kernel's parameters are the same for all lanes.
  if (operand.space == Space::Param && operand.address.base < 0 &&
      operand.address.offset < static_cast<std::int64_t>(call_param_start)) {
    const std::byte* data = warp.access(AccessKind::Read, Space::Param,
                                        static_cast<std::uint64_t>(operand.address.offset), total,
                                        total, std::countr_zero(mask));
    for_each_lane(mask, [&](int lane) { put_elements(warp, operand, data, lane); });
    return Outcome::Next;
  }
  for_each_lane(mask, [&](int lane) {
    const std::byte* data =
        warp.access(AccessKind::Read, operand.space, warp.address(operand.address, lane), total,
                    total, lane, strong);
    put_elements(warp, operand, data, lane);
    if (strong) order_after_read(warp, data, lane, operand.order);
  });
  if (strong) ++warp.execution.polls;
  return Outcome::Next;
}

void take_elements(Warp& warp, const MemoryOperand& operand, std::byte* data, int lane) {
  for (const Element& element : operand.elements) {
    if (operand.type == Type::b128)
      std::memcpy(data, warp.lanes<std::uint64_t>(element.offset) + 2 * lane, 16);
    else if (element.wide)
      std::memcpy(data, warp.lanes<std::uint64_t>(element.offset) + lane, operand.bytes);
    else std::memcpy(data, warp.lanes<std::uint32_t>(element.offset) + lane, operand.bytes);
    data += operand.bytes;
  }
}

Outcome execute_store(Warp& warp, const Instruction& instruction, LaneMask mask) {
  const auto& operand = instruction.get<MemoryOperand>();
  const std::size_t total = operand.total();
  const bool strong = operand.order != Order::Weak;
  const int first = std::countr_zero(mask);
  std::array<std::byte, 64> first_value{}, value{};
  take_elements(warp, operand, first_value.data(), first);
  const std::uint64_t first_address = warp.address(operand.address, first);
  for_each_lane(mask, [&](int lane) {
    const std::uint64_t address = warp.address(operand.address, lane);
    take_elements(warp, operand, value.data(), lane);
    // Lanes that store the same value to the same place count as one writer.
    const bool own_place = operand.space == Space::Param || operand.space == Space::Local;
    if (lane != first && !own_place && address == first_address &&
        std::memcmp(value.data(), first_value.data(), total) == 0)
      return;
    std::byte* data =
        warp.access(AccessKind::Write, operand.space, address, total, total, lane, strong);
    if (strong) order_before_write(warp, data, lane, operand.order, false);
    std::memcpy(data, value.data(), total);
  });
  return Outcome::Next;
}

void decode_access(Decoder& decoder, bool loads) {
  auto operand = std::make_shared<MemoryOperand>();
  operand->order = take_order(decoder, Order::Weak);
  operand->space = decoder.take_space(Space::Generic);
  decoder.take("nc");
  skip_cache_modifiers(decoder);
  decoder.take_any({"v2", "v4", "v8"});
  operand->type = decoder.take_type();
  operand->bytes = static_cast<std::size_t>(type_bytes(operand->type));
  const OperandText& values = decoder.operand(loads ? 0 : 1);
  const std::vector<OperandText> single{values};
  for (const OperandText& value :
       values.kind == OperandText::Kind::Vector ? values.parts : single) {
    Element element;
    element.offset = loads ? decoder.any_destination(value, operand->type, element.wide)
                           : decoder.any_source(value, operand->type, element.wide);
    operand->elements.push_back(element);
  }
  if (operand->total() > 32) decoder.unknown("it moves more than 32 bytes");
  operand->address = decoder.address(loads ? 1 : 0, operand->space);
  decoder.instruction.execute = loads ? execute_load : execute_store;
  decoder.instruction.detail = operand;
}

void decode_prefetch(Decoder& decoder) {
  decoder.take_space(Space::Generic);
  decoder.take_any({"tensormap", "L1", "L2", "L2::evict_last", "L2::evict_normal"});
  decoder.address(0, Space::Generic);
  decoder.instruction.execute = [](Warp&, const Instruction&, LaneMask) { return Outcome::Next; };
}

}  // namespace

Order take_order(Decoder& decoder, Order otherwise) {
  const std::string_view name =
      decoder.take_any({"weak", "volatile", "relaxed", "acquire", "release", "acq_rel"});
  decoder.take_any({"cta", "cluster", "gpu", "sys"});
  decoder.take("mmio");
  if (name.empty()) return otherwise;
  if (name == "weak") return Order::Weak;
  if (name == "acquire") return Order::Acquire;
  if (name == "release") return Order::Release;
  return name == "acq_rel" ? Order::AcquireRelease : Order::Relaxed;
}

void skip_cache_modifiers(Decoder& decoder) {
  decoder.take_any({"ca", "cg", "cs", "lu", "cv", "wb", "wt"});
  while (!decoder
              .take_any({"L1::evict_normal", "L1::evict_unchanged", "L1::evict_first",
                         "L1::evict_last", "L1::no_allocate", "L2::evict_normal", "L2::evict_first",
                         "L2::evict_last", "L2::cache_hint", "L2::64B", "L2::128B", "L2::256B"})
              .empty()) {
  }
}

void order_after_read(Warp& warp, const std::byte* place, int lane, Order order) {
  const auto found = warp.execution.sync_places.find(place);
  if (found == warp.execution.sync_places.end()) return;
  if (acquires(order)) warp.acquire(LaneMask{1} << lane, found->second.published);
  else warp.fence_pending[static_cast<std::size_t>(lane)].join(found->second.published);
}

void order_before_write(Warp& warp, const std::byte* place, int lane, Order order,
                        bool keeps_earlier) {
  const Knowledge& fenced = warp.fence_published[static_cast<std::size_t>(lane)];
  Execution::SyncPlace& sync = warp.execution.sync_places[place];
  if (!keeps_earlier) sync.published = {};
  sync.published.join(releases(order) ? warp.publish(LaneMask{1} << lane) : fenced);
}

void add_memory_opcodes(OpcodeTable& table) {
  table["ld"] = [](Decoder& decoder) { decode_access(decoder, true); };
  table["ldu"] = table["ld"];
  table["st"] = [](Decoder& decoder) { decode_access(decoder, false); };
  table["prefetch"] = decode_prefetch;
  table["prefetchu"] = decode_prefetch;
}

}  // namespace anydim::ptx
