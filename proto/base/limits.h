// SPDX-License-Identifier: Apache-2.0
#pragma once
// Every bound on what others may send or hold, in one table: the code takes its numbers from here,
// and docs/reference/limits.md is what the table says. A new limit takes an entry here, an entry of
// kAllLimits, and a test that crosses it, which the entry names.

#include <cstdint>

namespace stretto {

// What a limit counts.
enum class LimitUnit : uint8_t { kCount, kBytes, kSeconds };

struct Limit {
  const char* what;  // is limited
  int64_t value;     // the default, if there is a flag
  LimitUnit unit;
  const char* flag;    // of stretto-coordinator, "--max-spec-bytes"; empty: the limit is fixed
  const char* beyond;  // what happens
  const char* test;    // that crosses it, "Suite.Name"
};

namespace limits {

using enum LimitUnit;

// ---- requests of users
inline constexpr Limit kSpecBytes{
    "job spec",         int64_t{64} << 10,    kBytes,
    "--max-spec-bytes", "the job is refused", "LimitsTest.ASpecIsRefusedAboveItsBound"};
inline constexpr Limit kUserStreams{"open streams of users: watches, logs, traces",
                                    2'000,
                                    kCount,
                                    "--max-streams",
                                    "the stream is refused",
                                    "LimitsTest.StreamsAreBoundedAndAnEndedOneMakesRoom"};

// ---- messages
// gRPC's own default, said on every hop so that no two differ.
inline constexpr Limit kMessageBytes{
    "message between daemons, and request of a user",
    int64_t{4} << 20,
    kBytes,
    "",
    "the call ends; a job whose assignment is longer fails",
    "LimitsTest.AnAssignmentThatAWorkerCannotTakeFailsItsJobAlone"};

}  // namespace limits

inline constexpr const Limit* kAllLimits[] = {
    &limits::kSpecBytes,
    &limits::kUserStreams,
    &limits::kMessageBytes,
};

}  // namespace stretto
