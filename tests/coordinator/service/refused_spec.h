#pragma once
// A good job spec, changed, and why it is refused.

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

#include "coordinator/service/validate_spec.h"
#include "google/rpc/error_details.pb.h"

namespace stretto::service {

// The good spec with `change` merged over it.
inline v1alpha1::JobSpec SpecWith(const std::string& change) {
  using google::protobuf::TextFormat;
  v1alpha1::JobSpec spec, other;
  EXPECT_TRUE(TextFormat::ParseFromString(
      "model { preset: 'gpt-10m' } data { prefix: 'text/corpus' } parallelism { tp_size: 2 } "
      "schedule { name: 'domino_row' } steps: 100 micro_batch_size: 4",
      &spec));
  EXPECT_TRUE(TextFormat::ParseFromString(change, &other)) << change;
  spec.MergeFrom(other);
  return spec;
}

inline google::rpc::BadRequest BadRequestOf(const absl::Status& status) {
  google::rpc::BadRequest bad;
  const auto payload = status.GetPayload("type.googleapis.com/google.rpc.BadRequest");
  if (payload) bad.ParseFromString(std::string(*payload));
  return bad;
}

struct Refusal {
  std::string change;
  std::string field;
  std::string description;
};

inline void ExpectRefused(const Refusal& refusal) {
  SCOPED_TRACE(refusal.change);
  const absl::Status status = ValidateSpec(NormalizeSpec(SpecWith(refusal.change)));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), refusal.field + ": " + refusal.description);
  const google::rpc::BadRequest bad = BadRequestOf(status);
  ASSERT_EQ(bad.field_violations_size(), 1);
  EXPECT_EQ(bad.field_violations(0).field(), refusal.field);
  EXPECT_EQ(bad.field_violations(0).description(), refusal.description);
}

}  // namespace stretto::service
