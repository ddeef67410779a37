#include "codegen_cuda/kernel_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "codegen_cuda/device_text.h"
#include "codegen_cuda/occupancy.h"
#include "ir/error.h"
#include "ir/region.h"

namespace anydim::codegen_cuda {

namespace {

std::string_view text_of(const DevicePiece& piece, const ReplacedText* replaced) {
  if (replaced == nullptr) return piece.text;
  const auto own = replaced->pieces.find(piece.name);
  return own == replaced->pieces.end() ? piece.text : own->second;
}

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

}  // namespace

void CodeScope::line(std::string_view text) {
  const std::string indentation(static_cast<std::size_t>(depth_) * 2, ' ');
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view one = text.substr(0, end);
    const bool directive = one.starts_with('#');
    if (!one.empty()) text_ += (directive ? "" : indentation) + std::string(one);
    text_ += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

const IndexVariable* CodeScope::find(const ir::DimLeaf& leaf, CodeScope** home) {
  for (CodeScope* scope = this; scope != nullptr; scope = scope->parent_) {
    if (const auto found = scope->leaves_.find(leaf); found != scope->leaves_.end()) {
      if (home != nullptr) *home = scope;
      return &found->second;
    }
  }
  return nullptr;
}

KernelWriter::KernelWriter(const PlanInputs& inputs, const ir::Bucket& bucket, std::string about)
    : inputs_(inputs), bucket_(bucket), about_(std::move(about)), symbols_(inputs.form.symbols) {
  const ir::Function& body = inputs.region.body;
  parameters_ = body.body.parameters.size();
  for (const ir::ValueId value : body.body.parameters)
    buffer_types_.push_back(body.tensor_type(value));
  for (const ir::ValueId value : body.body.results)
    buffer_types_.push_back(body.tensor_type(value));
  for (const char* taken : {"extents", "error", "workspace", "int", "long", "float", "double",
                            "bool", "short", "char", "unsigned", "if", "for"}) {
    names_.insert(taken);
  }
  for (std::size_t i = 0; i < buffers(); ++i) names_.insert(buffer(i));
  ir::narrow(symbols_, inputs.region, bucket);
}

ir::Interval KernelWriter::interval_of(const Dim& dim) const {
  return ir::bounds_in(inputs_.region, bucket_, dim, symbols_);
}

bool KernelWriter::fits_int(const Dim& dim) const {
  const ir::Interval interval = interval_of(dim);
  return interval.low >= std::numeric_limits<std::int32_t>::min() &&
         interval.high <= std::numeric_limits<std::int32_t>::max();
}

std::string KernelWriter::buffer(std::size_t position) const {
  return position < parameters_ ? fmt::format("in{}", position)
                                : fmt::format("out{}", position - parameters_);
}

std::string KernelWriter::fresh(std::string_view stem) {
  std::string base;
  for (const char c : stem) base += is_name(c) ? c : '_';
  while (base.starts_with('_')) base.erase(0, 1);
  if (base.empty() || std::isdigit(static_cast<unsigned char>(base[0])) != 0) base = "i" + base;
  // A stem that ends in a digit stays apart from the number that follows it.
  std::string name = base;
  const std::string joint = std::isdigit(static_cast<unsigned char>(base.back())) != 0 ? "_" : "";
  for (int number = 1; !names_.insert(name).second; ++number)
    name = base + joint + std::to_string(number);
  return name;
}

std::string KernelWriter::fresh_numbered(std::string_view stem) {
  for (int number = 1;; ++number) {
    const std::string name = std::string(stem) + std::to_string(number);
    if (!names_.contains(name)) return fresh(name);
  }
}

void KernelWriter::use(std::string_view piece) { pieces_.emplace(piece); }

CodeScope& KernelWriter::begin_entry(const EntryOptions& options) {
  internal_check(entry_ == nullptr, "one entry is written at a time");
  entry_ = std::make_unique<CodeScope>();
  const bool streams = options.blocks == 0;
  const std::int64_t blocks =
      streams ? streaming_blocks(target(), options.threads, options.kept) : options.blocks;
  const std::int64_t left = registers_left(target(), options.threads, blocks);
  plans_.push_back(
      {.name = options.name,
       .threads = options.threads,
       .blocks = blocks,
       .registers = streams ? std::min(streaming_registers(target(), options.kept), left) : left});
  const std::string bounds = streams && !streaming_is_bound(target(), options.kept)
                                 ? std::to_string(options.threads)
                                 : fmt::format("{}, {}", options.threads, blocks);
  std::string parameters;
  for (std::size_t i = 0; i < buffers(); ++i) {
    // No launch writes weights: the compiler may load them ahead of stores and of waits for earlier
    // launches, which it must not do with what these write. Where a thread keeps a row, it would
    // keep the weights of one beside it, for which there are no registers.
    const bool weight = i < parameters_ && inputs_.region.is_weight(i) && options.kept == 0;
    parameters +=
        fmt::format("{}{}* {}{}, ", i < parameters_ ? "const " : "",
                    storage_type(buffer_types_[i].dtype), weight ? "__restrict__ " : "", buffer(i));
  }
  parameters += "const long long* extents, KernelError* error, void* workspace";
  if (options.tensor_maps > 0) use("tensor_map");
  for (int i = 0; i < options.tensor_maps; ++i)
    parameters += fmt::format(", const __grid_constant__ TensorMap tensor_map{}", i);
  entry_header_ = fmt::format("extern \"C\" __global__ void __launch_bounds__({}) {}({}) {{\n",
                              bounds, options.name, parameters);
  const std::vector<std::string>& names = inputs_.region.body.symbols.names();
  for (std::size_t i = 0; i < names.size(); ++i) {
    const bool wide = !fits_int(Dim::symbol(names[i]));
    const std::string name = fresh(names[i]);
    entry_->line("const {} {} = {}extents[{}];", wide ? "long long" : "int", name,
                 wide ? "" : "(int)", i);
    entry_->define({.symbol = names[i]}, {name, wide});
  }
  if (options.dependent && target().has_dependent_launch()) {
    use("launches");
    entry_->line("let_next_launch_start();");
    if (!options.waits_later) entry_->line("wait_for_earlier_launches();");
  }
  return *entry_;
}

void KernelWriter::end_entry() {
  internal_check(entry_ != nullptr, "an entry that ends was begun");
  entries_ += "\n" + entry_header_ + entry_->text() + "}\n";
  entry_.reset();
}

void KernelWriter::block(CodeScope& scope, std::string_view header,
                         const std::function<void(CodeScope&)>& body) {
  CodeScope inner(&scope);
  body(inner);
  scope.line(header.empty() ? "{" : std::string(header) + " {");
  scope.append(inner.text());
  scope.line("}");
}

EmittedKernel KernelWriter::finish(std::vector<ir::DeviceLaunch> launches,
                                   ir::Dim workspace_bytes) {
  internal_check(entry_ == nullptr, "every entry was ended");
  std::string source = about_;
  for (const DevicePiece& piece : device_pieces) {
    if (piece.name == "prelude" || pieces_.contains(piece.name))
      source += "\n" + std::string(text_of(piece, target().replaced.get()));
  }
  for (const std::string& name : pieces_) {
    internal_check(std::any_of(std::begin(device_pieces), std::end(device_pieces),
                               [&](const DevicePiece& piece) { return piece.name == name; }),
                   "there is a device piece " + name);
  }
  return {.source = source + declarations_ + entries_,
          .launches = std::move(launches),
          .workspace_bytes = std::move(workspace_bytes),
          .entries = plans_};
}

void write_lambda(CodeScope& scope, const std::string& name, const std::string& parameters,
                  const std::function<void(CodeScope&)>& body, const std::string& result) {
  CodeScope inner(&scope);
  body(inner);
  scope.line("const auto {} = [&]({}){}{} {{", name, parameters, result.empty() ? "" : " -> ",
             result);
  scope.append(inner.text());
  scope.line("};");
}

std::string storage_type(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::F64: return "double";
    case ir::DType::F32: return "float";
    case ir::DType::F16: return "f16";
    case ir::DType::BF16: return "bf16";
    case ir::DType::I64: return "long long";
    case ir::DType::I32: return "int";
    case ir::DType::I16: return "short";
    case ir::DType::I8: return "signed char";
    case ir::DType::U64: return "unsigned long long";
    case ir::DType::U32: return "unsigned";
    case ir::DType::U16: return "unsigned short";
    case ir::DType::U8: return "unsigned char";
    case ir::DType::Bool: return "boolean";
  }
  internal_error("an element type is one of the table");
}

std::string value_type(ir::DType dtype) {
  if (ir::is_half(dtype)) return "float";
  return dtype == ir::DType::Bool ? "bool" : storage_type(dtype);
}

}  // namespace anydim::codegen_cuda
