#include "codegen_cuda/attention_skeletons.h"
#include "codegen_cuda/library_product.h"
#include "codegen_cuda/matmul_skeletons.h"
#include "codegen_cuda/skeleton.h"

namespace anydim::codegen_cuda {

std::optional<std::string> threads_misfit(std::int64_t threads) {
  if (threads < 32 || threads > 1024 || threads % 32 != 0) return "a block has 32 to 1024 threads, in whole warps";
  return std::nullopt;
}

std::vector<std::unique_ptr<Skeleton>> all_skeletons() {
  std::vector<std::unique_ptr<Skeleton>> skeletons;
  skeletons.push_back(make_map_skeleton());
  skeletons.push_back(make_rows_skeleton());
  skeletons.push_back(make_ordered_skeleton());
  skeletons.push_back(make_compact_skeleton());
  skeletons.push_back(make_sort_skeleton());
  skeletons.push_back(make_matmul_mma_skeleton());
  skeletons.push_back(make_matmul_wgmma_skeleton());
  skeletons.push_back(make_matmul_tf32_skeleton());
  skeletons.push_back(make_matmul_simt_skeleton());
  skeletons.push_back(make_library_skeleton());
  skeletons.push_back(make_attention_wgmma_skeleton());
  skeletons.push_back(make_attention_mma_skeleton());
  skeletons.push_back(make_attention_simt_skeleton());
  return skeletons;
}

}  // namespace anydim::codegen_cuda
