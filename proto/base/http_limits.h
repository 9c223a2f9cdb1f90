// SPDX-License-Identifier: Apache-2.0
#pragma once
// The part of the table of limits (limits.h) that concerns metrics ports: probes, scrapes and the
// page of the coordinator.

#include <cstdint>

#include "proto/base/limit.h"

namespace stretto::limits {

using enum LimitUnit;

// ---- probes and metrics
inline constexpr Limit kHttpSeconds{"request to a metrics port, and its answer",
                                    5,
                                    kSeconds,
                                    "",
                                    "the connection is closed",
                                    "MonitoringTest.SlowRequestsAreClosedInTimeAndDelayNoProbe"};
inline constexpr Limit kHttpHeaderBytes{
    "header of a request to a metrics port", int64_t{8} << 10, kBytes, "", "the answer is 431",
    "MonitoringTest.RequestsAreBounded"};
inline constexpr Limit kHttpClients{"connections to a metrics port",
                                    256,
                                    kCount,
                                    "",
                                    "the oldest is closed",
                                    "MonitoringTest.AFloodOfConnectionsDelaysNoProbe"};
inline constexpr Limit kScrapes{
    "scrapes of a metrics port at once",          4, kCount, "", "further ones get 503",
    "MonitoringTest.ProbesAnswerWhileScrapesWait"};

// ---- the page of the coordinator's metrics port
inline constexpr Limit kPageRequests{
    "requests for pages of a metrics port at once",       32, kCount, "", "further ones get 503",
    "MonitoringTest.ProbesAndScrapesAnswerWhilePagesWait"};
inline constexpr Limit kPageSeconds{"what the page reads from the coordinator and its workers",
                                    3,
                                    kSeconds,
                                    "",
                                    "the answer is 503",
                                    "PageTest.AWorkerThatDoesNotAnswerIsGivenUp"};
inline constexpr Limit kPageCurveSteps{"steps of the page's loss curve",
                                       1'000,
                                       kCount,
                                       "",
                                       "it has an even choice of them",
                                       "JobHistoryTest.ACurveIsAnEvenChoiceWithEveryEvaluation"};
inline constexpr Limit kPageRanks{
    "ranks of a job that the page lists",    64, kCount, "", "it lists the first and says so",
    "PageTest.RanksBeyondTheBoundAreCounted"};
inline constexpr Limit kPageTraceBytes{
    "recorded step that the page draws",    int64_t{16} << 20, kBytes, "", "the answer is 503",
    "PageTest.AStepThatIsTooLongIsNotDrawn"};

}  // namespace stretto::limits
