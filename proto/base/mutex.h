// SPDX-License-Identifier: Apache-2.0
#pragma once
// A mutex whose rules clang checks at compile time (-Wthread-safety, built by tests/run.sh --lint).
// A member is marked GUARDED_BY(mu_), and a helper that is called with the lock held REQUIRES(mu_);
// an access without the lock is an error. GCC ignores the annotations.
//
// It contains a std::mutex, which the thread sanitizer understands. It has no dependency, so
// kernels may use it too.
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

// For classes.
#define CAPABILITY(name) THREAD_ANNOTATION_ATTRIBUTE__(capability(name))
#define SCOPED_CAPABILITY THREAD_ANNOTATION_ATTRIBUTE__(scoped_lockable)
// For data. Abseil's headers define macros with these two names, THREAD_ANNOTATION_ATTRIBUTE__ and
// GUARDED_BY. Ours have exactly the same definition, so a file may include both in either order
// (identical redefinition of a macro is allowed).
#define GUARDED_BY(x) THREAD_ANNOTATION_ATTRIBUTE__(guarded_by(x))
// For functions: the caller holds the mutex, or must not hold it; the function acquires or releases
// it.
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

// Holds the mutex during its lifetime, except between Unlock and Lock.
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

// All waits have a predicate, which is evaluated with the mutex held; the mutex is held again when
// a wait returns. A timed wait returns the last value of the predicate. Mark the predicate REQUIRES
// as above, because the compiler does not see that it runs under the mutex.
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
  // Lends a mutex that the caller holds to std::condition_variable, in the form that it takes.
  struct Adopted {
    explicit Adopted(Mutex& mu) : lock(mu.mu_, std::adopt_lock) {}
    ~Adopted() { lock.release(); }
    std::unique_lock<std::mutex> lock;
  };

  std::condition_variable changed_;
};

}  // namespace stretto
