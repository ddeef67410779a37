// Anydim for C++17: the C interface with objects that release what they hold and exceptions in
// place of statuses. Everything here is inline over anydim.h, so that a program depends on nothing
// but its promise of stability. Comments there hold here; this file says only what is different.
//
//   anydim::Model model("model.onnx");
//   anydim::Context context(model);                                  // one a thread
//   std::vector<float> x(6);
//   anydim::Results results = context.run({anydim::Input("x", {2, 3}, x)});
//   const float* y = results["y"].data<float>();
#ifndef ANYDIM_ANYDIM_HPP
#define ANYDIM_ANYDIM_HPP

#include <anydim/anydim.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace anydim {

// What a status tells. kind() is one of ANYDIM_BAD_ARGUMENT to ANYDIM_INTERNAL.
class Error : public std::runtime_error {
 public:
  Error(anydim_kind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  anydim_kind kind() const noexcept { return kind_; }

 private:
  anydim_kind kind_;
};

// The library's table. Throws Error where the library is older than this header.
inline const anydim_api& api() {
  static const anydim_api* const table = [] {
    const char* why = nullptr;
    const anydim_api* found = anydim_get_api(ANYDIM_API_VERSION, &why);
    if (found == nullptr) throw Error(ANYDIM_NO_RESOURCE, why);
    return found;
  }();
  return *table;
}

// Throws what the status tells, and releases it.
inline void check(anydim_status* status) {
  if (status == nullptr) return;
  const Error error(api().status_kind(status), api().status_message(status));
  api().status_release(status);
  throw error;
}

template <typename T>
constexpr anydim_dtype dtype_of() {
  if constexpr (std::is_same_v<T, bool>) return ANYDIM_BOOL;
  else if constexpr (std::is_same_v<T, double>) return ANYDIM_F64;
  else if constexpr (std::is_same_v<T, float>) return ANYDIM_F32;
  else {
    static_assert(std::is_integral_v<T> && sizeof(T) <= 8,
                  "give elements of another type with their anydim_dtype");
    constexpr anydim_dtype of_signed[] = {0, ANYDIM_I8, ANYDIM_I16, 0,         ANYDIM_I32,
                                          0, 0,         0,          ANYDIM_I64};
    constexpr anydim_dtype of_unsigned[] = {0, ANYDIM_U8, ANYDIM_U16, 0,         ANYDIM_U32,
                                            0, 0,         0,          ANYDIM_U64};
    return std::is_signed_v<T> ? of_signed[sizeof(T)] : of_unsigned[sizeof(T)];
  }
}

// Owns one handle; movable.
template <typename Handle, anydim_status* (*anydim_api::*release)(Handle*)>
class Owned {
 public:
  Owned() = default;
  Owned(Owned&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owned() {
    if (handle_ != nullptr) api().status_release((api().*release)(handle_));
  }
  Handle* handle() const noexcept { return handle_; }

 protected:
  Handle* handle_ = nullptr;
};

class Options : public Owned<anydim_options, &anydim_api::options_release> {
 public:
  Options() { check(api().options_create(&handle_)); }
  Options(std::initializer_list<std::pair<const char*, std::string>> list) : Options() {
    for (const auto& [name, value] : list) set(name, value);
  }
  Options& set(const std::string& name, const std::string& value) {
    check(api().options_set(handle_, name.c_str(), value.c_str()));
    return *this;
  }
  Options& set_warning(anydim_warning warning, void* user) {
    check(api().options_set_warning(handle_, warning, user));
    return *this;
  }
};

class Cancellation : public Owned<anydim_cancellation, &anydim_api::cancellation_release> {
 public:
  Cancellation() { check(api().cancellation_create(&handle_)); }
  void cancel() { check(api().cancellation_cancel(handle_)); }
  void reset() { check(api().cancellation_reset(handle_)); }
};

// An input or result of a model, copied out of anydim_tensor_info.
struct TensorInfo {
  std::string name;
  anydim_dtype dtype = 0;
  std::vector<std::string> dims;
  std::vector<std::int64_t> extents;
  bool any_shape = false, rows = false;
};

struct SymbolInfo {
  std::string name, reason;
  std::int64_t low = 0, high = 0, multiple = 1;
};

struct Shape {
  std::string name;
  std::vector<std::int64_t> dims;
};

// What a call reads: memory of the caller's, which stays until the call returns.
class Input {
 public:
  Input(std::string name, std::vector<std::int64_t> dims, const void* data, std::size_t bytes,
        anydim_dtype dtype)
      : name_(std::move(name)), dims_(std::move(dims)), data_(data), bytes_(bytes), dtype_(dtype) {}
  template <typename T>
  Input(std::string name, std::vector<std::int64_t> dims, const std::vector<T>& elements)
      : Input(std::move(name), std::move(dims), elements.data(), elements.size() * sizeof(T),
              dtype_of<T>()) {
    static_assert(!std::is_same_v<T, bool>,
                  "a vector of bools has no bytes; give std::uint8_t and ANYDIM_BOOL");
  }
  // The data is a device address: of a call on a stream.
  Input& on_device() {
    device_ = 1;
    return *this;
  }
  std::uint8_t device() const { return device_; }
  anydim_input view() const {
    return {name_.c_str(), dims_.data(), data_,
            bytes_,        dtype_,       static_cast<std::uint32_t>(dims_.size())};
  }

