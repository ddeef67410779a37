#include "runtime/worker_pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <numeric>
#include <random>
#include <thread>

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
