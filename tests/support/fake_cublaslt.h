// A cuBLASLt for tests: the table of functions that runtime opens with dlopen, over a fake GPU. It
// is strict about what a real one would refuse: sizes of attributes, descriptions that do not fit
// together, a workspace that is missing or misaligned. It offers four algorithms, which take 3, 2
// and 2.5 us but for the second, which never runs. An algorithm's first call loads its code, which
// a stream that captures does not allow.
#pragma once

#include <memory>
#include <vector>

#include "runtime/cublaslt_types.h"
#include "tests/support/fake_cuda_driver.h"

namespace anydim::tests {

class FakeCublasLt {
 public:
  // Products run on the streams of `cuda`, and are captured with them; it must outlive the table's
  // last use.
  explicit FakeCublasLt(FakeCuda& cuda);

  // The table; it may outlive this object.
  runtime::cuda::CublasLtFunctions functions() const;

  struct Product {
    std::uint64_t n = 0, m = 0, k = 0;
    int epilogue = 0, type = 0;
    bool turned = false;  // the weight
  };
  std::vector<Product> asked() const;  // products that were enqueued, in order
  int run() const;                     // how many ran, replays included
  int objects() const;     // handles, descriptions, layouts and preferences that were not destroyed
  int heuristics() const;  // how often algorithms were asked for
  // Whether the heuristic has nothing to offer from now on.
  void offer_nothing(bool nothing);
  // The heuristic's first choice is one that never runs from now on.
  void prefer_the_broken();

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace anydim::tests
