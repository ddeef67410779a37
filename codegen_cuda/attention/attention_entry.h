// What surrounds the device function of every attention kernel: the batch point, the keys that its
// rows may see, functions that give single elements.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen_cuda/attention/attention_operands.h"
#include "codegen_cuda/attention/attention_score.h"
#include "codegen_cuda/form_facts.h"
#include "codegen_cuda/kernel_writer.h"
#include "codegen_cuda/scalars/scalar_writer.h"

namespace anydim::codegen_cuda {

// Takes the names that attention kernels give to variables, so that nothing else is called like
// them. Before begin_entry.
void reserve_attention_names(KernelWriter& kernel);

// Product of the batch extents.
ir::Dim batch_points(const ir::AttentionForm& form);

// Defines the batch variables from `point`, a variable with the number of the batch point.
void define_batch_point(KernelWriter& kernel, CodeScope& scope, const ir::AttentionForm& form,
                        const IndexVariable& point);

// [first, end) lies within the block's sequence and holds all keys that the block's rows may see;
// all of them see those of [whole_first, whole_end), which need not lie within (KeyRange). `wide`:
// the variables of `names` are long long.
struct BlockNames {
  std::string first_row, last_row;  // of the block
  std::string first, end;           // of its sequence (forms with segments)
};
struct BlockKeys {
  ir::Dim first, end, whole_first, whole_end;
};
BlockKeys block_keys(KernelWriter& kernel, CodeScope& scope, const ir::AttentionForm& form,
                     const KeyRange& range, const BlockNames& names, bool wide);

// For forms with segments: reports offsets and a list of work that break their rules.
void check_segments(KernelWriter& kernel, CodeScope& scope, const ir::AttentionForm& form);

// How batch points and rows are shared out among blocks: arguments of place_block. `search`: of
// place_segment_block, who looks for a place.
struct BlockShape {
  std::string batch_points, block_rows, points, slot;
  std::string search = "Search::Together";
};
// The expression of the place of block `number`, a variable: of sequences where the form has
// segments.
std::string block_place(KernelWriter& kernel, CodeScope& scope, const ir::AttentionForm& form,
                        const std::string& number, const BlockShape& shape);
// check_segments, and defines `place`, that of the block itself; blocks without work return.
void begin_block(KernelWriter& kernel, CodeScope& scope, const ir::AttentionForm& form,
                 const BlockShape& shape);

// Blocks of the grid along the rows of a batch point.
ir::Dim row_blocks(const ir::AttentionForm& form, std::int64_t block_rows);

struct ElementParameter {
  ir::DimLeaf leaf;  // a loop variable
  std::string name;  // what the function calls it
};
// `const auto NAME = [&](INDEX a, INDEX b, ...) -> TYPE { ... };`: the program's last step at a
// point. `product`: a last parameter of that type, the program's Accumulated slot 0; empty: there
// is none.
struct ElementFunction {
  std::string name, type;
  std::vector<ElementParameter> parameters;
  std::string product{};
  bool wide = false;  // INDEX is long long, else int
};
void write_element_function(KernelWriter& kernel, CodeScope& scope, const ElementFunction& function,
                            const ir::ScalarProgram& program);
// The same for the epilogue: stores every result of one output element, `value` being Accumulated
// slot 0.
void write_store_function(KernelWriter& kernel, CodeScope& scope, const std::string& name,
                          const std::string& type, const ir::AttentionForm& form, bool wide);

// `{pointer, stride}` of rows at the current batch point.
std::string operand_rows(KernelWriter& kernel, CodeScope& scope, const DirectOperand& rows);

// ---- Shared by the kernels on tensor cores (device/attention.cuh) ----

// Members of struct Attention that say what is computed, not how.
std::string form_members(const FormFacts& facts);
// Defines rows, keys, the batch point and the range of keys at `place`, a variable.
void begin_point(KernelWriter& kernel, CodeScope& scope, const ir::AttentionForm& form);
// Defines added, score_value, write_element and output.
void write_row_functions(KernelWriter& kernel, CodeScope& scope, const ir::AttentionForm& form,
                         const AttentionOperands& operands, const AttentionScore& score);

}  // namespace anydim::codegen_cuda
