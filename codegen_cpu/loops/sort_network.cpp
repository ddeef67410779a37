#include "codegen_cpu/loops/sort_network.h"

#include <functional>
#include <numeric>
#include <vector>

namespace anydim::codegen_cpu {

namespace {

class SortNetwork {
 public:
  SortNetwork(KernelBuilder& kernel, const SortEntries& entries, const SortArray& array,
              llvm::Value* vectors)
      : kernel_(kernel), entries_(entries), array_(array), vectors_(vectors),
        lanes_(sort_lanes(kernel.target())) {}

  void emit(Scope& scope) {
    each_vector(scope, [&](Scope& at, SortEntry entry) {
      for (unsigned run = 1; run < lanes_; run *= 2) {
        entry = paired(at, entry, 2 * run - 1, run);
        entry = merged_lanes(at, entry, run / 2);
      }
      return entry;
    });
    // Runs of 1, 2, 4, ... vectors become runs of twice as many.
    auto& at = kernel_.at(scope);
    llvm::Value* levels = at.CreateSub(
        kernel_.constant(64),
        at.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, at.CreateSub(vectors_, kernel_.constant(1)),
                                 at.getFalse()));
    kernel_.for_range(
        scope, kernel_.constant(0), levels, 1, [&](Scope& level, llvm::Value* number) {
          llvm::Value* run = kernel_.at(level).CreateShl(kernel_.constant(1), number);
          order_pairs(level, run, true);
          kernel_.for_range(
              level, kernel_.constant(0), number, 1, [&](Scope& step, llvm::Value* done) {
                auto& in = kernel_.at(step);
                order_pairs(step, in.CreateLShr(run, in.CreateAdd(done, kernel_.constant(1))),
                            false);
              });
          if (lanes_ > 1)
            each_vector(level, [&](Scope& one, const SortEntry& entry) {
              return merged_lanes(one, entry, lanes_ / 2);
            });
        });
  }

 private:
  SortEntry load(Scope& scope, llvm::Value* vector) {
    return entries_.load(scope, array_, position(scope, vector), lanes_);
  }
  void store(Scope& scope, llvm::Value* vector, const SortEntry& entry) {
    entries_.store(scope, array_, position(scope, vector), entry);
  }
  llvm::Value* position(Scope& scope, llvm::Value* vector) {
    return kernel_.at(scope).CreateMul(vector, kernel_.constant(lanes_));
  }

  void each_vector(Scope& scope, const std::function<SortEntry(Scope&, SortEntry)>& body) {
    kernel_.for_range(scope, kernel_.constant(0), vectors_, 1,
                      [&](Scope& one, llvm::Value* vector) {
                        const SortEntry entry = load(one, vector);
                        store(one, vector, body(one, entry));
                      });
  }

  // Vectors that are `distance` (a power of two) apart; or, `mirrored`, those as far from the
  // middle of 2 * distance vectors on both sides, the lanes of the upper one in turn.
  void order_pairs(Scope& scope, llvm::Value* distance, bool mirrored) {
    auto& at = kernel_.at(scope);
    llvm::Value* whole =
        at.CreateAnd(vectors_, at.CreateNeg(at.CreateShl(distance, kernel_.constant(1))));
    llvm::Value* rest = at.CreateBinaryIntrinsic(
        llvm::Intrinsic::smax, at.CreateSub(at.CreateSub(vectors_, whole), distance),
        kernel_.constant(0));
    llvm::Value* pairs = at.CreateAdd(at.CreateLShr(whole, kernel_.constant(1)), rest);
    kernel_.for_range(scope, kernel_.constant(0), pairs, 1, [&](Scope& pair, llvm::Value* number) {
      auto& in = kernel_.at(pair);
      llvm::Value* last = in.CreateSub(distance, kernel_.constant(1));
      llvm::Value* within = in.CreateAnd(number, last);
      llvm::Value* first = in.CreateShl(in.CreateSub(number, within), kernel_.constant(1));
      llvm::Value* lower = in.CreateAdd(first, mirrored ? in.CreateSub(last, within) : within);
      llvm::Value* upper = in.CreateAdd(in.CreateAdd(first, distance), within);
      const SortEntry a = load(pair, lower),
                      b = mirrored ? reversed(pair, load(pair, upper)) : load(pair, upper);
      llvm::Value* exchange = entries_.before(pair, b, a);
      const SortEntry front = entries_.select(pair, exchange, b, a),
                      back = entries_.select(pair, exchange, a, b);
      store(pair, lower, front);
      store(pair, upper, mirrored ? reversed(pair, back) : back);
    });
  }

  SortEntry reversed(Scope& scope, const SortEntry& entry) {
    if (lanes_ == 1) return entry;
    std::vector<int> lanes(lanes_);
    std::iota(lanes.rbegin(), lanes.rend(), 0);
    return entries_.shuffled(scope, entry, lanes);
  }

  // Lanes `distance` apart, then half as far, down to neighbours; none from 0.
  SortEntry merged_lanes(Scope& scope, SortEntry entry, unsigned distance) {
    for (; distance > 0; distance /= 2) entry = paired(scope, entry, distance, distance);
    return entry;
  }

  // Lanes whose numbers differ by the bits of `change`, of which `upper` is the highest.
  SortEntry paired(Scope& scope, const SortEntry& entry, unsigned change, unsigned upper) {
    std::vector<int> other(lanes_);
    std::vector<llvm::Constant*> is_upper(lanes_);
    for (unsigned lane = 0; lane < lanes_; ++lane) {
      other[lane] = static_cast<int>(lane ^ change);
      is_upper[lane] = kernel_.at(scope).getInt1((lane & upper) != 0);
    }
    const SortEntry partner = entries_.shuffled(scope, entry, other);
    llvm::Value* exchange = entries_.before(scope, partner, entry);
    exchange = kernel_.at(scope).CreateXor(exchange, llvm::ConstantVector::get(is_upper));
    return entries_.select(scope, exchange, partner, entry);
  }

  KernelBuilder& kernel_;
  const SortEntries& entries_;
  const SortArray& array_;
  llvm::Value* vectors_;
  unsigned lanes_;
};

}  // namespace

unsigned sort_lanes(const Target& target) {
  // Without a comparison of vectors of i64 one by one is as good.
  return target.level == Level::Baseline ? 1 : static_cast<unsigned>(target.lanes(8));
}

void emit_sort_network(KernelBuilder& kernel, Scope& scope, const SortEntries& entries,
                       const SortArray& array, llvm::Value* vectors) {
  SortNetwork(kernel, entries, array, vectors).emit(scope);
}

}  // namespace anydim::codegen_cpu
