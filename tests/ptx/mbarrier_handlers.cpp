// mbarrier.* and fence.mbarrier_init.
#include <bit>

#include <fmt/format.h>

#include "tests/ptx/lanes.h"
#include "tests/ptx/mbarrier_objects.h"
#include "tests/ptx/opcodes.h"

namespace anydim::ptx {

namespace {

enum class Ordering : std::uint8_t { Default, Relaxed };
enum class Arrival : std::uint8_t { Arrive, Drop, Expect, DropExpect, OnlyExpect, OnlyComplete };

struct MbarrierDetail {
  Space space = Space::Generic;
  AddressOperand address;
  bool relaxed = false;
  // arrive
  Arrival arrival = Arrival::Arrive;
  std::int32_t state = -1;  // 64-bit destination
  std::int32_t count = -1;  // arrivals or bytes; -1: 1
  // waits
  bool by_parity = false;
  bool blocking = false;
  std::int32_t result = -1;   // predicate
  std::int32_t awaited = -1;  // parity or state
};

void check_change(Warp& warp, int lane, std::uint64_t address, const std::string& wrong) {
  if (!wrong.empty())
    warp.stop(FindingKind::InvalidUse, lane, fmt::format("mbarrier at {:#x}: {}", address, wrong));
}

Outcome run_init(Warp& warp, const Instruction& instruction, LaneMask mask) {
  const auto& detail = instruction.get<MbarrierDetail>();
  for_each_lane(mask, [&](int lane) {
    const std::uint64_t address = warp.address(detail.address, lane);
    std::byte* const word = warp.access(AccessKind::Write, detail.space, address, 8, 8, lane);
    const SharedPlace place = shared_place(warp, detail.space, address, lane);
    if (place.block != &warp.block)
      warp.stop(FindingKind::InvalidUse, lane, "mbarrier.init of another block's barrier");
    MbarrierObject& object = place.block->extension<MbarrierObjects>().objects[place.address];
    if (object.word == nullptr)
      object.actor = warp.execution.new_actor(
          warp.block, 1, fmt::format("copies of the mbarrier at {:#x}", place.address));
    ++warp.execution.actor_clock(object.actor);
    object.word = word;
    object.gathered = object.released = {};
    object.author = warp.actor;
    object.author_lane = lane;
    object.author_clock = warp.clock;
    object.fenced = false;
    check_change(warp, lane, address,
                 mbarrier_init(object.state, warp.lanes<std::uint32_t>(detail.count)[lane]));
    settle_mbarrier(warp.execution, object, object.state.parity);
  });
  return Outcome::Next;
}

Outcome run_inval(Warp& warp, const Instruction& instruction, LaneMask mask) {
  const auto& detail = instruction.get<MbarrierDetail>();
  for_each_lane(mask, [&](int lane) {
    const std::uint64_t address = warp.address(detail.address, lane);
    std::byte* const word = warp.access(AccessKind::Write, detail.space, address, 8, 8, lane);
    accessed_mbarrier(warp, detail.space, address, lane);
    std::memset(word, 0, 8);
    const SharedPlace place = shared_place(warp, detail.space, address, lane);
    place.block->extension<MbarrierObjects>().objects.erase(place.address);
  });
  return Outcome::Next;
}

// Lanes that name the same barrier publish what they know once, together.
void gather_knowledge(Warp& warp, const MbarrierDetail& detail, LaneMask mask) {
  while (mask != 0) {
    const int first = std::countr_zero(mask);
    LaneMask same = 0;
    for_each_lane(mask, [&](int lane) {
      if (warp.address(detail.address, lane) == warp.address(detail.address, first))
        same |= LaneMask{1} << lane;
    });
    // The arrival itself is part of what those who wait for its phase come after.
    for_each_lane(same, [&](int lane) {
      find_mbarrier(warp, detail.space, warp.address(detail.address, lane), lane);
    });
    MbarrierObject& object =
        accessed_mbarrier(warp, detail.space, warp.address(detail.address, first), first);
    if (detail.relaxed) {
      for_each_lane(same, [&](int lane) {
        object.gathered.join(warp.fence_published[static_cast<std::size_t>(lane)]);
      });
    } else {
      object.gathered.join(warp.publish(same));
    }
    mask &= ~same;
  }
}

std::string arrive(const MbarrierDetail& detail, Mbarrier& state, std::int64_t count) {
  switch (detail.arrival) {
    case Arrival::Arrive: return mbarrier_arrive(state, count);
    case Arrival::Drop: return mbarrier_arrive_drop(state, count);
    case Arrival::Expect: return mbarrier_arrive_expect(state, count);
    case Arrival::DropExpect: {
      std::string wrong = mbarrier_expect(state, count);
      return wrong.empty() ? mbarrier_arrive_drop(state, 1) : wrong;
    }
    case Arrival::OnlyExpect: return mbarrier_expect(state, count);
    case Arrival::OnlyComplete: return mbarrier_complete(state, count);
  }
  return "an arrival";
}

Outcome run_arrive(Warp& warp, const Instruction& instruction, LaneMask mask) {
  const auto& detail = instruction.get<MbarrierDetail>();
  const bool arrives =
      detail.arrival != Arrival::OnlyExpect && detail.arrival != Arrival::OnlyComplete;
  if (arrives) gather_knowledge(warp, detail, mask);
  for_each_lane(mask, [&](int lane) {
    const std::uint64_t address = warp.address(detail.address, lane);
    MbarrierObject& object = arrives ? accessed_mbarrier(warp, detail.space, address, lane)
                                     : find_mbarrier(warp, detail.space, address, lane);
    if (detail.state >= 0)
      warp.lanes<std::uint64_t>(detail.state)[lane] = encode_mbarrier(object.state);
    const std::int64_t count =
        detail.count < 0 ? 1
                         : static_cast<std::int64_t>(warp.lanes<std::uint32_t>(detail.count)[lane]);
    check_change(warp, lane, address, change_mbarrier(warp.execution, object, [&](Mbarrier& state) {
                   return arrive(detail, state, count);
                 }));
  });
  return Outcome::Next;
}

Outcome run_wait(Warp& warp, const Instruction& instruction, LaneMask mask) {
  const auto& detail = instruction.get<MbarrierDetail>();
  LaneMask passed = 0;
  std::string missing;
  for_each_lane(mask, [&](int lane) {
    const std::uint64_t address = warp.address(detail.address, lane);
    const MbarrierObject& object =
        find_mbarrier(warp, detail.space, address, lane, AccessKind::Read);
    bool parity = false;
    if (detail.by_parity) {
      const std::uint32_t value = warp.lanes<std::uint32_t>(detail.awaited)[lane];
      if (value > 1)
        warp.stop(FindingKind::InvalidUse, lane,
                  fmt::format("a phase's parity is 0 or 1, got {}", value));
      parity = value != 0;
    } else {
      parity = decode_mbarrier(warp.lanes<std::uint64_t>(detail.awaited)[lane]).parity;
    }
    if (mbarrier_test_parity(object.state, parity)) {
      passed |= LaneMask{1} << lane;
      if (detail.relaxed) warp.fence_pending[static_cast<std::size_t>(lane)].join(object.released);
      else warp.acquire(LaneMask{1} << lane, object.released);
    } else if (missing.empty()) {
      missing = fmt::format(
          "mbarrier at {:#x}, phase of parity {}: {} of {} arrivals and {} bytes missing", address,
          parity ? 1 : 0, object.state.pending, object.state.expected, object.state.transactions);
    }
  });
  if (detail.blocking && passed != mask && !warp.fragment().timed_out &&
      !warp.execution.gives_up(warp.fragment()))
    return warp.block_on(std::move(missing), true);
  if (passed == mask) warp.fragment().gave_up = false;
  warp.set_predicate(detail.result, mask, passed);
  return Outcome::Next;
}

Outcome run_pending_count(Warp& warp, const Instruction& instruction, LaneMask mask) {
  for_each_lane(mask, [&](int lane) {
    const Mbarrier state = decode_mbarrier(warp.lanes<std::uint64_t>(instruction.slot[1])[lane]);
    warp.lanes<std::uint32_t>(instruction.slot[0])[lane] =
        static_cast<std::uint32_t>(state.pending);
  });
  return Outcome::Next;
}

void take_ordering(Decoder& decoder, MbarrierDetail& detail) {
  detail.relaxed = decoder.take_any({"acquire", "release", "relaxed"}) == "relaxed";
  decoder.take_any({"cta", "cluster"});
}

void decode_arrival(Decoder& decoder, MbarrierDetail& detail, bool drop) {
  const bool expects = decoder.take("expect_tx");
  decoder.take("noComplete");
  take_ordering(decoder, detail);
  detail.arrival = drop      ? (expects ? Arrival::DropExpect : Arrival::Drop)
                   : expects ? Arrival::Expect
                             : Arrival::Arrive;
  detail.space = decoder.take_space(Space::Generic);
  decoder.demand("b64");
  detail.state = decoder.destination(0, Type::b64);
  detail.address = decoder.address(1, detail.space);
  if (decoder.operands() > 2) detail.count = decoder.source(2, Type::u32);
  if (expects && decoder.operands() < 3) decoder.unknown("expect_tx without a count");
  decoder.instruction.execute = run_arrive;
}

void decode_count(Decoder& decoder, MbarrierDetail& detail, Arrival arrival) {
  take_ordering(decoder, detail);
  detail.arrival = arrival;
  detail.space = decoder.take_space(Space::Generic);
  decoder.demand("b64");
  detail.address = decoder.address(0, detail.space);
  detail.count = decoder.source(1, Type::u32);
  decoder.instruction.execute = run_arrive;
}

void decode_wait(Decoder& decoder, MbarrierDetail& detail, bool blocking) {
  detail.blocking = blocking;
  detail.by_parity = decoder.take("parity");
  take_ordering(decoder, detail);
  detail.space = decoder.take_space(Space::Generic);
  decoder.demand("b64");
  detail.result = decoder.destination(0, Type::pred);
  detail.address = decoder.address(1, detail.space);
  detail.awaited = decoder.source(2, detail.by_parity ? Type::u32 : Type::b64);
  decoder.instruction.execute = run_wait;
}

void decode_operation(Decoder& decoder) {
  auto detail = std::make_shared<MbarrierDetail>();
  const std::string_view operation =
      decoder.take_any({"init", "inval", "arrive", "arrive_drop", "expect_tx", "complete_tx",
                        "test_wait", "try_wait", "pending_count"});
  if (operation == "arrive" || operation == "arrive_drop") {
    decode_arrival(decoder, *detail, operation == "arrive_drop");
  } else if (operation == "expect_tx" || operation == "complete_tx") {
    decode_count(decoder, *detail,
                 operation == "expect_tx" ? Arrival::OnlyExpect : Arrival::OnlyComplete);
  } else if (operation == "test_wait" || operation == "try_wait") {
    decode_wait(decoder, *detail, operation == "try_wait");
  } else if (operation == "init" || operation == "inval") {
    detail->space = decoder.take_space(Space::Generic);
    decoder.demand("b64");
    detail->address = decoder.address(0, detail->space);
    if (operation == "init") detail->count = decoder.source(1, Type::u32);
    decoder.instruction.execute = operation == "init" ? run_init : run_inval;
  } else if (operation == "pending_count") {
    decoder.demand("b64");
    decoder.instruction.slot[0] = decoder.destination(0, Type::u32);
    decoder.instruction.slot[1] = decoder.source(1, Type::b64);
    decoder.instruction.execute = run_pending_count;
  } else {
    decoder.unknown("this operation of mbarrier");
  }
  decoder.instruction.detail = std::move(detail);
}

Outcome run_mbarrier_fence(Warp& warp, const Instruction&, LaneMask mask) {
  for (auto& [address, object] : warp.block.extension<MbarrierObjects>().objects) {
    if (object.author.number == warp.actor.number && (mask >> object.author_lane & 1) != 0)
      object.fenced = true;
  }
  return Outcome::Next;
}

void decode_mbarrier_fence(Decoder& decoder) {
  decoder.demand("mbarrier_init");
  decoder.demand("release");
  decoder.demand("cluster");
  decoder.instruction.execute = run_mbarrier_fence;
}

}  // namespace

void add_mbarrier_opcodes(OpcodeTable& table) {
  table["mbarrier"] = decode_operation;
  table["fence"] = [others = table["fence"]](Decoder& decoder) {
    if (decoder.first_modifier() == "mbarrier_init") decode_mbarrier_fence(decoder);
    else others(decoder);
  };
}

}  // namespace anydim::ptx
