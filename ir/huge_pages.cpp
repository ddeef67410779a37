#include "ir/huge_pages.h"

#include <sys/mman.h>

namespace anydim::ir {

void ask_for_huge_pages(void* memory, std::size_t bytes) { madvise(memory, bytes, MADV_HUGEPAGE); }

}  // namespace anydim::ir
