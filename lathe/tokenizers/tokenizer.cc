#include "lathe/tokenizers/tokenizer.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <unordered_map>

#include "lathe/core/error.h"
#include "lathe/io/file_system.h"
#include "lathe/io/git_lfs.h"
#include "lathe/io/model_folder.h"
#include "lathe/text/unicode.h"
#include "lathe/tokenizers/byte_level.h"
#include "lathe/tokenizers/tokenizer_spec.h"
#include "lathe/tokenizers/windows.h"
#include "lathe/tokenizers/word_cache.h"
#include "lathe/tokenizers/word_model.h"

namespace lathe {
namespace {

/// The tokens of one text, special ones not yet added.
struct Tokens {
  std::vector<int32_t> ids;
  std::vector<std::array<int32_t, 2>> offsets;
  std::vector<int32_t> words;
  int32_t next_word = 0;
  std::unordered_map<size_t, byte_level::Blanks>
      matched_blanks;  // by index: of added tokens as they were found

  void put(int32_t id, uint32_t begin, uint32_t end) {
    ids.push_back(id);
    offsets.push_back({static_cast<int32_t>(begin), static_cast<int32_t>(end)});
    words.push_back(next_word);
  }
};

/// Buffers of one encode call.
struct Scratch {
  NormalizedText normalized, prefixed;
  std::vector<AddedTokenMatcher::Match> raw_matches, matches;
  std::vector<Piece> pieces;
  bool split_special = false;  // special tokens in the text are words as others
};

}  // namespace

struct Tokenizer::Impl {
  TokenizerSpec spec;
  std::vector<NamedFile> files;  // as loaded
  NormalizerChain normalizer;
  WordSplitter splitter;
  std::unique_ptr<WordModel> model;
  WordCache cache;
  AddedTokenMatcher raw_tokens, normalized_tokens;
  std::array<uint32_t, 128> ascii_flags;
  std::unordered_map<std::string_view, int32_t> id_of;  // into spec, as token_of
  std::unordered_map<int32_t, const std::string*> token_of;
  std::unordered_map<int32_t, std::string> decoded_as;  // added tokens whose normalised form differs
  std::unordered_map<int32_t, byte_level::Blanks>
      blanks;                        // of tokens that have any, where offsets are trimmed
  std::vector<std::string> special;  // contents, sorted
  int32_t cls, sep, pad, unk, mask, bos, eos;

  explicit Impl(TokenizerSpec s)
      : spec(std::move(s)), normalizer(spec.normalizer), splitter(spec.word_steps), model(make_model(spec)) {
    for (uint8_t c = 0; c < 128; ++c) ascii_flags[c] = unicode::info(c).flags;
    id_of.reserve(spec.vocabulary.size() + spec.added.size());
    token_of.reserve(spec.vocabulary.size() + spec.added.size());
    for (const auto& [token, id] : spec.vocabulary) {
      id_of.insert_or_assign(token, id);
      token_of.insert_or_assign(id, &token);
    }
    std::vector<AddedTokenMatcher::Entry> raw, normalized;
    for (const AddedToken& token : spec.added) {
      id_of.insert_or_assign(token.content, token.id);
      token_of.insert_or_assign(token.id, &token.content);
      if (token.special) special.push_back(token.content);
      if (!token.normalized) {
        raw.push_back({token.content, token});
        continue;
      }
      NormalizedText pattern;
      normalizer.run(token.content, 0, &pattern);
      if (pattern.text != token.content) decoded_as[token.id] = pattern.text;
      normalized.push_back({pattern.text, token});
    }
    raw_tokens = AddedTokenMatcher(std::move(raw));
    normalized_tokens = AddedTokenMatcher(std::move(normalized));
    std::sort(special.begin(), special.end());
    if (spec.byte_level.trim_offsets) find_blanks();
    const auto find = [this](const std::string& token) {
      const auto it = id_of.find(token);
      return token.empty() || it == id_of.end() ? -1 : it->second;
    };
    cls = find(spec.names.cls), sep = find(spec.names.sep), pad = find(spec.names.pad);
    unk = find(spec.names.unk), mask = find(spec.names.mask);
    bos = find(spec.names.bos), eos = find(spec.names.eos);
  }

