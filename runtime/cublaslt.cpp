#include "runtime/cublaslt.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <utility>

#include "ir/error.h"

namespace anydim::runtime::cuda {

namespace {

int type_of(ir::DType dtype) {
  if (dtype == ir::DType::F32) return library_f32;
  if (dtype == ir::DType::F16) return library_f16;
  if (dtype == ir::DType::BF16) return library_bf16;
  throw Error(ErrorKind::Unsupported, "cuBLASLt multiplies f32, f16 and bf16 here, not {}",
              ir::name_of(dtype));
}

template <typename Signature>
void resolve(void* library, std::function<Signature>& member, const char* name) {
  void* found = dlsym(library, name);
  if (found == nullptr)
    throw Error(ErrorKind::Resource, "cuBLASLt has no function {}; install cuBLAS of CUDA 12 or 13",
                name);
  member = reinterpret_cast<Signature*>(found);
}

int epilogue_of(const LibraryProduct& product) {
  using Activation = ir::LibraryProduct::Activation;
  const int bias = product.bias ? epilogue_bias : 0;
  switch (product.activation) {
    case Activation::None: return product.bias ? epilogue_bias : epilogue_default;
    case Activation::Relu: return epilogue_relu | bias;
    case Activation::GeluTanh: return epilogue_gelu | bias;
  }
  internal_error("an activation is one of the enumerators");
}

void require(LibraryStatus status, const char* what) {
  if (status != library_success)
    throw Error(ErrorKind::Internal, "cuBLASLt: {} failed with status {}", what, status);
}

}  // namespace

// The library counts columns first: a row-major [rows, columns] matrix is its [columns, rows], so
// d^T = w^T * x^T needs no transposing, and the bias runs along its rows.
struct CublasLt::Description {
  Description(const CublasLtFunctions& functions, const LibraryProduct& product, Address bias)
      : functions(functions) {
    const int type = type_of(product.dtype), epilogue = epilogue_of(product);
    const int compute = product.tf32 ? compute_f32_fast_tf32 : compute_f32;
    require(functions.description_create(&multiply, compute, library_f32), "describing a product");
    require(functions.description_set(multiply, description_epilogue, &epilogue, sizeof epilogue),
            "asking for an epilogue");
    if (product.bias) {
      require(functions.description_set(multiply, description_bias_type, &type, sizeof type),
              "the bias's type");
      require(functions.description_set(multiply, description_bias_pointer, &bias, sizeof bias),
              "the bias's place");
    }
    if (product.w_by_columns) {
      require(functions.description_set(multiply, description_transpose_a, &operation_transpose,
                                        sizeof operation_transpose),
              "turning the weight");
    }
    const auto m = static_cast<std::uint64_t>(product.m), n = static_cast<std::uint64_t>(product.n),
               k = static_cast<std::uint64_t>(product.k);
    if (product.w_by_columns)
      require(functions.layout_create(&w, type, k, n, product.k), "describing the weight");
    else require(functions.layout_create(&w, type, n, k, product.n), "describing the weight");
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

  const CublasLtFunctions& functions;
  void *multiply = nullptr, *w = nullptr, *x = nullptr, *d = nullptr;
};

std::shared_ptr<CublasLt> CublasLt::open(std::shared_ptr<DeviceContext> context,
                                         const std::string& path) {
  const std::vector<std::string> names =
      path.empty() ? std::vector<std::string>{"libcublasLt.so.13", "libcublasLt.so.12"}
                   : std::vector{path};
  void* library = nullptr;
  std::string reason;
  for (const std::string& name : names) {
    if ((library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) != nullptr) break;
    reason = dlerror();
  }
  if (library == nullptr) {
    throw Error(ErrorKind::Resource,
                "none of {} can be loaded ({}); install cuBLAS (PyPI nvidia-cublas) where the "
                "loader finds it, by LD_LIBRARY_PATH or, for bench, by --library-path",
                fmt::join(names, ", "), reason);
  }
  CublasLtFunctions functions;
#define ANYDIM_CUBLASLT(member, symbol, ...) resolve(library, functions.member, #symbol);
#include "runtime/cublaslt_functions.def"
#undef ANYDIM_CUBLASLT
  return make(std::move(context), std::move(functions));
}

std::shared_ptr<CublasLt> CublasLt::make(std::shared_ptr<DeviceContext> context,
                                         CublasLtFunctions functions) {
  std::shared_ptr<CublasLt> made(new CublasLt);
  made->functions_ = std::move(functions);
  context->enter();
  if (const LibraryStatus status = made->functions_.create(&made->handle_);
      status != library_success)
    throw Error(ErrorKind::Resource, "cuBLASLt does not start: status {}", status);
  made->context_ = std::move(context);
  return made;
}

CublasLt::~CublasLt() {
  if (handle_ == nullptr || !context_->enter_quietly()) return;
  functions_.destroy(handle_);
}

std::vector<CublasLt::Algorithm> CublasLt::algorithms(const LibraryProduct& product,
                                                      int most) const {
  context_->enter();
  // Any bias with the alignment that the real one has; the heuristic does not read it.
  constexpr Address some_bias = 256;
  const Description description(functions_, product, some_bias);
  void* preference = nullptr;
  require(functions_.preference_create(&preference), "a preference");
  const std::unique_ptr<void, std::function<void(void*)>> owner(
      preference, [&](void* made) { functions_.preference_destroy(made); });
  const auto prefer = [&](int attribute, const auto& value) {
    require(functions_.preference_set(preference, attribute, &value, sizeof value), "a preference");
  };
  prefer(preference_workspace, std::uint64_t{workspace_bytes});
  constexpr std::uint32_t alignment = 64;  // of every buffer (ir/backend.h)
  for (int operand = preference_alignment_a; operand <= preference_alignment_d; ++operand)
    prefer(operand, alignment);
  std::vector<LibraryHeuristic> results(static_cast<std::size_t>(most));
  int found = 0;
  const LibraryStatus status =
      functions_.heuristic(handle_, description.multiply, description.w, description.x,
                           description.d, description.d, preference, most, results.data(), &found);
  std::vector<Algorithm> algorithms;
  for (int i = 0; status == library_success && i < found; ++i) {
    const LibraryHeuristic& result = results[static_cast<std::size_t>(i)];
    if (result.state != library_success) continue;
    algorithms.push_back({result.algorithm, result.workspace_bytes});
  }
  if (algorithms.empty()) {
    throw Error(ErrorKind::Resource, "cuBLASLt offers no algorithm for {} x {} x {} in {}",
                product.m, product.n, product.k, ir::name_of(product.dtype));
  }
  return algorithms;
}

void CublasLt::enqueue(const LibraryProduct& product, const Operands& operands,
                       const Algorithm& algorithm, Stream stream) const {
  const Description description(functions_, product, operands.bias);
  const float one = 1, zero = 0;
  require(functions_.multiply(handle_, description.multiply, &one, operands.w, description.w,
                              operands.x, description.x, &zero, operands.d, description.d,
                              operands.d, description.d, &algorithm.data, operands.workspace,
                              workspace_bytes, stream),
          "a product");
}

}  // namespace anydim::runtime::cuda
