// SPDX-License-Identifier: Apache-2.0

// Writes each page from the same field documentation that `stretto explain` shows: a section per
// message with a table of its fields; text that does not fit into a cell follows the table.

#include "coordinator/cli/explain/reference.h"

#include <set>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "coordinator/cli/explain/api.h"
#include "coordinator/cli/explain/explain.h"
#include "coordinator/cli/explain/explain_text.h"
#include "coordinator/cli/text/markdown_cell.h"
#include "google/protobuf/descriptor.pb.h"

namespace stretto::cli {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::MethodDescriptor;
using google::protobuf::ServiceDescriptor;

constexpr int kWidth = 100;

constexpr char kJobSpecHead[] =
    R"(<!-- Written by reference_test; do not edit. -->
# Job file

The file that `stretto job submit` takes, section by section. `stretto explain
schedule.parameters` prints the same in a terminal. Names are as written here, and values of enums
are in lower case. A field that does not exist, or a value out of its range, is an error with line
and column. `stretto job submit FILE --dry-run` shows a file with every default filled in.
)";

constexpr char kApiHead[] = R"(<!-- Written by reference_test; do not edit. -->
# API

`proto/stretto/v1alpha1/job.proto`, served over gRPC by `stretto-coordinator`, with health checking and reflection. `stretto` is a client of it.
The protocols between coordinator, workers and trainers (`proto/stretto/v1alpha1/worker.proto`, `proto/stretto/v1alpha1/trainer.proto`) are not public.
)";

// Joins the sentences of a comment for a cell.
std::string Sentences(const Comment& comment) {
  const std::string line = MarkdownCell(comment.Line());
  return line.empty() || absl::EndsWith(line, ".") ? line : line + ".";
}

std::string Code(const std::string& text) { return absl::StrCat("`", text, "`"); }

// Returns the anchor that GitHub makes of a heading.
std::string Anchor(const std::string& heading) {
  return absl::AsciiStrToLower(absl::StrReplaceAll(heading, {{".", ""}, {" ", "-"}}));
}

std::string Paragraphs(const Comment& comment) {
  std::string out;
  for (const Comment::Block& block : comment.blocks) {
    absl::StrAppend(&out, "\n",
                    block.verbatim ? absl::StrCat("```\n", block.text, "```\n")
                                   : Wrapped(block.text, 0, kWidth));
  }
  return out;
}

std::string Examples(const Comment& comment) {
  std::string out;
  for (const std::string& example : comment.examples) {
    absl::StrAppend(&out, "\n```yaml\n", example, "```\n");
  }
  return out;
}

// Lists the values of an enum; presets have a table of their own.
std::string ValuesCell(const FieldDoc& field) {
  return absl::StrJoin(field.values, "; ", [](std::string* out, const ValueDoc& value) {
    absl::StrAppend(out, Code(value.name));
    if (!value.help.empty()) absl::StrAppend(out, ": ", MarkdownCell(value.help));
  });
}

// An item of a list, nested `depth` deep.
std::string Item(const std::string& text, int depth) {
  std::string item = Wrapped(text, 2 * depth + 2, kWidth);
  item[2 * depth] = '-';
  return item;
}

// "integer, 1 to 256, default `2`"
std::string Facts(const FieldDoc& field) {
  const Comment& comment = field.comment;
  std::vector<std::string> facts = {field.fields.empty() ? field.type : "section"};
  if (!comment.range.empty()) facts.push_back(comment.range);
  if (comment.required) facts.emplace_back("**required**");
  if (!comment.default_value.empty()) {
    facts.push_back(absl::StrCat("default ", comment.default_value));
  }
  if (!comment.only_for.empty()) facts.push_back(absl::StrCat("only for ", comment.only_for));
  return absl::StrJoin(facts, "; ");
}

// `links`: the messages that have a section, by path.
std::string FieldList(const FieldDoc& doc, const std::set<std::string>& links) {
  std::string out = "\n";
  for (const FieldDoc& field : doc.fields) {
    const std::string section = absl::StrReplaceAll(field.path, {{"job.spec.", ""}});
    const std::string name = links.contains(section)
                                 ? absl::StrCat("[", field.name(), "](#", Anchor(section), ")")
                                 : Code(field.name());
    out += Item(absl::StrCat("**", name, "** (", Facts(field), "): ", Sentences(field.comment)), 0);
    for (const ValueDoc& value : field.values) {
      out += Item(absl::StrCat(Code(value.name), value.help.empty() ? "" : ": ", value.help), 1);
    }
  }
  return out;
}

