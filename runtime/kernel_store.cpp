#include "runtime/kernel_store.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "ir/error.h"

namespace anydim::runtime {

namespace {

// Calls get the processor first; the table has time.
constexpr int background_niceness = 10;

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

}  // namespace

KernelStore::KernelStore(const ir::Program& program, std::shared_ptr<const ir::Backend> backend, Device& device, const KernelCache* cache,
                         WorkerPool& pool, Warning warn)
    : program_(program), backend_(std::move(backend)), device_(device), cache_(cache), pool_(pool), warn_(std::move(warn)),
      target_(backend_->target()), generator_(backend_->generator()) {
  auto tables = std::make_shared<KernelTables>();
  std::size_t entries = 0;
  for (const ir::Program::Kernel& kernel : program.kernels) {
    internal_check(!kernel.table.entries.empty(), "a dispatch table has a general entry");
    first_entry_.push_back(entries);
    entries += kernel.table.entries.size();
    tables->kernels.emplace_back(kernel.table.entries.size());
  }
  wanted_ = std::vector<std::atomic<std::uint32_t>>(entries);
  tables->shapes.resize(program.stages.size());
  progress_.entries = static_cast<std::int64_t>(entries);
  tables_ = std::move(tables);
}

KernelStore::~KernelStore() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  if (background_.joinable()) background_.join();
}

KernelKey KernelStore::key_of(const Item& item) const {
  if (item.kernel < 0) {
    return kernel_key("shapes", printed(program_.stages[static_cast<std::size_t>(item.entry)].shapes), "", "", target_, generator_);
  }
  const ir::Program::Kernel& kernel = program_.kernels[static_cast<std::size_t>(item.kernel)];
  const ir::DispatchTable::Entry& entry = kernel.table.entries[static_cast<std::size_t>(item.entry)];
  return kernel_key("kernel", kernel.region.identity, to_string(entry.bucket), to_string(entry.schedule), target_, generator_);
}

void KernelStore::load(bool background) {
  std::vector<Item> general, rest;
  for (std::size_t k = 0; k < program_.kernels.size(); ++k) {
    const std::size_t entries = program_.kernels[k].table.entries.size();
    for (std::size_t e = 0; e < entries; ++e) {
      const Item item{static_cast<std::int32_t>(k), static_cast<std::int32_t>(e)};
      if (!load_cached(item)) (e + 1 == entries ? general : rest).push_back(item);
    }
  }
  for (std::size_t stage = 0; stage < program_.stages.size(); ++stage) {
    const Item item{-1, static_cast<std::int32_t>(stage)};
    if (!program_.stages[stage].shapes.expressions.empty() && !load_cached(item)) rest.push_back(item);
  }
  compile_general(general);
  const std::lock_guard lock(mutex_);
  pending_ = std::move(rest);
  if (background && !pending_.empty()) background_ = std::thread([this] { work_in_background(); });
}

bool KernelStore::load_cached(const Item& item) {
  if (cache_ == nullptr) return false;
  const auto kernel = cache_->load(key_of(item));
  if (!kernel) return false;
  try {
    place(item, *kernel, KernelOrigin::Cache);
    return true;
  } catch (const Error& error) {
    // A device that takes no such code: compiling tells why, if that fails too.
    if (error.kind() != ErrorKind::Resource) throw;
    return false;
  }
}

void KernelStore::compile_general(const std::vector<Item>& items) {
  std::mutex mutex;
  std::exception_ptr first_failure;
  pool_.run(static_cast<std::int64_t>(items.size()), [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      try {
        compile(items[static_cast<std::size_t>(i)]);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!first_failure) first_failure = std::current_exception();
      }
    }
  });
  if (first_failure) std::rethrow_exception(first_failure);
}

void KernelStore::compile(const Item& item) {
  std::optional<ir::CompiledKernel> compiled;
  if (item.kernel < 0) {
    compiled = backend_->compile_shapes(program_.stages[static_cast<std::size_t>(item.entry)].shapes);
  } else {
    const ir::Program::Kernel& kernel = program_.kernels[static_cast<std::size_t>(item.kernel)];
    const ir::DispatchTable::Entry& entry = kernel.table.entries[static_cast<std::size_t>(item.entry)];
    compiled = backend_->compile(kernel.region, entry.bucket, entry.schedule);
  }
  {
    const std::lock_guard lock(mutex_);
    ++progress_.compiler_calls;
  }
  if (!compiled) return;
  place(item, *compiled, KernelOrigin::Compiled);
  if (cache_ != nullptr) cache_->store(key_of(item), *compiled);
}

