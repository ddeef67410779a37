// The launches of one session in the order of one stream, with what they share: the argument
// buffer,
// the kernels' workspace, and the copies of results back.
//
// A session adds the launches of a call as it is told of them, prepares those that wait, with sizes
// and addresses of its choosing, sends their arguments to the device and issues them. Used by one
// thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/cuda_argument_buffer.h"
#include "runtime/cuda_kernel.h"
#include "runtime/cuda_memory.h"
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
    std::vector<PreparedLaunch> launches;
  };
  using AddressOf = std::function<Address(std::int32_t buffer)>;  // of Program::buffers

  const std::shared_ptr<DeviceContext>& context() const { return context_; }
  Stream stream() const { return stream_.handle; }
  ArgumentBuffer& arguments() { return arguments_; }
  // The inputs that the program's launches read, without offsets: their sizes are the call's.
  const std::vector<ArgumentBuffer::Input>& read_inputs() const { return read_inputs_; }

  // ---- A call ----

  // `inputs` live until finish() returns. What a call that was broken off had under way is waited
  // for.
  void begin(const std::vector<ir::Tensor>& inputs);
  // One element of an input, read on the host.
  ir::Tensor input_element(const ir::Code::Buffer& buffer, ir::DType dtype,
                           std::int64_t element) const;
  // The entry's slots, once its leaves are known: messages about the call name the symbols' values.
  void note_symbols(std::span<const std::int64_t> slots);

  void add(const LaunchWork& work);
  // Added and not sent yet.
  const std::vector<Launch>& waiting() const { return waiting_; }
  std::span<const std::int64_t> extents(const Launch& launch) const {
    return arguments_.extents(launch.row, launch.launch->extents.size());
  }
  // True where the workspace has another address now.
  bool reserve_workspace(std::span<const CudaKernel::Sizes> sizes, MemoryBudget& budget);
  // What waits, with the workspace and the argument buffer where they are now. `sizes`: one a
  // launch.
  std::vector<Step> prepare(std::span<const CudaKernel::Sizes> sizes, const AddressOf& address_of);
  // Copies the arguments of what waits to the device, and the inputs with the first copy of a call.
  // What waited counts as issued from then on.
  void send(std::span<const ArgumentBuffer::Input> inputs);
  // On the queue's stream. The first launch of a kernel anywhere is waited for, and recorded ones.
  void issue(std::vector<Step>& steps);
  // On any stream, and waits for nothing: while the stream is captured, or for measuring.
  void enqueue(std::vector<Step>& steps, Stream stream);
  // As DeviceContext::check, of anything done for the call: where a wait of one of its launches ran
  // out, that is what failed. An empty `doing`: no one launch is known to have failed.
  void check(Result result, std::string_view doing) const;

  // Waits for all that was issued; then every row of arguments is free. Throws what the first
  // failing device check found (Error{Inputs}).
  void wait();
  // Results of the call, and the end of it, as wait().
  std::vector<ir::Tensor> finish(std::span<const std::int64_t> slots, const AddressOf& address_of);

  void record(bool wanted) { recording_ = wanted; }
  bool recording() const { return recording_; }
  const std::vector<LaunchTiming>& timings() const { return timings_; }

 private:
  struct OwnStream {  // so that memory freed in the stream's order goes before it
    explicit OwnStream(std::shared_ptr<DeviceContext> context);
    ~OwnStream();
    std::shared_ptr<DeviceContext> context;
    Stream handle = nullptr;
  };
  std::string describe(const Launch& launch) const {
    return launch.kernel().describe(extents(launch));
  }
  // `behind_kernel`: the stream's last operation is a launch; whether it is now. `apart`: no launch
  // of the step may start before the one ahead of it has ended.
  bool enqueue(Step& step, Stream stream, bool behind_kernel, bool apart);
  void run_twin(Step& step);
  // "running a call with n = 7 on the GPU, ..."
  std::string call_text() const;
  void mark(std::size_t event);
  void read_marks(const std::vector<Step>& steps);
  void synchronize();

  std::shared_ptr<DeviceContext> context_;
  const Driver& driver_;
  const ir::Program& program_;
  OwnStream stream_;
  ArgumentBuffer arguments_;
  StreamMemory workspace_;
  BlockPoolOf<PinnedBlock> output_blocks_;
  TensorMapCache maps_;
  std::vector<ArgumentBuffer::Input> read_inputs_;
  bool checked_ = false;  // some kernel reports

  // Of the call at work.
  const std::vector<ir::Tensor>* inputs_ = nullptr;
  std::vector<std::int64_t> leaves_;      // the entry's first slots
  std::vector<Launch> waiting_, issued_;  // issued: since the last wait
  bool in_call_ = false;                  // the stream may still read host memory

  bool recording_ = false;
  std::vector<LaunchTiming> timings_;
  std::vector<Event> events_;  // one before and one behind every recorded step
};

}  // namespace anydim::runtime::cuda
