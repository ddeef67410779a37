#include "frontends/onnx/tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "frontends/file_mapping.h"
#include "frontends/onnx/parse.h"
#include "frontends/onnx_tensor.h"
#include "frontends/sizes.h"
#include "ir/error.h"

namespace anydim::frontends {

namespace {

struct ElementType {
  std::string_view name;  // as the ONNX schema spells it
  std::optional<ir::DType> dtype;
};

// Indexed by ONNX's number. The later ones are not in the schema of every ONNX version, so they are
// written out here.
constexpr std::array<ElementType, 29> element_types = {{
    {"UNDEFINED", {}},
    {"FLOAT", ir::DType::F32},
    {"UINT8", ir::DType::U8},
    {"INT8", ir::DType::I8},
    {"UINT16", ir::DType::U16},
    {"INT16", ir::DType::I16},
    {"INT32", ir::DType::I32},
    {"INT64", ir::DType::I64},
    {"STRING", {}},
    {"BOOL", ir::DType::Bool},
    {"FLOAT16", ir::DType::F16},
    {"DOUBLE", ir::DType::F64},
    {"UINT32", ir::DType::U32},
    {"UINT64", ir::DType::U64},
    {"COMPLEX64", {}},
    {"COMPLEX128", {}},
    {"BFLOAT16", ir::DType::BF16},
    {"FLOAT8E4M3FN", {}},
    {"FLOAT8E4M3FNUZ", {}},
    {"FLOAT8E5M2", {}},
    {"FLOAT8E5M2FNUZ", {}},
    {"UINT4", {}},
    {"INT4", {}},
    {"FLOAT4E2M1", {}},
    {"FLOAT8E8M0", {}},
    {"UINT2", {}},
    {"INT2", {}},
    {"FLOAT6E2M3", {}},
    {"FLOAT6E3M2", {}},
}};

[[noreturn]] void malformed(const std::string& what, const std::string& reason) {
  throw Error(ErrorKind::Malformed, what + reason);
}

std::string type_text(ir::DType dtype, const std::vector<std::int64_t>& dims) {
  return fmt::format("{} {}", ir::name_of(dtype), dims_text(dims));
}

void check_raw_size(std::size_t size, ir::DType dtype, const std::vector<std::int64_t>& dims,
                    std::int64_t needed, const std::string& what) {
  if (static_cast<std::int64_t>(size) == needed) return;
  malformed(what, fmt::format(" is {}, which needs {} bytes, but its raw_data has {}",
                              type_text(dtype, dims), needed, size));
}

ir::Tensor take_raw(onnx::TensorProto& proto, ir::DType dtype, std::vector<std::int64_t> dims,
                    std::int64_t needed, const std::string& what) {
  check_raw_size(proto.raw_data().size(), dtype, dims, needed, what);
  std::shared_ptr<const std::string> owner(proto.release_raw_data());
  if (!owner) return {dtype, std::move(dims)};
  const std::span bytes(reinterpret_cast<const std::byte*>(owner->data()), owner->size());
  return {dtype, std::move(dims), bytes, std::move(owner)};
}

// A field whose elements have the tensor's own width: the field itself becomes the memory.
template <typename Field>
ir::Tensor adopt(Field& field, ir::DType dtype, std::vector<std::int64_t> dims) {
  auto owner = std::make_shared<Field>();
  owner->Swap(&field);
  const auto bytes =
      std::as_bytes(std::span(owner->data(), static_cast<std::size_t>(owner->size())));
  return {dtype, std::move(dims), bytes, std::move(owner)};
}

// A field whose elements are wider than the tensor's.
template <typename Narrow, typename Field>
ir::Tensor narrow(const Field& field, ir::DType dtype, std::vector<std::int64_t> dims,
                  const std::string& what) {
  using Wide = typename Field::value_type;
  ir::Tensor tensor(dtype, std::move(dims));
  const auto elements = tensor.mutable_as<Narrow>();
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const Wide value = field.Get(static_cast<int>(i));
    if (!std::in_range<Narrow>(value)) {
      malformed(what, fmt::format(" is {}, but element {} has the value {}", ir::name_of(dtype), i,
                                  value));
    }
    elements[i] = static_cast<Narrow>(value);
  }
  return tensor;
}

template <typename Field>
void check_count(const Field& field, ir::DType dtype, const std::vector<std::int64_t>& dims,
                 std::string_view name, const std::string& what) {
  const bool empty = std::find(dims.begin(), dims.end(), 0) != dims.end();
  std::int64_t count = empty ? 0 : 1;
  for (const std::int64_t dim : dims)
    count *= dim;  // cannot overflow: tensor_bytes accepted the dims
  if (field.size() == count) return;
  malformed(what, fmt::format(" is {}, which needs {} elements, but its {} has {}",
                              type_text(dtype, dims), count, name, field.size()));
}

ir::Tensor take_typed(onnx::TensorProto& proto, ir::DType dtype, std::vector<std::int64_t> dims,
                      const std::string& what) {
  using ir::DType;
  switch (dtype) {
    case DType::F32:
      check_count(proto.float_data(), dtype, dims, "float_data", what);
      return adopt(*proto.mutable_float_data(), dtype, std::move(dims));
    case DType::F64:
      check_count(proto.double_data(), dtype, dims, "double_data", what);
      return adopt(*proto.mutable_double_data(), dtype, std::move(dims));
    case DType::I64:
      check_count(proto.int64_data(), dtype, dims, "int64_data", what);
      return adopt(*proto.mutable_int64_data(), dtype, std::move(dims));
    case DType::U64:
      check_count(proto.uint64_data(), dtype, dims, "uint64_data", what);
      return adopt(*proto.mutable_uint64_data(), dtype, std::move(dims));
    case DType::U32:
      check_count(proto.uint64_data(), dtype, dims, "uint64_data", what);
      return narrow<std::uint32_t>(proto.uint64_data(), dtype, std::move(dims), what);
    case DType::I32:
      check_count(proto.int32_data(), dtype, dims, "int32_data", what);
      return adopt(*proto.mutable_int32_data(), dtype, std::move(dims));
    case DType::F16:
    case DType::BF16:
    case DType::I16:
    case DType::I8:
    case DType::U16:
    case DType::U8:
    case DType::Bool: break;
  }
  const auto& field = proto.int32_data();
  check_count(field, dtype, dims, "int32_data", what);
  if (dtype == DType::I16) return narrow<std::int16_t>(field, dtype, std::move(dims), what);
  if (dtype == DType::I8) return narrow<std::int8_t>(field, dtype, std::move(dims), what);
  if (ir::size_of(dtype) == 1) return narrow<std::uint8_t>(field, dtype, std::move(dims), what);
  return narrow<std::uint16_t>(field, dtype, std::move(dims),
                               what);  // also the bits of f16 and bf16
}

std::int64_t integer_entry(const std::string& what, const std::string& key,
                           const std::string& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc{} && end == text.data() + text.size()) return number;
  malformed(what, fmt::format(" has external data with the {} {}: expected an integer", key,
                              quoted_name(text)));
}

