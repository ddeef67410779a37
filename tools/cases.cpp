#include "tools/cases.h"

#include <fmt/format.h>

#include <istream>
#include <new>
#include <nlohmann/json.hpp>
#include <string>

#include "api/anydim.h"
#include "api/tuning_run.h"
#include "tools/output.h"

namespace anydim::tools {

namespace {

void say(const nlohmann::ordered_json& line) {
  put_json(line);
  flush_output();
}

}  // namespace

void run_cases(const RunCase& run, std::istream& in) {
  for (std::string line; std::getline(in, line);) {
    if (line.empty()) continue;
    const nlohmann::json wanted = tuner::parse_json(line);
    if (!wanted.is_object() || !wanted.contains("id"))
      throw Error(ErrorKind::Malformed, "standard input: a case is one line with a JSON object that has an id");
    say({{"begin", wanted["id"]}});
    nlohmann::ordered_json end = {{"end", wanted["id"]}};
    try {
      end.update(run(wanted, [&] { say({{"at", "compiled"}, {"id", wanted["id"]}}); }));
    } catch (const std::bad_alloc&) {
      end["error"] = "out of memory";
      end["exit_code"] = static_cast<int>(ErrorKind::Resource);
    } catch (const nlohmann::json::exception& error) {
      end["error"] = fmt::format("the case is malformed: {}", error.what());
      end["exit_code"] = static_cast<int>(ErrorKind::Malformed);
    } catch (const Error& error) {
      end["error"] = error.what();
      end["exit_code"] = static_cast<int>(error.kind());
    }
    say(end);
    if (end.value("exit_code", 0) == static_cast<int>(ErrorKind::Internal))
      throw Error(ErrorKind::Internal, end["error"].get<std::string>());
  }
}

}  // namespace anydim::tools
