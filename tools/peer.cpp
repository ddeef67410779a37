#include "tools/peer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "api/npy.h"
#include "api/output_files.h"

namespace anydim::tools {

namespace {

// Answers questions of one line each, by the protocol of tuner/worker_process.h.
constexpr const char* script = R"py(
import json, sys, time
try:
    import numpy, onnxruntime
except ImportError as error:
    missing = str(error)
else:
    missing = ""
def settle():
    """Waits, a second at most, until threads of the pool sleep: they spin for tens of milliseconds after a call, on a processor that the other side needs."""
    for _ in range(100):
        used = time.process_time()
        time.sleep(0.01)
        if time.process_time() - used < 0.002:
            break
session = feeds = names = None
for line in sys.stdin:
    asked = json.loads(line)
    print(json.dumps({"begin": asked["id"]}), flush=True)
    said = {"end": asked["id"]}
    try:
        if missing:
            said["missing"] = missing
        elif asked["do"] == "load":
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = asked["threads"]
            options.log_severity_level = 3
            session = onnxruntime.InferenceSession(asked["model"], options, providers=["CPUExecutionProvider"])
            said["version"] = onnxruntime.__version__
        elif asked["do"] == "run":
            # A seed of random numbers is an input of ours alone.
            known = {one.name for one in session.get_inputs()}
            feeds = {name: numpy.load(file) for name, file in asked["inputs"] if name in known}
            names = [name for name, _ in asked["outputs"]]
            for result, (_, file) in zip(session.run(names, feeds), asked["outputs"]):
                numpy.save(file, numpy.asarray(result))
        else:
            began = time.perf_counter()
            for _ in range(asked["calls"]):
                session.run(names, feeds)
            said["seconds"] = time.perf_counter() - began
            settle()
    except Exception as error:
        said["failed"] = f"{type(error).__name__}: {error}"
    print(json.dumps(said), flush=True)
)py";

}  // namespace

Peer::Folder::Folder() {
  std::string name = (std::filesystem::temp_directory_path() / "anydim_compare_XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr)
    throw Error(ErrorKind::Write, "{}: cannot be made: {}", name, std::strerror(errno));
  path = name;
}

Peer::Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

Peer::Peer(const std::string& python, const std::string& model, int threads)
    : python_(python), process_({"/usr/bin/env", python, "-c", script}) {
  version_ = ask({{"do", "load"},
                  {"model", std::filesystem::absolute(model).string()},
                  {"threads", threads}})
                 .value("version", "");
}

nlohmann::json Peer::ask(const nlohmann::json& question) {
  constexpr double longest_seconds = 3600;
  nlohmann::json asked = question;
  asked["id"] = 1;
  const tuner::CaseEnd end =
      process_.run(asked, {.first_seconds = longest_seconds, .then_seconds = longest_seconds});
  const auto none = [&](const std::string& why) {
    return Error(ErrorKind::Resource,
                 "compare needs ONNX Runtime in '{}' ({}): install it with `{} -m pip install "
                 "onnxruntime`, or name another interpreter with --python",
                 ir::printable(python_), ir::printable(why), ir::printable(python_));
  };
  if (end.status != tuner::CaseEnd::Status::Ended) {
    if (version_.empty()) throw none("there is no such program, or it ended at once");
    throw Error(ErrorKind::Resource,
                "ONNX Runtime's process ended (exit code {}, signal {}) amid a call", end.exit_code,
                end.signal);
  }
  if (end.said.contains("missing")) throw none(end.said.value("missing", ""));
  if (end.said.contains("failed"))
    throw Error(ErrorKind::Unsupported, "ONNX Runtime: {}",
                ir::printable_message(end.said.value("failed", "")));
  return end.said;
}

std::vector<ir::Tensor> Peer::run(const std::vector<InputInfo>& names,
                                  const std::vector<ir::Tensor>& inputs,
                                  const std::vector<std::string>& outputs) {
  // Numbers for names, which need not be fit for files.
  nlohmann::json given = nlohmann::json::array(), wanted = nlohmann::json::array();
  std::vector<std::string> numbered;
  for (std::size_t i = 0; i < inputs.size(); ++i) numbered.push_back(fmt::format("in{}", i));
  const std::vector<std::filesystem::path> files = write_outputs(folder_.path, numbered, inputs);
  for (std::size_t i = 0; i < files.size(); ++i)
    given.push_back({names[i].name, files[i].string()});
  for (std::size_t i = 0; i < outputs.size(); ++i)
    wanted.push_back(
        {outputs[i], (folder_.path / output_file_name(fmt::format("out{}", i))).string()});
  ask({{"do", "run"}, {"inputs", given}, {"outputs", wanted}});
  std::vector<ir::Tensor> results;
  for (const nlohmann::json& one : wanted) results.push_back(read_npy(one[1].get<std::string>()));
  return results;
}

double Peer::time(std::int64_t calls) {
  return ask({{"do", "time"}, {"calls", calls}}).value("seconds", 0.0);
}

}  // namespace anydim::tools
