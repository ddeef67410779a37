#include "codegen_cuda/cost_constants.h"

#include <fmt/format.h>

#include "ir/error.h"

namespace anydim::codegen_cuda {

namespace {

struct Row {
  std::string_view name;
  double CostConstants::* place;
};
constexpr Row rows[] = {
#define ANYDIM_COST(name, value, what) {#name, &CostConstants::name},
#include "codegen_cuda/cost_constants.def"
#undef ANYDIM_COST
};

}  // namespace

std::vector<std::pair<std::string_view, double>> list(const CostConstants& constants) {
  std::vector<std::pair<std::string_view, double>> all;
  for (const Row& row : rows) all.emplace_back(row.name, constants.*row.place);
  return all;
}

void set(CostConstants& constants, std::string_view name, double value) {
  for (const Row& row : rows) {
    if (row.name != name) continue;
    if (!(value > 0))
      throw Error(ErrorKind::Malformed,
                  fmt::format("the cost constant {} is positive, got {}", name, value));
    constants.*row.place = value;
    return;
  }
  throw Error(
      ErrorKind::Malformed,
      fmt::format("there is no cost constant {}; codegen_cuda/cost_constants.def lists them",
                  name));
}

}  // namespace anydim::codegen_cuda
