// A region's kernel as PTX, run on the interpreter beside the reference evaluator. For tests of
// kernel kinds, and for mutation tests.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codegen_cuda/kernel_kind.h"
#include "ir/backend.h"
#include "ir/module.h"
#include "ir/tensor.h"
#include "tests/ptx/interpreter.h"
#include "tests/support/region_fixture.h"

namespace anydim::codegen_cuda::testing {

using Symbols = tests::SymbolValues;

using tests::TestRegion;
// `weights`: parameter positions.
std::shared_ptr<const TestRegion> make_region(const std::string& text,
                                              std::vector<std::uint32_t> weights = {});

// The part named, as the interpreter plays it: two multiprocessors, so that few tiles make several
// waves.
CudaTarget small_target(const std::string& part);

struct KernelCase {
  std::shared_ptr<const TestRegion> region;
  std::string source, ptx;
  std::vector<ir::DeviceLaunch> launches;
  ir::Dim workspace_bytes;
};
KernelCase build_case(const std::shared_ptr<const TestRegion>& region, const CudaTarget& target,
                      const KernelKind& kind, const ir::Bucket& bucket,
                      const ir::Schedule& schedule, bool checked = false);
using tests::bucket_of;

struct CaseRun {
  std::vector<ir::Tensor> outputs;
  ir::KernelError error;
  std::string findings;  // what the interpreter reports; empty: nothing
  std::uint64_t instructions = 0;
};
struct CaseOptions {
  ptx::MachineOptions machine{};
  // Symbols at which buffers, grids and tensor maps are made, as a captured graph has them; what
  // lies behind the actual extents is NaN. Empty: as the actual ones.
  Symbols capacity{};
};
// `module`: of the case's PTX, or a mutant of it. Fresh memory each time; safe from several threads
// at once.
CaseRun run_case(const KernelCase& kernel, const ptx::Module& module, const Symbols& symbols,
                 const std::vector<ir::Tensor>& inputs, const CaseOptions& options = {});

// Integers in [-3, 3] (exact in every dtype, and their sums in f32), dims at the given symbols.
std::vector<ir::Tensor> integer_inputs(const TestRegion& region, const Symbols& symbols,
                                       std::uint32_t seed = 1);
// Uniform in [-1, 1) (floats), as above (others).
std::vector<ir::Tensor> real_inputs(const TestRegion& region, const Symbols& symbols,
                                    std::uint32_t seed = 1);
using tests::reference;
// Empty where both agree: bit for bit, or within tolerance * (1 + |expected|). Else the first
// difference.
std::string compare(const std::vector<ir::Tensor>& got, const std::vector<ir::Tensor>& expected,
                    double tolerance = 0);

// Runs the case at `symbols` with integers and says what is wrong; empty: nothing. The form of
// function that mutation tests take.
std::string check_case(const KernelCase& kernel, const ptx::Module& module, const Symbols& symbols,
                       const CaseOptions& options = {}, double tolerance = 0);

}  // namespace anydim::codegen_cuda::testing
