// One kernel cache under many processes that are killed, and full of damaged files.
//
//   cache_torture share ROUNDS    cold rounds: 16 processes bring every kernel of a fresh folder
//                                 in, each in an order of its own; a random third of them is
//                                 killed (SIGKILL) at a random moment
//   cache_torture damage FILES    as many damaged files: cut, longer, with wrong bytes, exchanged,
//                                 replaced by others, links, folders
//
// No process may ever load anything but the kernel that it asked for, and every file that stays is
// whole. Exits 1 with the first fault.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "runtime/kernel_cache.h"
#include "tests/runtime/temporary_folder.h"

namespace anydim::runtime {
namespace {

constexpr int processes = 16;
constexpr int kernels = 60;

KernelKey key_of(int number) {
  return kernel_key("kernel", fmt::format("region {}", number), "any", "plain", "machine",
                    "generator");
}

// What a compiler would give: different for every number, from a few bytes to some hundred
// thousand.
ir::CompiledKernel kernel_of(int number) {
  std::mt19937 random(static_cast<unsigned>(number));
  ir::CompiledKernel kernel;
  kernel.code.resize(16 + random() % (number % 5 == 0 ? 300000 : 5000));
  for (std::byte& byte : kernel.code) byte = static_cast<std::byte>(random());
  kernel.tasks = ir::Dim::symbol("s0");
  kernel.scratch_bytes = number;
  kernel.resources.code_bytes = static_cast<std::int64_t>(kernel.code.size());
  return kernel;
}

// One process: 0, or 1 where it met a wrong kernel.
int bring_all_in(const std::filesystem::path& folder, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<int> order(kernels);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::shuffle(order, random);
  const KernelCache cache(folder, {});
  for (const int number : order) {
    const ir::CompiledKernel wanted = kernel_of(number);
    const auto found = cache.load(key_of(number));
    if (found && *found != wanted) return 1;
    if (!found) cache.store(key_of(number), wanted);
    const auto again = cache.load(key_of(number));
    if (!again || *again != wanted) return 1;
  }
  cache.trim();
  return 0;
}

void share(int rounds) {
  std::mt19937 random(4);
  int killed = 0;
  for (int round = 0; round < rounds; ++round) {
    const test::TemporaryFolder folder;
    std::vector<pid_t> children;
    std::vector<bool> victim;
    for (int i = 0; i < processes; ++i) {
      const unsigned seed = random();
      const pid_t child = fork();
      if (child < 0) throw std::runtime_error("no further process can be started");
      if (child == 0) _exit(bring_all_in(folder.path() / "cache", seed));
      children.push_back(child);
      victim.push_back(random() % 3 == 0);
    }
    for (std::size_t i = 0; i < children.size(); ++i) {
      if (!victim[i]) continue;
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 8000));
      kill(children[i], SIGKILL);
    }
    for (std::size_t i = 0; i < children.size(); ++i) {
      int status = 0;
      waitpid(children[i], &status, 0);
      const bool fell = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && victim[i];
      if (!fell && !(WIFEXITED(status) && WEXITSTATUS(status) == 0))
        throw std::runtime_error(
            fmt::format("round {}: a process ended with status {:#x}", round, status));
      killed += fell ? 1 : 0;
    }
    std::vector<std::string> warnings;
    const KernelCache cache(folder.path() / "cache",
                            [&](const std::string& warning) { warnings.push_back(warning); });
    for (int number = 0; number < kernels; ++number) {
      const auto found = cache.load(key_of(number));
      if (!found || *found != kernel_of(number))
        throw std::runtime_error(
            fmt::format("round {}: kernel {} is not there as it was made", round, number));
    }
    if (!warnings.empty())
      throw std::runtime_error(fmt::format("round {}: {}", round, warnings[0]));
  }
  fmt::print("{} cold rounds of {} processes, {} of them killed: no failure\n", rounds, processes,
             killed);
}

std::vector<char> content(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// Makes the file say something else; false where it happens to say the same.
bool damage(const std::filesystem::path& file, const std::filesystem::path& other,
            std::mt19937& random) {
  const std::vector<char> before = content(file);
  std::vector<char> after = before;
  const int way = static_cast<int>(random() % 8);
  if (way == 0) {
    after.resize(random() % before.size());
  } else if (way == 1) {
    after.insert(after.end(), 1 + random() % 100, static_cast<char>(random()));
  } else if (way == 2) {
    after[random() % after.size()] ^= static_cast<char>(1 << random() % 8);
  } else if (way == 3) {
    const std::size_t at = random() % after.size(),
                      length = std::min<std::size_t>(after.size() - at, 1 + random() % 4096);
    std::fill_n(after.begin() + static_cast<std::ptrdiff_t>(at), length, '\0');
  } else if (way == 4) {
    after = content(other);
  } else if (way == 5) {
    for (char& byte : after) byte = static_cast<char>(random());
  } else {
    std::filesystem::remove(file);
    if (way == 6) std::filesystem::create_symlink(other, file);
    else std::filesystem::create_directory(file);
    return true;
  }
  std::ofstream(file, std::ios::binary | std::ios::trunc)
      .write(after.data(), static_cast<std::streamsize>(after.size()));
  return after != before;
}

void damaged(int files) {
  std::mt19937 random(6);
  const test::TemporaryFolder folder;
  const KernelCache cache(folder.path() / "cache", {});
  int refused = 0;
  for (int file = 0; file < files;) {
    const int number = static_cast<int>(random() % kernels), other = (number + 1) % kernels;
    for (const int stored : {number, other}) cache.store(key_of(stored), kernel_of(stored));
    std::filesystem::path path, other_path;
    for (const auto& entry : std::filesystem::directory_iterator(cache.folder())) {
      if (entry.path().filename().string().starts_with(to_string(key_of(number))))
        path = entry.path();
      if (entry.path().filename().string().starts_with(to_string(key_of(other))))
        other_path = entry.path();
    }
    if (!damage(path, other_path, random)) continue;
    ++file;
    if (cache.load(key_of(number)))
      throw std::runtime_error(fmt::format("damaged file {} was loaded", path.string()));
    ++refused;
    // A folder in its place stays until somebody removes it; everything else is replaced.
    if (std::filesystem::is_directory(path)) std::filesystem::remove(path);
    cache.store(key_of(number), kernel_of(number));
    const auto healed = cache.load(key_of(number));
    if (!healed || *healed != kernel_of(number))
      throw std::runtime_error(fmt::format("{} was not replaced", path.string()));
  }
  fmt::print("{} damaged files: none loaded, all replaced\n", refused);
}

}  // namespace
}  // namespace anydim::runtime

int main(int count, char** words) {
  try {
    const std::string what = count == 3 ? words[1] : "";
    if (what == "share") anydim::runtime::share(std::stoi(words[2]));
    else if (what == "damage") anydim::runtime::damaged(std::stoi(words[2]));
    else throw std::runtime_error("usage: cache_torture share ROUNDS | damage FILES");
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "cache_torture: {}\n", error.what());
    return 1;
  }
}
