// The C interface as tests call it.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "capi/anydim.h"

namespace anydim::capi {

inline const anydim_api& api() { return *anydim_get_api(ANYDIM_API_VERSION, nullptr); }

struct Said {
  anydim_kind kind;
  std::string message;
  bool operator==(const Said&) const = default;
};
inline std::ostream& operator<<(std::ostream& out, const Said& said) {
  return out << said.kind << " " << said.message;
}

// Releases the status.
inline Said said(anydim_status* status) {
  Said said{api().status_kind(status), api().status_message(status)};
  api().status_release(status);
  return said;
}

#define EXPECT_OK(call) EXPECT_EQ(::anydim::capi::said(call), (::anydim::capi::Said{ANYDIM_OK, ""}))
#define ASSERT_OK(call) ASSERT_EQ(::anydim::capi::said(call), (::anydim::capi::Said{ANYDIM_OK, ""}))

// To be filled.
template <typename Answer>
Answer answer() {
  Answer empty{};
  empty.struct_size = sizeof(Answer);
  return empty;
}

// Compiled quickly and alone: no cache, no threads beside the calls.
inline anydim_model* load(std::string_view text,
                          const std::vector<std::pair<const char*, const char*>>& more = {}) {
  anydim_options* options = nullptr;
  EXPECT_OK(api().options_create(&options));
  for (const auto& [name, value] : {std::pair("cache_folder", "none"),
                                    std::pair("background", "off"), std::pair("threads", "1")})
    EXPECT_OK(api().options_set(options, name, value));
  for (const auto& [name, value] : more) EXPECT_OK(api().options_set(options, name, value));
  anydim_model* model = nullptr;
  EXPECT_OK(api().model_load_memory(text.data(), text.size(), nullptr, options, nullptr, &model));
  EXPECT_OK(api().options_release(options));
  return model;
}

inline anydim_context* context_of(const anydim_model* model) {
  anydim_context* context = nullptr;
  EXPECT_OK(api().context_create(model, &context));
  return context;
}

// Elements with what a call's structs point to.
template <typename T>
struct Buffer {
  std::vector<std::int64_t> dims;
  std::vector<T> elements;
  anydim_input input(const char* name, anydim_dtype dtype) const {
    return {name,
            dims.data(),
            elements.data(),
            elements.size() * sizeof(T),
            dtype,
            static_cast<std::uint32_t>(dims.size())};
  }
  anydim_output output(const char* name, anydim_dtype dtype) {
    return {name,
            dims.data(),
            elements.data(),
            elements.size() * sizeof(T),
            0,
            dtype,
            static_cast<std::uint32_t>(dims.size())};
  }
};

// %y = %x + 1 for each element of (n, 3).
inline constexpr std::string_view plus_one =
    R"(fn @main(%x: Tensor[(n, 3), f32]) where n in [0, 100] {
  %one = constant(f32 () [1])
  %y = add(%x, %one)
  return %y
}
)";

// %all = %past and then %x, along the rows of (n, 3); %sums of its rows.
inline constexpr std::string_view append =
    R"(fn @main(%x: Tensor[(n, 3), f32], %past: Tensor[(m, 3), f32]) where n in [0, 100], m in [0, 500] {
  %all = concat(%past, %x) {axis = 0}
  %sums = reduce_sum(%all) {axes = (1)}
  return %sums, %all
}
)";

}  // namespace anydim::capi
