#include "runtime/cuda_memory.h"

#include <mutex>
#include <utility>

#include "ir/error.h"

namespace anydim::runtime::cuda {

StreamMemory::StreamMemory(StreamMemory&& other) noexcept
    : context_(other.context_), stream_(other.stream_), address_(std::exchange(other.address_, 0)),
      bytes_(std::exchange(other.bytes_, 0)) {}

StreamMemory::~StreamMemory() {
  if (address_ == 0 || !context_->enter_quietly()) return;
  context_->driver().memory_free_async(address_, stream_);
}

bool StreamMemory::reserve(std::size_t bytes, std::string_view what) {
  if (bytes <= bytes_) return false;
  if (address_ != 0) {
    bytes_ = 0;
    context_->check(context_->driver().memory_free_async(std::exchange(address_, 0), stream_),
                    what);
  }
  context_->check(context_->driver().memory_allocate_async(&address_, bytes, stream_), what);
  bytes_ = bytes;
  return true;
}

PinnedBlock::PinnedBlock(std::shared_ptr<DeviceContext> context, std::size_t bytes)
    : context_(std::move(context)) {
  context_->enter();
  void* address = nullptr;
  // Whole pages at least: blocks are kept and reused for other sizes.
  const std::size_t rounded = (bytes + 4095) / 4096 * 4096 + (bytes == 0 ? 4096 : 0);
  if (const Result result = context_->driver().host_allocate(&address, rounded, host_memory_mapped);
      result != success) {
    if (result != out_of_memory)
      context_->fail(result, "taking host memory for copies from and to the GPU");
    throw Error(ErrorKind::Resource,
                "out of memory: the system gives no more pages that the GPU can copy to; give "
                "smaller inputs");
  }
  data_ = static_cast<std::byte*>(address);
  bytes_ = rounded;
}

PinnedBlock::~PinnedBlock() {
  if (data_ == nullptr || !context_->enter_quietly()) return;
  context_->driver().host_free(data_);
}

Address PinnedBlock::device_address() const {
  Address address = 0;
  context_->check(context_->driver().host_device_address(&address, data_, 0),
                  "mapping host memory for the GPU");
  return address;
}

PinnedBlock::PinnedBlock(PinnedBlock&& other) noexcept
    : context_(std::move(other.context_)), data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

PinnedBlock& PinnedBlock::operator=(PinnedBlock&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

namespace {

class Constants : public ConstantStore {
 public:
  explicit Constants(std::shared_ptr<DeviceContext> context) : context_(std::move(context)) {
    context_->enter();
    context_->check(context_->driver().stream_create(&stream_, stream_non_blocking),
                    "opening a stream");
  }
  ~Constants() override {
    if (!context_->enter_quietly()) return;
    for (const Address address : addresses_) context_->driver().memory_free(address);
    context_->driver().stream_destroy(stream_);
  }

  void* keep(ir::Tensor& tensor) override {
    const std::span<const std::byte> bytes = tensor.bytes();
    context_->enter();
    const Driver& driver = context_->driver();
    Address address = 0;
    context_->check(driver.memory_allocate(&address, std::max<std::size_t>(bytes.size(), 1)),
                    "the model's weights");
    const std::lock_guard lock(mutex_);
    addresses_.push_back(address);
    if (!bytes.empty()) {
      context_->check(driver.copy_to_device(address, bytes.data(), bytes.size(), stream_),
                      "copying weights to the GPU");
      context_->check(driver.stream_synchronize(stream_), "copying weights to the GPU");
    }
    tensor = {};
    return reinterpret_cast<void*>(address);
  }

 private:
  std::shared_ptr<DeviceContext> context_;
  Stream stream_ = nullptr;
  std::mutex mutex_;
  std::vector<Address> addresses_;
};

}  // namespace

std::unique_ptr<ConstantStore> make_constants(std::shared_ptr<DeviceContext> context) {
  return std::make_unique<Constants>(std::move(context));
}

}  // namespace anydim::runtime::cuda
