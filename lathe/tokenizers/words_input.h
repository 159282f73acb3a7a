#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/tokenizers/tokenizer.h"

namespace lathe {

/// Tokens of a text that is given as words, as Hugging Face's fast tokenizers give them with
/// is_split_into_words=True: each word is tokenised by itself.  In the result word_ids is the index of the
/// word, offsets are code points within the word.  A word may have no token (an empty one, or one of nothing
/// but characters that the tokenizer drops).  Errors: as Tokenizer::encode.
Encoding encode_words(const Tokenizer& tokenizer, std::span<const std::string> words,
                      const EncodeOptions& options = {});
/// As encode_words, then the windows that overflowed, as Tokenizer::encode_with_overflow; never empty.
std::vector<Encoding> encode_words_with_overflow(const Tokenizer& tokenizer,
                                                 std::span<const std::string> words,
                                                 const EncodeOptions& options);

/// The files of a folder's tokenizer as run_ner.py loads it for a model of this type: bloom, deberta, gpt2
/// and roberta get add_prefix_space=True, unless tokenizer_config.json names a generic class, which does not
/// know it.  Files of other types stay as they are.  files: as loaded, none that Tokenizer::files()
/// generated.
std::vector<NamedFile> files_for_words(std::vector<NamedFile> files, std::string_view model_type);

/// Tokenizer::load, with these files.
Tokenizer load_words_tokenizer(const std::string& folder, std::string_view model_type);

}  // namespace lathe
