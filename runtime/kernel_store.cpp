#include "runtime/kernel_store.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "ir/error.h"

namespace anydim::runtime {

namespace {

// Calls get the processor first; the table has time.
constexpr int background_niceness = 10;
// How long the thread in the background stays for contexts that have not called since their tables were replaced.
constexpr std::chrono::milliseconds wait_for_tables{100};
constexpr int most_waits = 50;

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
      target_(backend_->target()), generator_(backend_->generator()), trials_(*backend_, device, cache) {
  std::vector<ir::DispatchTable> own;
  for (const ir::Program::Kernel& kernel : program.kernels) own.push_back(kernel.table);
  auto tables = std::make_shared<KernelTables>();
  tables->dispatch = std::make_shared<const DispatchSet>(program, std::move(own), target_, generator_);
  for (const auto& rows : tables->dispatch->code) tables->kernels.emplace_back(rows.size());
  tables->shapes.resize(program.stages.size());
  progress_.entries = static_cast<std::int64_t>(tables->dispatch->codes.size());
  tables_ = std::move(tables);
}

KernelStore::~KernelStore() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (background_.joinable()) background_.join();
}

KernelKey KernelStore::key_of(const Item& item) const {
  if (!item.is_shapes()) return item.of().key;
  return kernel_key("shapes", printed(program_.stages[static_cast<std::size_t>(item.stage)].shapes), "", "", target_, generator_);
}

const ir::Region& KernelStore::region_of(const Item& item) const {
  return program_.kernels[static_cast<std::size_t>(item.of().kernel)].region;
}

void KernelStore::load(bool background) {
  std::vector<Item> general, rest;
  const std::shared_ptr<const DispatchSet> set = tables_->dispatch;
  for (std::size_t code = 0; code < set->codes.size(); ++code) {
    const Item item{.set = set, .code = code};
    if (!load_cached(item)) (item.of().general ? general : rest).push_back(item);
  }
  for (std::size_t stage = 0; stage < program_.stages.size(); ++stage) {
    const Item item{.stage = static_cast<std::int32_t>(stage)};
    if (!program_.stages[stage].shapes.expressions.empty() && !load_cached(item)) rest.push_back(item);
  }
  compile_general(general);
  const std::lock_guard lock(mutex_);
  pending_ = std::move(rest);
  has_background_ = background;
  if (has_background_) start_background();
}

// With mutex_ held, and no thread that still works.
void KernelStore::start_background() {
  if (pending_.empty() && replaced_.empty()) return;
  working_ = true;
  background_ = std::thread([this] { work_in_background(); });
}

void KernelStore::retune(std::vector<ir::DispatchTable> tables) {
  const std::lock_guard one_at_a_time(retuning_);
  const auto set = std::make_shared<const DispatchSet>(program_, std::move(tables), target_, generator_);
  std::vector<Item> missing;
  {
    const std::lock_guard lock(mutex_);
    auto next = std::make_shared<KernelTables>();
    next->dispatch = set;
    next->shapes = tables_->shapes;
    for (const auto& rows : set->code) next->kernels.emplace_back(rows.size());
    for (std::size_t code = 0; code < set->codes.size(); ++code) {
      const DispatchSet::Code& wanted = set->codes[code];
      const auto k = static_cast<std::size_t>(wanted.kernel);
      // By what is loaded, not by what the rows named: a row may be served by a stand-in.
      std::shared_ptr<const LoadedKernel> known;
      for (const auto& loaded : tables_->kernels[k])
        if (loaded != nullptr && loaded->key == wanted.key) known = loaded;
      if (known == nullptr) missing.push_back({.set = set, .code = code});
      for (std::size_t row = 0; row < set->code[k].size(); ++row)
        if (set->code[k][row] == code)
          next->kernels[k][row] = known != nullptr || row + 1 < set->code[k].size() ? known : tables_->kernels[k].back();
    }
    std::erase_if(pending_, [](const Item& item) { return !item.is_shapes(); });
    progress_.entries = static_cast<std::int64_t>(set->codes.size());
    replaced_.push_back(tables_);
    returned_.push_back(std::exchange(tables_, std::move(next)));
    version_.fetch_add(1, std::memory_order_release);
  }
  free_returned();
  std::erase_if(missing, [&](const Item& item) { return load_cached(item); });
  // Those that stand-ins serve come first of those equally wanted.
  std::ranges::sort(missing, {}, [](const Item& item) { return std::pair(!item.of().general, item.code); });
  std::thread finished;
  {
    const std::lock_guard lock(mutex_);
    pending_.insert(pending_.begin(), missing.begin(), missing.end());
    changed_.notify_all();
    if (!has_background_ || working_) return;
    finished = std::move(background_);
  }
  if (finished.joinable()) finished.join();
  const std::lock_guard lock(mutex_);
  start_background();
}

bool KernelStore::load_cached(const Item& item) {
  if (cache_ == nullptr) return false;
  const auto kernel = cache_->load(key_of(item));
  if (!kernel) return false;
  KernelTrials::Cached cached;
  if (!item.is_shapes()) cached = trials_.cached_trial_of(region_of(item), item.entry(), *kernel);
  if (!cached.complete) return false;
  try {
    place(item, *kernel, KernelOrigin::Cache, std::move(cached.trial));
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
  std::optional<ir::CompiledKernel> kernel;
  auto origin = KernelOrigin::Compiled;
  if (item.is_shapes()) {
    kernel = backend_->compile_shapes(program_.stages[static_cast<std::size_t>(item.stage)].shapes);
  } else {
    if (trials_.wanted() && cache_ != nullptr) kernel = cache_->load(item.of().key);  // where its twin alone is missing
    if (kernel) origin = KernelOrigin::Cache;
    else kernel = backend_->compile(region_of(item), item.entry().compiled_for(), item.entry().schedule);
  }
  {
    const std::lock_guard lock(mutex_);
    ++progress_.compiler_calls;
  }
  if (!kernel) return;
  std::optional<KernelTrial> trial;
  if (!item.is_shapes()) trial = trials_.trial_of(region_of(item), item.entry(), *kernel);
  place(item, *kernel, origin, std::move(trial));
  if (cache_ != nullptr && origin == KernelOrigin::Compiled) cache_->store(key_of(item), *kernel);
}

void KernelStore::place(const Item& item, const ir::CompiledKernel& kernel, KernelOrigin origin, std::optional<KernelTrial> trial) {
  std::shared_ptr<const LoadedKernel> loaded;
  std::shared_ptr<const LoadedShapes> shapes;
  if (item.is_shapes()) {
    const auto code = std::make_shared<const CodeMemory>(kernel.code);
    shapes = std::make_shared<LoadedShapes>(LoadedShapes{code, code->function<LoadedShapes::Entry>(kernel.cpu().kernel)});
  } else {
    loaded =
        std::make_shared<LoadedKernel>(LoadedKernel{device_.load(region_of(item), item.entry(), kernel, std::move(trial)), kernel.resources,
                                                    origin, item.of().key, static_cast<std::int64_t>(kernel.code.size())});
  }
  const std::lock_guard lock(mutex_);
  auto tables = std::make_shared<KernelTables>(*tables_);
  progress_.code_bytes += static_cast<std::int64_t>(kernel.code.size());
  if (item.is_shapes()) {
    tables->shapes[static_cast<std::size_t>(item.stage)] = std::move(shapes);
  } else {
    // The tables may have been replaced since: the code goes wherever it is named now.
    const auto k = static_cast<std::size_t>(item.of().kernel);
    const DispatchSet& now = *tables->dispatch;
    for (std::size_t row = 0; row < now.code[k].size(); ++row)
      if (now.codes[now.code[k][row]].key == item.of().key) tables->kernels[k][row] = loaded;
    ++(origin == KernelOrigin::Cache ? progress_.from_cache : progress_.compiled);
  }
  tables_ = std::move(tables);
  version_.fetch_add(1, std::memory_order_release);
}

std::optional<KernelStore::Item> KernelStore::next_pending() {
  const std::lock_guard lock(mutex_);
  if (pending_.empty() || stopping_) return std::nullopt;
  // Shape programs come last of those equally wanted: the interpreter serves them well.
  const auto demand = [&](const Item& item) { return item.is_shapes() ? 0 : item.set->wanted[item.code].load(); };
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
    const std::string what = item.is_shapes() ? "a shape program" : region_of(item).name;
    warn_(fmt::format("a kernel for one bucket of {} did not compile, its general kernel serves: {}", what, fault));
  }
  const std::lock_guard lock(mutex_);
  if (!fault.empty()) ++progress_.failed;
  --in_flight_;
  changed_.notify_all();
}

void KernelStore::work_in_background() {
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), background_niceness);
  int waits = 0;
  for (;;) {
    while (const auto item = next_pending()) {
      compile_pending(*item);
      free_returned();
    }
    std::unique_lock lock(mutex_);
    if (!pending_.empty() && !stopping_) continue;
    // Contexts give replaced tables back with their next calls.
    std::erase_if(replaced_, [](const auto& tables) { return tables.expired(); });
    if (!replaced_.empty() && !stopping_ && waits++ < most_waits) {
      changed_.wait_for(lock, wait_for_tables, [&] { return stopping_ || !pending_.empty() || !returned_.empty(); });
      lock.unlock();
      free_returned();
      continue;
    }
    replaced_.clear();
    working_ = false;
    if (stopping_) return;
    break;
  }
  if (cache_ != nullptr) cache_->trim();
}

void KernelStore::give_back(std::shared_ptr<const KernelTables> tables) {
  // Nobody is woken, which would cost the call that gives them back as much as a small launch: the background thread looks by itself.
  const std::lock_guard lock(mutex_);
  returned_.push_back(std::move(tables));
}

void KernelStore::free_returned() {
  std::vector<std::shared_ptr<const KernelTables>> gone;  // outlives the lock
  const std::lock_guard lock(mutex_);
  gone.swap(returned_);
}

void KernelStore::complete() {
  pool_.run(pool_.threads(), [this](std::int64_t, std::int64_t, int) {
    while (const auto item = next_pending()) compile_pending(*item);
  });
  free_returned();
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
