// Lowering of one function: shared by the files lower_*.cpp, not an interface of the pass.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ir/program.h"
#include "passes/pass.h"
#include "passes/slot_table.h"

namespace anydim::passes {

// The tables that all functions of a module share while it is lowered.
struct LoweredModule {
  const ir::Module& module;
  const PassContext& context;
  ir::Program program{};

  // Index into Program::functions. The entry's code stands there, too, where something calls it:
  // last.
  std::int32_t function_index(std::uint32_t callee) const {
    return static_cast<std::int32_t>(callee == 0 ? module.functions.size() : callee);
  }
};

class FunctionLowering {
 public:
  // The entry's results are outputs, given memory by the caller's side; those of other functions
  // are references to the pool.
  FunctionLowering(LoweredModule& shared, const ir::Function& function, bool entry);

  ir::Code run();
  // Memory of one call, over the function's symbols; `unbounded` says why there is no such number.
  const ir::Dim& ceiling() const { return ceiling_; }
  const std::string& unbounded() const { return unbounded_; }
  // Calls of the code, each with the callee's symbols bound: what Call::leaves is made of once all
  // functions have their slots.
  struct CallSymbols {
    std::size_t position;
    std::uint32_t callee;
    std::vector<std::pair<std::string, SlotTable::Id>> bound;
  };
  const std::vector<CallSymbols>& calls() const { return calls_; }
  ir::Code::Slot slot(SlotTable::Id id) const { return slots_.slot(id); }

 private:
  using Id = SlotTable::Id;
  using Place = ir::Code::Buffer::Place;
  struct Lifetime {
    std::int64_t first, last;
  };
  // What a block adds to the state; gone after it.
  struct Scope {
    std::vector<ir::ValueId> defined;
    std::vector<std::int32_t> stages;
    std::vector<std::int32_t> pooled;  // buffers
    // leaves whose slots are filled, for the next stage
    std::vector<std::pair<ir::DimLeaf, Id>> pending;
  };

  // A loop while it is lowered.
  struct Loop {
    const ir::Binding& binding;
    std::size_t carried, scanned;  // its results: values that iterations hand on, then collections
    Id zero, counter, going_on;
    std::vector<ir::Code::Opened> opened{};
    ir::Code::SetSlots start{};
    // A symbol inside that a carried value's extent is.
    struct Varying {
      std::size_t value, axis;
      ir::DimLeaf leaf;
      Id slot;
    };
    std::vector<Varying> varying{};
    std::vector<std::vector<Id>> element_extents{};  // by scanned value
    std::vector<Id> length{};                        // by scanned value, where it is known; else -1

    const ir::Block& body() const { return binding.blocks[0]; }
    Id opened_at(std::size_t result, std::size_t axis) const;  // -1: nowhere
  };

  // ---- lower_function.cpp: sizes, buffers, launches
  void find_wanted_elements();
  void find_wanted_elements(const ir::Block& block);
  void want(const ir::Dim& dim);
  void find_pooled(const ir::Block& block);
  void count_uses(const ir::Block& block, int each, std::set<ir::ValueId>& inside);
  std::int32_t begin_stage();
  void make_known(const std::vector<ir::Dim>& dims);
  bool is_pending(const ir::DimLeaf& leaf) const;
  void fetch(ir::ValueId value, std::int64_t element);
  Id size(const ir::Dim& dim);  // made known, as a slot
  std::vector<Id> sizes(const std::vector<ir::Dim>& dims);
  std::vector<Id> ids(const std::vector<ir::Dim>& dims);
  std::int64_t position() const { return static_cast<std::int64_t>(code_.instructions.size()); }
  std::int32_t add_buffer(ir::Code::Buffer buffer);
  void touch(std::int32_t buffer);
  template <typename Instruction>
  std::size_t emit(Instruction instruction) {
    code_.instructions.emplace_back(std::move(instruction));
    return code_.instructions.size() - 1;
  }
  std::int32_t add_pool_buffer(ir::ValueId value);
  void define(ir::ValueId value, std::int32_t buffer);
  std::int32_t buffer_of(ir::ValueId value);  // where the value lies; a constant as it is
  std::int32_t constant_buffer(ir::ValueId value, const std::optional<ir::PackedLayout>& layout,
                               std::int32_t region, std::int32_t parameter);
  void add_inputs();
  void add_bindings(const ir::Block& block);
  void add(const ir::Binding& binding);
  void add_launch(const ir::Binding& binding);
  std::int32_t take_place(const ir::Binding& binding, std::size_t parameter);
  std::int32_t add_result(ir::ValueId value);
  void add_check_shape(const ir::Binding& binding);
  ir::ValueId computed(ir::ValueId result) const;
  void add_drop_ones(const ir::Binding& binding);
  std::vector<ir::Dim> ones_of(const ir::Binding& binding) const;
  void stand_for(ir::ValueId operand, ir::ValueId result);
  void add_check(const ir::Binding& binding);
  void add_assertion(const ir::Binding& binding);
  void add_bind(const ir::Binding& binding);
  void admit(const ir::DimLeaf& leaf, SlotTable::Id id);
  void check(ir::Relation relation, const ir::Dim& left, const ir::Dim& right, std::string what);
  void add_outputs();
  void plan_arena(const std::vector<std::int32_t>& stages);
  void count_memory(const ir::Dim& bytes);
  void has_no_bound(const std::string& cause);
  void number_slots();

