// What the launches of a call read beside their tensors, in one block, and what they report.
//
// The block has a row for every launch (its extents) and the call's inputs behind all rows. It lies
// in device memory and, pinned, on the host, where rows are written; small inputs travel with the
// rows in one copy. Each call under way has host memory of its own, its turn's. Error slots lie in
// host memory that kernels write to, so that they can be read when a trap has ended the context;
// calls share them, and what one reports stays until it is taken. Used by one thread, in the order
// of one stream.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ir/backend.h"
#include "ir/tensor.h"
#include "runtime/cuda_memory.h"
#include "runtime/cuda_stream_order.h"

namespace anydim::runtime::cuda {

class ArgumentBuffer {
 public:
  struct Input {
    std::int32_t input = 0;   // of Code::inputs
    std::int32_t buffer = 0;  // of Code::buffers
    std::size_t offset = 0;   // in the block
  };

  // Room for `rows` launches of at most `most_extents` extents. Throws Error{Resource}.
  ArgumentBuffer(std::shared_ptr<DeviceContext> context, Stream stream, std::size_t rows,
                 std::size_t most_extents);

  // A call begins: nothing of it has been sent, and the device is done with this turn's rows.
  void begin_call(std::size_t turn);
  std::size_t turn() const { return turn_; }
  // The device is done with every row.
  void free_rows() { used_ = sent_ = 0; }
  bool full() const { return used_ == rows_; }
  // The next free row, for a launch: its extents are these.
  std::size_t add(std::span<const std::int64_t> extents);
  std::span<const std::int64_t> extents(std::size_t turn, std::size_t row,
                                        std::size_t count) const {
    return {extents_of(turn, row), count};
  }
  Address error_address(std::size_t row) const {
    return errors_address_ + row * sizeof(ir::KernelError);
  }
  Address extents_address(std::size_t row) const { return block_.address() + row * row_bytes_; }
  // As the device left it; good once the stream has been waited for, or has failed.
  const ir::KernelError& error(std::size_t row) const { return slots()[row]; }
  // While nothing is under way: no slot reports anything.
  void clear_errors();
  // The next free row, for a number of at most 8 bytes that the stream copies from the host.
  const std::byte* keep(std::span<const std::byte> number);

  // Gives inputs of so many bytes their offsets. True where the block has another address now.
  bool place(std::span<Input> inputs, std::span<const std::int64_t> bytes);
  Address address(const Input& input) const { return block_.address() + input.offset; }
  // Copies what the device lacks: new rows, and the inputs with the first copy of a call, but for
  // those in device memory. Gives the first failure. `stage`: no input is read once this returns,
  // whatever memory it lies in.
  [[nodiscard]] Result send(std::span<const Input> inputs, const std::vector<ir::Tensor>& tensors,
                            bool stage);

 private:
  ir::KernelError* slots() const { return reinterpret_cast<ir::KernelError*>(errors_.data()); }
  std::int64_t* extents_of(std::size_t turn, std::size_t row) const;
  std::size_t next_row();
  // Bytes of the block, and where they lie in this turn's host memory.
  struct Run {
    std::size_t begin = 0, end = 0, staged = 0;
  };
  Result copy(const Run& run);
  void find_runs(std::span<const Input> inputs, const std::vector<ir::Tensor>& tensors);
  Result send_staged(std::span<const Input> inputs, const std::vector<ir::Tensor>& tensors);
  void make_room(std::size_t bytes);

  std::shared_ptr<DeviceContext> context_;
  Stream stream_;
  std::size_t rows_, row_bytes_, bytes_of_rows_;
  // by turn, made when first used: as the block, with room for small inputs
  std::array<PinnedBlock, most_calls_under_way> host_;
  PinnedBlock errors_;  // a slot a row
  Address errors_address_;
  StreamMemory block_;
  std::size_t turn_ = 0;
  std::size_t used_ = 0, sent_ = 0;  // rows, from the first on
  bool inputs_sent_ = false;
  std::vector<Run> runs_;  // of the call at work
};

}  // namespace anydim::runtime::cuda
