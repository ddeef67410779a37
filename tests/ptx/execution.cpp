// Launches: what they may ask for, how blocks come and go, what registers hold at first.
#include "tests/ptx/execution.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "tests/ptx/memory.h"

namespace anydim::ptx {
namespace {

constexpr std::size_t maximum_findings = 20;

std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}
std::uint64_t volume(const std::array<std::uint32_t, 3>& extents) {
  return std::uint64_t{extents[0]} * extents[1] * extents[2];
}

// Bytes of shared memory that a block may have, static and dynamic.
std::uint64_t shared_limit(const std::string& architecture) {
  const auto is = [&](std::string_view prefix) { return architecture.starts_with(prefix); };
  if (is("sm_90") || is("sm_100") || is("sm_103")) return 232448;
  if (is("sm_80") || is("sm_87")) return 166912;
  return 101376;
}

}  // namespace

Execution::Execution(MachineState& state, const Program& code, const Function& kernel,
                     const LaunchShape& launch, std::span<const std::byte> block)
    : machine(state), program(code), entry(kernel), shape(launch), options(state.options),
      parameters(block.begin(), block.end()), agenda(state.options.timing, state.options.seed),
      random(state.options.seed), actors_(1), variables_(state.modules.at(&code).variables) {}

Execution::~Execution() = default;

void Execution::report(FindingKind kind, const Agent& agent, const std::string& message) {
  Finding finding{kind, 0, {}, agent.warp, agent.lane, message};
  const std::int32_t pc = agent.author.instruction;
  if (pc >= 0) finding.line = program.instructions[static_cast<std::size_t>(pc)].line;
  // One finding a kind and line is enough: loops would repeat it without end.
  if (!noted_.insert({kind, finding.line, 0}).second || report_.findings.size() >= maximum_findings)
    return;
  if (agent.block >= 0 && blocks[static_cast<std::size_t>(agent.block)])
    finding.block = blocks[static_cast<std::size_t>(agent.block)]->index;
  if (pc >= 0)
    finding.message += fmt::format(" [{}]", program.source[static_cast<std::size_t>(pc)]);
  report_.findings.push_back(std::move(finding));
}

void Execution::stop(FindingKind kind, const Agent& agent, const std::string& message) {
  report(kind, agent, message);
  throw StopLaunch{};
}

Actor Execution::new_actor(Block& block, std::uint16_t lanes, std::string name) {
  std::vector<std::uint16_t>& free = free_actors_[static_cast<std::size_t>(block.slot)][lanes];
  if (free.empty()) {
    Actor actor{components_, static_cast<std::uint16_t>(actors_.size()), lanes};
    components_ += lanes;
    actors_.push_back({actor, 0, {}});
    free.push_back(actor.number);
  }
  ActorRecord& record = actors_[free.back()];
  free.pop_back();
  record.name = std::move(name);
  block.actors.push_back(record.actor);
  return record.actor;
}

bool Execution::check_launch() {
  const auto refuse = [&](const std::string& message) {
    report(FindingKind::InvalidLaunch, Agent{}, entry.name + ": " + message);
  };
  const std::uint64_t threads = volume(shape.block);
  if (threads == 0 || threads > 1024 || shape.block[2] > 64)
    refuse(fmt::format("a block of {} threads cannot be launched", threads));
  if (volume(shape.grid) == 0 || shape.grid[0] > 0x7fff'ffffU || shape.grid[1] > 65535 ||
      shape.grid[2] > 65535)
    refuse(fmt::format("a grid of ({}, {}, {}) blocks cannot be launched", shape.grid[0],
                       shape.grid[1], shape.grid[2]));
  const std::uint64_t limit = volume(entry.maximum_threads);
  if (limit != 0 && threads > limit)
    refuse(fmt::format("{} threads, but the kernel was compiled for at most {}", threads, limit));
  if (entry.required_threads && shape.block != entry.maximum_threads)
    refuse("the block differs from .reqntid");
  const std::uint64_t cluster = volume(shape.cluster);
  if (cluster == 0 || cluster > 8)
    refuse(fmt::format("a cluster of {} blocks: 1 to 8 are portable", cluster));
  if (volume(entry.required_cluster) != 0 && shape.cluster != entry.required_cluster)
    refuse("the cluster differs from .reqnctapercluster");
  for (std::size_t axis = 0; axis < 3; ++axis)
    if (cluster != 0 && shape.grid[axis] % shape.cluster[axis] != 0)
      refuse("the cluster does not divide the grid");
  shared_bytes_ = align_up(entry.shared_bytes, entry.dynamic_alignment) + shape.shared_bytes;
  if (shape.shared_bytes == 0) shared_bytes_ = entry.shared_bytes;
  dynamic_start_ = shared_start + align_up(entry.shared_bytes, entry.dynamic_alignment);
  if (shared_bytes_ > shared_limit(options.architecture))
    refuse(fmt::format("{} bytes of shared memory, but {} has {}", shared_bytes_,
                       options.architecture, shared_limit(options.architecture)));
  return report_.ok();
}

