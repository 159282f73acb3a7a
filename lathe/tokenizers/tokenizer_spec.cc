#include "lathe/tokenizers/tokenizer_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_set>

#include "lathe/core/error.h"
#include "lathe/tokenizers/pre_model_json.h"
#include "lathe/tokenizers/tokenizer_json.h"
#include "lathe/tokenizers/vocab_txt.h"

namespace lathe {
namespace {

using nlohmann::json;

/// Bytes.  Matching the longest token takes as many steps for each byte of a text.
constexpr size_t kLongestToken = 1024;

constexpr const char* kNameKeys[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                     "pad_token", "cls_token", "mask_token"};

/// transformers' classes whose model_input_names has token_type_ids, of those that take only texts.
constexpr const char* kClassesWithTypes[] = {
    "BertTokenizer",     "ConvBertTokenizer",  "DPRContextEncoderTokenizer", "DPRQuestionEncoderTokenizer",
    "DebertaTokenizer",  "DebertaV2Tokenizer", "ElectraTokenizer",           "FNetTokenizer",
    "LayoutLMTokenizer", "LxmertTokenizer",    "MobileBertTokenizer",        "SqueezeBertTokenizer"};

/// transformers' classes of decoders whose special tokens have names where the files give none.
struct ClassNames {
  const char* name;
  SpecialTokenNames tokens;
};

const std::vector<ClassNames>& classes_of_decoders() {
  static const std::vector<ClassNames> all = {
      {"GPT2Tokenizer", {"<|endoftext|>", "", "", "", "", "<|endoftext|>", "<|endoftext|>"}},
      {"Qwen2Tokenizer", {"<|endoftext|>", "", "<|endoftext|>", "", "", "", "<|endoftext|>"}},
      {"LlamaTokenizer", {"<unk>", "", "", "", "", "<s>", "</s>"}},
      {"GemmaTokenizer", {"<unk>", "", "<pad>", "", "<mask>", "<bos>", "<eos>"}}};
  return all;
}

bool is_token(const json& value) {
  return value.is_string() || (value.is_object() && value.contains("content"));
}

/// The special tokens and added tokens of tokenizer_config.json and the older files next to it, as
/// transformers merges them: later entries win.
struct Configuration {
  std::map<std::string, AddedToken> named;  // by key, "cls_token"
  std::vector<AddedToken> extra;            // additional special tokens
  std::vector<AddedToken> decoder;          // added_tokens_decoder, by id

  void read_names(const JsonDocument& doc) {
    for (const auto& [key, value] : doc.root().items()) {
      if (key.ends_with("_token") && is_token(value)) named[key] = special(doc, value);
    }
    for (const char* key : kNameKeys) {
      const json* value = JsonDocument::get(doc.root(), key);
      if (value == nullptr) continue;
      if (!is_token(*value)) doc.wrong(key, "a token", *value);
      const bool is_used = std::string_view(key) != "bos_token" && std::string_view(key) != "eos_token";
      if (is_used && named[key].content.empty()) doc.wrong(key, "a token that is not empty", *value);
    }
    for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) {
      const json* list = JsonDocument::get(doc.root(), key);
      if (list == nullptr || !list->is_structured()) continue;
      for (const auto& [name, value] : list->items()) {
        if (!is_token(value)) doc.wrong(key, "tokens", value);
        extra.push_back(special(doc, value));
      }
    }
  }

  void read_decoder(const JsonDocument& doc) {
    const json* object = JsonDocument::get(doc.root(), "added_tokens_decoder");
    if (object == nullptr) return;
    if (!object->is_object()) doc.wrong("added_tokens_decoder", "an object", *object);
    std::map<int64_t, AddedToken> by_id;
    for (const auto& [key, value] : object->items()) {
      int64_t id = 0;
      for (const char c : key)
        id = c >= '0' && c <= '9' ? std::min(id * 10 + (c - '0'), kTokenIdLimit) : kTokenIdLimit;
      if (id >= kTokenIdLimit) doc.wrong("added_tokens_decoder", "ids below 2^24 as keys", key);
      by_id[id] = doc.added_token(value, false);
    }
    for (auto& [id, token] : by_id) decoder.push_back(std::move(token));
  }

