#include <algorithm>
#include <optional>

#include "codegen_cpu/attention/attention_products.h"
#include "codegen_cpu/attention/attention_schedule.h"
#include "codegen_cpu/attention/attention_weight.h"
#include "codegen_cpu/attention/key_dots.h"
#include "codegen_cpu/emitters.h"
#include "codegen_cpu/matmul/matmul_operands.h"
#include "codegen_cpu/matmul/matmul_schedule.h"
#include "codegen_cpu/matmul/pack_emitter.h"
#include "codegen_cpu/matmul/tile_kernel.h"
#include "codegen_cpu/scalars/element_vectors.h"
#include "codegen_cpu/scalars/index_emitter.h"
#include "codegen_cpu/scratch_layout.h"
#include "codegen_cpu/segments.h"
#include "codegen_cpu/task_split.h"
#include "codegen_cpu/vector_loop.h"
#include "ir/error.h"
#include "ir/loops/scalar_program.h"

namespace anydim::codegen_cpu {

namespace {

class AttentionEmitter {
 public:
  AttentionEmitter(KernelBuilder& kernel, ir::AttentionForm form, const ir::Schedule& schedule)
      : kernel_(kernel), form_(std::move(form)), schedule_(AttentionSchedule::from(schedule)),
        dtype_(compute_dtype(form_.score.steps.back().dtype)), vectors_(kernel, dtype_),
        element_(vectors_.element()), lanes_(vectors_.lanes()),
        panel_(panel_columns(Product::of(dtype_))) {
    internal_check(ir::is_float(dtype_), "scores of attention are floats");
    const std::int64_t group = std::max(schedule_.columns, panel_);
    internal_check(
        schedule_.columns % lanes_ == 0 && group % schedule_.columns == 0 && group % panel_ == 0 &&
            schedule_.block_keys % group == 0,
        "an attention schedule's columns are whole vectors that fill panels or are filled by them");
    form_.q = with_dtype(form_.q, dtype_);
    form_.k = with_dtype(form_.k, dtype_);
    form_.v = with_dtype(form_.v, dtype_);
    form_.score = with_dtype(form_.score, dtype_);
    factor_ = factor_of(form_.score);
    if (schedule_.keys_in_place) {
      keys_ = whole_keys(kernel.target(), kernel.region(), form_, kernel.symbols());
      internal_check(keys_.has_value(), "keys that are read in place are whole vectors");
      form_.k = unrounded(form_.k);
      form_.v = unrounded(form_.v);
    }
    product_ = keys_ ? Product::of(dtype_) : attention_product(kernel.target(), form_);
    internal_check(!schedule_.tiles ||
                       (product_.in_tiles(kernel.target()) && schedule_.columns % panel_ == 0 &&
                        schedule_.block_keys % (steps_at_once() * product_.depths()) == 0),
                   "attention on tile registers has blocks of whole tiles of bf16");
    form_.q = in_product_dtype(form_.q, product_.left);
    form_.k = in_product_dtype(form_.k, product_.right);
    form_.v = in_product_dtype(form_.v, product_.right);
    // Whole steps are read, and whole panels.
    const auto depth = form_.depth.extent.constant(), width = form_.width.extent.constant();
    const std::int64_t step = product_.depths();
    if (step == 1 || (depth && *depth % (steps_at_once() * step) == 0))
      query_ = rows_in_place(kernel.region(), form_.q, product_.left, form_.row, form_.depth,
                             kernel.symbols());
    // Values of pairs of keys lie beside each other in steps.
    if (step == 1 && width && *width % panel_ == 0)
      values_ =
          rows_in_place(kernel.region(), form_.v, dtype_, form_.key, form_.width, kernel.symbols());
  }

