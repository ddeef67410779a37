#include "codegen_cuda/nvrtc.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "ir/error.h"

namespace anydim::codegen_cuda {

namespace {

using Program = struct ProgramHandle*;
constexpr int success = 0;

constexpr const char* missing =
    "the CUDA compiler library libnvrtc.so.13 was not found; install the CUDA 13 toolkit (package "
    "cuda-nvrtc-13-0) or the Python wheel nvidia-cuda-nvrtc, and set CUDA_PATH or LD_LIBRARY_PATH "
    "to where it lies";

std::vector<std::string> library_paths(const std::string& path) {
  const std::vector<std::string> names{"libnvrtc.so.13", "libnvrtc.so.12"};
  if (!path.empty()) {
    std::error_code ignored;
    if (!std::filesystem::is_directory(path, ignored)) return {path};
    std::vector<std::string> paths;
    for (const std::string& name : names)
      paths.push_back((std::filesystem::path(path) / name).string());
    return paths;
  }
  std::vector<std::string> paths = names;
  for (const char* variable : {"CUDA_PATH", "CUDA_HOME"}) {
    const char* root = std::getenv(variable);
    if (root == nullptr || *root == '\0') continue;
    for (const char* folder : {"lib64", "lib", "targets/x86_64-linux/lib"}) {
      for (const std::string& name : names)
        paths.push_back((std::filesystem::path(root) / folder / name).string());
    }
  }
  return paths;
}

}  // namespace

struct Nvrtc::Functions {
  void* library = nullptr;
  const char* (*get_error_string)(int) = nullptr;
  int (*version)(int*, int*) = nullptr;
  int (*create_program)(Program*, const char*, const char*, int, const char* const*,
                        const char* const*) = nullptr;
  int (*destroy_program)(Program*) = nullptr;
  int (*compile_program)(Program, int, const char* const*) = nullptr;
  int (*get_ptx_size)(Program, std::size_t*) = nullptr;
  int (*get_ptx)(Program, char*) = nullptr;
  int (*get_cubin_size)(Program, std::size_t*) = nullptr;
  int (*get_cubin)(Program, char*) = nullptr;
  int (*get_log_size)(Program, std::size_t*) = nullptr;
  int (*get_log)(Program, char*) = nullptr;

  // NVRTC keeps threads and caches of its own: it is never unloaded.
  ~Functions() = default;

  template <typename Function>
  void load(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (function == nullptr) {
      throw Error(ErrorKind::Resource,
                  "the CUDA compiler library lacks {}; install CUDA 12.4 or newer", name);
    }
  }

  void require(int result, const char* what) const {
    if (result != success)
      throw Error(ErrorKind::Internal, "NVRTC failed to {}: {}", what, get_error_string(result));
  }
};

std::shared_ptr<const Nvrtc> Nvrtc::open(const std::string& path) {
  auto functions = std::make_shared<Functions>();
  for (const std::string& candidate : library_paths(path)) {
    functions->library = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (functions->library != nullptr) break;
  }
  if (functions->library == nullptr) {
    const std::string looked = path.empty() ? std::string() : fmt::format(" (looked at {})", path);
    throw Error(ErrorKind::Resource, missing + looked);
  }
  functions->load(functions->get_error_string, "nvrtcGetErrorString");
  functions->load(functions->version, "nvrtcVersion");
  functions->load(functions->create_program, "nvrtcCreateProgram");
  functions->load(functions->destroy_program, "nvrtcDestroyProgram");
  functions->load(functions->compile_program, "nvrtcCompileProgram");
  functions->load(functions->get_ptx_size, "nvrtcGetPTXSize");
  functions->load(functions->get_ptx, "nvrtcGetPTX");
  functions->load(functions->get_cubin_size, "nvrtcGetCUBINSize");
  functions->load(functions->get_cubin, "nvrtcGetCUBIN");
  functions->load(functions->get_log_size, "nvrtcGetProgramLogSize");
  functions->load(functions->get_log, "nvrtcGetProgramLog");
  int major = 0, minor = 0;
  functions->require(functions->version(&major, &minor), "tell its version");
  auto result = std::make_shared<Nvrtc>();
  result->version_ = fmt::format("{}.{}", major, minor);
  result->minimal_ = major >= 13;
  result->functions_ = std::move(functions);
  return result;
}

NvrtcOutput Nvrtc::compile(const std::string& source, const std::string& name,
                           const std::string& architecture, CudaOutput output) const {
  const Functions& nvrtc = *functions_;
  Program program = nullptr;
  nvrtc.require(nvrtc.create_program(&program, source.c_str(), name.c_str(), 0, nullptr, nullptr),
                "make a program");
  const auto destroy = [&nvrtc](ProgramHandle* handle) { nvrtc.destroy_program(&handle); };
  const std::unique_ptr<ProgramHandle, decltype(destroy)> owner(program, destroy);

  const std::string target = "--gpu-architecture=" + architecture;
  std::vector<const char*> options{target.c_str(), "-std=c++17", "-default-device"};
  // The same code a sixth sooner: without declarations of textures and of the CUDA runtime's
  // functions, none of which generated code names.
  if (minimal_) options.push_back("-minimal");
  if (output == CudaOutput::Cubin)
    options.insert(options.end(), {"--ptxas-options=-v", "--ptxas-options=--warn-on-spills"});
  const int result =
      nvrtc.compile_program(program, static_cast<int>(options.size()), options.data());

  NvrtcOutput produced;
  std::size_t size = 0;
  nvrtc.require(nvrtc.get_log_size(program, &size), "give its messages");
  produced.log.resize(size);
  nvrtc.require(nvrtc.get_log(program, produced.log.data()), "give its messages");
  while (!produced.log.empty() && produced.log.back() == '\0') produced.log.pop_back();
  if (result != success) {
    throw Error(ErrorKind::Internal,
                "internal error: NVRTC rejected the generated kernel {} for {}: {}\n{}", name,
                architecture, nvrtc.get_error_string(result), produced.log);
  }
  const bool cubin = output == CudaOutput::Cubin;
  nvrtc.require((cubin ? nvrtc.get_cubin_size : nvrtc.get_ptx_size)(program, &size),
                "give the code's size");
  produced.code.resize(size);
  auto* bytes = reinterpret_cast<char*>(produced.code.data());
  nvrtc.require((cubin ? nvrtc.get_cubin : nvrtc.get_ptx)(program, bytes), "give its code");
  if (!cubin && !produced.code.empty() && produced.code.back() == std::byte{0})
    produced.code.pop_back();
  return produced;
}

}  // namespace anydim::codegen_cuda
