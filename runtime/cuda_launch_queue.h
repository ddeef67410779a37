// The launches of one session in the order of one stream, with what they share: the argument
// buffer, the kernels' workspace, and the copies of results back.
//
// A session adds the launches of a call as it is told of them, prepares those that wait, with sizes
// and addresses of its choosing, sends their arguments to the device and issues them. Used by one
// thread at a time. Calls on a caller's stream whose results stay on the device are still under way
// when finish() returns, several at once.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/cuda_argument_buffer.h"
#include "runtime/cuda_device_memory.h"
#include "runtime/cuda_kernel.h"
#include "runtime/cuda_memory.h"
#include "runtime/cuda_stream_order.h"
#include "runtime/device.h"

namespace anydim::runtime::cuda {

// The host walks the program from its first instruction to its last and decides nothing but sizes.
bool is_straight(const ir::Program& program);

class LaunchQueue {
 public:
  // Throws Error{Resource}. `program` outlives the queue.
  LaunchQueue(std::shared_ptr<DeviceContext> context, const ir::Program& program);
  ~LaunchQueue();  // waits for what is under way
  LaunchQueue(const LaunchQueue&) = delete;
  LaunchQueue& operator=(const LaunchQueue&) = delete;

  // A launch of the call.
  struct Launch {
    const ir::Code::Launch* launch = nullptr;
    std::shared_ptr<const LoadedKernel> loaded;
    std::size_t row = 0;  // of the argument buffer
    const CudaKernel& kernel() const;
  };
  // One that is ready to be issued, any number of times.
  struct Step {
    Launch of;
    std::int64_t blocks = 0;
    std::vector<Address> buffers;  // of the region
    std::vector<PreparedLaunch> launches;
    void move(std::size_t launch, std::size_t buffer, Address address) {
      launches[launch].move(buffer, address);
      buffers[buffer] = address;
    }
  };
  using AddressOf = std::function<Address(std::int32_t buffer)>;  // of Code::buffers

  const std::shared_ptr<DeviceContext>& context() const { return context_; }
  Stream stream() const { return stream_.handle; }
  ArgumentBuffer& arguments() { return arguments_; }
  // The inputs that the program's launches read, without offsets: their sizes are the call's.
  const std::vector<ArgumentBuffer::Input>& read_inputs() const { return read_inputs_; }

  // ---- A call ----

  // As DeviceSession::begin; `inputs` live until finish() returns. At most `most_under_way` calls
  // are, with this one. What a call that was broken off had under way is waited for.
  void begin(const std::vector<ir::Tensor>& inputs, const StreamCall* call,
             std::size_t most_under_way);
  void break_off() noexcept;
  void collect(bool wait);
  // Waits for all calls under way, and leaves what they came to for collect(): before what they use
  // is given up.
  void settle();
  // The same, and nobody hears what they came to.
  void stop() noexcept;
  // Where an input lies on the device; null: on the host.
  const TensorMemory* given(std::int32_t input) const {
    return given_[static_cast<std::size_t>(input)];
  }
  // One element of an input; waits for it where it lies on the device.
  ir::Tensor input_element(const ir::Code::Buffer& buffer, ir::DType dtype, std::int64_t element);
  // Where result `output` of the call may be computed at once; 0: nowhere in particular. finish()
  // copies it from where it is else.
  Address room_for(std::size_t output, std::span<const std::int64_t> slots);
  // In the order of the stream.
  void copy(Address to, Address from, std::size_t bytes);
  // The entry's slots, once its leaves are known: messages about the call name the symbols' values.
  void note_symbols(std::span<const std::int64_t> slots);

  void add(const LaunchWork& work);
  // Added and not sent yet.
  const std::vector<Launch>& waiting() const { return waiting_; }
  std::span<const std::int64_t> extents(const Launch& launch) const {
    return extents(launch, arguments_.turn());
  }
  // True where the workspace has another address now.
  bool reserve_workspace(std::span<const CudaKernel::Sizes> sizes, MemoryBudget& budget);
  // What waits, with the workspace and the argument buffer where they are now. `sizes`: one a
  // launch.
  std::vector<Step> prepare(std::span<const CudaKernel::Sizes> sizes, const AddressOf& address_of);
  // One launch that waits, over these buffers of its region.
  Step prepare(const Launch& one, const CudaKernel::Sizes& sizes, std::vector<Address> buffers);
  // Copies the arguments of what waits to the device, and the inputs with the first copy of a call.
  // What waited counts as issued from then on.
  void send(std::span<const ArgumentBuffer::Input> inputs);
  // On the queue's stream. The first launch of a kernel anywhere is waited for, and recorded ones,
  // and all that is ahead of one that is observed.
  void issue(std::vector<Step>& steps);
  // On any stream, so many times, and waits for nothing: while the stream is captured, or for
  // measuring.
  void enqueue(std::vector<Step>& steps, Stream stream, int times = 1);
  // On the queue's stream while it is captured: launches learn what they are captured as.
  void capture(std::vector<Step>& steps);
  // As DeviceContext::check, of anything done for the call: where a wait of one of its launches ran
  // out, that is what failed. An empty `doing`: no one launch is known to have failed.
  void check(Result result, std::string_view doing) const;

