#include "lathe/tokenizers/tokenizer_json.h"

#include <algorithm>

#include "lathe/tokenizers/decoder_json.h"
#include "lathe/tokenizers/pre_model_json.h"

namespace lathe {
namespace {

using nlohmann::json;

Template read_template(const JsonDocument& doc, const json& processor, const char* key) {
  Template out;
  for (const json& piece : doc.list(processor, key)) {
    TemplatePiece p;
    if (!piece.is_object() || piece.size() != 1) doc.wrong(key, "Sequence or SpecialToken", piece);
    const json& body = piece.begin().value();
    p.type_id = doc.id("type_id", doc.need(body, "type_id"));
    p.token = doc.text(body, "id");
    if (piece.begin().key() == "Sequence" && (p.token == "A" || p.token == "B")) {
      p.sequence = p.token == "B";
    } else if (piece.begin().key() == "SpecialToken") {
      const json& special = doc.need(doc.need(processor, "special_tokens"), p.token.c_str());
      for (const json& id : doc.list(special, "ids")) p.ids.push_back(doc.id("ids", id));
      if (JsonDocument::get(special, "tokens") != nullptr)
        for (const json& name : doc.list(special, "tokens")) {
          if (!name.is_string()) doc.wrong("tokens", "names of tokens", name);
          p.names.push_back(name);
        }
      if (!p.names.empty() && p.names.size() != p.ids.size())
        doc.wrong("tokens", "as many names as ids", special["tokens"]);
    } else {
      doc.wrong(key, "Sequence A or B, or SpecialToken", piece);
    }
    out.push_back(std::move(p));
  }
  std::string order;
  for (const TemplatePiece& p : out) order += p.sequence < 0 ? "" : p.token;
  if (order != (std::string(key) == "pair" ? "AB" : "A")) {
    doc.unsupported("post_processor", std::string(key) + " of texts " + order, "only A, or A before B");
  }
  return out;
}

/// What trims offsets: ByteLevel and RobertaProcessing.
void read_trimming(const JsonDocument& doc, const json& value, TokenizerSpec* spec) {
  spec->byte_level.trim_offsets = doc.flag(value, "trim_offsets", true);
  spec->byte_level.trim_keeps_prefix = doc.flag(value, "add_prefix_space", true);
}

/// `cls` and `sep` of BertProcessing and RobertaProcessing, put into the template.
void read_cls_sep(const JsonDocument& doc, const json& value, decltype(bert_template)* make,
                  TokenizerSpec* spec) {
  const json &cls = doc.list(value, "cls"), &sep = doc.list(value, "sep");
  for (const json* t : {&cls, &sep}) {
    if (t->size() != 2 || !(*t)[0].is_string()) doc.wrong("cls and sep", "[token, id]", *t);
  }
  for (const bool pair : {false, true}) {
    (pair ? spec->pair : spec->single) =
        make(cls[0], doc.id("cls", cls[1]), sep[0], doc.id("sep", sep[1]), pair);
    for (TemplatePiece& piece : pair ? spec->pair : spec->single)
      if (piece.sequence < 0) piece.names = {piece.token};
  }
}

/// One processor, or ByteLevel before another one.
bool is_plain_sequence(const JsonDocument& doc, const json& value) {
  const json& steps = doc.list(value, "processors");
  if (steps.empty() || steps.size() > 2 || doc.type(steps.back(), "post_processor") == "Sequence")
    return false;
  return steps.size() == 1 || doc.type(steps[0], "post_processor") == "ByteLevel";
}

void read_post_processor(const JsonDocument& doc, const json& value, TokenizerSpec* spec) {
  const std::string type = doc.type(value, "post_processor");
  if (type == "TemplateProcessing") {
    spec->single = read_template(doc, value, "single");
    spec->pair = read_template(doc, value, "pair");
  } else if (type == "BertProcessing") {
    read_cls_sep(doc, value, bert_template, spec);
  } else if (type == "RobertaProcessing" && spec->model == ModelKind::kBytePairs) {
    read_trimming(doc, value, spec);
    read_cls_sep(doc, value, roberta_template, spec);
    spec->uniform_type_ids = true;
    spec->names.cls = spec->single.front().token;
    spec->names.sep = spec->single.back().token;
  } else if (type == "ByteLevel" && spec->model == ModelKind::kBytePairs) {
    read_trimming(doc, value, spec);
  } else if (type == "Sequence" && is_plain_sequence(doc, value)) {
    for (const json& step : value["processors"]) read_post_processor(doc, step, spec);
  } else {
    doc.unsupported("post_processor", type,
                    "TemplateProcessing, BertProcessing, or with BPE RobertaProcessing or ByteLevel");
  }
}

Vocabulary read_vocabulary(const JsonDocument& doc, const json& vocab) {
  if (!vocab.is_object()) doc.wrong("model.vocab", "an object from token to id", vocab);
  Vocabulary out;
  out.reserve(vocab.size());
  for (const auto& [token, id] : vocab.items()) out[token] = doc.id("model.vocab", id);
  return out;
}

/// All of a BPE model but its vocabulary.
void read_byte_pairs(const JsonDocument& doc, const json& model, TokenizerSpec* spec) {
  spec->model = ModelKind::kBytePairs;
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const json* value = JsonDocument::get(model, key);
    if (value != nullptr && *value != "")
      doc.unsupported("model", std::string("BPE with ") + key, "one without");
  }
  if (JsonDocument::get(model, "dropout") != nullptr && model["dropout"] != 0)
    doc.unsupported("model", "BPE with dropout", "one without");
  spec->byte_fallback = doc.flag(model, "byte_fallback", false);
  spec->fuse_unk = doc.flag(model, "fuse_unk", false);
  spec->byte_level.whole_words = doc.flag(model, "ignore_merges", false);
  if (JsonDocument::get(model, "unk_token") != nullptr) spec->unk_token = doc.text(model, "unk_token");
  spec->names.unk = spec->unk_token;
  for (const json& merge : doc.list(model, "merges")) {
    BytePairs::Merge m;
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      m = {merge[0], merge[1]};
    } else if (merge.is_string()) {  // before version 0.20 of `tokenizers`
      const auto& both = merge.get_ref<const std::string&>();
      const size_t blank = both.find(' ');
      if (blank == std::string::npos) doc.wrong("model.merges", "two tokens", merge);
      m = {both.substr(0, blank), both.substr(blank + 1)};
    } else {
      doc.wrong("model.merges", "pairs of tokens", merge);
    }
    spec->merges.push_back(std::move(m));
  }
}

