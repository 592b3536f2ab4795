// The persistent thread pool: bounded spinning, then futex sleep. The caller works too; a worker that is asleep or descheduled never
// holds up a job that the others finished, because it only joins a job that is still open.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace hw {

class ThreadPool {
 public:
  using Task = void (*)(void* context, int task, int thread);

  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }
  void resize(int threads);

  // Runs task 0..n_tasks-1, each once, in no promised order; `thread` < threads() is unique among tasks that run at the same time.
  // Tasks must not throw. A call from inside a task runs serially. Calls from several threads queue up.
  void run(int n_tasks, Task task, void* context);

  // f(task, thread). Everything is inlined into the caller, so that no code compiled for one instruction set leaks into another.
  template <class F>
  inline __attribute__((always_inline)) void parallel_for(int n_tasks, F&& f) {
    using Body = std::remove_reference_t<F>;
    run(n_tasks, [](void* context, int task, int thread) { (*static_cast<Body*>(context))(task, thread); },
        const_cast<void*>(static_cast<const void*>(&f)));
  }

  static ThreadPool& shared();

 private:
  void start();
  void stop();
  void work(int thread);
  void drain(int thread);

  // state_: job number << 16 | open bit << 15 | workers inside
  static constexpr uint64_t kOpen = 1u << 15, kInside = kOpen - 1, kJob = 1u << 16;

  int threads_ = 1;
  long generation_ = 0;
  std::vector<std::thread> workers_;
  std::mutex caller_;
  alignas(64) std::atomic<uint64_t> state_{0};
  alignas(64) std::atomic<int> next_{0};
  alignas(64) std::atomic<uint32_t> wake_{0};
  std::atomic<int> sleepers_{0};
  std::atomic<bool> quit_{false};
  Task task_ = nullptr;
  void* context_ = nullptr;
  int n_tasks_ = 0;
};

}  // namespace hw
