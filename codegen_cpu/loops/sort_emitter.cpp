// Sorts. Where one key is compared, entries of keys and numbers are sorted in the worker's scratch
// memory: runs that fit the cache by a network, longer ones by merging them. Where few ranks of a
// long row are asked for, what is sorted is a buffer: items enter it that are in front of the last
// wanted entry, as it was when the buffer was last sorted and cut down to what is wanted. Where
// several keys are compared, numbers alone are merged from runs of 1.
#include <algorithm>
#include <cmath>
#include <functional>

#include "codegen_cpu/emitters.h"
#include "codegen_cpu/kernel_kind.h"
#include "codegen_cpu/loops/loop_schedules.h"
#include "codegen_cpu/loops/merge_runs.h"
#include "codegen_cpu/loops/sort_entries.h"
#include "codegen_cpu/loops/sort_network.h"
#include "codegen_cpu/scalars/index_emitter.h"
#include "codegen_cpu/scratch_layout.h"
#include "codegen_cpu/task_loop.h"
#include "codegen_cpu/work_estimate.h"
#include "ir/region.h"

namespace anydim::codegen_cpu {

namespace {

// Bytes that are sorted by the network before anything is merged: a part of the first-level cache.
constexpr std::int64_t run_bytes = 32 << 10;
// Items that are looked at before the buffer is sorted again, where it is full by then.
constexpr std::int64_t block_items = 256;
// Entries of room beyond what is counted, for whole vectors.
constexpr std::int64_t spare_entries = 64;

// Entries that are sorted at first: the row, or several times what is wanted of it, so that the
// buffer is sorted anew only when the wanted ones may have been found anew some times.
Dim buffer_entries(const ir::SortForm& form) {
  return ir::min(form.item.extent, form.rank.extent * 4 + 64);
}

DType key_dtype(const ir::SortForm& form) {
  return form.program.steps.at(static_cast<std::size_t>(form.key)).dtype;
}

// What sorting rows by keys and by slices share.
class RowSorter {
 public:
  RowSorter(KernelBuilder& kernel, const ir::SortForm& form, SortEntries::Kind kind)
      : kernel_(kernel), form_(form), entries_(kernel, kind) {}
  virtual ~RowSorter() = default;

  void emit(Scope& row) {
    items_ = emit_index(kernel_, row, form_.item.extent);
    llvm::Value* ranks = emit_index(kernel_, row, form_.rank.extent);
    ranks_ = kernel_.at(row).CreateBinaryIntrinsic(llvm::Intrinsic::smin, ranks, items_);
    llvm::Value* some = kernel_.at(row).CreateICmpSLT(kernel_.constant(0), ranks_);
    kernel_.guarded(row, some, [&](Scope& inside) {
      sort(inside);
      store_ranks(inside);
    });
  }

  const Dim& scratch_bytes() const { return scratch_.bytes(); }

 protected:
  // Leaves the wanted entries in order in sorted_.
  virtual void sort(Scope& row) = 0;

  SortArray reserve(const Dim& entries) { return entries_.reserve(scratch_, entries); }
  llvm::AllocaInst* variable(llvm::Type* type, const char* name) {
    return kernel_.variable(type, name);
  }
  llvm::Value* load(Scope& scope, llvm::AllocaInst* variable) {
    return kernel_.at(scope).CreateLoad(variable->getAllocatedType(), variable);
  }

  KernelBuilder& kernel_;
  const ir::SortForm& form_;
  const SortEntries entries_;
  SortArray sorted_{};
  llvm::Value *items_ = nullptr, *ranks_ = nullptr;  // of a row; of them that are wanted

 private:
  void store_ranks(Scope& row) {
    const auto output = static_cast<std::size_t>(form_.output);
    const Dim offset =
        ir::linear_offset(form_.index, kernel_.output_type(output).dims, kernel_.symbols());
    const VectorRange range{.variable = form_.rank.variable,
                            .first = kernel_.constant(0),
                            .last = ranks_,
                            .width = static_cast<unsigned>(kernel_.target().lanes(8))};
    emit_vector_range(kernel_, row, range, [&](Scope& point, unsigned) {
      llvm::Value* rank = emit_index(kernel_, point, form_.rank.index());
      const SortEntry entry = entries_.load(point, sorted_, rank, point.lanes().width);
      store_elements(kernel_, point, kernel_.output(output), DType::I64, offset,
                     entries_.number_of(point, entry));
    });
  }

