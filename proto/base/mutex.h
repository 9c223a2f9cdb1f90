// SPDX-License-Identifier: Apache-2.0
#pragma once
// A mutex whose rules clang checks at compile time (-Wthread-safety, built by tests/run.sh --lint).
// A member says GUARDED_BY(mu_), a helper that is called with the lock held says REQUIRES(mu_), and
// an access without the lock is an error. Under GCC the annotations vanish.
//
// std::mutex is inside, so that the thread sanitizer understands it. No dependency, so that kernels
// may use it too.
//
//   void Post(Task task) {
//     const MutexLock lock(mu_);
//     tasks_.push_back(task);
//     changed_.NotifyOne();
//   }
//   void Run() {
//     MutexLock lock(mu_);
//     changed_.Wait(mu_, [this]() REQUIRES(mu_) { return !tasks_.empty(); });
//     ...

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#if defined(__clang__)
#define THREAD_ANNOTATION_ATTRIBUTE__(x) __attribute__((x))  // NOLINT: a reserved name
#else
#define THREAD_ANNOTATION_ATTRIBUTE__(x)  // NOLINT
#endif

// Of classes.
#define CAPABILITY(name) THREAD_ANNOTATION_ATTRIBUTE__(capability(name))
#define SCOPED_CAPABILITY THREAD_ANNOTATION_ATTRIBUTE__(scoped_lockable)
// Of data. Abseil's headers define macros of these two names, THREAD_ANNOTATION_ATTRIBUTE__ and
// GUARDED_BY. Ours are spelt exactly as theirs, because then a file may see both, in either order
// (a macro may be defined again in the same words).
#define GUARDED_BY(x) THREAD_ANNOTATION_ATTRIBUTE__(guarded_by(x))
// Of functions: the caller holds the mutex, or must not hold it; the function takes or releases it.
#define REQUIRES(...) THREAD_ANNOTATION_ATTRIBUTE__(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) THREAD_ANNOTATION_ATTRIBUTE__(locks_excluded(__VA_ARGS__))
#define ACQUIRE(...) THREAD_ANNOTATION_ATTRIBUTE__(acquire_capability(__VA_ARGS__))
#define RELEASE(...) THREAD_ANNOTATION_ATTRIBUTE__(release_capability(__VA_ARGS__))

namespace stretto {

class CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() ACQUIRE() { mu_.lock(); }
  void Unlock() RELEASE() { mu_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mu_;
};

// Holds the mutex while it lives, except between Unlock and Lock.
class SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mu) ACQUIRE(mu) : mu_(mu) { mu_.Lock(); }
  ~MutexLock() RELEASE() {
    if (held_) mu_.Unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void Lock() ACQUIRE() {
    mu_.Lock();
    held_ = true;
  }
  void Unlock() RELEASE() {
    held_ = false;
    mu_.Unlock();
  }

 private:
  Mutex& mu_;
  bool held_ = true;
};

// All waits are with a predicate, which is asked with the mutex held; the mutex is held again when
// a wait returns. A timed wait returns what the predicate said last. The predicate says
// REQUIRES, as above: the compiler does not see that it runs under the mutex.
class CondVar {
 public:
  void NotifyOne() { changed_.notify_one(); }
  void NotifyAll() { changed_.notify_all(); }

  template <class Predicate>
  void Wait(Mutex& mu, Predicate predicate) REQUIRES(mu) {
    Adopted lock(mu);
    changed_.wait(lock.lock, std::move(predicate));
  }

  template <class Rep, class Period, class Predicate>
  bool WaitFor(Mutex& mu, std::chrono::duration<Rep, Period> timeout, Predicate predicate)
      REQUIRES(mu) {
    Adopted lock(mu);
    return changed_.wait_for(lock.lock, timeout, std::move(predicate));
  }

  template <class Clock, class Duration, class Predicate>
  bool WaitUntil(Mutex& mu, std::chrono::time_point<Clock, Duration> deadline, Predicate predicate)
      REQUIRES(mu) {
    Adopted lock(mu);
    return changed_.wait_until(lock.lock, deadline, std::move(predicate));
  }

 private:
  // The form in which std::condition_variable takes a mutex that its caller holds and keeps.
  struct Adopted {
    explicit Adopted(Mutex& mu) : lock(mu.mu_, std::adopt_lock) {}
    ~Adopted() { lock.release(); }
    std::unique_lock<std::mutex> lock;
  };

  std::condition_variable changed_;
};

}  // namespace stretto
