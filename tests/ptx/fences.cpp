// membar, fence, griddepcontrol.
#include "tests/ptx/lanes.h"
#include "tests/ptx/opcodes.h"

namespace anydim::ptx {
namespace {

// What relaxed reads saw before becomes known, and what was done before goes with later relaxed
// writes.
Outcome execute_fence(Warp& warp, const Instruction&, LaneMask mask) {
  for_each_lane(mask, [&](int lane) {
    const auto index = static_cast<std::size_t>(lane);
    const LaneMask own = LaneMask{1} << lane;
    warp.acquire(own, warp.fence_pending[index]);
    warp.fence_pending[index] = {};
    warp.fence_published[index] = warp.publish(own);
  });
  return Outcome::Next;
}

Outcome execute_proxy_fence(Warp& warp, const Instruction&, LaneMask mask) {
  warp.proxy_fence(mask);
  return Outcome::Next;
}

// Launches follow one another here, so what a predecessor wrote is there; that a thread has waited
// is noted, for what launches that overlap may touch.
Outcome execute_grid_wait(Warp& warp, const Instruction&, LaneMask mask) {
  warp.behind_grid_wait |= mask;
  warp.execution.any_grid_wait = true;
  return Outcome::Next;
}

Outcome execute_nothing(Warp&, const Instruction&, LaneMask) { return Outcome::Next; }

void decode_fence(Decoder& decoder) {
  Instruction& instruction = decoder.instruction;
  if (decoder.take("proxy")) {
    const std::string_view proxy =
        decoder.take_any({"async", "async::generic", "alias", "tensormap::generic"});
    if (proxy.empty()) decoder.unknown("it names no proxy");
    decoder.take_any({"acquire", "release"});
    decoder.take_any({"sync_restrict::shared::cta", "sync_restrict::shared::cluster"});
    decoder.take_any({"cta", "cluster", "gpu", "sys"});
    decoder.take_space(Space::Generic);
    instruction.execute = proxy == "alias" ? execute_nothing : execute_proxy_fence;
    return;
  }
  decoder.take_any({"sc", "acq_rel", "acquire", "release"});
  decoder.take_any({"sync_restrict::shared::cta", "sync_restrict::shared::cluster"});
  if (decoder.take_any({"cta", "cluster", "gpu", "sys"}).empty())
    decoder.unknown("it names no scope");
  instruction.execute = execute_fence;
}

}  // namespace

void add_fence_opcodes(OpcodeTable& table) {
  table["fence"] = decode_fence;
  table["membar"] = [](Decoder& decoder) {
    if (decoder.take_any({"cta", "gl", "sys"}).empty()) decoder.unknown("it names no scope");
    decoder.instruction.execute = execute_fence;
  };
  table["griddepcontrol"] = [](Decoder& decoder) {
    const std::string_view kind = decoder.take_any({"wait", "launch_dependents"});
    if (kind.empty()) decoder.unknown("it is no wait or launch_dependents");
    decoder.instruction.execute = kind == "wait" ? execute_grid_wait : execute_nothing;
  };
}

}  // namespace anydim::ptx