ExternalLocation external_location(const onnx::TensorProto& proto, const std::string& what) {
  ExternalLocation location;
  std::set<std::string> seen;
  for (const auto& entry : proto.external_data()) {
    if (!seen.insert(entry.key()).second)
      malformed(what, fmt::format(" gives the key {} of its external data twice",
                                  quoted_name(entry.key())));
    if (entry.key() == "location") location.file = entry.value();
    if (entry.key() == "offset") location.offset = integer_entry(what, entry.key(), entry.value());
    if (entry.key() == "length") location.length = integer_entry(what, entry.key(), entry.value());
  }
  return location;
}

int filled_fields(const onnx::TensorProto& proto) {
  return int{proto.has_raw_data()} + int{proto.float_data_size() > 0} +
         int{proto.double_data_size() > 0} + int{proto.int32_data_size() > 0} +
         int{proto.int64_data_size() > 0} + int{proto.uint64_data_size() > 0} +
         int{proto.string_data_size() > 0};
}

struct Declared {
  ir::DType dtype;
  std::vector<std::int64_t> dims;
  std::int64_t bytes;
};

// `filled`: how many fields hold data.
Declared declared(const onnx::TensorProto& proto, const std::string& what, int filled) {
  const ir::DType dtype = dtype_numbered(proto.data_type(), what);
  if (proto.has_segment())
    malformed(what, " is one segment of a larger tensor; expected a whole one");
  std::vector<std::int64_t> dims(proto.dims().begin(), proto.dims().end());
  const std::int64_t bytes = tensor_bytes(proto.name(), dtype, dims);
  if (proto.data_location() == onnx::TensorProto::EXTERNAL && filled > 0)
    malformed(what, " has data both inside the model and in another file");
  if (filled > 1) malformed(what, " has its data in more than one field; expected one");
  return {dtype, std::move(dims), bytes};
}

}  // namespace

ir::DType dtype_numbered(std::int64_t number, const std::string& what) {
  if (number == 0) malformed(what, " has no element type");
  if (number < 0 || number >= static_cast<std::int64_t>(element_types.size())) {
    malformed(what,
              fmt::format(" has the element type number {}, which ONNX does not define", number));
  }
  const ElementType& type = element_types[static_cast<std::size_t>(number)];
  if (type.dtype) return *type.dtype;
  throw Error(
      ErrorKind::Unsupported,
      fmt::format("{} has the element type {}, which Anydim does not support", what, type.name));
}

ir::Tensor take_tensor(onnx::TensorProto& proto, const std::string& what, ExternalData& external) {
  const auto [dtype, dims, needed] = declared(proto, what, filled_fields(proto));
  if (proto.data_location() == onnx::TensorProto::EXTERNAL)
    return external.load(proto.name(), dtype, dims, external_location(proto, what));
  ir::Tensor tensor = proto.has_raw_data() ? take_raw(proto, dtype, dims, needed, what)
                                           : take_typed(proto, dtype, dims, what);
  check_bools(tensor, what);
  return tensor;
}

ir::Tensor tensor_apart(const onnx::TensorProto& proto, const std::string& what, std::size_t length,
                        std::shared_ptr<const ir::TensorSource> source) {
  const auto [dtype, dims, needed] = declared(proto, what, filled_fields(proto) + 1);
  check_raw_size(length, dtype, dims, needed, what);
  ir::Tensor tensor(dtype, dims, std::move(source));
  check_bools(tensor, what);
  return tensor;
}

ir::Tensor read_onnx_tensor(const std::filesystem::path& file) {
  const auto mapping = map_file(file);
  const std::string what = "tensor file " + quoted_name(file.string());
  onnx::TensorProto proto = parse_tensor(mapping->bytes(), what);
  ExternalData external(std::nullopt);
  return take_tensor(proto, what, external);
}

}  // namespace anydim::frontends
