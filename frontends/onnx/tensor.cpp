#include "frontends/onnx/tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "frontends/file_mapping.h"
#include "frontends/onnx/parse.h"
#include "frontends/onnx_tensor.h"
#include "frontends/sizes.h"
#include "ir/error.h"
#include "ir/number_text.h"

namespace anydim::frontends {

namespace {

[[noreturn]] void malformed(const std::string& what, const std::string& reason) {
  throw Error(ErrorKind::Malformed, what + reason);
}

std::string type_text(std::string_view type, const std::vector<std::int64_t>& dims) {
  return fmt::format("{} {}", type, dims_text(dims));
}

void check_raw_size(std::size_t size, std::string_view type, const std::vector<std::int64_t>& dims,
                    std::int64_t needed, const std::string& what) {
  if (static_cast<std::int64_t>(size) == needed) return;
  malformed(what, fmt::format(" is {}, which needs {} bytes, but its raw_data has {}",
                              type_text(type, dims), needed, size));
}

ir::Tensor take_raw(onnx::TensorProto& proto, ir::DType dtype, std::vector<std::int64_t> dims,
                    std::int64_t needed, const std::string& what) {
  check_raw_size(proto.raw_data().size(), ir::name_of(dtype), dims, needed, what);
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
                              type_text(ir::name_of(dtype), dims), count, name, field.size()));
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
  if (const auto number = ir::parsed_number<std::int64_t>(text)) return *number;
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
  const ElementType& type;
  std::vector<std::int64_t> dims;
  std::int64_t bytes;  // as they are stored
};

// `filled`: how many fields hold data.
Declared declared(const onnx::TensorProto& proto, const std::string& what, int filled) {
  const ElementType& type = element_type_numbered(proto.data_type(), what);
  if (proto.has_segment())
    malformed(what, " is one segment of a larger tensor; expected a whole one");
  std::vector<std::int64_t> dims(proto.dims().begin(), proto.dims().end());
  std::int64_t bytes = tensor_bytes(proto.name(), type.held(), dims);
  if (type.narrow)
    bytes = type.narrow->packed_bytes(bytes / static_cast<std::int64_t>(ir::size_of(type.held())));
  if (proto.data_location() == onnx::TensorProto::EXTERNAL && filled > 0)
    malformed(what, " has data both inside the model and in another file");
  if (filled > 1) malformed(what, " has its data in more than one field; expected one");
  return {type, std::move(dims), bytes};
}

// Reads what a source has packed.
class UnpackingSource : public ir::TensorSource {
 public:
  UnpackingSource(const NarrowType& type, std::size_t bytes,
                  std::shared_ptr<const ir::TensorSource> packed)
      : type_(type), bytes_(bytes), packed_(std::move(packed)) {}

  void read(std::span<std::byte> to) const override {
    std::vector<std::byte> packed(bytes_);
    packed_->read(packed);
    type_.unpack(packed, to);
  }

 private:
  const NarrowType& type_;  // of the table, which outlives all
  std::size_t bytes_;
  std::shared_ptr<const ir::TensorSource> packed_;
};

ir::Tensor unpacked(const Declared& declared, std::span<const std::byte> packed) {
  ir::Tensor tensor(declared.type.held(), declared.dims);
  declared.type.narrow->unpack(packed, tensor.mutable_bytes());
  return tensor;
}

ir::Tensor take_narrow(const onnx::TensorProto& proto, const Declared& declared,
                       const std::string& what) {
  if (proto.has_raw_data()) {
    const std::string& raw = proto.raw_data();
    check_raw_size(raw.size(), declared.type.text(), declared.dims, declared.bytes, what);
    return unpacked(declared, std::as_bytes(std::span(raw)));
  }
  // Each element of the field is a byte as it stands in raw data.
  const auto& field = proto.int32_data();
  if (field.size() != declared.bytes) {
    malformed(what, fmt::format(" is {}, which needs {} bytes, but its int32_data has {}",
                                type_text(declared.type.text(), declared.dims), declared.bytes,
                                field.size()));
  }
  std::vector<std::byte> packed;
  for (const std::int32_t byte : field) {
    if (!std::in_range<std::uint8_t>(byte))
      malformed(what, fmt::format(" is {}, but element {} of its int32_data has the value {}; "
                                  "expected a byte",
                                  declared.type.text(), packed.size(), byte));
    packed.push_back(static_cast<std::byte>(byte));
  }
  return unpacked(declared, packed);
}

}  // namespace

ir::Tensor take_tensor(onnx::TensorProto& proto, const std::string& what, ExternalData& external) {
  const Declared stored = declared(proto, what, filled_fields(proto));
  const auto& [type, dims, needed] = stored;
  const bool apart = proto.data_location() == onnx::TensorProto::EXTERNAL;
  if (type.narrow) {
    if (!apart) return take_narrow(proto, stored, what);
    return unpacked(
        stored, external.load(proto.name(), ir::DType::U8, {needed}, external_location(proto, what))
                    .bytes());
  }
  const ir::DType dtype = *type.dtype;
  if (apart) return external.load(proto.name(), dtype, dims, external_location(proto, what));
  ir::Tensor tensor = proto.has_raw_data() ? take_raw(proto, dtype, dims, needed, what)
                                           : take_typed(proto, dtype, dims, what);
  check_bools(tensor, what);
  return tensor;
}

ir::Tensor tensor_apart(const onnx::TensorProto& proto, const std::string& what, std::size_t length,
                        std::shared_ptr<const ir::TensorSource> source) {
  const Declared stored = declared(proto, what, filled_fields(proto) + 1);
  check_raw_size(length, stored.type.text(), stored.dims, stored.bytes, what);
  if (stored.type.narrow)
    source = std::make_shared<UnpackingSource>(*stored.type.narrow, length, std::move(source));
  ir::Tensor tensor(stored.type.held(), stored.dims, std::move(source));
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
