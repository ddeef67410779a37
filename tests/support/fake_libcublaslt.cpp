// cuBLASLt's functions over the fake GPU, in the same file as the driver's, whose streams they work
// on: `--library-path` names it.
#include "tests/support/fake_cublaslt.h"
#include "tests/support/fake_libcuda.h"

namespace anydim::tests {
namespace {

const runtime::cuda::CublasLtFunctions& functions() {
  static const auto* made =
      new runtime::cuda::CublasLtFunctions(FakeCublasLt(process_cuda()).functions());
  return *made;
}

}  // namespace
}  // namespace anydim::tests

using anydim::runtime::cuda::Address;
using anydim::runtime::cuda::LibraryHeuristic;
using anydim::runtime::cuda::LibraryStatus;
using anydim::runtime::cuda::Stream;
using anydim::tests::functions;

#pragma GCC visibility push(default)
extern "C" {

LibraryStatus cublasLtCreate(void** handle) { return functions().create(handle); }
LibraryStatus cublasLtDestroy(void* handle) { return functions().destroy(handle); }
LibraryStatus cublasLtMatmulDescCreate(void** made, int compute_type, int scale_type) {
  return functions().description_create(made, compute_type, scale_type);
}
LibraryStatus cublasLtMatmulDescDestroy(void* description) {
  return functions().description_destroy(description);
}
LibraryStatus cublasLtMatmulDescSetAttribute(void* description, int attribute, const void* value,
                                             std::size_t bytes) {
  return functions().description_set(description, attribute, value, bytes);
}
LibraryStatus cublasLtMatrixLayoutCreate(void** made, int type, std::uint64_t rows,
                                         std::uint64_t columns, std::int64_t leading) {
  return functions().layout_create(made, type, rows, columns, leading);
}
LibraryStatus cublasLtMatrixLayoutDestroy(void* layout) {
  return functions().layout_destroy(layout);
}
LibraryStatus cublasLtMatmulPreferenceCreate(void** made) {
  return functions().preference_create(made);
}
LibraryStatus cublasLtMatmulPreferenceDestroy(void* preference) {
  return functions().preference_destroy(preference);
}
LibraryStatus cublasLtMatmulPreferenceSetAttribute(void* preference, int attribute,
                                                   const void* value, std::size_t bytes) {
  return functions().preference_set(preference, attribute, value, bytes);
}
LibraryStatus cublasLtMatmulAlgoGetHeuristic(void* handle, void* description, void* a, void* b,
                                             void* c, void* d, void* preference, int wanted,
                                             LibraryHeuristic* results, int* found) {
  return functions().heuristic(handle, description, a, b, c, d, preference, wanted, results, found);
}
LibraryStatus cublasLtMatmul(void* handle, void* description, const void* alpha, Address a,
                             void* a_layout, Address b, void* b_layout, const void* beta, Address c,
                             void* c_layout, Address d, void* d_layout, const void* algorithm,
                             Address workspace, std::size_t workspace_bytes, Stream stream) {
  return functions().multiply(handle, description, alpha, a, a_layout, b, b_layout, beta, c,
                              c_layout, d, d_layout, algorithm, workspace, workspace_bytes, stream);
}
}
#pragma GCC visibility pop