  void find_blanks() {
    for (const auto& [token, id] : spec.vocabulary) {
      const byte_level::Blanks b = byte_level::blanks_of(token);
      if (b.leading > 0 || b.trailing > 0) blanks[id] = b;
    }
  }

  /// An added token that was found as `text`, which may begin and end with white space that it took.
  void put_added(int32_t id, std::string_view text, uint32_t begin, uint32_t end, Tokens* out) const {
    if (spec.byte_level.trim_offsets) out->matched_blanks[out->ids.size()] = byte_level::blanks_of(text);
    out->put(id, begin, end);
    ++out->next_word;
  }

  uint32_t flags(uint32_t cp) const { return cp < 128 ? ascii_flags[cp] : unicode::info(cp).flags; }

  void put_word(const NormalizedText& n, size_t begin, size_t end, Scratch* scratch, Tokens* out) const {
    scratch->pieces.clear();
    const std::string_view word = std::string_view(n.text).substr(begin, end - begin);
    if (spec.model == ModelKind::kWordPiece)  // which is as fast as looking the word up
      model->split(word, &scratch->pieces);
    else
      cache.split(*model, word, &scratch->pieces);
    for (const Piece& p : scratch->pieces) {
      out->put(p.id, n.origin[begin + p.begin], n.origin[begin + p.end - 1] + 1);
    }
    ++out->next_word;
  }

  void put_words(const NormalizedText& n, size_t begin, size_t end, Scratch* scratch, Tokens* out) const {
    if (spec.byte_level.alphabet && spec.word_steps.empty())
      put_byte_words(n, begin, end, scratch, out);
    else if (spec.model == ModelKind::kWordPiece)
      put_bert_words(n, begin, end, scratch, out);
    else
      splitter.split(n, begin, end, [&](const NormalizedText& text, size_t first, size_t last) {
        put_word(text, first, last, scratch, out);
      });
  }

  /// ByteLevel.  The prefix space has the origin of the code point after it.
  void put_byte_words(const NormalizedText& n, size_t begin, size_t end, Scratch* scratch,
                      Tokens* out) const {
    if (begin == end) return;
    const NormalizedText* from = &n;
    if (spec.byte_level.add_prefix_space && n.text[begin] != ' ') {
      NormalizedText& p = scratch->prefixed;
      p.clear();
      p.append(' ', n.origin[begin]);
      p.append(n, begin, end);
      from = &p, begin = 0, end = p.text.size();
    }
    if (!spec.byte_level.use_regex) return put_word(*from, begin, end, scratch, out);
    byte_level::split(
        std::string_view(from->text).substr(begin, end - begin),
        [&](size_t first, size_t last) { put_word(*from, begin + first, begin + last, scratch, out); });
  }

  /// BertPreTokenizer: white space parts words, a punctuation mark is a word.
  void put_bert_words(const NormalizedText& n, size_t begin, size_t end, Scratch* scratch,
                      Tokens* out) const {
    const std::string_view text(n.text);
    size_t word = begin;
    for (size_t at = begin; at < end;) {
      size_t next = at;
      const auto kind = flags(unicode::decode(text, &next)) & (unicode::kSpace | unicode::kPunctuation);
      if (kind != 0) {
        if (word < at) put_word(n, word, at, scratch, out);
        if ((kind & unicode::kSpace) == 0) put_word(n, at, next, scratch, out);
        word = next;
      }
      at = next;
    }
    if (word < end) put_word(n, word, end, scratch, out);
  }

  /// A stretch of the original without raw added tokens; its first code point has the index `first`.
  void put_stretch(std::string_view text, uint32_t first, Scratch* scratch, Tokens* out) const {
    NormalizedText& n = scratch->normalized;
    normalizer.run(text, first, &n);
    if (normalized_tokens.empty()) return put_words(n, 0, n.text.size(), scratch, out);
    scratch->matches.clear();
    normalized_tokens.cut(n.text, scratch->split_special, &scratch->matches);
    for (const auto& [token, begin, end] : scratch->matches) {
      if (token == nullptr) {
        put_words(n, begin, end, scratch, out);
      } else {
        put_added(token->id, std::string_view(n.text).substr(begin, end - begin), n.origin[begin],
                  n.origin[end - 1] + 1, out);
      }
    }
  }

