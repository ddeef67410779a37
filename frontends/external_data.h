// Tensor data kept in files beside a model. A model is not trusted to name files: only regular
// files inside the model's folder are opened.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "frontends/file_mapping.h"
#include "ir/tensor.h"

namespace anydim::frontends {

// Where a tensor's bytes lie, as the model says.
struct ExternalLocation {
  std::string file;                    // relative to the model's folder, with '/'
  std::int64_t offset = 0;             // bytes
  std::optional<std::int64_t> length;  // bytes; absent: as many as the dims need
};

// Opens the files of one model, each once, and maps them into memory; tensors keep the mapping
// alive.
class ExternalData {
 public:
  // No folder: a model read from memory, which can have no files beside it.
  explicit ExternalData(std::optional<std::filesystem::path> folder) : folder_(std::move(folder)) {}

  // The tensor's bytes alias the mapping (copied only where the offset is not a multiple of the
  // element size); its origin names file, offset and length. Throws Error{Malformed} naming tensor
  // and file: a missing file; an absolute path, `..`, a link that leaves the folder, a hard link or
  // anything but a regular file; an offset or length that is negative, past the file's end or not
  // what the dims need.
  ir::Tensor load(const std::string& tensor_name, ir::DType dtype, std::vector<std::int64_t> dims,
                  const ExternalLocation& location);

 private:
  const std::shared_ptr<const FileMapping>& mapping(const std::string& tensor_name,
                                                    const std::string& file);

  std::optional<std::filesystem::path> folder_;
  std::map<std::string, std::shared_ptr<const FileMapping>> mappings_;
};

}  // namespace anydim::frontends
