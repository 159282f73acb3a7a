#include <nlohmann/json.hpp>

#include "lathe/tokenizers/tokenizer.h"

namespace lathe {

std::string encoding_to_json(const Encoding& encoding, const Tokenizer& tokenizer) {
  nlohmann::ordered_json out;
  out["ids"] = encoding.ids;
  out["tokens"] = nlohmann::ordered_json::array();
  for (const int32_t id : encoding.ids) out["tokens"].push_back(tokenizer.id_to_token(id));
  out["type_ids"] = encoding.type_ids;
  out["offsets"] = encoding.offsets;
  out["sequence_ids"] = encoding.sequence_ids;
  out["word_ids"] = encoding.word_ids;
  return out.dump();
}

}  // namespace lathe
