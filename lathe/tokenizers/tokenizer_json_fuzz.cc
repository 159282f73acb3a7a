// Any bytes as tokenizer.json give an Error or a tokenizer whose encodings are well formed, also for the
// bytes themselves as a text.
#include <cstdlib>

#include "lathe/core/error.h"
#include "lathe/tokenizers/tokenizer.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void check(const lathe::Tokenizer& tokenizer, const lathe::Encoding& e, size_t code_points) {
  const size_t n = e.ids.size();
  require(e.type_ids.size() == n && e.offsets.size() == n && e.sequence_ids.size() == n &&
          e.word_ids.size() == n);
  for (size_t i = 0; i < n; ++i) {
    require(e.offsets[i][0] <= e.offsets[i][1] && e.offsets[i][1] <= static_cast<int64_t>(code_points));
  }
  tokenizer.decode(e.ids, false);
  require(!lathe::encoding_to_json(e, tokenizer).empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  try {
    const std::vector<lathe::NamedFile> files = {{"tokenizer.json", bytes}};
    const auto tokenizer = lathe::Tokenizer::from_files(files, "fuzz");
    const std::string text = "Hello, wörld! [SEP] 世界 e\u0323\u0302 " + bytes;
    check(tokenizer, tokenizer.encode(text), text.size());
    // Windows multiply where both texts overflow: one of them is short.
    const std::string_view other = std::string_view(bytes).substr(0, 24);
    for (const auto& e :
         tokenizer.encode_with_overflow(other, text, {64, lathe::Truncation::kLongestFirst, 2, true})) {
      check(tokenizer, e, text.size());
    }
    // What is written describes the same tokenizer.
    const auto again = lathe::Tokenizer::from_files(tokenizer.files(), "fuzz");
    require(again.encode(text).offsets.size() == tokenizer.encode(text).offsets.size());
  } catch (const lathe::Error& e) {
    require(e.code() != lathe::ErrorCode::kInternal);
  }
  return 0;
}
