#include "tuner/cases.h"

#include <fmt/format.h>

#include <istream>
#include <new>
#include <nlohmann/json.hpp>
#include <string>

#include "ir/error.h"
#include "tuner/json.h"

namespace anydim::tuner {

namespace {

void put_line(const nlohmann::ordered_json& value, std::FILE* out) {
  const std::string line =
      value.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  if (std::fwrite(line.data(), 1, line.size(), out) != line.size() || std::fflush(out) != 0)
    throw Error(ErrorKind::Write, "standard output cannot be written");
}

}  // namespace

void run_cases(const RunCase& run, std::istream& in, std::FILE* out) {
  const auto say = [out](const nlohmann::ordered_json& value) { put_line(value, out); };
  for (std::string line; std::getline(in, line);) {
    if (line.empty()) continue;
    const nlohmann::json wanted = parse_json(line);
    if (!wanted.is_object() || !wanted.contains("id"))
      throw Error(ErrorKind::Malformed,
                  "standard input: a case is one line with a JSON object that has an id");
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

}  // namespace anydim::tuner
