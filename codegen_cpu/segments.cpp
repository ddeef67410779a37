#include "codegen_cpu/segments.h"

#include "codegen_cpu/scalars/index_emitter.h"

namespace anydim::codegen_cpu {

namespace {

llvm::Value* load_element(KernelBuilder& kernel, std::int32_t buffer, llvm::Value* number) {
  auto& builder = kernel.here();
  llvm::Value* place = kernel.element_pointer(kernel.buffer(static_cast<std::size_t>(buffer)),
                                              ir::DType::I64, number);
  return builder.CreateAlignedLoad(builder.getInt64Ty(), place, llvm::Align(8));
}

llvm::Value* load_offset(KernelBuilder& kernel, const ir::Segments& segments, llvm::Value* number) {
  return load_element(kernel, segments.offsets, number);
}

}  // namespace

void check_offsets(KernelBuilder& kernel, const ir::Segments& segments, const ir::Dim& rows) {
  Scope& root = kernel.root();
  llvm::Value* count = emit_index(kernel, root, segments.count);
  llvm::Value* end = emit_index(kernel, root, rows);
  llvm::Value* zero = kernel.constant(0);
  kernel.guarded(root, kernel.at(root).CreateICmpEQ(kernel.begin(), zero), [&](Scope& first_call) {
    llvm::Value* entries = kernel.at(first_call).CreateAdd(count, kernel.constant(1));
    kernel.for_range(first_call, zero, entries, 1, [&](Scope& entry, llvm::Value* number) {
      auto& builder = kernel.at(entry);
      llvm::Value* offset = load_offset(kernel, segments, number);
      llvm::Value* starts = builder.CreateICmpEQ(number, zero);
      llvm::Value* before =
          builder.CreateSelect(starts, zero, builder.CreateSub(number, kernel.constant(1)));
      llvm::Value* falls = builder.CreateICmpSLT(offset, load_offset(kernel, segments, before));
      llvm::Value* late = builder.CreateAnd(starts, builder.CreateICmpNE(offset, zero));
      llvm::Value* elsewhere =
          builder.CreateAnd(builder.CreateICmpEQ(number, count), builder.CreateICmpNE(offset, end));
      kernel.guarded(entry, builder.CreateOr(falls, builder.CreateOr(late, elsewhere)),
                     [&](Scope& wrong) {
                       kernel.at(wrong);
                       kernel.report(segments.check, offset);
                     });
    });
  });
}

void check_work(KernelBuilder& kernel, const ir::Segments& segments) {
  Scope& root = kernel.root();
  llvm::Value* count = emit_index(kernel, root, segments.count);
  llvm::Value *zero = kernel.constant(0), *one = kernel.constant(1), *two = kernel.constant(2);
  kernel.guarded(root, kernel.at(root).CreateICmpEQ(kernel.begin(), zero), [&](Scope& first_call) {
    kernel.for_range(first_call, zero, count, 1, [&](Scope& entry, llvm::Value* place) {
      auto& builder = kernel.at(entry);
      const auto known = [&](llvm::Value* segment) {
        return builder.CreateICmpULT(segment, count);
      };
      const auto length = [&](llvm::Value* segment) {
        llvm::Value* within = builder.CreateSelect(known(segment), segment, zero);
        llvm::Value* rows =
            builder.CreateSub(load_offset(kernel, segments, builder.CreateAdd(within, one)),
                              load_offset(kernel, segments, within));
        return builder.CreateSelect(known(segment), rows, zero);
      };
      const auto listed = [&](llvm::Value* at) {
        return load_element(kernel, segments.work, builder.CreateMul(at, two));
      };
      const auto begin = [&](llvm::Value* at) {
        return load_element(kernel, segments.work,
                            builder.CreateAdd(builder.CreateMul(at, two), one));
      };
      llvm::Value* first = builder.CreateICmpEQ(place, zero);
      llvm::Value* place_before = builder.CreateSelect(first, zero, builder.CreateSub(place, one));
      llvm::Value *segment = listed(place), *before = listed(place_before);
      llvm::Value *rows = length(segment), *rows_before = length(before);
      llvm::Value* expected =
          builder.CreateSelect(first, zero, builder.CreateAdd(begin(place_before), rows_before));
      llvm::Value* equal_out_of_order = builder.CreateAnd(builder.CreateICmpEQ(rows_before, rows),
                                                          builder.CreateICmpSGE(before, segment));
      llvm::Value* out_of_order =
          builder.CreateOr(builder.CreateICmpSLT(rows_before, rows), equal_out_of_order);
      llvm::Value* wrong = builder.CreateOr(builder.CreateNot(known(segment)),
                                            builder.CreateICmpNE(begin(place), expected));
      wrong = builder.CreateOr(wrong, builder.CreateAnd(builder.CreateNot(first), out_of_order));
      kernel.guarded(entry, wrong, [&](Scope& found) {
        kernel.at(found);
        kernel.report(segments.work_check, place);
      });
    });
  });
}

SegmentRange segment_range(KernelBuilder& kernel, Scope& scope, const ir::Segments& segments,
                           llvm::Value* number, llvm::Value* rows) {
  auto& builder = kernel.at(scope);
  const auto kept_within = [&](llvm::Value* offset) {
    return builder.CreateBinaryIntrinsic(
        llvm::Intrinsic::smin,
        builder.CreateBinaryIntrinsic(llvm::Intrinsic::smax, offset, kernel.constant(0)), rows);
  };
  return {.first = kept_within(load_offset(kernel, segments, number)),
          .last = kept_within(
              load_offset(kernel, segments, builder.CreateAdd(number, kernel.constant(1))))};
}

llvm::Value* segment_of(KernelBuilder& kernel, Scope& scope, const ir::Segments& segments,
                        llvm::Value* row) {
  llvm::Value* count = emit_index(kernel, kernel.root(), segments.count);
  llvm::AllocaInst* low = kernel.variable(kernel.here().getInt64Ty(), "segment");
  llvm::AllocaInst* high = kernel.variable(kernel.here().getInt64Ty(), "segment_end");
  auto& builder = kernel.at(scope);
  builder.CreateStore(kernel.constant(0), low);
  builder.CreateStore(count, high);
  // Each step halves the distance: as many steps as the count has bits.
  llvm::Value* steps = builder.CreateSub(
      kernel.constant(64), builder.CreateIntrinsic(llvm::Intrinsic::ctlz, {builder.getInt64Ty()},
                                                   {count, builder.getFalse()}));
  kernel.for_range(scope, kernel.constant(0), steps, 1, [&](Scope& step, llvm::Value*) {
    auto& b = kernel.at(step);
    llvm::Value* first = b.CreateLoad(b.getInt64Ty(), low);
    llvm::Value* last = b.CreateLoad(b.getInt64Ty(), high);
    llvm::Value* middle = b.CreateLShr(b.CreateAdd(first, last), 1);
    llvm::Value* starts_later = b.CreateICmpSGT(load_offset(kernel, segments, middle), row);
    b.CreateStore(b.CreateSelect(starts_later, first, middle), low);
    b.CreateStore(b.CreateSelect(starts_later, middle, last), high);
  });
  auto& after = kernel.at(scope);
  return after.CreateLoad(after.getInt64Ty(), low);
}

}  // namespace anydim::codegen_cpu
