#include "common/pool.h"

#include <pthread.h>

#include <chrono>

#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace hw {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kSpin = std::chrono::microseconds(60);  // longer than any gap between two operations of a step

thread_local int t_inside = -1;  // index of this thread while it runs a task
std::atomic<long> g_generation{0};

inline void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

void futex_wait(std::atomic<uint32_t>& word, uint32_t seen) {
#if defined(__linux__)
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
#else
  if (word.load() == seen) std::this_thread::sleep_for(std::chrono::microseconds(50));
#endif
}

void futex_wake_all(std::atomic<uint32_t>& word) {
#if defined(__linux__)
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, 1 << 30, nullptr, nullptr, 0);
#else
  (void)word;
#endif
}

}  // namespace

ThreadPool::ThreadPool(int threads) : threads_(threads < 1 ? 1 : threads) {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { g_generation.fetch_add(1); });
  (void)registered;
  generation_ = g_generation.load();
  start();
}

ThreadPool::~ThreadPool() { stop(); }

ThreadPool& ThreadPool::shared() {
  static ThreadPool* pool = new ThreadPool(1);  // never destroyed: workers may outlive static destruction order
  return *pool;
}

void ThreadPool::start() {
  quit_.store(false);
  for (int i = 1; i < threads_; ++i) workers_.emplace_back([this, i] { work(i); });
}

void ThreadPool::stop() {
  quit_.store(true);
  wake_.fetch_add(1);
  futex_wake_all(wake_);
  for (auto& worker : workers_) worker.join();
  workers_.clear();
}

void ThreadPool::resize(int threads) {
  std::lock_guard<std::mutex> lock(caller_);
  stop();
  threads_ = threads < 1 ? 1 : threads;
  start();
}

void ThreadPool::drain(int thread) {
  const int before = t_inside;
  t_inside = thread;
  for (int i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < n_tasks_;) task_(context_, i, thread);
  t_inside = before;
}

void ThreadPool::work(int thread) {
  uint64_t done = 0;  // number of the last job this worker looked at
  auto idle_since = Clock::now();
  for (int spins = 0;;) {
    uint64_t seen = state_.load(std::memory_order_acquire);
    if ((seen & kOpen) && seen / kJob != done) {
      if (!state_.compare_exchange_weak(seen, seen + 1, std::memory_order_acq_rel)) continue;
      done = seen / kJob;
      drain(thread);
      state_.fetch_sub(1, std::memory_order_acq_rel);
      idle_since = Clock::now();
      spins = 0;
      continue;
    }
    if (quit_.load(std::memory_order_relaxed)) return;
    pause_cpu();
    if ((++spins & 31) || Clock::now() - idle_since < kSpin) continue;
    const uint32_t word = wake_.load(std::memory_order_seq_cst);
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    seen = state_.load(std::memory_order_seq_cst);
    if (!((seen & kOpen) && seen / kJob != done) && !quit_.load()) futex_wait(wake_, word);
    sleepers_.fetch_sub(1, std::memory_order_seq_cst);
    idle_since = Clock::now();
    spins = 0;
  }
}

void ThreadPool::run(int n_tasks, Task task, void* context) {
  if (n_tasks <= 0) return;
  if (n_tasks == 1 || threads_ == 1 || t_inside >= 0) {
    const int thread = t_inside >= 0 ? t_inside : 0;
    if (t_inside >= 0 || threads_ == 1) {
      for (int i = 0; i < n_tasks; ++i) task(context, i, thread);
      return;
    }
  }
  std::lock_guard<std::mutex> lock(caller_);
  if (generation_ != g_generation.load(std::memory_order_relaxed)) {  // a fork kept the objects but not the threads
    new std::vector<std::thread>(std::move(workers_));  // handles of threads that do not exist here: neither join nor detach may touch them
    workers_.clear();
    sleepers_.store(0);
    state_.store(state_.load() & ~(kOpen | kInside));
    generation_ = g_generation.load();
    start();
  }
  if (n_tasks == 1) {
    t_inside = 0;
    task(context, 0, 0);
    t_inside = -1;
    return;
  }
  task_ = task;
  context_ = context;
  n_tasks_ = n_tasks;
  next_.store(0, std::memory_order_relaxed);
  state_.store((state_.load(std::memory_order_relaxed) & ~(kOpen | kInside)) + kJob + kOpen, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) > 0) {
    wake_.fetch_add(1, std::memory_order_seq_cst);
    futex_wake_all(wake_);
  }
  drain(0);
  state_.fetch_and(~kOpen, std::memory_order_acq_rel);
  for (int spins = 0; state_.load(std::memory_order_acquire) & kInside; ++spins) {
    if (spins < 4096) {
      pause_cpu();
    } else {
      std::this_thread::yield();  // the worker inside was descheduled: give it a core
    }
  }
}

}  // namespace hw