 private:
  std::string name_;
  std::vector<std::int64_t> dims_;
  const void* data_;
  std::size_t bytes_;
  anydim_dtype dtype_;
  std::uint8_t device_ = 0;
};

// Where a call writes one result: memory of the caller's, at least as large. dims() and size() are
// the result's after the call.
class Output {
 public:
  Output(std::string name, std::size_t rank, void* data, std::size_t capacity, anydim_dtype dtype)
      : name_(std::move(name)), dims_(rank), data_(data), capacity_(capacity), dtype_(dtype) {}
  template <typename T>
  Output(std::string name, std::size_t rank, std::vector<T>& elements)
      : Output(std::move(name), rank, elements.data(), elements.size() * sizeof(T), dtype_of<T>()) {
    static_assert(!std::is_same_v<T, bool>,
                  "a vector of bools has no bytes; give std::uint8_t and ANYDIM_BOOL");
  }
  // The data is a device address: of a call on a stream.
  Output& on_device() {
    device_ = 1;
    return *this;
  }
  std::uint8_t device() const { return device_; }
  const std::vector<std::int64_t>& dims() const { return dims_; }
  std::size_t size() const { return size_; }  // bytes
  anydim_output view() {
    return {name_.c_str(),
            dims_.data(),
            data_,
            capacity_,
            0,
            dtype_,
            static_cast<std::uint32_t>(dims_.size())};
  }
  void set_size(std::size_t size) { size_ = size; }

 private:
  std::string name_;
  std::vector<std::int64_t> dims_;
  void* data_;
  std::size_t capacity_, size_ = 0;
  anydim_dtype dtype_;
  std::uint8_t device_ = 0;
};

// A CUstream or cudaStream_t; null is the default stream.
struct Stream {
  void* handle = nullptr;
};

// A result; what it points to is valid as long as its Results.
class Tensor {
 public:
  explicit Tensor(const anydim_tensor& tensor) : tensor_(tensor) {}
  const char* name() const { return tensor_.name; }
  anydim_dtype dtype() const { return tensor_.dtype; }
  std::vector<std::int64_t> dims() const { return {tensor_.dims, tensor_.dims + tensor_.rank}; }
  std::size_t size() const { return tensor_.size; }  // bytes
  const void* bytes() const { return tensor_.data; }
  // Throws Error where T is not the element type.
  template <typename T>
  const T* data() const {
    if (dtype_of<T>() != tensor_.dtype)
      throw Error(ANYDIM_BAD_ARGUMENT, std::string("result '") + tensor_.name + "' is " +
                                           api().dtype_name(tensor_.dtype) +
                                           ", and was asked for as " +
                                           api().dtype_name(dtype_of<T>()));
    return static_cast<const T*>(tensor_.data);
  }

