// Pseudo-random constants that are the same on every machine: @random(seed) in the text form.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "ir/tensor.h"

namespace anydim::ir {

// One block of Philox4x32 with 10 rounds (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as
// easy as 1, 2, 3", 2011).
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                    std::array<std::uint32_t, 2> key);

// Element i comes from word w = i mod 4 of the block whose counter is (i div 4, 64-bit FNV-1a hash
// of `name`), each as low and high 32 bits, under the key `seed`. Floats: ((w >> 8) - 2^23) *
// 2^-27, exact in f32 and uniform in [-0.0625, 0.0625), the size of a trained weight; f16 and bf16
// round it to nearest even. Integers: w mod 128. Bool: w mod 2.
// The origin keeps seed and name. Throws as Tensor does where the size overflows or memory is
// short.
Tensor random_tensor(DType dtype, std::vector<std::int64_t> dims, std::uint64_t seed,
                     std::string_view name);

}  // namespace anydim::ir
