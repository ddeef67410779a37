// One CUDA C++ program under construction: its entries, its scopes, its buffers and what is known
// of its sizes.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "codegen_cuda/kernel_kind.h"
#include "ir/dims/symbols.h"
#include "ir/loops/step_placer.h"

namespace anydim::codegen_cuda {

// A variable that holds an integer: `long long` where wide, else `int`.
struct IndexVariable {
  std::string name;
  bool wide = false;
};

// A block of statements. Text of an inner block is added to the outer one when the inner one ends,
// so that statements added to an outer scope in between are hoisted out of the inner one. Scopes
// nest like the C++ objects do.
class CodeScope {
 public:
  explicit CodeScope(CodeScope* parent = nullptr)
      : parent_(parent), depth_(parent ? parent->depth_ + 1 : 1) {}
  CodeScope(const CodeScope&) = delete;
  CodeScope& operator=(const CodeScope&) = delete;

  CodeScope* parent() const { return parent_; }
  int depth() const { return depth_; }
  // Adds lines at this scope's indentation; `text` may hold several, indented relative to each
  // other.
  void line(std::string_view text);
  // The text as fmt::format takes it, in parts.
  template <typename First, typename... Rest>
  void line(fmt::format_string<First, Rest...> text, First&& first, Rest&&... rest) {
    line(fmt::format(text, std::forward<First>(first), std::forward<Rest>(rest)...));
  }
  const std::string& text() const { return text_; }
  void append(std::string_view indented) { text_ += indented; }

  // What a leaf of dims is called here and in inner scopes.
  void define(const ir::DimLeaf& leaf, IndexVariable variable) {
    leaves_[leaf] = std::move(variable);
  }
  const IndexVariable* find(const ir::DimLeaf& leaf, CodeScope** home = nullptr);

  // Values already computed in this very scope.
  std::map<ir::Dim, IndexVariable> dims;
  ir::PlacedValues<std::string> values;

 private:
  CodeScope* parent_;
  int depth_;
  std::string text_;
  std::map<ir::DimLeaf, IndexVariable> leaves_;
};

struct EntryOptions {
  std::string name;
  int threads = 256;
  int blocks = 0;  // intended blocks a multiprocessor (second launch bound); 0: as occupancy.h
                   // counts those of kernels that stream
  std::int64_t kept = 0;  // values that a thread of a kernel that streams keeps in registers
  int tensor_maps = 0;    // parameters tensor_map0, tensor_map1, ...
  // It lets the next launch start and waits for earlier ones (device/launches.cuh), so that it may
  // be launched before its predecessor ends.
  bool dependent = false;
  bool waits_later = false;  // its own text waits
};

class KernelWriter {
 public:
  // Symbols are the form's, narrowed to the bucket. `about`: comment lines at the top of the
  // program.
  KernelWriter(const PlanInputs& inputs, const ir::Bucket& bucket, std::string about);

  const PlanInputs& inputs() const { return inputs_; }
  const CudaTarget& target() const { return inputs_.target; }
  ir::SymbolTable& symbols() { return symbols_; }
  // Values that `dim` takes within the bucket.
  ir::Interval interval_of(const ir::Dim& dim) const;
  bool fits_int(const ir::Dim& dim) const;

  // Buffers: region parameters, then results. In memory an element has storage_type of its dtype;
  // pointers are named in0, ..., out0, ...
  std::size_t parameters() const { return parameters_; }
  std::size_t buffers() const { return buffer_types_.size(); }
  const ir::TensorType& buffer_type(std::size_t position) const {
    return buffer_types_.at(position);
  }
  const ir::TensorType& output_type(std::size_t position) const {
    return buffer_types_.at(parameters_ + position);
  }
  std::string buffer(std::size_t position) const;
  std::string output(std::size_t position) const { return buffer(parameters_ + position); }

  // An unused name that starts with `stem` (any characters that no name holds become _).
  std::string fresh(std::string_view stem);
  std::string fresh(const ir::DimLeaf& leaf) { return fresh(to_string(leaf)); }
  // The same with a number in any case, so that a stem may be a function's name: "exp1".
  std::string fresh_numbered(std::string_view stem);
  std::uint32_t fresh_number() { return ++numbers_; }

  // Includes device/NAME.cuh (the prelude always is; order is device_text.h's).
  void use(std::string_view piece);
  // Adds text before the entries: constants, types, device functions.
  void declare(std::string_view text) { declarations_ += text; }

  // Begins extern "C" __global__ with the parameters that ir/backend.h lists, named as above plus
  // `extents`, `error`, `workspace`. The region's symbols are read and defined. One entry at a
  // time.
  CodeScope& begin_entry(const EntryOptions& options);
  void end_entry();
  // `header {`, the body, `}`.
  void block(CodeScope& scope, std::string_view header,
             const std::function<void(CodeScope&)>& body);

  // The program, whose entries have ended, and how it is launched.
  EmittedKernel finish(std::vector<ir::DeviceLaunch> launches, ir::Dim workspace_bytes = {});

 private:
  std::vector<EntryPlan> plans_;
  PlanInputs inputs_;
  ir::Bucket bucket_;
  std::string about_, declarations_, entries_;
  ir::SymbolTable symbols_;
  std::size_t parameters_ = 0;
  std::vector<ir::TensorType> buffer_types_;
  std::set<std::string, std::less<>> names_, pieces_;
  std::unique_ptr<CodeScope> entry_;
  std::string entry_header_;
  std::uint32_t numbers_ = 0;
};

// `const auto NAME = [&](parameters) -> RESULT { body };`, without RESULT where it is empty.
void write_lambda(CodeScope& scope, const std::string& name, const std::string& parameters,
                  const std::function<void(CodeScope&)>& body, const std::string& result = {});

// "float", "f16", "bf16", "boolean", ...: one element in memory
std::string storage_type(ir::DType dtype);
std::string value_type(ir::DType dtype);  // in a register: f16 and bf16 are float, boolean is bool

}  // namespace anydim::codegen_cuda
