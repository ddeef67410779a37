// NVRTC, NVIDIA's run-time compiler of CUDA C++, opened at run time.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace anydim::codegen_cuda {

enum class CudaOutput : unsigned char {
  Cubin,  // machine code of one architecture
  Ptx,    // the text that NVRTC hands to its assembler
};

struct NvrtcOutput {
  std::vector<std::byte> code;
  // warnings, and for cubins the assembler's report of registers, spills and memory
  std::string log;
};

class Nvrtc {
 public:
  // Looks at `path` (the library or the folder that holds it), where it is not empty, and nowhere
  // else; else for libnvrtc.so.13 and .12 on the loader's path, then below $CUDA_PATH and
  // $CUDA_HOME. Throws Error{Resource} that names the package to install.
  static std::shared_ptr<const Nvrtc> open(const std::string& path = {});

  std::string version() const { return version_; }  // "13.0"

  // Compiles for `architecture` ("sm_90a"). `name` is for messages. Safe to call from several
  // threads at once. Throws Error{Internal} with the compiler's messages: sources are generated, so
  // a fault in one is ours.
  NvrtcOutput compile(const std::string& source, const std::string& name,
                      const std::string& architecture, CudaOutput output) const;

 private:
  struct Functions;
  std::shared_ptr<const Functions> functions_;
  std::string version_;
  bool minimal_ = false;  // it has the option of that name
};

}  // namespace anydim::codegen_cuda
