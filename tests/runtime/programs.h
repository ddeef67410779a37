// Programs made by hand, small enough to be checked by eye.
#pragma once

#include <memory>

#include "ir/program.h"
#include "tests/runtime/fake_backend.h"

namespace anydim::test {

// out[n] = 2 * w * x[n] for f32 x of n in [0, 4096]: a launch of "scale" (x, w -> t) into the
// arena, one of "copy" (t -> out). w = 3 is a constant in the layout "doubled". "scale" has a
// bucket [0, 16] with schedule "small" and a general entry with schedule "plain".
ir::Program scale_program();
// Kernels for it: one task for each 16 elements; "scale" uses its scratch.
std::shared_ptr<FakeBackend> scale_backend();

// total = sum of counts[0 .. 2), fetched from an i64 input that the host reads, gives y: f32[total]
// filled with 7; the second stage sizes y after the fetch.
ir::Program fetch_program();
std::shared_ptr<FakeBackend> fetch_backend();

// scale_program(), and y: as many sevens as the first two elements of x come to, a number that a
// launch computes and the host fetches from the device.
ir::Program device_fetch_program();
std::shared_ptr<FakeBackend> device_fetch_backend();

// out[n] = table[index[n]] of a table of 10 rows; an index outside sets check 0.
ir::Program gather_program();
std::shared_ptr<FakeBackend> gather_backend();

ir::Tensor ramp(std::int64_t elements);  // f32 0, 1, 2, ...

}  // namespace anydim::test
