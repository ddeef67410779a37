#include "runtime/kernel_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <system_error>
#include <utility>
#include <vector>

#include "ir/file_descriptor.h"

namespace anydim::runtime {

namespace {

constexpr std::string_view kernel_suffix = ".kernel";
constexpr std::string_view temporary_suffix = ".partial";
constexpr std::int64_t largest_kernel_file = std::int64_t{64} << 20;
constexpr std::time_t one_day = 24 * 60 * 60;

std::string reason(int error) { return std::generic_category().message(error); }

std::string file_name(const KernelKey& key) { return to_string(key) + std::string(kernel_suffix); }

bool others_may_write(const struct stat& status) {
  return status.st_uid != geteuid() || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0;
}

struct CacheEntry {
  std::string name;
  std::int64_t bytes = 0;
  std::time_t used = 0;
  bool partial = false;
};

std::vector<CacheEntry> list(int folder) {
  std::vector<CacheEntry> entries;
  const int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* stream = copy < 0 ? nullptr : fdopendir(copy);
  if (stream == nullptr) {
    if (copy >= 0) close(copy);
    return entries;
  }
  while (const dirent* found = readdir(stream)) {
    const std::string name = found->d_name;
    const bool partial = name.ends_with(temporary_suffix);
    struct stat status{};
    if ((!partial && !name.ends_with(kernel_suffix)) ||
        fstatat(folder, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0)
      continue;
    if (S_ISREG(status.st_mode))
      entries.push_back({name, status.st_size, status.st_mtime, partial});
  }
  closedir(stream);
  return entries;
}

}  // namespace

std::filesystem::path default_cache_folder() {
  const auto absolute = [](const char* variable) {
    const char* value = std::getenv(variable);
    const std::filesystem::path path = value == nullptr ? "" : value;
    return path.is_absolute() ? path : std::filesystem::path();
  };
  if (const auto folder = absolute("XDG_CACHE_HOME"); !folder.empty()) return folder / "anydim";
  if (const auto home = absolute("HOME"); !home.empty()) return home / ".cache" / "anydim";
  return {};
}

KernelCache::KernelCache(std::filesystem::path folder, Warning warn, std::int64_t capacity_bytes)
    : folder_(std::move(folder)), warn_(std::move(warn)), capacity_bytes_(capacity_bytes) {
  open_folder();
  if (!usable()) warn_once(fault_);
}

KernelCache::~KernelCache() {
  if (descriptor_ >= 0) close(descriptor_);
}

void KernelCache::open_folder() {
  if (folder_.empty()) {
    fault_ =
        "there is no cache folder (neither XDG_CACHE_HOME nor HOME is an absolute path), so "
        "kernels are not kept";
    return;
  }
  std::error_code error;
  if (folder_.has_parent_path()) std::filesystem::create_directories(folder_.parent_path(), error);
  const auto unusable = [&](const std::string& why) {
    fault_ = fmt::format("cache folder {} {}, so kernels are not kept", folder_.string(), why);
  };
  if (mkdir(folder_.c_str(), S_IRWXU) != 0 && errno != EEXIST)
    return unusable(fmt::format("cannot be made ({})", reason(errno)));
  ir::FileDescriptor opened(open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!opened) return unusable(fmt::format("cannot be opened ({})", reason(errno)));
  struct stat status{};
  if (fstat(opened.number(), &status) != 0)
    return unusable(fmt::format("cannot be examined ({})", reason(errno)));
  if (status.st_uid != geteuid()) return unusable("belongs to another user");
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return unusable("can be written by other users (its mode should be 0700)");
  descriptor_ = opened.release();
}

void KernelCache::warn_once(const std::string& message) const {
  {
    const std::lock_guard lock(mutex_);
    if (!warned_.insert(message).second) return;
  }
  if (warn_) warn_(message);
}

std::optional<ir::CompiledKernel> KernelCache::load(const KernelKey& key) const {
  if (!usable()) return std::nullopt;
  const std::string name = file_name(key);
  const auto damaged = [&](const std::string& why) {
    warn_once(fmt::format("cached kernel {} is ignored: {}", (folder_ / name).string(), why));
    return std::nullopt;
  };
  // Not blocking: a pipe under this name must not hold us up.
  const ir::FileDescriptor file(
      openat(descriptor_, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file) {
    if (errno == ENOENT) return std::nullopt;
    return damaged(fmt::format("it cannot be opened ({})", reason(errno)));
  }
  struct stat status{};
  if (fstat(file.number(), &status) != 0 || !S_ISREG(status.st_mode))
    return damaged("it is no regular file");
  if (others_may_write(status)) return damaged("it belongs to another user or others may write it");
  if (status.st_size > largest_kernel_file) return damaged("it is too large");
  std::vector<std::byte> bytes(static_cast<std::size_t>(status.st_size));
  if (!read_all(file, bytes)) return damaged(fmt::format("it cannot be read ({})", reason(errno)));
  DecodedKernel decoded = decode_kernel(key, bytes);
  if (!decoded.kernel) {
    // A short run ends before a kernel that no call waits for is compiled and stored again, and the
    // next would find the same file. (One that is just being replaced may go too: that is a miss.)
    unlinkat(descriptor_, name.c_str(), 0);
    return damaged(decoded.fault);
  }
  // Time of last use for trim(), at the price of one write a day.
  if (std::time(nullptr) - status.st_mtime > one_day) futimens(file.number(), nullptr);
  return std::move(decoded.kernel);
}

void KernelCache::store(const KernelKey& key, const ir::CompiledKernel& kernel) const {
  if (!usable()) return;
  const std::string name = file_name(key);
  // A thread writes one file at a time, so its number and the time make the name unique, also
  // beside what a killed process of the same number left; a clash with another machine's is
  // refused.
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  const std::string temporary =
      fmt::format("{}.{}.{}.{}{}", name, getpid(), gettid(), now, temporary_suffix);
  const auto failed = [&](int error) {
    unlinkat(descriptor_, temporary.c_str(), 0);
    warn_once(fmt::format("cache folder {} cannot be written ({}), so kernels are not kept",
                          folder_.string(), reason(error)));
  };
  ir::FileDescriptor file(openat(descriptor_, temporary.c_str(),
                                 O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                                 S_IRUSR | S_IWUSR));
  if (!file) return failed(errno);
  if (!write_all(file, encode_kernel(key, kernel)) || fsync(file.number()) != 0)
    return failed(errno);
  if (!file.close_checked()) return failed(errno);
  if (renameat(descriptor_, temporary.c_str(), descriptor_, name.c_str()) != 0)
    return failed(errno);
}

KernelCache::Contents KernelCache::contents() const {
  Contents contents;
  if (!usable()) return contents;
  for (const CacheEntry& entry : list(descriptor_)) {
    if (entry.partial) continue;
    ++contents.files;
    contents.bytes += entry.bytes;
  }
  return contents;
}

void KernelCache::trim() const {
  if (!usable()) return;
  std::vector<CacheEntry> entries = list(descriptor_);
  std::sort(entries.begin(), entries.end(),
            [](const CacheEntry& a, const CacheEntry& b) { return a.used < b.used; });
  std::int64_t total = 0;
  for (const CacheEntry& entry : entries) total += entry.bytes;
  const std::time_t now = std::time(nullptr);
  for (const CacheEntry& entry : entries) {
    const bool abandoned = entry.partial && now - entry.used > one_day;
    if (!abandoned && (entry.partial || total <= capacity_bytes_)) continue;
    if (unlinkat(descriptor_, entry.name.c_str(), 0) == 0) total -= entry.bytes;
  }
}

}  // namespace anydim::runtime
