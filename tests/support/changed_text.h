// Texts of a stage with something changed: each is read, or refused with its place.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "ir/error.h"

namespace anydim::tests {

using Reread = std::function<std::string(const std::string&)>;  // parsed and printed

// The first line of what is said of `text` with one part of it replaced, or how it prints.
inline std::string refusal(std::string text, const std::string& part, const std::string& instead,
                           const Reread& reread) {
  const std::size_t at = text.find(part);
  if (at == std::string::npos) return "the text has no " + part;
  text.replace(at, part.size(), instead);
  try {
    return reread(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Malformed);
    const std::string message = error.what();
    return message.substr(0, message.find('\n'));
  }
}

struct Refused {
  std::string part, instead, message;
};
inline void expect_refused(const std::string& text, const std::vector<Refused>& cases,
                           const Reread& reread) {
  for (const Refused& one : cases) {
    SCOPED_TRACE(one.part + " -> " + one.instead);
    EXPECT_EQ(refusal(text, one.part, one.instead, reread), one.message);
  }
}

// Counts what was read, which prints the same again, and what was refused at a place.
class DamagedTexts {
 public:
  explicit DamagedTexts(Reread reread) : reread_(std::move(reread)) {}

  void expect_read_or_place(const std::string& changed) {
    try {
      const std::string again = reread_(changed);
      EXPECT_EQ(reread_(again), again) << changed;
      ++read_;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Malformed) << error.what() << "\n" << changed;
      int line = 0, column = 0;
      EXPECT_EQ(std::sscanf(error.what(), "text:%d:%d: ", &line, &column), 2) << error.what();
      ++refused_;
    }
  }
  void expect_many() const {
    EXPECT_GT(refused_, 1000);
    EXPECT_GT(read_, 100);
  }

 private:
  Reread reread_;
  int read_ = 0, refused_ = 0;
};

}  // namespace anydim::tests
