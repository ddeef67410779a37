#include "runtime/worker_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <thread>
#include <vector>

namespace anydim::runtime {
namespace {

// Spinning ends by itself: an idle pool burns no time.
void until_all_sleep(const WorkerPool& pool) {
  while (pool.sleeping() < pool.threads() - 1) std::this_thread::yield();
}

TEST(WorkerPool, EveryTaskRunsOnce) {
  for (const int threads : {1, 2, 5}) {
    WorkerPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (const std::int64_t tasks : {0, 1, 2, 3, 64, 1001}) {
      std::vector<int> runs(static_cast<std::size_t>(tasks));
      pool.run(tasks, [&](std::int64_t begin, std::int64_t end, int participant) {
        EXPECT_TRUE(participant >= 0 && participant < threads);
        for (std::int64_t i = begin; i < end; ++i) ++runs[static_cast<std::size_t>(i)];
      });
      EXPECT_EQ(runs, std::vector<int>(static_cast<std::size_t>(tasks), 1))
          << tasks << " tasks on " << threads;
    }
  }
}

TEST(WorkerPool, ManySmallJobsSeeEachOthersEffects) {
  WorkerPool pool(3);
  std::vector<std::int64_t> values(37, 0);
  constexpr int jobs = 20000;
  for (int job = 0; job < jobs; ++job) {
    pool.run(static_cast<std::int64_t>(values.size()),
             [&](std::int64_t begin, std::int64_t end, int) {
               for (std::int64_t i = begin; i < end; ++i) ++values[static_cast<std::size_t>(i)];
             });
  }
  EXPECT_EQ(values, std::vector<std::int64_t>(values.size(), jobs));
}

TEST(WorkerPool, NoParticipantRunsTwoPiecesAtOnce) {
  WorkerPool pool(4);
  std::vector<int> inside(4, 0);
  for (int job = 0; job < 500; ++job) {
    pool.run(100, [&](std::int64_t, std::int64_t, int participant) {
      int& mine = inside[static_cast<std::size_t>(participant)];
      EXPECT_EQ(++mine, 1);
      --mine;
    });
  }
}

TEST(WorkerPool, SleepingWorkersWake) {
  WorkerPool pool(2);
  for (int i = 0; i < 5; ++i) {
    until_all_sleep(pool);
    std::atomic<std::int64_t> sum{0};
    pool.run(100, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t task = begin; task < end; ++task) sum += task;
    });
    EXPECT_EQ(sum, 4950);
  }
}

TEST(WorkerPool, GatheredWorkersAreThereForTheNextJob) {
  using namespace std::chrono_literals;
  constexpr auto patience = 10s;  // machines with fewer processors than threads take turns
  EXPECT_TRUE(WorkerPool(1).gather(0us));
  for (const int threads : {2, 3}) {
    WorkerPool pool(threads);
    for (int turn = 0; turn < 3; ++turn) {
      until_all_sleep(pool);
      EXPECT_TRUE(pool.gather(patience)) << threads << " threads";
    }
  }
}

TEST(WorkerPool, WhoeverDoesNotComeIsNotWaitedForLongerThanTheLimit) {
  using namespace std::chrono_literals;
  WorkerPool pool(2);
  // Inside a job its workers are taken.
  std::atomic<int> failed{0};
  pool.run(2, [&](std::int64_t begin, std::int64_t end, int) {
    if (begin == 0 && end > 0 && !pool.gather(1ms)) ++failed;
  });
  EXPECT_EQ(failed, 1);
}

