// usage: embed MODEL: runs an encoder with the inputs input_ids and attention_mask on two texts of
// different lengths.
#include <anydim/anydim.hpp>
#include <cstdio>

namespace {

void embed(const anydim::Model& model) {
  const std::vector<std::int64_t> ids{2, 7, 11, 5, 3, 2, 9, 3, 0, 0},
      mask{1, 1, 1, 1, 1, 1, 1, 1, 0, 0};
  anydim::Context context(model);
  const anydim::Results results =
      context.run({{"input_ids", {2, 5}, ids}, {"attention_mask", {2, 5}, mask}});
  for (std::size_t i = 0; i < results.size(); ++i) {
    const anydim::Tensor tensor = results.at(i);
    std::printf("%s (", tensor.name());
    const char* comma = "";
    for (const std::int64_t dim : tensor.dims()) {
      std::printf("%s%lld", comma, static_cast<long long>(dim));
      comma = ", ";
    }
    std::printf(") =");
    const auto* elements = tensor.data<float>();
    for (std::size_t e = 0; e < 4; ++e) std::printf(" %.5g", static_cast<double>(elements[e]));
    std::printf("\n");
  }
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) throw anydim::Error(ANYDIM_BAD_ARGUMENT, "give it one model");
  embed(anydim::Model(argv[1], {{"threads", "2"}}));
} catch (const anydim::Error& error) {
  std::fprintf(stderr, "embed: %s\n", error.what());
  return static_cast<int>(error.kind());
}
