#include <algorithm>
#include <nlohmann/json.hpp>

#include "lathe/text/unicode.h"
#include "lathe/tokenizers/tokenizer_spec.h"

namespace lathe {
namespace {

using Json = nlohmann::ordered_json;

Json normalizer_json(const NormalizerRules& n) {
  return {{"type", "BertNormalizer"},
          {"clean_text", n.clean_text},
          {"handle_chinese_chars", n.handle_chinese_chars},
          {"strip_accents", n.decompose == n.lowercase ? Json(nullptr) : Json(n.decompose)},
          {"lowercase", n.lowercase}};
}

Json template_json(const Template& pieces) {
  Json out = Json::array();
  for (const TemplatePiece& p : pieces) {
    const char* kind = p.sequence < 0 ? "SpecialToken" : "Sequence";
    const std::string id = p.sequence < 0 ? p.token : p.sequence == 0 ? "A" : "B";
    out.push_back({{kind, {{"id", id}, {"type_id", p.type_id}}}});
  }
  return out;
}

Json post_processor_json(const TokenizerSpec& spec) {
  Json special = Json::object();
  for (const Template* t : {&spec.single, &spec.pair}) {
    for (const TemplatePiece& p : *t) {
      if (p.sequence >= 0) continue;
      Json tokens = Json::array();
      for (size_t i = 0; i < p.ids.size(); ++i) tokens.push_back(p.token);
      special[p.token] = {{"id", p.token}, {"ids", p.ids}, {"tokens", tokens}};
    }
  }
  return {{"type", "TemplateProcessing"},
          {"single", template_json(spec.single)},
          {"pair", template_json(spec.pair)},
          {"special_tokens", special}};
}

Json added_tokens_json(const TokenizerSpec& spec) {
  std::vector<AddedToken> sorted = spec.added;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  Json out = Json::array();
  for (const AddedToken& t : sorted) {
    out.push_back({{"id", t.id},
                   {"content", t.content},
                   {"single_word", t.single_word},
                   {"lstrip", t.lstrip},
                   {"rstrip", t.rstrip},
                   {"normalized", t.normalized},
                   {"special", t.special}});
  }
  return out;
}

/// The rules if they are all of the normaliser, else null.
const NormalizerRules* only_rules(const TokenizerSpec& spec) {
  return spec.normalizer.size() == 1 ? std::get_if<NormalizerRules>(&spec.normalizer[0]) : nullptr;
}

/// Of a tokenizer that a vocab.txt made: BERT's.
std::string tokenizer_json(const TokenizerSpec& spec) {
  Json::object_t vocab;  // whose own ways of adding look through all keys
  vocab.reserve(spec.vocabulary.size());
  for (const auto& [token, id] : spec.vocabulary) vocab.emplace_back(token, id);
  const Json out = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", added_tokens_json(spec)},
      {"normalizer", normalizer_json(*only_rules(spec))},
      {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
      {"post_processor", post_processor_json(spec)},
      {"decoder",
       {{"type", "WordPiece"}, {"prefix", spec.decoder.prefix}, {"cleanup", spec.decoder.cleanup}}},
      {"model",
       {{"type", "WordPiece"},
        {"unk_token", spec.names.unk},
        {"continuing_subword_prefix", spec.prefix},
        {"max_input_chars_per_word", spec.max_chars},
        {"vocab", std::move(vocab)}}}};
  return out.dump(2);
}

/// Only names of tokens that are found in texts already: transformers adds the others.
Json special_tokens(const TokenizerSpec& spec) {
  Json out = Json::object();
  const std::pair<const char*, const std::string*> names[] = {{"cls_token", &spec.names.cls},
                                                              {"mask_token", &spec.names.mask},
                                                              {"pad_token", &spec.names.pad},
                                                              {"sep_token", &spec.names.sep},
                                                              {"unk_token", &spec.names.unk}};
  for (const auto& [key, name] : names) {
    const auto is_it = [&](const AddedToken& t) { return t.special && t.content == *name; };
    if (std::any_of(spec.added.begin(), spec.added.end(), is_it)) out[key] = *name;
  }
  return out;
}

/// Whether transformers' BERT class, which builds all but vocabulary and added tokens itself, is this
/// tokenizer.
bool is_bert(const TokenizerSpec& spec) {
  if (spec.model != ModelKind::kWordPiece || only_rules(spec) == nullptr) return false;
  const NormalizerRules& n = *only_rules(spec);
  const auto strip = n.decompose ? NormalizerRules::Strip::kNonspacing : NormalizerRules::Strip::kNothing;
  if (!n.clean_text || n.strip != strip || spec.prefix != "##" || spec.max_chars != 100) return false;
  if (special_tokens(spec).size() != 5) return false;
  // The texts of types 0 and 1, and around them the tokens [CLS] and [SEP].
  std::string outline;
  for (const Template* t : {&spec.single, &spec.pair}) {
    for (const TemplatePiece& p : *t) {
      outline += p.sequence >= 0             ? "AB"[p.sequence]
                 : p.token == spec.names.cls ? 'c'
                 : p.token == spec.names.sep ? 's'
                                             : '?';
      outline += std::to_string(p.type_id);
    }
  }
  return outline == "c0A0s0c0A0s0B1s1";
}

std::string tokenizer_config(const TokenizerSpec& spec) {
  Json out = special_tokens(spec);
  const bool bert = is_bert(spec);
  if (bert) {
    const NormalizerRules& n = *only_rules(spec);
    out["do_lower_case"] = n.lowercase;
    out["strip_accents"] = n.decompose == n.lowercase ? Json(nullptr) : Json(n.decompose);
    out["tokenize_chinese_chars"] = n.handle_chinese_chars;
  }
  if (spec.model_max_length != INT_MAX) out["model_max_length"] = spec.model_max_length;
  out["tokenizer_class"] = bert ? "BertTokenizer" : "PreTrainedTokenizerFast";
  if (!bert && spec.gives_types)  // which that class does not by itself
    out["model_input_names"] = {"input_ids", "token_type_ids", "attention_mask"};
  return out.dump(2) + "\n";
}

/// Only where a token's line number is its id and no token loses white space at its end.
bool fits_vocab_txt(const TokenizerSpec& spec) {
  for (size_t i = 0; i < spec.vocabulary.size(); ++i) {
    const auto& [token, id] = spec.vocabulary[i];
    size_t at = token.size();
    const bool cut = at > 0 && (unicode::info(unicode::decode_back(token, &at)).flags & unicode::kSpace) != 0;
    if (id != static_cast<int32_t>(i) || cut || token.find('\n') != std::string::npos) return false;
  }
  return true;
}

}  // namespace

std::vector<NamedFile> write_tokenizer_files(const TokenizerSpec& spec, bool from_vocab_txt) {
  std::vector<NamedFile> out = {{"tokenizer_config.json", tokenizer_config(spec)},
                                {"special_tokens_map.json", special_tokens(spec).dump(2) + "\n"}};
  if (from_vocab_txt) {
    out.insert(out.begin(), {"tokenizer.json", tokenizer_json(spec)});
  } else if (spec.model == ModelKind::kWordPiece && fits_vocab_txt(spec)) {
    std::string lines;
    for (const auto& [token, id] : spec.vocabulary) lines += token + "\n";
    out.emplace_back("vocab.txt", std::move(lines));
  }
  return out;
}

}  // namespace lathe
