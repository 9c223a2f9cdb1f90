// SPDX-License-Identifier: Apache-2.0

// Records kernels and copies with CUPTI, which is opened at run time. CUPTI calls back on its own
// threads with buffers of records, which are parsed into a process-wide sink that one trace at a
// time owns. It reads our clock where it needs one, and maps the device's times to it. A missing or
// incomplete record makes the recording an error, because it would prove nothing.

#include "worker/engine/exec/backend_cuda/cupti_trace.h"

#if __has_include(<cupti.h>)

#include <cupti.h>
#include <dlfcn.h>

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/mutex.h"
#include "proto/base/status_macros.h"

namespace stretto::cuda {

struct CuptiTrace::Library {
  decltype(&cuptiGetVersion) GetVersion;
  decltype(&cuptiGetResultString) GetResultString;
  decltype(&cuptiGetStreamIdEx) GetStreamIdEx;
  decltype(&cuptiActivityRegisterCallbacks) ActivityRegisterCallbacks;
  decltype(&cuptiActivityRegisterTimestampCallback) ActivityRegisterTimestampCallback;
  decltype(&cuptiActivityEnable) ActivityEnable;
  decltype(&cuptiActivityDisable) ActivityDisable;
  decltype(&cuptiActivityFlushAll) ActivityFlushAll;
  decltype(&cuptiActivityGetNextRecord) ActivityGetNextRecord;
  decltype(&cuptiActivityGetNumDroppedRecords) ActivityGetNumDroppedRecords;

  absl::Status FindAll(void* handle, const std::string& path);

  absl::Status Check(CUptiResult result, const char* what) const {
    if (result == CUPTI_SUCCESS) return absl::OkStatus();
    const char* text = nullptr;
    if (GetResultString(result, &text) != CUPTI_SUCCESS || text == nullptr) text = "unknown";
    return absl::InternalError(absl::StrCat("CUPTI: ", what, ": ", text));
  }
};

namespace {

// The size of a buffer that CUPTI requests, on its own threads.
constexpr size_t kBufferBytes = size_t{8} << 20;
constexpr size_t kRecordAlignment = 8;

// The destination of records. CUPTI's callbacks take no argument of ours, so there is one for the
// process, which the active trace owns.
struct Sink {
  Mutex mu;
  const CuptiTrace::Library* library GUARDED_BY(mu) = nullptr;  // null: nobody traces
  std::vector<DeviceActivity> activities GUARDED_BY(mu);
  int64_t unfinished GUARDED_BY(mu) = 0;
  int64_t unread GUARDED_BY(mu) = 0;  // buffers with something that is no record
};
Sink& TheSink() {
  static auto* sink = new Sink;  // never freed: CUPTI may call until the process ends
  return *sink;
}

template <class Record>
void Add(const Record& record, const char* name, Sink* sink) REQUIRES(sink->mu) {
  if (record.start == 0 || record.end == 0) {
    ++sink->unfinished;
    return;
  }
  sink->activities.push_back(
      {.stream = record.streamId,
       .name = name != nullptr ? name : "",
       .at = {static_cast<int64_t>(record.start), static_cast<int64_t>(record.end)}});
}

void Add(const CUpti_Activity* record, Sink* sink) REQUIRES(sink->mu) {
  if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    const auto* kernel = reinterpret_cast<const CUpti_ActivityKernel10*>(record);
    Add(*kernel, kernel->name, sink);
  } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
    Add(*reinterpret_cast<const CUpti_ActivityMemcpy6*>(record), "memcpy", sink);
  } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
    Add(*reinterpret_cast<const CUpti_ActivityMemset4*>(record), "memset", sink);
  }
}

uint64_t CUPTIAPI HostsClock() { return static_cast<uint64_t>(NowNanoseconds()); }

void CUPTIAPI GiveBuffer(uint8_t** buffer, size_t* size, size_t* most_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(kRecordAlignment, kBufferBytes));
  *size = *buffer != nullptr ? kBufferBytes : 0;  // without memory CUPTI drops and counts records
  *most_records = 0;                              // as many as fit
}

void CUPTIAPI TakeBuffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  Sink& sink = TheSink();
  {
    const MutexLock lock(sink.mu);
    CUpti_Activity* record = nullptr;
    CUptiResult result = CUPTI_SUCCESS;
    while (sink.library != nullptr && result == CUPTI_SUCCESS) {
      result = sink.library->ActivityGetNextRecord(buffer, valid, &record);
      if (result == CUPTI_SUCCESS) Add(record, &sink);
    }
    if (result != CUPTI_SUCCESS && result != CUPTI_ERROR_MAX_LIMIT_REACHED) ++sink.unread;
  }
  std::free(buffer);
}

template <class Function>
absl::Status Find(void* handle, const std::string& path, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  if (function != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("CUPTI ('", path, "') has no function ", name));
}

}  // namespace

