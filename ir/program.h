// What runtime executes: flat lists of instructions over buffers, with every size a slot that a
// shape program fills.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ir/backend.h"
#include "ir/dims/dim.h"
#include "ir/dims/relation.h"
#include "ir/dims/symbols.h"
#include "ir/loops/loop_form.h"
#include "ir/module.h"
#include "ir/schedule.h"
#include "ir/shapes/shape_program.h"
#include "ir/tensor.h"

namespace anydim::ir {

// The code of one function. A call of it has a frame of its own: a table of 64-bit values (slots)
// and one of buffers' addresses.
struct Code {
  // A position in the frame's table of 64-bit values. Leaves (symbols bound from inputs, fetched
  // tensor elements, extents that only the run tells) come first, the rest is filled by shape
  // stages.
  using Slot = std::int32_t;

  struct Input {
    std::string name;
    DType dtype = DType::F32;
    std::vector<Dim> dims;    // over symbols; how binding and its messages work: ir/shapes/bind.h
    std::int32_t buffer = 0;  // -1 where no instruction reads it
    Type type{};              // of what is not a tensor; dtype and dims mean nothing then
  };
  struct Output {
    std::string name;
    DType dtype = DType::F32;
    std::vector<Slot> dims;
    std::int32_t buffer = 0;
    // Op::drop_ones: the caller gets no dim whose value here is 1; empty: it gets all
    std::vector<Slot> ones{};
  };

  struct Buffer {
    // Arena: planned memory of the stage's segment, valid until the block that the stage belongs to
    // ends. Pool: a counted reference to a block of memory or an object (list, tuple, function
    // value), which instructions allocate and copy.
    enum class Place : std::uint8_t { Input, Constant, Arena, Output, Pool };
    Place place = Place::Arena;
    // Input: inputs[index]; Constant: Program::constants[index]; Output: outputs[index]
    std::int32_t index = 0;
    // Arena, Output: the stage that sized it; every stage has an arena segment of its own
    std::int32_t segment = 0;
    Slot offset = -1;  // Arena: bytes from the segment's base, a multiple of 64
    Slot bytes = -1;   // Arena, Output and what Allocate takes
    std::string name;  // value in the graph, for explain
  };

  // Instructions
  struct RunStage {  // fills slots [first, first + expressions), then tests checks
    std::int32_t stage = 0;
  };
  struct Launch {
    std::int32_t kernel = 0;            // index into Program::kernels
    std::vector<std::int32_t> buffers;  // region parameters, then results
    std::vector<Slot> extents;          // region symbols in order
    std::vector<Slot> keys;             // region keys in order: what dispatch looks at
    std::string source;                 // nodes it came from, for messages and explain
  };
  struct Fetch {  // one element of a small integer or bool tensor becomes a leaf
    std::int32_t buffer = 0;
    DType dtype = DType::I64;
    std::int64_t element = 0;
    Slot slot = 0;
  };
  struct Assert {  // ends the call where the slot is 0
    Slot slot = 0;
    struct Shown {
      std::string name;
      std::int32_t buffer = 0;
      DType dtype = DType::F32;
      std::vector<Slot> dims;
    };
    std::vector<Shown> shown;
    std::string source, message;
  };
  struct Jump {
    std::int32_t target = 0;  // position of the next instruction
  };
  struct JumpIfZero {
    Slot slot = 0;
    std::int32_t target = 0;
  };
  // The head of a loop: goes on to the body while counter < trips and condition is not 0, else to
  // `target`.
  struct Iterate {
    Slot counter = 0;
    Slot trips = -1;      // -1: no limit
    Slot condition = -1;  // -1: always
    std::int32_t target = 0;
  };
  struct Next {  // one more iteration done: ++counter, back to the head
    Slot counter = 0;
    std::int32_t target = 0;
  };
  struct SetSlots {                             // all read before any is written
    std::vector<std::pair<Slot, Slot>> copies;  // to, from
  };
  struct MoveBuffers {  // references, not contents; all read before any is written
    std::vector<std::pair<std::int32_t, std::int32_t>> copies;  // to, from
  };
  struct Enter {};  // a block: arena segments taken from here on last until Leave
  struct Leave {
    std::vector<std::int32_t> dropped;  // pool buffers that end with the block
  };
  struct Allocate {  // a block of the pool, buffer.bytes large
    std::int32_t buffer = 0;
    // The scanned result of which an Append to come makes the value element `counter` of
    // `expected`; it may lie there from the start. -1: none.
    std::int32_t element_of = -1;
    Slot counter = -1, expected = -1;
  };
  struct StoreScalar {  // writes a slot's value as a tensor of rank 0
    std::int32_t buffer = 0;
    DType dtype = DType::I64;
    Slot slot = 0;
  };
  // One more element of a scanned result, which grows along its first dimension.
  struct Append {
    std::int32_t to = 0, from = 0;
    Slot counter = 0;        // elements before this one
    Slot expected = -1;      // elements in all, where it is known before the loop
    Slot bytes = 0;          // of the element
    std::vector<Slot> dims;  // of the element
    // of the first element, kept here at counter 0, held against later ones
    std::vector<Slot> first;
    std::string source;
  };
  // A value given to something that keeps it: what it is, and where.
  struct Argument {
    std::int32_t buffer = 0;
    DType dtype = DType::F32;
    std::vector<Slot> dims;  // empty for what is no tensor
  };
  // An extent that only the run tells: dims[axis] of result `result`.
  struct Opened {
    std::int32_t result = 0;
    std::int32_t axis = 0;
    Slot slot = 0;
  };
  struct Call {
    std::int32_t function = 0;  // index into Program::functions
    std::vector<std::int32_t> arguments, results;
    std::vector<std::pair<Slot, Slot>> leaves;  // the callee's, the caller's
    std::vector<Opened> opened;
    std::string source;
  };
  struct MakeFunction {  // a function value: the function with its first arguments
    std::int32_t to = 0, function = 0;
    std::vector<Argument> arguments;
  };
  struct CallValue {  // parameters are held against what is given when it runs
    std::int32_t value = 0;
    std::vector<Argument> arguments;
    std::vector<std::int32_t> results;
    std::vector<Opened> opened;
    std::string source;
  };
  struct MakeList {  // a list or a tuple
    std::int32_t to = 0;
    std::vector<Argument> elements;
  };
  struct ListInsert {
    std::int32_t to = 0, list = 0;
    Argument element;
    Slot position = -1;  // -1: at the end; negative values count from the end
    // the list is not read again: taken over where nothing else refers to it
    bool last_use = false;
    std::string source;
  };
  struct ListErase {
    std::int32_t to = 0, list = 0;
    Slot position = -1;  // -1: the last element
    std::string source;
  };
  struct ListAt {
    std::int32_t to = 0, list = 0;
    Slot position = -1;  // -1: `element`
    std::int32_t element = 0;
    std::vector<Opened> opened;
    std::string source;
  };
  struct ListLength {
    std::int32_t list = 0;
    Slot slot = 0;
  };
  struct ListConcat {  // the elements, along an axis or stacked along a new one
    std::int32_t to = 0, list = 0;
    DType dtype = DType::F32;
    std::int32_t axis = 0;
    bool new_axis = false;
    std::vector<Opened> opened;
    std::string source;
  };
  using Instruction =
      std::variant<RunStage, Launch, Fetch, Assert, Jump, JumpIfZero, Iterate, Next, SetSlots,
                   MoveBuffers, Enter, Leave, Allocate, StoreScalar, Append, Call, MakeFunction,
                   CallValue, MakeList, ListInsert, ListErase, ListAt, ListLength, ListConcat>;