  ScratchLayout scratch_;
};

class KeySorter final : public RowSorter {
 public:
  KeySorter(KernelBuilder& kernel, const ir::SortForm& form)
      : RowSorter(
            kernel, form,
            SortEntries::kind_for(key_dtype(form), kernel.interval_of(form.item.extent).high)),
        run_(run_bytes / static_cast<std::int64_t>(entries_.words() * ir::size_of(DType::I64))),
        limit_(variable(image_type(), "limit")),
        count_(variable(kernel.value_type(DType::I64), "count")) {
    const Dim buffer = buffer_entries(form);
    const Dim room = buffer + (block_items + spare_entries);
    sorted_ = reserve(room);
    // Between two turns there may be as many as a block more than the buffer is for.
    const std::int64_t longest = kernel.interval_of(buffer).high;
    merges_ = longest > run_ - block_items;
    if (merges_) other_ = reserve(room);
  }

 private:
  using ItemBody = std::function<void(Scope&, llvm::Value* image)>;

  void sort(Scope& row) override {
    buffer_ = emit_index(kernel_, row, buffer_entries(form_));
    ProgramEmitter program(kernel_, form_.program, row, {form_.key});
    auto& at = kernel_.at(row);
    llvm::Value* blocks = at.CreateUDiv(
        at.CreateAdd(at.CreateSub(items_, buffer_), kernel_.constant(block_items - 1)),
        kernel_.constant(block_items));
    at.CreateStore(kernel_.constant(0), count_);
    llvm::Value* turns = at.CreateAdd(blocks, kernel_.constant(1));
    kernel_.loop(row, kernel_.constant(0), turns, 1, [&](Scope& turn, llvm::Value* number) {
      auto& in = kernel_.at(turn);
      llvm::Value* is_first = in.CreateICmpEQ(number, kernel_.constant(0));
      kernel_.branch(
          turn, is_first, [&](Scope& first) { fill(first, program); },
          [&](Scope& later) {
            filter(later, program, kernel_.at(later).CreateSub(number, kernel_.constant(1)));
          });
      auto& after = kernel_.at(turn);
      llvm::Value* is_last = after.CreateICmpEQ(number, blocks);
      llvm::Value* is_full = after.CreateICmpSGE(load(turn, count_), buffer_);
      kernel_.guarded(turn, after.CreateOr(is_last, is_full),
                      [&](Scope& due) { sort_buffer(due); });
    });
  }

  void fill(Scope& scope, ProgramEmitter& program) {
    each_item(scope, program, kernel_.constant(0), buffer_, [&](Scope& point, llvm::Value* image) {
      llvm::Value* first = emit_index(kernel_, point, form_.item.index());
      entries_.store(point, sorted_, first, entry_of(point, image));
    });
    kernel_.at(scope).CreateStore(buffer_, count_);
  }

  // An item whose image is the limit's comes after it, as its number does.
  void filter(Scope& scope, ProgramEmitter& program, llvm::Value* block) {
    auto& at = kernel_.at(scope);
    llvm::Value* begin = at.CreateAdd(buffer_, at.CreateMul(block, kernel_.constant(block_items)));
    llvm::Value* end = at.CreateBinaryIntrinsic(
        llvm::Intrinsic::smin, at.CreateAdd(begin, kernel_.constant(block_items)), items_);
    llvm::Value* limit = load(scope, limit_);
    each_item(scope, program, begin, end, [&](Scope& point, llvm::Value* image) {
      const unsigned width = point.lanes().width;
      auto& in = kernel_.at(point);
      llvm::Value* enters = in.CreateICmpSLT(image, kernel_.splat(limit, width));
      if (point.lanes().mask) enters = in.CreateAnd(enters, point.lanes().mask);
      llvm::Value* some = width == 1 ? enters : in.CreateOrReduce(enters);
      kernel_.guarded(point, some, [&](Scope& inside) {
        append(inside, entry_of(inside, image), enters, width);
      });
    });
  }

  void append(Scope& scope, const SortEntry& entry, llvm::Value* enters, unsigned width) {
    llvm::Value* count = load(scope, count_);
    auto& at = kernel_.at(scope);
    for (unsigned lane = 0; lane < width; ++lane) {
      const auto of_lane = [&](llvm::Value* value) {
        return width == 1 || value == nullptr ? value : at.CreateExtractElement(value, lane);
      };
      entries_.store(scope, sorted_, count, {of_lane(entry[0]), of_lane(entry[1])});
      count = at.CreateAdd(count, at.CreateZExt(of_lane(enters), count->getType()));
    }
    at.CreateStore(count, count_);
  }

