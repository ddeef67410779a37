// Small kernels in PTX for tests: buffers in, launch, buffers out.
#pragma once

#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/ptx/interpreter.h"

namespace anydim::ptx::testing {

// A parameter block put together in the order of the kernel's .param list.
class Parameters {
 public:
  template <class T>
  Parameters& add(T value) {
    const std::size_t place = (bytes_.size() + alignof(T) - 1) / alignof(T) * alignof(T);
    bytes_.resize(place + sizeof(T));
    std::memcpy(bytes_.data() + place, &value, sizeof(T));
    return *this;
  }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

template <class T>
DeviceAddress upload(Machine& machine, const std::vector<T>& values) {
  const DeviceAddress address = machine.allocate(values.size() * sizeof(T));
  machine.write(address, std::as_bytes(std::span(values)));
  return address;
}

template <class T>
std::vector<T> download(const Machine& machine, DeviceAddress address, std::size_t count) {
  std::vector<T> values(count);
  machine.read(address, std::as_writable_bytes(std::span(values)));
  return values;
}

// A kernel named `test` with pointers p0, p1, ... as parameters, each loaded into the register of
// its name. Registers at hand: %r0..31, %rd0..31, %f0..31, %fd0..15, %h0..15 (16 bits), %q0..15
// (predicates); %t holds %tid.x.
std::string kernel_text(std::string_view body, int pointers, std::string_view module_scope = {});

}  // namespace anydim::ptx::testing