 private:
  anydim_tensor tensor_;
};

class Results : public Owned<anydim_results, &anydim_api::results_release> {
 public:
  explicit Results(anydim_results* results) { handle_ = results; }
  std::size_t size() const {
    std::size_t count = 0;
    check(api().results_count(handle_, &count));
    return count;
  }
  Tensor at(std::size_t index) const {
    anydim_tensor tensor{};
    tensor.struct_size = sizeof tensor;
    check(api().results_tensor(handle_, index, &tensor));
    return Tensor(tensor);
  }
  // The ordinal of the GPU where a result's bytes lie, or -1 for the host.
  std::int32_t device(std::size_t index) const {
    std::int32_t device = -1;
    check(api().results_device(handle_, index, &device));
    return device;
  }
  // Throws Error where there is none of the name.
  Tensor operator[](const std::string& name) const {
    for (std::size_t i = 0; i < size(); ++i)
      if (Tensor tensor = at(i); name == tensor.name()) return tensor;
    throw Error(ANYDIM_BAD_ARGUMENT, "there is no result '" + name + "'");
  }
};

class Model : public Owned<anydim_model, &anydim_api::model_release> {
 public:
  explicit Model(const std::string& file) {
    check(api().model_load_file(file.c_str(), nullptr, nullptr, &handle_));
  }
  Model(const std::string& file, const Options& options) {
    check(api().model_load_file(file.c_str(), options.handle(), nullptr, &handle_));
  }
  Model(const std::string& file, const Options& options, Cancellation& cancellation) {
    check(api().model_load_file(file.c_str(), options.handle(), cancellation.handle(), &handle_));
  }
  // `folder`: where files that the model names lie; empty for none.
  static Model from_memory(const void* bytes, std::size_t size, const Options& options = {},
                           const std::string& folder = {}) {
    Model model;
    check(api().model_load_memory(bytes, size, folder.empty() ? nullptr : folder.c_str(),
                                  options.handle(), nullptr, &model.handle_));
    return model;
  }

  std::vector<TensorInfo> inputs() const {
    return infos(api().model_input_count, api().model_input);
  }
  std::vector<TensorInfo> outputs() const {
    return infos(api().model_output_count, api().model_output);
  }
  // Throw Error{ANYDIM_UNSUPPORTED} where the model does not take texts laid end to end.
  std::vector<TensorInfo> ragged_inputs() const {
    return infos(api().model_ragged_input_count, api().model_ragged_input);
  }
  std::vector<TensorInfo> ragged_outputs() const {
    check(api().model_prepare_ragged(handle_, nullptr));
    return infos(api().model_output_count, api().model_ragged_output);
  }
  std::vector<SymbolInfo> symbols() const {
    std::size_t count = 0;
    check(api().model_symbol_count(handle_, &count));
    std::vector<SymbolInfo> symbols;
    for (std::size_t i = 0; i < count; ++i) {
      anydim_symbol_info info{};
      info.struct_size = sizeof info;
      check(api().model_symbol(handle_, i, &info));
      symbols.push_back({info.name, info.reason, info.low, info.high, info.multiple});
    }
    return symbols;
  }
  std::string padded_because() const { return reason(api().model_padded_because); }
  std::string hidden_rows_kept_because() const {
    return reason(api().model_hidden_rows_kept_because);
  }
  void complete() const { check(api().model_complete(handle_, nullptr)); }
  anydim_statistics statistics() const {
    anydim_statistics statistics{};
    statistics.struct_size = sizeof statistics;
    check(api().model_statistics(handle_, &statistics));
    return statistics;
  }
  anydim_memory_ceiling memory_ceiling(const std::vector<Shape>& shapes) const {
    std::vector<anydim_shape> views;
    for (const Shape& shape : shapes)
      views.push_back({shape.name.c_str(), shape.dims.data(), shape.dims.size()});
    anydim_memory_ceiling ceiling{};
    ceiling.struct_size = sizeof ceiling;
    check(api().model_memory_ceiling(handle_, views.data(), views.size(), &ceiling));
    return ceiling;
  }
  void start_timeline(std::size_t events = 0) {
    check(api().model_timeline_start(handle_, events));
  }
  void stop_timeline() { check(api().model_timeline_stop(handle_)); }
  void write_timeline(const std::string& file) const {
    check(api().model_timeline_write(handle_, file.c_str()));
  }