  EmittedKernel run() {
    Scope& root = kernel_.root();
    const Dim row_blocks = ir::ceil_div(form_.row.extent, schedule_.block_rows);
    row_count_ = emit_index(kernel_, root, form_.row.extent);
    key_count_ = emit_index(kernel_, root, form_.key.extent);
    depth_ = emit_index(kernel_, root, form_.depth.extent);
    depth_steps_ = emit_index(kernel_, root, depth_steps());
    row_blocks_ = emit_index(kernel_, root, row_blocks);
    plan_scratch();
    plan_multiply();
    if (form_.segments) check_offsets(kernel_, *form_.segments, form_.row.extent);
    if (form_.segments && form_.segments->work >= 0) check_work(kernel_, *form_.segments);
    kernel_.for_range(root, kernel_.begin(), kernel_.end(), 1,
                      [&](Scope& task, Value* number) { emit_task(task, number); });
    if (tile_registers_) tile_registers_->release(root);
    return {.tasks = row_blocks * ir::points_of(form_.batch), .scratch_bytes = scratch_.bytes()};
  }

 private:
  std::int64_t element_bytes() const { return static_cast<std::int64_t>(ir::size_of(dtype_)); }
  Dim rounded(const Dim& extent) const { return ir::ceil_div(extent, panel_) * panel_; }
  bool pairs() const { return product_.depths() != 1; }
  // Elements of a row of the packed queries: whole cache lines.
  Dim query_stride() const { return whole_lines(form_.depth.extent, product_.left); }
  // Micro-kernels read whole numbers of these.
  std::int64_t steps_at_once() const { return schedule_.tiles ? tile_steps : 1; }
  Dim depth_steps() const {
    const Dim& depth = form_.depth.extent;
    return schedule_.tiles ? packed_steps(kernel_.target(), product_, depth)
                           : steps_of(product_, depth);
  }
  // At here(): steps that `depths` (i64) fill.
  Value* steps(Value* depths) {
    auto& builder = kernel_.here();
    const std::int64_t whole = steps_at_once() * product_.depths();
    if (whole == 1) return depths;
    Value* filled = builder.CreateUDiv(builder.CreateAdd(depths, kernel_.constant(whole - 1)),
                                       kernel_.constant(whole));
    return builder.CreateMul(filled, kernel_.constant(steps_at_once()));
  }
  // Row by row, an array of block_rows elements or rows.
  void plan_scratch() {
    const auto reserve = [&](const Dim& elements) {
      return scratch_.reserve(kernel_, elements * element_bytes());
    };
    const Dim padded_width = rounded(form_.width.extent);
    if (!query_) query_panel_ = reserve(query_stride() * schedule_.block_rows);
    if (pairs()) weights_ = reserve(schedule_.rows * schedule_.block_keys);
    if (!keys_) key_panel_ = reserve(depth_steps() * schedule_.block_keys + panel_ * panel_);
    if (!values_) value_panel_ = reserve(padded_width * schedule_.block_keys + panel_ * panel_);
    scores_ = reserve(schedule_.rows * schedule_.block_keys);
    row_maxima_ = reserve(schedule_.rows * lanes_);
    bases_ = reserve(schedule_.rows);
    scales_ = reserve(ir::ceil_div(schedule_.rows, lanes_) * lanes_);
    tile_ = reserve(schedule_.rows * std::max(schedule_.columns, panel_));
    maxima_ = reserve(schedule_.block_rows);
    sums_ = reserve(schedule_.block_rows * lanes_);
    outputs_ = reserve(padded_width * schedule_.block_rows);
    width_stride_ = emit_index(kernel_, kernel_.root(), padded_width);
    if (schedule_.tiles) tile_registers_.emplace(kernel_, scratch_);
  }

