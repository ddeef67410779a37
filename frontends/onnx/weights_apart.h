// Large weights of a model are left in its file until they are read: protobuf would copy them into
// memory that mostly nobody needs, since kernels read weights in layouts of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "frontends/file_mapping.h"
#include "ir/tensor.h"

namespace anydim::frontends {

// A place in a file, in bytes.
struct Extent {
  std::size_t offset = 0, length = 0;
};

// A serialised ModelProto without the raw_data of the graph's initialisers that are larger than
// `least` bytes.
struct ModelWithoutWeights {
  std::string model;
  // by position among the graph's initialisers: where their bytes lie in the original
  std::map<int, Extent> weights;
};

// Nothing where the bytes are no sequence of protobuf's fields; the parser says what is wrong with
// them. Accepts any bytes.
std::optional<ModelWithoutWeights> leave_weights(std::span<const std::byte> model,
                                                 std::size_t least = std::size_t{64} << 10);

// Reads a model's bytes from its file later on. Throws Error{Malformed} where the file has been
// changed meanwhile.
class ModelFile {
 public:
  // From here on the file may not change. `name` is for messages.
  ModelFile(FileDescriptor descriptor, std::string name);
  const FileDescriptor& descriptor() const { return descriptor_; }
  // The bytes of a tensor that lie there.
  static std::shared_ptr<const ir::TensorSource> source(
      const std::shared_ptr<const ModelFile>& file, Extent extent);

 private:
  class Source;
  struct Stamp {
    std::int64_t bytes = 0, seconds = 0,
                 nanoseconds = 0;  // size and time of the last change of contents
    bool operator==(const Stamp&) const = default;
  };
  Stamp stamp() const;

  FileDescriptor descriptor_;
  std::string name_;
  Stamp opened_;
};

// Weights that were left out of a model's graph.
struct WeightsApart {
  std::shared_ptr<const ModelFile> file;
  std::map<int, Extent> places;  // by position among the graph's initialisers
};

}  // namespace anydim::frontends