  // Cut down to what is wanted; the last of that is the limit for what is yet to come.
  void sort_buffer(Scope& scope) {
    const unsigned lanes = sort_lanes(kernel_.target());
    llvm::Value* count = load(scope, count_);
    entries_.store(scope, sorted_, count, entries_.behind_all(lanes));
    auto& at = kernel_.at(scope);
    const auto vectors_in = [&](llvm::IRBuilder<>& in, llvm::Value* entries) {
      return in.CreateUDiv(in.CreateAdd(entries, kernel_.constant(lanes - 1)),
                           kernel_.constant(lanes));
    };
    if (!merges_) {
      emit_sort_network(kernel_, scope, entries_, sorted_, vectors_in(at, count));
    } else {
      kernel_.loop(scope, kernel_.constant(0), count, run_, [&](Scope& run, llvm::Value* begin) {
        auto& in = kernel_.at(run);
        llvm::Value* length = in.CreateBinaryIntrinsic(
            llvm::Intrinsic::smin, in.CreateSub(count, begin), kernel_.constant(run_));
        const SortArray part = entries_.from(run, sorted_, begin);
        emit_sort_network(kernel_, run, entries_, part, vectors_in(kernel_.at(run), length));
      });
      RunMerger merger(kernel_, entries_, sorted_, other_,
                       [&](Scope& at_point, const SortEntry& a, const SortEntry& b) {
                         return entries_.before(at_point, a, b);
                       });
      merger.emit(scope, count, run_, ranks_);
    }
    auto& after = kernel_.at(scope);
    llvm::Value* last = after.CreateSub(ranks_, kernel_.constant(1));
    const SortEntry limit = entries_.load(scope, sorted_, last, 1);
    llvm::Value* image = entries_.image_of(scope, limit, key_dtype(form_));
    kernel_.at(scope).CreateStore(image, limit_);
    kernel_.at(scope).CreateStore(ranks_, count_);
  }

  void each_item(Scope& scope, ProgramEmitter& program, llvm::Value* first, llvm::Value* last,
                 const ItemBody& body) {
    const VectorRange range{.variable = form_.item.variable,
                            .first = first,
                            .last = last,
                            .width = static_cast<unsigned>(kernel_.target().lanes(4))};
    emit_vector_range(kernel_, scope, range, [&](Scope& point, unsigned) {
      llvm::Value* key = program.value(point, form_.key);
      kernel_.at(point);
      key = kernel_.splat(key, point.lanes().width);
      body(point, entries_.image(point, key, key_dtype(form_), form_.descending));
    });
  }

  SortEntry entry_of(Scope& point, llvm::Value* image) {
    llvm::Value* number = emit_index_lanes(kernel_, point, form_.item.index());
    return entries_.entry(point, image, number);
  }

  llvm::Type* image_type() {
    return kernel_.value_type(ir::size_of(key_dtype(form_)) == 8 ? DType::I64 : DType::I32);
  }

  const std::int64_t run_;  // entries
  bool merges_ = false;
  SortArray other_{};
  llvm::AllocaInst* limit_;  // image
  llvm::AllocaInst* count_;  // entries in the buffer
  llvm::Value* buffer_ = nullptr;
};

class SliceSorter final : public RowSorter {
 public:
  SliceSorter(KernelBuilder& kernel, const ir::SortForm& form)
      : RowSorter(kernel, form, SortEntries::Kind::Number),
        order_(variable(kernel.value_type(DType::I64), "order")) {
    sorted_ = reserve(form.item.extent + spare_entries);
    other_ = reserve(form.item.extent);
  }

 private:
  void sort(Scope& row) override {
    kernel_.for_range(row, kernel_.constant(0), items_, 1, [&](Scope& body, llvm::Value* item) {
      entries_.store(body, sorted_, item, {item, nullptr});
    });
    RunMerger merger(kernel_, entries_, sorted_, other_,
                     [&](Scope& point, const SortEntry& a, const SortEntry& b) {
                       return comes_before(point, a[0], b[0]);
                     });
    merger.emit(row, items_, 1, ranks_);
  }