 private:
  Model() = default;
  template <typename Count, typename Info>
  std::vector<TensorInfo> infos(Count count_of, Info info_of) const {
    std::size_t count = 0;
    check(count_of(handle_, &count));
    std::vector<TensorInfo> infos;
    for (std::size_t i = 0; i < count; ++i) {
      anydim_tensor_info info{};
      info.struct_size = sizeof info;
      check(info_of(handle_, i, &info));
      infos.push_back({info.name,
                       info.dtype,
                       {info.dims, info.dims + info.rank},
                       {info.extents, info.extents + info.rank},
                       info.any_shape != 0,
                       info.rows != 0});
    }
    return infos;
  }
  template <typename Reason>
  std::string reason(Reason reason_of) const {
    const char* text = nullptr;
    check(reason_of(handle_, &text));
    return text;
  }
};

class Trace : public Owned<anydim_trace, &anydim_api::trace_release> {
 public:
  explicit Trace(const Model& model) { check(api().trace_create(model.handle(), &handle_)); }
  void write(const std::string& file) { check(api().trace_write(handle_, file.c_str())); }
};

// What a model loaded with append_in_place appends to.
class Cache : public Owned<anydim_cache, &anydim_api::cache_release> {
 public:
  explicit Cache(const Model& model) { check(api().cache_create(model.handle(), &handle_)); }
  std::int64_t length() const {
    std::int64_t length = 0;
    check(api().cache_length(handle_, &length));
    return length;
  }
  void reserve(std::int64_t length) { check(api().cache_reserve(handle_, length)); }
  void truncate(std::int64_t length) { check(api().cache_truncate(handle_, length)); }
  Results read(const std::string& name) const {
    anydim_results* results = nullptr;
    check(api().cache_read(handle_, name.c_str(), &results));
    return Results(results);
  }
  void write(const Input& tensor) {
    const anydim_input view = tensor.view();
    check(api().cache_write(handle_, &view));
  }
};

// One thread's place to call a model.
class Context : public Owned<anydim_context, &anydim_api::context_release> {
 public:
  explicit Context(const Model& model) { check(api().context_create(model.handle(), &handle_)); }
  void set_cancellation(const Cancellation* cancellation) {
    check(api().context_set_cancellation(
        handle_, cancellation == nullptr ? nullptr : cancellation->handle()));
  }
  void set_trace(const Trace* trace) {
    check(api().context_set_trace(handle_, trace == nullptr ? nullptr : trace->handle()));
  }

  // Of the calls from here on; null: no longer.
  void set_cache(const Cache* cache) {
    check(api().context_set_cache(handle_, cache == nullptr ? nullptr : cache->handle()));
  }

