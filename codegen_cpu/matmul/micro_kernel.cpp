#include "codegen_cpu/matmul/micro_kernel.h"

#include <algorithm>
#include <functional>

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include "codegen_cpu/kernel_builder.h"
#include "codegen_cpu/matmul/multiply_step.h"
#include "codegen_cpu/matmul/multiply_variants.h"
#include "codegen_cpu/matmul/round_rows.h"
#include "codegen_cpu/matmul/unpack_weight.h"

namespace anydim::codegen_cpu {

namespace {

// Enough multiply-adds in the loop's body that its counter and branch cost nothing, in small row
// counts too. More would cost compile time; short loops get it, whose every start and end weighs.
constexpr std::int64_t body_operations = 8;
constexpr std::int64_t short_body_operations = 32;
constexpr std::int64_t short_depth = 64;  // steps
constexpr unsigned first_fetched = 9;     // the argument behind ahead_step

// The types of the arguments behind ahead_step.
std::vector<llvm::Type*> types_of_rest(llvm::IRBuilder<>& builder, const MicroKernel& kernel) {
  std::vector<llvm::Type*> types(kernel.beside.size(), builder.getPtrTy());
  if (kernel.fetches_behind)
    types.insert(types.begin(), {builder.getPtrTy(), builder.getInt64Ty()});
  types.insert(types.end(), kernel.runs.size() + (kernel.some_runs ? 1 : 0), builder.getInt64Ty());
  if (kernel.zeros && !kernel.zero) types.push_back(builder.getPtrTy());
  return types;
}

class Emitter {
 public:
  Emitter(llvm::Module& module, const Target& target, const std::string& name,
          const MicroKernel& kernel)
      : kernel_(kernel), builder_(module.getContext()), index_(builder_.getInt64Ty()) {
    auto* pointer = builder_.getPtrTy();
    std::vector<llvm::Type*> arguments{pointer, index_,  pointer, index_, index_,
                                       index_,  pointer, pointer, index_};
    for (llvm::Type* type : types_of_rest(builder_, kernel)) arguments.push_back(type);
    auto* type = llvm::FunctionType::get(builder_.getVoidTy(), arguments, false);
    function_ = llvm::Function::Create(type, llvm::Function::InternalLinkage, name, module);
    function_->addFnAttr(llvm::Attribute::NoInline);
    set_function_attributes(*function_, target);
    for (unsigned argument : {0u, 2u, 6u})
      function_->addParamAttr(argument, llvm::Attribute::NoAlias);
    vector_ = llvm::FixedVectorType::get(kernel.element, static_cast<unsigned>(kernel.lanes));
    left_ = function_->getArg(0);
    right_ = function_->getArg(2);
    left_stride_ = known(kernel.left_stride, 1);
    panel_stride_ = known(kernel.panel_stride, 3);
    right_stride_ = known(kernel.right_stride, 4);
    depth_ = known(kernel.depth, 5);
  }

  llvm::Function* run() {
    auto& context = function_->getContext();
    auto* entry = llvm::BasicBlock::Create(context, "entry", function_);
    builder_.SetInsertPoint(entry);
    std::vector<llvm::Value*> sums(static_cast<std::size_t>(kernel_.rows * kernel_.vectors),
                                   llvm::Constant::getNullValue(vector_));
    if (kernel_.block != 0) {
      if (kernel_.depths == 1) blocks(sums);
      else rounded_blocks(sums);
    } else if (!kernel_.runs.empty()) {
      runs(sums);
    } else {
      const std::int64_t wanted =
          kernel_.depth && *kernel_.depth <= short_depth ? short_body_operations : body_operations;
      const std::int64_t steps = kernel_.depth ? steps_of(*kernel_.depth, wanted) : 1;
      if (kernel_.depth && kernel_.fetches_early) {
        fetching_loop(steps, sums);
      } else {
        loop(constant(0), depth_, steps, sums);
      }
    }
    const std::int64_t stride =
        kernel_.tile_stride == 0 ? kernel_.vectors * kernel_.lanes : kernel_.tile_stride;
    for (std::int64_t row = 0; row < kernel_.rows; ++row) {
      for (std::int64_t vector = 0; vector < kernel_.vectors; ++vector) {
        auto* place = builder_.CreateConstInBoundsGEP1_64(
            kernel_.element, function_->getArg(6),
            static_cast<std::uint64_t>(row * stride + vector * kernel_.lanes));
        builder_.CreateAlignedStore(sums[static_cast<std::size_t>(row * kernel_.vectors + vector)],
                                    place, llvm::Align(lane_bytes()));
      }
    }
    builder_.CreateRetVoid();
    return function_;
  }