  std::string name;
  SymbolTable symbols;
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  // symbol of each leaf slot bound from inputs; empty for other leaves
  std::vector<std::string> leaf_symbols;
  std::int32_t slots = 0;
  std::vector<Buffer> buffers;
  std::vector<Instruction> instructions;
};

// The code of all functions, and what they share.
struct Program {
  // A weight as kernels read it. packed: by Backend::pack for parameter `parameter` of `region`,
  // once, at load; then `tensor`'s pages are not needed.
  struct Constant {
    Tensor tensor;
    std::string name;
    std::optional<PackedLayout> layout;
    std::int32_t region = -1;
    std::int32_t parameter = -1;
  };

  struct Check {  // evaluated with its stage; a failure is Error{Inputs}
    Relation relation;
    Code::Slot left, right;
    std::string what;  // names node, tensor, dimension, as violation() takes it
  };

  struct Stage {
    ShapeProgram shapes;
    std::vector<Code::Slot> leaves;  // slots of shapes.leaves
    // names of those whose elements are leaves, for messages
    std::map<ValueId, std::string> tensors{};
    Code::Slot first = 0;
    std::vector<Check> checks;
    Code::Slot arena_bytes = -1;  // size of this stage's arena segment; -1: none
  };
  // One region with its table. Launches of equal regions (same identity) share one.
  struct Kernel {
    Region region;
    DispatchTable table;
    // what kernels report (KernelError::check), over the region's symbols
    std::vector<KernelCheck> checks;
  };

  // Not inline: each source that names a program would be compiled with all of it.
  Program();
  Program(const Program&);
  Program(Program&&) noexcept;
  Program& operator=(const Program&);
  Program& operator=(Program&&) noexcept;
  ~Program();

  std::vector<Constant> constants;
  std::vector<Stage> stages;  // of all functions; each belongs to one
  std::vector<Kernel> kernels;
  // The entry first. Where it is called, too, it has a second code, the last one: results of a call
  // stay with the caller.
  std::vector<Code> functions;
  Dim arena_ceiling;                     // over the symbols, for explain
  std::vector<PolicyChoice> policies{};  // the module's
  std::string unbounded{};  // why memory has no bound of that kind: the first cause and its node;
                            // empty: it has

  const Code& entry() const { return functions.front(); }
  Code& entry() { return functions.front(); }
};

// A listing, which ir/text/parse_program.h reads back: without the elements of large constants and
// the estimates of tables' entries.
std::string to_string(const Program& program);

}  // namespace anydim::ir
