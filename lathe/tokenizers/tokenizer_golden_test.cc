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
#include "lathe/tokenizers/tokenizer.h"
#include "lathe/tokenizers/tokenizer_spec.h"

namespace lathe {
namespace {

using nlohmann::json;

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string data_dir() {
  const char* dir = std::getenv("LATHE_DATA_DIR");
  return dir != nullptr ? dir : source_path("../shared/data");
}

const json& goldens() {
  static const json all = [] {
    const std::string folder = source_path("lathe/tokenizers/testdata/");
    json out = json::parse(read_file(folder + "goldens.json"));
    for (const char* name : {"byte_level_goldens.json", "unigram_goldens.json"}) {
      const json more = json::parse(read_file(folder + name));
      out["tokenizers"].update(more["tokenizers"]);
      for (const char* list : {"cases", "encodings"})
        out[list].insert(out[list].end(), more[list].begin(), more[list].end());
      if (more.contains("shared")) out["shared"] = more["shared"];
    }
    return out;
  }();
  return all;
}

/// The tokenizer.json of `rest` with the vocabulary and the merges of the data folder.
std::vector<NamedFile> byte_level_files(const json& source) {
  const std::string vocab = read_file(data_dir() + "/" + source["vocab"].get<std::string>());
  if (vocab.empty()) return {};
  json file = source["rest"];
  file["model"]["vocab"] = json::parse(vocab);
  std::stringstream merges(read_file(data_dir() + "/" + source["merges"].get<std::string>()));
  std::string line;
  std::getline(merges, line);  // the version
  while (std::getline(merges, line))
    if (!line.empty()) file["model"]["merges"].push_back(line);
  return {{"tokenizer.json", file.dump()}};
}

/// A tokenizer.json with what several of them share put back: null in the model, and maps by their key.
std::vector<NamedFile> shared_files(json file) {
  const json& shared = goldens()["shared"];
  json& model = file["model"];
  for (const char* key : {"vocab", "merges"})
    if (model.contains(key) && model[key].is_null())
      model[key] = shared[model["type"].get<std::string>() + "." + key];
  std::string text = file.dump();
  const std::string empty = R"("precompiled_charsmap":"precompiled_charsmap")";
  if (const size_t at = text.find(empty); at != std::string::npos)
    text.replace(at, empty.size(), R"("precompiled_charsmap":)" + shared["precompiled_charsmap"].dump());
  return {{"tokenizer.json", text}};
}

std::vector<NamedFile> tokenizer_files(const std::string& name) {
  const json& source = goldens()["tokenizers"][name];
  if (source.contains("tokenizer.json")) return {{"tokenizer.json", source["tokenizer.json"].dump()}};
  if (source.contains("shared")) return shared_files(source["shared"]);
  if (source.contains("merges")) return byte_level_files(source);
  const std::string folder = data_dir() + "/" + source["folder"].get<std::string>();
  if (!std::filesystem::exists(folder)) return {};
  if (!source.contains("config")) return Tokenizer::load(folder).files();
  return {{"vocab.txt", read_file(folder + "/vocab.txt")},
          {"tokenizer_config.json", source["config"].dump()}};
}

class Digest {
 public:
  Digest() {
    for (uint32_t i = 0; i < 256; ++i) {
      table_[i] = i;
      for (int k = 0; k < 8; ++k) table_[i] = table_[i] >> 1 ^ ((table_[i] & 1) != 0 ? 0xEDB88320u : 0);
    }
  }
  void bytes(std::string_view text) {
    crc_ = ~crc_;
    for (const char c : text) crc_ = crc_ >> 8 ^ table_[(crc_ ^ static_cast<uint8_t>(c)) & 255];
    crc_ = ~crc_;
  }
  void number(int32_t value) {
    const auto u = static_cast<uint32_t>(value);
    const char le[4] = {static_cast<char>(u), static_cast<char>(u >> 8), static_cast<char>(u >> 16),
                        static_cast<char>(u >> 24)};
    bytes({le, 4});
  }
  void add(const Encoding& e) {
    number(static_cast<int32_t>(e.size()));
    for (const int32_t x : e.ids) number(x);
    for (const int32_t x : e.type_ids) number(x);
    for (const auto& [begin, end] : e.offsets) number(begin), number(end);
    for (const int8_t x : e.sequence_ids) number(x);
    for (const int32_t x : e.word_ids) number(x);
    ++encodings_;
    tokens_ += e.size();
  }
  void add(const std::vector<Encoding>& all) {
    for (const Encoding& e : all) add(e);
  }
  json result() const { return {{"encodings", encodings_}, {"tokens", tokens_}, {"crc", crc_}}; }
  json crc() const { return {{"crc", crc_}}; }

 private:
  std::array<uint32_t, 256> table_;
  uint32_t crc_ = 0;
  size_t encodings_ = 0, tokens_ = 0;
};

class Random {
 public:
  uint32_t below(uint32_t n) {
    state_ = state_ * 1664525u + 1013904223u;
    return (state_ >> 16) % n;
  }

 private:
  uint32_t state_ = 1;
};

std::string random_text(Random* random) {
  static const auto alphabet = [] {
    std::vector<std::string> out;
    const auto text = goldens()["alphabet"].get<std::string>();
    for (size_t at = 0; at < text.size();) {
      const size_t begin = at;
      unicode::decode(text, &at);
      out.push_back(text.substr(begin, at - begin));
    }
    return out;
  }();
  static const auto literals = goldens()["literals"].get<std::vector<std::string>>();
  std::string out;
  for (uint32_t n = random->below(40); n > 0; --n) {
    const auto& from = random->below(8) == 0 ? literals : alphabet;
    out += from[random->below(static_cast<uint32_t>(from.size()))];
  }
  return out;
}

std::vector<std::string> split(const std::string& text, char by) {
  std::vector<std::string> out;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(by, begin), text.size());
    out.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

/// Which of the texts of a long case are run.  A digest is of all of them, so that it is compared where all
/// are run.
constexpr bool kAllTexts = LATHE_SANITIZED == 0;
bool is_run(size_t n) { return kAllTexts || n % 16 == 0; }

json fields_case(const Tokenizer& t, const std::string& path) {
  Digest digest;
  size_t n = 0;
  for (const std::string& line : split(read_file(path), '\n')) {
    if (!is_run(n++)) continue;
    const std::vector<std::string> fields = split(line, '\t');
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
