#include "tuner/compile_ahead.h"

namespace anydim::tuner {

void CompileAhead::expect(const ir::Region& region, const ir::DispatchTable::Entry& entry) {
  const runtime::KernelKey key = maker_.key_of(region, entry);
  if (begun_.contains(key) || maker_.loaded(key) != nullptr) return;
  begun_.emplace(key, std::async(std::launch::async,
                                 [this, &region, entry] { return maker_.make(region, entry); }));
}

CompileAhead::Kernel CompileAhead::make(const ir::Region& region,
                                        const ir::DispatchTable::Entry& entry) {
  auto begun = begun_.extract(maker_.key_of(region, entry));
  Kernel kernel = begun ? begun.mapped().get() : maker_.make(region, entry);
  std::erase(kept_, kernel);
  kept_.push_back(kernel);
  if (kept_.size() > most_kept) kept_.pop_front();
  return kernel;
}

}  // namespace anydim::tuner