  void read_added_tokens_json(const JsonDocument& doc) {
    std::multimap<int32_t, std::string> by_id;
    for (const auto& [token, id] : doc.root().items()) by_id.emplace(doc.id("added token", id), token);
    std::unordered_set<std::string_view> specials;
    for (const auto& [key, token] : named) specials.insert(token.content);
    for (const AddedToken& token : extra) specials.insert(token.content);
    for (const auto& [id, content] : by_id) {
      AddedToken token;
      token.content = content;
      token.special = specials.contains(content);
      token.normalized = !token.special;
      decoder.push_back(std::move(token));
    }
  }

 private:
  static AddedToken special(const JsonDocument& doc, const json& value) {
    AddedToken token = doc.added_token(value, true);
    token.special = true;
    return token;
  }
};

int read_model_max_length(const JsonDocument& doc) {
  const json* value = JsonDocument::get(doc.root(), "model_max_length");
  if (value == nullptr) return INT_MAX;
  if (!value->is_number() || !(value->get<double>() >= 1))
    doc.wrong("model_max_length", "a number of tokens, 1 or more", *value);
  return value->get<double>() >= INT_MAX ? INT_MAX : value->get<int>();
}

/// Appends the tokens of the configuration to those of tokenizer.json.
void merge_added_tokens(const Configuration& config, TokenizerSpec* spec) {
  std::unordered_set<std::string> known;
  for (const AddedToken& token : spec->added) known.insert(token.content);
  for (const AddedToken& token : config.decoder) {  // a known one's properties are the last's
    known.insert(token.content);
    spec->added.push_back(token);
  }
  const auto add = [&](const AddedToken& token) {
    if (known.insert(token.content).second) spec->added.push_back(token);
  };
  for (const char* key : kNameKeys)
    if (const auto it = config.named.find(key); it != config.named.end()) add(it->second);
  for (const auto& [key, token] : config.named) add(token);
  for (const AddedToken& token : config.extra) add(token);
}

/// Gives added tokens their ids: the vocabulary's, or the next free one (`AddedVocabulary::add_tokens`); the
/// id in the file counts for nothing.  Of tokens with equal content the last one's properties stay.
void number_added_tokens(const Vocabulary& vocabulary, const std::string& origin, TokenizerSpec* spec) {
  int32_t next = static_cast<int32_t>(vocabulary.size());
  std::unordered_map<std::string, size_t> seen;
  std::vector<AddedToken> out;
  for (AddedToken& token : spec->added) {
    if (token.content.empty()) continue;
    if (const auto it = seen.find(token.content); it != seen.end()) {
      token.id = out[it->second].id;
      out[it->second] = token;
      continue;
    }
    const auto it = vocabulary.find(token.content);
    token.id = it != vocabulary.end() ? it->second : next++;
    if (token.id >= kTokenIdLimit) fail(ErrorCode::kInvalidData, "{}: no id below 2^24 is left", origin);
    seen[token.content] = out.size();
    out.push_back(token);
  }
  spec->added = std::move(out);
}

class Reader {
 public:
  Reader(std::span<const NamedFile> files, const std::string& origin) : files_(files), origin_(origin) {}

