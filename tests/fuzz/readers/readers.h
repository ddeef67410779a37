// What reads bytes of others, each as a function of any bytes: a fuzzer's targets.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace anydim::fuzz {

struct Reader {
  std::string_view name;  // also of its folder of seeds
  // Returns where the bytes are read, or refused as they should be; ends the process where they
  // bring out a fault of ours.
  void (*read)(std::span<const std::byte> bytes);
};

std::span<const Reader> readers();
const Reader* find_reader(std::string_view name);  // null: there is none

}  // namespace anydim::fuzz
