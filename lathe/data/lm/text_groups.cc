#include "lathe/data/lm/text_groups.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "lathe/core/error.h"
#include "lathe/data/parallel_parts.h"
#include "lathe/text/text.h"

namespace lathe {
namespace {

constexpr int64_t kMapBatch = 1000;  // rows that Dataset.map hands to a function at once
constexpr int kLongestByDefault = 1024;

void append(TextRows& to, const TextRows& part) {
  const int64_t offset = to.begins.back();
  to.ids.insert(to.ids.end(), part.ids.begin(), part.ids.end());
  to.special.insert(to.special.end(), part.special.begin(), part.special.end());
  for (int64_t i = 0; i < part.size(); ++i) to.begins.push_back(offset + part.begins[i + 1]);
  to.cut_rows += part.cut_rows;
}

}  // namespace

std::vector<std::string_view> lines_of(std::string_view file) {
  std::vector<std::string_view> lines;
  while (!file.empty()) {
    const size_t end = std::min(file.find_first_of("\r\n"), file.size());
    lines.push_back(file.substr(0, end));
    const size_t mark = file.substr(end, 2) == "\r\n" ? 2 : 1;
    file.remove_prefix(std::min(end + mark, file.size()));
  }
  return lines;
}

ValidationSplit split_validation(int64_t rows, int percent) {
  if (percent < 0 || percent > 100)
    fail(ErrorCode::kUsage, "--validation_split_percentage: expected 0 to 100, found {}", percent);
  const auto border = static_cast<int64_t>(std::nearbyint(static_cast<double>(percent * rows) / 100.0));
  return {{0, border}, {border, rows}};
}

int sequence_length(int wanted, int model_max_length) {
  if (wanted < 0) fail(ErrorCode::kUsage, "--max_seq_length: expected 1 or more, found {}", wanted);
  return std::min(wanted == 0 ? kLongestByDefault : wanted, model_max_length);
}

std::vector<std::string_view> texts_with_words(std::span<const std::string_view> texts) {
  std::vector<std::string_view> out;
  std::copy_if(texts.begin(), texts.end(), std::back_inserter(out),
               [](std::string_view text) { return !lstrip(text).empty(); });
  return out;
}

TextRows tokenize_texts(std::span<const std::string_view> texts, const Tokenizer& tokenizer, int max_length,
                        ThreadPool& pool) {
  const EncodeOptions options{.max_length = max_length};
  const auto parts =
      parallel_parts<TextRows>(pool, static_cast<long>(texts.size()), [&](long begin, long end) {
        TextRows part;
        for (long i = begin; i < end; ++i) {
          const Encoding encoding = tokenizer.encode(texts[static_cast<size_t>(i)], options);
          part.ids.insert(part.ids.end(), encoding.ids.begin(), encoding.ids.end());
          for (const int8_t sequence : encoding.sequence_ids) part.special.push_back(sequence < 0);
          part.begins.push_back(static_cast<int64_t>(part.ids.size()));
          part.cut_rows += encoding.whole > encoding.size();
        }
        return part;
      });
  TextRows out;
  for (const TextRows& part : parts) append(out, part);
  return out;
}

TextRows group_texts(const TextRows& texts, int length) {
  if (length < 1)
    fail(ErrorCode::kUsage, "--max_seq_length: expected samples of 1 token or more, found {}", length);
  TextRows out;
  for (int64_t first = 0; first < texts.size(); first += kMapBatch) {
    const int64_t begin = texts.begins[first];
    const int64_t samples = (texts.begins[std::min(first + kMapBatch, texts.size())] - begin) / length;
    const auto whole = [&](const auto& from, auto& to) {
      to.insert(to.end(), from.begin() + begin, from.begin() + begin + samples * length);
    };
    whole(texts.ids, out.ids);
    whole(texts.special, out.special);
    for (int64_t i = 0; i < samples; ++i) out.begins.push_back(out.begins.back() + length);
  }
  return out;
}

}  // namespace lathe
