#include "tests/support/pass_fixture.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ir/text/parse.h"

namespace anydim::tests {

using namespace ir;

namespace {

void run(Module& module, const std::vector<std::string>& names,
         const ir::Backend* backend = nullptr) {
  passes::PipelineOptions options;
  options.verify = true;
  passes::PassContext context{.options = options, .backend = backend};
  passes::run_passes(module, context, names);
}

}  // namespace

Module after_passes(const std::string& text, const std::vector<std::string>& names) {
  Module module = parse(text);
  run(module, names);
  return module;
}

Module fused(Module module, const ir::Backend* backend) {
  std::vector<std::string> names;
  for (const passes::Pass& pass : passes::pipeline_passes()) {
    names.emplace_back(pass.name);
    if (pass.name == "fuse") break;
  }
  run(module, names, backend);
  return module;
}

void expect_close(const std::vector<Tensor>& got, const std::vector<Tensor>& expected,
                  double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].dtype(), expected[i].dtype()) << "output " << i;
    ASSERT_EQ(got[i].dims(), expected[i].dims()) << "output " << i;
    for (std::int64_t e = 0; e < got[i].elements(); ++e) {
      if (!is_float(got[i].dtype())) {
        ASSERT_EQ(got[i].integer_at(e), expected[i].integer_at(e))
            << "output " << i << ", element " << e;
        continue;
      }
      double a = got[i].real_at(e), b = expected[i].real_at(e);
      if (std::isnan(b) ? std::isnan(a) : a == b) continue;
      ASSERT_LE(std::abs(a - b), tolerance * std::max(1.0, std::abs(b)))
          << "output " << i << ", element " << e;
    }
  }
}

Tensor sample(DType dtype, std::vector<std::int64_t> dims, unsigned seed, std::int64_t below) {
  Tensor tensor(dtype, std::move(dims));
  std::uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    auto bits = static_cast<std::int64_t>(state >> 33);
    if (is_float(dtype)) tensor.set_real(i, static_cast<double>(bits % 4001 - 2000) / 1000);
    else tensor.set_integer(i, dtype == DType::Bool ? bits % 2 : bits % below);
  }
  return tensor;
}

}  // namespace anydim::tests
