#include "tests/fuzz/readers/readers.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>
#include <optional>
#include <string>

#include "api/npy.h"
#include "frontends/onnx.h"
#include "frontends/onnx_tensor.h"
#include "ir/error.h"
#include "ir/loops/loop_form_parse.h"
#include "ir/loops/placed_kernel_parse.h"
#include "ir/shapes/infer.h"
#include "ir/text/parse.h"
#include "ir/text/parse_program.h"
#include "ir/text/print.h"
#include "ir/verify.h"
#include "runtime/kernel_file.h"
#include "tools/tokens.h"
#include "tuner/database.h"
#include "tuner/distribution.h"
#include "tuner/trace.h"

namespace anydim::fuzz {

namespace {

using Bytes = std::span<const std::byte>;

std::string_view text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

[[noreturn]] void fault(const char* what) {
  std::fprintf(stderr, "a fault of ours: %s\n", what);
  std::abort();
}

// An error that the bytes may cause, or none.
template <typename Work>
void orderly(Work work) {
  try {
    work();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::Internal) fault(error.what());
  } catch (const std::bad_alloc&) {
  } catch (const std::exception& error) {
    fault(error.what());
  }
}

// A file with these bytes, for readers that take a path; of this process alone, and gone with it.
class File {
 public:
  explicit File(std::string_view suffix) : path_(folder() / fmt::format("bytes{}", suffix)) {}
  const std::filesystem::path& with(Bytes bytes) const {
    std::FILE* file = std::fopen(path_.c_str(), "wb");
    if (file == nullptr || std::fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size() ||
        std::fclose(file) != 0)
      fault("a temporary file cannot be written");
    return path_;
  }

 private:
  struct Folder {
    std::filesystem::path path;
    Folder() {
      std::string name =
          (std::filesystem::temp_directory_path() / "anydim-readers-XXXXXX").string();
      if (mkdtemp(name.data()) == nullptr) fault("a temporary folder cannot be made");
      path = name;
    }
    ~Folder() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
  };
  static const std::filesystem::path& folder() {
    static const Folder folder;
    return folder.path;
  }

  std::filesystem::path path_;
};

void verify_and_infer(ir::Module module) {
  ir::verify(module, {.kind = ErrorKind::Malformed, .types_inferred = false, .stage = "fuzz"});
  ir::infer_types(module);
  const std::string text = ir::print(module);
  if (ir::print(ir::parse(text)) != text) fault("a module does not read back as it was printed");
}

void read_onnx(Bytes bytes) {
  orderly([&] {
    ir::Module module = frontends::read_onnx(bytes, std::nullopt);
    verify_and_infer(std::move(module));
  });
}

void read_text(Bytes bytes) {
  // Numbers drawn from a seed fill any memory that the text asks for.
  if (text_of(bytes).find("@random") != std::string_view::npos) return;
  orderly([&] { verify_and_infer(ir::parse(text_of(bytes))); });
}

// What anydim opt --stage prints, read back and printed again.
template <typename Reread>
void read_stage(Bytes bytes, Reread reread) {
  if (text_of(bytes).find("@random") != std::string_view::npos) return;
  orderly([&] {
    const std::string text = reread(text_of(bytes));
    if (reread(text) != text) fault("a stage's text does not read back as it was printed");
  });
}

void read_loops(Bytes bytes) {
  read_stage(bytes, [](std::string_view text) { return ir::reread_loop_forms(text); });
}

void read_placed(Bytes bytes) {
  read_stage(bytes, [](std::string_view text) { return ir::reread_kernels(text); });
}

void read_program(Bytes bytes) {
  read_stage(bytes, [](std::string_view text) { return to_string(ir::parse_program(text)); });
}

void read_npy(Bytes bytes) {
  static const File file(".npy");
  orderly([&] { anydim::read_npy(file.with(bytes)); });
}

void read_tensor(Bytes bytes) {
  static const File file(".pb");
  orderly([&] { frontends::read_onnx_tensor(file.with(bytes)); });
}

// Token ids, lengths and traces of shapes.
void read_tokens(Bytes bytes) {
  static const File file(".txt");
  const std::filesystem::path& path = file.with(bytes);
  orderly([&] { tools::read_tokens(path); });
  orderly([&] { tuner::read_lengths(path); });
  orderly([&] { tuner::Trace::parse(text_of(bytes), "trace"); });
}

// Once as a file, once as what a file with a right hash holds.
void read_kernel(Bytes bytes) {
  orderly([&] {
    const runtime::KernelKey key;
    runtime::decode_kernel(key, bytes);
    const runtime::DecodedKernel decoded =
        runtime::decode_kernel(key, runtime::seal_payload(key, bytes));
    if (decoded.kernel &&
        !runtime::decode_kernel(key, runtime::encode_kernel(key, *decoded.kernel)).kernel)
      fault("a kernel that was read cannot be written and read again");
  });
}

const tuner::Environment environment{
    .device = "d", .target = "t", .driver = "", .generator = "g", .precision = "f32", .threads = 2};

void read_database(Bytes bytes) {
  static const File file(".db");
  const std::filesystem::path& path = file.with(bytes);
  orderly([&] {
    const tuner::Database database(path, tuner::Database::Access::Read);
    database.tuning_table(environment);
    database.export_json();
  });
  orderly([&] {
    tuner::Database database(path, tuner::Database::Access::Write);
    const tuner::Measurement one{
        .region = "r", .keys = {1}, .schedule = {.name = "map", .fields = {}}};
    database.record(environment, {&one, 1});
  });
}

void read_export(Bytes bytes) {
  static const File file(".db");
  const std::filesystem::path& path = file.with({});
  orderly([&] {
    tuner::Database database(path, tuner::Database::Access::Write);
    database.import_json(text_of(bytes));
    const std::string before = database.export_json();
    database.import_json(before);
    if (database.export_json() != before) fault("importing what was exported changes the database");
  });
}

constexpr Reader all[] = {
    {"onnx", read_onnx},         {"text", read_text},       {"loops", read_loops},
    {"placed", read_placed},     {"program", read_program}, {"npy", read_npy},
    {"tensor", read_tensor},     {"tokens", read_tokens},   {"kernel", read_kernel},
    {"database", read_database}, {"export", read_export}};

}  // namespace

std::span<const Reader> readers() { return all; }

const Reader* find_reader(std::string_view name) {
  for (const Reader& reader : all) {
    if (reader.name == name) return &reader;
  }
  return nullptr;
}

}  // namespace anydim::fuzz