  // ---- lower_control.cpp: blocks and calls
  void open_block();
  void close_block();
  void add_branch(const ir::Binding& binding);
  void add_branch_block(const ir::Block& block, const ir::Binding& binding,
                        const std::vector<ir::Code::Opened>& opened);
  void add_loop(const ir::Binding& binding);
  void begin_carried(Loop& loop, ir::Code::MoveBuffers& enter);
  void begin_scanned(Loop& loop);
  void begin_iteration(const Loop& loop);
  void end_iteration(const Loop& loop);
  void set_opened(const Loop& loop);
  void add_scalar(
      ir::ValueId value, Id slot,
      ir::DType dtype);  // a slot as a tensor of rank 0, where something reads it as one
  void add_call(const ir::Binding& binding);
  Id condition(ir::ValueId value);
  // Symbols that a binding's results open: a slot each, pending for the next stage.
  std::vector<ir::Code::Opened> open_results(const ir::Binding& binding);
  void keep_through(std::int64_t begin);

  // ---- lower_values.cpp: lists, tuples, function values
  ir::Code::Argument argument(ir::ValueId value);
  void add_value_binding(const ir::Binding& binding);
  Id position_slot(const ir::Binding& binding, std::size_t operand);

  LoweredModule& shared_;
  const ir::Function& function_;
  bool entry_;
  ir::Code code_;
  SlotTable slots_;
  std::int32_t stage_ = 0;
  std::size_t first_stage_ = 0;  // of this function
  std::vector<Scope> scopes_;
  std::map<ir::ValueId, std::set<std::int64_t>> wanted_;
  std::vector<bool> pooled_;
  std::vector<int> uses_;  // as operands and results of blocks, by value; in a loop that the value
                           // comes from outside of, as two
  std::map<ir::ValueId, ir::Tensor> constants_;
  std::map<ir::ValueId, std::vector<ir::Dim>> ones_;  // of results of drop_ones
  std::map<ir::ValueId, ir::Dim> scalars_;            // known on the host without a fetch
  std::map<ir::ValueId, std::vector<std::pair<std::optional<ir::PackedLayout>, std::int32_t>>>
      constant_buffers_;
  std::map<ir::ValueId, std::int32_t> output_of_;
  // An element of a scanned result whose length is known before the loop: where it is appended.
  struct Scanned {
    std::int32_t buffer;
    Id counter, length;
  };
  std::map<ir::ValueId, Scanned> scanned_;
  std::vector<std::int32_t> buffer_of_;
  std::vector<Lifetime> lifetimes_;
  std::set<ir::ValueId> partly_written_;  // by launches in place, in the arena
  // For the buffer of a launch's result, the operands in whose place its kernel may write it.
  std::map<std::int32_t, std::vector<std::int32_t>> overwrites_;
  std::map<std::int32_t, ir::Dim> bytes_;  // of buffers that instructions give memory
  std::map<std::int32_t, Id> byte_ids_, offset_ids_;
  struct CheckIds {
    std::int32_t stage;
    std::size_t check;
    Id left, right;
  };
  std::vector<CheckIds> check_ids_;
  std::map<std::size_t, Id> arena_ids_;
  std::vector<CallSymbols> calls_;
  ir::Dim ceiling_;
  std::string unbounded_;
  // symbols that only the run tells: what opens them
  std::map<std::string, std::string> unknown_because_;
};

}  // namespace anydim::passes