Vocabulary read_unigram(const JsonDocument& doc, const json& model, TokenizerSpec* spec) {
  spec->model = ModelKind::kUnigram;
  spec->byte_fallback = doc.flag(model, "byte_fallback", false);
  Vocabulary out;
  for (const json& entry : doc.list(model, "vocab")) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number())
      doc.wrong("model.vocab", "pairs of a token and its score", entry);
    const auto id = static_cast<int64_t>(spec->scores.size());
    if (id >= kTokenIdLimit || !out.emplace(entry[0], static_cast<int32_t>(id)).second)
      doc.wrong("model.vocab", "fewer than 2^24 tokens, all different", entry);
    spec->scores.push_back(entry[1]);
  }
  const json& unk = doc.need(model, "unk_id");
  if (doc.id("unk_id", unk) >= static_cast<int32_t>(spec->scores.size()))
    doc.wrong("unk_id", "an id of the vocabulary", unk);
  spec->names.unk = model["vocab"][unk.get<size_t>()][0];
  return out;
}

Vocabulary read_model(const JsonDocument& doc, TokenizerSpec* spec) {
  const json& model = doc.need(doc.root(), "model");
  std::string type = doc.type(model, "model");
  const json& vocab = doc.need(model, "vocab");
  // Files before version 0.9 of `tokenizers` name no type.
  if (type == "(none)" && model.contains("unk_id")) type = "Unigram";
  if (type == "Unigram") return read_unigram(doc, model, spec);
  if (type == "BPE") {
    read_byte_pairs(doc, model, spec);
    return read_vocabulary(doc, vocab);
  }
  if (type != "WordPiece" && (type != "(none)" || !model.contains("continuing_subword_prefix"))) {
    doc.unsupported("model", type, "WordPiece, BPE or Unigram");
  }
  spec->names.unk = doc.text(model, "unk_token");
  spec->prefix = doc.text(model, "continuing_subword_prefix");
  const json& limit = doc.need(model, "max_input_chars_per_word");
  if (!limit.is_number_unsigned()) doc.wrong("max_input_chars_per_word", "a count", limit);
  spec->max_chars = static_cast<uint32_t>(std::min<uint64_t>(limit.get<uint64_t>(), UINT32_MAX));
  return read_vocabulary(doc, vocab);
}

}  // namespace

Template bert_template(const std::string& cls, int32_t cls_id, const std::string& sep, int32_t sep_id,
                       bool pair) {
  Template t = {{-1, 0, {cls_id}, cls}, {0, 0, {}, ""}, {-1, 0, {sep_id}, sep}};
  if (pair) t.insert(t.end(), {{1, 1, {}, ""}, {-1, 1, {sep_id}, sep}});
  return t;
}

Template roberta_template(const std::string& cls, int32_t cls_id, const std::string& sep, int32_t sep_id,
                          bool pair) {
  Template t = {{-1, 0, {cls_id}, cls}, {0, 0, {}, ""}, {-1, 0, {sep_id}, sep}};
  if (pair) t.insert(t.end(), {{-1, 0, {sep_id}, sep}, {1, 0, {}, ""}, {-1, 0, {sep_id}, sep}});
  return t;
}

void read_tokenizer_json(const JsonDocument& doc, Vocabulary* vocabulary, TokenizerSpec* spec) {
  if (const json* version = JsonDocument::get(doc.root(), "version");
      version != nullptr && *version != "1.0") {
    doc.unsupported("version", version->dump(), "1.0");
  }
  *vocabulary = read_model(doc, spec);
  read_pre_model(doc, spec);
  if (const json* value = JsonDocument::get(doc.root(), "post_processor"))
    read_post_processor(doc, *value, spec);
  read_decoder(doc, spec);
  if (JsonDocument::get(doc.root(), "added_tokens") == nullptr) return;
  for (const json& value : doc.list(doc.root(), "added_tokens")) {
    spec->added.push_back(doc.added_token(value, false));
  }
}

}  // namespace lathe
