// What the command's sources include, parsed once for all of them.
#include <CLI/CLI.hpp>

#include "json.h"
