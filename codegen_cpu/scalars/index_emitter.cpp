#include "codegen_cpu/scalars/index_emitter.h"

#include <bit>
#include <limits>
#include <vector>

#include "ir/dims/affine.h"
#include "ir/error.h"

namespace anydim::codegen_cpu {

namespace {

// Emits one dim, lane 0 only or every lane.
class Emission {
 public:
  Emission(KernelBuilder& kernel, Scope& scope, bool lanes)
      : kernel_(kernel), scope_(scope), lanes_(lanes) {}

  llvm::Value* value(const Dim& dim) {
    if (const auto constant = dim.constant()) return kernel_.constant(*constant);
    const bool spread = lanes_ && differs_between_lanes(scope_, dim);
    Scope& home = home_of(kernel_, scope_, dim);
    const auto key = std::pair(dim, spread);
    if (const auto found = home.dims.find(key); found != home.dims.end()) return found->second;
    llvm::Value* result = emit(dim, home, spread);
    home.dims.emplace(key, result);
    return result;
  }

 private:
  llvm::IRBuilder<>& code(Scope& home) { return kernel_.at(home); }
  unsigned width() const { return scope_.lanes().width; }

  llvm::Value* leaf(const Dim& dim, Scope& home, bool spread) {
    llvm::Value* found = scope_.find(dim.leaf());
    internal_check(found != nullptr,
                   "the leaf " + to_string(dim.leaf()) + " of an index expression is defined");
    if (!spread) {
      internal_check(!found->getType()->isVectorTy(),
                     "a uniform index expression mentions uniform symbols only");
      return found;
    }
    if (found->getType()->isVectorTy() || dim.leaf() != scope_.lanes().variable) return found;
    llvm::IRBuilder<>& at = code(home);
    std::vector<llvm::Constant*> steps;
    for (unsigned lane = 0; lane < width(); ++lane) steps.push_back(at.getInt64(lane));
    return at.CreateAdd(at.CreateVectorSplat(width(), found), llvm::ConstantVector::get(steps));
  }

  // Both as vectors where one is.
  void match(llvm::IRBuilder<>& at, llvm::Value*& a, llvm::Value*& b) {
    if (a->getType()->isVectorTy() && !b->getType()->isVectorTy())
      b = at.CreateVectorSplat(width(), b);
    if (b->getType()->isVectorTy() && !a->getType()->isVectorTy())
      a = at.CreateVectorSplat(width(), a);
  }

  llvm::Value* divide(const Dim& dim, Scope& home) {
    const Dim &dividend = dim.operands()[0], &divisor = dim.operands()[1];
    const bool modulo = dim.kind() == Dim::Kind::Mod;
    llvm::Value *a = value(dividend), *b = value(divisor);
    const ir::Interval top = ir::bounds(dividend, kernel_.symbols()),
                       bottom = ir::bounds(divisor, kernel_.symbols());
    llvm::IRBuilder<>& at = code(home);
    // Hoisted code may run where its loop would not: the processor must not trap on 0. As an
    // unsigned maximum, because LLVM 19 takes a select with 1 for a divisor whose lanes are partly
    // known to be 0 as 1 in every lane.
    // Lanes behind a loop's end count on beyond its symbol's range, so ranges say nothing of a
    // divisor that differs between lanes.
    if ((bottom.low <= 0 && bottom.high >= 0) || b->getType()->isVectorTy())
      b = at.CreateBinaryIntrinsic(llvm::Intrinsic::umax, b,
                                   llvm::ConstantInt::get(b->getType(), 1));
    match(at, a, b);
    if (top.low >= 0 && bottom.low >= 0) return modulo ? at.CreateURem(a, b) : at.CreateUDiv(a, b);
    if (const auto constant = divisor.constant();
        constant && *constant > 0 && std::has_single_bit(static_cast<std::uint64_t>(*constant))) {
      if (modulo)
        return at.CreateAnd(
            a, llvm::ConstantInt::get(a->getType(), static_cast<std::uint64_t>(*constant - 1)));
      return at.CreateAShr(
          a, static_cast<std::uint64_t>(std::countr_zero(static_cast<std::uint64_t>(*constant))));
    }
    auto* remainder = at.CreateSRem(a, b);
    auto* zero = llvm::Constant::getNullValue(a->getType());
    auto* off = at.CreateAnd(at.CreateICmpNE(remainder, zero),
                             at.CreateICmpSLT(at.CreateXor(remainder, b), zero));
    if (modulo) return at.CreateSelect(off, at.CreateAdd(remainder, b), remainder);
    return at.CreateSub(at.CreateSDiv(a, b), at.CreateZExt(off, a->getType()));
  }

