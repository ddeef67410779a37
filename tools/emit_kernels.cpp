#include "tools/emit_kernels.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string>

#include "api/anydim.h"

extern char** environ;

namespace anydim::tools {

namespace {

namespace fs = std::filesystem;

std::string disassembler() {
  const char* named = std::getenv("ANYDIM_NVDISASM");
  return named != nullptr && *named != '\0' ? named : "nvdisasm";
}

// The cubin lies beside the text while it is read.
void disassemble(const std::vector<std::byte>& cubin, const fs::path& file) {
  const fs::path image = fs::path(file).replace_extension(".cubin");
  tuner::write_text_file(image, {reinterpret_cast<const char*>(cubin.data()), cubin.size()});
  const std::string program = disassembler();
  std::vector<std::string> words{program, "-c", image.string()};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  pid_t process = 0;
  const int failed =
      posix_spawnp(&process, program.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  if (failed == 0) waitpid(process, &status, 0);
  std::error_code ignored;
  fs::remove(image, ignored);
  if (failed == 0 && status == 0) return;
  fs::remove(file, ignored);
  throw Error(ErrorKind::Resource,
              "{} cannot read machine code ({}); install it (PyPI nvidia-cuda-nvdisasm) and name "
              "it by ANYDIM_NVDISASM",
              program,
              failed != 0 ? std::strerror(failed) : fmt::format("it ended with status {}", status));
}

std::string_view ending(EmittedCode code) {
  switch (code) {
    case EmittedCode::Cuda: return "cu";
    case EmittedCode::Ptx: return "ptx";
    case EmittedCode::Sass: return "sass";
  }
  internal_error("a form of code is one of the enumerators");
}

}  // namespace

EmittedCode parse_emitted_code(std::string_view word) {
  for (const auto& [name, code] : {std::pair{"cuda", EmittedCode::Cuda},
                                   {"ptx", EmittedCode::Ptx},
                                   {"sass", EmittedCode::Sass}})
    if (word == name) return code;
  throw Error(ErrorKind::CommandLine, "--emit {}: expected cuda, ptx or sass, and a folder", word);
}

std::vector<fs::path> emit_kernels(const GpuPlan& plan, EmittedCode code, const fs::path& folder) {
  std::error_code fault;
  fs::create_directories(folder, fault);
  if (fault) throw Error(ErrorKind::Write, "{}: {}", folder.string(), fault.message());
  std::set<std::size_t> wanted;
  if (plan.launches) {
    for (const PlannedLaunch& launch : *plan.launches) wanted.insert(launch.kernel);
  } else {
    for (std::size_t i = 0; i < plan.kernels.size(); ++i) wanted.insert(i);
  }
  std::vector<fs::path> files;
  std::map<std::string, int> rows;
  for (std::size_t i = 0; i < plan.kernels.size(); ++i) {
    const PlannedKernel& kernel = plan.kernels[i];
    const int row = rows[kernel.row.region]++;
    if (!wanted.contains(i) || kernel.source.empty()) continue;
    const fs::path file = folder / fmt::format("{}_{}.{}", kernel.row.region, row, ending(code));
    if (code == EmittedCode::Sass) disassemble(cubin_of(plan, kernel), file);
    else
      tuner::write_text_file(file,
                             code == EmittedCode::Cuda ? kernel.source : ptx_of(plan, kernel));
    files.push_back(file);
  }
  return files;
}

}  // namespace anydim::tools
