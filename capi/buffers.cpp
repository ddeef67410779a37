#include "capi/buffers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>

#include "capi/functions.h"
#include "capi/status.h"
#include "ir/printable.h"
#include "ir/shapes/bind.h"

namespace anydim::capi {

namespace {

constexpr ir::DType dtypes[] = {ir::DType::F64, ir::DType::F32, ir::DType::F16, ir::DType::BF16,
                                ir::DType::I64, ir::DType::I32, ir::DType::I16, ir::DType::I8,
                                ir::DType::U64, ir::DType::U32, ir::DType::U16, ir::DType::U8,
                                ir::DType::Bool};
static_assert(dtypes[ANYDIM_F64 - 1] == ir::DType::F64 &&
              dtypes[ANYDIM_BOOL - 1] == ir::DType::Bool);

// More than any model's tensor; the dims of an input that takes any shape are read before anything
// else tells their number.
constexpr std::uint32_t most_dims = 64;

ir::DType known_dtype(anydim_dtype dtype, std::string_view what, std::string_view name) {
  const auto known = dtype_from(dtype);
  if (!known)
    throw Error(ErrorKind::CommandLine,
                "{} '{}' has dtype {}: expected one of ANYDIM_F64 (1) to ANYDIM_BOOL (13)", what,
                ir::printable(name), dtype);
  return *known;
}

ir::Tensor tensor_of(const anydim_input& input, const Model* device) {
  const std::string_view name = input.name;
  const ir::DType dtype = known_dtype(input.dtype, "input", name);
  if (input.rank > most_dims)
    throw Error(ErrorKind::Inputs, "input '{}' has rank {}: expected at most {}",
                ir::printable(name), input.rank, most_dims);
  if (input.dims == nullptr && input.rank > 0)
    throw Error(ErrorKind::CommandLine, "input '{}' has rank {}, and its dims are NULL",
                ir::printable(name), input.rank);
  std::vector<std::int64_t> dims(input.dims, input.dims + input.rank);
  for (std::size_t d = 0; d < dims.size(); ++d)
    if (dims[d] < 0)
      throw Error(ErrorKind::Inputs, "dims[{}] of input '{}' is {}: expected 0 or more", d,
                  ir::printable(name), dims[d]);
  const auto size = static_cast<std::size_t>(ir::byte_count(dtype, dims));
  if (input.size != size)
    throw Error(ErrorKind::Inputs, "input '{}' has {} bytes: {} takes {}", ir::printable(name),
                input.size, ir::shape_text(dtype, dims), size);
  if (input.data == nullptr && size > 0)
    throw Error(ErrorKind::CommandLine, "input '{}' has {} bytes, and its data is NULL",
                ir::printable(name), size);
  if (device != nullptr)
    return device->device_tensor(dtype, std::move(dims), const_cast<void*>(input.data));
  if (reinterpret_cast<std::uintptr_t>(input.data) % ir::size_of(dtype) != 0)
    throw Error(
        ErrorKind::Inputs,
        "input '{}' lies at an address that is no multiple of {}, the bytes of an element of {}: "
        "align it",
        ir::printable(name), ir::size_of(dtype), ir::name_of(dtype));
  const std::span bytes(static_cast<const std::byte*>(input.data), size);
  if (dtype == ir::DType::Bool)
    if (const auto wrong =
            std::ranges::find_if(bytes, [](std::byte byte) { return byte > std::byte{1}; });
        wrong != bytes.end())
      throw Error(ErrorKind::Inputs, "element {} of input '{}' is {}: a bool is 0 or 1",
                  wrong - bytes.begin(), ir::printable(name), static_cast<int>(*wrong));
  return {dtype, std::move(dims), bytes, nullptr};
}

// The messages for what does not fit are those of arrange_inputs().
std::vector<ir::Tensor> arranged(std::span<const anydim_input> inputs,
                                 std::vector<ir::Tensor> tensors,
                                 const std::vector<InputInfo>& wanted) {
  NamedTensors named;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (!named.emplace(inputs[i].name, std::move(tensors[i])).second)
      throw Error(ErrorKind::Inputs, "input '{}' is there twice", ir::printable(inputs[i].name));
  return arrange_inputs(wanted, named);
}

}  // namespace

anydim_dtype dtype_of(ir::DType dtype) {
  return static_cast<anydim_dtype>(std::ranges::find(dtypes, dtype) - std::begin(dtypes)) + 1;
}

std::optional<ir::DType> dtype_from(anydim_dtype dtype) {
  if (dtype < 1 || dtype > std::size(dtypes)) return std::nullopt;
  return dtypes[dtype - 1];
}

const char* dtype_name(anydim_dtype dtype) noexcept {
  const auto known = dtype_from(dtype);
  return known ? ir::name_of(*known).data() : "";
}

std::size_t dtype_size(anydim_dtype dtype) noexcept {
  const auto known = dtype_from(dtype);
  return known ? ir::size_of(*known) : 0;
}

std::vector<ir::Tensor> tensors_of(std::span<const anydim_input> inputs,
                                   const std::vector<InputInfo>& wanted, const OnDevice& on) {
  if (!inputs.empty()) require_pointer(inputs.data(), "inputs");
  std::vector<ir::Tensor> tensors;
  tensors.reserve(inputs.size());
  // Calls mostly name their inputs in the model's order, and then need no map.
  bool in_order = inputs.size() == wanted.size();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].name == nullptr)
      throw Error(ErrorKind::CommandLine, "inputs[{}].name is NULL: expected the name of an input",
                  i);
    tensors.push_back(tensor_of(inputs[i], on.has(i) ? on.model : nullptr));
    in_order = in_order && inputs[i].name == wanted[i].name &&
               tensors[i].dtype() == wanted[i].dtype && tensors[i].rank() == wanted[i].dims.size();
  }
  return in_order ? tensors : arranged(inputs, std::move(tensors), wanted);
}

