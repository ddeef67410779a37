# anydim_onnx_schema: C++ messages of the ONNX schema, generated from the onnx.proto that Debian's
# libonnx-dev installs. Used as #include "onnx_schema/onnx.pb.h", namespace onnx, on protobuf's lite
# runtime. libonnx itself is not linked.

find_package(Protobuf REQUIRED)
find_path(ONNX_PROTO_DIR onnx.proto PATH_SUFFIXES onnx REQUIRED)

set(schema_dir "${CMAKE_BINARY_DIR}/generated/onnx_schema")
file(MAKE_DIRECTORY "${schema_dir}")
add_custom_command(
  OUTPUT "${schema_dir}/onnx.pb.cc" "${schema_dir}/onnx.pb.h"
  COMMAND protobuf::protoc "--proto_path=${ONNX_PROTO_DIR}" "--cpp_out=${schema_dir}" "${ONNX_PROTO_DIR}/onnx.proto"
  DEPENDS "${ONNX_PROTO_DIR}/onnx.proto"
  COMMENT "Generating the ONNX schema"
  VERBATIM)

add_library(anydim_onnx_schema STATIC "${schema_dir}/onnx.pb.cc" "${schema_dir}/onnx.pb.h")
target_compile_options(anydim_onnx_schema PRIVATE -w)
target_include_directories(anydim_onnx_schema SYSTEM PUBLIC "${CMAKE_BINARY_DIR}/generated")
target_link_libraries(anydim_onnx_schema PUBLIC protobuf::libprotobuf-lite)
