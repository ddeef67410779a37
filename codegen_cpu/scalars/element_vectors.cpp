#include "codegen_cpu/scalars/element_vectors.h"

namespace anydim::codegen_cpu {

Value* reduce_lanes(KernelBuilder& kernel, Value* vector,
                    const std::function<Value*(Value*, Value*)>& combine) {
  const auto lanes = llvm::cast<llvm::FixedVectorType>(vector->getType())->getNumElements();
  for (unsigned width = lanes / 2; width >= 1; width /= 2) {
    std::vector<int> low, high;
    for (unsigned lane = 0; lane < width; ++lane) {
      low.push_back(static_cast<int>(lane));
      high.push_back(static_cast<int>(lane + width));
    }
    vector = combine(kernel.here().CreateShuffleVector(vector, low),
                     kernel.here().CreateShuffleVector(vector, high));
  }
  return kernel.here().CreateExtractElement(vector, std::uint64_t{0});
}

// One bit of a position at a time.
void transpose(KernelBuilder& kernel, std::vector<Value*>& rows) {
  auto& builder = kernel.here();
  const std::size_t size = rows.size();
  for (std::size_t bit = 1; bit < size; bit *= 2) {
    std::vector<int> even, odd;
    for (std::size_t lane = 0; lane < size; ++lane) {
      const bool second = (lane & bit) != 0;
      even.push_back(static_cast<int>(second ? (lane ^ bit) + size : lane));
      odd.push_back(static_cast<int>(second ? lane + size : lane ^ bit));
    }
    for (std::size_t row = 0; row < size; ++row) {
      if ((row & bit) != 0) continue;
      Value *a = rows[row], *b = rows[row | bit];
      rows[row] = builder.CreateShuffleVector(a, b, even);
      rows[row | bit] = builder.CreateShuffleVector(a, b, odd);
    }
  }
}

ElementVectors::ElementVectors(KernelBuilder& kernel, ir::DType dtype)
    : kernel_(kernel), dtype_(dtype), element_(kernel.value_type(dtype)),
      lanes_(kernel.target().lanes(static_cast<int>(ir::size_of(dtype)))) {}

llvm::FixedVectorType* ElementVectors::type() const {
  return llvm::FixedVectorType::get(element_, static_cast<unsigned>(lanes_));
}

llvm::Align ElementVectors::vector_align() const {
  return llvm::Align(static_cast<std::uint64_t>(kernel_.target().vector_bytes()));
}

llvm::Align ElementVectors::element_align() const { return llvm::Align(ir::size_of(dtype_)); }

Value* ElementVectors::load(Value* base, Value* offset) {
  return kernel_.here().CreateAlignedLoad(type(), kernel_.element_pointer(base, dtype_, offset),
                                          vector_align());
}

void ElementVectors::store(Value* base, Value* offset, Value* vector) {
  kernel_.here().CreateAlignedStore(vector, kernel_.element_pointer(base, dtype_, offset),
                                    vector_align());
}

Value* ElementVectors::load_one(Value* base, Value* offset) {
  return kernel_.here().CreateAlignedLoad(element_, kernel_.element_pointer(base, dtype_, offset),
                                          element_align());
}

void ElementVectors::store_one(Value* base, Value* offset, Value* value) {
  kernel_.here().CreateAlignedStore(value, kernel_.element_pointer(base, dtype_, offset),
                                    element_align());
}

Value* ElementVectors::splat(Value* value) {
  return kernel_.splat(value, static_cast<unsigned>(lanes_));
}

Value* ElementVectors::larger(Value* a, Value* b) {
  auto& builder = kernel_.here();
  return builder.CreateSelect(builder.CreateFCmpOGT(a, b), a, b);
}

}  // namespace anydim::codegen_cpu