  // A product; what outer scopes define is multiplied there.
  llvm::Value* term(const Dim::Term& term, Scope& home) {
    Dim outer(term.coefficient);
    llvm::Value* product = nullptr;
    for (const Dim& factor : term.factors) {
      if (&home_of(kernel_, scope_, factor) != &home) {
        outer = outer * factor;
        continue;
      }
      product = combine(home, product, value(factor), llvm::Instruction::Mul);
    }
    return outer.is_constant(1) ? product
                                : combine(home, product, value(outer), llvm::Instruction::Mul);
  }

  // A sum; what outer scopes define is added there.
  llvm::Value* sum(const Dim& dim, Scope& home) {
    Dim outer(dim.constant_part());
    llvm::Value* total = nullptr;
    for (const Dim::Term& part : dim.terms()) {
      const Dim whole = as_dim(part);
      if (&home_of(kernel_, scope_, whole) != &home) outer = outer + whole;
      else total = combine(home, total, term(part, home), llvm::Instruction::Add);
    }
    return outer.is_constant(0) ? total
                                : combine(home, total, value(outer), llvm::Instruction::Add);
  }

  llvm::Value* combine(Scope& home, llvm::Value* a, llvm::Value* b,
                       llvm::Instruction::BinaryOps operation) {
    if (a == nullptr) return b;
    llvm::IRBuilder<>& at = code(home);
    match(at, a, b);
    return at.CreateBinOp(operation, a, b);
  }

  llvm::Value* emit(const Dim& dim, Scope& home, bool spread) {
    switch (dim.kind()) {
      case Dim::Kind::Constant: return kernel_.constant(*dim.constant());
      case Dim::Kind::Symbol:
      case Dim::Kind::Value: return leaf(dim, home, spread);
      case Dim::Kind::Sum: return sum(dim, home);
      case Dim::Kind::FloorDiv:
      case Dim::Kind::Mod: return divide(dim, home);
      case Dim::Kind::Min:
      case Dim::Kind::Max: {
        llvm::Value* best = value(dim.operands()[0]);
        for (std::size_t i = 1; i < dim.operands().size(); ++i) {
          llvm::Value* next = value(dim.operands()[i]);
          auto& at = code(home);
          match(at, best, next);
          best = at.CreateBinaryIntrinsic(
              dim.kind() == Dim::Kind::Min ? llvm::Intrinsic::smin : llvm::Intrinsic::smax, best,
              next);
        }
        return best;
      }
      case Dim::Kind::Select: {
        llvm::Value *left = value(dim.operands()[0]), *right = value(dim.operands()[1]);
        llvm::Value *then = value(dim.operands()[2]), *otherwise = value(dim.operands()[3]);
        auto& at = code(home);
        match(at, left, right);
        llvm::Value* holds = emit_comparison(at, dim.comparison(), left, right);
        if (holds->getType()->isVectorTy()) {
          if (!then->getType()->isVectorTy()) then = at.CreateVectorSplat(width(), then);
        }
        match(at, then, otherwise);
        return at.CreateSelect(holds, then, otherwise);
      }
      case Dim::Kind::Broadcast: {
        llvm::Value *a = value(dim.operands()[0]), *b = value(dim.operands()[1]);
        auto& at = code(home);
        match(at, a, b);
        return at.CreateSelect(at.CreateICmpEQ(a, llvm::ConstantInt::get(a->getType(), 1)), b, a);
      }
    }
    internal_error("a dim has one of the kinds");
  }

