// libFuzzer's entry: `fuzz_readers --reader=NAME [libFuzzer's options] FOLDER...`.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string_view>

#include "tests/fuzz/readers/readers.h"

namespace {

const anydim::fuzz::Reader* chosen = nullptr;

}  // namespace

// libFuzzer itself ignores options that begin with two dashes.
extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  constexpr std::string_view option = "--reader=";
  for (int i = 1; i < *count; ++i) {
    const std::string_view argument = (*arguments)[i];
    if (argument.starts_with(option))
      chosen = anydim::fuzz::find_reader(argument.substr(option.size()));
  }
  if (chosen != nullptr) return 0;
  std::fputs("usage: fuzz_readers --reader=NAME [options of libFuzzer] FOLDER...; readers are",
             stderr);
  for (const anydim::fuzz::Reader& reader : anydim::fuzz::readers())
    std::fprintf(stderr, " %.*s", static_cast<int>(reader.name.size()), reader.name.data());
  std::fputs("\n", stderr);
  std::exit(2);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  chosen->read(std::as_bytes(std::span(data, size)));
  return 0;
}
