#include "runtime/task_shares.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>

namespace anydim::runtime {
namespace {

using Piece = TaskShares::Piece;

TEST(TaskShares, EveryTaskIsTakenOnceWhoeverComes) {
  std::mt19937 random(1);
  for (const int participants : {1, 2, 3, 8}) {
    TaskShares shares(participants);
    // From none to more than a share has units.
    for (const std::int64_t tasks : {0, 1, 2, 7, 8, 9, 1000, 65535 * 8 + 1, 3000001}) {
      shares.begin(tasks, participants);
      std::vector<char> taken(static_cast<std::size_t>(tasks));
      std::int64_t twice = 0, count = 0;
      for (;;) {
        const Piece piece =
            shares.take(static_cast<int>(random() % static_cast<unsigned>(participants)));
        if (piece.empty()) break;
        ASSERT_LE(0, piece.begin);
        ASSERT_LT(piece.begin, piece.end);
        ASSERT_LE(piece.end, tasks);
        count += piece.end - piece.begin;
        for (std::int64_t i = piece.begin; i < piece.end; ++i)
          twice += std::exchange(taken[static_cast<std::size_t>(i)], char{1});
      }
      EXPECT_EQ(twice, 0) << tasks << " tasks, " << participants << " participants";
      EXPECT_EQ(count, tasks) << participants << " participants";
      for (int participant = 0; participant < participants; ++participant)
        EXPECT_TRUE(shares.take(participant).empty());
    }
  }
}

TEST(TaskShares, ParticipantsHaveTheSameTasksInEveryJob) {
  TaskShares shares(4);
  for (int job = 0; job < 3; ++job) {
    shares.begin(42, 4);  // 11, 11, 10 and 10
    for (const auto& [participant, begin, end] :
         {std::tuple(3, 32, 37), {0, 0, 5}, {2, 22, 27}, {1, 11, 16}}) {
      const Piece piece = shares.take(participant);
      EXPECT_EQ(piece.begin, begin);
      EXPECT_EQ(piece.end, end);
    }
    while (!shares.take(job).empty()) {
    }
  }
}

TEST(TaskShares, WhoeverIsDoneTakesFromTheBackOfOthers) {
  TaskShares shares(2);
  shares.begin(8, 2);
  std::vector<std::pair<std::int64_t, std::int64_t>> pieces;
  for (int i = 0; i < 4; ++i) {
    const Piece piece = shares.take(1);
    pieces.emplace_back(piece.begin, piece.end);
  }
  const Piece late = shares.take(0);
  EXPECT_EQ(pieces,
            (std::vector<std::pair<std::int64_t, std::int64_t>>{{4, 6}, {6, 7}, {7, 8}, {2, 4}}));
  EXPECT_EQ(late.begin, 0);
  EXPECT_EQ(late.end, 1);
}

TEST(TaskShares, ThreadsAtOnceTakeEveryTaskOnce) {
  constexpr int participants = 4;
  TaskShares shares(participants);
  for (int job = 0; job < 200; ++job) {
    std::vector<std::atomic<int>> taken(997);
    shares.begin(static_cast<std::int64_t>(taken.size()), participants);
    std::vector<std::thread> threads;
    for (int participant = 0; participant < participants; ++participant) {
      threads.emplace_back([&, participant] {
        for (Piece piece = shares.take(participant); !piece.empty();
             piece = shares.take(participant))
          for (std::int64_t i = piece.begin; i < piece.end; ++i)
            ++taken[static_cast<std::size_t>(i)];
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::atomic<int>& times : taken) ASSERT_EQ(times, 1);
  }
}

}  // namespace
}  // namespace anydim::runtime
