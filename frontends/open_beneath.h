// Opening a file that must lie inside a folder.
#pragma once

#include <string>

#include "frontends/file_mapping.h"

namespace anydim::frontends {

// Opens `relative` for reading without ever leaving the folder open as `folder`: by
// openat2(RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS), which follows links that stay inside. A closed
// descriptor with errno set where that fails: EXDEV means that the path leaves the folder. Kernels
// without openat2 take open_without_links.
FileDescriptor open_beneath(const FileDescriptor& folder, const std::string& relative);

// One component after the other, following no link at all (ELOOP or ENOTDIR where there is one).
// `relative` has no `..` component.
FileDescriptor open_without_links(const FileDescriptor& folder, const std::string& relative);

}  // namespace anydim::frontends