  void plan_multiply() {
    const MatmulSchedule split{.rows = schedule_.rows, .block_rows = schedule_.block_rows};
    multiplies_ = emit_attention_multiplies(
        kernel_.module(), kernel_.target(),
        {.schedule = schedule_,
         .product = product_,
         .element = element_,
         .lanes = lanes_,
         .panel = panel_,
         .row_counts = split.row_counts(form_.segments ? ir::Interval{1, schedule_.block_rows}
                                                       : kernel_.interval_of(form_.row.extent)),
         .query_stride = (query_ ? query_->row_stride : query_stride()).constant(),
         .depth_steps = depth_steps().constant(),
         .narrow_values = narrow_values(),
         .values_in_place = values_.has_value(),
         .value_stride = values_ ? values_->row_stride.constant() : std::nullopt});
  }

  bool narrow_values() const {
    return !whole_groups(form_.width.extent, schedule_.columns, panel_);
  }

  void emit_task(Scope& task, Value* number) {
    auto& builder = kernel_.at(task);
    Value* row_block = builder.CreateURem(number, row_blocks_);
    define_batch(kernel_, task, form_.batch, builder.CreateUDiv(number, row_blocks_));
    const Share share = even_share(kernel_, task, row_count_, row_blocks_, row_block);
    if (!form_.segments) {
      emit_rows(task, share.first, share.count, {kernel_.constant(0), key_count_});
      return;
    }
    // The task's rows of each segment, one segment after the other.
    Value* end = kernel_.at(task).CreateAdd(share.first, share.count);
    Value* first_segment = segment_of(kernel_, task, *form_.segments, share.first);
    Value* last_segment = segment_of(kernel_, task, *form_.segments,
                                     kernel_.at(task).CreateSub(end, kernel_.constant(1)));
    Value* segments_end = kernel_.at(task).CreateAdd(last_segment, kernel_.constant(1));
    kernel_.loop(task, first_segment, segments_end, 1, [&](Scope& segment, Value* which) {
      const SegmentRange keys = segment_range(kernel_, segment, *form_.segments, which, key_count_);
      auto& inner = kernel_.at(segment);
      Value* first = inner.CreateBinaryIntrinsic(llvm::Intrinsic::smax, keys.first, share.first);
      Value* last = inner.CreateBinaryIntrinsic(llvm::Intrinsic::smin, keys.last, end);
      kernel_.guarded(segment, inner.CreateICmpSLT(first, last), [&](Scope& rows) {
        emit_rows(rows, first, kernel_.at(rows).CreateSub(last, first), keys);
      });
    });
  }

  // Rows [first, first + count) over these keys; at least one row.
  void emit_rows(Scope& task, Value* first, Value* count, const SegmentRange& keys) {
    first_row_ = first;
    task_rows_ = count;
    if (!query_) {
      emit_pack_rows(kernel_, task,
                     {.program = form_.q,
                      .dtype = product_.left,
                      .zeros_behind = pairs(),
                      .row = form_.row.variable,
                      .inner = form_.depth,
                      .first_row = first_row_,
                      .rows = task_rows_,
                      .to = query_panel_,
                      .row_stride = query_stride()});
    }
    start_rows(task);
    kernel_.for_range(
        task, keys.first, keys.last, schedule_.block_keys,
        [&](Scope& block, Value* first_key) { emit_key_block(block, first_key, keys.last); });
    finish_rows(task, kernel_.at(task).CreateICmpEQ(keys.first, keys.last));
  }

  void start_rows(Scope& task) {
    kernel_.loop(task, kernel_.constant(0), task_rows_, 1, [&](Scope& row, Value* r) {
      auto& builder = kernel_.at(row);
      vectors_.store_one(maxima_, r, llvm::ConstantFP::getInfinity(element_, true));
      vectors_.store(sums_, builder.CreateMul(r, kernel_.constant(lanes_)),
                     llvm::Constant::getNullValue(vectors_.type()));
      Value* base = builder.CreateMul(r, width_stride_);
      kernel_.for_range(row, kernel_.constant(0), width_stride_, lanes_,
                        [&](Scope& vectors, Value* e) {
                          auto& inner = kernel_.at(vectors);
                          vectors_.store(outputs_, inner.CreateAdd(base, e),
                                         llvm::Constant::getNullValue(vectors_.type()));
                        });
    });
  }

