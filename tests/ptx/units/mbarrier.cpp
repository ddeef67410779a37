#include "tests/ptx/units/mbarrier.h"

#include <fmt/format.h>

namespace anydim::ptx {

namespace {

// expected 20 bits, pending 20, transactions 21 (two's complement), parity 1, tag 2.
constexpr std::uint64_t tag = std::uint64_t{2} << 62;
constexpr std::uint64_t tag_mask = std::uint64_t{3} << 62;
constexpr std::uint64_t count_mask = (1 << 20) - 1;
constexpr std::uint64_t transaction_mask = (1 << 21) - 1;

void advance_when_complete(Mbarrier& barrier) {
  if (barrier.pending != 0 || barrier.transactions != 0) return;
  barrier.parity = !barrier.parity;
  barrier.pending = barrier.expected;
}

std::string change_transactions(Mbarrier& barrier, std::int64_t bytes) {
  const std::int64_t sum = barrier.transactions + bytes;
  if (sum > mbarrier_count_limit || sum < -mbarrier_count_limit) {
    return fmt::format("the transaction count would be {}, outside ±{}", sum, mbarrier_count_limit);
  }
  barrier.transactions = sum;
  return {};
}

}  // namespace

std::string mbarrier_init(Mbarrier& barrier, std::int64_t arrivals) {
  if (arrivals < 1 || arrivals > mbarrier_count_limit) {
    return fmt::format("the arrival count is {}, not within 1..{}", arrivals, mbarrier_count_limit);
  }
  barrier = {.expected = arrivals, .pending = arrivals};
  return {};
}

std::string mbarrier_arrive(Mbarrier& barrier, std::int64_t arrivals) {
  if (arrivals < 1 || arrivals > mbarrier_count_limit) {
    return fmt::format("an arrival counts for {}, not within 1..{}", arrivals,
                       mbarrier_count_limit);
  }
  if (arrivals > barrier.pending) {
    return fmt::format("{} arrivals where the phase waits for {} of {} only", arrivals,
                       barrier.pending, barrier.expected);
  }
  barrier.pending -= arrivals;
  advance_when_complete(barrier);
  return {};
}

std::string mbarrier_arrive_drop(Mbarrier& barrier, std::int64_t arrivals) {
  if (arrivals > barrier.expected)
    return fmt::format("{} arrivals dropped of {} expected", arrivals, barrier.expected);
  barrier.expected -= arrivals;
  return mbarrier_arrive(barrier, arrivals);
}

std::string mbarrier_expect(Mbarrier& barrier, std::int64_t bytes) {
  return change_transactions(barrier, bytes);
}

std::string mbarrier_complete(Mbarrier& barrier, std::int64_t bytes) {
  std::string wrong = change_transactions(barrier, -bytes);
  if (wrong.empty()) advance_when_complete(barrier);
  return wrong;
}

std::string mbarrier_arrive_expect(Mbarrier& barrier, std::int64_t bytes) {
  std::string wrong = mbarrier_expect(barrier, bytes);
  return wrong.empty() ? mbarrier_arrive(barrier, 1) : wrong;
}

bool mbarrier_test_parity(const Mbarrier& barrier, bool parity) { return barrier.parity != parity; }

std::uint64_t encode_mbarrier(const Mbarrier& barrier) {
  return tag | static_cast<std::uint64_t>(barrier.parity) << 61 |
         (static_cast<std::uint64_t>(barrier.transactions) & transaction_mask) << 40 |
         static_cast<std::uint64_t>(barrier.pending) << 20 |
         static_cast<std::uint64_t>(barrier.expected);
}

bool is_mbarrier_word(std::uint64_t word) { return (word & tag_mask) == tag; }

Mbarrier decode_mbarrier(std::uint64_t word) {
  const auto transactions = static_cast<std::int64_t>((word >> 40) & transaction_mask);
  return {.expected = static_cast<std::int64_t>(word & count_mask),
          .pending = static_cast<std::int64_t>((word >> 20) & count_mask),
          .transactions = transactions >= (1 << 20) ? transactions - (1 << 21) : transactions,
          .parity = ((word >> 61) & 1) != 0};
}

}  // namespace anydim::ptx
