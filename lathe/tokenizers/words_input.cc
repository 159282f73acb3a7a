#include "lathe/tokenizers/words_input.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "lathe/core/error.h"
#include "lathe/io/json_file.h"
#include "lathe/tokenizers/windows.h"

namespace lathe {
namespace {

using nlohmann::ordered_json;

// Tokens [begin, end) of `from`, with another word's number in place of theirs.
void append(const Encoding& from, size_t begin, size_t end, int32_t word, Encoding* to) {
  const auto copy = [&](const auto& source, auto* target) {
    target->insert(target->end(), source.begin() + static_cast<std::ptrdiff_t>(begin),
                   source.begin() + static_cast<std::ptrdiff_t>(end));
  };
  copy(from.ids, &to->ids);
  copy(from.type_ids, &to->type_ids);
  copy(from.offsets, &to->offsets);
  copy(from.sequence_ids, &to->sequence_ids);
  to->word_ids.resize(to->ids.size(), word);
}

// All tokens of the words, and the special ones that stand before and after them.
struct Parts {
  Encoding before, words, after;
};

Parts parts_of(const Tokenizer& tokenizer, std::span<const std::string> words, bool add_special_tokens) {
  Parts out;
  bool framed = !add_special_tokens;
  Encoding frame;
  for (size_t i = 0; i < words.size(); ++i) {
    // The first word with tokens says where the special ones stand.
    Encoding one = tokenizer.encode(words[i], {.add_special_tokens = !framed});
    const auto is_text = [](int8_t sequence) { return sequence >= 0; };
    const auto first = std::find_if(one.sequence_ids.begin(), one.sequence_ids.end(), is_text);
    const auto last = std::find_if(one.sequence_ids.rbegin(), one.sequence_ids.rend(), is_text);
    if (first == one.sequence_ids.end()) {
      frame = std::move(one);
      continue;
    }
    const auto begin = static_cast<size_t>(first - one.sequence_ids.begin());
    const auto end = static_cast<size_t>(one.sequence_ids.rend() - last);
    append(one, begin, end, static_cast<int32_t>(i), &out.words);
    if (framed) continue;
    append(one, 0, begin, -1, &out.before);
    append(one, end, one.size(), -1, &out.after);
    framed = true;
  }
  if (framed) return out;
  if (words.empty()) frame = tokenizer.encode("");
  append(frame, 0, frame.size(), -1, &out.before);
  return out;
}

std::vector<Window> windows_of(const Tokenizer& tokenizer, const Parts& parts, const EncodeOptions& options) {
  if (options.max_length <= 0 || options.truncation == Truncation::kNone) return {{0, parts.words.size()}};
  const size_t special = parts.before.size() + parts.after.size();
  const auto room = static_cast<size_t>(options.max_length) - special;
  return truncate(parts.words.size(), -1, room, options, tokenizer.truncates_left()).first;
}

// Where byte-level offsets leave blanks out, a window's first token may keep the one in front of it: its
// offsets are those of a window of the word by itself that begins there.
void mend_first(const Tokenizer& tokenizer, std::span<const std::string> words, const Encoding& all,
                Window window, std::array<int32_t, 2>* offsets) {
  if (window.begin == 0) return;
  const int32_t word = all.word_ids[window.begin];
  if (all.word_ids[window.begin - 1] != word) return;
  const auto of_word = [&](int32_t id) { return id == word; };
  const auto rank = static_cast<int>(std::count_if(
      all.word_ids.begin(), all.word_ids.begin() + static_cast<std::ptrdiff_t>(window.begin), of_word));
  const auto count = static_cast<int>(std::count_if(all.word_ids.begin(), all.word_ids.end(), of_word));
  const bool left = tokenizer.truncates_left();
  const auto windows =
      tokenizer.encode_with_overflow(words[static_cast<size_t>(word)],
                                     {.max_length = left ? count - rank : rank, .add_special_tokens = false});
  *offsets = windows[left ? 0 : 1].offsets.front();
}

// Windows that overflow have type 0, whatever the template says, as in the `tokenizers` crate.
Encoding assemble(const Tokenizer& tokenizer, std::span<const std::string> words, const Parts& parts,
                  Window window, bool overflowing) {
  Encoding out;
  append(parts.before, 0, parts.before.size(), -1, &out);
  append(parts.words, window.begin, window.end, -1, &out);
  if (window.begin < window.end)
    mend_first(tokenizer, words, parts.words, window, &out.offsets[parts.before.size()]);
  if (overflowing)
    std::fill(out.type_ids.begin() + static_cast<std::ptrdiff_t>(parts.before.size()), out.type_ids.end(), 0);
  std::copy(parts.words.word_ids.begin() + static_cast<std::ptrdiff_t>(window.begin),
            parts.words.word_ids.begin() + static_cast<std::ptrdiff_t>(window.end),
            out.word_ids.begin() + static_cast<std::ptrdiff_t>(parts.before.size()));
  append(parts.after, 0, parts.after.size(), -1, &out);
  out.whole = parts.before.size() + parts.words.size() + parts.after.size();
  return out;
}

bool takes_prefix_space(std::string_view model_type) {
  constexpr std::string_view kTypes[] = {"bloom", "gpt2", "roberta", "deberta"};
  return std::find(std::begin(kTypes), std::end(kTypes), model_type) != std::end(kTypes);
}

// To a step of tokenizer.json, if it is of this type.
void add_prefix_space(ordered_json& file, const char* part, const char* type) {
  if (!file.is_object() || !file.contains(part) || !file[part].is_object()) return;
  ordered_json& step = file[part];
  if (step.contains("type") && step["type"] == type) step["add_prefix_space"] = true;
}

std::string* content_of(std::vector<NamedFile>& files, const char* name) {
  const auto at =
      std::find_if(files.begin(), files.end(), [&](const NamedFile& f) { return f.first == name; });
  return at == files.end() ? nullptr : &at->second;
}

}  // namespace

Encoding encode_words(const Tokenizer& tokenizer, std::span<const std::string> words,
                      const EncodeOptions& options) {
  tokenizer.encode("", options);  // refuses options that leave no room
  const Parts parts = parts_of(tokenizer, words, options.add_special_tokens);
  return assemble(tokenizer, words, parts, windows_of(tokenizer, parts, options).front(), false);
}

std::vector<Encoding> encode_words_with_overflow(const Tokenizer& tokenizer,
                                                 std::span<const std::string> words,
                                                 const EncodeOptions& options) {
  tokenizer.encode("", options);
  const Parts parts = parts_of(tokenizer, words, options.add_special_tokens);
  std::vector<Encoding> out;
  for (const Window window : windows_of(tokenizer, parts, options))
    out.push_back(assemble(tokenizer, words, parts, window, !out.empty()));
  return out;
}

std::vector<NamedFile> files_for_words(std::vector<NamedFile> files, std::string_view model_type) {
  if (!takes_prefix_space(model_type)) return files;
  std::string* text = content_of(files, "tokenizer_config.json");
  ordered_json config =
      text == nullptr ? ordered_json::object() : parse_ordered_json(*text, "tokenizer_config.json");
  if (!config.is_object()) return files;  // which are refused when they are loaded
  const auto known = config.find("tokenizer_class");
  const std::string name = known != config.end() && known->is_string() ? known->get<std::string>() : "";
  if (name == "PreTrainedTokenizerFast" || name == "TokenizersBackend") return files;
  if (name.empty() && model_type == "roberta") config["tokenizer_class"] = "RobertaTokenizer";
  config["add_prefix_space"] = true;
  if (text == nullptr) text = &files.emplace_back("tokenizer_config.json", "").second;
  *text = config.dump(2);
  if ((text = content_of(files, "tokenizer.json")) != nullptr) {
    ordered_json file = parse_ordered_json(*text, "tokenizer.json");
    add_prefix_space(file, "pre_tokenizer", "ByteLevel");
    if (!name.starts_with("GPT2")) add_prefix_space(file, "post_processor", "RobertaProcessing");
    *text = file.dump(2);
  }
  return files;
}

Tokenizer load_words_tokenizer(const std::string& folder, std::string_view model_type) {
  const Tokenizer tokenizer = Tokenizer::load(folder);
  if (!takes_prefix_space(model_type)) return tokenizer;
  std::vector<NamedFile> files = tokenizer.files();
  std::erase_if(files, [&](const NamedFile& file) {
    std::error_code unknown;
    return !std::filesystem::exists(folder + "/" + file.first, unknown);
  });
  return Tokenizer::from_files(files_for_words(std::move(files), model_type), folder);
}

}  // namespace lathe
