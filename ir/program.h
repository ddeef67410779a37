// What runtime executes: a flat list of instructions over buffers, with every size a slot that a shape program fills.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ir/backend.h"
#include "ir/dim.h"
#include "ir/loop_form.h"
#include "ir/module.h"
#include "ir/schedule.h"
#include "ir/shape_program.h"
#include "ir/symbols.h"
#include "ir/tensor.h"

namespace anydim::ir {

struct Program {
  // A position in the call's table of 64-bit values. Slots [0, leaves) hold leaves (symbols bound from inputs, fetched tensor elements),
  // the rest is filled by shape stages in order.
  using Slot = std::int32_t;

  struct Input {
    std::string name;
    DType dtype = DType::F32;
    std::vector<Dim> dims;    // over symbols; how binding and its messages work: ir/bind.h
    std::int32_t buffer = 0;  // -1 where no instruction reads it
  };
  struct Output {
    std::string name;
    DType dtype = DType::F32;
    std::vector<Slot> dims;
    std::int32_t buffer = 0;
  };

  struct Buffer {
    enum class Place : std::uint8_t { Input, Constant, Arena, Output };
    Place place = Place::Arena;
    std::int32_t index = 0;    // Input: inputs[index]; Constant: constants[index]; Output: outputs[index]
    std::int32_t segment = 0;  // Arena: the stage that sized it; every stage has an arena segment of its own
    Slot offset = -1;          // Arena: bytes from the segment's base, a multiple of 64
    Slot bytes = -1;           // Arena and Output
    std::string name;          // value in the graph, for explain
  };
  // A weight as kernels read it. packed: by Backend::pack for parameter `parameter` of `region`, once, at load; then `tensor`'s pages are not needed.
  struct Constant {
    Tensor tensor;
    std::string name;
    std::optional<PackedLayout> layout;
    std::int32_t region = -1;
    std::int32_t parameter = -1;
  };

  struct Check {            // evaluated with its stage; a failure is Error{Inputs}
    Comparison comparison;  // demanded: left COMPARISON right
    Slot left, right;
    bool or_one = false;  // Equal only: also fine where either side is 1 (broadcast)
    std::string message;  // names node, tensor, dimension; "expected .., got .." with both values is appended
  };

  // Instructions
  struct RunStage {  // fills slots [first, first + expressions), then tests checks
    std::int32_t stage = 0;
  };
  struct Launch {
    std::int32_t kernel = 0;            // index into kernels
    std::vector<std::int32_t> buffers;  // region parameters, then results
    std::vector<Slot> extents;          // region symbols in order
    std::vector<Slot> keys;             // region keys in order: what dispatch looks at
    std::string source;                 // nodes it came from, for messages and explain
  };
  struct Fetch {  // one element of a small integer tensor becomes a leaf
    std::int32_t buffer = 0;
    DType dtype = DType::I64;
    std::int64_t element = 0;
    Slot slot = 0;
  };
  using Instruction = std::variant<RunStage, Launch, Fetch>;

  struct Stage {
    ShapeProgram shapes;
    std::vector<Slot> leaves;  // slots of shapes.leaves
    Slot first = 0;
    std::vector<Check> checks;
    Slot arena_bytes = -1;  // size of this stage's arena segment; -1: none
  };
  // One region with its table. Launches of equal regions (same identity) share one.
  struct Kernel {
    Region region;
    DispatchTable table;
    std::vector<KernelCheck> checks;  // what kernels report (KernelError::check), over the region's symbols
  };

  SymbolTable symbols;
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  std::vector<std::string> leaf_symbols;  // symbol of each leaf slot bound from inputs; empty for fetched leaves
  std::int32_t slots = 0;
  std::vector<Buffer> buffers;
  std::vector<Constant> constants;
  std::vector<Stage> stages;
  std::vector<Kernel> kernels;
  std::vector<Instruction> instructions;  // starts with RunStage{0}
  Dim arena_ceiling;                      // over the symbols, for explain
};

std::string to_string(const Program& program);  // a listing, for looking and for tests

}  // namespace anydim::ir