absl::Status CuptiTrace::Library::FindAll(void* handle, const std::string& path) {
#define FIND(name) RETURN_IF_ERROR(Find(handle, path, "cupti" #name, name))
  FIND(GetVersion);
  uint32_t version = 0;
  // Records of a library that is not older start like those of our header; those of another major
  // version may differ.
  if (GetVersion(&version) != CUPTI_SUCCESS || version < CUPTI_API_VERSION ||
      version / 10000 != CUPTI_API_VERSION / 10000) {
    return absl::FailedPreconditionError(absl::StrCat("CUPTI ('", path, "') is version ", version,
                                                      ", expected ", CUPTI_API_VERSION,
                                                      " or a newer one of the same toolkit"));
  }
  FIND(GetResultString);
  FIND(GetStreamIdEx);
  FIND(ActivityRegisterCallbacks);
  FIND(ActivityRegisterTimestampCallback);
  FIND(ActivityEnable);
  FIND(ActivityDisable);
  FIND(ActivityFlushAll);
  FIND(ActivityGetNextRecord);
  FIND(ActivityGetNumDroppedRecords);
#undef FIND
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<CuptiTrace>> CuptiTrace::Open(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = dlerror();
    return absl::NotFoundError(
        absl::StrCat("cannot open CUPTI: ", reason != nullptr ? reason : "no reason given"));
  }
  auto library = std::make_unique<Library>();
  RETURN_IF_ERROR(library->FindAll(handle, path));
  RETURN_IF_ERROR(library->Check(library->ActivityRegisterCallbacks(GiveBuffer, TakeBuffer),
                                 "cannot register for records"));
  return std::unique_ptr<CuptiTrace>(new CuptiTrace(std::move(library)));
}

CuptiTrace::CuptiTrace(std::unique_ptr<Library> library) : library_(std::move(library)) {}

CuptiTrace::~CuptiTrace() { Stop().IgnoreError(); }

absl::StatusOr<uint32_t> CuptiTrace::IdOf(void* stream) const {
  uint32_t id = 0;
  RETURN_IF_ERROR(library_->Check(
      library_->GetStreamIdEx(nullptr, static_cast<CUstream>(stream), 0, &id), "stream"));
  return id;
}

absl::Status CuptiTrace::Enable(bool on) {
  for (CUpti_ActivityKind kind : {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                                  CUPTI_ACTIVITY_KIND_MEMSET}) {
    RETURN_IF_ERROR(on ? library_->Check(library_->ActivityEnable(kind), "cannot start")
                       : library_->Check(library_->ActivityDisable(kind), "cannot stop"));
  }
  return absl::OkStatus();
}

absl::Status CuptiTrace::Start() {
  Sink& sink = TheSink();
  {
    const MutexLock lock(sink.mu);
    if (sink.library != nullptr) {
      return absl::FailedPreconditionError("CUPTI: another step of this process is being traced");
    }
    sink.library = library_.get();
    sink.activities.clear();
    sink.unfinished = sink.unread = 0;
  }
  size_t before = 0;  // counts since the last call; records dropped earlier are not this trace's
  RETURN_IF_ERROR(library_->Check(library_->ActivityGetNumDroppedRecords(nullptr, 0, &before),
                                  "dropped records"));
  // Needs a driver, and must come before any kind of activity is enabled.
  RETURN_IF_ERROR(library_->Check(library_->ActivityRegisterTimestampCallback(HostsClock),
                                  "cannot have our clock"));
  return Enable(true);
}

absl::StatusOr<std::vector<DeviceActivity>> CuptiTrace::Stop() {
  Sink& sink = TheSink();
  {
    const MutexLock lock(sink.mu);
    if (sink.library != library_.get()) {
      return absl::FailedPreconditionError("CUPTI: found no trace to stop, expected Start before");
    }
  }
  size_t dropped = 0;
  absl::Status status = library_->Check(
      library_->ActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cannot have its records");
  status.Update(library_->Check(library_->ActivityGetNumDroppedRecords(nullptr, 0, &dropped),
                                "dropped records"));
  status.Update(Enable(false));
  std::vector<DeviceActivity> activities;
  int64_t unfinished = 0, unread = 0;
  {
    const MutexLock lock(sink.mu);
    sink.library = nullptr;
    activities = std::exchange(sink.activities, {});
    unfinished = sink.unfinished;
    unread = sink.unread;
  }
  RETURN_IF_ERROR(status);
  if (dropped > 0 || unfinished > 0 || unread > 0) {
    return absl::DataLossError(
        absl::StrCat("CUPTI: of a step's records, found ", activities.size(), " whole, ", dropped,
                     " dropped, ", unfinished, " without an end and ", unread,
                     " buffers that cannot be read, expected all whole: no evidence"));
  }
  return activities;
}

}  // namespace stretto::cuda

#else  // without CUPTI's header

namespace stretto::cuda {

struct CuptiTrace::Library {};

absl::StatusOr<std::unique_ptr<CuptiTrace>> CuptiTrace::Open(const std::string&) {
  return absl::UnimplementedError("CUPTI: this build had no cupti.h; install it and build again");
}
CuptiTrace::~CuptiTrace() = default;
absl::StatusOr<uint32_t> CuptiTrace::IdOf(void*) const { return Open("").status(); }
absl::Status CuptiTrace::Start() { return Open("").status(); }
absl::StatusOr<std::vector<DeviceActivity>> CuptiTrace::Stop() { return Open("").status(); }

}  // namespace stretto::cuda

#endif
