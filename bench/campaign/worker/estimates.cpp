#include "bench/campaign/worker/estimates.h"

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "codegen_cuda/backend.h"
#include "ir/error.h"
#include "ir/program.h"
#include "ir/text/parse.h"

namespace anydim::campaign {

using Json = nlohmann::ordered_json;

namespace {

using codegen_cuda::CostConstants;

struct CostRow {
  std::string_view name;
  double CostConstants::* place;
};
constexpr CostRow cost_rows[] = {
#define ANYDIM_COST(name, value, what) {#name, &CostConstants::name},
#include "codegen_cuda/cost_constants.def"
#undef ANYDIM_COST
};

double& cost_named(CostConstants& constants, std::string_view name) {
  for (const CostRow& row : cost_rows)
    if (row.name == name) return constants.*row.place;
  throw Error(ErrorKind::Malformed,
              "there is no cost constant {}; codegen_cuda/cost_constants.def lists them", name);
}

}  // namespace

std::shared_ptr<const ir::Backend> with_constants(const ir::Backend& backend,
                                                  const nlohmann::json& constants) {
  return codegen_cuda::with_target(backend, [&](codegen_cuda::CudaTarget& target) {
    for (const auto& [name, given] : constants.items()) {
      double& constant = cost_named(target.costs, name);
      const auto value = given.get<double>();
      if (!(value > 0))
        throw Error(ErrorKind::Malformed, "the cost constant {} is positive, got {}", name, value);
      constant = value;
    }
  });
}

Json constants_of(const ir::Backend& backend) {
  Json constants = Json::object();
  codegen_cuda::with_target(backend, [&](const codegen_cuda::CudaTarget& target) {
    for (const CostRow& row : cost_rows) constants[std::string(row.name)] = target.costs.*row.place;
  });
  return constants;
}

namespace {

std::string product_text(const nlohmann::json& wanted) {
  return fmt::format(
      "fn @main(%x: Tensor[(m, {0}), {2}]) -> Tensor[(m, {1}), {2}] where m in [0, 1048576] {{\n  "
      "%w = constant({2} ({0}, {1}) @random(1))\n"
      "  %b = constant({2} ({1}) @random(2))\n  %p = matmul(%x, %w)\n  %y = add(%p, %b)\n  return "
      "%y\n}}\n",
      wanted.at("k").get<std::int64_t>(), wanted.at("n").get<std::int64_t>(),
      wanted.value("dtype", "bf16"));
}

}  // namespace

ir::Module product_of(const nlohmann::json& wanted) { return ir::parse(product_text(wanted)); }

Json estimates(const CompileTarget& target, const CompileOptions& options,
               const nlohmann::json& wanted) {
  std::map<std::string, ir::Program> programs;  // by text
  std::vector<double> microseconds;
  for (const nlohmann::json& product : wanted.at("products")) {
    const std::string text =
        product.contains("text") ? product.at("text").get<std::string>() : product_text(product);
    if (!programs.contains(text))
      programs.emplace(text, program_for(target, ir::parse(text), options));
    const ir::Program& program = programs.at(text);
    if (program.kernels.size() != 1)
      throw Error(ErrorKind::Unsupported, "case: a product became {} kernels",
                  program.kernels.size());
    const auto keys =
        product.value("keys", std::vector<std::int64_t>{product.at("m").get<std::int64_t>()});
    const ir::Schedule schedule = ir::parse_schedule(product.at("schedule").get<std::string>());
    microseconds.push_back(1e6 *
                           target.backend->estimate(program.kernels[0].region, schedule, keys, 1));
  }
  return {{"estimates_us", microseconds}, {"constants", constants_of(*target.backend)}};
}

}  // namespace anydim::campaign