Report Execution::run() {
  try {
    if (!check_launch()) return report_;
    for (std::size_t axis = 0; axis < 3; ++axis)
      cluster_grid_[axis] = shape.grid[axis] / shape.cluster[axis];
    clusters_ = volume(cluster_grid_);
    blocks_per_multiprocessor_ = std::max(options.blocks_per_multiprocessor, entry.minimum_blocks);
    const std::uint64_t slots =
        std::max(static_cast<std::uint64_t>(options.multiprocessors * blocks_per_multiprocessor_),
                 volume(shape.cluster));
    blocks.resize(slots);
    free_actors_.resize(slots);
    dispatch();
    while (std::any_of(blocks.begin(), blocks.end(),
                       [](const auto& block) { return block != nullptr; })) {
      bool has_run = false;
      for (std::size_t slot = 0; slot < blocks.size(); ++slot) {
        if (!blocks[slot]) continue;
        const std::size_t warps = blocks[slot]->warps.size();
        const std::size_t first = options.timing == Timing::Random ? random() % warps : 0;
        for (std::size_t i = 0; i < warps; ++i)
          has_run |= run_warp(*blocks[slot]->warps[(first + i) % warps]);
      }
      retire();
      dispatch();
      if (has_run && !only_spins()) continue;
      unstick();
      last_effect_instruction_ = instructions;
      last_effect_polls_ = polls;
    }
  } catch (const StopLaunch&) {  // its finding is noted
  }
  report_.instructions = instructions;
  return std::move(report_);
}

void Execution::dispatch() {
  const std::uint64_t size = volume(shape.cluster);
  while (next_cluster_ < clusters_) {
    std::vector<std::int32_t> free;
    for (std::size_t slot = 0; slot < blocks.size() && free.size() < size; ++slot)
      if (!blocks[slot]) free.push_back(static_cast<std::int32_t>(slot));
    if (free.size() < size) return;
    auto group = std::make_shared<Cluster>();
    group->shape = shape.cluster;
    for (std::uint32_t rank = 0; rank < size; ++rank)
      start_block(free[rank], next_cluster_, rank, group);
    ++next_cluster_;
  }
}

void Execution::start_block(std::int32_t slot, std::uint64_t cluster, std::uint32_t rank,
                            const std::shared_ptr<Cluster>& group) {
  auto block = std::make_unique<Block>(*this);
  block->slot = slot;
  const std::array<std::uint32_t, 3> cluster_index{
      static_cast<std::uint32_t>(cluster % cluster_grid_[0]),
      static_cast<std::uint32_t>(cluster / cluster_grid_[0] % cluster_grid_[1]),
      static_cast<std::uint32_t>(cluster / cluster_grid_[0] / cluster_grid_[1])};
  const std::array<std::uint32_t, 3> within{rank % shape.cluster[0],
                                            rank / shape.cluster[0] % shape.cluster[1],
                                            rank / shape.cluster[0] / shape.cluster[1]};
  for (std::size_t axis = 0; axis < 3; ++axis)
    block->index[axis] = cluster_index[axis] * shape.cluster[axis] + within[axis];
  block->cluster_rank = rank;
  block->cluster = group;
  group->blocks.push_back(block.get());
  block->shared.assign(shared_start + shared_bytes_, poison);
  if (options.check_races) block->shadow = std::make_unique<Shadow>(block->shared.size());
  Block& placed = *block;
  blocks[static_cast<std::size_t>(slot)] = std::move(block);
  const auto warps = static_cast<std::int32_t>((volume(shape.block) + 31) / 32);
  for (std::int32_t i = 0; i < warps; ++i) placed.warps.push_back(make_warp(placed, i));
}