 private:
  llvm::Value* known(const std::optional<std::int64_t>& constant, unsigned argument) {
    if (constant) return builder_.getInt64(static_cast<std::uint64_t>(*constant));
    return function_->getArg(argument);
  }
  std::uint64_t element_bytes() const { return kernel_.element->getScalarSizeInBits() / 8; }
  std::uint64_t lane_bytes() const {
    return element_bytes() * static_cast<std::uint64_t>(kernel_.lanes);
  }

  // Steps of a turn of the loop: about as many as `wanted` operations take, and a whole number of
  // turns over `depth`.
  std::int64_t steps_of(std::int64_t depth, std::int64_t wanted) const {
    std::int64_t steps = std::max<std::int64_t>(wanted / (kernel_.rows * kernel_.vectors), 1);
    while (depth % steps != 0) --steps;
    return steps;
  }

  // body(k, values): `values` are the sums as they are then, and what it leaves there comes next.
  using Body = std::function<void(llvm::Value*, std::vector<llvm::Value*>&)>;

  // For k = begin, begin + step, .. below end.
  void carried(llvm::Value* begin, llvm::Value* end, std::int64_t step,
               std::vector<llvm::Value*>& sums, const Body& body) {
    carried(
        begin, [&](llvm::Value* k) { return builder_.CreateICmpSLT(k, end); },
        [&](llvm::Value* k) { return builder_.CreateAdd(k, constant(step), "", true, true); }, sums,
        body);
  }

  // For the number of each bit of an i64 that is set, the lowest first.
  void for_bits(llvm::Value* bits, std::vector<llvm::Value*>& sums, const Body& body) {
    carried(
        bits, [&](llvm::Value* left) { return builder_.CreateICmpNE(left, constant(0)); },
        [&](llvm::Value* left) {
          return builder_.CreateAnd(left, builder_.CreateSub(left, constant(1)));
        },
        sums,
        [&](llvm::Value* left, std::vector<llvm::Value*>& values) {
          body(builder_.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, left, builder_.getTrue()),
               values);
        });
  }

  // For k = begin, next_of(begin), .. as long as goes_on(k).
  void carried(llvm::Value* begin, const std::function<llvm::Value*(llvm::Value*)>& goes_on,
               const std::function<llvm::Value*(llvm::Value*)>& next_of,
               std::vector<llvm::Value*>& sums, const Body& body) {
    auto& context = function_->getContext();
    auto* before = builder_.GetInsertBlock();
    auto* block = llvm::BasicBlock::Create(context, "body", function_);
    auto* after = llvm::BasicBlock::Create(context, "after", function_);
    builder_.CreateCondBr(goes_on(begin), block, after);
    builder_.SetInsertPoint(block);
    auto* k = builder_.CreatePHI(index_, 2, "k");
    k->addIncoming(begin, before);
    std::vector<llvm::PHINode*> running;
    for (auto* sum : sums) {
      auto* phi = builder_.CreatePHI(sum->getType(), 2);
      phi->addIncoming(sum, before);
      running.push_back(phi);
    }
    std::vector<llvm::Value*> values(running.begin(), running.end());
    body(k, values);
    auto* next = next_of(k);
    auto* last = builder_.GetInsertBlock();
    k->addIncoming(next, last);
    for (std::size_t i = 0; i < running.size(); ++i) running[i]->addIncoming(values[i], last);
    builder_.CreateCondBr(goes_on(next), block, after);
    builder_.SetInsertPoint(after);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      auto* phi = builder_.CreatePHI(sums[i]->getType(), 2);
      phi->addIncoming(sums[i], before);
      phi->addIncoming(values[i], last);
      sums[i] = phi;
    }
  }

