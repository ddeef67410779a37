#include "runtime/cublaslt.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <utility>

#include "ir/error.h"

namespace anydim::runtime::cuda {

namespace {

using Status = int;
constexpr Status succeeded = 0;
// cublas_api.h, cublasLt.h and library_types.h of CUDA 12 and 13.
constexpr int compute_f32 = 68, type_f32 = 0, type_f16 = 2, type_bf16 = 14;
constexpr int attribute_epilogue = 7, attribute_bias_pointer = 8, attribute_bias_type = 26, epilogue_bias = 4;
constexpr int preference_workspace = 1;

// cublasLtMatmulHeuristicResult_t
struct Heuristic {
  std::uint64_t algorithm[8];
  std::size_t workspace_bytes;
  Status state;
  float waves;
  int reserved[4];
};

int type_of(ir::DType dtype) {
  if (dtype == ir::DType::F32) return type_f32;
  if (dtype == ir::DType::F16) return type_f16;
  if (dtype == ir::DType::BF16) return type_bf16;
  throw Error(ErrorKind::Unsupported, fmt::format("cuBLASLt multiplies f32, f16 and bf16 here, not {}", ir::name_of(dtype)));
}

template <typename Function>
void resolve(void* library, Function& member, const char* name) {
  void* found = dlsym(library, name);
  if (found == nullptr) throw Error(ErrorKind::Resource, fmt::format("cuBLASLt has no function {}; install cuBLAS of CUDA 12 or 13", name));
  member = reinterpret_cast<Function>(found);
}

void require(Status status, const char* what) {
  if (status != succeeded) throw Error(ErrorKind::Internal, fmt::format("cuBLASLt: {} failed with status {}", what, status));
}

}  // namespace

struct CublasLt::Functions {
  Status (*create)(void** handle);
  Status (*destroy)(void* handle);
  Status (*description_create)(void** description, int compute_type, int scale_type);
  Status (*description_destroy)(void* description);
  Status (*description_set)(void* description, int attribute, const void* value, std::size_t bytes);
  Status (*layout_create)(void** layout, int type, std::uint64_t rows, std::uint64_t columns, std::int64_t leading);
  Status (*layout_destroy)(void* layout);
  Status (*preference_create)(void** preference);
  Status (*preference_destroy)(void* preference);
  Status (*preference_set)(void* preference, int attribute, const void* value, std::size_t bytes);
  Status (*heuristic)(void* handle, void* description, void* a, void* b, void* c, void* d, void* preference, int wanted, Heuristic* results,
                      int* found);
  Status (*multiply)(void* handle, void* description, const void* alpha, Address a, void* a_layout, Address b, void* b_layout,
                     const void* beta, Address c, void* c_layout, Address d, void* d_layout, const void* algorithm, Address workspace,
                     std::size_t workspace_bytes, Stream stream);
};

// The library counts columns first: a row-major [rows, columns] matrix is its [columns, rows], so d^T = w^T * x^T needs no transposing, and the bias
// runs along its rows.
struct CublasLt::Description {
  Description(const Functions& functions, const LibraryProduct& product, Address bias) : functions(functions) {
    const int type = type_of(product.dtype);
    require(functions.description_create(&multiply, compute_f32, type_f32), "describing a product");
    if (product.bias) {
      require(functions.description_set(multiply, attribute_epilogue, &epilogue_bias, sizeof epilogue_bias), "asking for a bias");
      require(functions.description_set(multiply, attribute_bias_type, &type, sizeof type), "the bias's type");
      require(functions.description_set(multiply, attribute_bias_pointer, &bias, sizeof bias), "the bias's place");
    }
    const auto m = static_cast<std::uint64_t>(product.m), n = static_cast<std::uint64_t>(product.n),
               k = static_cast<std::uint64_t>(product.k);
    require(functions.layout_create(&w, type, n, k, product.n), "describing the weight");
    require(functions.layout_create(&x, type, k, m, product.k), "describing the input");
    require(functions.layout_create(&d, type, n, m, product.n), "describing the result");
  }
  ~Description() {
    for (void* layout : {w, x, d})
      if (layout != nullptr) functions.layout_destroy(layout);
    if (multiply != nullptr) functions.description_destroy(multiply);
  }
  Description(const Description&) = delete;
  Description& operator=(const Description&) = delete;

