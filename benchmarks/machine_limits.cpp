// What the machine gives kernels on AVX2: bytes a second of reading memory in
// huge pages, and multiply-adds of bytes a second by the two instructions that
// add up products of Q4_0.
//
//     g++ -O2 -mavx2 -pthread benchmarks/machine_limits.cpp -o limits &&
//     ./limits [THREADS]

#include <immintrin.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

// The least time in seconds of 15 turns of work(thread) on all threads.
template <typename Work> double least_time(int n_threads, Work work) {
  double least = 1e9;
  for (int turn = 0; turn < 15; ++turn) {
    std::atomic<int> ready{0};
    const auto run = [&](int thread) {
      ready.fetch_add(1);
      while (ready.load() < n_threads) {
      }
      const auto began = Clock::now();
      work(thread);
      return std::chrono::duration<double>(Clock::now() - began).count();
    };
    std::vector<std::thread> others;
    for (int thread = 1; thread < n_threads; ++thread) {
      others.emplace_back(run, thread);
    }
    least = std::min(least, run(0));
    for (std::thread &other : others) {
      other.join();
    }
  }
  return least;
}

} // namespace

int main(int argc, char **argv) {
  const int n_threads = argc > 1 ? std::atoi(argv[1]) : 2;
  constexpr size_t kSize = size_t{256} << 20, kAlignment = size_t{2} << 20;
  auto *memory = static_cast<char *>(std::aligned_alloc(kAlignment, kSize));
  madvise(memory, kSize, MADV_HUGEPAGE);
  std::memset(memory, 1, kSize);
  const size_t share = kSize / static_cast<size_t>(n_threads);
  const double reading = least_time(n_threads, [&](int thread) {
    const char *bytes = memory + static_cast<size_t>(thread) * share;
    __m256i sums[4] = {};
    for (size_t i = 0; i + 128 <= share; i += 128) {
      for (int j = 0; j < 4; ++j) {
        const auto *at = reinterpret_cast<const __m256i *>(bytes + i + j * 32);
        sums[j] = _mm256_add_epi8(sums[j], _mm256_load_si256(at));
      }
    }
    asm volatile("" ::"x"(sums[0]), "x"(sums[1]), "x"(sums[2]), "x"(sums[3]));
  });
  std::printf("%d threads read %.1f GB/s\n", n_threads, kSize / reading / 1e9);

  constexpr int kSteps = 20000000, kSums = 8;
  const double multiplying = least_time(n_threads, [&](int) {
    __m256i sums[kSums] = {}, weights = _mm256_set1_epi8(3);
    for (int step = 0; step < kSteps / kSums; ++step) {
      asm volatile("" : "+x"(weights));
      for (__m256i &sum : sums) {
        sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(weights, weights));
        asm volatile("" : "+x"(sum), "+x"(weights));
      }
    }
  });
  std::printf("%d threads multiply %.0f G/s\n", n_threads,
              32e-9 * kSteps * n_threads / multiplying);
  return 0;
}