  void loop(llvm::Value* begin, llvm::Value* end, std::int64_t steps,
            std::vector<llvm::Value*>& sums) {
    carried(begin, end, steps, sums, [&](llvm::Value* k, std::vector<llvm::Value*>& values) {
      auto* first =
          builder_.CreateMul(k, builder_.getInt64(static_cast<std::uint64_t>(left_step())));
      auto* left = builder_.CreateInBoundsGEP(left_element(), left_, first);
      auto* right = right_at(right_, k);
      for (std::int64_t step = 0; step < steps; ++step) {
        fetch(k, step);
        multiply(left, right, step, values);
      }
    });
  }

  void runs(std::vector<llvm::Value*>& sums) {
    llvm::Value *left = left_, *right = right_;
    std::int64_t run = *kernel_.depth;
    for (const std::int64_t count : kernel_.runs) run /= count;
    runs_of(0, {.length = run, .first = constant(0), .left = left, .right = right}, sums);
    left_ = left;
    right_ = right;
  }

  struct Runs {
    std::int64_t length = 0;                        // steps of each
    llvm::Value *first = nullptr, *left = nullptr;  // number and begin of the first one
    llvm::Value* right = nullptr;                   // of all
  };
  // Those that the counters from this one on tell apart.
  void runs_of(std::size_t counter, const Runs& runs, std::vector<llvm::Value*>& sums) {
    const std::int64_t count = kernel_.runs[counter];
    const unsigned strides = first_beside() + static_cast<unsigned>(kernel_.beside.size());
    llvm::Value* stride = function_->getArg(strides + static_cast<unsigned>(counter));
    const Body one = [&](llvm::Value* index, std::vector<llvm::Value*>& inner) {
      llvm::Value* number = builder_.CreateAdd(
          builder_.CreateMul(runs.first, constant(count), "", true, true), index, "", true, true);
      llvm::Value* left =
          builder_.CreateInBoundsGEP(left_element(), runs.left, builder_.CreateMul(index, stride));
      if (counter + 1 < kernel_.runs.size())
        return runs_of(counter + 1,
                       {.length = runs.length, .first = number, .left = left, .right = runs.right},
                       inner);
      first_ = builder_.CreateMul(number, constant(runs.length));
      left_ = left;
      right_ = builder_.CreateInBoundsGEP(right_step(), runs.right,
                                          builder_.CreateMul(first_, right_stride_));
      loop(constant(0), constant(runs.length), steps_of(runs.length, body_operations), inner);
    };
    if (kernel_.some_runs) for_bits(function_->getArg(strides + 1), sums, one);
    else carried(constant(0), constant(count), 1, sums, one);
  }

  // Scales or zero points of block `number` for each vector of columns: `one` number or what lies
  // at the argument.
  std::vector<llvm::Value*> of_block(llvm::Value* number, const std::optional<double>& one,
                                     std::size_t argument) {
    std::vector<llvm::Value*> found;
    for (std::int64_t vector = 0; vector < kernel_.vectors; ++vector) {
      if (one) {
        found.push_back(llvm::ConstantFP::get(vector_, *one));
        continue;
      }
      const std::int64_t column = vector * kernel_.lanes;
      auto* panel = builder_.CreateMul(constant(column / kernel_.panel), function_->getArg(8));
      auto* within = builder_.CreateAdd(builder_.CreateMul(number, constant(kernel_.panel)),
                                        constant(column % kernel_.panel));
      auto* base = function_->getArg(static_cast<unsigned>(argument));
      found.push_back(builder_.CreateAlignedLoad(
          vector_,
          builder_.CreateInBoundsGEP(kernel_.element, base, builder_.CreateAdd(panel, within)),
          llvm::Align(element_bytes())));
    }
    return found;
  }
  std::vector<llvm::Value*> scales_of(llvm::Value* number) {
    return of_block(number, kernel_.scale, 7);
  }
  // None where there are no zero points.
  std::vector<llvm::Value*> zeros_of(llvm::Value* number) {
    if (!kernel_.zeros) return {};
    return of_block(number, kernel_.zero, function_->arg_size() - 1);
  }