  void emit_key_block(Scope& block, Value* first_key, Value* last_key) {
    auto& builder = kernel_.at(block);
    first_key_ = first_key;
    block_keys_ =
        builder.CreateBinaryIntrinsic(llvm::Intrinsic::umin, builder.CreateSub(last_key, first_key),
                                      kernel_.constant(schedule_.block_keys));
    Value* zero = kernel_.constant(0);
    if (!keys_)
      pack(block, {.program = form_.k,
                   .column = form_.key,
                   .depth = form_.depth,
                   .first_column = first_key,
                   .first_depth = zero,
                   .columns = block_keys_,
                   .depths = depth_,
                   .steps = depth_steps_,
                   .to = key_panel_});
    if (!values_) {
      kernel_.guarded(block, kernel_.at(block).CreateICmpNE(width_stride_, zero),
                      [&](Scope& scope) {
                        Value* width = emit_index(kernel_, scope, form_.width.extent);
                        kernel_.at(scope);
                        Value* panel_steps = steps(block_keys_);
                        pack(scope, {.program = form_.v,
                                     .column = form_.width,
                                     .depth = form_.key,
                                     .first_column = zero,
                                     .first_depth = first_key,
                                     .columns = width,
                                     .depths = block_keys_,
                                     .steps = panel_steps,
                                     .to = value_panel_});
                      });
    }
    ProgramEmitter score(kernel_, form_.score, block, {ir::last_step(form_.score)});
    for_even_blocks(kernel_, block, task_rows_, schedule_.rows,
                    [&](Scope& rows, const Share& share) {
                      if (tile_registers_) tile_registers_->set(rows, share.count);
                      multiply_keys(rows, share);
                      if (factor_) emit_product_maxima(rows, share);
                      else emit_scores(rows, score, share);
                      emit_bases(rows, share);
                      emit_weights(rows, share);
                      multiply_values(rows, share);
                    });
  }

  // A right operand of either product, in the product's steps.
  void pack(Scope& scope, PackPanels panels) {
    panels.dtype = product_.right;
    panels.depths_of_step = product_.depths();
    panels.transposed = lies_transposed(kernel_.region(), panels.program, panels.column,
                                        panels.depth, kernel_.symbols());
    emit_pack_panels(kernel_, scope, panels);
  }

  // Runs body for column groups over `padded` columns: (scope, variant, first column, columns).
  void for_groups(Scope& scope, Value* padded, bool narrow,
                  const std::function<void(Scope&, Value*, Value*, Value*)>& body) {
    auto& builder = kernel_.at(scope);
    Value* wide =
        builder.CreateSub(padded, builder.CreateURem(padded, kernel_.constant(schedule_.columns)));
    kernel_.for_range(
        scope, kernel_.constant(0), wide, schedule_.columns, [&](Scope& group, Value* column) {
          body(group, kernel_.constant(0), column, kernel_.constant(schedule_.columns));
        });
    if (!narrow) return;
    kernel_.for_range(scope, wide, padded, panel_, [&](Scope& group, Value* column) {
      body(group, kernel_.constant(1), column, kernel_.constant(panel_));
    });
  }

  Value* panel_pointer(Value* panels, Value* column, Value* depth) {
    return kernel_.element_pointer(panels, dtype_,
                                   first_step_of_column(kernel_, panel_, column, depth));
  }