WantedOutputs places_of(std::span<const anydim_output> outputs,
                        const std::vector<InputInfo>& results, const OnDevice& on) {
  if (!outputs.empty()) require_pointer(outputs.data(), "outputs");
  WantedOutputs wanted;
  wanted.places.resize(results.size());
  wanted.outputs.resize(results.size());
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const anydim_output& output = outputs[o];
    if (output.name == nullptr)
      throw Error(ErrorKind::CommandLine, "outputs[{}].name is NULL: expected the name of a result",
                  o);
    const auto found = std::ranges::find(results, std::string_view(output.name), &InputInfo::name);
    if (found == results.end()) {
      std::vector<std::string> names;
      for (const InputInfo& result : results) names.push_back(ir::printable(result.name));
      throw Error(ErrorKind::Inputs, "the model has no result '{}'; its results are {}",
                  ir::printable(output.name), fmt::join(names, ", "));
    }
    const std::string name = ir::printable(found->name);
    const auto result = static_cast<std::size_t>(found - results.begin());
    if (wanted.outputs[result]) throw Error(ErrorKind::Inputs, "output '{}' is there twice", name);
    if (const ir::DType dtype = known_dtype(output.dtype, "output", output.name);
        dtype != found->dtype || output.rank != found->dims.size())
      throw Error(ErrorKind::Inputs,
                  "output '{}' does not fit: the result is {}, the buffer is for {} of rank {}",
                  name, to_string(*found).substr(found->name.size() + 2), ir::name_of(dtype),
                  output.rank);
    if (output.dims == nullptr && output.rank > 0)
      throw Error(ErrorKind::CommandLine, "output '{}' has rank {}, and its dims are NULL", name,
                  output.rank);
    if (output.data == nullptr && output.capacity > 0)
      throw Error(ErrorKind::CommandLine, "output '{}' has room for {} bytes, and its data is NULL",
                  name, output.capacity);
    if (reinterpret_cast<std::uintptr_t>(output.data) % ir::size_of(found->dtype) != 0)
      throw Error(
          ErrorKind::Inputs,
          "output '{}' lies at an address that is no multiple of {}, the bytes of an element of "
          "{}: align it",
          name, ir::size_of(found->dtype), ir::name_of(found->dtype));
    wanted.outputs[result] = o;
    wanted.places[result] = {.dtype = found->dtype,
                             .bytes = {static_cast<std::byte*>(output.data), output.capacity},
                             .room = true,
                             .device = on.has(o)};
    if (on.has(o))  // refused where it is no such memory
      static_cast<void>(on.model->device_tensor(
          ir::DType::U8, {static_cast<std::int64_t>(output.capacity)}, output.data));
  }
  return wanted;
}

void report_outputs(const std::vector<ir::Tensor>& results, const WantedOutputs& wanted,
                    std::span<anydim_output> outputs) {
  std::string small;
  for (std::size_t r = 0; r < results.size(); ++r) {
    if (!wanted.outputs[r]) continue;
    anydim_output& output = outputs[*wanted.outputs[r]];
    std::int64_t* const dims = std::fill_n(output.dims, output.rank - results[r].rank(), 1);
    std::ranges::copy(results[r].dims(), dims);
    output.size = results[r].byte_size();
    if (output.size > output.capacity && small.empty())
      small = fmt::format(
          "output '{}' has room for {} bytes, and the result is {}, which takes {}: give it as "
          "many and call again",
          ir::printable(output.name), output.capacity,
          ir::shape_text(results[r].dtype(), results[r].dims()), output.size);
  }
  if (!small.empty()) throw Error(ErrorKind::Inputs, small);
}

}  // namespace anydim::capi
