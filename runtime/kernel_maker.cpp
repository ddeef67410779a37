#include "runtime/kernel_maker.h"

#include <fmt/format.h>

#include <utility>

#include "ir/error.h"

namespace anydim::runtime {

namespace {

std::string printed(const ir::ShapeProgram& program) {
  std::string text = "leaves";
  // A leaf is known by its position: the same arithmetic over other names is the same code.
  std::map<ir::DimLeaf, std::size_t> positions;
  for (const ir::DimLeaf& leaf : program.leaves) positions.emplace(leaf, positions.size());
  text += fmt::format(" {}\n", positions.size());
  for (const ir::Dim& dim : program.expressions) {
    text += dim.substitute([&](const ir::DimLeaf& leaf) -> std::optional<ir::Dim> {
                 const auto found = positions.find(leaf);
                 if (found == positions.end()) return std::nullopt;
                 return ir::Dim::symbol(fmt::format("leaf{}", found->second));
               })
                .to_string() +
            "\n";
  }
  return text;
}

std::shared_ptr<const LoadedShapes> load_shapes(const ir::CompiledKernel& kernel) {
  auto code = std::make_shared<const CodeMemory>(kernel.code);
  const auto entry = code->function<LoadedShapes::Entry>(kernel.cpu().kernel);
  return std::make_shared<LoadedShapes>(
      LoadedShapes{std::move(code), entry, static_cast<std::int64_t>(kernel.code.size())});
}

}  // namespace

KernelMaker::KernelMaker(std::shared_ptr<const ir::Backend> backend, Device& device,
                         const KernelCache* cache, std::shared_ptr<Timeline> timeline)
    : backend_(std::move(backend)), device_(device), cache_(cache), timeline_(std::move(timeline)),
      target_(backend_->target()), generator_(backend_->generator()),
      trials_(*backend_, device, cache) {}

// Notes a kernel, or without a region a shape program.
void KernelMaker::record(TimelineKind kind, std::uint64_t begun, std::int64_t bytes,
                         const ir::Region* region, const ir::DispatchTable::Entry* entry) const {
  if (timeline_ == nullptr || !timeline_->on()) return;
  TimelineNote note{.name = kind == TimelineKind::Compile ? "compile " : "read "};
  note.name += region == nullptr ? "shape program" : region->name;
  if (entry != nullptr)
    note.facts = {{"bucket", to_string(entry->compiled_for())},
                  {"schedule", to_string(entry->schedule)}};
  if (kind == TimelineKind::Compile)
    note.facts.emplace_back("kernel cache", cache_ == nullptr ? "off" : "missed");
  timeline_->add({.kind = kind,
                  .note = timeline_->note(std::move(note)),
                  .thread = this_thread(),
                  .begun = begun,
                  .ticks = clock_ticks() - begun,
                  .values = {bytes}});
}

KernelKey KernelMaker::key_of(const ir::Region& region,
                              const ir::DispatchTable::Entry& entry) const {
  return kernel_key("kernel", region.identity, to_string(entry.compiled_for()),
                    to_string(entry.schedule), target_, generator_);
}

KernelKey KernelMaker::key_of(const ir::ShapeProgram& shapes) const {
  return kernel_key("shapes", printed(shapes), "", "", target_, generator_);
}

std::shared_ptr<const LoadedKernel> KernelMaker::loaded(const KernelKey& key) {
  const std::lock_guard lock(mutex_);
  const auto known = loaded_.find(key);
  return known == loaded_.end() ? nullptr : known->second.lock();
}

std::shared_ptr<const LoadedKernel> KernelMaker::load(
    const ir::Region& region, const ir::DispatchTable::Entry& entry, const KernelKey& key,
    const ir::CompiledKernel& kernel, KernelOrigin origin, std::optional<KernelTrial> trial) {
  auto made = std::make_shared<const LoadedKernel>(
      LoadedKernel{device_.load(region, entry, kernel, std::move(trial)), kernel.resources, origin,
                   key, static_cast<std::int64_t>(kernel.code.size())});
  const std::lock_guard lock(mutex_);
  std::erase_if(loaded_, [](const auto& known) { return known.second.expired(); });
  loaded_[key] = made;
  return made;
}

std::shared_ptr<const LoadedKernel> KernelMaker::find(const ir::Region& region,
                                                      const ir::DispatchTable::Entry& entry) {
  const KernelKey key = key_of(region, entry);
  if (auto known = loaded(key)) return known;
  if (cache_ == nullptr) return nullptr;
  const std::uint64_t begun = clock_ticks();
  const auto kernel = cache_->load(key);
  if (!kernel) return nullptr;
  KernelTrials::Cached cached = trials_.cached_trial_of(region, entry, *kernel);
  if (!cached.complete) return nullptr;
  try {
    auto made = load(region, entry, key, *kernel, KernelOrigin::Cache, std::move(cached.trial));
    record(TimelineKind::CacheRead, begun, made->bytes, &region, &entry);
    return made;
  } catch (const Error& error) {
    // A device that takes no such code: compiling tells why, if that fails too.
    if (error.kind() != ErrorKind::Resource) throw;
    return nullptr;
  }
}

std::shared_ptr<const LoadedKernel> KernelMaker::make(const ir::Region& region,
                                                      const ir::DispatchTable::Entry& entry) {
  if (auto known = find(region, entry)) return known;
  const std::uint64_t begun = clock_ticks();
  const KernelKey key = key_of(region, entry);
  std::optional<ir::CompiledKernel> kernel;
  if (trials_.wanted() && cache_ != nullptr)
    kernel = cache_->load(key);  // where its checked form alone is missing
  const KernelOrigin origin = kernel ? KernelOrigin::Cache : KernelOrigin::Compiled;
  if (!kernel) kernel = backend_->compile(region, entry.compiled_for(), entry.schedule);
  compiler_calls_.fetch_add(1, std::memory_order_relaxed);
  auto made = load(region, entry, key, *kernel, origin, trials_.trial_of(region, entry, *kernel));
  record(origin == KernelOrigin::Compiled ? TimelineKind::Compile : TimelineKind::CacheRead, begun,
         made->bytes, &region, &entry);
  if (cache_ != nullptr && origin == KernelOrigin::Compiled) cache_->store(key, *kernel);
  return made;
}

std::shared_ptr<const LoadedShapes> KernelMaker::find(const ir::ShapeProgram& shapes) const {
  const auto kernel = cache_ == nullptr ? std::nullopt : cache_->load(key_of(shapes));
  return kernel ? load_shapes(*kernel) : nullptr;
}

std::shared_ptr<const LoadedShapes> KernelMaker::make(const ir::ShapeProgram& shapes) {
  if (auto known = find(shapes)) return known;
  const std::uint64_t begun = clock_ticks();
  const auto kernel = backend_->compile_shapes(shapes);
  compiler_calls_.fetch_add(1, std::memory_order_relaxed);
  if (!kernel) return nullptr;
  auto made = load_shapes(*kernel);
  record(TimelineKind::Compile, begun, made->bytes, nullptr, nullptr);
  if (cache_ != nullptr) cache_->store(key_of(shapes), *kernel);
  return made;
}

}  // namespace anydim::runtime