  // Waits for all that was issued; then every row of arguments is free. Throws what the first
  // failing device check found (Error{Inputs}).
  void wait();
  // Results of the call, and its end as of wait(), or the call left under way.
  std::vector<ir::Tensor> finish(std::span<const std::int64_t> slots, const AddressOf& address_of);

  void record(bool wanted) { recording_ = wanted; }
  void observe(DeviceSession::LaunchObserver observer) { observer_ = std::move(observer); }
  // What an observer is told of.
  void read(const void* address, std::span<std::byte> to);
  // Launches are issued one by one, for what is to be learned of each.
  bool apart() const { return recording_ || observer_; }
  const std::vector<LaunchTiming>& timings() const { return timings_; }

 private:
  struct OwnStream {  // so that memory freed in the stream's order goes before it
    explicit OwnStream(std::shared_ptr<DeviceContext> context);
    ~OwnStream();
    std::shared_ptr<DeviceContext> context;
    Stream handle = nullptr;
  };
  // A call until it has ended.
  struct Call {
    std::size_t turn = 0;
    std::vector<std::int64_t> leaves{};  // the entry's first slots
    std::vector<Launch> issued{};        // since the last wait
    std::vector<ir::Tensor> inputs{};    // that lie on the device
  };
  // Where a result goes.
  struct Target {
    StreamCall::Place::Kind kind = StreamCall::Place::Kind::Host;
    Address address = 0;  // but for Host
    std::vector<std::int64_t> dims;
    std::size_t bytes = 0;
    std::shared_ptr<const void> owner;
  };
  std::span<const std::int64_t> extents(const Launch& launch, std::size_t turn) const {
    return arguments_.extents(turn, launch.row, launch.launch->extents.size());
  }
  void find_given();
  bool waits_for_end() const;
  const Target& target(std::size_t output, std::span<const std::int64_t> slots);
  void choose_place(Target& target, std::size_t output);
  ir::Tensor hand_over(std::size_t output, std::span<const std::int64_t> slots,
                       const AddressOf& address_of);
  ir::Tensor to_host(const ir::Code::Output& output, const Target& target, Address from);
  void leave_under_way();
  // Throws what the first of these calls' device checks found, if any did: while nothing is under
  // way.
  void report(const std::vector<Call>& calls);
  void fail_if_a_wait_ran_out(const Call& call, Result result) const;
  std::string describe(const Launch& launch) const {
    return launch.kernel().describe(extents(launch));
  }
  // `behind_kernel`: the stream's last operation is a launch; whether it is now. `apart`: no launch
  // of the step may start before the one ahead of it has ended.
  bool enqueue(Step& step, Stream stream, bool behind_kernel, bool apart);
  void run_checked(Step& step);
  void show(const Step& step);
  // "running a call with n = 7 on the GPU, ..."
  std::string call_text() const;
  std::string symbols_text(const Call& call) const;
  void mark(std::size_t event);
  void read_marks(const std::vector<Step>& steps);
  void synchronize();

  std::shared_ptr<DeviceContext> context_;
  const Driver& driver_;
  const ir::Program& program_;
  OwnStream stream_;
  StreamOrder order_;
  ArgumentBuffer arguments_;
  StreamMemory workspace_;
  BlockPoolOf<PinnedBlock> output_blocks_;
  ResultBlocks result_blocks_;
  TensorMapCache maps_;
  std::vector<ArgumentBuffer::Input> read_inputs_;
  bool checked_ = false;  // some kernel reports

  // What the call at work has given.
  const std::vector<ir::Tensor>* inputs_ = nullptr;
  const StreamCall* stream_call_ = nullptr;
  std::vector<const TensorMemory*> given_;      // by input
  std::vector<std::optional<Target>> targets_;  // by result
  std::vector<Launch> waiting_;
  Call call_;
  bool in_call_ = false;        // the stream may still use the caller's memory
  bool waits_ = true;           // finish() waits for the end
  bool reads_on_host_ = false;  // a result is copied from the caller's host memory

  std::deque<Call> under_way_;  // the oldest first

  DeviceSession::LaunchObserver observer_;
  bool recording_ = false;
  std::vector<LaunchTiming> timings_;
  std::vector<Event> events_;  // one before and one behind every recorded step
};

}  // namespace anydim::runtime::cuda
