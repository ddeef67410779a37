#include "codegen_cpu/attention/key_dots.h"

#include <vector>

#include "codegen_cpu/scalars/element_vectors.h"
#include "codegen_cpu/scalars/index_emitter.h"
#include "codegen_cpu/scalars/math_f32.h"
#include "codegen_cpu/scalars/scalar_emitter.h"

namespace anydim::codegen_cpu {

namespace {

// A key is multiplied in one piece of straight code.
constexpr std::int64_t most_vectors = 16;

class Dots {
 public:
  Dots(KernelBuilder& kernel, const KeyDots& dots)
      : kernel_(kernel), dots_(dots), vectors_(kernel, dots.dtype), lanes_(vectors_.lanes()) {}

  void run(Scope& scope) {
    kernel_.loop(scope, kernel_.constant(0), dots_.count, lanes_, [&](Scope& group, Value* j) {
      group.define(dots_.key, kernel_.at(group).CreateAdd(dots_.first_key, j));
      const RowsInPlace& lie = dots_.keys.rows;
      Value* keys =
          emit_pointer(kernel_, group, kernel_.buffer(static_cast<std::size_t>(lie.buffer)),
                       dots_.keys.dtype, lie.offset + Dim::of(dots_.key) * lie.row_stride);
      Value* stride = emit_index(kernel_, group, lie.row_stride);
      fetch(group, keys, stride);
      const std::vector<Value*> rows = pointers(group, keys, stride, j);
      kernel_.loop(group, kernel_.constant(0), dots_.rows, 1,
                   [&](Scope& query, Value* r) { multiply(query, rows, r, j); });
    });
  }

 private:
  // The lines of the group of keys that is multiplied after the next, behind `first`. Keys of a
  // cache come from memory, and rows that are read side by side are no stream that a processor
  // fetches by itself; beyond the end of the tensor a fetch does no harm.
  void fetch(Scope& scope, Value* first, Value* stride) {
    auto& builder = kernel_.at(scope);
    const auto size = static_cast<std::int64_t>(ir::size_of(dots_.keys.dtype));
    Value* bytes = builder.CreateMul(stride, kernel_.constant(size));
    for (std::int64_t i = 0; i < lanes_; ++i) {
      Value* row = builder.CreateGEP(builder.getInt8Ty(), first,
                                     builder.CreateMul(bytes, kernel_.constant(2 * lanes_ + i)));
      kernel_.fetch(row, dots_.depth * size, 2);
    }
  }

  // Pointers to a vector's number of keys from position j on; the last one's stands for those
  // behind it.
  std::vector<Value*> pointers(Scope& scope, Value* first, Value* stride, Value* j) {
    auto& builder = kernel_.at(scope);
    Value* last = builder.CreateSub(builder.CreateSub(dots_.count, kernel_.constant(1)), j);
    std::vector<Value*> rows;
    for (std::int64_t i = 0; i < lanes_; ++i) {
      Value* key = builder.CreateBinaryIntrinsic(llvm::Intrinsic::smin, kernel_.constant(i), last);
      rows.push_back(
          kernel_.element_pointer(first, dots_.keys.dtype, builder.CreateMul(key, stride)));
    }
    return rows;
  }

  void multiply(Scope& scope, const std::vector<Value*>& keys, Value* r, Value* j) {
    auto& builder = kernel_.at(scope);
    Value* query = kernel_.element_pointer(dots_.queries, dots_.dtype,
                                           builder.CreateMul(r, dots_.query_stride));
    const auto vector = [&](Value* pointer, ir::DType dtype, std::int64_t at) -> Value* {
      auto* type =
          llvm::FixedVectorType::get(kernel_.storage_type(dtype), static_cast<unsigned>(lanes_));
      Value* elements = builder.CreateAlignedLoad(
          type, kernel_.element_pointer(pointer, dtype, kernel_.constant(at)),
          llvm::Align(ir::size_of(dtype)));
      return dtype == dots_.dtype ? elements : widen(kernel_, dtype, elements);
    };
    std::vector<Value*> sums(keys.size());
    for (std::int64_t at = 0; at < dots_.depth; at += lanes_) {
      Value* factor = vector(query, dots_.dtype, at);
      for (std::size_t i = 0; i < keys.size(); ++i) {
        Value* element = vector(keys[i], dots_.keys.dtype, at);
        if (sums[i] == nullptr) sums[i] = builder.CreateFMul(element, factor);
        else sums[i] = multiply_add(kernel_, element, factor, sums[i]);
      }
    }
    // Lane l of sum i is part of key i's: turned, the lanes are the keys.
    transpose(kernel_, sums);
    for (std::size_t half = sums.size() / 2; half > 0; half /= 2)
      for (std::size_t i = 0; i < half; ++i) sums[i] = builder.CreateFAdd(sums[i], sums[i + half]);
    Value* place = builder.CreateAdd(builder.CreateMul(r, kernel_.constant(dots_.score_stride)), j);
    vectors_.store(dots_.scores, place, sums[0]);
  }

  KernelBuilder& kernel_;
  const KeyDots& dots_;
  ElementVectors vectors_;
  std::int64_t lanes_;
};

}  // namespace

std::optional<WholeKeys> whole_keys(const Target& target, const ir::Region& region,
                                    const ir::AttentionForm& form, const ir::SymbolTable& symbols) {
  const ir::DType compute = compute_dtype(form.score.steps.back().dtype);
  const auto depth = form.depth.extent.constant();
  const std::int64_t lanes = target.lanes(static_cast<int>(ir::size_of(compute)));
  if (!depth || *depth < lanes || *depth % lanes != 0 || *depth / lanes > most_vectors)
    return std::nullopt;
  const ir::ScalarProgram keys = unrounded(with_dtype(form.k, compute));
  for (const ir::DType dtype : {compute, ir::DType::BF16, ir::DType::F16}) {
    if (element_of(keys, dtype).dtype != dtype) continue;
    if (const auto rows = rows_in_place(region, in_product_dtype(keys, dtype), dtype, form.key,
                                        form.depth, symbols))
      return WholeKeys{*rows, dtype};
  }
  return std::nullopt;
}

void emit_key_dots(KernelBuilder& kernel, Scope& scope, const KeyDots& dots) {
  Dots(kernel, dots).run(scope);
}

}  // namespace anydim::codegen_cpu
