// Properties of the text form over random modules and random bytes.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "ir/error.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "tests/ir/random_module.h"
#include "tests/ir/same_module.h"

namespace anydim::ir {
namespace {

using Bytes = std::vector<std::uint8_t>;

TEST(PrintParseProperty, ModulesReadBackExactly) {
  EXPECT_TRUE(rc::check("parse(print(m)) is m", [] {
    const Bytes choices = *rc::gen::scale(5, rc::gen::arbitrary<Bytes>());
    const Module module = test::random_module(choices);
    const std::string text = print(module);
    RC_LOG() << text;
    const Module back = parse(text);
    RC_ASSERT(test::difference(module, back) == std::string());
    RC_ASSERT(print(back) == text);
    for (std::size_t i = 0; i < module.regions.size(); ++i)
      RC_ASSERT(back.regions[i].identity == module.regions[i].identity);
  }));
}

// A text with a few bytes changed either parses or is refused with a place; nothing else happens.
TEST(PrintParseProperty, DamagedTextsAreRefusedCleanly) {
  EXPECT_TRUE(rc::check("parse(damaged)", [] {
    const Bytes choices = *rc::gen::scale(3, rc::gen::arbitrary<Bytes>());
    std::string text = print(test::random_module(choices));
    for (const auto& [place, byte] :
         *rc::gen::container<std::vector<std::pair<std::uint32_t, std::uint8_t>>>(
             3, rc::gen::arbitrary<std::pair<std::uint32_t, std::uint8_t>>())) {
      static constexpr std::string_view likely = "(){}[],:=%@\"?*+-<0n. ";
      text[place % text.size()] =
          byte % 2 == 0 ? likely[byte / 2 % likely.size()] : static_cast<char>(byte);
    }
    RC_LOG() << text;
    try {
      const Module module = parse(text);
      RC_ASSERT(print(parse(print(module))) == print(module));
    } catch (const Error& error) {
      RC_ASSERT(error.kind() == ErrorKind::Malformed || error.kind() == ErrorKind::Resource);
      RC_ASSERT(std::string(error.what()).starts_with("text:") ||
                error.kind() == ErrorKind::Resource);
    }
  }));
}

}  // namespace
}  // namespace anydim::ir
