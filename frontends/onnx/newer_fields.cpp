#include "frontends/onnx/newer_fields.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <cstdint>

#include "frontends/sizes.h"
#include "ir/error.h"

namespace anydim::frontends {

namespace {

using google::protobuf::internal::WireFormatLite;

// Numbers of fields, as onnx.proto has them.
constexpr int node_overload = 8, function_overload = 13, function_attribute_proto = 11;

// The bytes of each field of that number among those that the schema does not have.
std::vector<std::string> fields(const std::string& unknown, int number) {
  std::vector<std::string> found;
  google::protobuf::io::CodedInputStream input(
      reinterpret_cast<const std::uint8_t*>(unknown.data()), static_cast<int>(unknown.size()));
  while (const std::uint32_t tag = input.ReadTag()) {
    const bool wanted =
        tag == WireFormatLite::MakeTag(number, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
    std::uint32_t bytes = 0;
    if (!wanted) {
      if (!WireFormatLite::SkipField(&input, tag)) break;
    } else if (!input.ReadVarint32(&bytes) ||
               !input.ReadString(&found.emplace_back(), static_cast<int>(bytes))) {
      found.pop_back();
      break;
    }
  }
  return found;
}

std::string last_of(std::vector<std::string> found) {
  return found.empty() ? std::string() : std::move(found.back());
}

}  // namespace

std::string overload_of(const onnx::FunctionProto& function) {
  return last_of(fields(function.unknown_fields(), function_overload));
}

std::string overload_of(const onnx::NodeProto& node) {
  return last_of(fields(node.unknown_fields(), node_overload));
}

std::vector<onnx::AttributeProto> attribute_defaults(const onnx::FunctionProto& function) {
  std::vector<onnx::AttributeProto> defaults;
  for (const std::string& bytes : fields(function.unknown_fields(), function_attribute_proto)) {
    if (!defaults.emplace_back().ParseFromString(bytes))
      throw Error(ErrorKind::Malformed,
                  "the model's function {} has an attribute that cannot be read",
                  quoted_name(function.name()));
  }
  return defaults;
}

}  // namespace anydim::frontends
