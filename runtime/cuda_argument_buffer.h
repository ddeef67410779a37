// What the launches of a call read beside their tensors, in one block, and what they report.
//
// The block has a row for every launch (its extents) and the call's inputs behind all rows. It lies
// in device memory and, pinned, on the host, where rows are written; small inputs travel with the
// rows in one copy. Error slots lie in host memory that kernels write to, so that they can be read
// when a trap has ended the context. Used by one thread, in the order of one stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ir/backend.h"
#include "ir/tensor.h"
#include "runtime/cuda_memory.h"

namespace anydim::runtime::cuda {

class ArgumentBuffer {
 public:
  struct Input {
    std::int32_t input = 0;   // of Program::inputs
    std::int32_t buffer = 0;  // of Program::buffers
    std::size_t offset = 0;   // in the block
  };

  // Room for `rows` launches of at most `most_extents` extents. Throws Error{Resource}.
  ArgumentBuffer(std::shared_ptr<DeviceContext> context, Stream stream, std::size_t rows,
                 std::size_t most_extents);

  // The device is done with every row.
  void free_rows() { used_ = sent_ = 0; }
  bool full() const { return used_ == rows_; }
  // The next free row, for a launch: its extents are these and its error slot reports nothing.
  std::size_t add(std::span<const std::int64_t> extents);
  std::span<const std::int64_t> extents(std::size_t row, std::size_t count) const {
    return {extents_of(row), count};
  }
  Address error_address(std::size_t row) const {
    return errors_address_ + row * sizeof(ir::KernelError);
  }
  Address extents_address(std::size_t row) const { return block_.address() + row * row_bytes_; }
  // As the device left it; good once the stream has been waited for, or has failed.
  const ir::KernelError& error(std::size_t row) const { return slots()[row]; }
  // The next free row, for a number of at most 8 bytes that the stream copies from the host.
  const std::byte* keep(std::span<const std::byte> number);

  // Gives inputs of so many bytes their offsets. True where the block has another address now.
  bool place(std::span<Input> inputs, std::span<const std::int64_t> bytes);
  Address address(const Input& input) const { return block_.address() + input.offset; }
  // A call begins: the device has none of its inputs.
  void forget_inputs() { inputs_sent_ = false; }
  // Copies what the device lacks: new rows, and the inputs with the first copy of a call. Gives the
  // first failure.
  [[nodiscard]] Result send(std::span<const Input> inputs, const std::vector<ir::Tensor>& tensors);

 private:
  ir::KernelError* slots() const { return reinterpret_cast<ir::KernelError*>(errors_.data()); }
  std::int64_t* extents_of(std::size_t row) const;
  std::size_t next_row();
  Result copy(std::size_t begin, std::size_t end);

  std::shared_ptr<DeviceContext> context_;
  Stream stream_;
  std::size_t rows_, row_bytes_, bytes_of_rows_;
  PinnedBlock host_;    // as the block, with room for small inputs
  PinnedBlock errors_;  // a slot a row
  Address errors_address_;
  StreamMemory block_;
  std::size_t used_ = 0, sent_ = 0;  // rows, from the first on
  bool inputs_sent_ = false;
};

}  // namespace anydim::runtime::cuda