  Tokens tokenize(std::string_view text, const EncodeOptions& options) const {
    std::string repaired;
    if (!unicode::is_valid(text)) text = repaired = unicode::repair(text);
    if (text.size() > INT32_MAX) {
      fail(ErrorCode::kUsage, "tokenizer: a text of {} bytes; expected less than 2 GiB", text.size());
    }
    Tokens out;
    Scratch scratch;
    scratch.split_special = spec.split_special_tokens || options.split_special_tokens;
    raw_tokens.cut(text, scratch.split_special, &scratch.raw_matches);
    // The code points before each byte; a token that begins with white space may begin in what the one before
    // took, so that matches overlap.
    std::vector<uint32_t> index(scratch.raw_matches.size() > 1 ? text.size() + 1 : 0);
    for (size_t at = 0; at + 1 < index.size(); ++at)
      index[at + 1] = index[at] + ((static_cast<uint8_t>(text[at]) & 0xC0) != 0x80);
    const auto before = [&](size_t byte) {
      return !index.empty() ? index[byte]
             : byte == 0    ? 0
                            : static_cast<uint32_t>(unicode::length(text.substr(0, byte)));
    };
    for (const auto& [token, begin, end] : scratch.raw_matches) {
      const std::string_view part = text.substr(begin, end - begin);
      if (token == nullptr)
        put_stretch(part, before(begin), &scratch, &out);
      else
        put_added(token->id, part, before(begin), before(end), &out);
    }
    return out;
  }

  int count_special(const Template& t) const {
    size_t n = 0;
    for (const TemplatePiece& piece : t) n += piece.ids.size();
    return static_cast<int>(n);
  }

  /// The windows of one text or two under the options; all of it without truncation.
  Windows cut(const Tokens& first, const Tokens* second, const EncodeOptions& options) const {
    if (options.max_length < 0 || options.stride < 0) {
      fail(ErrorCode::kUsage, "tokenizer: max_length {} and stride {}; expected neither below 0",
           options.max_length, options.stride);
    }
    const auto n_second = second == nullptr ? -1 : static_cast<std::ptrdiff_t>(second->ids.size());
    size_t room = SIZE_MAX;
    if (options.max_length > 0 && options.truncation != Truncation::kNone) {
      const int special_tokens =
          options.add_special_tokens ? count_special(second ? spec.pair : spec.single) : 0;
      if (options.max_length < special_tokens) {
        fail(ErrorCode::kUsage,
             "tokenizer: max_length {} has no room for the {} special tokens; expected more",
             options.max_length, special_tokens);
      }
      const int own = options.max_length - count_special(spec.single);
      const int most = own >= 0 ? own : options.max_length;  // less than special tokens take, without them
      if (options.stride > most) {
        fail(ErrorCode::kUsage, "tokenizer: stride {} with max_length {}; expected at most {}",
             options.stride, options.max_length, most);
      }
      room = static_cast<size_t>(options.max_length - special_tokens);
    }
    return truncate(first.ids.size(), n_second, room, options, spec.truncates_left);
  }