  void multiply_keys(Scope& rows, const Share& share) {
    auto& builder = kernel_.at(rows);
    Value *left = nullptr, *left_stride = nullptr;
    if (query_) {
      rows.define(form_.row.variable, builder.CreateAdd(first_row_, share.first));
      left = emit_pointer(kernel_, rows, kernel_.buffer(static_cast<std::size_t>(query_->buffer)),
                          product_.left, query_->offset + form_.row.index() * query_->row_stride);
      left_stride = emit_index(kernel_, rows, query_->row_stride);
    } else {
      left_stride = emit_index(kernel_, kernel_.root(), query_stride());
      left = kernel_.element_pointer(query_panel_, product_.left,
                                     kernel_.at(rows).CreateMul(share.first, left_stride));
    }
    if (keys_) {
      emit_key_dots(kernel_, rows,
                    {.keys = *keys_,
                     .dtype = dtype_,
                     .key = form_.key.variable,
                     .depth = form_.depth.extent.constant().value(),
                     .queries = left,
                     .query_stride = left_stride,
                     .rows = share.count,
                     .first_key = first_key_,
                     .count = block_keys_,
                     .scores = scores_,
                     .score_stride = schedule_.block_keys});
      return;
    }
    auto& b = kernel_.at(rows);
    Value* padded = b.CreateAnd(b.CreateAdd(block_keys_, kernel_.constant(panel_ - 1)),
                                kernel_.constant(-panel_));
    for_groups(rows, padded, schedule_.columns > panel_,
               [&](Scope& group, Value* variant, Value* column, Value*) {
                 auto& inner = kernel_.at(group);
                 Value* right = panel_pointer(key_panel_, column, depth_steps_);
                 Value* panel_stride = inner.CreateMul(depth_steps_, kernel_.constant(panel_));
                 inner.CreateCall(multiplies_.keys,
                                  {variant, share.count, left, left_stride, right, panel_stride,
                                   kernel_.constant(panel_), depth_steps_,
                                   kernel_.element_pointer(scores_, dtype_, column), right,
                                   kernel_.constant(0)});
               });
  }

  // Scores from products, and each row's maximum per lane.
  void emit_scores(Scope& rows, ProgramEmitter& score, const Share& share) {
    kernel_.loop(rows, kernel_.constant(0), share.count, 1, [&](Scope& row, Value* r) {
      auto& builder = kernel_.at(row);
      Value* maximum = vectors_.load_one(maxima_, builder.CreateAdd(share.first, r));
      vectors_.store(row_maxima_, builder.CreateMul(r, kernel_.constant(lanes_)),
                     vectors_.splat(maximum));
    });
    for_vectors(
        kernel_, rows,
        {.variable = form_.key.variable,
         .first = first_key_,
         .count = block_keys_,
         .width = lanes_},
        [&](Scope& vectors, Value* j) {
          kernel_.loop(vectors, kernel_.constant(0), share.count, 1, [&](Scope& point, Value* r) {
            auto& builder = kernel_.at(point);
            point.define(form_.row.variable,
                         builder.CreateAdd(builder.CreateAdd(first_row_, share.first), r));
            Value* place =
                builder.CreateAdd(builder.CreateMul(r, kernel_.constant(schedule_.block_keys)), j);
            score.set_accumulated(0, vectors_.load(scores_, place), point);
            Value* value = score.value(point, ir::last_step(form_.score));
            auto& b = kernel_.at(point);
            value = vectors_.splat(value);
            if (Value* mask = point.lanes().mask)
              value = without_missing(kernel_, vectors_, value, mask);
            vectors_.store(scores_, place, value);
            Value* maxima = b.CreateMul(r, kernel_.constant(lanes_));
            vectors_.store(row_maxima_, maxima,
                           vectors_.larger(vectors_.load(row_maxima_, maxima), value));
          });
        });
  }

