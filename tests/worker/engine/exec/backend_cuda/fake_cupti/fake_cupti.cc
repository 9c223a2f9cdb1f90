// SPDX-License-Identifier: Apache-2.0
#include "fake_cupti.h"

#include <algorithm>

#include "cupti.h"

namespace fake_cupti {

State& state() {
  static auto* state = new State;
  return *state;
}

namespace {

CUpti_BuffersCallbackRequestFunc request = nullptr;
CUpti_BuffersCallbackCompleteFunc complete = nullptr;

CUptiResult Result(const char* call) {
  return state().fails == call ? CUPTI_ERROR_UNKNOWN : CUPTI_SUCCESS;
}

// Every record takes as much as the largest.
union Slot {
  CUpti_Activity any;
  CUpti_ActivityKernel10 kernel;
  CUpti_ActivityMemcpy6 memcpy;
  CUpti_ActivityMemset4 memset;
};

void Write(const Record& record, Slot* slot) {
  const auto kind = static_cast<CUpti_ActivityKind>(record.kind);
  slot->any.kind = kind;
  if (kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    slot->kernel = {kind, record.start, record.end, record.stream, record.name.c_str()};
  } else if (kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
    slot->memcpy = {kind, record.start, record.end, record.stream};
  } else if (kind == CUPTI_ACTIVITY_KIND_MEMSET) {
    slot->memset = {kind, record.start, record.end, record.stream};
  }
}

void GiveAway(size_t first, size_t count) {
  uint8_t* buffer = nullptr;
  size_t size = 0, most = 0;
  ++state().buffers;
  request(&buffer, &size, &most);
  for (size_t i = 0; i < count; ++i)
    Write(state().records[first + i], reinterpret_cast<Slot*>(buffer) + i);
  complete(nullptr, 0, buffer, size, count * sizeof(Slot));
  --state().buffers;
}

}  // namespace
}  // namespace fake_cupti

using fake_cupti::Result;
using fake_cupti::Slot;
using fake_cupti::state;

extern "C" {

CUptiResult cuptiGetVersion(uint32_t* version) {
  *version = state().version;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetResultString(CUptiResult, const char** text) {
  *text = "CUPTI_ERROR_UNKNOWN";
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetStreamIdEx(CUcontext, CUstream stream, uint8_t, uint32_t* id) {
  const auto next = static_cast<uint32_t>(7 + state().streams.size());
  *id = state().streams.emplace(stream, next).first->second;
  return Result("cuptiGetStreamIdEx");
}
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                           CUpti_BuffersCallbackCompleteFunc complete) {
  fake_cupti::request = request;
  fake_cupti::complete = complete;
  return Result("cuptiActivityRegisterCallbacks");
}
CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc now) {
  state().now = now;
  return Result("cuptiActivityRegisterTimestampCallback");
}
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  state().enabled.insert(kind);
  return Result("cuptiActivityEnable");
}
CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  state().enabled.erase(kind);
  return Result("cuptiActivityDisable");
}
CUptiResult cuptiActivityFlushAll(uint32_t flag) {
  if (flag != CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) return CUPTI_ERROR_UNKNOWN;
  if (state().at_flush != nullptr) state().at_flush();
  const size_t all = state().records.size(), most = state().records_in_a_buffer;
  for (size_t first = 0; first < all; first += most)
    fake_cupti::GiveAway(first, std::min(most, all - first));
  state().records.clear();
  return Result("cuptiActivityFlushAll");
}
CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, CUpti_Activity** record) {
  if (state().corrupt) return CUPTI_ERROR_INVALID_KIND;
  auto* next = reinterpret_cast<uint8_t*>(*record);
  next = next == nullptr ? buffer : next + sizeof(Slot);
  if (next >= buffer + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) {
  *dropped = state().dropped;
  state().dropped = 0;
  return Result("cuptiActivityGetNumDroppedRecords");
}

}  // extern "C"
