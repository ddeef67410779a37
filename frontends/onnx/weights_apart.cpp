#include "frontends/onnx/weights_apart.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <limits>
#include <utility>

#include "ir/error.h"
#include "onnx_schema/onnx.pb.h"

namespace anydim::frontends {

namespace {

using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;
using Wire = google::protobuf::internal::WireFormatLite;

// One field of a message: its tag, all its bytes, and of a field with a length the bytes after
// that.
struct Field {
  std::uint32_t tag = 0;
  std::span<const std::byte> all, contents;
  bool is(int number) const {
    return Wire::GetTagFieldNumber(tag) == number &&
           Wire::GetTagWireType(tag) == Wire::WIRETYPE_LENGTH_DELIMITED;
  }
};

// Calls `use` for each field; false where the bytes are no sequence of fields.
bool each_field(std::span<const std::byte> message, const std::function<void(const Field&)>& use) {
  CodedInputStream input(reinterpret_cast<const std::uint8_t*>(message.data()),
                         static_cast<int>(message.size()));
  while (static_cast<std::size_t>(input.CurrentPosition()) < message.size()) {
    const auto begin = static_cast<std::size_t>(input.CurrentPosition());
    Field field{.tag = input.ReadTag(), .all = {}, .contents = {}};
    if (field.tag == 0) return false;
    if (Wire::GetTagWireType(field.tag) == Wire::WIRETYPE_LENGTH_DELIMITED) {
      std::uint32_t length = 0;
      if (!input.ReadVarint32(&length)) return false;
      const auto from = static_cast<std::size_t>(input.CurrentPosition());
      if (length > message.size() - from || !input.Skip(static_cast<int>(length))) return false;
      field.contents = message.subspan(from, length);
    } else if (!Wire::SkipField(&input, field.tag)) {
      return false;
    }
    field.all = message.subspan(begin, static_cast<std::size_t>(input.CurrentPosition()) - begin);
    use(field);
  }
  return true;
}

void append(std::string& to, std::span<const std::byte> bytes) {
  to.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

void append_message(std::string& to, std::uint32_t tag, const std::string& contents) {
  google::protobuf::io::StringOutputStream stream(&to);
  CodedOutputStream output(&stream);
  output.WriteTag(tag);
  output.WriteVarint32(static_cast<std::uint32_t>(contents.size()));
  output.WriteString(contents);
}

class Leaver {
 public:
  Leaver(std::span<const std::byte> model, std::size_t least) : model_(model), least_(least) {}

  std::optional<ModelWithoutWeights> result() {
    const bool read = each_field(model_, [&](const Field& field) {
      if (field.is(onnx::ModelProto::kGraphFieldNumber))
        append_message(result_.model, field.tag, graph(field.contents));
      else append(result_.model, field.all);
    });
    if (!read || !whole_) return std::nullopt;
    return std::move(result_);
  }

 private:
  // A model may hold its graph in several fields, which protobuf joins: initialisers are counted
  // over all of them.
  std::string graph(std::span<const std::byte> message) {
    std::string left;
    whole_ &= each_field(message, [&](const Field& field) {
      if (!field.is(onnx::GraphProto::kInitializerFieldNumber)) return append(left, field.all);
      if (field.contents.size() > least_)
        append_message(left, field.tag, initialiser(field.contents));
      else append(left, field.all);
      ++initialisers_;
    });
    return left;
  }

  std::string initialiser(std::span<const std::byte> message) {
    std::string left;
    std::optional<std::span<const std::byte>> data;
    int places = 0;
    whole_ &= each_field(message, [&](const Field& field) {
      if (!field.is(onnx::TensorProto::kRawDataFieldNumber)) return append(left, field.all);
      data = field.contents;
      ++places;
    });
    if (places != 1 || data->size() <= least_) {
      left.clear();
      append(left, message);
      return left;
    }
    result_.weights[initialisers_] = {static_cast<std::size_t>(data->data() - model_.data()),
                                      data->size()};
    return left;
  }

  std::span<const std::byte> model_;
  std::size_t least_;
  ModelWithoutWeights result_;
  int initialisers_ = 0;
  bool whole_ = true;
};

}  // namespace

std::optional<ModelWithoutWeights> leave_weights(std::span<const std::byte> model,
                                                 std::size_t least) {
  if (model.size() > static_cast<std::size_t>(std::numeric_limits<int>::max())) return std::nullopt;
  return Leaver(model, least).result();
}

ModelFile::ModelFile(FileDescriptor descriptor, std::string name)
    : descriptor_(std::move(descriptor)), name_(std::move(name)), opened_(stamp()) {}

ModelFile::Stamp ModelFile::stamp() const {
  struct stat status{};
  if (::fstat(descriptor_.number(), &status) != 0)
    throw Error(ErrorKind::Malformed, "cannot read {}: {}", name_, std::strerror(errno));
  return {status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

class ModelFile::Source : public ir::TensorSource {
 public:
  Source(std::shared_ptr<const ModelFile> file, Extent extent)
      : file_(std::move(file)), extent_(extent) {}

  void read(std::span<std::byte> to) const override {
    internal_check(to.size() == extent_.length, "a weight is read as a whole");
    for (std::size_t done = 0; done < to.size();) {
      const ssize_t got = ::pread(file_->descriptor_.number(), to.data() + done, to.size() - done,
                                  static_cast<off_t>(extent_.offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0)
        throw Error(ErrorKind::Malformed, "cannot read {}: {}", file_->name_, std::strerror(errno));
      if (got == 0) break;  // the stamp tells
      done += static_cast<std::size_t>(got);
    }
    if (file_->stamp() != file_->opened_)
      throw Error(ErrorKind::Malformed,
                  "{} was changed while it was in use: expected the contents that were loaded; "
                  "load it again, and replace models by renaming a new file over the old one",
                  file_->name_);
  }

 private:
  std::shared_ptr<const ModelFile> file_;
  Extent extent_;
};

std::shared_ptr<const ir::TensorSource> ModelFile::source(
    const std::shared_ptr<const ModelFile>& file, Extent extent) {
  return std::make_shared<Source>(file, extent);
}

}  // namespace anydim::frontends