  // Each row's maximum per lane, of scores that are products times a positive factor: the weights
  // apply it.
  void emit_product_maxima(Scope& rows, const Share& share) {
    auto* running = kernel_.variable(vectors_.type(), "maximum");
    kernel_.loop(rows, kernel_.constant(0), share.count, 1, [&](Scope& row, Value* r) {
      auto& builder = kernel_.at(row);
      Value* before = vectors_.load_one(maxima_, builder.CreateAdd(share.first, r));
      builder.CreateStore(vectors_.splat(before), running);
      Value* first = builder.CreateMul(r, kernel_.constant(schedule_.block_keys));
      for_vectors(kernel_, row,
                  {.variable = form_.key.variable,
                   .first = first_key_,
                   .count = block_keys_,
                   .width = lanes_},
                  [&](Scope& vectors, Value* j) {
                    auto& b = kernel_.at(vectors);
                    Value* place = b.CreateAdd(first, j);
                    Value* product = vectors_.load(scores_, place);
                    if (Value* mask = vectors.lanes().mask) {
                      product = without_missing(kernel_, vectors_, product, mask);
                      vectors_.store(scores_, place, product);
                    }
                    b.CreateStore(vectors_.larger(b.CreateLoad(vectors_.type(), running), product),
                                  running);
                  });
      auto& after = kernel_.at(row);
      vectors_.store(row_maxima_, after.CreateMul(r, kernel_.constant(lanes_)),
                     after.CreateLoad(vectors_.type(), running));
    });
  }

  // Each row's maximum so far, what its scores are compared with, and the factor by which sums of
  // earlier blocks shrink.
  void emit_bases(Scope& rows, const Share& share) {
    kernel_.loop(rows, kernel_.constant(0), share.count, 1, [&](Scope& row, Value* r) {
      auto& builder = kernel_.at(row);
      Value* position = builder.CreateAdd(share.first, r);
      Value* before = vectors_.load_one(maxima_, position);
      Value* maximum = reduce_lanes(
          kernel_, vectors_.load(row_maxima_, builder.CreateMul(r, kernel_.constant(lanes_))),
          [&](Value* a, Value* b) { return vectors_.larger(a, b); });
      // While every score is -infinity nothing may be subtracted from it: the weights are
      // exp(-infinity) = 0.
      Value* none = builder.CreateFCmpOEQ(maximum, llvm::ConstantFP::getInfinity(element_, true));
      Value* base = builder.CreateSelect(none, llvm::ConstantFP::get(element_, 0), maximum);
      vectors_.store_one(maxima_, position, maximum);
      vectors_.store_one(bases_, r, base);
      vectors_.store_one(scales_, r, builder.CreateFSub(before, base));
    });
    kernel_.loop(rows, kernel_.constant(0), share.count, lanes_, [&](Scope& vectors, Value* r) {
      kernel_.at(vectors);
      vectors_.store(scales_, r,
                     emit_weight(kernel_, vectors, dtype_, vectors_.load(scales_, r), factor_));
    });
  }

  // Weights exp(score - maximum), and their running sums per lane.
  void emit_weights(Scope& rows, const Share& share) {
    auto* sum = kernel_.variable(vectors_.type(), "sum");
    kernel_.loop(rows, kernel_.constant(0), share.count, 1, [&](Scope& row, Value* r) {
      auto& builder = kernel_.at(row);
      Value* bases = vectors_.splat(vectors_.load_one(bases_, r));
      Value* scale = vectors_.splat(vectors_.load_one(scales_, r));
      Value* sums = builder.CreateMul(builder.CreateAdd(share.first, r), kernel_.constant(lanes_));
      builder.CreateStore(builder.CreateFMul(vectors_.load(sums_, sums), scale), sum);
      Value* first = builder.CreateMul(r, kernel_.constant(schedule_.block_keys));
      kernel_.loop(row, kernel_.constant(0), block_keys_, lanes_, [&](Scope& vectors, Value* j) {
        auto& b = kernel_.at(vectors);
        Value* place = b.CreateAdd(first, j);
        Value* weights = emit_weight(kernel_, vectors, dtype_,
                                     b.CreateFSub(vectors_.load(scores_, place), bases), factor_);
        if (pairs()) {
          store_narrow_weights(narrow(kernel_, product_.left, weights), place);
        } else {
          vectors_.store(scores_, place, weights);
        }
        b.CreateStore(b.CreateFAdd(b.CreateLoad(vectors_.type(), sum), weights), sum);
      });
      auto& after = kernel_.at(row);
      vectors_.store(sums_, sums, after.CreateLoad(vectors_.type(), sum));
      if (schedule_.tiles) emit_no_weights(row, first);
    });
  }

