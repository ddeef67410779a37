#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "ir/error.h"
#include "tests/ptx/execution.h"
#include "tests/ptx/interpreter.h"
#include "tests/ptx/memory.h"

namespace anydim::ptx {

std::string_view finding_name(FindingKind kind) {
  switch (kind) {
    case FindingKind::OutOfBounds: return "out of bounds";
    case FindingKind::Misaligned: return "misaligned";
    case FindingKind::Uninitialised: return "uninitialised read";
    case FindingKind::Race: return "race";
    case FindingKind::MissingProxyFence: return "missing proxy fence";
    case FindingKind::Divergence: return "divergence";
    case FindingKind::RegisterInFlight: return "register in flight";
    case FindingKind::Deadlock: return "deadlock";
    case FindingKind::Limit: return "limit";
    case FindingKind::Trap: return "trap";
    case FindingKind::TooEarly: return "too early";
    case FindingKind::InvalidLaunch: return "invalid launch";
    case FindingKind::InvalidUse: return "invalid use";
  }
  return "";
}

bool Report::has(FindingKind kind) const {
  return std::any_of(findings.begin(), findings.end(),
                     [&](const Finding& finding) { return finding.kind == kind; });
}

std::string Report::text() const {
  std::string result;
  for (const Finding& finding : findings) {
    result += fmt::format("{}: ", finding_name(finding.kind));
    if (finding.line != 0) result += fmt::format("line {}, ", finding.line);
    if (finding.warp >= 0) {
      result += fmt::format("block ({}, {}, {}) warp {}", finding.block[0], finding.block[1],
                            finding.block[2], finding.warp);
      result += finding.lane >= 0 ? fmt::format(" lane {}: ", finding.lane) : ": ";
    }
    result += finding.message + "\n";
  }
  return result;
}

Machine::Machine(MachineOptions options) : state_(std::make_unique<MachineState>()) {
  state_->options = std::move(options);
}
Machine::~Machine() = default;
Machine::Machine(Machine&&) noexcept = default;
Machine& Machine::operator=(Machine&&) noexcept = default;

MachineOptions& Machine::options() { return state_->options; }

DeviceAddress Machine::allocate(std::uint64_t bytes, std::uint64_t alignment) {
  return state_->memory.allocate(bytes, alignment);
}

void Machine::free(DeviceAddress address) { state_->memory.free(address); }

void Machine::mark_steady(DeviceAddress address) {
  Allocation* allocation = state_->memory.find(address);
  internal_check(allocation != nullptr, "a steady address lies within an allocation");
  allocation->steady = true;
}

void Machine::write(DeviceAddress address, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  Allocation* allocation = state_->memory.find(address);
  internal_check(allocation != nullptr &&
                     bytes.size() <= allocation->base + allocation->bytes.size() - address,
                 "a host write lies within an allocation");
  std::memcpy(allocation->bytes.data() + (address - allocation->base), bytes.data(), bytes.size());
  if (bytes.size() == allocation->bytes.size()) {
    allocation->initialised = true;
  } else if (!allocation->initialised) {
    if (!allocation->shadow)
      allocation->shadow = std::make_unique<Shadow>(allocation->bytes.size());
    allocation->shadow->mark_written(address - allocation->base, bytes.size());
  }
}

void Machine::read(DeviceAddress address, std::span<std::byte> bytes) const {
  if (bytes.empty()) return;
  const Allocation* allocation = std::as_const(state_->memory).find(address);
  internal_check(allocation != nullptr &&
                     bytes.size() <= allocation->base + allocation->bytes.size() - address,
                 "a host read lies within an allocation");
  std::memcpy(bytes.data(), allocation->bytes.data() + (address - allocation->base), bytes.size());
}

Report Machine::launch(const Module& module, std::string_view entry, const LaunchShape& shape,
                       std::span<const std::byte> parameters) {
  const Function* function = module.program->entry(entry);
  internal_check(function != nullptr, "the module has an entry of that name");
  internal_check(function->parameter_bytes == parameters.size(),
                 "the parameter block has the size that the kernel declares");
  LoadedModule& loaded = state_->modules[module.program.get()];
  if (!loaded.program) {
    loaded.program = module.program;
    for (const GlobalVariable& variable : module.program->variables) {
      const DeviceAddress address =
          allocate(variable.bytes, std::max<std::uint64_t>(variable.alignment, 16));
      std::vector<std::byte> bytes(variable.bytes);
      const std::span initial = std::as_bytes(std::span(variable.initial));
      std::copy_n(initial.data(), std::min(initial.size(), bytes.size()), bytes.data());
      write(address, bytes);
      loaded.variables.push_back(address);
    }
  }
  for (auto& [base, allocation] : state_->memory.allocations()) {
    if (allocation.shadow) allocation.shadow->new_launch();
    if (!state_->options.check_races)
      allocation.initialised = true;  // what such a launch writes is not followed
  }
  const MachineOptions& options = state_->options;
  if (options.check_overlap && !options.early) state_->memory.forget_launches();
  Execution execution(*state_, *module.program, *function, shape, parameters);
  Report report = execution.run();
  if (options.check_overlap) state_->memory.note_launch(execution.any_grid_wait);
  return report;
}

}  // namespace anydim::ptx
