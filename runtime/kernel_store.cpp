#include "runtime/kernel_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace anydim::runtime {

namespace {

const ir::DispatchTable::Entry& entry_of(const DispatchSet& set, const DispatchSet::Code& code) {
  return set.tables[static_cast<std::size_t>(code.kernel)]
      .entries[static_cast<std::size_t>(code.entry)];
}

}  // namespace

KernelStore::KernelStore(const ir::Program& program, std::vector<bool> exact,
                         std::shared_ptr<const ir::Backend> backend, Device& device,
                         const KernelCache* cache, WorkerPool& pool, Warning warn,
                         std::shared_ptr<Timeline> timeline)
    : program_(program), pool_(pool), maker_(std::move(backend), device, cache, timeline),
      exact_(program, std::move(exact), maker_, queue_, pool.threads()),
      queue_(
          std::move(warn),
          [cache] {
            if (cache != nullptr) cache->trim();
          },
          [timeline] {
            if (timeline != nullptr) timeline->name_thread("background");
          }) {
  std::vector<ir::DispatchTable> own;
  for (const ir::Program::Kernel& kernel : program.kernels) own.push_back(kernel.table);
  auto tables = std::make_shared<KernelTables>();
  tables->dispatch = std::make_shared<const DispatchSet>(program, std::move(own), maker_);
  for (const auto& rows : tables->dispatch->code) tables->kernels.emplace_back(rows.size());
  tables->shapes.resize(program.stages.size());
  progress_.entries = static_cast<std::int64_t>(tables->dispatch->codes.size());
  tables_ = std::move(tables);
}

BackgroundQueue::Task KernelStore::task_of(const Set& set, std::size_t code) {
  const DispatchSet::Code& one = set->codes[code];
  return {.run =
              [this, set, code] {
                const DispatchSet::Code& one = set->codes[code];
                place(maker_.make(region_of(one), entry_of(*set, one)),
                      static_cast<std::size_t>(one.kernel));
              },
          .failure = fmt::format(
              "a kernel for one bucket of {} did not compile, its general kernel serves",
              region_of(one).name),
          .demand = [set, code] { return 1 + set->wanted[code].load(std::memory_order_relaxed); },
          .group = set.get()};
}

// They come last of those equally wanted: the interpreter serves them well.
BackgroundQueue::Task KernelStore::task_of_shapes(std::size_t stage) {
  return {.run = [this, stage] { place(maker_.make(program_.stages[stage].shapes), stage); },
          .failure = "a shape program did not compile, its interpreter serves",
          .demand = [] { return 0U; }};
}

void KernelStore::load(bool background, const Cancellation* cancellation) {
  const Set set = tables_->dispatch;
  std::vector<std::size_t> general;
  std::vector<BackgroundQueue::Task> rest;
  for (std::size_t code = 0; code < set->codes.size(); ++code) {
    if (find(*set, set->codes[code])) continue;
    if (set->codes[code].general) general.push_back(code);
    else rest.push_back(task_of(set, code));
  }
  for (std::size_t stage = 0; stage < program_.stages.size(); ++stage) {
    const ir::ShapeProgram& shapes = program_.stages[stage].shapes;
    if (shapes.expressions.empty()) continue;
    if (const auto found = maker_.find(shapes)) place(found, stage);
    else rest.push_back(task_of_shapes(stage));
  }
  compile_general(set, general, cancellation);
  queue_.add(std::move(rest));
  if (background) queue_.start();
}