  // Zeros behind a row's weights: what lies there may be NaN, which the values' zeros do not hide.
  void emit_no_weights(Scope& row, Value* first) {
    auto& builder = kernel_.at(row);
    Value* end = builder.CreateMul(steps(block_keys_), kernel_.constant(product_.depths()));
    Value* filled = builder.CreateAnd(builder.CreateAdd(block_keys_, kernel_.constant(lanes_ - 1)),
                                      kernel_.constant(-lanes_));
    auto* zeros = llvm::Constant::getNullValue(
        llvm::FixedVectorType::get(builder.getBFloatTy(), static_cast<unsigned>(lanes_)));
    kernel_.loop(row, filled, end, lanes_, [&](Scope& vectors, Value* j) {
      store_narrow_weights(zeros, kernel_.at(vectors).CreateAdd(first, j));
    });
  }

  void store_narrow_weights(Value* weights, Value* place) {
    kernel_.here().CreateAlignedStore(
        weights, kernel_.element_pointer(weights_, product_.left, place),
        llvm::Align(static_cast<std::uint64_t>(kernel_.target().vector_bytes() / 2)));
  }

  void multiply_values(Scope& rows, const Share& share) {
    for_groups(
        rows, width_stride_, narrow_values(),
        [&](Scope& group, Value* variant, Value* column, Value* columns) {
          Value *right = nullptr, *panel_stride = nullptr, *right_stride = nullptr;
          if (values_) {
            const Dim at = values_->offset + form_.key.index() * values_->row_stride;
            group.define(form_.key.variable, first_key_);
            right =
                emit_pointer(kernel_, group,
                             kernel_.buffer(static_cast<std::size_t>(values_->buffer)), dtype_, at);
            right_stride = emit_index(kernel_, group, values_->row_stride);
            kernel_.at(group);
            right = kernel_.element_pointer(right, dtype_, column);
            panel_stride = kernel_.constant(panel_);
          } else {
            auto& builder = kernel_.at(group);
            Value* panel_steps = steps(block_keys_);
            right = panel_pointer(value_panel_, column, panel_steps);
            panel_stride = builder.CreateMul(panel_steps, kernel_.constant(panel_));
            right_stride = kernel_.constant(panel_);
          }
          auto& call = kernel_.at(group);
          call.CreateCall(multiplies_.values,
                          {variant, share.count, pairs() ? weights_ : scores_,
                           kernel_.constant(schedule_.block_keys), right, panel_stride,
                           right_stride, steps(block_keys_), tile_, right, kernel_.constant(0)});
          kernel_.loop(group, kernel_.constant(0), share.count, 1, [&](Scope& row, Value* r) {
            auto& builder = kernel_.at(row);
            Value* scale = vectors_.splat(vectors_.load_one(scales_, r));
            Value* to = builder.CreateAdd(
                builder.CreateMul(builder.CreateAdd(share.first, r), width_stride_), column);
            Value* from = builder.CreateMul(r, columns);
            kernel_.loop(row, kernel_.constant(0), columns, lanes_, [&](Scope& vectors, Value* e) {
              auto& b = kernel_.at(vectors);
              Value* place = b.CreateAdd(to, e);
              Value* scaled = b.CreateFMul(vectors_.load(outputs_, place), scale);
              vectors_.store(outputs_, place,
                             b.CreateFAdd(scaled, vectors_.load(tile_, b.CreateAdd(from, e))));
            });
          });
        });
  }