  TokenizerSpec read() {
    const std::string* vocab_txt = find("vocab.txt");
    std::optional<JsonDocument> main = open("tokenizer.json"), config = open("tokenizer_config.json"),
                                map = open("special_tokens_map.json"), added = open("added_tokens.json");
    if (!main && vocab_txt == nullptr) {
      fail(ErrorCode::kNotFound, "{}: expected tokenizer.json or vocab.txt, found neither", origin_);
    }
    read_configuration(config, map, added);
    if (main) {
      read_tokenizer_json(*main, &vocabulary_, &spec_);
    } else {
      vocabulary_ = read_vocab_txt(*vocab_txt, origin_ + "/vocab.txt");
    }
    const bool pieces = spec_.model == ModelKind::kWordPiece;
    const bool bert =
        pieces && (config ? is_class(*config, "BertTokenizer") || names_no_class(*config) : !main);
    const bool roberta =
        spec_.model == ModelKind::kBytePairs && config && is_class(*config, "RobertaTokenizer");
    const SpecialTokenNames of_roberta = {"<unk>", "</s>", "<pad>", "<s>", "<mask>", "<s>", "</s>"};
    if (bert) name_defaults({}, nullptr);
    if (roberta) name_defaults(of_roberta, nullptr);
    if (spec_.model == ModelKind::kBytePairs && config) name_class_defaults(*config);
    if (spec_.model == ModelKind::kUnigram) take_known(of_roberta);
    take_names(bert || roberta);
    if (bert) apply_bert_rules(config);
    if (roberta) apply_roberta_rules(*config);
    spec_.gives_types = gives_types(config);
    spec_.truncates_left = truncates_left(main, config);
    spec_.pads_left = config && is_left(*config, "padding_side").value_or(false);
    spec_.split_special_tokens = config && config->flag(config->root(), "split_special_tokens", false);
    merge_added_tokens(tokens_, &spec_);
    number_added_tokens(vocabulary_, origin_, &spec_);
    if (pieces && !vocabulary_.contains(spec_.names.unk)) {
      fail(ErrorCode::kInvalidData,
           "{}: the unknown token '{}' is not in the vocabulary of {} tokens; expected one in it", origin_,
           spec_.names.unk, vocabulary_.size());
    }
    if (spec_.single.empty() || roberta)
      make_templates(bert ? bert_template : roberta ? roberta_template : nullptr);
    spec_.vocabulary.reserve(vocabulary_.size());
    while (!vocabulary_.empty()) {
      auto token = vocabulary_.extract(vocabulary_.begin());
      spec_.vocabulary.emplace_back(std::move(token.key()), token.mapped());
    }
    std::sort(spec_.vocabulary.begin(), spec_.vocabulary.end(), [](const auto& a, const auto& b) {
      return std::tie(a.second, a.first) < std::tie(b.second, b.first);
    });
    check_templates();
    check_lengths();
    return std::move(spec_);
  }

 private:
  const std::string* find(std::string_view name) const {
    for (const NamedFile& file : files_) {
      if (file.first == name) return &file.second;
    }
    return nullptr;
  }

  std::optional<JsonDocument> open(const std::string& name) const {
    const std::string* bytes = find(name);
    if (bytes == nullptr) return std::nullopt;
    return JsonDocument(origin_ + "/" + name, *bytes);
  }

  /// Whether transformers builds this class, which takes only vocabulary, merges, added tokens and (BERT's)
  /// template from tokenizer.json, and its own rules from tokenizer_config.json.
  static bool is_class(const JsonDocument& config, const std::string& wanted) {
    const json* name = JsonDocument::get(config.root(), "tokenizer_class");
    return name != nullptr && (*name == wanted || *name == wanted + "Fast");
  }
  static bool names_no_class(const JsonDocument& config) {
    return JsonDocument::get(config.root(), "tokenizer_class") == nullptr;
  }

  /// Source: PreTrainedTokenizerBase.model_input_names and AutoTokenizer of transformers 5.24.
  bool gives_types(const std::optional<JsonDocument>& config) const {
    if (config && JsonDocument::get(config->root(), "model_input_names") != nullptr) {
      const json& names = config->list(config->root(), "model_input_names");
      return std::find(names.begin(), names.end(), "token_type_ids") != names.end();
    }
    // Then the class is the model's: BERT's, or one of a family that has no types, whose words are no pieces.
    if (!config || names_no_class(*config)) return spec_.model == ModelKind::kWordPiece;
    return std::any_of(std::begin(kClassesWithTypes), std::end(kClassesWithTypes),
                       [&](const char* name) { return is_class(*config, name); });
  }

