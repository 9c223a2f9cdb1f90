// SPDX-License-Identifier: Apache-2.0

// An SQLite VFS before the usual one. It notes what each write replaces, and forgets that at a
// sync; a crash puts some sectors back. Databases must lock exclusively, because there is no shared
// memory.

#include "tests/simcluster/torn_disk.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "proto/base/check.h"
#include "proto/base/files.h"

namespace stretto::coordinator::testing {

constexpr int64_t kSector = 512;

// Allocated by SQLite; the file of the usual VFS lies behind it.
struct TornFile {
  sqlite3_file base;
  TornDisk* disk;
  std::string* path;

  static TornFile& Of(sqlite3_file* file) { return *reinterpret_cast<TornFile*>(file); }
  sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
  const sqlite3_io_methods& calls() { return *real()->pMethods; }

  // Notes what [offset, offset + size) holds. False: the disk takes nothing any more.
  bool Note(int64_t offset, int64_t size) {
    if (!disk->Takes()) return false;
    TornDisk::Write write{.offset = offset, .before = "", .size_before = 0};
    sqlite3_int64 length = 0;
    calls().xFileSize(real(), &length);
    write.size_before = length;
    write.before.resize(static_cast<size_t>(std::clamp<int64_t>(length - offset, 0, size)));
    if (!write.before.empty()) {
      calls().xRead(real(), write.before.data(), static_cast<int>(write.before.size()), offset);
    }
    disk->unsynced_[*path].push_back(std::move(write));
    return true;
  }

  static int Close(sqlite3_file* file) {
    TornFile& self = Of(file);
    delete self.path;
    return self.calls().xClose(self.real());
  }
  static int Read(sqlite3_file* file, void* to, int size, sqlite3_int64 offset) {
    return Of(file).calls().xRead(Of(file).real(), to, size, offset);
  }
  static int Write(sqlite3_file* file, const void* from, int size, sqlite3_int64 offset) {
    TornFile& self = Of(file);
    if (!self.Note(offset, size)) return SQLITE_IOERR_WRITE;
    return self.calls().xWrite(self.real(), from, size, offset);
  }
  static int Truncate(sqlite3_file* file, sqlite3_int64 size) {
    TornFile& self = Of(file);
    if (!self.Note(size, INT64_MAX)) return SQLITE_IOERR_TRUNCATE;
    return self.calls().xTruncate(self.real(), size);
  }
  static int Sync(sqlite3_file* file, int) {
    TornFile& self = Of(file);
    if (self.disk->dead()) return SQLITE_IOERR_FSYNC;
    self.disk->unsynced_.erase(*self.path);
    return SQLITE_OK;
  }
  static int FileSize(sqlite3_file* file, sqlite3_int64* size) {
    return Of(file).calls().xFileSize(Of(file).real(), size);
  }
  static int Lock(sqlite3_file* file, int kind) {
    return Of(file).calls().xLock(Of(file).real(), kind);
  }
  static int Unlock(sqlite3_file* file, int kind) {
    return Of(file).calls().xUnlock(Of(file).real(), kind);
  }
  static int CheckReservedLock(sqlite3_file* file, int* reserved) {
    return Of(file).calls().xCheckReservedLock(Of(file).real(), reserved);
  }
  static int FileControl(sqlite3_file* file, int call, void* argument) {
    return Of(file).calls().xFileControl(Of(file).real(), call, argument);
  }
  static int SectorSize(sqlite3_file*) { return kSector; }
  // None: not even that a sector is written whole with its neighbours.
  static int DeviceCharacteristics(sqlite3_file*) { return 0; }

