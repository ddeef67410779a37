// Kernels on disk, one self-checking file each (runtime/kernel_file.h), shared by any number of
// processes.
//
// The folder belongs to the user with mode 0700. Nothing here is ever an error: a folder that is
// foreign or that others may write, and a file that is damaged, foreign or someone else's, is a
// miss; a folder that cannot be written keeps nothing. Each such fault is told once through the
// warning callback, and a file of ours that is damaged is removed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "ir/backend.h"
#include "runtime/kernel_file.h"

namespace anydim::runtime {

// One clear sentence; may be called from any thread.
using Warning = std::function<void(const std::string&)>;

// $XDG_CACHE_HOME/anydim, else $HOME/.cache/anydim; empty where neither is an absolute path.
std::filesystem::path default_cache_folder();

class KernelCache {
 public:
  static constexpr std::int64_t default_capacity_bytes = std::int64_t{1} << 30;

  // Opens the folder, making it (and folders above it) where absent.
  KernelCache(std::filesystem::path folder, Warning warn,
              std::int64_t capacity_bytes = default_capacity_bytes);
  ~KernelCache();
  KernelCache(const KernelCache&) = delete;
  KernelCache& operator=(const KernelCache&) = delete;

  const std::filesystem::path& folder() const { return folder_; }
  bool usable() const { return descriptor_ >= 0; }
  const std::string& fault() const { return fault_; }  // why it isn't usable, one sentence

  // Both may be called from several threads at once.
  std::optional<ir::CompiledKernel> load(const KernelKey& key) const;
  void store(const KernelKey& key, const ir::CompiledKernel& kernel) const;

  struct Contents {
    std::int64_t files = 0;
    std::int64_t bytes = 0;
  };
  Contents contents() const;
  // Removes the files used longest ago until the rest is under the capacity, and what broken-off
  // writers left.
  void trim() const;

 private:
  void open_folder();
  void warn_once(const std::string& message) const;

  std::filesystem::path folder_;
  Warning warn_;
  std::int64_t capacity_bytes_;
  int descriptor_ = -1;
  std::string fault_;
  mutable std::mutex mutex_;
  mutable std::set<std::string> warned_;
};

}  // namespace anydim::runtime