  /// Of a side that the file may name.
  static std::optional<bool> is_left(const JsonDocument& config, const char* key) {
    const json* side = JsonDocument::get(config.root(), key);
    if (side == nullptr) return std::nullopt;
    if (*side != "left" && *side != "right") config.wrong(key, "left or right", *side);
    return *side == "left";
  }

  static bool truncates_left(const std::optional<JsonDocument>& main,
                             const std::optional<JsonDocument>& config) {
    if (const auto left = config ? is_left(*config, "truncation_side") : std::nullopt) return *left;
    const json* truncation = main ? JsonDocument::get(main->root(), "truncation") : nullptr;
    const json* side = truncation != nullptr ? JsonDocument::get(*truncation, "direction") : nullptr;
    return side != nullptr && *side == "Left";
  }

  void read_configuration(const std::optional<JsonDocument>& config, const std::optional<JsonDocument>& map,
                          const std::optional<JsonDocument>& added) {
    if (config) {
      tokens_.read_names(*config);
      tokens_.read_decoder(*config);
      spec_.model_max_length = read_model_max_length(*config);
    }
    if (config && JsonDocument::get(config->root(), "added_tokens_decoder") != nullptr) return;
    if (map) tokens_.read_names(*map);
    if (added) tokens_.read_added_tokens_json(*added);
  }

  /// A name that is null in config stays away.
  void name_defaults(const SpecialTokenNames& d, const JsonDocument* config) {
    const std::pair<const char*, const std::string*> defaults[] = {
        {"unk_token", &d.unk},   {"sep_token", &d.sep}, {"pad_token", &d.pad}, {"cls_token", &d.cls},
        {"mask_token", &d.mask}, {"bos_token", &d.bos}, {"eos_token", &d.eos}};
    for (const auto& [key, content] : defaults) {
      if (content->empty() || (config != nullptr && config->root().contains(key))) continue;
      AddedToken token;
      token.content = *content;
      token.special = true;
      tokens_.named.try_emplace(key, token);
    }
  }

  /// Source: the classes of transformers 5.24; LlamaTokenizer over bytes is loaded as one without names.
  void name_class_defaults(const JsonDocument& config) {
    for (const auto& [name, tokens] : classes_of_decoders())
      if (is_class(config, name) &&
          !(std::string_view(name) == "LlamaTokenizer" && spec_.byte_level.alphabet))
        name_defaults(tokens, &config);
  }

  /// Names of tokens that are there, for files that name none.
  void take_known(const SpecialTokenNames& d) {
    const std::pair<const std::string*, std::string*> names[] = {{&d.sep, &spec_.names.sep},
                                                                 {&d.pad, &spec_.names.pad},
                                                                 {&d.cls, &spec_.names.cls},
                                                                 {&d.mask, &spec_.names.mask}};
    for (const auto& [known, name] : names) {
      if (vocabulary_.contains(*known) ||
          std::any_of(spec_.added.begin(), spec_.added.end(),
                      [&, k = known](const AddedToken& t) { return t.content == *k; }))
        *name = *known;
    }
  }

  void take_names(bool bert) {
    const std::pair<const char*, std::string*> names[] = {
        {"sep_token", &spec_.names.sep},   {"pad_token", &spec_.names.pad}, {"cls_token", &spec_.names.cls},
        {"mask_token", &spec_.names.mask}, {"bos_token", &spec_.names.bos}, {"eos_token", &spec_.names.eos}};
    for (const auto& [key, name] : names) {
      if (tokens_.named.contains(key)) *name = tokens_.named[key].content;
    }
    if (bert || (spec_.model == ModelKind::kBytePairs && tokens_.named.contains("unk_token")))
      spec_.names.unk = tokens_.named["unk_token"].content;
  }

  void apply_bert_rules(const std::optional<JsonDocument>& config) {
    if (config) {
      const json& root = config->root();
      spec_.normalizer = {bert_rules(true, config->flag(root, "tokenize_chinese_chars", true),
                                     config->optional_flag(root, "strip_accents"),
                                     config->flag(root, "do_lower_case", true))};
    } else {
      spec_.normalizer = {bert_rules(true, true, std::nullopt, true)};
    }
  }

