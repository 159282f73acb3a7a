#pragma once
#include <string>
#include <unordered_map>

#include "lathe/tokenizers/json_document.h"
#include "lathe/tokenizers/tokenizer_spec.h"

namespace lathe {

using Vocabulary = std::unordered_map<std::string, int32_t>;

/// [CLS] A [SEP], or [CLS] A [SEP] B [SEP] with type 1 from B on.
Template bert_template(const std::string& cls, int32_t cls_id, const std::string& sep, int32_t sep_id,
                       bool pair);

/// <s> A </s>, or <s> A </s></s> B </s>, all of type 0, as RobertaProcessing builds it.
Template roberta_template(const std::string& cls, int32_t cls_id, const std::string& sep, int32_t sep_id,
                          bool pair);

/// Reads tokenizer.json into *vocabulary and *spec; added tokens keep the order of the file and get no ids
/// yet, the templates stay empty if the file has no post-processor.  Errors: kInvalidData; kUnsupported.
void read_tokenizer_json(const JsonDocument& doc, Vocabulary* vocabulary, TokenizerSpec* spec);

}  // namespace lathe
