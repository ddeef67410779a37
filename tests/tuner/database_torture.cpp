// The database under writers that are killed and writes that fail.
//
//   database_torture kills N     N writers, each killed (SIGKILL) at a random moment, opening and
//                                migrating included
//   database_torture full N      until N writes were refused, since the file may grow by a random
//                                number of bytes only
//   database_torture faults N    until N writes were refused to writers under fiu-run (libfiu),
//                                whose writes and syncs fail at random: no space, or a fault of
//                                the device
//
// After each: SQLite finds nothing wrong, every batch that a writer told to be committed is there
// whole, and nothing else but at most the one whose commit it could not tell any more. Exits 1 with
// the first fault.
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "ir/error.h"
#include "tests/runtime/temporary_folder.h"
#include "tests/tuner/integrity.h"
#include "tuner/database.h"

extern char** environ;

namespace anydim::tuner {
namespace {

constexpr std::int64_t batch_rows = 3;
const Environment environment{
    .device = "d", .target = "t", .driver = "", .generator = "g", .precision = "f32", .threads = 1};

void write_batch(Database& database, std::int64_t batch) {
  std::vector<Measurement> rows;
  for (std::int64_t i = 0; i < batch_rows; ++i)
    rows.push_back({.region = "region " + std::string(300, 'r'),
                    .keys = {batch, i},
                    .schedule = {"s", {}},
                    .seconds = 1,
                    .detail = std::string(200, 'd')});
  database.record(environment, rows);
}

// Number of batches, after checking that the file is whole.
std::int64_t checked_batches(const std::filesystem::path& file) {
  const Database database(file, Database::Access::Read);
  if (const std::string fault = integrity(file); !fault.empty())
    throw std::runtime_error("integrity: " + fault);
  const std::int64_t rows = database.measurement_count();
  if (rows % batch_rows != 0)
    throw std::runtime_error(fmt::format("{} rows are no whole batches", rows));
  const std::int64_t batches = rows / batch_rows;
  if (batches > 0 &&
      !database.find(environment, "region " + std::string(300, 'r'),
                     std::vector<std::int64_t>{batches - 1, batch_rows - 1}, {"s", {}}))
    throw std::runtime_error(fmt::format("batch {} is missing among {}", batches - 1, batches));
  return batches;
}

// Libfiu also fails and cuts what goes to the parent, which is not on trial.
void tell(std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = write(STDOUT_FILENO, text.data(), text.size());
    if (put > 0) text.remove_prefix(static_cast<std::size_t>(put));
    else if (put < 0 && errno == EPIPE) std::_Exit(0);
  }
}

constexpr std::string_view refused_word = "refused\n";

// Commits batch after batch and tells each on standard output, refused writes too; a batch whose
// write failed is tried again, `tries` in all.
int write_forever(const std::filesystem::path& file, std::int64_t batch, int tries) {
  const auto once = [&](auto action) {
    for (;;) {
      try {
        action();
        return true;
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::Internal) {
          fmt::print(stderr, "{}\n", error.what());
          std::_Exit(3);
        }
        tell(refused_word);
        if (--tries <= 0) return false;
      }
    }
  };
  std::optional<Database> database;
  if (!once([&] { database.emplace(file, Database::Access::Write); })) return 0;
  for (std::int64_t limit = batch + 40;; ++batch) {
    if (tries > 0 && batch == limit) return 0;
    // A commit that failed may have happened all the same: the same rows again change nothing.
    if (!once([&] { write_batch(*database, batch); })) return 0;
    tell(fmt::format("{}\n", batch + 1));
  }
}

struct Writer {
  pid_t pid = -1;
  int output = -1;
};

Writer start(std::vector<std::string> words) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("pipe failed");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  posix_spawn_file_actions_addclose(&actions, ends[1]);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  Writer writer{.pid = -1, .output = ends[0]};
  const int fault =
      posix_spawnp(&writer.pid, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (fault != 0)
    throw std::runtime_error(fmt::format("{} does not start: {}", words[0], std::strerror(fault)));
  return writer;
}

struct Told {
  std::int64_t batches = 0, refused = 0;
};