void KernelStore::retune(std::vector<ir::DispatchTable> tables) {
  const std::lock_guard one_at_a_time(retuning_);
  const auto set = std::make_shared<const DispatchSet>(program_, std::move(tables), maker_);
  std::shared_ptr<const KernelTables> before;
  std::vector<std::size_t> missing;
  {
    const std::lock_guard lock(mutex_);
    auto next = std::make_shared<KernelTables>();
    next->dispatch = set;
    next->shapes = tables_->shapes;
    for (const auto& rows : set->code) next->kernels.emplace_back(rows.size());
    for (std::size_t code = 0; code < set->codes.size(); ++code) {
      const auto k = static_cast<std::size_t>(set->codes[code].kernel);
      const std::shared_ptr<const LoadedKernel> known = maker_.loaded(set->codes[code].key);
      if (known == nullptr) missing.push_back(code);
      for (std::size_t row = 0; row < set->code[k].size(); ++row)
        if (set->code[k][row] == code)
          next->kernels[k][row] = known != nullptr || row + 1 < set->code[k].size()
                                      ? known
                                      : tables_->kernels[k].back();
    }
    progress_.entries = static_cast<std::int64_t>(set->codes.size());
    before = publish(std::move(next));
  }
  queue_.drop(before->dispatch.get());
  std::erase_if(missing, [&](std::size_t code) { return find(*set, set->codes[code]); });
  // Those that stand-ins serve come first of those equally wanted.
  std::ranges::sort(missing, {},
                    [&](std::size_t code) { return std::pair(!set->codes[code].general, code); });
  std::vector<BackgroundQueue::Task> tasks;
  for (const std::size_t code : missing) tasks.push_back(task_of(set, code));
  queue_.add(std::move(tasks));
  exact_.forget();
  queue_.free_later(std::move(before));
  queue_.expect_more();  // contexts give the tables of before back with their next calls
}

bool KernelStore::find(const DispatchSet& set, const DispatchSet::Code& code) {
  const auto found = maker_.find(region_of(code), entry_of(set, code));
  if (found != nullptr) place(found, static_cast<std::size_t>(code.kernel));
  return found != nullptr;
}

void KernelStore::compile_general(const Set& set, const std::vector<std::size_t>& codes,
                                  const Cancellation* cancellation) {
  std::mutex mutex;
  std::exception_ptr first_failure;
  pool_.run(static_cast<std::int64_t>(codes.size()),
            [&](std::int64_t begin, std::int64_t end, int) {
              for (std::int64_t i = begin; i < end; ++i) {
                try {
                  check_cancelled(cancellation);
                  task_of(set, codes[static_cast<std::size_t>(i)]).run();
                } catch (...) {
                  const std::lock_guard lock(mutex);
                  if (!first_failure) first_failure = std::current_exception();
                }
              }
            });
  if (first_failure) std::rethrow_exception(first_failure);
}

// With mutex_ held. Returns the tables of before.
std::shared_ptr<const KernelTables> KernelStore::publish(
    std::shared_ptr<const KernelTables> tables) {
  version_.fetch_add(1, std::memory_order_release);
  return std::exchange(tables_, std::move(tables));
}

// The tables may have been replaced since it was asked for: the code goes wherever it is named now.
void KernelStore::place(const std::shared_ptr<const LoadedKernel>& loaded, std::size_t kernel) {
  const std::lock_guard lock(mutex_);
  auto tables = std::make_shared<KernelTables>(*tables_);
  const DispatchSet& now = *tables->dispatch;
  bool fresh = false;
  for (std::size_t row = 0; row < now.code[kernel].size(); ++row)
    if (now.codes[now.code[kernel][row]].key == loaded->key)
      fresh = std::exchange(tables->kernels[kernel][row], loaded) != loaded || fresh;
  if (!fresh) return;
  ++(loaded->origin == KernelOrigin::Cache ? progress_.from_cache : progress_.compiled);
  progress_.code_bytes += loaded->bytes;
  publish(std::move(tables));
}

void KernelStore::place(const std::shared_ptr<const LoadedShapes>& loaded, std::size_t stage) {
  if (loaded == nullptr) return;
  const std::lock_guard lock(mutex_);
  auto tables = std::make_shared<KernelTables>(*tables_);
  tables->shapes[stage] = loaded;
  progress_.code_bytes += loaded->bytes;
  publish(std::move(tables));
}

std::shared_ptr<const KernelTables> KernelStore::tables() const {
  const std::lock_guard lock(mutex_);
  return tables_;
}

KernelProgress KernelStore::progress() const {
  const std::lock_guard lock(mutex_);
  KernelProgress progress = progress_;
  progress.failed = queue_.failed();
  progress.pending = queue_.pending();
  progress.compiler_calls = maker_.compiler_calls();
  return progress;
}

}  // namespace anydim::runtime
