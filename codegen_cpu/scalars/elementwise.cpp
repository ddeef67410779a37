// Bodies of elementwise ops on registers; their meaning is ir/scalar.h's.
#include <llvm/IR/IntrinsicsX86.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <span>

#include "codegen_cpu/scalars/math_f32.h"
#include "codegen_cpu/scalars/math_f64.h"
#include "codegen_cpu/scalars/scalar_emitter.h"
#include "ir/integer_body.h"
#include "ir/loops/scalar_program.h"
#include "ir/real_body.h"

namespace anydim::codegen_cpu {

namespace {

class Elementwise {
 public:
  Elementwise(KernelBuilder& kernel, Scope& scope, const ir::ScalarStep& step, DType operand_dtype,
              const std::vector<llvm::Value*>& operands, llvm::Value* mask)
      : kernel_(kernel), scope_(scope), step_(step), dtype_(operand_dtype), operands_(operands),
        mask_(mask), type_(operands.at(0)->getType()) {
    const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type_);
    width_ = vector ? vector->getNumElements() : 1;
  }

  llvm::Value* emit() {
    kernel_.at(scope_);
    if (step_.op() == Op::where) return at().CreateSelect(operands_[0], operands_[1], operands_[2]);
    if (step_.op() == Op::cast) return cast(operands_[0], dtype_, step_.dtype);
    if (step_.op() == Op::bitcast) return bitcast(operands_[0], dtype_, step_.dtype);
    const std::span<const Value> operands(operands_);
    return ir::is_float(dtype_)
               ? ir::RealBody(*this, ir::scalar_op(step_), operands).value()
               : ir::IntegerBody(*this, ir::scalar_op(step_), dtype_, operands).value();
  }

  // ---- steps of ir::RealBody and ir::IntegerBody ----

  using Value = llvm::Value*;

