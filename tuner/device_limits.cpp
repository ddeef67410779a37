#include "tuner/device_limits.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace anydim::tuner {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t rounds = 100'000;  // of a probe's chains: under a millisecond
constexpr int tries = 7;                  // the best counts: anything else that runs only slows it
constexpr int chains = 12;                // independent sums, enough to hide an addition's latency
constexpr std::size_t line_bytes = 64;

#if defined(__x86_64__)

// Each returns a value that depends on all of its work, so that none of it can be left out.
__attribute__((target("avx2,fma"))) float multiply_256() {
  __m256 sums[chains];
  for (__m256& sum : sums) sum = _mm256_setzero_ps();
  __m256 a = _mm256_set1_ps(1e-3F), b = _mm256_set1_ps(0.5F);
  for (std::int64_t round = 0; round < rounds; ++round) {
    asm volatile("" : "+x"(a), "+x"(b));
    for (__m256& sum : sums) sum = _mm256_fmadd_ps(a, b, sum);
  }
  for (const __m256& sum : sums) a = _mm256_add_ps(a, sum);
  return _mm256_cvtss_f32(a);
}

__attribute__((target("avx512f"))) float multiply_512() {
  __m512 sums[chains];
  for (__m512& sum : sums) sum = _mm512_setzero_ps();
  __m512 a = _mm512_set1_ps(1e-3F), b = _mm512_set1_ps(0.5F);
  for (std::int64_t round = 0; round < rounds; ++round) {
    asm volatile("" : "+v"(a), "+v"(b));
    for (__m512& sum : sums) sum = _mm512_fmadd_ps(a, b, sum);
  }
  for (const __m512& sum : sums) a = _mm512_add_ps(a, sum);
  return _mm512_cvtss_f32(a);
}

__attribute__((target("avx512f,avx512bf16"))) float multiply_bf16() {
  __m512 sums[chains];
  for (__m512& sum : sums) sum = _mm512_setzero_ps();
  __m512i a = _mm512_set1_epi16(0x3a80), b = _mm512_set1_epi16(0x3f00);
  for (std::int64_t round = 0; round < rounds; ++round) {
    asm volatile("" : "+v"(a), "+v"(b));
    for (__m512& sum : sums) sum = _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
  }
  for (int i = 1; i < chains; ++i) sums[0] = _mm512_add_ps(sums[0], sums[i]);
  return _mm512_cvtss_f32(sums[0]);
}

__attribute__((target("avx2"))) std::int64_t read_lines(const std::byte* from, std::size_t bytes) {
  __m256i all = _mm256_setzero_si256(), other = all;
  for (std::size_t at = 0; at + line_bytes <= bytes; at += line_bytes) {
    all = _mm256_or_si256(all, _mm256_load_si256(reinterpret_cast<const __m256i*>(from + at)));
    other = _mm256_or_si256(
        other, _mm256_load_si256(reinterpret_cast<const __m256i*>(from + at + line_bytes / 2)));
  }
  return _mm256_extract_epi64(_mm256_or_si256(all, other), 0);
}

#endif

// Seconds that all threads need to do `work` once each, at best.
template <typename Work>
double seconds_of(runtime::WorkerPool& pool, const Work& work) {
  double least = 1e9;
  for (int turn = 0; turn < tries; ++turn) {
    const auto begin = Clock::now();
    pool.run(pool.threads(), [&](std::int64_t first, std::int64_t last, int) {
      for (std::int64_t task = first; task < last; ++task) {
        auto value = work(task);
        asm volatile("" : "+m"(value));
      }
    });
    least = std::min(least, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return least;
}

}  // namespace

DeviceLimits measure_limits(runtime::WorkerPool& pool) {
  DeviceLimits limits;
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return limits;
  const auto rate = [&](auto probe, double lanes) {
    const double all = static_cast<double>(rounds) * chains * lanes * pool.threads();
    return all / seconds_of(pool, [&](std::int64_t) { return probe(); });
  };
  limits.multiply_adds = rate(multiply_256, 8);
  if (__builtin_cpu_supports("avx512f"))
    limits.multiply_adds = std::max(limits.multiply_adds, rate(multiply_512, 16));
  limits.narrow_multiply_adds = limits.multiply_adds;
  if (__builtin_cpu_supports("avx512bf16"))
    limits.narrow_multiply_adds = std::max(limits.multiply_adds, rate(multiply_bf16, 32));

  constexpr std::size_t least = std::size_t{1} << 14, most = std::size_t{1} << 27;
  std::vector<std::byte> memory(most + line_bytes, std::byte{1});
  void* aligned = memory.data();
  std::size_t room = memory.size();
  const auto* lines = static_cast<const std::byte*>(std::align(line_bytes, most, aligned, room));
  for (std::size_t bytes = least; bytes <= most; bytes *= 4) {
    const std::size_t share =
        bytes / static_cast<std::size_t>(pool.threads()) / line_bytes * line_bytes;
    // Small shares are read often enough to last.
    const std::size_t passes = std::max<std::size_t>(1, (most / 16) / bytes);
    const double seconds = seconds_of(pool, [&](std::int64_t task) {
      std::int64_t value = 0;
      for (std::size_t pass = 0; pass < passes; ++pass) {
        const std::byte* from = lines + static_cast<std::size_t>(task) * share;
        asm volatile("" : "+r"(from));
        value |= read_lines(from, share);
      }
      return value;
    });
    limits.reads.emplace_back(static_cast<double>(bytes),
                              static_cast<double>(passes * share) * pool.threads() / seconds);
  }
  // Noise apart, more bytes are never read faster.
  for (std::size_t i = limits.reads.size(); i-- > 1;)
    limits.reads[i - 1].second = std::max(limits.reads[i - 1].second, limits.reads[i].second);
#else
  (void)pool;
#endif
  return limits;
}

}  // namespace anydim::tuner
