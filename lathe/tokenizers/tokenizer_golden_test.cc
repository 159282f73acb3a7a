// Compares with stored results of the `tokenizers` package; tools/make_tokenizer_goldens.py,
// make_byte_level_goldens.py and make_unigram_goldens.py write them and the first one explains the kinds of
// cases, whose texts both sides build alike.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "lathe/core/error.h"
#include "lathe/core/sanitized.h"
#include "lathe/core/source_folder_testing.h"
#include "lathe/text/unicode.h"
#include "lathe/tokenizers/golden_tokenizers_testing.h"
#include "lathe/tokenizers/tokenizer.h"
#include "lathe/tokenizers/tokenizer_spec.h"

namespace lathe {
namespace {

using namespace tokenizer_goldens;

/// Which of the texts of a long case are run.  A digest is of all of them, so that it is compared where all
/// are run.
constexpr bool kAllTexts = LATHE_SANITIZED == 0;
bool is_run(size_t n) { return kAllTexts || n % 16 == 0; }

json fields_case(const Tokenizer& t, const std::string& path) {
  Digest digest;
  size_t n = 0;
  for (const std::string& line : split_at(read_file(path), '\n')) {
    if (!is_run(n++)) continue;
    const std::vector<std::string> fields = split_at(line, '\t');
    for (const std::string& field : fields) digest.add(t.encode(field));
    for (size_t i = 0; i + 1 < fields.size(); ++i) {
      digest.add(t.encode_with_overflow(fields[i], fields[i + 1], {.max_length = 48, .stride = 8}));
    }
  }
  return digest.result();
}

json squad_case(const Tokenizer& t, const std::string& path) {
  Digest digest;
  size_t n = 0;
  const json file = json::parse(read_file(path));
  for (const json& article : file["data"]) {
    for (const json& paragraph : article["paragraphs"]) {
      const auto& context = paragraph["context"].get_ref<const std::string&>();
      for (const json& qa : paragraph["qas"]) {
        if (!is_run(n++)) continue;
        auto question = qa["question"].get<std::string>();
        question.erase(0, std::min(question.find_first_not_of(' '), question.size()));
        digest.add(t.encode_with_overflow(question, context, {384, Truncation::kOnlySecond, 128, true}));
      }
    }
  }
  return digest.result();
}

template <typename F>
void for_each_code_point(F f) {
  for (uint32_t cp = 0; cp < 0x110000; ++cp) {
    if (cp == 0xD800) cp = 0xE000;
    if (!is_run(cp)) continue;
    std::string c;
    unicode::append_utf8(cp, &c);
    f(c);
  }
}

json code_points_case(const Tokenizer& t) {
  Digest digest;
  for_each_code_point([&](const std::string& c) {
    digest.add(t.encode("a" + c + "b"));
    digest.add(t.encode(c));
  });
  return digest.result();
}

json normalizer_case(const std::vector<NamedFile>& files) {
  const NormalizerChain normalizer(read_tokenizer_spec(files, "golden").normalizer);
  Digest digest;
  NormalizedText out;
  for_each_code_point([&](const std::string& c) {
    normalizer.run("e\u0323" + c + "\u0301b", 0, &out);
    digest.bytes(out.text);
  });
  return digest.crc();
}

json random_case(const Tokenizer& t) {
  Random random;
  Digest digest;
  for (int row = 0; row < (kAllTexts ? 6000 : 6000 / 16); ++row) {
    const std::string a = random_text(&random), b = random_text(&random);
    const bool pair = random.below(2) == 1;
    EncodeOptions options;
    options.add_special_tokens = random.below(4) > 0;
    options.truncation = static_cast<Truncation>(random.below(4));
    options.max_length = 4 + static_cast<int>(random.below(24));
    options.stride = static_cast<int>(random.below(8));
    try {
      const auto all = pair ? t.encode_with_overflow(a, b, options) : t.encode_with_overflow(a, options);
      digest.add(all);
      EXPECT_EQ(all[0], pair ? t.encode_pair(a, b, options) : t.encode(a, options));
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kUsage);
      digest.bytes("refused");
    }
  }
  return digest.result();
}

json decode_case(const Tokenizer& t) {
  Random random;
  Digest digest;
  for (int row = 0; row < 500; ++row) {
    std::vector<int32_t> ids(random.below(12));
    for (int32_t& id : ids)
      id = static_cast<int32_t>(random.below(static_cast<uint32_t>(t.vocab_size()) + 2));
    digest.bytes(t.decode(ids, random.below(2) == 1));
  }
  return digest.crc();
}

void check_cases(const std::string& kind) {
  std::map<std::string, std::vector<NamedFile>> known;
  int done = 0, skipped = 0;
  for (const json& wanted : goldens()["cases"]) {
    if (wanted["kind"] != kind) continue;
    const auto name = wanted["tokenizer"].get<std::string>();
    const std::string path = data_dir() + "/" + wanted.value("file", "");
    if (!known.contains(name)) known[name] = tokenizer_files(name);
    if (known[name].empty() || (wanted.contains("file") && !std::filesystem::exists(path))) {
      ++skipped;
      continue;
    }
    ++done;
    const Tokenizer t = Tokenizer::from_files(known[name], name);
    json found = kind == "fields"        ? fields_case(t, path)
                 : kind == "squad"       ? squad_case(t, path)
                 : kind == "code_points" ? code_points_case(t)
                 : kind == "normalizer"  ? normalizer_case(known[name])
                 : kind == "random"      ? random_case(t)
                                         : decode_case(t);
    if (!kAllTexts && kind != "decode") continue;
    for (const auto& [key, value] : found.items()) EXPECT_EQ(value, wanted[key]) << wanted;
  }
  if (done == 0 || skipped > 0) {
    GTEST_SKIP() << done << " cases compared, " << skipped << " need files below " << data_dir();
  }
}

TEST(TokenizerGolden, RandomTextsAndOptions) { check_cases("random"); }
TEST(TokenizerGolden, Decoding) { check_cases("decode"); }
TEST(TokenizerGolden, NormalizerOfEveryCodePoint) { check_cases("normalizer"); }
TEST(TokenizerGolden, EveryCodePoint) { check_cases("code_points"); }
TEST(TokenizerGolden, GlueFieldsAndPairs) { check_cases("fields"); }
TEST(TokenizerGolden, SquadAndXquadFeatures) { check_cases("squad"); }

TEST(TokenizerGolden, CompleteEncodings) {
  std::map<std::string, Tokenizer> known;
  bool missing = false;
  for (const json& wanted : goldens()["encodings"]) {
    const auto name = wanted["tokenizer"].get<std::string>();
    if (!known.contains(name)) {
      const auto files = tokenizer_files(name);
      if (!files.empty()) known.emplace(name, Tokenizer::from_files(files, name));
    }
    const auto it = known.find(name);
    missing = missing || it == known.end();
    if (it == known.end()) continue;
    const Tokenizer& t = it->second;
    const Encoding e = t.encode(wanted["text"].get<std::string>());
    EXPECT_EQ(json(e.ids), wanted["ids"]) << wanted;
    EXPECT_EQ(json(e.offsets), wanted["offsets"]) << wanted;
    EXPECT_EQ(t.decode(e.ids), wanted["decoded"].get<std::string>());
    EXPECT_EQ(json::parse(encoding_to_json(e, t))["tokens"], wanted["tokens"]);
  }
  if (missing) GTEST_SKIP() << "needs vocabularies below " << data_dir();
}

}  // namespace
}  // namespace lathe