  /// One window of each text (numbers i, j) put into the template.  Windows that overflow keep type ids 0 and
  /// 1 whatever the template says, as in the `tokenizers` crate.
  Encoding assemble(const Tokens& first, const Tokens* second, const Windows& windows, size_t i, size_t j,
                    bool add_special_tokens) const {
    const Template& pieces = second != nullptr ? spec.pair : spec.single;
    Encoding out;
    const Window a = windows.first[i], b = second != nullptr ? windows.second[j] : Window{0, 0};
    const auto framing = static_cast<size_t>(count_special(pieces));
    const size_t size = a.end - a.begin + b.end - b.begin + framing;
    out.whole =
        first.ids.size() + (second != nullptr ? second->ids.size() : 0) + (add_special_tokens ? framing : 0);
    out.ids.reserve(size), out.type_ids.reserve(size), out.offsets.reserve(size);
    out.sequence_ids.reserve(size), out.word_ids.reserve(size);
    for (const TemplatePiece& piece : pieces) {
      if (piece.sequence < 0) {
        if (!add_special_tokens) continue;
        out.ids.insert(out.ids.end(), piece.ids.begin(), piece.ids.end());
        out.offsets.resize(out.ids.size(), {0, 0});
        out.word_ids.resize(out.ids.size(), -1);
        out.type_ids.resize(out.ids.size(), piece.type_id);
        out.sequence_ids.resize(out.ids.size(), -1);
        continue;
      }
      const Tokens& tokens = piece.sequence == 0 ? first : *second;
      const Window w = piece.sequence == 0 ? a : b;
      const bool overflowing = (piece.sequence == 0 ? i : j) > 0;
      const auto copy = [&](const auto& from, auto* to) {
        to->insert(to->end(), from.begin() + static_cast<std::ptrdiff_t>(w.begin),
                   from.begin() + static_cast<std::ptrdiff_t>(w.end));
      };
      copy(tokens.ids, &out.ids);
      copy(tokens.offsets, &out.offsets);
      if (spec.byte_level.trim_offsets) trim(tokens, w, &out);
      copy(tokens.words, &out.word_ids);
      const bool own_type = overflowing && !(spec.uniform_type_ids && add_special_tokens);
      out.type_ids.resize(out.ids.size(), own_type ? piece.sequence : piece.type_id);
      out.sequence_ids.resize(out.ids.size(), static_cast<int8_t>(piece.sequence));
    }
    return out;
  }

  /// Takes blanks off the offsets of a window's tokens, the last ones of *out.  Source: ByteLevel's
  /// process_offsets.
  void trim(const Tokens& tokens, Window w, Encoding* out) const {
    auto* offsets = out->offsets.data() + (out->ids.size() - (w.end - w.begin));
    for (size_t i = w.begin; i < w.end; ++i, ++offsets) {
      const auto matched = tokens.matched_blanks.find(i);
      const auto known = blanks.find(tokens.ids[i]);
      if (matched == tokens.matched_blanks.end() && known == blanks.end()) continue;
      const byte_level::Blanks b = matched != tokens.matched_blanks.end() ? matched->second : known->second;
      auto& [from, to] = *offsets;
      const bool prefix = spec.byte_level.trim_keeps_prefix && (i == w.begin || from == 0) && b.leading == 1;
      if (!prefix) from = std::min(from + b.leading, to);
      if (to >= b.trailing) to = std::max(to - b.trailing, from);
    }
  }

  Encoding encode(std::string_view first, const std::string_view* second,
                  const EncodeOptions& options) const {
    const Tokens a = tokenize(first, options), b = second != nullptr ? tokenize(*second, options) : Tokens{};
    const Tokens* other = second != nullptr ? &b : nullptr;
    return assemble(a, other, cut(a, other, options), 0, 0, options.add_special_tokens);
  }

  std::vector<Encoding> encode_all(std::string_view first, const std::string_view* second,
                                   const EncodeOptions& options) const {
    const Tokens a = tokenize(first, options), b = second != nullptr ? tokenize(*second, options) : Tokens{};
    const Tokens* other = second != nullptr ? &b : nullptr;
    const Windows windows = cut(a, other, options);
    const size_t n_second = second != nullptr ? windows.second.size() : 1;
    std::vector<Encoding> out;
    const auto put = [&](size_t i, size_t j) {
      out.push_back(assemble(a, other, windows, i, j, options.add_special_tokens));
    };
    // Where both texts overflow every window of one meets every window of the other, the kept ones of the
    // first last.
    put(0, 0);
    for (size_t i = 1; i < windows.first.size(); ++i) {
      for (size_t j = 0; j < n_second; ++j) put(i, j);
    }
    for (size_t j = 1; j < n_second; ++j) put(0, j);
    return out;
  }
};

Tokenizer::Tokenizer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

Tokenizer Tokenizer::load(const std::string& folder) {
  std::vector<NamedFile> files;
  for (const char* name : kTokenizerFiles) {
    const std::string path = folder + "/" + name;
    std::error_code unknown;  // then reading says why
    if (std::filesystem::symlink_status(path, unknown).type() == std::filesystem::file_type::not_found)
      continue;
    std::string content = real_file_system().read(path).value();
    refuse_git_lfs_pointer(content, path);
    files.emplace_back(name, std::move(content));
  }
  return from_files(files, folder);
}

Tokenizer Tokenizer::from_files(std::span<const NamedFile> files, const std::string& origin) {
  auto impl = std::make_shared<Impl>(read_tokenizer_spec(files, origin));
  impl->files.assign(files.begin(), files.end());
  return Tokenizer(std::move(impl));
}

Encoding Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  return impl_->encode(text, nullptr, options);
}

