#include "runtime/cuda_device_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ir/error.h"
#include "ir/shapes/bind.h"
#include "runtime/cuda_memory.h"
#include "runtime/cuda_stream_order.h"

namespace anydim::runtime::cuda {

namespace {

Stream handle_of(DeviceStream stream) { return static_cast<Stream>(stream.handle); }

}  // namespace

TensorMemory::TensorMemory(std::shared_ptr<DeviceContext> context, Address address,
                           std::size_t bytes, std::shared_ptr<const void> owner)
    : DeviceMemory(reinterpret_cast<void*>(address), bytes, context->ordinal(), std::move(owner)),
      context_(std::move(context)) {}

void TensorMemory::download(std::span<std::byte> to, DeviceStream stream) const {
  internal_check(to.size() == bytes(), "a tensor is copied to as many bytes as it has");
  if (to.empty()) return;
  context_->enter();
  context_->check(context_->driver().copy_to_host(to.data(), place(), to.size(), handle_of(stream)),
                  "copying a tensor from the GPU");
  wait(stream);
}

void TensorMemory::upload(std::span<const std::byte> from, DeviceStream stream) const {
  internal_check(from.size() == bytes(), "a tensor is filled from as many bytes as it has");
  if (from.empty()) return;
  context_->enter();
  context_->check(
      context_->driver().copy_to_device(place(), from.data(), from.size(), handle_of(stream)),
      "copying a tensor to the GPU");
  wait(stream);
}

void TensorMemory::wait(DeviceStream stream) const {
  context_->check(context_->driver().stream_synchronize(handle_of(stream)),
                  "waiting for the copy of a tensor");
}

void TensorMemory::order(DeviceStream ahead, DeviceStream behind) const {
  context_->enter();
  order_streams(*context_, ahead, behind);
}

void TensorMemory::wait_for_device() const {
  context_->enter();
  context_->check(context_->driver().context_synchronize(), "waiting for the GPU");
}

// ---- Memory of a caller's ----

namespace {

class Claim {
 public:
  Claim(const DeviceContext& context, ir::DType dtype, std::span<const std::int64_t> dims,
        Address address)
      : context_(context), shape_(ir::shape_text(dtype, dims)), address_(address) {}

  template <typename... Parts>
  [[noreturn]] void refuse(fmt::format_string<Parts...> text, Parts&&... parts) const {
    throw Error(ErrorKind::Inputs, "a tensor {} on GPU {} at {:#x}: {}", shape_, context_.ordinal(),
                address_, fmt::format(text, std::forward<Parts>(parts)...));
  }

  // An address may begin a range that the next one continues: an address range that is mapped piece
  // by piece is told of by the piece.
  void test(std::size_t bytes) const {
    for (std::size_t covered = 0; covered < bytes;) {
      const Address at = address_ + covered;
      test_place(at, covered, bytes);
      Address start = 0;
      std::size_t length = 0;
      if (attribute(start, pointer_range_start, at) != success ||
          attribute(length, pointer_range_bytes, at) != success || start + length <= at)
        refuse("the driver does not tell how many bytes lie there");
      covered += start + length - at;
    }
  }

 private:
  template <typename Value>
  Result attribute(Value& value, PointerAttribute which, Address at) const {
    return context_.driver().pointer_attribute(&value, which, at);
  }

  void test_place(Address at, std::size_t covered, std::size_t bytes) const {
    unsigned kind = 0;
    if (attribute(kind, pointer_memory_kind, at) != success || kind != device_memory_kind) {
      if (covered > 0)
        refuse("{} bytes lie there: expected at least the {} that the tensor takes", covered,
               bytes);
      refuse("this is no device memory: expected what cuMemAlloc, cudaMalloc or the like gave");
    }
    int device = context_.ordinal();
    if (attribute(device, pointer_device, at) != success || device != context_.ordinal())
      refuse("this is memory of GPU {}: expected memory of the GPU that the model runs on", device);
    Context owner = nullptr;
    if (attribute(owner, pointer_context, at) == success && owner != nullptr && !context_.is(owner))
      refuse(
          "this is memory of another context of the GPU: expected its primary context, which "
          "the CUDA runtime uses");
  }

  const DeviceContext& context_;
  std::string shape_;
  Address address_;
};

}  // namespace

ir::Tensor foreign_tensor(const std::shared_ptr<DeviceContext>& context, ir::DType dtype,
                          std::vector<std::int64_t> dims, void* pointer,
                          std::shared_ptr<const void> owner) {
  const auto address = reinterpret_cast<Address>(pointer);
  const auto bytes = static_cast<std::size_t>(ir::byte_count(dtype, dims));
  const Claim claim(*context, dtype, dims, address);
  if (bytes > 0 && address == 0) claim.refuse("expected the address of {} bytes, got null", bytes);
  if (address % ir::size_of(dtype) != 0)
    claim.refuse("expected a multiple of {}, the size of an element", ir::size_of(dtype));
  context->enter();
  claim.test(bytes);
  return {dtype, std::move(dims),
          std::make_shared<const TensorMemory>(context, address, bytes, std::move(owner))};
}

// ---- Memory of results ----

DeviceBlock::DeviceBlock(std::shared_ptr<DeviceContext> context, std::size_t bytes,
                         std::string_view what)
    : context_(std::move(context)) {
  context_->enter();
  Address address = 0;
  // What the driver takes at least: blocks are kept and serve other sizes.
  const std::size_t taken = aligned(std::max<std::size_t>(bytes, 1));
  context_->check(context_->driver().memory_allocate(&address, taken), what);
  data_ = reinterpret_cast<std::byte*>(address);
  bytes_ = taken;
}

DeviceBlock::~DeviceBlock() {
  if (data_ == nullptr || !context_->enter_quietly()) return;
  // This waits for all that is under way, on the caller's streams too.
  context_->driver().memory_free(reinterpret_cast<Address>(data_));
}

DeviceBlock::DeviceBlock(DeviceBlock&& other) noexcept
    : context_(std::move(other.context_)), data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

DeviceBlock& DeviceBlock::operator=(DeviceBlock&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

std::shared_ptr<std::byte> ResultBlocks::take(std::size_t bytes, const void* stream) {
  const auto found =
      std::ranges::find(streams_, stream, [](const auto& one) { return one->stream; });
  if (found != streams_.end()) {
    std::rotate(found, found + 1, streams_.end());
  } else {
    if (streams_.size() == most_streams) streams_.erase(streams_.begin());
    const auto make = [shared = context_](std::size_t wanted) {
      return DeviceBlock(shared, wanted, "results that stay on the GPU");
    };
    streams_.push_back(
        std::make_unique<OfStream>(OfStream{stream, BlockPoolOf<DeviceBlock>(kept_, make)}));
  }
  return streams_.back()->blocks.take(bytes);
}

}  // namespace anydim::runtime::cuda