  // Sums of each block of the depth, then these times the block's scales.
  void blocks(std::vector<llvm::Value*>& sums) {
    carried(
        constant(0), depth_, kernel_.block, sums,
        [&](llvm::Value* first, std::vector<llvm::Value*>& values) {
          auto* end = builder_.CreateBinaryIntrinsic(
              llvm::Intrinsic::smin, builder_.CreateAdd(first, constant(kernel_.block)), depth_);
          std::vector<llvm::Value*> inner(values.size(), llvm::Constant::getNullValue(vector_));
          const std::int64_t together = kernel_.in_4_bits ? depths_of_4_bits : 4;
          const bool whole =
              kernel_.in_4_bits ||
              (kernel_.depth && *kernel_.depth % together == 0 && kernel_.block % together == 0);
          auto* number = builder_.CreateUDiv(first, constant(kernel_.block));
          const std::vector<llvm::Value*> scales = scales_of(number);
          const std::vector<llvm::Value*> zeros = zeros_of(number);
          if (sums_left()) inner.resize(inner.size() + rows(), inner.front());
          else zeros_ = zeros;
          loop(first, end, whole ? together : 1, inner);
          for (std::size_t i = 0; i < values.size(); ++i) {
            const std::size_t row = i / scales.size(), vector = i % scales.size();
            if (sums_left())
              inner[i] = emit_multiply_add(builder_, kernel_, builder_.CreateFNeg(zeros[vector]),
                                           inner[values.size() + row], inner[i]);
            values[i] = emit_multiply_add(builder_, kernel_, inner[i], scales[vector], values[i]);
          }
        });
  }

  std::size_t rows() const { return static_cast<std::size_t>(kernel_.rows); }
  // Whether a block's zero points are taken from its sums, as many times as its left operand's
  // elements are together, and not from each element of the right one. These sums lie behind the
  // tile's. In more than 4 bits they would round more.
  bool sums_left() const {
    return kernel_.in_4_bits && kernel_.depths == 1 && kernel_.zeros &&
           kernel_.rows < kernel_.vectors;
  }

  // Both operands are bytes with scales: a block's sum of products of integers, less the zero point
  // times the sum of the left ones, times both scales.
  void rounded_blocks(std::vector<llvm::Value*>& sums) {
    const std::int64_t steps = kernel_.block / kernel_.depths;
    const std::int64_t together = std::min<std::int64_t>(steps, 4);
    auto* integers =
        llvm::FixedVectorType::get(builder_.getInt32Ty(), static_cast<unsigned>(kernel_.lanes));
    carried(
        constant(0), depth_, steps, sums,
        [&](llvm::Value* first, std::vector<llvm::Value*>& values) {
          auto* number = builder_.CreateUDiv(first, constant(steps));
          auto* head = builder_.CreateInBoundsGEP(
              builder_.getInt8Ty(), left_,
              builder_.CreateMul(number, constant(kernel_.block + rounded_block_head)));
          auto* left =
              builder_.CreateConstInBoundsGEP1_64(builder_.getInt8Ty(), head, rounded_block_head);
          auto* right = right_at(right_, first);
          std::vector<llvm::Value*> inner(values.size(), llvm::Constant::getNullValue(integers));
          carried(constant(0), constant(steps), together, inner,
                  [&](llvm::Value* k, std::vector<llvm::Value*>& products) {
                    auto* a =
                        builder_.CreateInBoundsGEP(builder_.getInt8Ty(), left,
                                                   builder_.CreateMul(k, constant(kernel_.depths)));
                    auto* b = right_at(right, k);
                    for (std::int64_t step = 0; step < together; ++step)
                      multiply(a, b, step, products);
                  });
          add_rounded(head, number, inner, values);
        });
  }

  // The block's sums of integers, real, to `sums`.
  void add_rounded(llvm::Value* head, llvm::Value* number,
                   const std::vector<llvm::Value*>& integers, std::vector<llvm::Value*>& sums) {
    const std::vector<llvm::Value*> scales = scales_of(number);
    std::vector<llvm::Value*> shifts = zeros_of(number);
    auto* offset = llvm::ConstantFP::get(
        vector_, static_cast<double>(kernel_.in_4_bits ? offset_of_4_bits : offset_of_bytes));
    if (shifts.empty()) shifts.assign(scales.size(), llvm::Constant::getNullValue(vector_));
    for (std::size_t vector = 0; vector < shifts.size(); ++vector)
      shifts[vector] = builder_.CreateFNeg(
          builder_.CreateFMul(builder_.CreateFAdd(shifts[vector], offset), scales[vector]));
    for (std::int64_t row = 0; row < kernel_.rows; ++row) {
      auto* of_row = builder_.CreateInBoundsGEP(builder_.getInt8Ty(), head,
                                                builder_.CreateMul(constant(row), left_stride_));
      const auto number_at = [&](std::uint64_t index) {
        auto* place = builder_.CreateConstInBoundsGEP1_64(kernel_.element, of_row, index);
        auto* scalar =
            builder_.CreateAlignedLoad(kernel_.element, place, llvm::Align(element_bytes()));
        return builder_.CreateVectorSplat(static_cast<unsigned>(kernel_.lanes), scalar);
      };
      auto *scale = number_at(0), *scaled_sum = number_at(1);
      for (std::size_t vector = 0; vector < scales.size(); ++vector) {
        const std::size_t i = static_cast<std::size_t>(row) * scales.size() + vector;
        auto* real =
            builder_.CreateFMul(builder_.CreateSIToFP(integers[i], vector_), scales[vector]);
        sums[i] = emit_multiply_add(builder_, kernel_, scaled_sum, shifts[vector], sums[i]);
        sums[i] = emit_multiply_add(builder_, kernel_, real, scale, sums[i]);
      }
    }
  }