  void finish_rows(Scope& task, Value* no_keys) {
    ProgramEmitter epilogue(kernel_, form_.epilogue, task, ir::roots_of(form_));
    Value* width = emit_index(kernel_, kernel_.root(), form_.width.extent);
    kernel_.loop(task, kernel_.constant(0), task_rows_, 1, [&](Scope& row, Value* r) {
      auto& builder = kernel_.at(row);
      row.define(form_.row.variable, builder.CreateAdd(first_row_, r));
      // Without keys the output is an empty sum; with keys that are all -infinity it is 0 / 0, as
      // softmax gives.
      Value* one = llvm::ConstantFP::get(element_, 1);
      Value* sum = reduce_lanes(
          kernel_, vectors_.load(sums_, builder.CreateMul(r, kernel_.constant(lanes_))),
          [&](Value* a, Value* b) { return kernel_.here().CreateFAdd(a, b); });
      Value* base = builder.CreateMul(r, width_stride_);
      Value* is_sum = builder.CreateNot(no_keys);
      if (form_.zero_nan) {
        Value* outputs = kernel_.element_pointer(outputs_, dtype_, base);
        kernel_.guarded(row, builder.CreateFCmpUNO(sum, sum), [&](Scope& scope) {
          emit_zero_weights(kernel_, scope, vectors_, form_, key_count_, outputs);
        });
        is_sum = kernel_.at(row).CreateFCmpOGT(sum, llvm::ConstantFP::get(element_, 0));
      }
      Value* scale = kernel_.at(row).CreateFDiv(one, builder.CreateSelect(is_sum, sum, one));
      Value* scales = vectors_.splat(scale);
      const auto constant = form_.width.extent.constant();
      for_vectors(kernel_, row,
                  {.variable = form_.width.variable,
                   .first = kernel_.constant(0),
                   .count = width,
                   .width = lanes_,
                   .may_end_early = !constant || *constant % lanes_ != 0},
                  [&](Scope& vectors, Value* e) {
                    auto& b = kernel_.at(vectors);
                    Value* output =
                        b.CreateFMul(vectors_.load(outputs_, b.CreateAdd(base, e)), scales);
                    epilogue.set_accumulated(0, output, vectors);
                    for (const ir::Store& store : form_.stores) epilogue.store(vectors, store);
                  });
    });
  }

  KernelBuilder& kernel_;
  ir::AttentionForm form_;
  AttentionSchedule schedule_;
  ir::DType dtype_;  // of scores and sums
  ElementVectors vectors_;
  Product product_{};  // weights are rounded to its operands
  // of products: scores are not computed; scores_, maxima_ and bases_ hold products
  std::optional<double> factor_;
  llvm::Type* element_;
  std::int64_t lanes_, panel_;
  std::optional<RowsInPlace> query_, values_;
  std::optional<WholeKeys> keys_;
  ScratchLayout scratch_;
  AttentionMultiplies multiplies_;
  std::optional<TileRegisters> tile_registers_;
  Value *row_count_ = nullptr, *key_count_ = nullptr, *depth_ = nullptr, *depth_steps_ = nullptr,
        *row_blocks_ = nullptr, *width_stride_ = nullptr;
  Value *query_panel_ = nullptr, *key_panel_ = nullptr, *value_panel_ = nullptr, *scores_ = nullptr,
        *weights_ = nullptr, *row_maxima_ = nullptr, *bases_ = nullptr, *scales_ = nullptr,
        *tile_ = nullptr;
  Value *maxima_ = nullptr, *sums_ = nullptr, *outputs_ = nullptr;
  // What the task and the key block being emitted have.
  Value *first_row_ = nullptr, *task_rows_ = nullptr, *first_key_ = nullptr, *block_keys_ = nullptr;
};

}  // namespace

EmittedKernel emit_form(KernelBuilder& kernel, const ir::AttentionForm& form,
                        const ir::Schedule& schedule) {
  return AttentionEmitter(kernel, form, schedule).run();
}

}  // namespace anydim::codegen_cpu