  KernelBuilder& kernel_;
  Scope& scope_;
  bool lanes_;
};

}  // namespace

llvm::Value* emit_comparison(llvm::IRBuilder<>& at, ir::Comparison comparison, llvm::Value* left,
                             llvm::Value* right) {
  switch (comparison) {
    case ir::Comparison::Equal: return at.CreateICmpEQ(left, right);
    case ir::Comparison::NotEqual: return at.CreateICmpNE(left, right);
    case ir::Comparison::Less: return at.CreateICmpSLT(left, right);
    case ir::Comparison::LessEqual: return at.CreateICmpSLE(left, right);
  }
  internal_error("a comparison is one of the enumerators");
}

llvm::Value* emit_joined(KernelBuilder& kernel, Scope& scope,
                         llvm::Instruction::BinaryOps operation, llvm::Value* a, llvm::Value* b) {
  if (!a) return b;
  if (a->getType()->isVectorTy() || b->getType()->isVectorTy()) {
    a = kernel.splat(a, scope.lanes().width);
    b = kernel.splat(b, scope.lanes().width);
  }
  return kernel.at(scope).CreateBinOp(operation, a, b);
}

llvm::Value* emit_all_of(KernelBuilder& kernel, Scope& scope,
                         std::span<const ir::ScalarStep::Condition> conditions) {
  llvm::Value* all = nullptr;
  for (const ir::ScalarStep::Condition& condition : conditions)
    all = emit_joined(kernel, scope, llvm::Instruction::And, all,
                      emit_condition(kernel, scope, condition));
  return all ? all : kernel.at(scope).getTrue();
}

Scope& home_of(KernelBuilder& kernel, Scope& scope, const Dim& dim) {
  return ir::home_of_leaves(scope, kernel.root(), dim.leaves());
}

bool differs_between_lanes(Scope& scope, const Dim& dim) {
  if (scope.lanes().width == 1) return false;
  for (const ir::DimLeaf& leaf : dim.leaves()) {
    if (leaf == scope.lanes().variable) return true;
    if (llvm::Value* value = scope.find(leaf); value && value->getType()->isVectorTy()) return true;
  }
  return false;
}

namespace {

// Change of at(place) from a place to the next among `width` that begin with a multiple of it: a
// remainder by a multiple of `width` grows with the place then.
std::optional<Dim> stride_within(unsigned width, const auto& at, const ir::SymbolTable& symbols) {
  const Dim block = Dim::symbol("block of lanes"), lane = Dim::symbol("lane of a block");
  ir::SymbolTable known = symbols;
  known.declare("block of lanes");
  ir::SymbolInfo within;
  within.high = width - 2;
  known.declare("lane of a block", within);
  const Dim place = width * block + lane;
  const Dim stride = ir::simplify(at(place + 1) - at(place), known);
  if (stride.mentions(lane.leaf()) || stride.mentions(block.leaf())) return std::nullopt;
  return stride;
}

}  // namespace

std::optional<Dim> lane_stride(Scope& scope, const Dim& dim, const ir::SymbolTable& symbols) {
  if (!differs_between_lanes(scope, dim)) return Dim(0);
  const ir::DimLeaf& lane = scope.lanes().variable;
  for (const ir::DimLeaf& leaf : dim.leaves()) {
    if (leaf == lane) continue;
    if (llvm::Value* value = scope.find(leaf); value && value->getType()->isVectorTy())
      return std::nullopt;
  }
  const auto at = [&](const Dim& place) {
    return dim.substitute(std::map<ir::DimLeaf, Dim>{{lane, place}});
  };
  const Dim stride = ir::simplify(at(Dim::of(lane) + 1) - dim, symbols);
  if (!stride.mentions(lane)) return stride;
  return scope.lanes().aligned ? stride_within(scope.lanes().width, at, symbols) : std::nullopt;
}

llvm::Value* emit_index(KernelBuilder& kernel, Scope& scope, const Dim& dim) {
  return Emission(kernel, scope, false).value(dim);
}

llvm::Value* emit_index_lanes(KernelBuilder& kernel, Scope& scope, const Dim& dim) {
  return Emission(kernel, scope, true).value(dim);
}

namespace {

// Where an order holds for a run of lanes from the first or up to the last, as what is compared
// changes by the same amount from lane to lane, the run's end is found once; a comparison of the
// lanes' small numbers with it is far less work than one of their indices. Null where it isn't so.
llvm::Value* lanes_in_order(KernelBuilder& kernel, Scope& scope,
                            const ir::ScalarStep::Condition& condition) {
  if (condition.comparison != ir::Comparison::Less &&
      condition.comparison != ir::Comparison::LessEqual)
    return nullptr;
  // left < right where distance > 0.
  const Dim distance = ir::simplify(condition.right - condition.left +
                                        (condition.comparison == ir::Comparison::LessEqual ? 1 : 0),
                                    kernel.symbols());
  if (!differs_between_lanes(scope, distance)) return nullptr;
  const auto stride = lane_stride(scope, distance, kernel.symbols());
  if (!stride || !stride->constant() || *stride->constant() == 0 ||
      *stride->constant() == std::numeric_limits<std::int64_t>::min())
    return nullptr;
  const std::int64_t step = *stride->constant(), width = scope.lanes().width;
  llvm::Value* at_first = emit_index(kernel, scope, distance);
  auto& at = kernel.at(scope);
  const auto rounded_up = [&](llvm::Value* value, std::int64_t divisor) {  // of what is at least 0
    return divisor == 1 ? value
                        : at.CreateUDiv(at.CreateAdd(value, kernel.constant(divisor - 1)),
                                        kernel.constant(divisor));
  };
  const auto within = [&](llvm::Value* value, std::int64_t most) {
    value = at.CreateBinaryIntrinsic(llvm::Intrinsic::smax, value, kernel.constant(0));
    return at.CreateBinaryIntrinsic(llvm::Intrinsic::smin, value, kernel.constant(most));
  };
  const std::int64_t size = step < 0 ? -step : step;
  std::int64_t most = 0;
  if (__builtin_mul_overflow(size, width, &most)) return nullptr;
  // Falling: the lanes before the first that fails. Rising: from the first that holds.
  llvm::Value* bound = step < 0 ? at_first : at.CreateSub(kernel.constant(1), at_first);
  bound = at.CreateTrunc(rounded_up(within(bound, most), size), at.getInt32Ty());
  llvm::Value* lanes = at.CreateStepVector(
      llvm::FixedVectorType::get(at.getInt32Ty(), static_cast<unsigned>(width)));
  llvm::Value* all = at.CreateVectorSplat(static_cast<unsigned>(width), bound);
  return step < 0 ? at.CreateICmpULT(lanes, all) : at.CreateICmpUGE(lanes, all);
}

}  // namespace

llvm::Value* emit_condition(KernelBuilder& kernel, Scope& scope,
                            const ir::ScalarStep::Condition& condition) {
  if (llvm::Value* run = lanes_in_order(kernel, scope, condition)) return run;
  llvm::Value* left = emit_index_lanes(kernel, scope, condition.left);
  llvm::Value* right = emit_index_lanes(kernel, scope, condition.right);
  auto& at = kernel.at(scope);
  if (left->getType()->isVectorTy() || right->getType()->isVectorTy()) {
    left = kernel.splat(left, scope.lanes().width);
    right = kernel.splat(right, scope.lanes().width);
  }
  return emit_comparison(at, condition.comparison, left, right);
}

llvm::Value* emit_pointer(KernelBuilder& kernel, Scope& scope, llvm::Value* base, ir::DType dtype,
                          const Dim& offset) {
  // What only outer scopes define is added to the base once, outside of the deepest scope; an
  // address found elsewhere stays in `scope`.
  Dim outer, inner;
  if (kernel.is_buffer(base) && offset.kind() == Dim::Kind::Sum) {
    Scope& deepest = home_of(kernel, scope, offset);
    outer = Dim(offset.constant_part());
    for (const Dim::Term& term : offset.terms()) {
      const Dim part = as_dim(term);
      Dim& side = &home_of(kernel, scope, part) == &deepest ? inner : outer;
      side = side + part;
    }
  } else {
    inner = offset;
  }
  llvm::Value* pointer = base;
  if (!outer.is_constant(0)) {
    Scope& home = home_of(kernel, scope, outer);
    llvm::Value*& known = home.pointers[{base, outer}];
    if (known == nullptr) {
      llvm::Value* distance = emit_index(kernel, scope, outer);
      kernel.at(home);
      known = kernel.element_pointer(base, dtype, distance);
    }
    pointer = known;
  }
  if (inner.is_constant(0)) return pointer;
  llvm::Value* distance = emit_index(kernel, scope, inner);
  kernel.at(scope);
  return kernel.element_pointer(pointer, dtype, distance);
}

void emit_points(KernelBuilder& kernel, Scope& scope, std::span<const ir::Iteration> space,
                 const std::function<void(Scope& point)>& body) {
  if (space.empty()) {
    Scope point(scope);
    return body(point);
  }
  llvm::Value* extent = emit_index(kernel, scope, space[0].extent);
  kernel.for_range(scope, kernel.constant(0), extent, 1, [&](Scope& inside, llvm::Value* index) {
    inside.define(space[0].variable, index);
    emit_points(kernel, inside, space.subspan(1), body);
  });
}

}  // namespace anydim::codegen_cpu