void CollectSections(const FieldDoc& doc, std::vector<const FieldDoc*>* sections) {
  for (const FieldDoc& field : doc.fields) {
    if (field.fields.empty()) continue;
    sections->push_back(&field);
    CollectSections(field, sections);
  }
}

// ---- API

std::string Signature(const MethodDescriptor& method) {
  const auto side = [](bool stream, const Descriptor& type) {
    return absl::StrCat(stream ? "stream " : "", type.name());
  };
  return absl::StrCat(method.name(), "(", side(method.client_streaming(), *method.input_type()),
                      ") returns (", side(method.server_streaming(), *method.output_type()), ")");
}

std::string ServiceSection(const ServiceDescriptor& service) {
  std::string out = absl::StrCat("\n## ", service.name(), "\n", Paragraphs(CommentOf(service)));
  for (int i = 0; i < service.method_count(); ++i) {
    const MethodDescriptor& method = *service.method(i);
    absl::StrAppend(&out, "\n### ", method.name(), "\n\n```proto\nrpc ", Signature(method),
                    "\n```\n", Paragraphs(CommentOf(method)));
  }
  return out;
}

std::string MessageSection(const Descriptor& type) {
  if (type.options().map_entry()) return "";
  std::string out = absl::StrCat("\n### ", type.name(), "\n", Paragraphs(CommentOf(type)));
  if (type.field_count() > 0) {
    absl::StrAppend(&out, "\n| field | type | |\n|---|---|---|\n");
  }
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDoc doc = ExplainMessage(type, type.name()).fields[i];
    std::vector<std::string> text;
    if (doc.comment.required) text.emplace_back("**Required.**");
    if (const std::string line = Sentences(doc.comment); !line.empty()) text.push_back(line);
    if (!doc.comment.default_value.empty()) {
      text.push_back(absl::StrCat("Default ", MarkdownCell(doc.comment.default_value), "."));
    }
    if (!doc.values.empty()) text.push_back(ValuesCell(doc));
    absl::StrAppend(&out, "| ", Code(doc.name()), " | ", doc.type, " | ", absl::StrJoin(text, " "),
                    " |\n");
  }
  for (int i = 0; i < type.nested_type_count(); ++i) {
    absl::StrAppend(&out, MessageSection(*type.nested_type(i)));
  }
  return out;
}

// Collects the messages of the job spec, which has a page of its own.
void CollectSpec(const Descriptor& type, std::set<const Descriptor*>* spec) {
  spec->insert(&type);
  for (int i = 0; i < type.field_count(); ++i) {
    const Descriptor* nested = type.field(i)->message_type();
    if (nested != nullptr) CollectSpec(*nested, spec);
  }
}

std::string FileComment(const google::protobuf::FileDescriptor& file) {
  google::protobuf::SourceLocation location;
  if (!file.GetSourceLocation({google::protobuf::FileDescriptorProto::kSyntaxFieldNumber},
                              &location)) {
    return "";
  }
  return Paragraphs(ParseComment(location.leading_comments));
}

}  // namespace

std::string JobSpecReference() {
  const FieldDoc spec = *ExplainField("job.spec");
  std::vector<const FieldDoc*> sections;
  CollectSections(spec, &sections);
  std::set<std::string> links;
  for (const FieldDoc* section : sections) {
    links.insert(absl::StrReplaceAll(section->path, {{"job.spec.", ""}}));
  }
  FieldDoc top = spec;
  top.fields.insert(top.fields.begin(), *ExplainField("job.name"));
  std::string out = absl::StrCat(kJobSpecHead, Examples(spec.about), FieldList(top, links));
  for (const FieldDoc* section : sections) {
    const std::string path = absl::StrReplaceAll(section->path, {{"job.spec.", ""}});
    absl::StrAppend(&out, "\n## ", path, "\n", Paragraphs(section->about), Examples(section->about),
                    FieldList(*section, links));
  }
  return out;
}

std::string ApiReference() {
  const google::protobuf::FileDescriptor& file = ApiFile();
  std::string out = absl::StrCat(kApiHead, FileComment(file));
  for (int i = 0; i < file.service_count(); ++i) out += ServiceSection(*file.service(i));
  absl::StrAppend(&out, "\n## Messages\n\nThose of `JobSpec` are in [job-spec.md](job-spec.md).\n");
  std::set<const Descriptor*> spec;
  CollectSpec(*file.FindMessageTypeByName("JobSpec"), &spec);
  for (int i = 0; i < file.message_type_count(); ++i) {
    const Descriptor& type = *file.message_type(i);
    if (!spec.contains(&type)) out += MessageSection(type);
  }
  return out;
}

}  // namespace stretto::cli
