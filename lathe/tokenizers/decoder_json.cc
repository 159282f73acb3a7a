#include "lathe/tokenizers/decoder_json.h"

#include <fmt/format.h>

#include <algorithm>

#include "lathe/text/unicode.h"
#include "lathe/tokenizers/pre_model_json.h"

namespace lathe {
namespace {

using nlohmann::json;

constexpr int kDeepest = 8;  // of a Sequence within a Sequence
constexpr size_t kMostSteps = 32, kLongestText = 1024;

constexpr const char* kKnownSteps =
    "ByteLevel, Metaspace, Replace of a String, ByteFallback, Fuse, Strip, or a Sequence of them";

void read_replace(const JsonDocument& doc, const json& value, DecoderStep* step) {
  const json& pattern = doc.need(value, "pattern");
  if (JsonDocument::get(pattern, "Regex") != nullptr)
    doc.unsupported("decoder", "Replace of the Regex " + doc.text(pattern, "Regex"), "a String");
  step->kind = DecoderStep::Kind::kReplace;
  step->text = doc.text(pattern, "String");
  step->content = doc.text(value, "content");
  if (step->text.empty()) doc.unsupported("decoder", "Replace of nothing", "a String that is not empty");
  if (std::max(step->text.size(), step->content.size()) > kLongestText)
    doc.unsupported("decoder",
                    fmt::format("Replace of {} bytes by {}", step->text.size(), step->content.size()),
                    "at most 1024 bytes");
}

size_t read_count(const JsonDocument& doc, const json& value, const char* key) {
  const json& count = doc.need(value, key);
  if (!count.is_number_unsigned()) doc.wrong(key, "a count", count);
  return count.get<size_t>();
}

void read_strip(const JsonDocument& doc, const json& value, DecoderStep* step) {
  step->kind = DecoderStep::Kind::kStrip;
  step->content = doc.text(value, "content");
  size_t end = 0;
  if (!step->content.empty()) unicode::decode(step->content, &end);
  if (end == 0 || end != step->content.size()) doc.wrong("content", "one character", value["content"]);
  step->start = read_count(doc, value, "start");
  step->stop = read_count(doc, value, "stop");
}

void read_steps(const JsonDocument& doc, const json& value, int depth, std::vector<DecoderStep>* steps) {
  const std::string type = doc.type(value, "decoder");
  DecoderStep step;
  if (type == "Sequence" && depth < kDeepest) {
    for (const json& one : doc.list(value, "decoders")) read_steps(doc, one, depth + 1, steps);
    return;
  }
  if (type == "Replace") {
    read_replace(doc, value, &step);
  } else if (type == "ByteFallback") {
    step.kind = DecoderStep::Kind::kByteFallback;
  } else if (type == "Fuse") {
    step.kind = DecoderStep::Kind::kFuse;
  } else if (type == "Strip") {
    read_strip(doc, value, &step);
  } else if (type == "ByteLevel") {
    step.kind = DecoderStep::Kind::kByteLevel;
  } else if (type == "Metaspace") {
    WordStep rules;
    read_metaspace(doc, value, &rules);
    step.kind = DecoderStep::Kind::kMetaspace;
    step.text = rules.replacement;
    step.drops_first = rules.prepend != WordStep::Prepend::kNever;
  } else {
    doc.unsupported("decoder", type, kKnownSteps);
  }
  steps->push_back(std::move(step));
}

}  // namespace

void read_decoder(const JsonDocument& doc, TokenizerSpec* spec) {
  using Kind = DecoderRules::Kind;
  DecoderRules& rules = spec->decoder;
  rules.kind = Kind::kBlanks;
  const json* decoder = JsonDocument::get(doc.root(), "decoder");
  if (decoder == nullptr) return;
  const std::string type = doc.type(*decoder, "decoder");
  if (spec->model == ModelKind::kWordPiece) {
    if (type != "WordPiece") doc.unsupported("decoder", type, "WordPiece");
    rules.kind = Kind::kWordPiece;
    rules.prefix = doc.text(*decoder, "prefix");
    rules.cleanup = doc.flag(*decoder, "cleanup", true);
    return;
  }
  read_steps(doc, *decoder, 0, &rules.steps);
  if (rules.steps.size() > kMostSteps) doc.unsupported("decoder", "Sequence of more than 32 steps", "fewer");
  // One of these two as the only step is put together as tokens come.
  const bool only = rules.steps.size() == 1;
  rules.kind = only && rules.steps[0].kind == DecoderStep::Kind::kByteLevel   ? Kind::kByteLevel
               : only && rules.steps[0].kind == DecoderStep::Kind::kMetaspace ? Kind::kMetaspace
                                                                              : Kind::kSteps;
  if (rules.kind == Kind::kMetaspace) {
    rules.prefix = rules.steps[0].text;
    rules.drops_first = rules.steps[0].drops_first;
  }
}

}  // namespace lathe
