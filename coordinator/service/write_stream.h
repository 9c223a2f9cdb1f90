// SPDX-License-Identifier: Apache-2.0
#pragma once
// A server stream whose methods all run on the loop: gRPC's reactions come on gRPC's threads and
// are posted to it.
//
// Ownership: gRPC owns a reactor until OnDone. Tasks on the loop may outlive that, so the object
// holds itself by shared_ptr until OnDone, and so does every posted task.

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "coordinator/service/authorize.h"
#include "coordinator/service/errors.h"
#include "coordinator/service/hub.h"

namespace stretto::service {

template <class Response>
class WriteStream : public grpc::ServerWriteReactor<Response>,
                    public Stream,
                    public std::enable_shared_from_this<WriteStream<Response>> {
 public:
  WriteStream(Hub& hub, Call call) : hub_(hub), call_(std::move(call)) {}

  // Registers the new stream with the hub, on the loop, and returns it for gRPC.
  static grpc::ServerWriteReactor<Response>* Launch(std::shared_ptr<WriteStream> stream) {
    WriteStream* raw = stream.get();
    raw->self_ = stream;
    raw->hub_.loop().Post([stream = std::move(stream)] {
      stream->hub_.Add(stream.get());
      stream->user_ = UserStreams::UserOf(stream->call_);
      const absl::Status status = stream->hub_.user_streams().Admit(stream->user_);
      if (!status.ok()) return stream->Close(status);
      stream->admitted_ = true;
      stream->Begin();
    });
    return raw;
  }

  const tls::Credential& credential() const final { return call_.credential; }
  void Close(const absl::Status& status) final {
    if (closing_) return;
    closing_ = true;
    status_ = status;
    OnClosing();
    if (!writing_) this->Finish(ToGrpcStatus(status_));
  }

  void OnWriteDone(bool ok) final {
    hub_.loop().Post([self = this->shared_from_this(), ok] {
      self->writing_ = false;
      if (self->closing_) {
        self->Finish(ToGrpcStatus(self->status_));
      } else if (ok) {
        self->OnWritten();
      } else {
        self->Close(absl::CancelledError("the client has gone"));
      }
    });
  }

  void OnCancel() final {
    hub_.loop().Post([self = this->shared_from_this()] {
      self->Close(absl::CancelledError("the client has gone"));
    });
  }

  void OnDone() final {
    hub_.loop().Post([self = this->shared_from_this()] {
      self->hub_.Remove(self.get());
      if (self->admitted_) self->hub_.user_streams().Release(self->user_);
    });
    self_.reset();
  }

 protected:
  virtual void Begin() = 0;
  virtual void OnWritten() = 0;
  // The stream is about to end, for whatever reason: release what it holds elsewhere.
  virtual void OnClosing() {}

  bool busy() const { return writing_ || closing_; }
  bool closing() const { return closing_; }
  // Call only when not busy.
  void Write(Response response) {
    writing_ = true;
    response_ = std::move(response);
    this->StartWrite(&response_);
  }

  Hub& hub_;
  const Call call_;

 private:
  std::shared_ptr<WriteStream> self_;
  Response response_;  // must stay unchanged while writing_
  std::string user_;   // that the stream counts for
  bool admitted_ = false;
  bool writing_ = false;
  bool closing_ = false;
  absl::Status status_;  // final status, once closing_
};

}  // namespace stretto::service
