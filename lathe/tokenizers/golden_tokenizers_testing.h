#pragma once
// What stored results of the `tokenizers` package are compared with: the tokenizers by their names in
// testdata, made-up texts and digests, as tools/make_tokenizer_goldens.py makes them.
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "lathe/core/source_folder_testing.h"
#include "lathe/text/unicode.h"
#include "lathe/tokenizers/tokenizer.h"

namespace lathe::tokenizer_goldens {

using nlohmann::json;

inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::string data_dir() {
  const char* dir = std::getenv("LATHE_DATA_DIR");
  return dir != nullptr ? dir : source_path("../shared/data");
}

inline const json& goldens() {
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
inline std::vector<NamedFile> byte_level_files(const json& source) {
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
inline std::vector<NamedFile> shared_files(json file) {
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

inline std::vector<NamedFile> tokenizer_files(const std::string& name) {
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

inline std::string random_text(Random* random) {
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

inline std::vector<std::string> split_at(const std::string& text, char by) {
  std::vector<std::string> out;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(by, begin), text.size());
    out.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

}  // namespace lathe::tokenizer_goldens
