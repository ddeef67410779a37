#include "runtime/batcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "ir/error.h"

namespace anydim::runtime {
namespace {

using Groups = std::vector<std::vector<std::size_t>>;
constexpr auto padded = CountedTokens::Padded, useful = CountedTokens::Useful;

Groups grouped(const std::vector<std::int64_t>& lengths, const BatchRule& rule) {
  Groups groups;
  for (const Batch& batch : make_batches(lengths, rule)) groups.push_back(batch.texts);
  return groups;
}

const std::vector<std::int64_t> five{5, 2, 9, 2, 1};

TEST(Batcher, ByTexts) {
  EXPECT_EQ(grouped(five, {.texts = 2}), (Groups{{0, 1}, {2, 3}, {4}}));
  EXPECT_EQ(grouped(five, {.texts = 2, .sorted = true}), (Groups{{4, 1}, {3, 0}, {2}}));
  EXPECT_EQ(grouped(five, {.texts = 5}), (Groups{{0, 1, 2, 3, 4}}));
}

TEST(Batcher, ByPaddedTokens) {
  EXPECT_EQ(grouped(five, {.tokens = 10, .counted = padded}), (Groups{{0, 1}, {2}, {3, 4}}));
  EXPECT_EQ(grouped(five, {.tokens = 6, .counted = padded, .sorted = true}),
            (Groups{{4, 1, 3}, {0}, {2}}));
}

TEST(Batcher, ByUsefulTokens) {
  EXPECT_EQ(grouped(five, {.tokens = 10, .counted = useful}), (Groups{{0, 1}, {2}, {3, 4}}));
  EXPECT_EQ(grouped(five, {.tokens = 12, .counted = useful}), (Groups{{0, 1}, {2, 3, 4}}));
  EXPECT_EQ(grouped(five, {.tokens = 10, .counted = useful, .sorted = true}),
            (Groups{{4, 1, 3, 0}, {2}}));
}

TEST(Batcher, BothLimitsHold) {
  EXPECT_EQ(grouped({1, 1, 1, 9, 1}, {.texts = 2, .tokens = 10, .counted = useful}),
            (Groups{{0, 1}, {2, 3}, {4}}));
}

TEST(Batcher, OneLongerThanTheLimitIsAlone) {
  EXPECT_EQ(grouped({3, 40, 3}, {.tokens = 8, .counted = padded}), (Groups{{0}, {1}, {2}}));
  EXPECT_EQ(grouped({3, 40, 3}, {.tokens = 8, .counted = useful}), (Groups{{0}, {1}, {2}}));
  EXPECT_EQ(grouped({40, 3, 3}, {.tokens = 8, .counted = useful, .sorted = true}),
            (Groups{{1, 2}, {0}}));
}

TEST(Batcher, ABatchKnowsItsTokens) {
  const auto batches = make_batches(five, {.texts = 3});
  EXPECT_EQ(batches[0].longest, 9);
  EXPECT_EQ(batches[0].useful, 16);
  EXPECT_EQ(batches[1].longest, 2);
  EXPECT_EQ(batches[1].useful, 3);
}

TEST(Batcher, TextsArriveBetweenBatches) {
  Batcher batcher({.texts = 2});
  EXPECT_FALSE(batcher.next());
  EXPECT_EQ(batcher.push(4), 0u);
  EXPECT_EQ(batcher.next()->texts, (std::vector<std::size_t>{0}));
  EXPECT_FALSE(batcher.next());
  for (std::size_t number = 1; number <= 3; ++number) EXPECT_EQ(batcher.push(4), number);
  EXPECT_EQ(batcher.next()->texts, (std::vector<std::size_t>{1, 2}));
  EXPECT_EQ(batcher.waiting(), 1u);
}

TEST(Batcher, AnEmptyQueueMakesNoBatch) { EXPECT_TRUE(make_batches({}, {.texts = 4}).empty()); }

TEST(Batcher, EmptyTextsCostNothingWhereUseful) {
  EXPECT_EQ(grouped({0, 0, 2, 0, 1}, {.tokens = 2, .counted = useful}),
            (Groups{{0, 1, 2, 3}, {4}}));
}

TEST(Batcher, EveryTextExactlyOnceWithinTheLimits) {
  std::mt19937 random(7);
  for (int round = 0; round < 400; ++round) {
    std::vector<std::int64_t> lengths(random() % 60);
    for (auto& length : lengths) length = static_cast<std::int64_t>(random() % 30);
    BatchRule rule{.counted = random() % 2 == 0 ? padded : useful, .sorted = random() % 2 == 0};
    const auto limits = random() % 3;
    if (limits != 0) rule.texts = 1 + static_cast<std::int64_t>(random() % 8);
    if (limits != 1) rule.tokens = 1 + static_cast<std::int64_t>(random() % 100);
    std::vector<std::size_t> seen;
    for (const Batch& batch : make_batches(lengths, rule)) {
      const auto count = static_cast<std::int64_t>(batch.texts.size());
      ASSERT_GE(count, 1);
      if (rule.texts) EXPECT_LE(count, *rule.texts);
      if (rule.tokens && count > 1)
        EXPECT_LE(rule.counted == useful ? batch.useful : count * batch.longest, *rule.tokens);
      std::int64_t sum = 0, longest = 0;
      for (const std::size_t text : batch.texts) {
        sum += lengths.at(text);
        longest = std::max(longest, lengths.at(text));
      }
      EXPECT_EQ(batch.useful, sum);
      EXPECT_EQ(batch.longest, longest);
      seen.insert(seen.end(), batch.texts.begin(), batch.texts.end());
    }
    if (rule.sorted)
      EXPECT_TRUE(std::ranges::is_sorted(
          seen, {}, [&](std::size_t text) { return std::pair(lengths.at(text), text); }));
    else EXPECT_TRUE(std::ranges::is_sorted(seen));
    std::ranges::sort(seen);
    ASSERT_EQ(seen.size(), lengths.size());
    for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], i);
  }
}

std::string refusal(const std::vector<std::int64_t>& lengths, const BatchRule& rule) {
  try {
    make_batches(lengths, rule);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Inputs);
    return error.what();
  }
  ADD_FAILURE() << "accepted";
  return {};
}

TEST(Batcher, BadRulesAndLengthsAreNamed) {
  EXPECT_EQ(refusal({}, {}), "a batch needs a limit: texts, tokens or both");
  EXPECT_EQ(refusal({}, {.texts = 0}), "a batch has at most 0 texts: give a limit of at least 1");
  EXPECT_EQ(refusal({}, {.tokens = -3}),
            "a batch has at most -3 tokens: give a limit of at least 1");
  EXPECT_EQ(refusal({1, -2}, {.texts = 4}), "text 1 has -2 tokens: expected 0 to 2147483647");
  EXPECT_EQ(refusal({std::int64_t{1} << 31}, {.texts = 4}),
            "text 0 has 2147483648 tokens: expected 0 to 2147483647");
}

}  // namespace
}  // namespace anydim::runtime