std::unique_ptr<Warp> Execution::make_warp(Block& block, std::int32_t index) {
  auto warp = std::make_unique<Warp>(*this, block);
  warp->index = index;
  const std::uint64_t threads = volume(shape.block) - static_cast<std::uint64_t>(index) * 32;
  warp->existing = threads >= 32 ? 0xffff'ffffU : (LaneMask{1} << threads) - 1;
  warp->live = warp->existing;
  warp->registers.assign(entry.register_bytes / 8, 0xffff'ffff'ffff'ffffU);
  warp->local.assign(program.local_bytes * 32, poison);
  warp->call_space.assign(program.call_bytes * 32, poison);
  warp->actor = new_actor(block, 32,
                          fmt::format("block ({}, {}, {}) warp {}", block.index[0], block.index[1],
                                      block.index[2], index));
  warp->clock = warp->birth = actor_clock(warp->actor) + 1;
  Fragment all;
  all.pc = entry.first;
  all.mask = warp->existing;
  warp->fragments.push_back(std::move(all));
  for (const Function& function : program.functions)
    if (!function.is_entry || &function == &entry) fill_presets(*warp, function);
  return warp;
}

void Execution::fill_presets(Warp& warp, const Function& function) {
  for (const Preset& preset : function.presets) {
    for (int lane = 0; lane < 32; ++lane) {
      std::uint64_t value = static_cast<std::uint64_t>(preset.value);
      if (preset.kind == Preset::Kind::GlobalAddress)
        value += variables_[static_cast<std::size_t>(preset.index)];
      if (preset.kind == Preset::Kind::DynamicShared) value += dynamic_start_;
      if (preset.kind == Preset::Kind::Special)
        value = special(warp, static_cast<Special>(preset.index), lane);
      if (preset.wide) warp.lanes<std::uint64_t>(preset.offset)[lane] = value;
      else warp.lanes<std::uint32_t>(preset.offset)[lane] = static_cast<std::uint32_t>(value);
    }
  }
}

std::uint64_t Execution::special(const Warp& warp, Special which, int lane) const {
  const Block& block = warp.block;
  const auto number = static_cast<int>(which);
  const auto thread = static_cast<std::uint32_t>(warp.thread(lane));
  const LaneMask own = LaneMask{1} << lane;
  if (number <= static_cast<int>(Special::ClusterNctaidZ)) {
    const auto axis = static_cast<std::size_t>(number % 3);
    const std::uint32_t tid[3] = {thread % shape.block[0], thread / shape.block[0] % shape.block[1],
                                  thread / shape.block[0] / shape.block[1]};
    switch (static_cast<Special>(number - number % 3)) {
      case Special::TidX: return tid[axis];
      case Special::NtidX: return shape.block[axis];
      case Special::CtaidX: return block.index[axis];
      case Special::NctaidX: return shape.grid[axis];
      case Special::ClusteridX: return block.index[axis] / shape.cluster[axis];
      case Special::NclusteridX: return cluster_grid_[axis];
      case Special::ClusterCtaidX: return block.index[axis] % shape.cluster[axis];
      default: return shape.cluster[axis];
    }
  }
  switch (which) {
    case Special::ClusterCtarank: return block.cluster_rank;
    case Special::ClusterNctarank: return volume(shape.cluster);
    case Special::IsExplicitCluster: return volume(shape.cluster) > 1 ? 1 : 0;
    case Special::Laneid: return static_cast<std::uint64_t>(lane);
    case Special::Warpid: return static_cast<std::uint64_t>(warp.index);
    case Special::Nwarpid: return 64;
    case Special::Smid: return static_cast<std::uint64_t>(block.slot % options.multiprocessors);
    case Special::Nsmid: return static_cast<std::uint64_t>(options.multiprocessors);
    case Special::LanemaskEq: return own;
    case Special::LanemaskLt: return own - 1;
    case Special::LanemaskLe: return own | (own - 1);
    case Special::LanemaskGt: return ~(own | (own - 1));
    case Special::LanemaskGe: return ~(own - 1);
    case Special::DynamicSmemSize: return shape.shared_bytes;
    case Special::TotalSmemSize: return shared_bytes_;
    default: return nanoseconds();  // clocks
  }
}

// Who arrives at a named barrier means somebody to wait for it. And a block's shared memory ends
// with it: what others do there must come before.
void Execution::check_end(const Block& block) {
  for (std::size_t number = 0; number < block.barriers.size(); ++number) {
    if (const NamedBarrier& barrier = block.barriers[number]; barrier.arrived != 0) {
      Agent agent;
      agent.block = block.slot;
      report(
          FindingKind::InvalidUse, agent,
          fmt::format("the block ends with {} of {} threads at barrier {}, for whom nobody waits",
                      barrier.arrived, barrier.expected, number));
    }
  }
  if (!block.shadow || block.cluster->blocks.size() == 1) return;
  Knowledge known;
  for (const std::unique_ptr<Warp>& warp : block.warps)
    for (const Knowledge& seen : warp->seen) known.join(seen);
  Agent agent;
  agent.block = block.slot;
  agent.seen = &known;
  Conflict conflict;
  if (block.shadow->all_ordered(agent, block.actors, history_, conflict)) return;
  report(
      FindingKind::Race, agent,
      fmt::format(
          "the block ends without order after the {} of its shared memory, offset {:#x}, by {}",
          conflict.earlier_writes ? "write" : "read", conflict.byte, describe(conflict.earlier)));
}

void Execution::retire() {
  for (std::unique_ptr<Block>& block : blocks) {
    if (!block || std::any_of(block->warps.begin(), block->warps.end(),
                              [](const auto& warp) { return warp->live != 0; }))
      continue;
    Agent agent;
    agent.block = block->slot;
    for (const std::string& text : agenda.finish_block(block.get()))
      report(FindingKind::InvalidUse, agent, text);
    check_end(*block);
    for (const std::unique_ptr<Warp>& warp : block->warps) {
      actor_clock(warp->actor) = warp->clock;
      for (const OwnGroups& groups : warp->own_groups)
        if (groups.actor.number != 0) actor_clock(groups.actor) = std::ranges::max(groups.open);
    }
    for (const Actor& actor : block->actors)
      free_actors_[static_cast<std::size_t>(block->slot)][actor.lanes].push_back(actor.number);
    block->cluster->blocks[block->cluster_rank] = nullptr;
    block.reset();
    notify();
  }
}

}  // namespace anydim::ptx
