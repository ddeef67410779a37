// The state of an mbarrier object and how each operation changes it. Hardware's 64-bit form is
// unbacked; here the state is a word of our own that lies in shared memory, so that ordinary stores
// to it are noticed.
// Source: PTX ISA (mbarrier: phases, pending and expected counts, tx-count); restated in
// docs/cuda.md.
#pragma once

#include <cstdint>
#include <string>

namespace anydim::ptx {

inline constexpr std::int64_t mbarrier_count_limit = (1 << 20) - 1;

struct Mbarrier {
  std::int64_t expected = 0;  // arrivals a phase takes
  std::int64_t pending = 0;   // arrivals the current phase still waits for
  // bytes announced and not yet there; negative while bytes came before their announcement
  std::int64_t transactions = 0;
  bool parity = false;  // of the current, incomplete phase: false in the first
};

// Every operation gives an empty string or says what is wrong (counts out of range, more arrivals
// than the phase takes).
std::string mbarrier_init(Mbarrier& barrier, std::int64_t arrivals);
std::string mbarrier_arrive(Mbarrier& barrier, std::int64_t arrivals);
// arrive.drop: the arrivals are also missing from every later phase.
std::string mbarrier_arrive_drop(Mbarrier& barrier, std::int64_t arrivals);
std::string mbarrier_expect(Mbarrier& barrier, std::int64_t bytes);
std::string mbarrier_complete(Mbarrier& barrier, std::int64_t bytes);
std::string mbarrier_arrive_expect(Mbarrier& barrier, std::int64_t bytes);

// Whether the latest phase of this parity has completed: on a fresh barrier true for parity 1 and
// false for 0.
bool mbarrier_test_parity(const Mbarrier& barrier, bool parity);

// The word in shared memory. `is_mbarrier_word` is false for a word that no barrier operation
// wrote.
std::uint64_t encode_mbarrier(const Mbarrier& barrier);
bool is_mbarrier_word(std::uint64_t word);
Mbarrier decode_mbarrier(std::uint64_t word);

}  // namespace anydim::ptx