  void fetch(llvm::Value* k, std::int64_t step) {
    for (std::int64_t i = 0; i < kernel_.fetches; ++i) {
      auto* number = builder_.CreateAdd(
          builder_.CreateMul(first_ == nullptr ? k : builder_.CreateAdd(first_, k),
                             builder_.getInt64(static_cast<std::uint64_t>(kernel_.fetches))),
          builder_.getInt64(static_cast<std::uint64_t>(step * kernel_.fetches + i)));
      fetch_line(builder_.CreateGEP(builder_.getInt8Ty(), function_->getArg(7),
                                    builder_.CreateMul(number, function_->getArg(8))));
    }
    if (behind_ == nullptr && !fetches_beside_) return;
    auto* number = builder_.CreateAdd(k, constant(step), "", true, true);
    if (behind_ != nullptr)
      fetch_line(builder_.CreateGEP(builder_.getInt8Ty(), behind_,
                                    builder_.CreateMul(number, constant(line_bytes))));
    if (fetches_beside_)
      for (std::size_t i = 0; i < kernel_.beside.size(); ++i) fetch_beside(i, number);
  }

  // The loop over all steps, in parts by what they fetch besides right operands, first what is read
  // and written beside the tile, then lines behind: where a line lies takes integer operations,
  // which share ports with multiply-adds on processors that do two of these a cycle. A part's last
  // turn may fetch further than there are lines.
  void fetching_loop(std::int64_t steps, std::vector<llvm::Value*>& sums) {
    std::int64_t lines = 0;
    for (const FetchedRows& rows : kernel_.beside)
      lines = std::max(lines, kernel_.rows * lines_of(rows));
    llvm::Value* begin = constant(0);
    // From `begin` on, a step for each of so many lines.
    const auto part = [&](llvm::Value* number) {
      auto* turns =
          builder_.CreateUDiv(builder_.CreateAdd(number, constant(steps - 1)), constant(steps));
      auto* end = builder_.CreateBinaryIntrinsic(
          llvm::Intrinsic::umin, depth_,
          builder_.CreateAdd(begin, builder_.CreateMul(turns, constant(steps))));
      loop(begin, end, steps, sums);
      begin = end;
    };
    if (lines > 0) {
      fetches_beside_ = true;
      part(constant(lines));
      fetches_beside_ = false;
    }
    if (kernel_.fetches_behind) {
      behind_ =
          builder_.CreateGEP(builder_.getInt8Ty(), function_->getArg(first_fetched),
                             builder_.CreateNeg(builder_.CreateMul(begin, constant(line_bytes))));
      part(function_->getArg(first_fetched + 1));
      behind_ = nullptr;
    }
    loop(begin, depth_, steps, sums);
  }

  std::int64_t lines_of(const FetchedRows& rows) const {
    return (kernel_.vectors * kernel_.lanes * rows.element_bytes + line_bytes - 1) / line_bytes;
  }

  unsigned first_beside() const { return first_fetched + (kernel_.fetches_behind ? 2 : 0); }

