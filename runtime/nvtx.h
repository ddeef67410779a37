// Ranges for NVIDIA's profilers (Nsight), by the protocol of NVTX 3: a profiler that watches this
// process names a library in the environment, which is opened and told where to put its functions.
// Nothing is linked, and nothing happens where no profiler watches.
#pragma once

namespace anydim::runtime {

class NvtxTool {
 public:
  // The library that NVTX_INJECTION64_PATH names, opened the first time; null where none is named
  // or it does not take part. Any thread.
  static const NvtxTool* watching();

  // Ranges of the calling thread; they nest.
  void push(const char* name) const;
  void pop() const;
};

// Open as long as this lives. `tool` may be null.
class NvtxRange {
 public:
  NvtxRange(const NvtxTool* tool, const char* name) : tool_(tool) {
    if (tool_ != nullptr) tool_->push(name);
  }
  ~NvtxRange() {
    if (tool_ != nullptr) tool_->pop();
  }
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;

 private:
  const NvtxTool* tool_;
};

}  // namespace anydim::runtime
