#pragma once
#include "lathe/tokenizers/json_document.h"
#include "lathe/tokenizers/tokenizer_spec.h"

namespace lathe {

/// The rules of BertNormalizer; without strip_accents, accents go where lower case is wanted.
NormalizerRules bert_rules(bool clean, bool chinese, std::optional<bool> strip_accents, bool lowercase);

/// Metaspace as pre-tokeniser or decoder, whose members are the same.
void read_metaspace(const JsonDocument& doc, const JsonDocument::json& value, WordStep* out);

/// Reads the part of tokenizer.json that stands before the model, whose kind *spec has already: `normalizer`
/// and `pre_tokenizer`.  Errors: kInvalidData; kUnsupported.
void read_pre_model(const JsonDocument& doc, TokenizerSpec* spec);

}  // namespace lathe