  void fetch_beside(std::size_t which, llvm::Value* number) {
    const FetchedRows& rows = kernel_.beside[which];
    auto* lines = constant(lines_of(rows));
    auto* row = builder_.CreateBinaryIntrinsic(
        llvm::Intrinsic::umin, builder_.CreateUDiv(number, lines), constant(kernel_.rows - 1));
    auto* offset = builder_.CreateAdd(
        builder_.CreateMul(row, constant(rows.stride)),
        builder_.CreateMul(builder_.CreateURem(number, lines), constant(line_bytes)));
    llvm::Value* first = function_->getArg(first_beside() + static_cast<unsigned>(which));
    auto* place = builder_.CreateGEP(builder_.getInt8Ty(), first, offset);
    fetch_line(place, rows.written, 3);
  }

  // `level`: 3 for the first-level cache, 2 for the second.
  void fetch_line(llvm::Value* place, bool write = false, std::uint32_t level = 2) {
    constexpr std::uint32_t data = 1;
    builder_.CreateIntrinsic(llvm::Intrinsic::prefetch, {builder_.getPtrTy()},
                             {place, builder_.getInt32(write ? 1 : 0), builder_.getInt32(level),
                              builder_.getInt32(data)});
  }
  llvm::Value* constant(std::int64_t value) {
    return builder_.getInt64(static_cast<std::uint64_t>(value));
  }

  std::int64_t left_step() const { return kernel_.left_step * kernel_.depths; }  // elements
  unsigned step_bits() const { return kernel_.element->getScalarSizeInBits(); }
  llvm::Type* left_element() {
    return kernel_.depths == 1
               ? kernel_.element
               : builder_.getIntNTy(step_bits() / static_cast<unsigned>(kernel_.depths));
  }
  // What strides of the right operand count.
  llvm::Type* right_step() { return reads_bytes() ? builder_.getInt8Ty() : kernel_.element; }
  // Whether a step of the right operand is a byte, which is made real.
  bool reads_bytes() const {
    return kernel_.block != 0 && kernel_.depths == 1 && !kernel_.in_4_bits;
  }
  llvm::Type* step_type() {
    return kernel_.depths == 1 ? kernel_.element : builder_.getIntNTy(step_bits());
  }

  // Steps of the left operand that one of the right operand is for.
  std::int64_t steps_of_right() const {
    return kernel_.in_4_bits ? depths_of_4_bits / kernel_.depths : 1;
  }
  llvm::Value* right_at(llvm::Value* begin, llvm::Value* k) {
    auto* step = kernel_.in_4_bits ? builder_.CreateUDiv(k, constant(steps_of_right())) : k;
    return builder_.CreateInBoundsGEP(right_step(), begin, builder_.CreateMul(step, right_stride_));
  }

  // The right operand's vectors for step `step` of those from `right` on, which are asked for in
  // order.
  std::vector<llvm::Value*> columns_at(llvm::Value* right, std::int64_t step) {
    const auto lanes = static_cast<unsigned>(kernel_.lanes);
    const std::int64_t within = step % steps_of_right();
    std::vector<llvm::Value*> columns;
    if (within == 0) held_.clear();
    auto* offset = builder_.CreateMul(constant(step / steps_of_right()), right_stride_);
    for (std::int64_t vector = 0; vector < kernel_.vectors; ++vector) {
      const std::int64_t column = vector * kernel_.lanes;
      auto* panel = builder_.CreateMul(constant(column / kernel_.panel), panel_stride_);
      auto* place =
          builder_.CreateAdd(builder_.CreateAdd(offset, panel), constant(column % kernel_.panel));
      auto* pointer = builder_.CreateInBoundsGEP(right_step(), right, place);
      const auto which = static_cast<std::size_t>(vector);
      llvm::Value* zeros = zeros_.empty() ? nullptr : zeros_[which];
      if (reads_bytes()) {
        columns.push_back(emit_real_weights(builder_, pointer, lanes, zeros));
        continue;
      }
      if (within == 0) {
        auto* type = llvm::FixedVectorType::get(
            kernel_.in_4_bits ? builder_.getInt32Ty() : step_type(), lanes);
        held_.push_back(builder_.CreateAlignedLoad(type, pointer, llvm::Align(element_bytes())));
      }
      llvm::Value* held = held_[which];
      if (!kernel_.in_4_bits) columns.push_back(held);
      else if (kernel_.depths == 1)
        columns.push_back(emit_real_weights_of_4_bits(builder_, held, within, zeros));
      else columns.push_back(emit_bytes_of_4_bits(builder_, held, within == 0));
    }
    return columns;
  }

