#include <algorithm>

#include "lathe/core/error.h"
#include "lathe/data/parallel_parts.h"
#include "lathe/data/squad.h"
#include "lathe/text/text.h"
#include "lathe/text/unicode.h"

namespace lathe {
namespace {

constexpr int8_t kContext = 1;  // Encoding::sequence_ids of the second text

struct Positions {
  int32_t start, end;
};

// The tokens that hold code points [first, last) of the context; {0, 0} if they are not all in this window.
// Walks as run_qa does, with its two outcomes at the borders: past the last token of the context the special
// token's {0, 0} counts as "begins before the answer", so that the walk ends at the closing SEP.
Positions find_answer(const Encoding& window, int64_t first, int64_t last) {
  const auto is_context = [&](size_t i) { return window.sequence_ids[i] == kContext; };
  size_t begin = 0, end = window.size();
  while (begin < window.size() && !is_context(begin)) ++begin;
  while (end > 0 && !is_context(end - 1)) --end;
  if (begin >= end) return {0, 0};
  if (window.offsets[begin][0] > first || window.offsets[end - 1][1] < last) return {0, 0};
  size_t start_token = begin;
  while (start_token < window.size() && window.offsets[start_token][0] <= first) ++start_token;
  size_t end_token = end;
  while (end_token > begin && window.offsets[end_token - 1][1] >= last) --end_token;
  return {static_cast<int32_t>(start_token) - 1, static_cast<int32_t>(end_token)};
}

std::vector<Encoding> windows_of(const SquadDataset& data, const SquadExample& example,
                                 const Tokenizer& tokenizer, const EncodeOptions& options,
                                 const char* way_out) {
  try {
    return tokenizer.encode_with_overflow(lstrip(example.question), data.context_of(example), options);
  } catch (const Error& e) {
    fail(e.code(), "{}: question '{}': {}; {}", data.origin, example.id, e.what(), way_out);
  }
}

void add_positions(const SquadExample& example, const Encoding& window, TokenizedDataset& tokens) {
  Positions found{0, 0};
  if (!example.answers.empty()) {
    const SquadAnswer& answer = example.answers.front();
    const auto length = static_cast<int64_t>(unicode::length(answer.text));
    found = find_answer(window, answer.start, answer.start + length);
  }
  tokens.tensors.ints("start_positions").push_back(found.start);
  tokens.tensors.ints("end_positions").push_back(found.end);
}

void add_offsets(const Encoding& window, std::vector<std::array<int32_t, 2>>& offsets) {
  for (size_t i = 0; i < window.size(); ++i)
    offsets.push_back(window.sequence_ids[i] == kContext ? window.offsets[i]
                                                         : std::array<int32_t, 2>{-1, -1});
}

QaFeatures make_features(const SquadDataset& data, const Tokenizer& tokenizer,
                         const QaFeatureOptions& options, ThreadPool& pool, bool train) {
  if (tokenizer.pads_left())
    fail(ErrorCode::kUnsupported,
         "tokenizer_config.json: padding_side: found left, for which run_qa puts the context before the "
         "question; Lathe needs right, which is the default");
  const EncodeOptions encode{.max_length = std::min(options.max_seq_length, tokenizer.model_max_length()),
                             .truncation = Truncation::kOnlySecond,
                             .stride = options.doc_stride};
  auto parts =
      parallel_parts<QaFeatures>(pool, static_cast<long>(data.examples.size()), [&](long begin, long end) {
        QaFeatures part;
        for (long i = begin; i < end; ++i) {
          for (const Encoding& window :
               windows_of(data, data.examples[i], tokenizer, encode, options.way_out)) {
            part.tokens.append(window, tokenizer);
            part.example.push_back(static_cast<int32_t>(i));
            if (train)
              add_positions(data.examples[i], window, part.tokens);
            else
              add_offsets(window, part.offsets);
          }
        }
        return part;
      });
  QaFeatures out;
  for (const QaFeatures& part : parts) {
    out.tokens.append({&part.tokens, 1});
    out.example.insert(out.example.end(), part.example.begin(), part.example.end());
    out.offsets.insert(out.offsets.end(), part.offsets.begin(), part.offsets.end());
  }
  return out;
}

}  // namespace

void QaFeatures::truncate(int64_t samples) {
  if (samples >= tokens.size()) return;
  tokens.begins.resize(samples + 1);
  tokens.uncut.resize(samples);
  tokens.input_ids.resize(tokens.tokens());
  tokens.type_ids.resize(tokens.tokens());
  tokens.tensors.truncate(samples, tokens.tokens());
  example.resize(samples);
  if (!offsets.empty()) offsets.resize(tokens.tokens());
}

QaFeatures make_train_features(const SquadDataset& data, const Tokenizer& tokenizer,
                               const QaFeatureOptions& options, ThreadPool& pool) {
  return make_features(data, tokenizer, options, pool, true);
}

QaFeatures make_validation_features(const SquadDataset& data, const Tokenizer& tokenizer,
                                    const QaFeatureOptions& options, ThreadPool& pool) {
  return make_features(data, tokenizer, options, pool, false);
}

}  // namespace lathe