  const Functions& functions;
  void *multiply = nullptr, *w = nullptr, *x = nullptr, *d = nullptr;
};

std::shared_ptr<CublasLt> CublasLt::open(std::shared_ptr<DeviceContext> context, const std::string& path) {
  const std::vector<std::string> names =
      path.empty() ? std::vector<std::string>{"libcublasLt.so.13", "libcublasLt.so.12"} : std::vector{path};
  void* library = nullptr;
  std::string reason;
  for (const std::string& name : names) {
    if ((library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) != nullptr) break;
    reason = dlerror();
  }
  if (library == nullptr) {
    throw Error(ErrorKind::Resource, fmt::format("none of {} can be loaded ({}); install cuBLAS (PyPI nvidia-cublas) or name the file with "
                                                 "--library-path",
                                                 fmt::join(names, ", "), reason));
  }
  std::shared_ptr<CublasLt> made(new CublasLt);
  made->functions_ = std::make_unique<Functions>();
  Functions& functions = *made->functions_;
  resolve(library, functions.create, "cublasLtCreate");
  resolve(library, functions.destroy, "cublasLtDestroy");
  resolve(library, functions.description_create, "cublasLtMatmulDescCreate");
  resolve(library, functions.description_destroy, "cublasLtMatmulDescDestroy");
  resolve(library, functions.description_set, "cublasLtMatmulDescSetAttribute");
  resolve(library, functions.layout_create, "cublasLtMatrixLayoutCreate");
  resolve(library, functions.layout_destroy, "cublasLtMatrixLayoutDestroy");
  resolve(library, functions.preference_create, "cublasLtMatmulPreferenceCreate");
  resolve(library, functions.preference_destroy, "cublasLtMatmulPreferenceDestroy");
  resolve(library, functions.preference_set, "cublasLtMatmulPreferenceSetAttribute");
  resolve(library, functions.heuristic, "cublasLtMatmulAlgoGetHeuristic");
  resolve(library, functions.multiply, "cublasLtMatmul");
  context->enter();
  if (const Status status = functions.create(&made->handle_); status != succeeded)
    throw Error(ErrorKind::Resource, fmt::format("cuBLASLt does not start: status {}", status));
  context->check(context->driver().memory_allocate(&made->workspace_, workspace_bytes), "cuBLASLt's workspace");
  made->context_ = std::move(context);
  return made;
}

CublasLt::~CublasLt() {
  if (context_ == nullptr) return;
  context_->enter_quietly();
  if (workspace_ != 0) context_->driver().memory_free(workspace_);
  if (handle_ != nullptr) functions_->destroy(handle_);
}

std::vector<CublasLt::Algorithm> CublasLt::algorithms(const LibraryProduct& product, int most) const {
  context_->enter();
  // Any bias with the alignment that the real one has.
  const Description description(*functions_, product, workspace_);
  void* preference = nullptr;
  require(functions_->preference_create(&preference), "a preference");
  const std::unique_ptr<void, Status (*)(void*)> owner(preference, functions_->preference_destroy);
  require(functions_->preference_set(preference, preference_workspace, &workspace_bytes, sizeof workspace_bytes), "a preference");
  std::vector<Heuristic> results(static_cast<std::size_t>(most));
  int found = 0;
  const Status status = functions_->heuristic(handle_, description.multiply, description.w, description.x, description.d, description.d,
                                              preference, most, results.data(), &found);
  std::vector<Algorithm> algorithms;
  for (int i = 0; status == succeeded && i < found; ++i) {
    const Heuristic& result = results[static_cast<std::size_t>(i)];
    if (result.state != succeeded) continue;
    Algorithm& algorithm = algorithms.emplace_back();
    std::memcpy(algorithm.data.data(), result.algorithm, sizeof result.algorithm);
    algorithm.workspace_bytes = result.workspace_bytes;
  }
  if (algorithms.empty()) {
    throw Error(ErrorKind::Resource, fmt::format("cuBLASLt offers no algorithm for {} x {} x {} in {}", product.m, product.n, product.k,
                                                 ir::name_of(product.dtype)));
  }
  return algorithms;
}

void CublasLt::enqueue(const LibraryProduct& product, const Operands& operands, const Algorithm& algorithm, Stream stream) const {
  const Description description(*functions_, product, operands.bias);
  const float one = 1, zero = 0;
  require(functions_->multiply(handle_, description.multiply, &one, operands.w, description.w, operands.x, description.x, &zero, operands.d,
                               description.d, operands.d, description.d, algorithm.data.data(), workspace_, workspace_bytes, stream),
          "a product");
}

}  // namespace anydim::runtime::cuda