  void multiply(llvm::Value* left, llvm::Value* right, std::int64_t step,
                std::vector<llvm::Value*>& values) {
    const std::vector<llvm::Value*> columns = columns_at(right, step);
    for (std::int64_t row = 0; row < kernel_.rows; ++row) {
      auto* place = builder_.CreateAdd(
          builder_.CreateMul(builder_.getInt64(static_cast<std::uint64_t>(row)), left_stride_),
          builder_.getInt64(static_cast<std::uint64_t>(step * left_step())));
      auto* scalar = builder_.CreateAlignedLoad(
          step_type(), builder_.CreateInBoundsGEP(left_element(), left, place),
          llvm::Align(left_element()->getScalarSizeInBits() / 8));
      auto* splat = builder_.CreateVectorSplat(static_cast<unsigned>(kernel_.lanes), scalar);
      for (std::size_t column = 0; column < columns.size(); ++column) {
        auto*& sum = values[static_cast<std::size_t>(row * kernel_.vectors) + column];
        sum = emit_multiply_step(builder_, kernel_, splat, columns[column], sum);
      }
      if (!sums_left()) continue;
      auto*& sum = values[rows() * columns.size() + static_cast<std::size_t>(row)];
      sum = builder_.CreateFAdd(sum, splat);
    }
  }

  const MicroKernel& kernel_;
  llvm::IRBuilder<> builder_;
  llvm::Type* index_;
  llvm::FixedVectorType* vector_;
  llvm::Function* function_;
  llvm::Value *left_, *right_, *left_stride_, *panel_stride_, *right_stride_, *depth_;
  llvm::Value* first_ = nullptr;     // step of the run; null: 0
  std::vector<llvm::Value*> zeros_;  // of the block, for each vector of the right operand
  std::vector<llvm::Value*> held_;   // its step that columns_at() read last
  // Where the loop being emitted fetches lines behind from, counted from step 0 on.
  llvm::Value* behind_ = nullptr;
  bool fetches_beside_ = false;
};

}  // namespace

MicroKernel micro_kernel_of(const Target& target, const Product& product, llvm::Type* element,
                            std::int64_t lanes) {
  MicroKernel micro;
  micro.multiply = multiply_of(target, product);
  micro.depths = product.depths();
  micro.element = element;
  micro.fused_multiply_add = target.fused_multiply_add() && element->isFloatingPointTy();
  micro.lanes = lanes;
  micro.panel = panel_columns(product);
  return micro;
}

llvm::Function* emit_micro_kernel(llvm::Module& module, const Target& target,
                                  const std::string& name, const MicroKernel& kernel) {
  return Emitter(module, target, name, kernel).run();
}

llvm::Function* emit_multiply(llvm::Module& module, const Target& target, const std::string& name,
                              MicroKernel micro, const std::set<std::int64_t>& row_counts,
                              const std::vector<std::int64_t>& widths) {
  llvm::IRBuilder<> types(module.getContext());
  MultiplyVariants variants(module, target, name, types_of_rest(types, micro));
  auto& builder = variants.builder();
  llvm::Function* function = variants.function();
  const std::int64_t step = *row_counts.rbegin() + 1;
  llvm::Value* choice = function->getArg(1);
  if (widths.size() > 1)
    choice = builder.CreateAdd(
        choice,
        builder.CreateMul(function->getArg(0), builder.getInt64(static_cast<std::uint64_t>(step))));
  variants.choose(choice, row_counts.size() * widths.size());
  std::vector<llvm::Value*> arguments;
  for (llvm::Argument& argument : llvm::drop_begin(function->args(), 2))
    arguments.push_back(&argument);
  for (std::size_t variant = 0; variant < widths.size(); ++variant) {
    for (const std::int64_t rows : row_counts) {
      micro.rows = rows;
      micro.vectors = widths[variant] / micro.lanes;
      // Even shares of many blocks are no smaller; loops of their own cost compile time.
      micro.fetches_early = rows + 1 >= *row_counts.rbegin();
      llvm::Function* kernel = emit_micro_kernel(
          module, target, name + "_" + std::to_string(rows) + "x" + std::to_string(widths[variant]),
          micro);
      variants.add(static_cast<std::uint64_t>(rows + static_cast<std::int64_t>(variant) * step),
                   kernel, arguments);
    }
  }
  return function;
}

}  // namespace anydim::codegen_cpu
