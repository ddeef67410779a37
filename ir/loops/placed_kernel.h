// A kernel with its steps placed among its loops, as data: each step in the outermost loop that it
// may stand in, each load and check with the condition under which alone it happens. A code
// generator splits, joins and spreads these loops as its schedule says; what stands in which of
// them stays.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ir/loops/loop_form.h"

namespace anydim::ir {

// What a statement works on.
struct KernelValue {
  enum class Kind : std::uint8_t {
    Step,         // step `number` of program `program`
    Inverse,      // 1 over it, where many are divided by it
    Accumulated,  // slot `number`
  };
  Kind kind = Kind::Step;
  std::uint32_t program = 0;
  std::int32_t number = 0;
  auto operator<=>(const KernelValue&) const = default;
};

// Where one of the alternatives holds, each of whose conditions hold; without any: everywhere.
struct KernelMask {
  std::vector<std::vector<ScalarStep::Condition>> alternatives;
  bool operator==(const KernelMask&) const = default;
};
KernelMask both(const KernelMask& a, const KernelMask& b);

// A kernel has several programs that number their steps alike: here a step is known by both
// numbers, and so are the leaves of dims, step_leaf(number, program).
struct PlacedStep {
  std::uint32_t program = 0;
  std::int32_t number = 0;
  ScalarStep step;  // without operands
  std::vector<KernelValue> operands;
  KernelMask mask;  // of what loads or may fail
  bool operator==(const PlacedStep&) const = default;
};

// The inverse of a step, or of a slot that stands for it.
struct PlacedInverse {
  std::uint32_t program = 0;
  std::int32_t number = 0;
  KernelValue of;
  bool operator==(const PlacedInverse&) const = default;
};

struct PlacedStore {
  std::int32_t output = 0;
  std::vector<Dim> index;
  KernelValue value;
  std::optional<Op> combine;  // with what is there
  KernelMask mask;
  bool operator==(const PlacedStore&) const = default;
};

// A value that outlives its point.
struct PlacedKeep {
  enum class Kind : std::uint8_t {
    Scratch,      // element of slot `slot` of the row's scratch
    Accumulated,  // reduced into slot `slot`
    Carry,        // slot `slot` of the next point
    Element,      // what the kernel's own loops read at this point
    Key,          // what the item is sorted by
  };
  Kind kind = Kind::Element;
  std::int32_t slot = -1;
  std::optional<DType> dtype;  // of what is accumulated or carried
  std::optional<Reduce> reduce;
  KernelValue value;
  bool operator==(const PlacedKeep&) const = default;
};

// The ends of a compaction and of a sort: what CompactForm and SortForm say.
struct PlacedSelection {
  KernelValue selected;
  std::int32_t positions = -1, count = -1;
  bool operator==(const PlacedSelection&) const = default;
};
struct PlacedRanking {
  std::int32_t output = 0;
  std::vector<Dim> index;
  Iteration rank;
  bool descending = false;
  bool operator==(const PlacedRanking&) const = default;
};

struct KernelStatement;
using KernelBlock = std::vector<KernelStatement>;

// What stands beside a loop in a block, or around one in its block, happens only where that loop
// has a point: a code generator leaves the whole out where it has none.
struct KernelLoop {
  Iteration loop;
  KernelBlock body;
};
// A part of the kernel by its role, which runs where the conditions hold.
struct KernelSection {
  enum class Kind : std::uint8_t {
    Part,
    Left,
    Right,
    Query,
    Key,
    Value,
    Score,
    Epilogue,
    Stage,
    RowResult,
    InOrder,
  };
  Kind kind = Kind::Part;
  std::vector<ScalarStep::Condition> conditions;
  KernelBlock body;
};
struct KernelStatement {
  std::variant<KernelLoop, KernelSection, PlacedStep, PlacedInverse, PlacedStore, PlacedKeep,
               PlacedSelection, PlacedRanking>
      kind;
};
bool operator==(const KernelStatement& a, const KernelStatement& b);

struct PlacedKernel {
  std::string kind;  // kind_name() of the form
  std::vector<TensorType> parameters, results;
  SymbolTable symbols;  // the function's symbols, the loops and the checked indices
  std::vector<KernelCheck> checks;
  // The dtype of a matmul's product, or of attention's score and output, which are Accumulated slot
  // 0 of their programs; with gates, a product for each is a slot.
  std::optional<DType> product{};
  std::int64_t gates = 1;
  std::optional<Segments> segments{};
  KernelBlock body;
};

// The form's loops in order, every program's steps placed among them (ir/loops/step_placer.h).
PlacedKernel place_kernel(const LoopForm& form);

// All of it as text, which ir/loops/placed_kernel_parse.h reads back:
//
//     map
//       parameter 0: Tensor[(30522, 384), f32]
//       ...
//       for $p0 < n {
//         #0: i64 = load 1[$p0]
//         #1: i64 = index(#0) below 30522, check 0
//         for $p1 < 384 {
//           #2: f32 = load 0[#1, $p1]
//           store 0[$p0, $p1] = #2
//         }
//       }
std::string to_string(const PlacedKernel& kernel);

}  // namespace anydim::ir