  llvm::Value* comes_before(Scope& scope, llvm::Value* a, llvm::Value* b) {
    // -1, 0 or 1 as far as it is known.
    kernel_.at(scope).CreateStore(kernel_.constant(0), order_);
    emit_points(kernel_, scope, form_.depth, [&](Scope& point) { compare_keys(point, a, b); });
    llvm::Value* order = load(scope, order_);
    return kernel_.at(scope).CreateICmpEQ(order, kernel_.constant(-1));
  }

  void compare_keys(Scope& scope, llvm::Value* a, llvm::Value* b) {
    llvm::Value* open = kernel_.at(scope).CreateICmpEQ(load(scope, order_), kernel_.constant(0));
    kernel_.guarded(scope, open, [&](Scope& inside) {
      llvm::Value *first = image(inside, a), *second = image(inside, b);
      auto& at = kernel_.at(inside);
      llvm::Value* order = at.CreateSelect(at.CreateICmpSLT(second, first), kernel_.constant(1),
                                           kernel_.constant(0));
      at.CreateStore(at.CreateSelect(at.CreateICmpSLT(first, second), kernel_.constant(-1), order),
                     order_);
    });
  }

  llvm::Value* image(Scope& scope, llvm::Value* item) {
    Scope of_item(scope);
    of_item.define(form_.item.variable, item);
    ProgramEmitter program(kernel_, form_.program, of_item, {form_.key});
    llvm::Value* key = program.value(of_item, form_.key);
    return entries_.image(scope, key, key_dtype(form_), form_.descending);
  }

  SortArray other_{};
  llvm::AllocaInst* order_;
};

class SortKind final : public KindOf<ir::SortForm> {
 public:
  std::vector<ir::Schedule> candidates(const PlanInputs&, const ir::Bucket&) const override {
    return {SortSchedule{}.schedule()};
  }

  double estimate(const PlanInputs& inputs, const ir::Schedule& schedule,
                  std::span<const std::int64_t> keys) const override {
    const auto& form = form_of(inputs.form);
    const double rows = points_at(inputs, form.outer, keys);
    const double items = points_at(inputs, std::span(&form.item, 1), keys);
    const double ranks = points_at(inputs, std::span(&form.rank, 1), keys);
    const auto levels = [](double entries) { return std::ceil(std::log2(std::max(entries, 2.0))); };
    double cycles = 0;
    if (form.depth.empty()) {
      const auto words = static_cast<double>(ir::size_of(key_dtype(form)) == 8 ? 2 : 1);
      const int lanes = inputs.target.lanes(4);
      const double key = point_cycles(inputs, form.program, {}, form.item.variable, lanes);
      const double buffer = std::min(items, 4 * ranks + 64);
      // In a random row each sort of the buffer makes what is looked at about four times as much.
      const double sorts = 1 + std::log(std::max(items / buffer, 1.0)) / std::log(4.0);
      const double network = std::min(levels(buffer), levels(run_bytes / (8 * words)));
      const double exchanges = buffer * network * network / 4;
      const double merged = buffer * (levels(buffer) - network);
      cycles =
          rows * (items * (key + 8.0 / lanes) +
                  sorts * (100 + exchanges * 5 * words / sort_lanes(inputs.target) + merged * 10));
    } else {
      const double key = point_cycles(inputs, form.program, {}, form.item.variable, 1);
      cycles = rows * items * (4 + levels(items) * (8 + 2 * key));
    }
    const double points = rows * items;
    const double tasks = std::clamp(
        points / static_cast<double>(SortSchedule::from(schedule).grain), 1.0, std::max(rows, 1.0));
    return launch_seconds(inputs, cycles, ir::traffic_bytes(inputs.region, points, keys), tasks);
  }
};

}  // namespace

std::unique_ptr<KernelKind> make_sort_kind() { return std::make_unique<SortKind>(); }

EmittedKernel emit_form(KernelBuilder& kernel, const ir::SortForm& form,
                        const ir::Schedule& schedule) {
  std::unique_ptr<RowSorter> sorter;
  if (form.depth.empty()) sorter = std::make_unique<KeySorter>(kernel, form);
  else sorter = std::make_unique<SliceSorter>(kernel, form);
  const TaskPlan plan =
      plan_tasks(form.outer, form.item.extent, SortSchedule::from(schedule).grain, 1, true);
  emit_tasks(kernel, kernel.root(), form.outer, plan, kernel.begin(), kernel.end(),
             [&](Scope& row, llvm::Value*, llvm::Value*) { sorter->emit(row); });
  return {plan.tasks, sorter->scratch_bytes()};
}

}  // namespace anydim::codegen_cpu
