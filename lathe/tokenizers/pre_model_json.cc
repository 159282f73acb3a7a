#include "lathe/tokenizers/pre_model_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "lathe/io/base64.h"
#include "lathe/text/unicode.h"

namespace lathe {
namespace {

using nlohmann::json;

constexpr int kDepthLimit = 8;  // of a Sequence within a Sequence
constexpr size_t kStepLimit = 32;
constexpr size_t kLongestReplaced =
    1024;  // bytes: to look for a longer one takes as many steps for each byte
constexpr const char* kKnownPatterns =
    "a String, or the Regex of GPT-2, Qwen2 or Llama 3 as their tokenizer.json has it; a text parted "
    "otherwise "
    "would be other tokens than the model has learned";

/// Adds the step to the last one where the one pass of Normalizer gives the same.
bool merge(const NormalizerRules& step, std::vector<NormalizerStep>* steps) {
  auto* rules = steps->empty() ? nullptr : std::get_if<NormalizerRules>(&steps->back());
  if (rules == nullptr) return false;
  const bool stripped = rules->strip != NormalizerRules::Strip::kNothing;
  if (step.decompose) {
    if (rules->decompose || rules->clean_text || stripped) return false;
    rules->decompose = true;
  } else if (step.strip != NormalizerRules::Strip::kNothing) {
    if (!rules->decompose || rules->clean_text || stripped) return false;
    rules->strip = step.strip;
  } else if (step.lowercase) {
    rules->lowercase = true;
  }
  return true;
}

Replacement read_replacement(const JsonDocument& doc, const json& value) {
  Replacement out;
  const json& pattern = doc.need(value, "pattern");
  out.content = doc.text(value, "content");
  if (JsonDocument::get(pattern, "Regex") != nullptr) {
    const std::string regex = doc.text(pattern, "Regex");
    if (regex != " {2,}")
      doc.unsupported("normalizer", "Replace of Regex " + regex, "a String, or the Regex ' {2,}'");
    out.pattern = " ";
    out.runs = true;
  } else {
    out.pattern = doc.text(pattern, "String");
    if (out.pattern.empty())
      doc.unsupported("normalizer", "Replace of nothing", "a String that is not empty");
  }
  if (std::max(out.pattern.size(), out.content.size()) > kLongestReplaced)
    doc.unsupported("normalizer",
                    fmt::format("Replace of {} bytes by {}", out.pattern.size(), out.content.size()),
                    "at most 1024 bytes");
  return out;
}

std::shared_ptr<const CharsMap> read_chars_map(const JsonDocument& doc, const json& value) {
  constexpr const char* kKey = "precompiled_charsmap";
  const auto bytes = from_base64(doc.text(value, kKey));
  if (!bytes) doc.wrong(kKey, "base64", value[kKey]);
  return std::make_shared<const CharsMap>(*bytes, std::string(doc.name()) + ": " + kKey);
}

void read_normalizer(const JsonDocument& doc, const json& value, int depth,
                     std::vector<NormalizerStep>* steps) {
  const std::string type = doc.type(value, "normalizer");
  const auto add = [&](NormalizerRules rules) {
    if (!merge(rules, steps)) steps->emplace_back(rules);
  };
  if (type == "Sequence" && depth < kDepthLimit) {
    for (const json& step : doc.list(value, "normalizers")) read_normalizer(doc, step, depth + 1, steps);
  } else if (type == "BertNormalizer") {
    steps->emplace_back(
        bert_rules(doc.flag(value, "clean_text", true), doc.flag(value, "handle_chinese_chars", true),
                   doc.optional_flag(value, "strip_accents"), doc.flag(value, "lowercase", true)));
  } else if (type == "NFD") {
    add({.decompose = true});
  } else if (type == "StripAccents") {
    add({.strip = NormalizerRules::Strip::kAllMarks});
  } else if (type == "Lowercase") {
    add({.lowercase = true});
  } else if (type == "NFC" || type == "NFKC" || type == "NFKD") {
    steps->emplace_back(type == "NFC"    ? NormalForm::kNfc
                        : type == "NFKC" ? NormalForm::kNfkc
                                         : NormalForm::kNfkd);
  } else if (type == "Precompiled") {
    steps->emplace_back(read_chars_map(doc, value));
  } else if (type == "Replace") {
    steps->emplace_back(read_replacement(doc, value));
  } else if (type == "Strip") {
    steps->emplace_back(
        StripRules{doc.flag(value, "strip_left", false), doc.flag(value, "strip_right", false)});
  } else if (type == "Prepend") {
    Prefix prefix = {doc.text(value, "prepend")};
    if (prefix.text.size() > kLongestReplaced)
      doc.unsupported("normalizer", fmt::format("Prepend of {} bytes", prefix.text.size()),
                      "at most 1024 bytes");
    steps->emplace_back(std::move(prefix));
  } else if (type == "Nmt") {
    steps->emplace_back(NmtRules{});
  } else {
    doc.unsupported(
        "normalizer", type,
        "BertNormalizer, Precompiled, NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Replace, Prepend, "
        "Strip, Nmt, or a Sequence of them");
  }
}

WordStep::Behavior read_behavior(const JsonDocument& doc, const json& value) {
  using Behavior = WordStep::Behavior;
  constexpr std::pair<const char*, Behavior> kKnown[] = {
      {"Isolated", Behavior::kIsolated},
      {"Removed", Behavior::kRemoved},
      {"Contiguous", Behavior::kContiguous},
      {"MergedWithPrevious", Behavior::kMergedWithPrevious},
      {"MergedWithNext", Behavior::kMergedWithNext}};
  const std::string name = doc.text(value, "behavior");
  for (const auto& [known, behavior] : kKnown)
    if (name == known) return behavior;
  doc.wrong("behavior", "Isolated, Removed, Contiguous, MergedWithPrevious or MergedWithNext",
            value["behavior"]);
}

void read_split(const JsonDocument& doc, const json& value, WordStep* out) {
  out->kind = WordStep::Kind::kSplit;
  out->behavior = read_behavior(doc, value);
  out->invert = doc.flag(value, "invert", false);
  const json& pattern = doc.need(value, "pattern");
  if (JsonDocument::get(pattern, "Regex") != nullptr) {
    const std::string regex = doc.text(pattern, "Regex");
    out->pattern = find_split_pattern(regex);
    if (!out->pattern) doc.unsupported("pre_tokenizer", "Split by the Regex " + regex, kKnownPatterns);
  } else {
    out->literal = doc.text(pattern, "String");
    if (out->literal.size() > kLongestReplaced)
      doc.unsupported("pre_tokenizer", fmt::format("Split by {} bytes", out->literal.size()),
                      "at most 1024 bytes");
  }
}

/// One pre-tokeniser, whose type stands in *types where its steps are none of WordStep's.
void read_word_steps(const JsonDocument& doc, const json& value, int depth, std::vector<WordStep>* steps,
                     std::multiset<std::string>* types) {
  const std::string type = doc.type(value, "pre_tokenizer");
  if (type == "Sequence" && depth < kDepthLimit) {
    for (const json& step : doc.list(value, "pretokenizers"))
      read_word_steps(doc, step, depth + 1, steps, types);
    return;
  }
  types->insert(type);
  WordStep out;
  if (type == "Punctuation") {
    const json* behavior = JsonDocument::get(value, "behavior");
    if (behavior != nullptr && *behavior != "Isolated")
      doc.unsupported("pre_tokenizer", "Punctuation " + behavior->dump(), "the behavior Isolated");
    out.kind = WordStep::Kind::kPunctuation;
  } else if (type == "Metaspace") {
    out.kind = WordStep::Kind::kMetaspace;
    read_metaspace(doc, value, &out);
  } else if (type == "Split") {
    read_split(doc, value, &out);
  } else if (type == "Digits") {
    out.kind = WordStep::Kind::kDigits;
    if (!doc.flag(value, "individual_digits", false)) out.behavior = WordStep::Behavior::kContiguous;
  } else if (type == "ByteLevel") {
    out.kind = WordStep::Kind::kByteLevel;
    out.add_prefix_space = doc.flag(value, "add_prefix_space", true);
    out.use_regex = doc.flag(value, "use_regex", true);
  } else if (type == "BertPreTokenizer") {
    steps->push_back(out);
    out.kind = WordStep::Kind::kPunctuation;
  }
  steps->push_back(std::move(out));
}

/// ByteLevel writes bytes in its alphabet, which no other step after it reads.  By itself it has rules of its
/// own.
void read_byte_level(const JsonDocument& doc, TokenizerSpec* spec) {
  std::vector<WordStep>& steps = spec->word_steps;
  const auto is_byte_level = [](const WordStep& s) { return s.kind == WordStep::Kind::kByteLevel; };
  const auto first = std::find_if(steps.begin(), steps.end(), is_byte_level);
  if (first == steps.end()) return;
  if (first + 1 != steps.end())
    doc.unsupported("pre_tokenizer", "Sequence with a step after ByteLevel", "ByteLevel as the last step");
  spec->byte_level.alphabet = true;
  spec->byte_level.add_prefix_space = first->add_prefix_space;
  spec->byte_level.use_regex = first->use_regex;
  if (steps.size() == 1) steps.clear();
}

struct PreTokenizers {
  std::vector<std::string> known;
  const char* text;
};

const PreTokenizers& pre_tokenizers_before(ModelKind model) {
  static const PreTokenizers kWords = {{"BertPreTokenizer", "Punctuation", "WhitespaceSplit"},
                                       "BertPreTokenizer, or a Sequence of WhitespaceSplit and Punctuation"};
  static const PreTokenizers kPairs = {
      {"ByteLevel", "Digits", "Metaspace", "Punctuation", "Split", "WhitespaceSplit", "BertPreTokenizer"},
      "ByteLevel, Split, Digits, Metaspace, WhitespaceSplit, Punctuation, BertPreTokenizer, or a Sequence of "
      "them"};
  static const PreTokenizers kPieces = {
      {"Digits", "Metaspace", "Punctuation", "Split", "WhitespaceSplit", "BertPreTokenizer"},
      "Metaspace, WhitespaceSplit, Punctuation, Split, Digits, BertPreTokenizer, or a Sequence of them"};
  return model == ModelKind::kWordPiece ? kWords : model == ModelKind::kBytePairs ? kPairs : kPieces;
}

void read_pre_tokenizer(const JsonDocument& doc, TokenizerSpec* spec) {
  using Types = std::multiset<std::string>;
  const json* value = JsonDocument::get(doc.root(), "pre_tokenizer");
  const bool pieces = spec->model == ModelKind::kWordPiece;
  if (!pieces && value == nullptr) return;
  const auto& [allowed, wanted] = pre_tokenizers_before(spec->model);
  if (value == nullptr) doc.unsupported("pre_tokenizer", "null", wanted);
  Types types;
  read_word_steps(doc, *value, 0, &spec->word_steps, &types);
  std::string found;
  bool known =
      !pieces || types == Types{"BertPreTokenizer"} || types == Types{"Punctuation", "WhitespaceSplit"};
  for (const std::string& type : types) {
    found += (found.empty() ? "" : " + ") + type;
    known = known && std::find(allowed.begin(), allowed.end(), type) != allowed.end();
  }
  if (!known) doc.unsupported("pre_tokenizer", found, wanted);
  if (spec->word_steps.size() > kStepLimit)
    doc.unsupported("pre_tokenizer", "Sequence of more than 32 steps", "fewer");
  read_byte_level(doc, spec);
}

}  // namespace

NormalizerRules bert_rules(bool clean, bool chinese, std::optional<bool> strip_accents, bool lowercase) {
  NormalizerRules rules;
  rules.clean_text = clean;
  rules.handle_chinese_chars = chinese;
  rules.lowercase = lowercase;
  if (strip_accents.value_or(lowercase)) {
    rules.decompose = true;
    rules.strip = NormalizerRules::Strip::kNonspacing;
  }
  return rules;
}

void read_metaspace(const JsonDocument& doc, const json& value, WordStep* out) {
  out->replacement = doc.text(value, "replacement");
  size_t end = 0;
  if (!out->replacement.empty()) unicode::decode(out->replacement, &end);
  if (end == 0 || end != out->replacement.size())
    doc.wrong("replacement", "one character", value["replacement"]);
  const bool named = JsonDocument::get(value, "prepend_scheme") != nullptr;
  const std::string scheme = named ? doc.text(value, "prepend_scheme") : "always";
  // Before version 0.15 of `tokenizers` add_prefix_space said it.
  const bool prefix = doc.flag(value, "add_prefix_space", true);
  if (scheme != "always" && scheme != "first" && scheme != "never")
    doc.wrong("prepend_scheme", "always, first or never", value["prepend_scheme"]);
  if (named && !prefix && scheme != "never")
    doc.wrong("add_prefix_space", "true, or prepend_scheme never", value["add_prefix_space"]);
  out->prepend = scheme == "never" || !prefix ? WordStep::Prepend::kNever
                 : scheme == "first"          ? WordStep::Prepend::kFirst
                                              : WordStep::Prepend::kAlways;
  out->split = doc.flag(value, "split", true);
}

void read_pre_model(const JsonDocument& doc, TokenizerSpec* spec) {
  if (const json* value = JsonDocument::get(doc.root(), "normalizer"))
    read_normalizer(doc, *value, 0, &spec->normalizer);
  if (spec->normalizer.size() > kStepLimit)
    doc.unsupported("normalizer", "Sequence of more than 32 steps", "fewer");
  read_pre_tokenizer(doc, spec);
}

}  // namespace lathe