void KernelStore::place(const Item& item, const ir::CompiledKernel& kernel, KernelOrigin origin) {
  const auto index = static_cast<std::size_t>(item.entry);
  std::shared_ptr<const LoadedKernel> loaded;
  std::shared_ptr<const LoadedShapes> shapes;
  if (item.kernel < 0) {
    const auto code = std::make_shared<const CodeMemory>(kernel.code);
    shapes = std::make_shared<LoadedShapes>(LoadedShapes{code, code->function<LoadedShapes::Entry>(kernel.entry_offset)});
  } else {
    const ir::Program::Kernel& planned = program_.kernels[static_cast<std::size_t>(item.kernel)];
    loaded = std::make_shared<LoadedKernel>(
        LoadedKernel{device_.load(planned.region, planned.table.entries[index], kernel), kernel.resources, origin});
  }
  const std::lock_guard lock(mutex_);
  auto tables = std::make_shared<KernelTables>(*tables_);
  progress_.code_bytes += static_cast<std::int64_t>(kernel.code.size());
  if (item.kernel < 0) {
    tables->shapes[index] = std::move(shapes);
  } else {
    tables->kernels[static_cast<std::size_t>(item.kernel)][index] = std::move(loaded);
    ++(origin == KernelOrigin::Cache ? progress_.from_cache : progress_.compiled);
  }
  tables_ = std::move(tables);
  version_.fetch_add(1, std::memory_order_release);
}

std::optional<KernelStore::Item> KernelStore::next_pending() {
  const std::lock_guard lock(mutex_);
  if (pending_.empty() || stopping_) return std::nullopt;
  // Shape programs come last of those equally wanted: the interpreter serves them well.
  const auto demand = [&](const Item& item) {
    return item.kernel < 0 ? 0 : wanted_[first_entry_[static_cast<std::size_t>(item.kernel)] + static_cast<std::size_t>(item.entry)].load();
  };
  const auto chosen =
      std::max_element(pending_.begin(), pending_.end(), [&](const Item& a, const Item& b) { return demand(a) < demand(b); });
  const Item item = *chosen;
  pending_.erase(chosen);
  ++in_flight_;
  return item;
}

void KernelStore::compile_pending(const Item& item) {
  std::string fault;
  try {
    compile(item);
  } catch (const std::exception& error) {
    fault = error.what();
  }
  if (!fault.empty() && warn_) {
    const std::string what = item.kernel < 0 ? "a shape program" : program_.kernels[static_cast<std::size_t>(item.kernel)].region.name;
    warn_(fmt::format("a kernel for one bucket of {} did not compile, its general kernel serves: {}", what, fault));
  }
  const std::lock_guard lock(mutex_);
  if (!fault.empty()) ++progress_.failed;
  --in_flight_;
  changed_.notify_all();
}

void KernelStore::work_in_background() {
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), background_niceness);
  while (const auto item = next_pending()) compile_pending(*item);
  bool finished = false;
  {
    const std::lock_guard lock(mutex_);
    finished = !stopping_;
  }
  if (finished && cache_ != nullptr) cache_->trim();
}

void KernelStore::complete() {
  pool_.run(pool_.threads(), [this](std::int64_t, std::int64_t, int) {
    while (const auto item = next_pending()) compile_pending(*item);
  });
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return pending_.empty() && in_flight_ == 0; });
}

std::shared_ptr<const KernelTables> KernelStore::tables() const {
  const std::lock_guard lock(mutex_);
  return tables_;
}

KernelProgress KernelStore::progress() const {
  const std::lock_guard lock(mutex_);
  KernelProgress progress = progress_;
  progress.pending = static_cast<std::int64_t>(pending_.size()) + in_flight_;
  return progress;
}

}  // namespace anydim::runtime
