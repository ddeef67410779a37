// Outputs of a call as files DIR/NAME.npy.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "api/anydim.h"

namespace anydim {

// NAME with every character outside [A-Za-z0-9._-] replaced by '_', and ".npy".
std::string output_file_name(const std::string& output);

// Throws Error{CommandLine} where two outputs would share a file.
void check_output_names(const std::vector<std::string>& outputs);

// Makes the folder where absent. Every file is written whole under another name and then renamed;
// where anything fails none of the temporary files stays. Throws Error{Write}. Returns the paths.
std::vector<std::filesystem::path> write_outputs(const std::filesystem::path& folder,
                                                 const std::vector<std::string>& names,
                                                 const std::vector<ir::Tensor>& tensors);

// Before long work whose result goes to the file. Throws Error{Write} where its place or folder
// shows already that it cannot be written.
void require_writable(const std::filesystem::path& file);

}  // namespace anydim
