// How the database writes lists of numbers, buckets and the rest as text.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/schedule.h"

namespace anydim::tuner {

std::string keys_text(std::span<const std::int64_t> keys);    // "[128,64]"
std::vector<std::int64_t> parse_keys(std::string_view text);  // throws Error{Malformed}
std::string bucket_text(const ir::Bucket& bucket);  // "[[1,512,1]]": low, high, multiple a key
ir::Bucket parse_bucket(std::string_view text);     // throws Error{Malformed}
ir::Bucket bucket_of(const nlohmann::json& lists);  // throws Error{Malformed}

}  // namespace anydim::tuner
