// Device functions (device/NAME.cuh) from a folder in place of those that are built in: a change to
// them is tried where nothing can be built.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>

namespace anydim::codegen_cuda {

struct ReplacedText {
  std::map<std::string, std::string, std::less<>> pieces;  // by name
  std::string identity;                                    // of their names and text
};

// Every *.cuh of the folder. Throws Error{CommandLine} where there is none, or where one is no
// piece that kernels include.
std::shared_ptr<const ReplacedText> read_replaced_text(const std::filesystem::path& folder);

}  // namespace anydim::codegen_cuda