  /// Source: transformers' RobertaTokenizer.
  void apply_roberta_rules(const JsonDocument& config) {
    ByteLevelRules& rules = spec_.byte_level;
    spec_.normalizer.clear();
    spec_.word_steps.clear();
    spec_.byte_fallback = false;
    rules.alphabet = true;
    rules.add_prefix_space = rules.trim_keeps_prefix = config.flag(config.root(), "add_prefix_space", false);
    rules.trim_offsets = config.flag(config.root(), "trim_offsets", true);
    rules.use_regex = true;
    spec_.uniform_type_ids = true;
    spec_.decoder.kind = DecoderRules::Kind::kByteLevel;
  }

  void make_templates(decltype(bert_template)* make) {
    spec_.single = {{0, 0, {}, ""}};
    spec_.pair = {{0, 0, {}, ""}, {1, 1, {}, ""}};
    if (make == nullptr) return;
    const auto id = [&](const std::string& token) {
      const auto it = vocabulary_.find(token);
      if (it != vocabulary_.end()) return it->second;
      const auto added = std::find_if(spec_.added.begin(), spec_.added.end(),
                                      [&](const AddedToken& t) { return t.content == token; });
      if (added == spec_.added.end())
        fail(ErrorCode::kInternal, "{}: special token '{}' lost", origin_, token);
      return added->id;
    };
    const auto &cls = spec_.names.cls, &sep = spec_.names.sep;
    spec_.single = make(cls, id(cls), sep, id(sep), false);
    spec_.pair = make(cls, id(cls), sep, id(sep), true);
  }

  void check_lengths() const {
    const auto check = [this](const std::string& token, int32_t id) {
      if (token.size() > kLongestToken)
        fail(ErrorCode::kInvalidData,
             "{}: token {} has {} bytes, expected at most {}: no vocabulary has such a word; fetch the "
             "tokenizer "
             "files again",
             origin_, id, token.size(), kLongestToken);
    };
    for (const auto& [token, id] : spec_.vocabulary) check(token, id);
    for (const AddedToken& token : spec_.added) check(token.content, token.id);
  }

  void check_templates() const {
    std::unordered_set<int32_t> known;
    std::unordered_map<std::string_view, int32_t> ids;
    for (const auto& [token, id] : spec_.vocabulary) known.insert(id), ids.emplace(token, id);
    for (const AddedToken& token : spec_.added) known.insert(token.id), ids.emplace(token.content, token.id);
    const auto check_name = [&](const std::string& name, int32_t id) {
      const auto found = ids.find(name);
      if (!name.empty() && (found == ids.end() || found->second == id)) return;
      fail(ErrorCode::kInvalidData,
           "{}/tokenizer.json: post_processor: the special token '{}' has the id {}, {}; take the tokenizer "
           "files that were saved with the model",
           origin_, name, id,
           name.empty() ? "expected a name that is not empty"
                        : fmt::format("in the vocabulary {}: expected the same", found->second));
    };
    for (const Template* t : {&spec_.single, &spec_.pair}) {
      for (const TemplatePiece& piece : *t) {
        for (size_t i = 0; i < piece.names.size(); ++i) check_name(piece.names[i], piece.ids[i]);
        for (const int32_t id : piece.ids) {
          if (known.contains(id)) continue;
          fail(
              ErrorCode::kInvalidData,
              "{}/tokenizer.json: post_processor: '{}' has the id {}, which no token has; take the tokenizer "
              "files that were saved with the model",
              origin_, piece.token, id);
        }
      }
    }
  }

  std::span<const NamedFile> files_;
  const std::string& origin_;
  Vocabulary vocabulary_;
  Configuration tokens_;
  TokenizerSpec spec_;
};

}  // namespace

TokenizerSpec read_tokenizer_spec(std::span<const NamedFile> files, const std::string& origin) {
  return Reader(files, origin).read();
}

}  // namespace lathe