  Value real(double value) { return llvm::ConstantFP::get(type_, value); }
  bool is_literal(Value value, double number) {
    const auto* constant = llvm::dyn_cast<llvm::Constant>(value);
    if (constant != nullptr && constant->getType()->isVectorTy())
      constant = constant->getSplatValue();
    const auto* literal = llvm::dyn_cast_or_null<llvm::ConstantFP>(constant);
    return literal != nullptr && literal->isExactlyValue(number);
  }
  Value arithmetic(Op op, Value x, Value y) {
    return op == Op::add   ? at().CreateFAdd(x, y)
           : op == Op::sub ? at().CreateFSub(x, y)
           : op == Op::mul ? at().CreateFMul(x, y)
                           : at().CreateFDiv(x, y);
  }
  Value multiply_add(Value x, Value y, Value z) {
    return codegen_cpu::multiply_add(kernel_, x, y, z);
  }
  Value compare(Op op, Value x, Value y) {
    if (!ir::is_float(dtype_)) return compare_integers(op, x, y);
    return at().CreateFCmp(op == Op::equal        ? llvm::CmpInst::FCMP_OEQ
                           : op == Op::less       ? llvm::CmpInst::FCMP_OLT
                           : op == Op::greater    ? llvm::CmpInst::FCMP_OGT
                           : op == Op::less_equal ? llvm::CmpInst::FCMP_OLE
                                                  : llvm::CmpInst::FCMP_OGE,
                           x, y);
  }
  Value is_nan(Value x) { return at().CreateFCmpUNO(x, x); }
  Value never() { return llvm::Constant::getNullValue(like(at().getInt1Ty())); }
  Value differ(Value x, Value y) { return at().CreateXor(x, y); }
  Value select(Value condition, Value x, Value y) { return at().CreateSelect(condition, x, y); }
  Value negate(Value x) { return at().CreateFNeg(x); }
  Value magnitude(Value x) { return at().CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x); }
  Value copy_sign(Value x, Value sign) {
    return at().CreateBinaryIntrinsic(llvm::Intrinsic::copysign, x, sign);
  }
  Value integral(Op op, Value x) {
    return op == Op::floor
               ? round_to(llvm::Intrinsic::floor, x)
               : round_to(op == Op::ceil ? llvm::Intrinsic::ceil : llvm::Intrinsic::roundeven, x);
  }
  Value square_root(Value x) { return at().CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x); }
  // For reals the machine's minimum and maximum give the second operand where one is NaN; a NaN
  // first operand is put back.
  Value extreme(Op op, Value x, Value y) {
    if (!ir::is_float(dtype_)) {
      const auto with_sign = op == Op::min ? llvm::Intrinsic::smin : llvm::Intrinsic::smax,
                 without = op == Op::min ? llvm::Intrinsic::umin : llvm::Intrinsic::umax;
      return at().CreateBinaryIntrinsic(ir::is_signed(dtype_) ? with_sign : without, x, y);
    }
    if (Value better = vector_extreme(op, x, y)) return select(at().CreateFCmpORD(x, x), better, x);
    auto* better = select(compare(op == Op::min ? Op::less : Op::greater, x, y), x, y);
    return select(is_nan(x), x, better);
  }
  Value function(ir::LibraryFunction function, std::span<const Value> operands) {
    using enum ir::LibraryFunction;
    if (doubles()) {
      switch (function) {  // NOLINT: the others are not vectorised
        case exp: return exp_f64(kernel_, operands[0]);
        case log: return log_f64(kernel_, operands[0]);
        case tanh: return tanh_f64(kernel_, operands[0]);
        default: return host(scope_, function, operands);
      }
    }
    switch (function) {  // NOLINT: the others have nothing faster
      case exp: return exp_f32(kernel_, operands[0]);
      case log: return log_f32(kernel_, operands[0]);
      case tanh: return tanh_f32(kernel_, operands[0]);
      case erf: return erf_f32(kernel_, operands[0]);
      case asin: return asin_f32(kernel_, operands[0]);
      case acos: return acos_f32(kernel_, operands[0]);
      case atan: return atan_f32(kernel_, operands[0]);
      case sin:
      case cos:
      case tan: return periodic(function, operands);
      case sinh:
      case cosh:
      case asinh:
      case acosh:
      case atanh:
      case erfc:
      case pow: return wide_f32(kernel_, function, operands);
      default: return host(scope_, function, operands);
    }
  }
  Value with(Value value, auto body) { return body(value); }

  Value integer(std::int64_t value) {
    return llvm::ConstantInt::get(type_, static_cast<std::uint64_t>(value), true);
  }
  Value wrapped(Op op, Value x, Value y) {
    return op == Op::add   ? at().CreateAdd(x, y)
           : op == Op::sub ? at().CreateSub(x, y)
                           : at().CreateMul(x, y);
  }
  Value bits(Op op, Value x, Value y) {
    return op == Op::bit_and  ? at().CreateAnd(x, y)
           : op == Op::bit_or ? at().CreateOr(x, y)
                              : at().CreateXor(x, y);
  }
  Value complement(Value x) { return at().CreateNot(x); }
  Value quotient(Value x, Value y) {
    llvm::Value* is_zero = nullptr;
    llvm::Value* divisor = checked_divisor(y, is_zero);
    if (!ir::is_signed(dtype_)) return select(is_zero, integer(0), whole_quotient(x, divisor));
    // The lowest value divided by -1 traps too.
    auto* minus_one = at().CreateICmpEQ(divisor, integer(-1));
    llvm::Value* result = whole_quotient(x, select(minus_one, integer(1), divisor));
    return select(is_zero, integer(0), select(minus_one, at().CreateNeg(x), result));
  }
  Value remainder(Value x, Value y) {
    llvm::Value* is_zero = nullptr;
    llvm::Value* divisor = checked_divisor(y, is_zero);
    if (ir::is_signed(dtype_))
      divisor = select(at().CreateICmpEQ(divisor, integer(-1)), integer(1), divisor);
    if (divides_as_reals(divisor))
      return at().CreateSub(x, at().CreateMul(whole_quotient(x, divisor), divisor));
    return ir::is_signed(dtype_) ? at().CreateSRem(x, divisor) : at().CreateURem(x, divisor);
  }
  Value power(Value, Value) {
    return lanes([&](const std::vector<llvm::Value*>& scalars) {
      return integer_power(scalars[0], scalars[1], ir::is_signed(dtype_));
    });
  }
  Value counts_bits(Value count) { return at().CreateICmpULT(count, integer(width_in_bits())); }
  // A shift by as many bits as there are, or more, has no value on the machine.
  Value shifted(Op op, Value x, Value count) {
    if (op == Op::shift_right && ir::is_signed(dtype_))
      return at().CreateAShr(x, at().CreateBinaryIntrinsic(llvm::Intrinsic::umin, count,
                                                           integer(width_in_bits() - 1)));
    count = select(counts_bits(count), count, integer(0));
    return op == Op::shift_left ? at().CreateShl(x, count) : at().CreateLShr(x, count);
  }

 private:
  llvm::IRBuilder<>& at() { return kernel_.here(); }

  // There are no divisions of vectors of integers, but multiplications that stand for one by a
  // literal.
  bool divides_as_reals(Value divisor) const {
    return width_ > 1 && width_in_bits() <= 32 && !llvm::isa<llvm::Constant>(divisor);
  }
  // Of a divisor that is neither 0 nor, where signed, -1. Exact in reals of more than as many
  // bits: a quotient that is not whole is at least 1 / |x| of itself from the next whole number.
  Value whole_quotient(Value x, Value divisor) {
    const bool is_signed = ir::is_signed(dtype_);
    if (!divides_as_reals(divisor))
      return is_signed ? at().CreateSDiv(x, divisor) : at().CreateUDiv(x, divisor);
    auto* real = llvm::FixedVectorType::get(
        width_in_bits() <= 16 ? at().getFloatTy() : at().getDoubleTy(), width_);
    const auto made_real = [&](Value value) {
      return is_signed ? at().CreateSIToFP(value, real) : at().CreateUIToFP(value, real);
    };
    Value ratio = at().CreateFDiv(made_real(x), made_real(divisor));
    return is_signed ? at().CreateFPToSI(ratio, x->getType())
                     : at().CreateFPToUI(ratio, x->getType());
  }

  // The machine's own instruction: LLVM joins comparisons of two selects to more work than it is.
  // Null where no register is as wide, or where a literal leaves LLVM better choices.
  Value vector_extreme(Op op, Value x, Value y) {
    if (llvm::isa<llvm::Constant>(x) || llvm::isa<llvm::Constant>(y)) return nullptr;
    using namespace llvm::Intrinsic;
    const bool least = op == Op::min, wide = doubles();
    const unsigned fewest = wide ? 2 : 4;
    if (width_ < fewest) return least_or_most_of_few(least, x, y, fewest);
    const auto instruction = [&](ID min_ps, ID max_ps, ID min_pd, ID max_pd) {
      return wide ? (least ? min_pd : max_pd) : (least ? min_ps : max_ps);
    };
    switch (width_ * (wide ? 8 : 4)) {
      case 16:
        return at().CreateIntrinsic(
            instruction(x86_sse_min_ps, x86_sse_max_ps, x86_sse2_min_pd, x86_sse2_max_pd), {},
            {x, y});
      case 32:
        if (kernel_.target().level == Level::Baseline) return nullptr;
        return at().CreateIntrinsic(instruction(x86_avx_min_ps_256, x86_avx_max_ps_256,
                                                x86_avx_min_pd_256, x86_avx_max_pd_256),
                                    {}, {x, y});
      case 64: {
        if (kernel_.target().level != Level::Avx512) return nullptr;
        constexpr std::uint32_t rounding_as_it_is = 4;
        return at().CreateIntrinsic(instruction(x86_avx512_min_ps_512, x86_avx512_max_ps_512,
                                                x86_avx512_min_pd_512, x86_avx512_max_pd_512),
                                    {}, {x, y, at().getInt32(rounding_as_it_is)});
      }
      default: return nullptr;
    }
  }

  // The same where lanes do not fill the smallest register: the others say nothing.
  Value least_or_most_of_few(bool least, Value x, Value y, unsigned lanes) {
    std::vector<int> first(lanes, llvm::PoisonMaskElem);
    std::iota(first.begin(), first.begin() + width_, 0);
    const auto filled = [&](Value value) -> Value {
      if (value->getType()->isVectorTy()) return at().CreateShuffleVector(value, first);
      auto* none = llvm::PoisonValue::get(llvm::FixedVectorType::get(value->getType(), lanes));
      return at().CreateInsertElement(none, value, std::uint64_t{0});
    };
    using namespace llvm::Intrinsic;
    const ID instruction = doubles() ? (least ? x86_sse2_min_pd : x86_sse2_max_pd)
                                     : (least ? x86_sse_min_ps : x86_sse_max_ps);
    Value better = at().CreateIntrinsic(instruction, {}, {filled(x), filled(y)});
    if (!type_->isVectorTy()) return at().CreateExtractElement(better, std::uint64_t{0});
    first.resize(width_);
    return at().CreateShuffleVector(better, first);
  }

  llvm::Type* like(llvm::Type* element) { return kernel_.vector_of(element, width_); }
  bool doubles() const { return type_->getScalarType()->isDoubleTy(); }

  llvm::Value* cast(llvm::Value* value, DType from, DType to) {
    if (from == to) return value;
    auto* type = like(kernel_.value_type(to));
    if (ir::is_float(from)) {
      if (to == DType::Bool)
        return at().CreateFCmpUNE(value, llvm::Constant::getNullValue(value->getType()));
      if (from == DType::F64 && ir::is_half(to)) return rounded(to_odd_float(value), to);
      if (ir::is_float(to)) return rounded(at().CreateFPCast(value, type), to);
      return ir::size_of(to) <= 2 ? to_narrow_integer(value, to) : to_integer(value, to);
    }
    const bool is_signed = from != DType::Bool && ir::is_signed(from);
    if (to == DType::Bool)
      return at().CreateICmpNE(value, llvm::Constant::getNullValue(value->getType()));
    if (ir::is_float(to))
      return rounded(is_signed ? at().CreateSIToFP(value, type) : at().CreateUIToFP(value, type),
                     to);
    return at().CreateIntCast(value, type, is_signed);
  }

  // Of the bits that memory would hold.
  llvm::Value* bitcast(llvm::Value* value, DType from, DType to) {
    if (from == to) return value;
    auto* stored = narrow(kernel_, from, value);
    return widen(kernel_, to, at().CreateBitCast(stored, like(kernel_.storage_type(to))));
  }

  // Saturating, NaN is 0. LLVM's own saturating conversion asks more, and goes lane by lane where
  // integers are narrower than what the processor converts to.
  llvm::Value* to_integer(llvm::Value* value, DType to) {
    const bool has_sign = ir::is_signed(to);
    const auto bits = static_cast<unsigned>(8 * ir::size_of(to));
    const auto number = [&](double real) { return llvm::ConstantFP::get(value->getType(), real); };
    auto* type = like(kernel_.value_type(to));
    // The first number beyond, which is a float; the greatest integer may be none.
    auto* beyond = at().CreateFCmpOGE(
        value, number(std::ldexp(1.0, static_cast<int>(has_sign ? bits - 1 : bits))));
    auto* least = number(has_sign ? -std::ldexp(1.0, static_cast<int>(bits - 1)) : 0);
    auto* within = at().CreateSelect(at().CreateOr(beyond, at().CreateFCmpUNO(value, value)),
                                     number(0), value);
    within = at().CreateSelect(at().CreateFCmpOLT(within, least), least, within);
    auto* integers = has_sign ? at().CreateFPToSI(within, type) : at().CreateFPToUI(within, type);
    const llvm::APInt most =
        has_sign ? llvm::APInt::getSignedMaxValue(bits) : llvm::APInt::getMaxValue(bits);
    return at().CreateSelect(beyond, llvm::ConstantInt::get(type, most), integers);
  }

  // The same of integers that the processor does not convert to.
  llvm::Value* to_narrow_integer(llvm::Value* value, DType to) {
    const auto bits = static_cast<unsigned>(8 * ir::size_of(to));
    const double most = std::ldexp(1.0, static_cast<int>(ir::is_signed(to) ? bits - 1 : bits)) - 1,
                 least = ir::is_signed(to) ? -most - 1 : 0;
    const auto bound = [&](double number) {
      return llvm::ConstantFP::get(value->getType(), number);
    };
    // The forms of the processor's maximum and minimum, whose second operand is the result where
    // the first is NaN.
    if (ir::is_signed(to))
      value = at().CreateSelect(at().CreateFCmpORD(value, value), value, bound(0));
    value = at().CreateSelect(at().CreateFCmpOGT(value, bound(least)), value, bound(least));
    value = at().CreateSelect(at().CreateFCmpOLT(value, bound(most)), value, bound(most));
    return at().CreateTrunc(at().CreateFPToSI(value, like(at().getInt32Ty())),
                            like(kernel_.value_type(to)));
  }

  // Double to float, to the odd neighbour where it is inexact: rounding that once more to a
  // narrower type is as good as rounding once.
  llvm::Value* to_odd_float(llvm::Value* value) {
    auto* bits_type = like(at().getInt32Ty());
    auto* nearest = at().CreateFPTrunc(value, like(at().getFloatTy()));
    auto* back = at().CreateFPExt(nearest, value->getType());
    auto* away = at().CreateFCmpOGT(at().CreateUnaryIntrinsic(llvm::Intrinsic::fabs, back),
                                    at().CreateUnaryIntrinsic(llvm::Intrinsic::fabs, value));
    auto* inexact = at().CreateFCmpONE(back, value);
    auto* bits =
        at().CreateSub(at().CreateBitCast(nearest, bits_type), at().CreateZExt(away, bits_type));
    return at().CreateBitCast(at().CreateOr(bits, at().CreateZExt(inexact, bits_type)),
                              nearest->getType());
  }

  // A number of a narrow float type, kept in a wider register.
  llvm::Value* rounded(llvm::Value* value, DType to) {
    return ir::is_half(to) ? widen(kernel_, to, narrow(kernel_, to, value)) : value;
  }

  // ---- integers ----

  Value compare_integers(Op op, Value x, Value y) {
    using llvm::CmpInst;
    const bool has_sign = dtype_ != DType::Bool && ir::is_signed(dtype_);
    const auto either = [&](CmpInst::Predicate with_sign, CmpInst::Predicate without) {
      return at().CreateICmp(has_sign ? with_sign : without, x, y);
    };
    if (op == Op::equal) return at().CreateICmpEQ(x, y);
    if (op == Op::less) return either(CmpInst::ICMP_SLT, CmpInst::ICMP_ULT);
    if (op == Op::less_equal) return either(CmpInst::ICMP_SLE, CmpInst::ICMP_ULE);
    if (op == Op::greater) return either(CmpInst::ICMP_SGT, CmpInst::ICMP_UGT);
    return either(CmpInst::ICMP_SGE, CmpInst::ICMP_UGE);
  }

  std::int64_t width_in_bits() const {
    return static_cast<std::int64_t>(type_->getScalarSizeInBits());
  }

  // The divisor, 1 in place of 0 (which is reported) so that the processor doesn't trap. No select:
  // see the same in index_emitter.cpp.
  llvm::Value* checked_divisor(llvm::Value* divisor, llvm::Value*& is_zero) {
    is_zero = at().CreateICmpEQ(divisor, integer(0));
    if (const std::int32_t check = ir::check_of(step_); check >= 0) {
      report_where(kernel_, scope_, is_zero, mask_, check,
                   llvm::ConstantInt::get(like(at().getInt64Ty()), 0));
      kernel_.at(scope_);
    }
    return at().CreateBinaryIntrinsic(llvm::Intrinsic::umax, divisor, integer(1));
  }

  llvm::Value* integer_power(llvm::Value* base, llvm::Value* exponent, bool is_signed) {
    auto* i64 = at().getInt64Ty();
    auto* result = at().CreateCall(
        power_function(is_signed),
        {at().CreateIntCast(base, i64, is_signed), at().CreateIntCast(exponent, i64, is_signed)});
    return at().CreateTrunc(result, type_->getScalarType());
  }

  // i64 power by squaring; a negative exponent gives the reciprocal truncated: 1, -1 or 0.
  llvm::Function* power_function(bool is_signed) {
    const char* name = is_signed ? "power" : "unsigned_power";
    if (auto* known = kernel_.module().getFunction(name)) return known;
    auto* i64 = at().getInt64Ty();
    auto* function =
        llvm::Function::Create(llvm::FunctionType::get(i64, {i64, i64}, false),
                               llvm::GlobalValue::InternalLinkage, name, kernel_.module());
    set_function_attributes(*function, kernel_.target());
    function->addFnAttr(llvm::Attribute::NoInline);
    auto& context = kernel_.context();
    auto* entry = llvm::BasicBlock::Create(context, "entry", function);
    auto* loop = llvm::BasicBlock::Create(context, "loop", function);
    auto* done = llvm::BasicBlock::Create(context, "done", function);
    auto *base = function->getArg(0), *exponent = function->getArg(1);
    llvm::IRBuilder<> code(entry);
    auto* one = code.getInt64(1);
    auto* zero = code.getInt64(0);
    code.CreateBr(loop);
    code.SetInsertPoint(loop);
    auto* power = code.CreatePHI(i64, 2);
    auto* factor = code.CreatePHI(i64, 2);
    auto* rest = code.CreatePHI(i64, 2);
    auto* next_power = code.CreateSelect(code.CreateICmpNE(code.CreateAnd(rest, one), zero),
                                         code.CreateMul(power, factor), power);
    auto* next_factor = code.CreateMul(factor, factor);
    auto* next_rest = code.CreateLShr(rest, 1);
    power->addIncoming(one, entry);
    power->addIncoming(next_power, loop);
    factor->addIncoming(base, entry);
    factor->addIncoming(next_factor, loop);
    rest->addIncoming(exponent, entry);
    rest->addIncoming(next_rest, loop);
    code.CreateCondBr(code.CreateICmpNE(next_rest, zero), loop, done);
    code.SetInsertPoint(done);
    llvm::Value* result = next_power;
    if (is_signed) {
      auto* minus_one = code.getInt64(static_cast<std::uint64_t>(-1));
      auto* odd = code.CreateICmpNE(code.CreateAnd(exponent, one), zero);
      auto* flipped = code.CreateSelect(code.CreateICmpEQ(base, minus_one),
                                        code.CreateSelect(odd, minus_one, one), zero);
      auto* reciprocal = code.CreateSelect(code.CreateICmpEQ(base, one), one, flipped);
      result = code.CreateSelect(code.CreateICmpSLT(exponent, zero), reciprocal, result);
    }
    code.CreateRet(result);
    return function;
  }

  llvm::Value* round_to(llvm::Intrinsic::ID intrinsic, llvm::Value* x) {
    if (kernel_.target().level != Level::Baseline) return at().CreateUnaryIntrinsic(intrinsic, x);
    // SSE2 has no rounding: adding and subtracting 2^23 (2^52) rounds to even what is smaller;
    // larger numbers have no fraction.
    auto* magic = real(doubles() ? 0x1p52 : 0x1p23);
    auto* magnitude = at().CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
    llvm::Value* nearest = at().CreateFSub(at().CreateFAdd(magnitude, magic), magic);
    nearest = at().CreateBinaryIntrinsic(llvm::Intrinsic::copysign, nearest, x);
    if (intrinsic == llvm::Intrinsic::floor) {
      nearest = at().CreateFSub(
          nearest, at().CreateSelect(at().CreateFCmpOGT(nearest, x), real(1), real(0)));
    } else if (intrinsic == llvm::Intrinsic::ceil) {
      nearest = at().CreateFAdd(
          nearest, at().CreateSelect(at().CreateFCmpOLT(nearest, x), real(1), real(0)));
      nearest = at().CreateBinaryIntrinsic(llvm::Intrinsic::copysign, nearest, x);
    }
    return at().CreateSelect(at().CreateFCmpOLT(magnitude, magic), nearest, x);
  }

  // ---- one lane after the other ----

  llvm::Value* lanes(const std::function<llvm::Value*(const std::vector<llvm::Value*>&)>& body) {
    if (width_ == 1) return body(operands_);
    llvm::Value* result = llvm::PoisonValue::get(type_);
    for (unsigned lane = 0; lane < width_; ++lane) {
      std::vector<llvm::Value*> scalars;
      for (llvm::Value* operand : operands_)
        scalars.push_back(at().CreateExtractElement(operand, lane));
      result = at().CreateInsertElement(result, body(scalars), lane);
    }
    return result;
  }

  // Lanes beyond the limit, which are rare, are libm's.
  llvm::Value* periodic(ir::LibraryFunction function, std::span<llvm::Value* const> values) {
    auto* size = magnitude(values[0]);
    auto* is_far =
        at().CreateAnd(at().CreateFCmpOGT(size, real(periodic_limit)),
                       at().CreateFCmpOLT(size, real(std::numeric_limits<double>::infinity())));
    auto* near = wide_f32(kernel_, function, values);
    auto* result = kernel_.variable(type_, "periodic");
    at().CreateStore(near, result);
    kernel_.guarded(scope_, width_ == 1 ? is_far : at().CreateOrReduce(is_far), [&](Scope& inner) {
      kernel_.at(inner);
      auto* far = host(inner, function, values);
      at().CreateStore(at().CreateSelect(is_far, far, near), result);
    });
    kernel_.at(scope_);
    return at().CreateLoad(type_, result);
  }

  // A libm function, in double; one shared loop over the lanes a kernel, function and width.
  llvm::Value* host(Scope& scope, ir::LibraryFunction function,
                    std::span<llvm::Value* const> values) {
    const auto position = static_cast<unsigned>(function);
    std::vector<llvm::Value*> memory;
    auto* f64 = at().getDoubleTy();
    for (llvm::Value* value : values) {
      auto* wide = at().CreateFPCast(value, like(f64));
      if (width_ == 1) {
        memory.push_back(wide);
        continue;
      }
      auto* array = kernel_.variable(wide->getType(), "lanes");
      at().CreateStore(wide, array);
      memory.push_back(array);
    }
    if (width_ == 1) return at().CreateFPCast(kernel_.call_host(position, memory), type_);
    auto* results = kernel_.variable(like(f64), "results");
    kernel_.loop(scope, kernel_.constant(0), kernel_.constant(width_), 1,
                 [&](Scope& body, llvm::Value* lane) {
                   auto& code = kernel_.at(body);
                   std::vector<llvm::Value*> scalars;
                   for (llvm::Value* array : memory)
                     scalars.push_back(code.CreateLoad(f64, code.CreateGEP(f64, array, lane)));
                   llvm::Value* result = kernel_.call_host(position, scalars);
                   code.CreateStore(result, code.CreateGEP(f64, results, lane));
                 });
    kernel_.at(scope);
    return at().CreateFPCast(at().CreateLoad(like(f64), results), type_);
  }

  KernelBuilder& kernel_;
  Scope& scope_;
  const ir::ScalarStep& step_;
  DType dtype_;
  std::vector<llvm::Value*> operands_;
  llvm::Value* mask_;
  llvm::Type* type_;
  unsigned width_ = 1;
};

}  // namespace

llvm::Value* emit_elementwise(KernelBuilder& kernel, Scope& scope, const ir::ScalarStep& step,
                              DType operand_dtype, const std::vector<llvm::Value*>& operands,
                              llvm::Value* mask) {
  return Elementwise(kernel, scope, step, operand_dtype, operands, mask).emit();
}

}  // namespace anydim::codegen_cpu
