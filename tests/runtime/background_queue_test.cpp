// Work beside the calls: what is next, what is told, and what is freed by whom.
#include "runtime/background_queue.h"

#include <gtest/gtest.h>

#include <future>
#include <stdexcept>

namespace anydim::runtime {
namespace {

class BackgroundQueueTest : public testing::Test {
 protected:
  BackgroundQueue::Task task(int number, std::uint32_t demand, const void* group = nullptr) {
    return {.run = [this, number] { ran_.push_back(number); },
            .failure = "task " + std::to_string(number),
            .demand = [demand] { return demand; },
            .group = group};
  }

  std::vector<int> ran_;
  std::vector<std::string> warnings_;
  WorkerPool pool_{1};
  BackgroundQueue queue_{[this](const std::string& warning) { warnings_.push_back(warning); }, {}};
};

TEST_F(BackgroundQueueTest, TheMostWantedIsNextThenTheFirst) {
  queue_.add({task(0, 1), task(1, 3), task(2, 3), task(3, 0), task(4, 2)});
  EXPECT_EQ(queue_.pending(), 5);
  queue_.complete(pool_);
  EXPECT_EQ(ran_, (std::vector<int>{1, 2, 4, 0, 3}));
  EXPECT_EQ(queue_.pending(), 0);
}

TEST_F(BackgroundQueueTest, WhatFailsIsToldAndCounted) {
  queue_.add({{.run = [] { throw std::runtime_error("no such schedule"); },
               .failure = "it did not compile",
               .demand = [] { return 9U; }},
              task(1, 0)});
  queue_.complete(pool_);
  EXPECT_EQ(warnings_, std::vector<std::string>{"it did not compile: no such schedule"});
  EXPECT_EQ(queue_.failed(), 1);
  EXPECT_EQ(ran_, std::vector<int>{1});
}

TEST_F(BackgroundQueueTest, AGroupIsDropped) {
  const int group = 0, other = 0;
  queue_.add({task(0, 1, &group), task(1, 1, &other), task(2, 1)});
  queue_.drop(&group);
  queue_.complete(pool_);
  EXPECT_EQ(ran_, (std::vector<int>{1, 2}));
}

TEST_F(BackgroundQueueTest, OnceStartedAThreadOfItsOwnWorksAndFrees) {
  std::promise<void> first, second;
  const auto fulfil = [](std::promise<void>& promise) {
    return BackgroundQueue::Task{
        .run = [&promise] { promise.set_value(); }, .failure = {}, .demand = [] { return 1U; }};
  };
  auto thing = std::make_shared<const int>(7);
  const std::weak_ptr<const int> freed = thing;
  queue_.free_later(std::move(thing));
  EXPECT_FALSE(freed.expired()) << "not by who hands it over";
  queue_.add_in_call(fulfil(first));
  queue_.start();
  first.get_future().wait();
  EXPECT_TRUE(freed.expired());
  // The thread looks by itself now.
  queue_.add_in_call(fulfil(second));
  second.get_future().wait();
}

TEST_F(BackgroundQueueTest, TheThreadSaysWhenItRests) {
  std::promise<void> rested;
  BackgroundQueue queue({}, [&] { rested.set_value(); });
  queue.start();
  queue.add({task(0, 0)});
  rested.get_future().wait();
  EXPECT_EQ(ran_, std::vector<int>{0});
}

TEST_F(BackgroundQueueTest, WhatWaitsAtTheEndIsDropped) {
  const auto held = std::make_shared<int>(0);
  {
    BackgroundQueue queue({}, {});
    queue.add({{.run = [held] { ++*held; }, .failure = {}, .demand = [] { return 1U; }}});
  }
  EXPECT_EQ(*held, 0);
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace anydim::runtime