// The last batch that it told, `before` where it told none, and how many writes were refused;
// returns after its end.
Told finish(const Writer& writer, std::int64_t before, int expected_signal) {
  std::string told;
  char piece[4096];
  for (ssize_t got; (got = read(writer.output, piece, sizeof piece)) > 0;)
    told.append(piece, static_cast<std::size_t>(got));
  close(writer.output);
  int status = 0;
  waitpid(writer.pid, &status, 0);
  const bool as_expected = expected_signal != 0
                               ? WIFSIGNALED(status) && WTERMSIG(status) == expected_signal
                               : WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (!as_expected)
    throw std::runtime_error(fmt::format("a writer ended with status {:#x}", status));
  Told result{.batches = before};
  for (std::size_t begin = 0, end; (end = told.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    const std::string_view line = std::string_view(told).substr(begin, end + 1 - begin);
    if (line == refused_word) ++result.refused;
    else result.batches = std::stoll(std::string(line));
  }
  return result;
}

void check(std::int64_t there, std::int64_t told) {
  if (there < told || there > told + 1)
    throw std::runtime_error(fmt::format("{} batches are there, {} were told", there, told));
}

std::string own_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

void kills(int rounds) {
  std::mt19937 random(1);
  std::int64_t batches = 0, killed_early = 0;
  std::optional<test::TemporaryFolder> folder;
  for (int round = 0; round < rounds; ++round) {
    // A new file now and then, so that making it is killed too.
    if (round % 50 == 0) folder.emplace(), batches = 0;
    const std::filesystem::path file = folder->path() / "tuning.db";
    const Writer writer =
        start({own_program(), "writer", file.string(), std::to_string(batches), "0"});
    // Every other one lives for several commits, the rest is met while it opens the file or makes
    // its first.
    std::this_thread::sleep_for(
        std::chrono::microseconds(random() % (round % 2 == 0 ? 20000 : 150000)));
    kill(writer.pid, SIGKILL);
    const std::int64_t told = finish(writer, batches, SIGKILL).batches;
    if (told == batches) ++killed_early;
    if (!std::filesystem::exists(file)) continue;
    const std::int64_t there = checked_batches(file);
    check(there, told);
    batches = there;
  }
  fmt::print(
      "{} kills, {} of them before the writer's first commit: no batch lost, no fault found\n",
      rounds, killed_early);
}

void full(int wanted) {
  std::mt19937 random(2);
  signal(SIGXFSZ, SIG_IGN);
  test::TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "tuning.db";
  std::optional<Database> database(std::in_place, file, Database::Access::Write);
  std::int64_t batches = 0, refused = 0, rounds = 0;
  rlimit unlimited{};
  getrlimit(RLIMIT_FSIZE, &unlimited);
  for (; refused < wanted; ++rounds) {
    rlimit limited = unlimited;
    // About what a commit takes: half of them find room.
    limited.rlim_cur = std::filesystem::file_size(file) + random() % 16000;
    if (rounds % 5 == 0) limited.rlim_cur = random() % 3000;  // already the journal has no room
    setrlimit(RLIMIT_FSIZE, &limited);
    try {
      write_batch(*database, batches);
      ++batches;
    } catch (const Error& error) {
      ++refused;
      if (error.kind() != ErrorKind::Write)
        throw std::runtime_error(fmt::format("the wrong error: {}", error.what()));
    }
    setrlimit(RLIMIT_FSIZE, &unlimited);
    // Whoever opens the file next repairs it; the writer goes on as well.
    if (rounds % 10 == 0) database.reset(), database.emplace(file, Database::Access::Write);
    const std::int64_t there = checked_batches(file);
    if (there != batches)
      throw std::runtime_error(
          fmt::format("{} batches are there, {} were committed", there, batches));
  }
  fmt::print("{} writes, {} refused: nothing lost, nothing half written\n", rounds, refused);
}

void faults(int wanted) {
  std::mt19937 random(3);
  test::TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "tuning.db";
  {
    Database(file, Database::Access::Write);
  }
  std::int64_t batches = 0, refused = 0, writers = 0;
  for (; refused < wanted; ++writers) {
    const int probability = 1 + static_cast<int>(random() % 60);
    const int number = writers % 2 == 0 ? ENOSPC : EIO;
    const char* what = writers % 4 < 2 ? "posix/io/rw/*" : "posix/io/sync/*";
    const Writer writer =
        start({"fiu-run", "-x", "-c",
               fmt::format("enable_random name={},probability={:.3f},failinfo={}", what,
                           0.001 * probability, number),
               own_program(), "writer", file.string(), std::to_string(batches), "1000"});
    const Told told = finish(writer, batches, 0);
    const std::int64_t there = checked_batches(file);
    check(there, told.batches);
    refused += told.refused;
    batches = there;
  }
  fmt::print(
      "{} writers with failing writes and syncs, {} writes refused, {} batches committed: none "
      "lost, no fault found\n",
      writers, refused, batches);
}

int run(const std::vector<std::string>& words) {
  if (words.size() == 5 && words[1] == "writer")
    return write_forever(words[2], std::stoll(words[3]), std::stoi(words[4]));
  if (words.size() != 3) throw std::runtime_error("usage: database_torture kills|full|faults N");
  if (words[1] == "kills") kills(std::stoi(words[2]));
  else if (words[1] == "full") full(std::stoi(words[2]));
  else if (words[1] == "faults") faults(std::stoi(words[2]));
  else throw std::runtime_error("usage: database_torture kills|full|faults N");
  return 0;
}

}  // namespace
}  // namespace anydim::tuner

int main(int count, char** words) {
  try {
    return anydim::tuner::run({words, words + count});
  } catch (const std::exception& error) {
    fmt::print(stderr, "database_torture: {}\n", error.what());
    return 1;
  }
}
