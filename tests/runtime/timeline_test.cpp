// The ring of events: what it keeps, what it counts, and that threads neither wait nor tear what
// they write.
#include "runtime/timeline.h"

#include <gtest/gtest.h>

#include <thread>

#include "ir/error.h"

namespace anydim::runtime {
namespace {

TEST(TimelineRing, KeepsTheNewestAndCountsTheRest) {
  TimelineRing ring(5);  // 8
  for (std::uint64_t i = 0; i < 21; ++i) ring.add({.begun = i});
  const TimelineRing::Contents contents = ring.read();
  ASSERT_EQ(contents.events.size(), 8u);
  for (std::uint64_t i = 0; i < 8; ++i) EXPECT_EQ(contents.events[i].begun, 13 + i);
  EXPECT_EQ(contents.lost, 13);
}

TEST(TimelineRing, AnEventComesBeforeThoseInsideOfIt) {
  TimelineRing ring(4);
  ring.add({.note = 1, .begun = 7, .ticks = 2});
  ring.add({.note = 2, .begun = 7, .ticks = 9});
  const auto events = ring.read().events;
  EXPECT_EQ(events[0].note, 2u);
  EXPECT_EQ(events[1].note, 1u);
}

// Every word of an event says whose it is: one that is put together from two would show.
TEST(TimelineRing, EventsOfManyThreadsAreWholeWhileTheyAreRead) {
  constexpr int writers = 4, each = 20'000;
  TimelineRing ring(64);
  std::atomic<bool> done{false};
  std::int64_t torn = 0, seen = 0;
  const auto look = [&] {
    for (const TimelineEvent& event : ring.read().events) {
      ++seen;
      for (const std::int64_t value : event.values)
        torn += value == static_cast<std::int64_t>(event.begun) ? 0 : 1;
    }
  };
  std::thread reader([&] {
    while (!done.load()) look();
    look();  // a busy machine may have let no look fall between two writes
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < writers; ++t)
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < each; ++i) {
        TimelineEvent event{.thread = this_thread(),
                            .begun = static_cast<std::uint64_t>(t) << 32 | i};
        event.values.fill(static_cast<std::int64_t>(event.begun));
        ring.add(event);
      }
    });
  for (std::thread& thread : threads) thread.join();
  done = true;
  reader.join();
  EXPECT_EQ(torn, 0);
  EXPECT_GT(seen, 0);
  const TimelineRing::Contents contents = ring.read();
  EXPECT_EQ(contents.lost + static_cast<std::int64_t>(contents.events.size()), writers * each);
  EXPECT_GE(contents.events.size(), 60u)
      << "a place is empty only where its last writer met another";
}

TEST(Timeline, IsOffUntilStartedAndForgetsWithTheNextStart) {
  const auto timeline = std::make_shared<Timeline>();
  TimelineWriter writer(timeline);
  writer.refresh();
  EXPECT_FALSE(writer.on());
  EXPECT_TRUE(timeline->read().events.empty());
  timeline->start(4);
  EXPECT_FALSE(writer.on()) << "a call that is under way goes on as it began";
  writer.refresh();
  ASSERT_TRUE(writer.on());
  writer.add({.begun = 1});
  timeline->stop();
  writer.refresh();
  EXPECT_FALSE(writer.on());
  timeline->add({.begun = 2});
  EXPECT_EQ(timeline->read().events.size(), 1u);
  timeline->start(4);
  EXPECT_TRUE(timeline->read().events.empty());
}

TEST(Timeline, AWriterWithoutOneIsOff) {
  TimelineWriter writer(nullptr);
  writer.refresh();
  EXPECT_FALSE(writer.on());
}

TEST(Timeline, RefusesNumbersOfEventsThatItCannotKeep) {
  Timeline timeline;
  for (const std::int64_t events : {std::int64_t{0}, std::int64_t{-1}, Timeline::most_events + 1}) {
    try {
      timeline.start(events);
      ADD_FAILURE() << events;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::CommandLine);
      EXPECT_EQ(error.what(),
                "a timeline of " + std::to_string(events) +
                    " events cannot be recorded: expected 1 to 16777216, of 128 bytes each");
    }
  }
  EXPECT_FALSE(timeline.on());
}

TEST(Timeline, NotesAreSharedAndBounded) {
  Timeline timeline;
  const std::uint32_t first = timeline.note({"a", {{"bucket", "[1, 2]"}}, {"n"}});
  EXPECT_EQ(timeline.note({"a", {{"bucket", "[1, 2]"}}, {"n"}}), first);
  EXPECT_NE(timeline.note({"a", {{"bucket", "[3, 4]"}}, {"n"}}), first);
  for (std::size_t i = 0; i < Timeline::most_notes; ++i) timeline.note({std::to_string(i)});
  const std::uint32_t beyond = timeline.note({"one too many"});
  EXPECT_EQ(timeline.read().notes.at(beyond).name, "one of more than 65536 kinds of event");
  EXPECT_EQ(timeline.note({"a", {{"bucket", "[1, 2]"}}, {"n"}}), first);
  EXPECT_EQ(timeline.read().notes.size(), Timeline::most_notes);
}

}  // namespace
}  // namespace anydim::runtime
