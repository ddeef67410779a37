#include "tests/support/fake_cublaslt.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <set>
#include <utility>

#include "ir/tensor.h"

namespace anydim::tests {

namespace cuda = runtime::cuda;
using cuda::LibraryStatus;

namespace {

constexpr LibraryStatus success = cuda::library_success, invalid_value = 7, execution_failed = 13;
constexpr std::uint64_t algorithm_mark = 0xa190;
constexpr double algorithm_microseconds[] = {3, 0, 2, 2.5};  // 0: does not run

struct Description {
  int compute = 0, scale = 0, epilogue = cuda::epilogue_default, bias_type = -1, transpose_a = 0;
  cuda::Address bias = 0;
};
struct Layout {
  int type = 0;
  std::uint64_t rows = 0, columns = 0;
  std::int64_t leading = 0;
};
struct Preference {
  std::uint64_t workspace = 0;
  std::uint32_t alignments[4] = {256, 256, 256, 256};
};

ir::DType dtype_of(int type) {
  return type == cuda::library_f32   ? ir::DType::F32
         : type == cuda::library_f16 ? ir::DType::F16
                                     : ir::DType::BF16;
}

template <typename Value>
LibraryStatus take(Value& into, const void* value, std::size_t bytes) {
  if (value == nullptr || bytes != sizeof into) return invalid_value;
  std::memcpy(&into, value, bytes);
  return success;
}

LibraryStatus set(Description& description, int attribute, const void* value, std::size_t bytes) {
  switch (attribute) {
    case cuda::description_epilogue: return take(description.epilogue, value, bytes);
    case cuda::description_bias_pointer: return take(description.bias, value, bytes);
    case cuda::description_bias_type: return take(description.bias_type, value, bytes);
    case cuda::description_transpose_a: return take(description.transpose_a, value, bytes);
    default: return invalid_value;
  }
}

LibraryStatus set(Preference& preference, int attribute, const void* value, std::size_t bytes) {
  if (attribute == cuda::preference_workspace) return take(preference.workspace, value, bytes);
  if (attribute < cuda::preference_alignment_a || attribute > cuda::preference_alignment_d)
    return invalid_value;
  return take(preference.alignments[attribute - cuda::preference_alignment_a], value, bytes);
}

// One product as it will run, counting columns first: d[n, m] = op(a) * b[k, m].
struct Work {
  Description description;
  Layout a, b, d;
  cuda::Address from_a = 0, from_b = 0, to = 0;
};

bool fits(const Description& description, const Layout& a, const Layout& b, const Layout& d) {
  const std::uint64_t n = description.transpose_a != 0 ? a.columns : a.rows,
                      k = description.transpose_a != 0 ? a.rows : a.columns;
  const bool bias = (description.epilogue & cuda::epilogue_bias) != 0;
  const bool f32 =
      description.compute == cuda::compute_f32 ||
      (description.compute == cuda::compute_f32_fast_tf32 && d.type == cuda::library_f32);
  return f32 && description.scale == cuda::library_f32 && a.type == b.type && a.type == d.type &&
         n == d.rows && k == b.rows && b.columns == d.columns &&
         a.leading >= static_cast<std::int64_t>(a.rows) &&
         b.leading >= static_cast<std::int64_t>(b.rows) &&
         d.leading >= static_cast<std::int64_t>(d.rows) && bias == (description.bias != 0) &&
         (!bias || description.bias_type == d.type);
}

double activated(int epilogue, double value) {
  if ((epilogue & cuda::epilogue_relu) != 0) return std::max(value, 0.0);
  if ((epilogue & cuda::epilogue_gelu) == 0) return value;
  constexpr double root = 0.7978845608028654, cubic = 0.044715;
  return 0.5 * value * (1 + std::tanh(root * (value + cubic * value * value * value)));
}

bool read(FakeGpu& gpu, cuda::Address from, ir::Tensor& tensor) {
  return gpu.read(from, tensor.mutable_bytes());
}

Result run_work(FakeGpu& gpu, const Work& work) {
  const ir::DType dtype = dtype_of(work.d.type);
  const auto matrix = [&](const Layout& layout) {
    return ir::Tensor(dtype, {static_cast<std::int64_t>(layout.columns),
                              layout.leading});  // a column is a row of these
  };
  ir::Tensor a = matrix(work.a), b = matrix(work.b), d = matrix(work.d),
             bias(dtype, {static_cast<std::int64_t>(work.d.rows)});
  if (!read(gpu, work.from_a, a) || !read(gpu, work.from_b, b)) return cuda::illegal_address;
  if (work.description.bias != 0 && !read(gpu, work.description.bias, bias))
    return cuda::illegal_address;
  const auto depth = static_cast<std::int64_t>(work.b.rows);
  for (std::int64_t column = 0; column < static_cast<std::int64_t>(work.d.columns); ++column) {
    for (std::int64_t row = 0; row < static_cast<std::int64_t>(work.d.rows); ++row) {
      double sum = work.description.bias != 0 ? bias.real_at(row) : 0;
      for (std::int64_t k = 0; k < depth; ++k) {
        const std::int64_t at =
            work.description.transpose_a != 0 ? row * work.a.leading + k : k * work.a.leading + row;
        sum += a.real_at(at) * b.real_at(column * work.b.leading + k);
      }
      d.set_real(column * work.d.leading + row, activated(work.description.epilogue, sum));
    }
  }
  return gpu.write(work.to, d.bytes()) ? cuda::success : cuda::illegal_address;
}

}  // namespace

struct FakeCublasLt::State {
  FakeCuda* cuda = nullptr;
  std::set<void*> objects;
  std::vector<Product> asked;
  int run = 0, heuristics = 0;
  bool nothing = false, broken_first = false;
  std::set<std::uint64_t> loaded;  // algorithms

