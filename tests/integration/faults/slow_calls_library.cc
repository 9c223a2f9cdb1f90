// SPDX-License-Identifier: Apache-2.0

// A library for LD_PRELOAD that puts itself before the C library's fsync, fdatasync, syscall and
// wall clock. It makes one call slow, as a stalled disk does, or shifts the clock, as a step of NTP
// does. Each function ends in the system call itself, so nothing here depends on how libc is built.
// libc has no openat2, so our programs open files under a root by syscall. Abseil waits for times
// of the wall clock by syscall, too.

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "tests/integration/faults/slow_calls_page.h"

namespace {

constexpr int64_t kSecond = 1'000'000'000;

// The C library's own syscall. Threads may look it up at once, and find the same.
template <class... Arguments>
long System(long number, Arguments... arguments) {
  static long (*real)(long, ...) = nullptr;
  if (real == nullptr) real = reinterpret_cast<long (*)(long, ...)>(dlsym(RTLD_NEXT, "syscall"));
  return real(number, arguments...);
}

SlowCallsPage* Page() {
  static SlowCallsPage* const page = [] {
    const char* name = std::getenv(kSlowCallsPage);
    if (name == nullptr) return static_cast<SlowCallsPage*>(nullptr);
    const auto file = static_cast<int>(System(SYS_openat, AT_FDCWD, name, O_RDWR | O_CLOEXEC, 0));
    void* mapped =
        mmap(nullptr, sizeof(SlowCallsPage), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    System(SYS_close, file);
    return mapped == MAP_FAILED ? nullptr : static_cast<SlowCallsPage*>(mapped);
  }();
  return page;
}

void Take(int64_t* delay) {
  const int64_t taken = __atomic_exchange_n(delay, 0, __ATOMIC_RELAXED);
  if (taken == 0) return;
  timespec left = {.tv_sec = taken / kSecond, .tv_nsec = taken % kSecond};
  while (System(SYS_nanosleep, &left, &left) != 0) {
  }
}

void BeforeSync() {
  if (Page() != nullptr) Take(&Page()->sync_ns);
}

void BeforeOpen(const char* path, const open_how& how) {
  const size_t size = std::strlen(path);
  constexpr char kEnd[] = ".safetensors";
  constexpr size_t kEndSize = sizeof(kEnd) - 1;
  const bool tensors = size > kEndSize && std::strcmp(path + size - kEndSize, kEnd) == 0;
  if (Page() != nullptr && tensors && (how.flags & O_ACCMODE) == O_RDONLY) Take(&Page()->open_ns);
}

int64_t ClockAhead() {
  return Page() == nullptr ? 0 : __atomic_load_n(&Page()->clock_ahead_ns, __ATOMIC_RELAXED);
}

int64_t WallNanos() {
  timespec now{};
  System(SYS_clock_gettime, CLOCK_REALTIME, &now);
  return now.tv_sec * kSecond + now.tv_nsec + ClockAhead();
}

// By the kernel's clock, which is not shifted, a wait of Abseil's would end at once or too late.
timespec ByTheKernel(const timespec& wall) {
  const int64_t time = wall.tv_sec * kSecond + wall.tv_nsec - ClockAhead();
  return {.tv_sec = time / kSecond, .tv_nsec = time % kSecond};
}

}  // namespace

extern "C" {

int fsync(int file) {
  BeforeSync();
  return static_cast<int>(System(SYS_fsync, file));
}

int fdatasync(int file) {
  BeforeSync();
  return static_cast<int>(System(SYS_fdatasync, file));
}

long syscall(long number, ...) noexcept {
  va_list more;
  va_start(more, number);
  long of[6];
  for (long& argument : of) argument = va_arg(more, long);
  va_end(more);
  if (number == SYS_openat2) {
    BeforeOpen(reinterpret_cast<const char*>(of[1]), *reinterpret_cast<const open_how*>(of[2]));
  }
  timespec until{};
  if (number == SYS_futex && (of[1] & FUTEX_CLOCK_REALTIME) != 0 && of[3] != 0 &&
      ClockAhead() != 0) {
    until = ByTheKernel(*reinterpret_cast<const timespec*>(of[3]));
    of[3] = reinterpret_cast<long>(&until);
  }
  return System(number, of[0], of[1], of[2], of[3], of[4], of[5]);
}

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE) {
    return static_cast<int>(System(SYS_clock_gettime, clock, time));
  }
  const int64_t now = WallNanos();
  *time = {.tv_sec = now / kSecond, .tv_nsec = now % kSecond};
  return 0;
}

int gettimeofday(timeval* time, void*) noexcept {
  const int64_t now = WallNanos();
  *time = {.tv_sec = now / kSecond, .tv_usec = now % kSecond / 1000};
  return 0;
}

time_t time(time_t* seconds) noexcept {
  const time_t now = WallNanos() / kSecond;
  if (seconds != nullptr) *seconds = now;
  return now;
}

}  // extern "C"