TEST(WorkerPool, NestedAndConcurrentCallersDoTheirOwnWork) {
  WorkerPool pool(3);
  std::atomic<std::int64_t> inner{0};
  pool.run(8, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      pool.run(10, [&](std::int64_t first, std::int64_t last, int) { inner += last - first; });
    }
  });
  EXPECT_EQ(inner, 80);

  std::vector<std::int64_t> sums(4, 0);
  std::vector<std::thread> callers;
  for (std::int64_t& sum : sums) {
    callers.emplace_back([&pool, &sum] {
      std::mt19937 random(1);
      for (int job = 0; job < 2000; ++job) {
        const std::int64_t tasks = 1 + static_cast<std::int64_t>(random() % 50);
        std::vector<std::int64_t> seen(static_cast<std::size_t>(tasks), 0);
        pool.run(tasks, [&](std::int64_t begin, std::int64_t end, int) {
          for (std::int64_t i = begin; i < end; ++i) seen[static_cast<std::size_t>(i)] = i + 1;
        });
        sum += std::accumulate(seen.begin(), seen.end(), std::int64_t{0}) - tasks * (tasks + 1) / 2;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sums, std::vector<std::int64_t>(4, 0));
}

// Each call's threads, by seat, where so many call at once.
std::vector<int> slices(int threads, int callers) {
  WorkerPool pool(threads);
  std::vector<std::unique_ptr<WorkerPool::Seat>> seats;
  for (int i = 0; i < callers; ++i) seats.push_back(std::make_unique<WorkerPool::Seat>(pool));
  std::vector<int> counts;
  for (const auto& seat : seats) counts.push_back(seat->threads());
  return counts;
}

TEST(WorkerPool, CallersShareTheThreadsEvenly) {
  EXPECT_EQ(slices(1, 1), std::vector{1});
  EXPECT_EQ(slices(8, 1), std::vector{8});
  EXPECT_EQ(slices(8, 2), (std::vector{4, 4}));
  EXPECT_EQ(slices(8, 3), (std::vector{2, 3, 3}));
  EXPECT_EQ(slices(2, 2), (std::vector{1, 1}));
  EXPECT_EQ(slices(2, 4), (std::vector{1, 1, 1, 1}));
  EXPECT_EQ(slices(5, 9), std::vector<int>(9, 1));
  // There are no more seats than a word has bits; who finds none computes alone.
  std::vector<int> many(66, 1);
  many[31] = many[63] = 2;
  EXPECT_EQ(slices(66, 66), many);
}

TEST(WorkerPool, TheSlicesOfThoseWhoLeaveGoToTheOthers) {
  WorkerPool pool(8);
  auto first = std::make_unique<WorkerPool::Seat>(pool);
  WorkerPool::Seat second(pool);
  auto third = std::make_unique<WorkerPool::Seat>(pool);
  first.reset();
  EXPECT_EQ(second.threads(), 4);
  EXPECT_EQ(third->threads(), 4);
  third.reset();
  EXPECT_EQ(second.threads(), 8);
  const WorkerPool::Seat again(pool);
  EXPECT_EQ(again.threads(), 4);
}

// A job whose tasks end only once `together` tasks of all such jobs are under way at once; false
// where that does not come.
bool meet(WorkerPool::Seat& seat, std::atomic<int>& here, int tasks, int together) {
  std::atomic<bool> met{true};
  seat.run(tasks, [&](std::int64_t begin, std::int64_t end, int) {
    here.fetch_add(static_cast<int>(end - begin));
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (here.load() < together) {
      if (std::chrono::steady_clock::now() > patience) {
        met = false;
        return;
      }
      std::this_thread::yield();
    }
  });
  return met;
}

TEST(WorkerPool, CallsAtOnceAreEachHelpedByTheirOwnWorkers) {
  WorkerPool pool(6);
  WorkerPool::Seat seats[] = {WorkerPool::Seat(pool), WorkerPool::Seat(pool)};
  std::atomic<int> here{0};
  std::atomic<int> met{0};
  std::vector<std::thread> callers;
  for (WorkerPool::Seat& seat : seats)
    callers.emplace_back([&] { met += meet(seat, here, 3, 6) ? 1 : 0; });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(met, 2) << "six tasks of two calls run at once";
}

TEST(WorkerPool, WorkersFollowTheSeatsThatAreTaken) {
  WorkerPool pool(4);
  for (int turn = 0; turn < 20; ++turn) {
    WorkerPool::Seat one(pool);
    std::atomic<int> all{0};
    EXPECT_TRUE(meet(one, all, 4, 4)) << "alone";
    WorkerPool::Seat other(pool);
    std::atomic<int> half{0};
    EXPECT_TRUE(meet(other, half, 2, 2)) << "one of two, with workers that served the first";
    if (turn % 2 == 0) until_all_sleep(pool);
  }
}

TEST(WorkerPool, NoThreadServesTwoCallsWhileBothLast) {
  WorkerPool pool(4);
  WorkerPool::Seat seats[] = {WorkerPool::Seat(pool), WorkerPool::Seat(pool)};
  std::set<std::thread::id> threads[2];
  std::vector<std::thread> callers;
  for (int i = 0; i < 2; ++i)
    callers.emplace_back([&, i] {
      for (int job = 0; job < 2000; ++job) {
        std::thread::id by[4];
        seats[i].run(40, [&](std::int64_t, std::int64_t, int participant) {
          ASSERT_LT(participant, 2);
          by[participant] = std::this_thread::get_id();
        });
        for (const std::thread::id id : by)
          if (id != std::thread::id()) threads[i].insert(id);
      }
    });
  for (std::thread& caller : callers) caller.join();
  for (const std::thread::id id : threads[0]) EXPECT_FALSE(threads[1].contains(id));
  EXPECT_LE(threads[0].size(), 2u);
  EXPECT_LE(threads[1].size(), 2u);
}

// Calls begin and end all the time, more of them than threads, and every task of every job is done
// once by then.
TEST(WorkerPool, JobsAreWholeWhileSlicesChange) {
  WorkerPool pool(5);
  std::vector<std::int64_t> wrong(7, 0);
  std::vector<std::thread> callers;
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    callers.emplace_back([&pool, &wrong, i] {
      std::mt19937 random(static_cast<unsigned>(i));
      for (int call = 0; call < 300; ++call) {
        WorkerPool::Seat seat(pool);
        for (unsigned job = 0; job < 1 + random() % 5; ++job) {
          std::vector<std::int64_t> runs(random() % 60, 0);
          std::vector<int> inside(5, 0);
          seat.run(static_cast<std::int64_t>(runs.size()),
                   [&](std::int64_t begin, std::int64_t end, int participant) {
                     int& mine = inside[static_cast<std::size_t>(participant)];
                     if (++mine != 1) runs.front() += 100;
                     for (std::int64_t t = begin; t < end; ++t) ++runs[static_cast<std::size_t>(t)];
                     --mine;
                   });
          wrong[i] += std::ranges::count_if(runs, [](std::int64_t times) { return times != 1; });
        }
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, std::vector<std::int64_t>(wrong.size(), 0));
}

TEST(WorkerPool, WhoeverHasNoSeatComputesAloneBesideThoseWhoHave) {
  WorkerPool pool(3);
  const WorkerPool::Seat seat(pool);
  std::set<std::thread::id> by;
  pool.run(100, [&](std::int64_t, std::int64_t, int) { by.insert(std::this_thread::get_id()); });
  EXPECT_EQ(by, std::set{std::this_thread::get_id()});
}

TEST(WorkerPool, PoolsComeAndGo) {
  for (int i = 0; i < 200; ++i) {
    const auto pool = std::make_unique<WorkerPool>(3);
    if (i % 2 == 0) continue;  // also without any job
    std::atomic<int> count{0};
    pool->run(5, [&](std::int64_t begin, std::int64_t end, int) {
      count += static_cast<int>(end - begin);
    });
    EXPECT_EQ(count, 5);
  }
}

}  // namespace
}  // namespace anydim::runtime