  template <typename Object>
  LibraryStatus create(void** handle, Object object) {
    *handle = new Object(std::move(object));
    objects.insert(*handle);
    return success;
  }
  template <typename Object>
  LibraryStatus destroy(void* handle) {
    if (objects.erase(handle) == 0) return invalid_value;
    delete static_cast<Object*>(handle);
    return success;
  }
  template <typename Object>
  Object& get(void* handle) const {
    return *static_cast<Object*>(handle);
  }
};

FakeCublasLt::FakeCublasLt(FakeCuda& cuda) : state_(std::make_shared<State>()) {
  state_->cuda = &cuda;
}

cuda::CublasLtFunctions FakeCublasLt::functions() const {
  cuda::CublasLtFunctions table;
  const std::shared_ptr<State> state = state_;
  table.create = [state](void** handle) { return state->create(handle, int{1}); };
  table.destroy = [state](void* handle) { return state->destroy<int>(handle); };
  table.description_create = [state](void** made, int compute, int scale) {
    return state->create(made, Description{.compute = compute, .scale = scale});
  };
  table.description_destroy = [state](void* made) { return state->destroy<Description>(made); };
  table.description_set = [state](void* made, int attribute, const void* value, std::size_t bytes) {
    return set(state->get<Description>(made), attribute, value, bytes);
  };
  table.layout_create = [state](void** made, int type, std::uint64_t rows, std::uint64_t columns,
                                std::int64_t leading) {
    return state->create(made, Layout{type, rows, columns, leading});
  };
  table.layout_destroy = [state](void* made) { return state->destroy<Layout>(made); };
  table.preference_create = [state](void** made) { return state->create(made, Preference{}); };
  table.preference_destroy = [state](void* made) { return state->destroy<Preference>(made); };
  table.preference_set = [state](void* made, int attribute, const void* value, std::size_t bytes) {
    return set(state->get<Preference>(made), attribute, value, bytes);
  };
  table.heuristic = [state](void*, void* description, void* a, void* b, void* c, void* d,
                            void* preference, int wanted, cuda::LibraryHeuristic* results,
                            int* found) {
    ++state->heuristics;
    *found = 0;
    const Preference& wishes = state->get<Preference>(preference);
    if (!fits(state->get<Description>(description), state->get<Layout>(a), state->get<Layout>(b),
              state->get<Layout>(d)) ||
        c != d || wishes.workspace == 0 ||
        std::any_of(std::begin(wishes.alignments), std::end(wishes.alignments),
                    [](std::uint32_t bytes) { return bytes > 64; }))
      return invalid_value;
    if (state->nothing) return cuda::library_not_supported;
    *found = std::min(wanted, static_cast<int>(std::size(algorithm_microseconds)));
    for (int i = 0; i < *found; ++i) {
      results[i] = {};
      results[i].algorithm.words[0] = algorithm_mark;
      results[i].algorithm.words[1] =
          static_cast<std::uint64_t>(state->broken_first && i < 2 ? 1 - i : i);
      results[i].workspace_bytes = 1024;
    }
    return success;
  };
  table.multiply = [state](void*, void* description, const void* alpha, cuda::Address a,
                           void* a_layout, cuda::Address b, void* b_layout, const void* beta,
                           cuda::Address c, void* c_layout, cuda::Address d, void* d_layout,
                           const void* algorithm, cuda::Address workspace,
                           std::size_t workspace_bytes, cuda::Stream stream) {
    const Work work{state->get<Description>(description),
                    state->get<Layout>(a_layout),
                    state->get<Layout>(b_layout),
                    state->get<Layout>(d_layout),
                    a,
                    b,
                    d};
    float one = 0, zero = 1;
    std::memcpy(&one, alpha, sizeof one);
    std::memcpy(&zero, beta, sizeof zero);
    if (one != 1 || zero != 0 || c != d || c_layout != d_layout ||
        !fits(work.description, work.a, work.b, work.d))
      return invalid_value;
    const auto& words = static_cast<const cuda::LibraryAlgorithm*>(algorithm)->words;
    if (words[0] != algorithm_mark || words[1] >= std::size(algorithm_microseconds))
      return invalid_value;
    const double microseconds = algorithm_microseconds[words[1]];
    if (microseconds == 0) return cuda::library_not_supported;
    if (!state->loaded.contains(words[1]) && state->cuda->is_capturing(stream))
      return execution_failed;
    state->loaded.insert(words[1]);
    if (workspace == 0 || workspace % 256 != 0 || workspace_bytes < 1024) return invalid_value;
    state->asked.push_back({work.d.rows, work.d.columns, work.b.rows, work.description.epilogue,
                            work.d.type, work.description.transpose_a != 0});
    const auto run = [state, work](FakeGpu& gpu) {
      ++state->run;
      return run_work(gpu, work);
    };
    state->cuda->push(stream, run, microseconds);
    return success;
  };
  return table;
}

std::vector<FakeCublasLt::Product> FakeCublasLt::asked() const { return state_->asked; }
int FakeCublasLt::run() const { return state_->run; }
int FakeCublasLt::objects() const { return static_cast<int>(state_->objects.size()); }
int FakeCublasLt::heuristics() const { return state_->heuristics; }
void FakeCublasLt::offer_nothing(bool nothing) { state_->nothing = nothing; }
void FakeCublasLt::prefer_the_broken() { state_->broken_first = true; }

}  // namespace anydim::tests
