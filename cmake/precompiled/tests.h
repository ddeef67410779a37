// What test files include, parsed once for all of them.
#include <gtest/gtest.h>

#include "standard_library.h"
