// SPDX-License-Identifier: Apache-2.0
#pragma once
// The part of the table of limits (limits.h) that concerns nodes: what daemons of workers send and
// hold, their trainers, and ranks that meet.

#include <cstdint>

#include "proto/base/limit.h"

namespace stretto::limits {

using enum LimitUnit;

// ---- messages of workers
inline constexpr Limit kWorkerNameBytes{
    "name in a message of a worker: ids, host, build, reason, phase, group",
    256,
    kBytes,
    "",
    "the session ends",
    "HostileWorkerTest.WhatBreaksABoundEndsItsSessionAndNobodyElses"};
inline constexpr Limit kWorkerTextBytes{
    "prose in a message of a worker: messages, operations, descriptions, faults",
    int64_t{8} << 10,
    kBytes,
    "",
    "the session ends; a daemon cuts what it sends",
    "WorkerBoundsTest.WhatIsFittedIsAdmitted"};
inline constexpr Limit kWorkerListEntries{"list in a message of a worker that has no row here",
                                          1'024,
                                          kCount,
                                          "",
                                          "the session ends",
                                          "WorkerBoundsTest.ListsAreBounded"};
inline constexpr Limit kWorkerSlots{
    "slots of a worker",
    4'096,
    kCount,
    "",
    "the session ends",
    "HostileWorkerTest.WhatBreaksABoundEndsItsSessionAndNobodyElses"};
inline constexpr Limit kHeldRanks{"ranks of earlier sessions that a worker registers with",
                                  16'384,
                                  kCount,
                                  "",
                                  "the session ends; a daemon leaves out ended ranks first",
                                  "WorkerBoundsTest.ListsAreBounded"};
inline constexpr Limit kLedgerEntries{
    "entries of a step's ledger, and of a sum of ledgers",
    256,
    kCount,
    "",
    "the session ends; in a sum, further kinds are added up as one",
    "HostileWorkerTest.AHugeLedgerStopsNobody"};
inline constexpr Limit kTraceEntries{
    "operations of a recorded step",   int64_t{1} << 20, kCount, "", "the session ends",
    "WorkerBoundsTest.ListsAreBounded"};
inline constexpr Limit kLogChunkBytes{"chunk of a log",
                                      int64_t{64} << 10,
                                      kBytes,
                                      "",
                                      "the session ends",
                                      "WorkerBoundsTest.LogsAreBytes"};
inline constexpr Limit kTraceRecordBytes{"record of a trace",
                                         (int64_t{4} << 20) - (int64_t{64} << 10),
                                         kBytes,
                                         "",
                                         "the stream of the trace ends with an error",
                                         "TraceStreamTest.ARecordThatIsTooLongEndsItsStreamAlone"};

inline constexpr Limit kRegisterSeconds{
    "time from the begin of a session to its Register", 10, kSeconds, "", "the session ends",
    "WorkerServiceTest.StrangerThatSaysNothingIsCutOff"};
inline constexpr Limit kSessionMessages{"messages that wait for a worker",
                                        10'000,
                                        kCount,
                                        "",
                                        "the session ends",
                                        "LimitsTest.AWorkerThatDoesNotReadLosesItsSession"};
inline constexpr Limit kTraceCredit{
    "records of a trace that wait for one reader",      16, kCount, "", "the stream ends",
    "JobTraceTest.AWorkerThatOverrunsItsCreditIsCutOff"};
inline constexpr Limit kStoreAttemptBytes{
    "rendezvous of one attempt",        int64_t{64} << 20, kBytes, "", "the call is refused",
    "RendezvousTest.AnAttemptIsBounded"};

// ---- trainers
inline constexpr Limit kProbedSlots{"CPU slots of a node",
                                    1'024,
                                    kCount,
                                    "",
                                    "--slots is refused",
                                    "NodeProbeTest.NegativeAndHugeSlotCountsAreRefused"};
inline constexpr Limit kTrainerThreads{"threads of a trainer and of what it starts",
                                       4'096,
                                       kCount,
                                       "stretto-worker --max-trainer-threads",
                                       "it can start no further one",
                                       "RealGroupsTest.AProcessStartsInAGroupThatBoundsItsThreads"};
inline constexpr Limit kTrainerFiles{"files and connections that a trainer has open",
                                     65'536,
                                     kCount,
                                     "stretto-worker --max-trainer-files",
                                     "it can open no further one",
                                     "RightsTest.OpenFilesAreBounded"};
inline constexpr Limit kReportLogBytes{
    "reports of a rank on its node",
    int64_t{64} << 20,
    kBytes,
    "",
    "the oldest steps are dropped, and the sum of their ledgers is kept",
    "ShortenLogTest.AtItsBoundItDropsTheOlderStepsAndKeepsTheirSum"};
inline constexpr Limit kTrainerLogBytes{
    "log of a rank on its node",
    int64_t{64} << 20,
    kBytes,
    "stretto-worker --max-trainer-log-bytes",
    "its middle is dropped, and a line says how much",
    "LogStreamTest.ALogThatIsBoundedIsFollowedOverWhatWasDropped"};
inline constexpr Limit kTrainerMemory{"memory of a trainer",
                                      0,
                                      kBytes,
                                      "stretto-worker --max-trainer-memory-bytes",
                                      "the kernel ends it",
                                      "TrainerGroupsTest.AGroupHasTheLimits"};

// ---- ranks that meet
inline constexpr Limit kMeetingHandshake{"handshake of a connection to a rank's listener",
                                         10,
                                         kSeconds,
                                         "",
                                         "the connection is dropped and counted",
                                         "GateTest.ASilentVisitorIsDroppedInTime"};
inline constexpr Limit kMeetingVisitors{"connections to a rank's listener within their handshake",
                                        64,
                                        kCount,
                                        "",
                                        "the oldest is dropped and counted",
                                        "GateTest.AFloodOfVisitorsKeepsNoPeerOut"};

}  // namespace stretto::limits