Encoding Tokenizer::encode_pair(std::string_view first, std::string_view second,
                                const EncodeOptions& options) const {
  return impl_->encode(first, &second, options);
}

std::vector<Encoding> Tokenizer::encode_with_overflow(std::string_view text,
                                                      const EncodeOptions& options) const {
  return impl_->encode_all(text, nullptr, options);
}

std::vector<Encoding> Tokenizer::encode_with_overflow(std::string_view first, std::string_view second,
                                                      const EncodeOptions& options) const {
  return impl_->encode_all(first, &second, options);
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  Decoder decoder(impl_->spec.decoder);
  for (const int32_t id : ids) {
    const auto known = impl_->token_of.find(id);
    if (known == impl_->token_of.end()) continue;
    const auto added = impl_->decoded_as.find(id);
    const std::string& token = added != impl_->decoded_as.end() ? added->second : *known->second;
    if (skip_special_tokens && std::binary_search(impl_->special.begin(), impl_->special.end(), token))
      continue;
    decoder.put(token);
  }
  return std::move(decoder).finish();
}

std::string Tokenizer::join(std::span<const std::string> tokens) const {
  Decoder decoder(impl_->spec.decoder);
  for (const std::string& token : tokens) decoder.put(token);
  return std::move(decoder).finish();
}

int Tokenizer::vocab_size() const { return static_cast<int>(impl_->id_of.size()); }

std::optional<int32_t> Tokenizer::token_to_id(std::string_view token) const {
  const auto it = impl_->id_of.find(token);
  return it == impl_->id_of.end() ? std::nullopt : std::optional(it->second);
}

const std::string& Tokenizer::id_to_token(int32_t id) const {
  const auto it = impl_->token_of.find(id);
  if (it == impl_->token_of.end()) {
    fail(ErrorCode::kUsage, "tokenizer: no token has the id {}; the vocabulary has {} tokens", id,
         vocab_size());
  }
  return *it->second;
}

int32_t Tokenizer::cls_id() const { return impl_->cls; }
int32_t Tokenizer::sep_id() const { return impl_->sep; }
int32_t Tokenizer::pad_id() const { return impl_->pad; }
int32_t Tokenizer::unk_id() const { return impl_->unk; }
int32_t Tokenizer::mask_id() const { return impl_->mask; }
int32_t Tokenizer::bos_id() const { return impl_->bos; }
int32_t Tokenizer::eos_id() const { return impl_->eos; }
int Tokenizer::model_max_length() const { return impl_->spec.model_max_length; }
bool Tokenizer::pads_left() const { return impl_->spec.pads_left; }
bool Tokenizer::truncates_left() const { return impl_->spec.truncates_left; }
bool Tokenizer::marks_inner_tokens() const { return impl_->spec.model == ModelKind::kWordPiece; }
bool Tokenizer::gives_types() const { return impl_->spec.gives_types; }

int Tokenizer::num_special_tokens(bool pair) const {
  return impl_->count_special(pair ? impl_->spec.pair : impl_->spec.single);
}

std::vector<NamedFile> Tokenizer::files() const {
  std::vector<NamedFile> out = impl_->files;
  const auto known = [&](const std::string& name) {
    return std::any_of(out.begin(), out.end(), [&](const NamedFile& f) { return f.first == name; });
  };
  for (NamedFile& file : write_tokenizer_files(impl_->spec, !known("tokenizer.json"))) {
    if (!known(file.first)) out.push_back(std::move(file));
  }
  return out;
}

}  // namespace lathe