  Results run(const std::vector<Input>& inputs) {
    const std::vector<anydim_input> in = views(inputs);
    anydim_results* results = nullptr;
    check(api().context_run_owned(handle_, in.data(), in.size(), &results));
    return Results(results);
  }
  // Where one is too small, size() and dims() of all outputs tell what is needed.
  void run(const std::vector<Input>& inputs, std::vector<Output>& outputs) {
    const std::vector<anydim_input> in = views(inputs);
    into(outputs, [&](anydim_output* out, std::size_t count) {
      return api().context_run(handle_, in.data(), in.size(), out, count);
    });
  }
  Results run_ragged(const std::vector<Input>& inputs, const std::vector<std::int64_t>& offsets) {
    const std::vector<anydim_input> in = views(inputs);
    anydim_results* results = nullptr;
    check(api().context_run_ragged_owned(handle_, in.data(), in.size(), offsets.data(),
                                         offsets.size(), &results));
    return Results(results);
  }
  void run_ragged(const std::vector<Input>& inputs, const std::vector<std::int64_t>& offsets,
                  std::vector<Output>& outputs) {
    const std::vector<anydim_input> in = views(inputs);
    into(outputs, [&](anydim_output* out, std::size_t count) {
      return api().context_run_ragged(handle_, in.data(), in.size(), offsets.data(), offsets.size(),
                                      out, count);
    });
  }
  // In the order of a stream. Results are in the library's device memory; `offsets` not null: texts
  // laid end to end.
  Results run(const std::vector<Input>& inputs, Stream stream,
              const std::vector<std::int64_t>* offsets = nullptr) {
    const std::vector<anydim_input> in = views(inputs);
    const std::vector<std::uint8_t> inputs_on = devices(inputs);
    const anydim_stream_call call = stream_call(stream, inputs_on, {}, offsets);
    anydim_results* results = nullptr;
    check(api().context_run_on_stream_owned(handle_, &call, in.data(), in.size(), &results));
    return Results(results);
  }
  void run(const std::vector<Input>& inputs, std::vector<Output>& outputs, Stream stream,
           const std::vector<std::int64_t>* offsets = nullptr) {
    const std::vector<anydim_input> in = views(inputs);
    const std::vector<std::uint8_t> inputs_on = devices(inputs), outputs_on = devices(outputs);
    const anydim_stream_call call = stream_call(stream, inputs_on, outputs_on, offsets);
    into(outputs, [&](anydim_output* out, std::size_t count) {
      return api().context_run_on_stream(handle_, &call, in.data(), in.size(), out, count);
    });
  }
  void synchronize() { check(api().context_synchronize(handle_)); }
  std::int64_t packed_rows() const {
    std::int64_t rows = 0;
    check(api().context_packed_rows(handle_, &rows));
    return rows;
  }

 private:
  static std::vector<anydim_input> views(const std::vector<Input>& inputs) {
    std::vector<anydim_input> views;
    for (const Input& input : inputs) views.push_back(input.view());
    return views;
  }
  template <typename Buffer>
  static std::vector<std::uint8_t> devices(const std::vector<Buffer>& buffers) {
    std::vector<std::uint8_t> devices;
    for (const Buffer& buffer : buffers) devices.push_back(buffer.device());
    return devices;
  }
  static anydim_stream_call stream_call(Stream stream, const std::vector<std::uint8_t>& inputs_on,
                                        const std::vector<std::uint8_t>& outputs_on,
                                        const std::vector<std::int64_t>* offsets) {
    anydim_stream_call call{};
    call.struct_size = sizeof call;
    call.stream = stream.handle;
    call.inputs_on_device = inputs_on.data();
    call.outputs_on_device = outputs_on.data();
    if (offsets != nullptr) {
      call.offsets = offsets->data();
      call.offset_count = offsets->size();
    }
    return call;
  }
  template <typename Run>
  static void into(std::vector<Output>& outputs, Run run) {
    std::vector<anydim_output> views;
    for (Output& output : outputs) views.push_back(output.view());
    anydim_status* status = run(views.data(), views.size());
    for (std::size_t i = 0; i < views.size(); ++i) outputs[i].set_size(views[i].size);
    check(status);
  }
};

}  // namespace anydim

#endif  // ANYDIM_ANYDIM_HPP
