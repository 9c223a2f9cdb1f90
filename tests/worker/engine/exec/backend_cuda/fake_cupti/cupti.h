// SPDX-License-Identifier: Apache-2.0
#pragma once
// The part of CUPTI's interface that we use, for building cupti_trace.cc where CUPTI is not
// installed. Names, values and meanings are CUPTI's, the records hold what we read of them; the
// implementation is fake_cupti.cc.

#include <cstddef>
#include <cstdint>

#define CUPTIAPI
#define CUPTI_API_VERSION 130001

struct CUctx_st;
using CUcontext = CUctx_st*;
struct CUstream_st;
using CUstream = CUstream_st*;

enum CUptiResult {
  CUPTI_SUCCESS = 0,
  CUPTI_ERROR_INVALID_KIND = 21,
  CUPTI_ERROR_MAX_LIMIT_REACHED = 12,
  CUPTI_ERROR_UNKNOWN = 999
};
enum CUpti_ActivityKind {
  CUPTI_ACTIVITY_KIND_MEMCPY = 1,
  CUPTI_ACTIVITY_KIND_MEMSET = 2,
  CUPTI_ACTIVITY_KIND_OVERHEAD = 17,
  CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL = 10
};
enum { CUPTI_ACTIVITY_FLAG_FLUSH_FORCED = 1 };

struct CUpti_Activity {
  CUpti_ActivityKind kind;
};
struct CUpti_ActivityKernel10 {
  CUpti_ActivityKind kind;
  uint64_t start, end;
  uint32_t streamId;
  const char* name;
};
struct CUpti_ActivityMemcpy6 {
  CUpti_ActivityKind kind;
  uint64_t start, end;
  uint32_t streamId;
};
struct CUpti_ActivityMemset4 {
  CUpti_ActivityKind kind;
  uint64_t start, end;
  uint32_t streamId;
};

using CUpti_BuffersCallbackRequestFunc = void (*)(uint8_t** buffer, size_t* size,
                                                  size_t* most_records);
using CUpti_TimestampCallbackFunc = uint64_t (*)();
using CUpti_BuffersCallbackCompleteFunc = void (*)(CUcontext context, uint32_t stream,
                                                   uint8_t* buffer, size_t size, size_t valid);

extern "C" {
CUptiResult cuptiGetVersion(uint32_t* version);
CUptiResult cuptiGetResultString(CUptiResult result, const char** text);
CUptiResult cuptiGetStreamIdEx(CUcontext context, CUstream stream, uint8_t per_thread,
                               uint32_t* id);
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                           CUpti_BuffersCallbackCompleteFunc complete);
CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc now);
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind);
CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind);
CUptiResult cuptiActivityFlushAll(uint32_t flag);
CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, CUpti_Activity** record);
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream, size_t* dropped);
}
