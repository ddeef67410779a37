#include "ir/printable.h"

#include <gtest/gtest.h>

#include "ir/error.h"
#include "ir/quote.h"

namespace anydim::ir {
namespace {

TEST(Printable, KeepsWhatIsShown) {
  EXPECT_EQ(printable("/bert/Add_1"), "/bert/Add_1");
  EXPECT_EQ(printable("Größe 長さ \U0001f600"), "Größe 長さ \U0001f600");
}

TEST(Printable, EscapesControlsAndFormats) {
  EXPECT_EQ(printable("a\x1b[31m\n\x7f"), "a\\x1b[31m\\x0a\\x7f");
  EXPECT_EQ(printable("\u009b2J"), "\\xc2\\x9b2J");  // C1
  EXPECT_EQ(printable("\u061c"), "\\xd8\\x9c");      // Arabic letter mark
  EXPECT_EQ(printable("\u200d\u200e"), "\\xe2\\x80\\x8d\\xe2\\x80\\x8e");
  EXPECT_EQ(printable("\u202e\u2028\u2066"), "\\xe2\\x80\\xae\\xe2\\x80\\xa8\\xe2\\x81\\xa6");
  EXPECT_EQ(printable("\ufeff\U000e0041"), "\\xef\\xbb\\xbf\\xf3\\xa0\\x81\\x81");
  EXPECT_EQ(printable("\xff\xc3(\xed\xa0\x80"), "\\xff\\xc3(\\xed\\xa0\\x80");  // no UTF-8
}

TEST(Printable, CutsBetweenCharacters) {
  EXPECT_EQ(printable(std::string(200, 'a')), std::string(200, 'a'));
  EXPECT_EQ(printable(std::string(201, 'a')), std::string(200, 'a') + "...");
  EXPECT_EQ(printable(std::string(199, 'a') + "ö"), std::string(199, 'a') + "...");
}

TEST(Printable, MessagesKeepTheirLines) {
  EXPECT_EQ(printable_lines("a\nb\t"), "a\nb\\x09");
  EXPECT_EQ(printable_message(std::string(5000, 'a')),
            std::string(4096, 'a') + "... (cut: 904 more bytes)");
  EXPECT_STREQ(Error(ErrorKind::Malformed, "input '\x1b[0m'\n  ^").what(), "input '\\x1b[0m'\n  ^");
}

TEST(Printable, QuotedNamesUseTheSameEscapes) {
  EXPECT_EQ(quote("\u202e\n\"é"), "\"\\xe2\\x80\\xae\\n\\\"é\"");
}

}  // namespace
}  // namespace anydim::ir
