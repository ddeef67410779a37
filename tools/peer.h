// ONNX Runtime, as a process of Python that has its package: the one form in which it is installed
// nearly everywhere, and which needs no header, no library path and no common ABI.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "api/anydim.h"
#include "api/tuning_run.h"

namespace anydim::tools {

class Peer {
 public:
  // `python`: an interpreter. Throws Error{Resource} saying what to install where it or its package
  // is missing, Error{Unsupported} where ONNX Runtime does not take the model.
  Peer(const std::string& python, const std::string& model, int threads);

  const std::string& version() const { return version_; }
  // Runs the model once on inputs by name; gives the results of these names. Throws
  // Error{Unsupported} with what ONNX Runtime says where it fails.
  std::vector<ir::Tensor> run(const std::vector<InputInfo>& names,
                              const std::vector<ir::Tensor>& inputs,
                              const std::vector<std::string>& outputs);
  // Seconds of so many calls with the inputs of run().
  double time(std::int64_t calls);

 private:
  // A folder of its own among temporary ones; it is removed with all that is in it.
  struct Folder {
    Folder();  // Throws Error{Write}.
    ~Folder();
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    std::filesystem::path path;
  };
  nlohmann::json ask(const nlohmann::json& question);

  std::string python_, version_;
  Folder folder_;
  tuner::WorkerProcess process_;
};

}  // namespace anydim::tools
