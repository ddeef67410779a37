#include "frontends/onnx/parse.h"

#include <limits>

#include "ir/error.h"

namespace anydim::frontends {

namespace {

template <typename Message>
Message parse(std::span<const std::byte> bytes, const std::string& what, std::string_view kind) {
  if (bytes.empty())
    throw Error(ErrorKind::Malformed, "{} is empty: expected an ONNX {}", what, kind);
  if (bytes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    throw Error(
        ErrorKind::Malformed,
        "{} has {} bytes, over protobuf's limit of 2 GiB: export its weights as external data",
        what, bytes.size());
  }
  Message message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    throw Error(ErrorKind::Malformed,
                "{} is not an ONNX {}: its {} bytes are truncated, damaged, nested too "
                "deeply or of another format",
                what, kind, bytes.size());
  }
  return message;
}

}  // namespace

onnx::ModelProto parse_model(std::span<const std::byte> bytes, const std::string& what) {
  return parse<onnx::ModelProto>(bytes, what, "model");
}

onnx::TensorProto parse_tensor(std::span<const std::byte> bytes, const std::string& what) {
  return parse<onnx::TensorProto>(bytes, what, "tensor");
}

}  // namespace anydim::frontends