  static int Open(sqlite3_vfs* vfs, const char* name, sqlite3_file* file, int flags, int* given);
  static int Delete(sqlite3_vfs* vfs, const char* name, int sync_folder);
};

namespace {

sqlite3_vfs* Usual(sqlite3_vfs* vfs) { return static_cast<sqlite3_vfs*>(vfs->pAppData); }

}  // namespace

// The disk is found through the one VFS that there is.
static TornDisk* the_disk = nullptr;

int TornFile::Open(sqlite3_vfs* vfs, const char* name, sqlite3_file* file, int flags, int* given) {
  static const sqlite3_io_methods kMethods = [] {
    sqlite3_io_methods methods{};
    methods.iVersion = 1;
    methods.xClose = &Close;
    methods.xRead = &Read;
    methods.xWrite = &Write;
    methods.xTruncate = &Truncate;
    methods.xSync = &Sync;
    methods.xFileSize = &FileSize;
    methods.xLock = &Lock;
    methods.xUnlock = &Unlock;
    methods.xCheckReservedLock = &CheckReservedLock;
    methods.xFileControl = &FileControl;
    methods.xSectorSize = &SectorSize;
    methods.xDeviceCharacteristics = &DeviceCharacteristics;
    return methods;
  }();
  TornFile& self = Of(file);
  self.base.pMethods = nullptr;
  const int code = Usual(vfs)->xOpen(Usual(vfs), name, self.real(), flags, given);
  if (code != SQLITE_OK) return code;
  self.disk = the_disk;
  self.path = new std::string(name == nullptr ? "" : name);
  self.base.pMethods = &kMethods;
  return SQLITE_OK;
}

int TornFile::Delete(sqlite3_vfs* vfs, const char* name, int sync_folder) {
  if (the_disk->dead()) return SQLITE_IOERR_DELETE;
  the_disk->unsynced_.erase(name);
  return Usual(vfs)->xDelete(Usual(vfs), name, sync_folder);
}

TornDisk::TornDisk() : vfs_(std::make_unique<sqlite3_vfs>()) {
  STRETTO_CHECK(the_disk == nullptr);
  the_disk = this;
  sqlite3_vfs* usual = sqlite3_vfs_find(nullptr);
  *vfs_ = *usual;
  vfs_->zName = "torn";
  vfs_->pNext = nullptr;
  vfs_->pAppData = usual;
  vfs_->szOsFile = static_cast<int>(sizeof(TornFile)) + usual->szOsFile;
  vfs_->xOpen = &TornFile::Open;
  vfs_->xDelete = &TornFile::Delete;
  vfs_->xAccess = [](sqlite3_vfs* vfs, const char* name, int flags, int* result) {
    return Usual(vfs)->xAccess(Usual(vfs), name, flags, result);
  };
  vfs_->xFullPathname = [](sqlite3_vfs* vfs, const char* name, int size, char* out) {
    return Usual(vfs)->xFullPathname(Usual(vfs), name, size, out);
  };
  STRETTO_CHECK(sqlite3_vfs_register(vfs_.get(), /*makeDflt=*/1) == SQLITE_OK);
}

TornDisk::~TornDisk() {
  sqlite3_vfs_unregister(vfs_.get());
  the_disk = nullptr;
}

void TornDisk::Crash(const std::function<uint64_t(uint64_t)>& pick) {
  for (auto& [path, writes] : unsynced_) {
    const FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!file.valid()) continue;
    // Backwards, so that the oldest content of a sector wins where several are lost.
    for (auto write = writes.rbegin(); write != writes.rend(); ++write) {
      const auto size = static_cast<int64_t>(write->before.size());
      const uint64_t kept = pick(3);  // all of it, nothing, or any of its sectors
      for (int64_t at = 0; at < size; at += kSector) {
        if (kept == 0 || (kept == 2 && pick(2) == 0)) continue;
        const auto part = static_cast<size_t>(std::min(kSector, size - at));
        STRETTO_CHECK(::pwrite(file.get(), write->before.data() + at, part, write->offset + at) ==
                      static_cast<ssize_t>(part));
      }
      if (kept == 1) STRETTO_CHECK(::ftruncate(file.get(), write->size_before) == 0);
    }
  }
  unsynced_.clear();
  writes_left_ = INT64_MAX;
}

}  // namespace stretto::coordinator::testing
