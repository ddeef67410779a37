#include "codegen_cpu/matmul/packed_once.h"

namespace anydim::codegen_cpu {

PackedOnce::PackedOnce(KernelBuilder& kernel, const char* name)
    : kernel_(kernel), key_(kernel.variable(kernel.here().getInt64Ty(), name)) {
  kernel_.at(kernel_.root()).CreateStore(kernel_.constant(-1), key_);
}

void PackedOnce::unless_packed(Scope& task, Value* key, const KernelBuilder::Body& pack) const {
  auto& builder = kernel_.at(task);
  Value* fresh = builder.CreateICmpNE(builder.CreateLoad(key->getType(), key_), key);
  kernel_.guarded(task, fresh, [&](Scope& scope) {
    kernel_.at(scope).CreateStore(key, key_);
    pack(scope);
  });
}

}  // namespace anydim::codegen_cpu
